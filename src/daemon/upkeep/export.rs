//! The audit trail, appended to a file.

use super::{about, blocking};
use crate::{daemon::Instance, failure::Failure, store::Exported};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
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
                let aside = PathBuf::from(format!("{}.until-{}", self.path.display(), found.number));
                let (path, to) = (self.path.clone(), aside.clone());
                blocking(turn, move || fs::rename(&path, &to).map_err(about("rename", &path))).await?;
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

/// The last whole event in a file; what a crash left of another is cut off.
fn tail(path: &Path) -> Result<Option<Exported>, Failure> {
    let mut file = match File::options().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(about("open", path)(error)),
    };
    let length = file.metadata().map_err(about("read", path))?.len();
    let from = length.saturating_sub(TAIL);
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(from)).map_err(about("read", path))?;
    BufReader::new(&file).read_to_end(&mut text).map_err(about("read", path))?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if whole < text.len() {
        file.set_len(from + whole as u64).map_err(about("write", path))?;
    }
    let Some(line) = text[..whole].lines().last() else { return Ok(None) };
    let line = line.map_err(about("read", path))?;
    let event = serde_json::from_str(&line).map_err(|error| {
        Failure::hinted(
            format!("the last line of {} is no event: {error}", path.display()),
            "name another file in `audit.export`, or move this one away",
        )
    })?;
    Ok(Some(event))
}
