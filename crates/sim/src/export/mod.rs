//! What a simulation leaves behind: one file a format.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub(crate) mod columns;
mod csv;
mod lags;
mod latencies;
#[cfg_attr(not(feature = "parquet"), path = "no_parquet.rs")]
mod parquet;
mod perfetto;
mod summary;
mod svg;
mod table;
mod timehist;
mod timeline;

pub use self::columns::{Cell, Column, Columns, tasks};
pub use self::csv::write_csv;
pub use self::parquet::write_parquet;
pub use self::svg::write_svg;
pub use lags::{lags, write_lags_svg};
pub use latencies::{latencies, write_latencies_svg};
pub use perfetto::write_perfetto;
pub use summary::summary_table;
pub use table::{Compared, comparison, table};
pub use timehist::write_timehist;
pub use timeline::{MAX_SEGMENTS, Segment, Timeline};

/// Whether tables can be written as Parquet: the feature `parquet`.
pub const HAS_PARQUET: bool = cfg!(feature = "parquet");

/// Fills the file at `path` by `write`, wholly or not at all: what stands under the final name was
/// written to the end and is on disk.
///
/// # Errors
/// When the file, or one beside it, cannot be written. An earlier file of this name stays.
pub fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = tempfile::Builder::new()
        .prefix(".prorata-")
        .permissions(permissions())
        .tempfile_in(directory(path))?;
    let mut writer = BufWriter::new(temporary.as_file());
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Whether [`replace`] can make a file beside `path` now. Nothing is left there.
///
/// # Errors
/// Why it cannot.
pub fn can_replace(path: &Path) -> io::Result<()> {
    tempfile::tempfile_in(directory(path)).map(drop)
}

/// The directory that `path` is in.
#[must_use]
pub fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// As for any new file; the umask takes its part.
fn permissions() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_wholly_or_not_at_all() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x");
        replace(&path, |file| file.write_all(b"first")).expect("written");
        let error = replace(&path, |file| {
            file.write_all(b"sec")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(error.map_err(|e| e.kind()), Err(io::ErrorKind::StorageFull));
        assert_eq!(std::fs::read(&path).expect("still there"), b"first");
        assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 1);
    }
}
