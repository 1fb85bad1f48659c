//! The mirror of Debian's archive that this machine uses, as apt's sources name it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Names of Debian's releases, by which its archive is told from others.
const RELEASES: &[&str] = &[
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
];

/// Where the archive is, and what makes it trusted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mirror {
    uri: String,
    /// Fields of an entry of apt's sources: `Signed-By`, perhaps with a whole key, and `Trusted`.
    trust: Vec<(&'static str, String)>,
}

impl Mirror {
    /// As the files under `etc`, which is `/etc/apt`, have it.
    pub(super) fn configured(etc: &Path) -> Result<Mirror> {
        let files = source_files(etc);
        let mut texts = files.iter().filter_map(|file| {
            let text = fs::read_to_string(file).ok()?;
            Some((file.extension().is_some_and(|extension| extension == "sources"), text))
        });
        let found = texts.find_map(
            |(stanzas, text)| {
                if stanzas { in_stanzas(&text) } else { in_lines(&text) }
            },
        );
        found.with_context(|| {
            format!(
                "no source under {} is Debian's archive, where kernels come from: add one, \
                 with a suite such as trixie and the component main",
                etc.display()
            )
        })
    }

    /// An entry of apt's sources for another suite of the same archive.
    pub(super) fn entry(&self, suite: &str) -> String {
        let mut entry = format!(
            "Types: deb\nURIs: {}\nSuites: {suite}\nComponents: main\nTargets: Packages\n",
            self.uri
        );
        for (field, value) in &self.trust {
            entry += &format!("{field}: {value}\n");
        }
        entry + "\n"
    }
}

/// The files in apt's order: `sources.list`, then what lies in `sources.list.d`.
fn source_files(etc: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(etc.join("sources.list.d"));
    let mut parts: Vec<PathBuf> =
        entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    parts.retain(|file| {
        file.extension().is_some_and(|extension| extension == "list" || extension == "sources")
    });
    parts.sort();
    parts.insert(0, etc.join("sources.list"));
    parts
}

fn is_debian(suites: &str, components: &str) -> bool {
    // Security updates and their like are archives of their own.
    let is_release = |suite: &str| RELEASES.contains(&suite.trim_end_matches("-backports"));
    suites.split_whitespace().any(is_release) && components.split_whitespace().any(|c| c == "main")
}

/// `deb [signed-by=FILE] URI SUITE COMPONENT…`
fn in_lines(text: &str) -> Option<Mirror> {
    text.lines().find_map(|line| {
        let line = line.split('#').next().unwrap_or_default().trim();
        let rest = line.strip_prefix("deb")?;
        let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => ("", rest),
        };
        let mut words = rest.split_whitespace();
        let (uri, suite) = (words.next()?, words.next()?);
        let components = words.collect::<Vec<_>>().join(" ");
        let trust = options.split_whitespace().filter_map(|option| {
            let (key, value) = option.split_once('=')?;
            Some((trust_field(key)?, value.replace(',', " ")))
        });
        is_debian(suite, &components)
            .then(|| Mirror { uri: uri.to_string(), trust: trust.collect() })
    })
}

/// Entries of several lines, `Field: value`, an empty line after each; a line that begins with a
/// blank goes on with the field before.
fn in_stanzas(text: &str) -> Option<Mirror> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.split(|line| line.trim().is_empty()).find_map(|stanza| {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in stanza {
            match fields.last_mut() {
                Some((_, value)) if line.starts_with([' ', '\t']) => {
                    *value += &format!("\n{line}");
                }
                _ => {
                    let (field, value) = line.split_once(':')?;
                    fields.push((field.trim().to_lowercase(), value.trim().to_string()));
                }
            }
        }
        let get = |wanted: &str| {
            let field = fields.iter().find(|(field, _)| field == wanted);
            field.map_or("", |(_, value)| value.as_str())
        };
        let usable = get("types").split_whitespace().any(|kind| kind == "deb")
            && !["no", "false"].contains(&get("enabled").to_lowercase().as_str())
            && is_debian(get("suites"), get("components"));
        let uri = get("uris").split_whitespace().next().filter(|_| usable)?;
        let trust = fields
            .iter()
            .filter_map(|(field, value)| Some((trust_field(field)?, value.clone())))
            .collect();
        Some(Mirror { uri: uri.to_string(), trust })
    })
}

fn trust_field(key: &str) -> Option<&'static str> {
    match key.to_lowercase().as_str() {
        "signed-by" => Some("Signed-By"),
        "trusted" => Some("Trusted"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_mirror_and_its_keyring() {
        let text = "# deb http://old.example/debian trixie main\n\
                    deb-src http://src.example/debian trixie main\n\
                    deb https://other.example/apt tool-bookworm main\n\
                    deb http://security.example/debian-security trixie-security main\n\
                    deb [ arch=amd64 signed-by=/k.gpg,/l.gpg ] http://mirror.example/debian trixie \
                    contrib main # ours\n";
        let mirror = in_lines(text).unwrap();
        let trust = vec![("Signed-By", "/k.gpg /l.gpg".to_string())];
        assert_eq!(mirror, Mirror { uri: "http://mirror.example/debian".into(), trust });
        assert_eq!(in_lines("deb http://ubuntu.example/ubuntu noble main"), None);
        assert_eq!(in_lines("deb [broken http://mirror.example/debian trixie main"), None);
    }

    #[test]
    fn a_stanza_names_the_mirror_and_may_hold_a_key() {
        let text = "Types: deb\nURIs: http://off.example/debian\nSuites: sid\n\
                    Components: main\nEnabled: no\n\n\
                    Types: deb deb-src\n# a mirror\n\
                    URIs: http://mirror.example/debian/ http://b.example\n\
                    Suites: bookworm bookworm-updates\nComponents: main\n\
                    Signed-By:\n KEY\n .\n MORE\n";
        let mirror = in_stanzas(text).unwrap();
        let entry = mirror.entry("sid");
        assert!(entry.contains("URIs: http://mirror.example/debian/\nSuites: sid\n"), "{entry}");
        assert!(entry.contains("Signed-By: \n KEY\n .\n MORE\n"), "{entry}");
        assert_eq!(in_stanzas("Types: deb\nno field\n"), None);
    }

    #[test]
    fn a_machine_without_debians_archive_is_told_what_it_needs() {
        let error = Mirror::configured(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent") && error.contains("add one"), "{error}");
    }
}
