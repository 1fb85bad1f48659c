//! What a long computation has found so far, on disk: a line that says what it belongs to, then one
//! line a result. Whatever ends the process, the next one goes on from there.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a journal cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file, or its directory.
    #[error("cannot {verb} {path}")]
    File {
        /// What was tried.
        verb: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// Two processes at one computation.
    #[error(
        "another process is writing to {0}: wait for it, or choose another place for the output"
    )]
    Busy(PathBuf),
    /// It is of another computation.
    #[error(
        "{0} holds results of something else, or of an older version: remove it if they are not \
         wanted, or choose another place for the output"
    )]
    Foreign(PathBuf),
}

/// What becomes of a journal that belongs to something else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Foreign {
    Discard,
    Refuse,
}

/// A journal that is open, and ours alone.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens or begins the journal of `header` at `path`, and returns what it holds. What an earlier
    /// process wrote last may be torn: the journal is cut after its last whole line.
    pub(crate) fn open<H, E>(
        path: PathBuf,
        header: &H,
        foreign: Foreign,
    ) -> Result<(Journal, Vec<E>), JournalError>
    where
        H: Serialize + DeserializeOwned + PartialEq,
        E: DeserializeOwned,
    {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(|source| JournalError::File {
                verb: "create",
                path: directory.to_path_buf(),
                source,
            })?;
        }
        let fail = |source| JournalError::File { verb: "write", path: path.clone(), source };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(fail)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(JournalError::Busy(path));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(fail)?;
        let (entries, length) = match read(&bytes, header) {
            Found::Ours(entries, length) => (entries, length),
            Found::Nothing => (Vec::new(), 0),
            Found::Foreign if foreign == Foreign::Discard => (Vec::new(), 0),
            Found::Foreign => return Err(JournalError::Foreign(path)),
        };
        file.set_len(length as u64).and_then(|()| file.seek(SeekFrom::End(0))).map_err(fail)?;
        let mut journal = Journal { path, file };
        if length == 0 {
            journal.append(header)?;
        }
        Ok((journal, entries))
    }

    /// Writes one line. It is there whatever happens to this process afterwards.
    pub(crate) fn append(&mut self, entry: &impl Serialize) -> Result<(), JournalError> {
        let line = serde_json::to_string(entry).expect("plain data") + "\n";
        self.file.write_all(line.as_bytes()).map_err(|source| self.failed("write", source))
    }

    /// Removes it: what it held is elsewhere now.
    pub(crate) fn delete(self) -> Result<(), JournalError> {
        std::fs::remove_file(&self.path).map_err(|source| self.failed("remove", source))
    }

    fn failed(&self, verb: &'static str, source: std::io::Error) -> JournalError {
        JournalError::File { verb, path: self.path.clone(), source }
    }
}

enum Found<E> {
    /// Not even a whole header.
    Nothing,
    Foreign,
    /// The entries, and how many bytes they and the header take.
    Ours(Vec<E>, usize),
}

fn read<H, E>(bytes: &[u8], header: &H) -> Found<E>
where
    H: DeserializeOwned + PartialEq,
    E: DeserializeOwned,
{
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n').filter(|l| l.ends_with(b"\n"));
    let Some(first) = lines.next() else { return Found::Nothing };
    if !serde_json::from_slice::<H>(first).is_ok_and(|found| found == *header) {
        return Found::Foreign;
    }
    let mut length = first.len();
    let mut entries = Vec::new();
    for line in lines {
        let Ok(entry) = serde_json::from_slice(line) else { break };
        length += line.len();
        entries.push(entry);
    }
    Found::Ours(entries, length)
}

/// The journal of what goes to `output`: beside it, hidden.
pub(crate) fn beside(output: &Path) -> PathBuf {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    output.with_file_name(format!(".{name}.journal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path, header: &str) -> Result<(Journal, Vec<u32>), JournalError> {
        Journal::open(path.to_path_buf(), &header.to_string(), Foreign::Refuse)
    }

    #[test]
    fn a_torn_line_is_cut_and_what_is_whole_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let (mut journal, entries) = open(&path, "mine").expect("a new one");
        assert!(entries.is_empty());
        (1..=3).for_each(|entry| journal.append(&entry).expect("written"));
        drop(journal);
        let whole = std::fs::read(&path).expect("bytes");
        for length in 0..=whole.len() {
            std::fs::write(&path, &whole[..length]).expect("written");
            let (_, entries) = open(&path, "mine").expect("a torn one");
            let lines = whole[..length].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(entries, (1..=3).take(lines.saturating_sub(1)).collect::<Vec<u32>>());
            assert!(std::fs::read(&path).expect("bytes").ends_with(b"\n"));
        }
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let (journal, _) = open(&path, "mine").expect("a new one");
        assert!(matches!(open(&path, "mine"), Err(JournalError::Busy(_))));
        drop(journal);
        assert!(matches!(open(&path, "yours"), Err(JournalError::Foreign(_))));
        assert_eq!(std::fs::read(&path).expect("bytes"), b"\"mine\"\n");
        let discard = Journal::open::<String, u32>(path.clone(), &"yours".into(), Foreign::Discard);
        drop(discard.expect("a new one"));
        assert_eq!(std::fs::read(&path).expect("bytes"), b"\"yours\"\n");
    }
}
