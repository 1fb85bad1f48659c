//! A figure's files: data as CSV and JSON, picture as SVG. Each is written under another name and
//! then renamed: what stands under a final name is whole.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Figure, FigureError, Report, Request, Row, Study};

/// Writes NAME.csv, NAME.json and NAME.svg.
pub(super) fn write(
    figure: &Figure,
    study: &dyn Study,
    report: &Report,
    directory: &Path,
) -> Result<(), FigureError> {
    let file = |extension| path_of(&report.figure, directory, extension);
    let data = serde_json::to_string(&data(report)).expect("plain data") + "\n";
    replace(&file("csv"), &csv(&report.rows))?;
    replace(&file("json"), &data)?;
    draw(figure, study, report, directory)
}

/// Writes NAME.svg.
pub(super) fn draw(
    figure: &Figure,
    study: &dyn Study,
    report: &Report,
    directory: &Path,
) -> Result<(), FigureError> {
    let title = format!("{} — {}", figure.source, figure.title);
    let picture = study
        .draw(&title, &report.rows)
        .map_err(|reason| FigureError::Drawing { figure: figure.name, reason })?;
    replace(&path_of(&report.figure, directory, "svg"), &picture)
}

fn path_of(name: &str, directory: &Path, extension: &str) -> PathBuf {
    directory.join(format!("{name}.{extension}"))
}

/// Puts `text` into the file at `path`, wholly or not at all.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), FigureError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".part");
    let written = std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|source| {
        let _ = std::fs::remove_file(&temporary);
        FigureError::File { verb: "write", path: path.to_path_buf(), source }
    })
}

/// The report as one JSON object: `figure, sets, seed, seconds, cpu_seconds, decisions, rows`.
#[must_use]
pub fn object(report: &Report) -> Value {
    let mut object = data(report);
    let rows = object.as_object_mut().and_then(|object| object.remove("rows"));
    object["seconds"] = json!(report.seconds);
    object["cpu_seconds"] = json!(report.cpu_seconds);
    object["rows"] = rows.unwrap_or_default();
    object
}

/// What depends on figure, sets and seed alone.
fn data(report: &Report) -> Value {
    json!({
        "figure": report.figure,
        "sets": report.sets,
        "seed": report.seed,
        "decisions": report.decisions,
        "rows": report.rows.iter().map(row_object).collect::<Vec<_>>(),
    })
}

fn row_object(row: &Row) -> Value {
    let mut object = Map::new();
    for (name, coordinate) in &row.coordinates {
        object.insert(name.clone(), json!(coordinate));
    }
    for (name, value) in &row.measures {
        object.insert(name.clone(), json!(value));
    }
    if !row.printed.is_empty() {
        let printed: Map<_, _> = row.printed.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        object.insert("printed".to_string(), Value::Object(printed));
    }
    Value::Object(object)
}

/// Rows as CSV with a header line; a column `printed_X` for every measure X that the paper prints
/// somewhere.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let printed: Vec<&String> = first
        .measures
        .iter()
        .map(|(name, _)| name)
        .filter(|&name| rows.iter().any(|row| row.printed.iter().any(|(key, _)| key == name)))
        .collect();
    let names = first.coordinates.iter().map(|(name, _)| name.clone());
    let names = names.chain(first.measures.iter().map(|(name, _)| name.clone()));
    let names = names.chain(printed.iter().map(|name| format!("printed_{name}")));
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write =
        |cells: Vec<String>| writer.write_record(cells).expect("rows of one length, in memory");
    write(names.collect());
    for row in rows {
        let found = |name: &String| row.printed.iter().find(|(key, _)| key == name);
        let cells = row.coordinates.iter().map(|(_, coordinate)| coordinate.to_string());
        let cells = cells.chain(row.measures.iter().map(|(_, value)| value.to_string()));
        let cells = cells.chain(
            printed.iter().map(|name| found(name).map_or(String::new(), |p| p.1.to_string())),
        );
        write(cells.collect());
    }
    String::from_utf8(writer.into_inner().expect("in memory")).expect("cells are text")
}

/// The report of an earlier run with the same figure, sets and seed, if its files are whole. It
/// took no time.
#[must_use]
pub fn stored(request: &Request<'_>) -> Option<Report> {
    let report = read(&request.name(), request.directory)?;
    let same = report.sets == request.sets() && report.seed == request.seed;
    same.then_some(report)
}

/// What NAME.json in `directory` holds, if it is there and whole, and the other files are there.
pub(super) fn read(name: &str, directory: &Path) -> Option<Report> {
    let file = |extension| path_of(name, directory, extension);
    if !file("csv").exists() || !file("svg").exists() {
        return None;
    }
    let data: Value = serde_json::from_slice(&std::fs::read(file("json")).ok()?).ok()?;
    let rows = data["rows"].as_array()?.iter().map(row_of).collect::<Option<_>>()?;
    Some(Report {
        figure: name.to_string(),
        sets: u32::try_from(data["sets"].as_u64()?).ok()?,
        seed: data["seed"].as_u64()?,
        seconds: 0.0,
        cpu_seconds: 0.0,
        decisions: data["decisions"].as_u64()?,
        rows,
    })
}

/// The row that [`row_object`] made into `object`: measures are the numbers with a fraction.
fn row_of(object: &Value) -> Option<Row> {
    let mut row = Row::default();
    for (name, value) in object.as_object()? {
        let name = name.clone();
        match value {
            Value::Object(printed) => {
                let value = |(k, v): (&String, &Value)| Some((k.clone(), v.as_f64()?));
                row.printed = printed.iter().map(value).collect::<Option<_>>()?;
            }
            Value::Number(number) if number.is_f64() => {
                row.measures.push((name, number.as_f64()?));
            }
            _ => row.coordinates.push((name, serde_json::from_value(value.clone()).ok()?)),
        }
    }
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::super::REGISTRY;
    use super::*;

    fn golden() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../figures")
    }

    /// Header and cells; an error where a row has more or fewer cells than the header.
    fn parse(text: &str) -> csv::Result<Vec<Vec<String>>> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
        let cells = |row: csv::StringRecord| row.iter().map(String::from).collect();
        reader.records().map(|row| row.map(cells)).collect()
    }

    /// What the cells of a row of `report` must hold: a name, a number, or nothing.
    fn check(row: &Row, header: &[String], cells: &[String], place: &str) {
        let number = |cell: &str| cell.parse::<f64>().unwrap_or_else(|_| panic!("{place}: {cell}"));
        for (name, cell) in header.iter().zip(cells) {
            if let Some((_, coordinate)) = row.coordinates.iter().find(|(key, _)| key == name) {
                assert_eq!(*cell, coordinate.to_string(), "{place}");
            } else if let Some((_, value)) = row.measures.iter().find(|(key, _)| key == name) {
                assert_eq!(number(cell).to_bits(), value.to_bits(), "{place}");
            } else {
                let name = name.strip_prefix("printed_").expect("no other columns");
                let printed = row.printed.iter().find(|(key, _)| key == name);
                let read = (!cell.is_empty()).then(|| number(cell));
                assert_eq!(read, printed.map(|(_, value)| *value), "{place}");
            }
        }
    }

    #[test]
    fn every_golden_csv_holds_the_rows_of_its_json() {
        for figure in REGISTRY {
            let report = read(figure.name, &golden()).expect(figure.name);
            let text =
                std::fs::read_to_string(path_of(figure.name, &golden(), "csv")).expect("text");
            let lines = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", figure.name));
            assert_eq!(lines.len(), 1 + report.rows.len(), "{}", figure.name);
            for (index, (row, cells)) in report.rows.iter().zip(&lines[1..]).enumerate() {
                check(row, &lines[0], cells, &format!("{}, row {index}", figure.name));
            }
            assert_eq!(csv(&report.rows), text, "{} would be written otherwise", figure.name);
        }
    }

    #[test]
    fn names_with_commas_and_quotes_are_quoted() {
        let rows = [Row::default().at("policy", "gr3, 2 \"cpus\"").at("tasks", 5).with("ns", 1.5)];
        let text = csv(&rows);
        assert_eq!(text, "policy,tasks,ns\n\"gr3, 2 \"\"cpus\"\"\",5,1.5\n");
        let lines = parse(&text).expect("well formed");
        check(&rows[0], &lines[0], &lines[1], "row 0");
        assert!(parse("policy,tasks,ns\ngr3, 2 cpus,5,1.5\n").is_err(), "it must not be quoted");
    }
}
