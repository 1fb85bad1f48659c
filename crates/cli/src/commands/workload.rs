//! Workload files, as several subcommands take them.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use prorata_sim::export::{self, Columns};
use prorata_sim::workload::{self, Workload};

use super::read;

/// How a file is read.
#[derive(clap::Args)]
pub(crate) struct Reading {
    /// Number of cpus, instead of what the file says.
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<usize>,
    /// A key of an rt-app file to leave out; may be given several times.
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    ignore: Vec<String>,
}

/// The same, where it is simulated.
#[derive(clap::Args)]
pub(crate) struct Overrides {
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Length of a quantum, instead of what the file says.
    #[arg(long, value_name = "LENGTH", value_parser = workload::parse_duration)]
    quantum: Option<u64>,
    /// When the simulation ends, instead of what the file says.
    #[arg(long, value_name = "LENGTH", value_parser = workload::parse_duration)]
    duration: Option<u64>,
    /// Seed of everything random, instead of what the file says.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

impl Reading {
    /// An option that was given and means nothing without a file.
    pub(crate) fn of_files(&self) -> Option<&'static str> {
        (!self.ignore.is_empty()).then_some("--ignore")
    }

    /// The workload in the file at `path`: TOML of our own (`.toml`), rt-app's JSON (`.json`), or
    /// a recording by perf sched (anything else).
    pub(crate) fn load(&self, path: &Path) -> anyhow::Result<Workload> {
        self.load_with(path, &[], |_| {})
    }

    /// The same after `change`, which is what `options` ask for.
    fn load_with(
        &self,
        path: &Path,
        options: &[&str],
        change: impl FnOnce(&mut Workload),
    ) -> anyhow::Result<Workload> {
        let name = path.display().to_string();
        let text = workload::text_of(path, read(path)?).with_context(|| name.clone())?;
        let workload = workload::parse(path, &text, &self.ignore);
        let mut workload = workload.with_context(|| name.clone())?;
        let was_possible = workload.check().is_ok();
        workload.machine.cpus = self.cpus.unwrap_or(workload.machine.cpus);
        change(&mut workload);
        let mut options = options.to_vec();
        options.extend(self.cpus.map(|_| "--cpus"));
        let whose = || match was_possible {
            true => format!("{name} with {}", options.join(" and ")),
            false => name.clone(),
        };
        workload.check().map_err(anyhow::Error::msg).with_context(whose)?;
        Ok(workload)
    }
}

impl Overrides {
    /// An option that was given and means nothing without a file.
    pub(crate) fn of_files(&self) -> Option<&'static str> {
        match self {
            Overrides { quantum: Some(_), .. } => Some("--quantum"),
            Overrides { duration: Some(_), .. } => Some("--duration"),
            Overrides { reading, .. } => reading.of_files(),
        }
    }

    /// The workload in the file at `path`, of a format that [`Reading::load`] knows.
    pub(crate) fn load(&self, path: &Path) -> anyhow::Result<Workload> {
        let options =
            [("--quantum", self.quantum.is_some()), ("--duration", self.duration.is_some())];
        let given: Vec<&str> =
            options.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
        self.reading.load_with(path, &given, |workload| self.apply(workload))
    }

    fn apply(&self, workload: &mut Workload) {
        let machine = &mut workload.machine;
        machine.quantum_ns = self.quantum.unwrap_or(machine.quantum_ns);
        workload.duration_ns = self.duration.unwrap_or(workload.duration_ns);
        workload.seed = self.seed.unwrap_or(workload.seed);
    }
}

/// How a table is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Csv,
    Parquet,
}

impl Form {
    /// By the ending of `path`.
    pub(crate) fn of(path: &Path) -> anyhow::Result<Form> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Ok(Form::Csv),
            Some("parquet") => Form::Parquet.there(path),
            _ => bail!("{}: no format goes by that ending; use .csv or .parquet", path.display()),
        }
    }

    /// Itself, if this program has it.
    pub(crate) fn there(self, path: &Path) -> anyhow::Result<Form> {
        ensure!(
            self != Form::Parquet || export::HAS_PARQUET,
            "{}: this prorata was built without Parquet: write .csv, or build it with its default features",
            path.display()
        );
        Ok(self)
    }

    pub(crate) fn write(
        self,
        table: &Columns<'_>,
        file: &mut BufWriter<&File>,
    ) -> std::io::Result<()> {
        match self {
            Form::Csv => table.write_csv(file),
            Form::Parquet => table.write_parquet(file),
        }
    }
}

/// Puts a file at `path`, wholly or not at all.
pub(crate) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    export::replace(path, write)
        .with_context(|| format!("cannot write {}; nothing was left there", path.display()))
}
