//! Files that a command will write, looked at before it does any work.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use prorata_sim::export::{can_replace, directory};

/// Whether all `outputs` can be written, none of them over another or over one of the `inputs`.
pub(super) fn check<'p>(
    inputs: impl IntoIterator<Item = &'p Path>,
    outputs: impl IntoIterator<Item = &'p Path>,
) -> anyhow::Result<()> {
    let inputs: Vec<PathBuf> =
        inputs.into_iter().filter_map(|path| path.canonicalize().ok()).collect();
    let mut seen: Vec<(PathBuf, &Path)> = Vec::new();
    for path in outputs {
        let name = path.display();
        let place = place(path)?;
        ensure!(!place.is_dir(), "cannot write {name}: it is a directory; name a file in it");
        ensure!(
            !inputs.contains(&place),
            "cannot write {name}: that is the input, and would be lost; name another file with --output"
        );
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == place) {
            bail!(
                "cannot write {name}: output {} goes there too; give each output a file of its own",
                other.display()
            );
        }
        seen.push((place, path));
    }
    Ok(())
}

/// Where `path` leads, in a directory that files can be made in.
fn place(path: &Path) -> anyhow::Result<PathBuf> {
    let name = path.display();
    let directory = directory(path);
    ensure!(directory.is_dir(), "cannot write {name}: there is no such directory; make it first");
    can_replace(path).with_context(|| {
        format!("cannot write {name}: no file can be made in its directory; choose another")
    })?;
    let by_name = || Ok(directory.canonicalize()?.join(path.file_name().unwrap_or_default()));
    path.canonicalize().or_else(|_| by_name()).map_err(|error: std::io::Error| {
        anyhow::Error::new(error).context(format!("cannot write {name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_output_goes_over_another_or_over_an_input() {
        let directory = tempfile::tempdir().expect("a directory");
        let in_it = |name: &str| directory.path().join(name);
        let (input, link, output) = (in_it("in.csv"), in_it("link.csv"), in_it("out.csv"));
        std::fs::write(&input, "").expect("written");
        std::os::unix::fs::symlink(&input, &link).expect("a link");
        let refused = |outputs: &[&Path]| {
            let error = check([input.as_path()], outputs.iter().copied()).expect_err("refused");
            format!("{error:#}")
        };
        assert!(check([input.as_path()], [output.as_path(), &in_it("other.csv")]).is_ok());
        assert!(refused(&[&output, &in_it("./out.csv")]).contains("give each output"));
        assert!(refused(&[&input]).contains("in.csv: that is the input"));
        assert!(refused(&[&link]).contains("link.csv: that is the input"));
        assert!(refused(&[directory.path()]).contains("it is a directory"));
        assert!(refused(&[&in_it("nowhere/x.csv")]).contains("no such directory"));
        assert!(refused(&[Path::new("/proc/x.csv")]).contains("choose another"));
    }
}
