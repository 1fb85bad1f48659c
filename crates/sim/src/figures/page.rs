//! One HTML page with all pictures of a directory, what the papers print beside what we measured,
//! and why they differ where they do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use super::agreement::{Comparison, comparisons};
use super::{Figure, FigureError, REGISTRY, Report, files};

/// Writes index.html over the figures whose files are in `directory`, and draws their pictures
/// anew.
///
/// # Errors
/// When the page or a picture cannot be written.
pub fn write_page(directory: &Path) -> Result<(), FigureError> {
    let found = |figure: &'static Figure| Some((figure, files::read(figure.name, directory)?));
    let figures: Vec<(&Figure, Report)> = REGISTRY.iter().filter_map(found).collect();
    for (figure, report) in &figures {
        files::draw(figure, &*(figure.study)(), report, directory)?;
    }
    files::replace(&directory.join("index.html"), &page(&figures, &stamps(directory)))
}

/// Where a figure comes from, as `cargo xtask figures` notes it.
#[derive(Deserialize)]
struct Stamp {
    commit: String,
    processor: String,
    cpu_seconds: f64,
}

/// By figure; nothing where nobody keeps stamps.
type Stamps = BTreeMap<String, Stamp>;

fn stamps(directory: &Path) -> Stamps {
    let text = std::fs::read_to_string(directory.join("stamps.json"));
    text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Of which commit the figure is.
fn origin(name: &str, stamps: &Stamps) -> Option<String> {
    if stamps.is_empty() {
        return None;
    }
    Some(match stamps.get(name) {
        Some(Stamp { commit, processor, cpu_seconds }) => {
            let (commit, processor) =
                (escape(commit.get(..10).unwrap_or(commit)), escape(processor));
            format!("Of commit {commit}: {cpu_seconds:.1} s of one {processor}.")
        }
        None => "Of a commit before figures were stamped.".to_string(),
    })
}

const STYLE: &str = "\
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem;\
 color: #222; background: #fff }
h1 { font-size: 1.7rem } h2 { font-size: 1.25rem; margin-top: 3rem }
img { max-width: 100%; height: auto; border: 1px solid #ddd }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { text-align: left; padding: .15rem 1rem .15rem 0; border-bottom: 1px solid #eee }
td.number { text-align: right; font-variant-numeric: tabular-nums }
p { max-width: 60rem } .source { color: #666 }
";

fn page(figures: &[(&Figure, Report)], stamps: &Stamps) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    out += "<title>The papers' figures, reproduced</title>\n";
    let _ = write!(out, "<style>\n{STYLE}</style>\n");
    out += "<h1>The papers' figures, reproduced</h1>\n";
    out += "<p>Every figure is computed by <code>prorata figure NAME</code> with the policies of the \
            library; the errors of WRR, WFQ and SFQ in closed forms, which tests hold to be equal to \
            the policies' decisions. Red in a picture is what the paper prints. Errors are \
            in quanta: positive is ahead of the ideal, negative behind it.";
    if !stamps.is_empty() {
        out += " Each figure tells of which commit it is; <code>cargo xtask figures</code> tells what has \
                changed since then.";
    }
    out += "</p>\n";
    summary(&mut out, figures);
    out += "<ul>\n";
    for (figure, _) in figures {
        let (name, title) = (figure.name, escape(figure.title));
        let _ = writeln!(out, "<li><a href=\"#{name}\">{name}</a>: {title}</li>");
    }
    out += "</ul>\n";
    for (figure, report) in figures {
        section(&mut out, figure, report, origin(figure.name, stamps));
    }
    out += "</html>\n";
    out
}

/// All that the papers print, beside ours.
fn summary(out: &mut String, figures: &[(&Figure, Report)]) {
    *out += "<h2 id=\"all\">What the papers print, beside ours</h2>\n<table>\n<tr><th>figure</th>\
             <th>measure</th><th>measured</th><th>printed</th><th>where</th></tr>\n";
    for (Figure { name, .. }, report) in figures {
        for comparison in comparisons(&report.rows) {
            let cells = cells(&comparison);
            let _ = writeln!(out, "<tr><td><a href=\"#{name}\">{name}</a></td>{cells}</tr>");
        }
    }
    *out += "</table>\n";
}

fn section(out: &mut String, figure: &Figure, report: &Report, origin: Option<String>) {
    let (name, title, source) = (figure.name, escape(figure.title), escape(figure.source));
    let _ = writeln!(out, "<h2 id=\"{name}\">{title}</h2>\n<p class=\"source\">{source}.");
    let Report { sets, seed, .. } = report;
    if (figure.study)().is_measurement() {
        let _ = writeln!(out, "The least of {sets} rounds; seed of the weights {seed}.");
    } else {
        if *sets > 1 {
            let _ = writeln!(out, "{sets} random sets a point, seed {seed}.");
        }
        if *sets < figure.sets {
            let _ = writeln!(out, "The paper ran {}.", figure.sets);
        }
    }
    if report.decisions > 0 {
        let _ = writeln!(out, "{} decisions.", grouped(report.decisions));
    }
    if let Some(origin) = origin {
        let _ = writeln!(out, "{origin}");
    }
    let _ = writeln!(out, "<a href=\"{name}.csv\">CSV</a>, <a href=\"{name}.json\">JSON</a></p>");
    let _ = writeln!(out, "<p><img src=\"{name}.svg\" alt=\"{title}\"></p>");
    let comparisons = comparisons(&report.rows);
    if !comparisons.is_empty() {
        *out +=
            "<table>\n<tr><th>measure</th><th>measured</th><th>printed</th><th>where</th></tr>\n";
        for comparison in &comparisons {
            let _ = writeln!(out, "<tr>{}</tr>", cells(comparison));
        }
        *out += "</table>\n";
    }
    let _ = writeln!(out, "<p>{}</p>", escape(figure.remarks));
}

fn cells(comparison: &Comparison) -> String {
    let Comparison { subject, measure, measured, printed } = comparison;
    let (subject, measure) = (escape(subject), escape(&measure.replace('_', " ")));
    format!(
        "<td>{measure}</td><td class=\"number\">{measured:.3}</td>\
         <td class=\"number\">{printed}</td><td>{subject}</td>"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// With the thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_golden_page_is_what_would_be_written() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../figures");
        let read = |figure: &'static Figure| {
            files::read(figure.name, &golden).map(|report| (figure, report))
        };
        let figures: Vec<(&Figure, Report)> = REGISTRY.iter().filter_map(read).collect();
        let text = std::fs::read_to_string(golden.join("index.html")).expect("text");
        let page = page(&figures, &stamps(&golden));
        assert!(page == text, "`prorata figure --page --output figures` writes it anew");
    }

    #[test]
    fn rounds_of_measurements_are_no_random_sets() {
        let report = |figure: &Figure| Report {
            figure: figure.name.to_string(),
            sets: 20,
            seed: 1,
            seconds: 0.0,
            cpu_seconds: 0.0,
            decisions: 0,
            rows: Vec::new(),
        };
        for figure in REGISTRY {
            let text = page(&[(figure, report(figure))], &Stamps::new());
            let is_cost = ["gr3-12", "gr3-13", "vtrr-3", "gdq-3"].contains(&figure.name);
            assert_eq!(text.contains("The least of 20 rounds"), is_cost, "{}", figure.name);
            assert_eq!(text.contains("20 random sets"), !is_cost, "{}", figure.name);
        }
    }

    #[test]
    fn who_keeps_stamps_is_told_which_figures_have_none() {
        let stamp = |commit: &str| Stamp {
            commit: commit.to_string(),
            processor: "A & B".to_string(),
            cpu_seconds: 2.25,
        };
        let stamps = Stamps::from([("dfs-4".to_string(), stamp("0123456789abcdef"))]);
        let known = origin("dfs-4", &stamps);
        assert_eq!(known.as_deref(), Some("Of commit 0123456789: 2.2 s of one A &amp; B."));
        assert!(origin("dfs-5", &stamps).is_some_and(|text| text.contains("before")));
        assert_eq!(origin("dfs-5", &Stamps::new()), None);
    }
}
