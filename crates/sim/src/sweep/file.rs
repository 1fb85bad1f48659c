//! The file that says what to sweep over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use prorata::policies::{self, BuildError};
use serde::Deserialize;
use toml::{Table, Value};

use super::keys;
use super::measures::measures;
use super::{MAX_RUNS, Point, Setting, Sweep, SweepError};
use crate::workload::{Workload, WorkloadError, from_table, parse_toml, text_of};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    workload: Option<Value>,
    #[serde(default)]
    policies: Vec<String>,
    seeds: Option<Value>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    measures: Vec<String>,
    confidence: Option<Value>,
    #[serde(default)]
    grid: Table,
}

const NINETY_FIVE_PERCENT: f64 = 0.95;

/// What is summed up unless the file says otherwise.
pub(super) const DEFAULT_MEASURES: [&str; 5] =
    ["error_min", "error_max", "least_percent", "jobs_missed_percent", "wakeup_p99_ns"];

impl Sweep {
    /// The sweep in the file at `path`, with the workload that it names.
    ///
    /// # Errors
    /// When a file cannot be read, or says what cannot be done.
    pub fn load(path: &Path) -> Result<Sweep, SweepError> {
        let mut table = syntax(&read(path)?.map_err(|error| SweepError::at("", error))?)?;
        let mut workload_file = None;
        if let Some(Value::String(name)) = table.get("workload") {
            let place = path.parent().unwrap_or(Path::new("")).join(name);
            let workload = workload_in(&place).map_err(|error| match error {
                SweepError::Bad { key, message } if key.is_empty() => {
                    SweepError::at(place.display(), message)
                }
                error => error,
            })?;
            table.insert("workload".into(), Value::Table(workload));
            workload_file = Some(place);
        }
        Ok(Sweep { workload_file, ..Sweep::new(table)? })
    }

    /// The sweep in `text`, which holds its workload as a table: what [`Sweep::text`] gives.
    ///
    /// # Errors
    /// When it is no sweep, or says what cannot be done.
    pub fn parse(text: &str) -> Result<Sweep, SweepError> {
        Sweep::new(syntax(text)?)
    }

    fn new(table: Table) -> Result<Sweep, SweepError> {
        let text = toml::to_string(&table).map_err(|error| SweepError::at("", error))?;
        let file: File = table.try_into().map_err(|error| SweepError::at("", error))?;
        let Some(Value::Table(base)) = &file.workload else {
            let remedy =
                "name a .toml file beside this one, or write [workload] and what such a file holds";
            return Err(SweepError::at("workload", remedy));
        };
        let seed =
            from_table(base.clone()).map_err(|error| SweepError::at("workload", error))?.seed;
        let seeds = seeds(file.seeds.as_ref(), seed)?;
        let points = points(base, &file.grid)?;
        let confidence = confidence(file.confidence.as_ref())?;
        let chosen = match file.measures.as_slice() {
            [] => DEFAULT_MEASURES.map(String::from).to_vec(),
            measures => measures.to_vec(),
        };
        let sweep = Sweep {
            text: Some(text),
            workload_file: None,
            points,
            policies: file.policies,
            seeds,
            measures: measures(&file.groups),
            groups: file.groups,
            chosen,
            confidence,
        };
        sweep.check()?;
        Ok(sweep)
    }

    /// A sweep over nothing but policies and seeds.
    ///
    /// # Errors
    /// When a policy is none, or is named twice.
    pub fn of_workload(
        workload: Workload,
        policies: Vec<String>,
        seeds: Vec<u64>,
    ) -> Result<Sweep, SweepError> {
        let sweep = Sweep {
            text: None,
            workload_file: None,
            points: vec![Point { settings: Vec::new(), workload }],
            policies,
            seeds,
            groups: Vec::new(),
            measures: measures(&[]),
            chosen: DEFAULT_MEASURES.map(String::from).to_vec(),
            confidence: NINETY_FIVE_PERCENT,
        };
        sweep.check()?;
        Ok(sweep)
    }

    fn check(&self) -> Result<(), SweepError> {
        let runs = self.points.len().checked_mul(self.policies.len());
        if runs.and_then(|n| n.checked_mul(self.seeds.len())).is_none_or(|runs| runs > MAX_RUNS) {
            let message = format!(
                "it has more than {MAX_RUNS} runs: take fewer seeds, policies or values of the grid"
            );
            return Err(SweepError::at("", message));
        }
        distinct("policies", &self.policies)?;
        if self.seeds.is_empty() {
            return Err(SweepError::at("seeds", "there are none: give at least one"));
        }
        if self.seeds.iter().collect::<BTreeSet<_>>().len() < self.seeds.len() {
            return Err(SweepError::at("seeds", "one is there twice: give each once"));
        }
        unique("groups", &self.groups)?;
        unique("measures", &self.chosen)?;
        self.check_groups()?;
        self.check_policies()?;
        for name in &self.chosen {
            if !self.measures.iter().any(|measure| measure.name == *name) {
                let names: Vec<&str> = self.measures.iter().map(|m| m.name.as_str()).collect();
                let message =
                    format!("no measure is called '{name}'; there are {}", names.join(" "));
                return Err(SweepError::at("measures", message));
            }
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<(), SweepError> {
        let known =
            |point: &Point, name: &str| point.workload.groups.iter().any(|g| g.name == name);
        let missing = |name: &&String| !self.points.iter().all(|point| known(point, name));
        match self.groups.iter().find(missing) {
            None => Ok(()),
            Some(name) => {
                let groups = self.points.first().into_iter().flat_map(|p| &p.workload.groups);
                let names: Vec<&str> = groups.map(|group| group.name.as_str()).take(20).collect();
                let message = format!("no task of the workload is called '{name}'; there are");
                Err(SweepError::at("groups", format!("{message} {}", names.join(", "))))
            }
        }
    }

    /// A policy for one cpu may meet several: its runs there say so.
    fn check_policies(&self) -> Result<(), SweepError> {
        let mut seen = BTreeSet::new();
        for Point { workload, .. } in &self.points {
            if !seen.insert((workload.machine.cpus, workload.machine.quantum_ns)) {
                continue;
            }
            for policy in &self.policies {
                match policies::build(policy, &workload.setup()) {
                    Ok(_) | Err(BuildError::OneCpuOnly(_)) => {}
                    Err(error @ BuildError::UnknownPolicy(_)) => {
                        return Err(SweepError::at("policies", error));
                    }
                    Err(error) => {
                        return Err(SweepError::at("policies", format!("{policy}: {error}")));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The text of a file, if it is one.
fn read(path: &Path) -> Result<Result<String, WorkloadError>, SweepError> {
    let bytes = std::fs::read(path);
    let bytes = bytes.map_err(|source| SweepError::Read { path: PathBuf::from(path), source })?;
    Ok(text_of(path, bytes))
}

/// A sweep as a table. Errors have the line, which those of the table do not.
fn syntax(text: &str) -> Result<Table, SweepError> {
    toml::from_str::<File>(text).map_err(|error| SweepError::at("", error))?;
    text.parse().map_err(|error| SweepError::at("", error))
}

/// The same of the workload in a file of its own.
fn workload_in(path: &Path) -> Result<Table, SweepError> {
    let text = read(path)?.map_err(|error| SweepError::at("", error))?;
    parse_toml(&text).map_err(|error| {
        let is_ours = path.extension().is_some_and(|ending| ending == "toml");
        let remedy = "a sweep changes keys of a workload of ours: name a .toml file";
        let message = if is_ours { error.to_string() } else { format!("{error}\n{remedy}") };
        SweepError::at("", message)
    })?;
    text.parse().map_err(|error| SweepError::at("", error))
}

fn confidence(value: Option<&Value>) -> Result<f64, SweepError> {
    let Some(value) = value else { return Ok(NINETY_FIVE_PERCENT) };
    value.as_float().filter(|level| (0.5..1.0).contains(level)).ok_or_else(|| {
        let message = format!("{value} is no level of confidence: they go from 0.5 to below 1");
        SweepError::at("confidence", message)
    })
}

fn distinct<T: PartialEq + std::fmt::Display>(key: &str, list: &[T]) -> Result<(), SweepError> {
    if list.is_empty() {
        return Err(SweepError::at(key, "there are none: give at least one"));
    }
    unique(key, list)
}

fn unique<T: PartialEq + std::fmt::Display>(key: &str, list: &[T]) -> Result<(), SweepError> {
    match list.iter().enumerate().find(|(at, one)| list[..*at].contains(one)) {
        None => Ok(()),
        Some((_, twice)) => {
            Err(SweepError::at(key, format!("{twice} is there twice: give each once")))
        }
    }
}

/// As many as the file says, from the workload's own on, or those that it lists.
fn seeds(value: Option<&Value>, first: u64) -> Result<Vec<u64>, SweepError> {
    let remedy = "write seeds = 30, or seeds = [1, 2, 3]";
    let value =
        value.ok_or_else(|| SweepError::at("seeds", format!("there are none: {remedy}")))?;
    let none = || {
        let message = format!("{value} is neither a number of seeds nor a list of them: {remedy}");
        SweepError::at("seeds", message)
    };
    match value {
        Value::Integer(count) => {
            let count = u64::try_from(*count).map_err(|_| none())?.min(MAX_RUNS as u64 + 1);
            Ok((0..count).map(|number| first.wrapping_add(number)).collect())
        }
        Value::Array(list) => {
            let seed = |value: &Value| value.as_integer().and_then(|seed| u64::try_from(seed).ok());
            list.iter().map(seed).collect::<Option<_>>().ok_or_else(none)
        }
        _ => Err(none()),
    }
}

/// Every combination of the grid's values, those of the last key changing fastest.
fn points(base: &Table, grid: &Table) -> Result<Vec<Point>, SweepError> {
    let mut points = vec![(Vec::new(), base.clone())];
    for (key, values) in grid {
        let at = |message: String| SweepError::at(format!("grid.\"{key}\""), message);
        if key == "seed" {
            return Err(at("seeds are what 'seeds' says: leave it out of the grid".into()));
        }
        let Some(values) = values.as_array().filter(|values| !values.is_empty()) else {
            return Err(at(format!("{values} is no list of values: write [1, 2, 3]")));
        };
        distinct(&format!("grid.\"{key}\""), values)?;
        if points.len() * values.len() > MAX_RUNS {
            return Err(at(format!("the grid has more than {MAX_RUNS} points: make it smaller")));
        }
        let mut next = Vec::with_capacity(points.len() * values.len());
        for (settings, table) in &points {
            for (value, setting) in values.iter().zip(Setting::alike(values)) {
                let mut table = table.clone();
                keys::set(&mut table, key, value).map_err(at)?;
                let mut settings: Vec<(String, Setting)> = settings.clone();
                settings.push((key.clone(), setting));
                next.push((settings, table));
            }
        }
        points = next;
    }
    let point = |(settings, table): (Vec<(String, Setting)>, Table)| match from_table(table) {
        Ok(workload) => Ok(Point { settings, workload }),
        Err(error) => {
            let place: Vec<String> =
                settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            Err(SweepError::at(format!("with {}", place.join(", ")), error))
        }
    };
    points.into_iter().map(point).collect()
}
