//! The audit trail, appended to a file.

use super::turn::{about, blocking};
use crate::{daemon::instance::Instance, failure::Failure, store::Exported};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Events that are exported at a time.
const BATCH: i64 = 1_000;
/// Longest line that is read at the end of an export.
const TAIL: u64 = 1 << 20;

/// A file that every event is appended to.
pub(super) struct Export {
    path: PathBuf,
    /// The last event in it; none before it was looked for.
    last: Option<i64>,
    /// As the state has it; none before it was looked for.
    noted: Option<i64>,
}

impl Export {
    pub(super) fn new(path: PathBuf) -> Export {
        Export { path, last: None, noted: None }
    }

    /// Where the export goes on: behind what is in the file, or was before somebody moved or emptied it.
    async fn begin(&mut self, instance: &Instance) -> Result<i64, Failure> {
        let reader = instance.writing.db.reader();
        self.noted = reader.exported_until(&self.path).await?;
        let path = self.path.clone();
        let turn = &instance.upkeep.exporting;
        match blocking(turn, move || tail(&path)).await? {
            None => Ok(self.noted.unwrap_or_default()),
            Some(found) if reader.continues(&found).await? => Ok(found.number),
            Some(found) => {
                // Another trail, as after `restore`: both stay whole.
                let path = self.path.clone();
                let put_aside = move || -> Result<PathBuf, Failure> {
                    let aside = aside(&path, found.number);
                    fs::rename(&path, &aside).map_err(about("rename", &path))?;
                    Ok(aside)
                };
                let aside = blocking(turn, put_aside).await?;
                tracing::warn!(file = %aside.display(), "the audit trail does not continue its export: a new one begins");
                Ok(0)
            }
        }
    }

    /// Appends what is new.
    pub(super) async fn go_on(&mut self, instance: &Instance) -> Result<(), Failure> {
        let reader = instance.writing.db.reader();
        // Who rotates the file begins a new one: it goes on where the old one ended.
        let mut last = match self.last {
            Some(last) => last,
            None => self.begin(instance).await?,
        };
        loop {
            let events = reader.exported(last, BATCH).await?;
            let Some(newest) = events.last() else { break };
            last = newest.number;
            let path = self.path.clone();
            if let Err(failure) = blocking(&instance.upkeep.exporting, move || append(&path, &events)).await {
                // A part of them may be there: the next look begins behind what is.
                self.last = None;
                return Err(failure);
            }
            self.last = Some(last);
        }
        self.last = Some(last);
        if self.noted != Some(last) {
            instance.writing.db.note_exported(&self.path, last).await?;
            self.noted = Some(last);
        }
        Ok(())
    }
}

/// Where the file at `path` goes that ends with the event `number`: to a name that no trail before it has, as after a second
/// `restore` of one backup.
fn aside(path: &Path, number: i64) -> PathBuf {
    let name = |more: &str| PathBuf::from(format!("{}.until-{number}{more}", path.display()));
    let mut more = (2_u64..).map(|more| name(&format!(".{more}")));
    let first = name("");
    let is_taken = first.symlink_metadata().is_ok();
    is_taken.then(|| more.find(|name| name.symlink_metadata().is_err())).flatten().unwrap_or(first)
}

fn append(path: &Path, events: &[Exported]) -> Result<(), Failure> {
    let mut text = Vec::new();
    for event in events {
        serde_json::to_writer(&mut text, event).map_err(|error| Failure::plain(error.to_string()))?;
        text.push(b'\n');
    }
    let mut file = opened(path)?;
    file.write_all(&text).and_then(|()| file.sync_data()).map_err(about("write", path))
}

fn opened(path: &Path) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o640);
    options.open(path).map_err(about("open", path))
}

/// Looks at the file of an export as it is looked at before the export goes on, and changes nothing; false where there is none.
///
/// Errors: it cannot be written, or is no audit trail.
pub(crate) fn look_at(path: &Path) -> Result<bool, Failure> {
    let Some(file) = open_existing(path)? else { return Ok(false) };
    end(&file, path)?;
    Ok(true)
}

/// The last whole event in a file; what a crash left of another is cut off.
fn tail(path: &Path) -> Result<Option<Exported>, Failure> {
    let Some(file) = open_existing(path)? else { return Ok(None) };
    let End { last, whole, length } = end(&file, path)?;
    if whole < length {
        file.set_len(whole).map_err(about("write", path))?;
    }
    Ok(last)
}

fn open_existing(path: &Path) -> Result<Option<File>, Failure> {
    match File::options().read(true).write(true).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(about("open", path)(error)),
    }
}

/// How a file ends.
struct End {
    /// The last whole event.
    last: Option<Exported>,
    /// How long it is up to the end of that line, and altogether.
    whole: u64,
    length: u64,
}

fn end(mut file: &File, path: &Path) -> Result<End, Failure> {
    let none = |what: &str| {
        Failure::hinted(
            format!("{} is no audit trail: {what}", path.display()),
            "name another file in `audit.export`, or move this one away",
        )
    };
    let metadata = file.metadata().map_err(about("read", path))?;
    // To read from a pipe would last until somebody writes.
    if !metadata.is_file() {
        return Err(none("it is no file"));
    }
    let length = metadata.len();
    let from = length.saturating_sub(TAIL);
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(from)).map_err(about("read", path))?;
    file.read_to_end(&mut text).map_err(about("read", path))?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    // What a crash left begins as an event does, or with zeros where the disk had not got it yet. All else is somebody's.
    if text[whole..].first().is_some_and(|first| !matches!(first, b'{' | 0)) {
        return Err(none("what it ends with is no event"));
    }
    let last = match text[..whole].lines().last() {
        Some(line) => {
            let line = line.map_err(about("read", path))?;
            Some(
                serde_json::from_str(&line)
                    .map_err(|error| none(&format!("its last line is no event: {error}")))?,
            )
        }
        None => None,
    };
    Ok(End { last, whole: from + whole as u64, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_trail_that_was_put_aside_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.jsonl");
        let mut names = Vec::new();
        for _ in 0..3 {
            let name = aside(&file, 81);
            fs::write(&name, "").unwrap();
            names.push(name.strip_prefix(folder.path()).unwrap().display().to_string());
        }
        assert_eq!(names, ["audit.jsonl.until-81", "audit.jsonl.until-81.2", "audit.jsonl.until-81.3"]);
        assert_eq!(aside(&file, 82), folder.path().join("audit.jsonl.until-82"));
    }
}
