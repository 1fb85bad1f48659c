//! What is told of cgroups: as a table for people, JSON, and OpenMetrics text.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// Which cgroups are asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Query {
    /// Tell what each cgroup is due and receives, from PATH on (all, unless said).
    #[arg(long = "cgroups", value_name = "PATH", num_args = 0..=1, default_missing_value = "/")]
    path: Option<String>,

    /// Only so many levels of them.
    #[arg(long, value_name = "LEVELS", requires = "path", default_value_t = 16)]
    depth: usize,

    /// Only so many, those that are due or have received most.
    #[arg(long, value_name = "N", requires = "path", default_value_t = 100)]
    limit: usize,

    /// Somebody looks so often.
    #[arg(skip)]
    pub(crate) interval: Duration,
}

impl Query {
    pub(crate) fn is_asked(&self) -> bool {
        self.path.is_some()
    }

    /// As arguments of a request for statistics, which comes every `interval`, if it comes again.
    pub(crate) fn arguments(&self, interval: Option<Duration>) -> Vec<(String, String)> {
        let path = self.path.clone().unwrap_or_else(|| "/".to_string());
        let mut arguments = vec![
            ("target", "cgroups".to_string()),
            ("path", path),
            ("depth", self.depth.to_string()),
            ("limit", self.limit.to_string()),
        ];
        if let Some(interval) = interval {
            arguments.push(("interval_s", interval.as_secs_f64().to_string()));
        }
        arguments.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
    }

    pub(crate) fn parse(arguments: &BTreeMap<String, String>) -> Result<Query> {
        let number = |key: &str, otherwise: usize| -> Result<usize> {
            let Some(text) = arguments.get(key) else { return Ok(otherwise) };
            text.parse().with_context(|| format!("'{key}' takes a number, not '{text}'"))
        };
        let interval = match arguments.get("interval_s") {
            Some(text) => crate::durations::parse_seconds(text).map_err(anyhow::Error::msg)?,
            None => Duration::ZERO,
        };
        let path = arguments.get("path").map_or("/", String::as_str);
        ensure!(path.starts_with('/'), "'{path}' is no path of a cgroup: write it as /a/b");
        let path = format!("/{}", path.trim_matches('/'));
        let (depth, limit) = (number("depth", 16)?, number("limit", 100)?);
        Ok(Query { path: Some(path), depth, limit, interval })
    }

    fn base(&self) -> &str {
        self.path.as_deref().unwrap_or("/")
    }

    fn is_wanted(&self, cgroup: &Cgroup) -> bool {
        let base = self.base();
        is_within(&cgroup.path, base) && cgroup.level() <= level_of(base) + self.depth
    }

    /// Those that are asked for, as a tree, and how many are left out.
    pub(crate) fn choose(&self, mut cgroups: Vec<Cgroup>) -> Result<(Vec<Cgroup>, usize)> {
        let base = self.base();
        ensure!(
            cgroups.iter().any(|cgroup| cgroup.path == base),
            "the scheduler knows no cgroup '{base}': see which there are with `--cgroups`"
        );
        cgroups.retain(|cgroup| self.is_wanted(cgroup));
        let found = cgroups.len();
        // Those above a cgroup are due and have received as much at least.
        cgroups.sort_by_key(|it| (std::cmp::Reverse(it.due_ns.max(it.received_ns)), it.level()));
        cgroups.truncate(self.limit);
        cgroups.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
        let left_out = found - cgroups.len();
        Ok((cgroups, left_out))
    }
}

fn is_within(path: &str, base: &str) -> bool {
    base == "/"
        || path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn level_of(path: &str) -> usize {
    path.split('/').filter(|name| !name.is_empty()).count()
}

/// A cgroup, with all below it. Times are counted since [`Cgroup::counted_since_s`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cgroup {
    pub(crate) path: String,
    /// The kernel's, also that of its directory.
    pub(crate) number: u64,
    /// cpu.weight; 0 with cpu.idle. The root has none.
    pub(crate) weight: Option<u32>,
    /// Tasks that there are; those that the scheduler serves; those that wait for a cpu.
    pub(crate) tasks: u64,
    pub(crate) runnable: u64,
    pub(crate) waiting: u64,
    pub(crate) due_ns: u64,
    pub(crate) received_ns: u64,
    /// How long tasks waited for a cpu, added up.
    pub(crate) waited_ns: u64,
    /// The time for which it was counted; and since when, in seconds of the Unix epoch.
    pub(crate) counted_ns: u64,
    pub(crate) counted_since_s: f64,
}

impl Cgroup {
    pub(crate) fn level(&self) -> usize {
        level_of(&self.path)
    }

    fn error_ns(&self) -> i64 {
        self.received_ns.cast_signed().wrapping_sub(self.due_ns.cast_signed())
    }
}

/// What is known at a time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// By the scheduler's clock.
    pub(crate) now_ns: u64,
    pub(crate) quantum_ns: u64,
    pub(crate) cpus: u32,
    /// Changes of the tree that came too fast to be followed one by one.
    pub(crate) missed: u64,
    /// Cgroups beyond `--limit`.
    pub(crate) left_out: usize,
    /// Parents before children.
    pub(crate) cgroups: Vec<Cgroup>,
}

impl Report {
    /// For programs: a line of JSON, with what is new since `before`.
    pub(crate) fn to_json(&self, before: Option<&Report>) -> Result<String> {
        let mut json = serde_json::to_value(self)?;
        let rows = json["cgroups"].as_array_mut().context("cgroups are an array")?;
        for (row, (cgroup, new)) in rows.iter_mut().zip(self.since(before)) {
            row["error_ns"] = cgroup.error_ns().into();
            row["error_quanta"] = self.quanta(cgroup.error_ns()).into();
            row["since_last_look"] = serde_json::json!({
                "ns": new.counted_ns,
                "due_ns": new.due_ns,
                "received_ns": new.received_ns,
                "waited_ns": new.waited_ns,
            });
        }
        Ok(json.to_string())
    }

    /// Each cgroup, and what is new of it since `before`.
    fn since<'a>(
        &'a self,
        before: Option<&'a Report>,
    ) -> impl Iterator<Item = (&'a Cgroup, Cgroup)> {
        let before = before.map(|report| &report.cgroups[..]).unwrap_or_default();
        let before: HashMap<u64, &Cgroup> = before.iter().map(|it| (it.number, it)).collect();
        self.cgroups.iter().map(move |now| {
            // Counted anew: nobody had watched for long, or another scheduler was started.
            let same = before.get(&now.number).filter(|it| it.counted_ns <= now.counted_ns);
            let old = same.copied().cloned().unwrap_or_default();
            let new = Cgroup {
                due_ns: now.due_ns.saturating_sub(old.due_ns),
                received_ns: now.received_ns.saturating_sub(old.received_ns),
                waited_ns: now.waited_ns.saturating_sub(old.waited_ns),
                counted_ns: now.counted_ns - old.counted_ns,
                ..Cgroup::default()
            };
            (now, new)
        })
    }

    fn quanta(&self, ns: i64) -> f64 {
        ns as f64 / self.quantum_ns.max(1) as f64
    }

    /// For people: what is due and received since `before`, in cpus, and the error since the beginning.
    pub(crate) fn to_table(&self, before: Option<&Report>) -> String {
        let names = self.names();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(6);
        let mut text = format!(
            "{:<width$}  weight   tasks  runnable  waiting  waited, s       due  received  error, quanta\n",
            "cgroup"
        );
        for (name, (cgroup, new)) in names.iter().zip(self.since(before)) {
            let weight = cgroup.weight.map_or("-".to_string(), |weight| weight.to_string());
            let elapsed_ns = new.counted_ns.max(1) as f64;
            let line = writeln!(
                text,
                "{name:<width$}  {weight:>6}  {:>6}  {:>8}  {:>7}  {:>9.3}  {:>8.3}  {:>8.3}  {:>+13.2}",
                cgroup.tasks,
                cgroup.runnable,
                cgroup.waiting,
                new.waited_ns as f64 / 1e9,
                new.due_ns as f64 / elapsed_ns,
                new.received_ns as f64 / elapsed_ns,
                self.quanta(cgroup.error_ns()),
            );
            line.expect("a string takes everything");
        }
        if self.left_out > 0 {
            text.push_str(&format!("and {} more: see --limit\n", self.left_out));
        }
        if self.missed > 0 {
            text.push_str(&format!("{} changes of the tree were missed\n", self.missed));
        }
        text
    }

    /// Of each cgroup, what it is called below the one above it, indented.
    fn names(&self) -> Vec<String> {
        let mut above: Vec<&str> = Vec::new();
        let name = |cgroup: &'_ Cgroup| cgroup.path.clone();
        let mut names = Vec::new();
        for cgroup in &self.cgroups {
            while above.last().is_some_and(|base| !is_within(&cgroup.path, base)) {
                above.pop();
            }
            let rest = above.last().and_then(|base| cgroup.path.strip_prefix(base));
            let rest =
                rest.map_or_else(|| name(cgroup), |rest| rest.trim_start_matches('/').to_string());
            // Users choose names: nothing of them is for the terminal.
            let shown: String = rest.chars().flat_map(printable).collect();
            names.push(format!("{}{shown}", "  ".repeat(above.len())));
            above.push(&cgroup.path);
        }
        names
    }

    /// `OpenMetrics` text, without the end.
    pub(crate) fn to_open_metrics(&self) -> String {
        let seconds = |ns: u64| Some(ns as f64 / 1e9);
        let mut text = String::new();
        let mut family =
            |name: &str, kind: Kind, help: &str, value: &dyn Fn(&Cgroup) -> Option<f64>| {
                self.write_family(&mut text, name, kind, help, value);
            };
        use Kind::{Counter, Gauge};
        family("due_seconds", Counter, "What the ideal would have given it.", &|it| {
            seconds(it.due_ns)
        });
        family("received_seconds", Counter, "What it received.", &|it| seconds(it.received_ns));
        family("waited_seconds", Counter, "How long its tasks waited, added up.", &|it| {
            seconds(it.waited_ns)
        });
        family("error_seconds", Gauge, "Received less due.", &|it| {
            Some(it.error_ns() as f64 / 1e9)
        });
        family("weight", Gauge, "cpu.weight; 0 with cpu.idle.", &|it| it.weight.map(f64::from));
        family("tasks", Gauge, "Tasks in it and below.", &|it| Some(it.tasks as f64));
        family("runnable", Gauge, "Of them, those that are served.", &|it| {
            Some(it.runnable as f64)
        });
        family("waiting", Gauge, "Of them, those that wait.", &|it| Some(it.waiting as f64));
        text
    }

    fn write_family(
        &self,
        text: &mut String,
        name: &str,
        kind: Kind,
        help: &str,
        value: &dyn Fn(&Cgroup) -> Option<f64>,
    ) {
        let name = format!("scx_prorata_cgroup_{name}");
        let type_name = if kind == Kind::Counter { "counter" } else { "gauge" };
        text.push_str(&format!("# TYPE {name} {type_name}\n"));
        if name.ends_with("_seconds") {
            text.push_str(&format!("# UNIT {name} seconds\n"));
        }
        text.push_str(&format!("# HELP {name} {help}\n"));
        for cgroup in &self.cgroups {
            let Some(value) = value(cgroup) else { continue };
            let label = label_value(&cgroup.path);
            if kind == Kind::Gauge {
                text.push_str(&format!("{name}{{cgroup=\"{label}\"}} {value}\n"));
                continue;
            }
            let since_s = cgroup.counted_since_s;
            text.push_str(&format!("{name}_total{{cgroup=\"{label}\"}} {value}\n"));
            text.push_str(&format!("{name}_created{{cgroup=\"{label}\"}} {since_s:.3}\n"));
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

fn printable(c: char) -> Vec<char> {
    if c.is_control() { c.escape_default().collect() } else { vec![c] }
}

/// As it stands between quotation marks.
fn label_value(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroup(path: &str, due_ms: u64, received_ms: u64) -> Cgroup {
        let number = path.bytes().map(u64::from).sum();
        Cgroup {
            path: path.to_string(),
            number,
            weight: (path != "/").then_some(100),
            tasks: 2,
            runnable: 1,
            due_ns: due_ms * 1_000_000,
            received_ns: received_ms * 1_000_000,
            counted_ns: 1_000_000_000,
            counted_since_s: 1_700_000_000.25,
            ..Cgroup::default()
        }
    }

    fn report(cgroups: Vec<Cgroup>) -> Report {
        Report { quantum_ns: 5_000_000, cpus: 2, cgroups, ..Report::default() }
    }

    fn tree() -> Vec<Cgroup> {
        let all = ["/a/b/c", "/", "/a", "/a-b", "/a/b", "/d"];
        (1..).zip(all).map(|(n, path)| cgroup(path, 1000 - 100 * path.len() as u64, n)).collect()
    }

    fn query(path: &str, depth: usize, limit: usize) -> Query {
        Query { path: Some(path.to_string()), depth, limit, interval: Duration::ZERO }
    }

    fn chosen(query: &Query) -> (Vec<String>, usize) {
        let (cgroups, left_out) = query.choose(tree()).unwrap();
        (cgroups.into_iter().map(|it| it.path).collect(), left_out)
    }

    #[test]
    fn trees_are_chosen_by_path_depth_and_size() {
        assert_eq!(chosen(&query("/", 16, 9)).0, ["/", "/a", "/a/b", "/a/b/c", "/a-b", "/d"]);
        assert_eq!(chosen(&query("/a", 1, 9)), (vec!["/a".to_string(), "/a/b".to_string()], 0));
        let (most, left_out) = chosen(&query("/", 16, 2));
        assert_eq!((&most[..], left_out), (&["/".to_string(), "/a".to_string()][..], 4));
        let refusal = query("/nope", 16, 9).choose(tree()).unwrap_err().to_string();
        assert!(refusal.contains("'/nope'"), "{refusal}");
    }

    #[test]
    fn queries_survive_the_way_to_the_loader() {
        let arguments = query("/a", 3, 7).arguments(Some(Duration::from_secs(120)));
        let parsed = Query::parse(&arguments.into_iter().collect()).unwrap();
        assert_eq!((parsed.base(), parsed.depth, parsed.limit), ("/a", 3, 7));
        assert_eq!(parsed.interval, Duration::from_secs(120));
        for (key, value) in [("path", "a"), ("depth", "-1"), ("limit", "x"), ("interval_s", "0")] {
            let arguments = BTreeMap::from([(key.to_string(), value.to_string())]);
            assert!(Query::parse(&arguments).is_err(), "{key} {value}");
        }
    }

    #[test]
    fn tables_are_indented_and_keep_to_their_lines() {
        let all = ["/", "/user.slice", "/user.slice/u.slice/\u{1b}[2J\n", "/z"];
        let report = report(all.map(|path| cgroup(path, 500, 510)).to_vec());
        let table = report.to_table(None);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[2].starts_with("  user.slice "), "{table}");
        assert!(lines[3].starts_with("    u.slice/\\u{1b}[2J\\n "), "{table}");
        assert!(lines[4].starts_with("  z "), "{table}");
        assert!(lines[4].ends_with("0.500     0.510          +2.00"), "{table}");
        assert_eq!(lines.len(), 5, "{table}");
    }

    #[test]
    fn json_tells_what_is_new_unless_counting_began_anew() {
        let before = report(vec![cgroup("/", 100, 90), cgroup("/a", 50, 50)]);
        let mut now = report(vec![cgroup("/", 300, 310), cgroup("/a", 20, 30)]);
        now.cgroups[0].counted_ns *= 2;
        now.cgroups[1].counted_ns /= 2;
        let json: serde_json::Value =
            serde_json::from_str(&now.to_json(Some(&before)).unwrap()).unwrap();
        let new = |n: usize| json["cgroups"][n]["since_last_look"].clone();
        assert_eq!(new(0)["due_ns"], 200_000_000);
        assert_eq!(new(0)["ns"], 1_000_000_000);
        assert_eq!(new(1)["received_ns"], 30_000_000);
        assert_eq!(json["cgroups"][0]["error_quanta"], 2.0);
    }

    #[test]
    fn labels_may_be_anything() {
        let text = report(vec![cgroup("/", 1, 1), cgroup("/q\"u\\o", 1500, 1)]).to_open_metrics();
        let line = "scx_prorata_cgroup_due_seconds_total{cgroup=\"/q\\\"u\\\\o\"} 1.5\n";
        assert!(text.contains(line), "{text}");
        let created = "scx_prorata_cgroup_due_seconds_created{cgroup=\"/\"} 1700000000.250\n";
        assert!(text.contains(created), "{text}");
        assert!(!text.contains("scx_prorata_cgroup_weight{cgroup=\"/\"}"), "{text}");
    }
}
