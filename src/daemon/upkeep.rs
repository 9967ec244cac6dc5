//! What the daemon does for its state by the clock: backups, the export of the audit trail, its retention.
//!
//! Guarantees: none of it holds up a pass; a backup is complete or not there; the export repeats no event and leaves
//! none out, also across a crash: where it goes on is read from the file itself, or, where that was moved away or emptied,
//! from the state. A crash between the file and the state repeats events only where the file goes in the same moment. What
//! fails is tried again and told once; a backup, which costs as much as the state is large, less and less often.

use super::Instance;
use crate::{
    config::Backups,
    session::Failure,
    store::{Exported, Stamp},
};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How often it is looked whether anything is due.
const LOOK: Duration = Duration::from_secs(5);
/// Events that are exported at a time.
const BATCH: i64 = 1_000;
/// How often old events are taken out.
const TRIM: Duration = Duration::from_secs(3_600);
/// Longest time until a backup that failed is tried again.
const LONGEST: Duration = Duration::from_secs(900);
/// Longest line that is read at the end of an export.
const TAIL: u64 = 1 << 20;

/// Runs until the instance stops.
pub(super) async fn watch(instance: Arc<Instance>) {
    let cx = &instance.session.surveyor.cx;
    let config = &instance.session.config;
    let mut export = config.audit.export.clone().map(Export::new);
    let (mut trimmed, mut failed_before) = (None::<Duration>, [false; 3]);
    let mut pause = Pause::default();
    while !cx.stop.is_set() {
        let now = cx.clock.now();
        let mut told = |index: usize, what: &str, result: Result<(), Failure>| {
            match &result {
                Err(failure) if !failed_before[index] => tracing::error!(error = %failure, "{what}"),
                Err(failure) => tracing::debug!(error = %failure, "{what}"),
                Ok(()) => {}
            }
            failed_before[index] = result.is_err();
        };
        if let Some(backups) = config.backup.as_ref().filter(|_| pause.is_over(now)) {
            let result = back_up(&instance, backups, now).await;
            pause.after(&result, cx.clock.now());
            told(0, "the state cannot be backed up", result);
        }
        let mut is_exported = true;
        if let Some(export) = &mut export {
            let result = export.go_on(&instance).await;
            is_exported = result.is_ok();
            told(1, "the audit trail cannot be exported", result);
        }
        // What was not exported stays, whatever its age.
        if let Some(keep) = config.audit.keep.filter(|_| is_exported)
            && trimmed.is_none_or(|at| at + TRIM <= now)
        {
            let gone = instance.writing.db.trim_events(now.saturating_sub(keep)).await;
            trimmed = Some(now);
            if let Ok(gone @ 1..) = gone {
                tracing::info!(events = gone, "old events are no longer kept");
            }
            told(2, "old events cannot be removed", gone.map(drop).map_err(Failure::from));
        }
        tokio::select! {
            () = cx.stop.wished() => {}
            () = cx.clock.sleep(LOOK) => {}
        }
    }
    // What the last passes did is in the file before the process ends.
    if let Some(export) = &mut export
        && let Err(failure) = export.go_on(&instance).await
    {
        tracing::error!(error = %failure, "the audit trail cannot be exported");
    }
}

/// How long something that fails is let be: twice as long each time.
#[derive(Debug, Default)]
struct Pause {
    length: Duration,
    /// Since the epoch.
    until: Duration,
}

impl Pause {
    /// A clock that went back makes no pause longer.
    fn is_over(&self, now: Duration) -> bool {
        now >= self.until || now + self.length < self.until
    }

    fn after<T, E>(&mut self, result: &Result<T, E>, now: Duration) {
        self.length = if result.is_ok() { Duration::ZERO } else { (self.length * 2).clamp(LOOK, LONGEST) };
        self.until = now + self.length;
    }
}

/// Makes a backup when the newest is old enough, and removes those that are too many.
async fn back_up(instance: &Instance, backups: &Backups, now: Duration) -> Result<(), Failure> {
    let prefix = format!("{}-", instance.session.config.instance.replace('/', "_"));
    let (dir, mine) = (backups.dir.clone(), prefix.clone());
    let mut names = blocking(move || {
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(about("make", &dir))?;
        named(&dir, &mine, "Z.db")
    })
    .await?;
    let newest = backups.dir.join(names.last().map(String::as_str).unwrap_or_default());
    let age = match names.last() {
        // A clock that went back makes no backup due for ever.
        Some(_) => fs::metadata(&newest)
            .and_then(|found| found.modified())
            .ok()
            .and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok())
            .filter(|at| *at <= now)
            .map(|at| now - at),
        None => None,
    };
    if age.is_some_and(|age| age < backups.every) {
        return Ok(());
    }
    // What a process that died left unfinished is as large as the state.
    let (dir, mine) = (backups.dir.clone(), prefix.clone());
    blocking(move || {
        named(&dir, &mine, "Z.db.part")?.iter().try_for_each(|name| {
            let file = dir.join(name);
            fs::remove_file(&file).map_err(about("remove", &file))
        })
    })
    .await?;
    let name = format!("{prefix}{}.db", Stamp(now).to_string().replace(':', ""));
    let file = backups.dir.join(&name);
    instance.writing.db.reader().backup(&file).await?;
    tracing::info!(file = %file.display(), "the state is backed up");
    names.retain(|known| *known != name);
    names.push(name);
    let (dir, too_many) = (backups.dir.clone(), names.len().saturating_sub(backups.keep));
    blocking(move || {
        for name in &names[..too_many] {
            let file = dir.join(name);
            fs::remove_file(&file).map_err(about("remove", &file))?;
        }
        Ok(())
    })
    .await
}

/// Backups of this instance in `dir` whose names end so, the oldest first: their names have the time in them.
fn named(dir: &Path, prefix: &str, end: &str) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(about("read", dir))? {
        let name = entry.map_err(about("read", dir))?.file_name().to_string_lossy().into_owned();
        let time = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(end));
        if time.is_some_and(|time| {
            time.len() == 17 && time.chars().all(|c| c.is_ascii_digit() || "-T".contains(c))
        }) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// A file that every event is appended to.
struct Export {
    path: PathBuf,
    /// The last event in it; none before it was looked for.
    last: Option<i64>,
    /// As the state has it; none before it was looked for.
    noted: Option<i64>,
}

impl Export {
    fn new(path: PathBuf) -> Export {
        Export { path, last: None, noted: None }
    }

    /// Where the export goes on: behind what is in the file, or was before somebody moved or emptied it.
    async fn begin(&mut self, instance: &Instance) -> Result<i64, Failure> {
        let reader = instance.writing.db.reader();
        self.noted = reader.exported_until(&self.path).await?;
        let path = self.path.clone();
        match blocking(move || tail(&path)).await? {
            None => Ok(self.noted.unwrap_or_default()),
            Some(found) if reader.continues(&found).await? => Ok(found.number),
            Some(found) => {
                // Another trail, as after `restore`: both stay whole.
                let aside = PathBuf::from(format!("{}.until-{}", self.path.display(), found.number));
                fs::rename(&self.path, &aside).map_err(about("rename", &self.path))?;
                tracing::warn!(file = %aside.display(), "the audit trail does not continue its export: a new one begins");
                Ok(0)
            }
        }
    }

    /// Appends what is new.
    async fn go_on(&mut self, instance: &Instance) -> Result<(), Failure> {
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
            if let Err(failure) = blocking(move || append(&path, &events)).await {
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

fn about(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Failure {
    let path = path.to_path_buf();
    move |error| Failure::plain(format!("{doing} {}: {error}", path.display()))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Failure::plain(format!("work on files panicked: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_let_be_for_longer_each_time_until_it_succeeds() {
        let (mut pause, mut now) = (Pause::default(), Duration::from_secs(1_000));
        assert!(pause.is_over(now));
        for seconds in [5, 10, 20, 40, 80, 160, 320, 640, 900, 900] {
            pause.after(&Err::<(), ()>(()), now);
            let length = Duration::from_secs(seconds);
            assert!(
                !pause.is_over(now) && !pause.is_over(now + length - Duration::from_millis(1)),
                "{seconds}"
            );
            now += length;
            assert!(pause.is_over(now), "{seconds}");
        }
        pause.after(&Err::<(), ()>(()), now);
        assert!(pause.is_over(Duration::ZERO), "the clock went back");
        pause.after(&Ok::<(), ()>(()), now);
        assert!(pause.is_over(now));
    }
}
