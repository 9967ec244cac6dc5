//! What can go wrong with the state, and what a person can do about it.

use super::named::Rename;
use reconciled_provider::{Error, ErrorKind, Hash};
use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Result of the store's own functions.
pub(super) type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why the store cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no database.
    #[error("no database in {}", .0.display())]
    NotThere(PathBuf),
    /// There is a database where a new one was wanted.
    #[error("there already is a database in {}", .0.display())]
    AlreadyThere(PathBuf),
    /// Another process writes to this state directory.
    #[error("the state in {} is in use by {}", dir.display(), pid.map_or("another process".into(), |pid| format!("process {pid}")))]
    Locked {
        /// The state directory.
        dir: PathBuf,
        /// The other process, if it left its number.
        pid: Option<u32>,
    },
    /// A newer program wrote this database.
    #[error("{} has schema {found}, this program knows only up to {known}", file.display())]
    NewerSchema {
        /// The database.
        file: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema this program knows.
        known: i64,
    },
    /// An older program wrote this database, and it was opened for reading only.
    #[error("{} has schema {found}, this program reads {known}", file.display())]
    OlderSchema {
        /// The database.
        file: PathBuf,
        /// Its schema.
        found: i64,
        /// The schema this program reads.
        known: i64,
    },
    /// A migration could not be applied, or an applied one is not what this program has under that number.
    #[error("migrate {}", file.display())]
    Migrate {
        /// The database.
        file: PathBuf,
        /// Why.
        source: sqlx::migrate::MigrateError,
    },
    /// Some other program's database.
    #[error("{} is not a database of reconciled", .0.display())]
    Foreign(PathBuf),
    /// SQLite reports trouble.
    #[error("{}: {trouble}", file.display())]
    Database {
        /// The database; empty until the path is known.
        file: PathBuf,
        /// What kind of trouble.
        trouble: Trouble,
        /// What SQLite says.
        source: sqlx::Error,
    },
    /// A check of the file found damage.
    #[error("{} is damaged: {what}", file.display())]
    Damaged {
        /// The database.
        file: PathBuf,
        /// First finding of the check.
        what: String,
    },
    /// What was to be restored is no database of this program, or is damaged.
    #[error("{} is no backup that can be restored: {what}", file.display())]
    NoBackup {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A stored value cannot be read back.
    #[error("unreadable value in the database: {0}")]
    Unreadable(String),
    /// A file beside the database could not be read or written.
    #[error("{doing} {}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// This user may not look at the state, so nothing is known of it.
    #[error("the state in {} may not be read by this user", dir.display())]
    Barred {
        /// The state directory.
        dir: PathBuf,
        /// Id of the user it belongs to; none where not even that can be seen.
        owner: Option<u32>,
        /// What the system says.
        source: io::Error,
    },
    /// The sealing key is gone while the database holds sealed data.
    #[error("the sealing key {} is missing, and the database holds data sealed with it", .0.display())]
    SealKeyMissing(PathBuf),
    /// The sealing key is not the one this database was written with.
    #[error("{} is not the key this database was sealed with", .0.display())]
    SealKeyWrong(PathBuf),
    /// Sealed data cannot be opened.
    #[error("sealed data of {0} cannot be opened with the sealing key")]
    Unsealable(String),
    /// The system gives no random bytes.
    #[error("the system's random number generator failed")]
    NoRandom,
    /// Another process became the writer.
    #[error("another process became the writer (epoch {now}, this one has {mine})")]
    Superseded {
        /// Epoch of this process.
        mine: u64,
        /// Epoch of the database.
        now: u64,
    },
    /// What was planned from changed after the plan was made.
    #[error("{what} changed after the plan was made (generation {planned}, now {now})")]
    Moved {
        /// A manifest, or all that a source declares.
        what: String,
        /// Generation the plan was made from.
        planned: u64,
        /// Generation in force; 0 when the manifest is gone.
        now: u64,
    },
    /// A consent was used already, has expired or was never given.
    #[error("there is no unused approval of {0} from the last 24 hours")]
    NotApproved(Hash),
    /// A name was changed, and the state still has the one before.
    #[error("{0}, and the state still has it under that name")]
    Renamed(Rename),
    /// A name was changed while writes of it have no answer.
    #[error("{0}, and a write of that has no answer yet")]
    RenameOpen(Rename),
    /// A name was changed after the new one had tracked the same.
    #[error("{0}, and both names track the same resources")]
    RenameTwice(Rename),
    /// A write was asked of a store opened for reading.
    #[error("the state was opened for reading only")]
    ReadOnly,
    /// The writer has ended.
    #[error("the store is closed")]
    Closed,
}

/// What kind of trouble SQLite has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The disk is full, or the file reached its limit.
    Full,
    /// Somebody else holds the database.
    Busy,
    /// This program itself has all its connections to it in use.
    Crowded,
    /// The file or its directory may not be written.
    ReadOnly,
    /// The file cannot be opened.
    CannotOpen,
    /// The file is damaged or no database.
    Damaged,
    /// Reading or writing failed.
    Io,
    /// Anything else: a mistake in this program.
    Other,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trouble::Full => "no space left",
            Trouble::Busy => "in use by another program",
            Trouble::Crowded => "not free to be read, as all that this program reads at once takes too long",
            Trouble::ReadOnly => "not writable",
            Trouble::CannotOpen => "cannot be opened",
            Trouble::Damaged => "damaged",
            Trouble::Io => "input/output error",
            Trouble::Other => "unexpected database error",
        })
    }
}

/// Extended code of SQLite: the memory it shares beside the database cannot be made as large as it must be, for which it needs
/// nothing but room (IOERR_SHMSIZE).
const NO_ROOM: i32 = 4874;

fn trouble_of(error: &sqlx::Error) -> Trouble {
    let code = error.as_database_error().and_then(|e| e.code()).and_then(|code| code.parse().ok());
    match (code, error) {
        (Some(code), _) => trouble_of_code(code),
        (None, sqlx::Error::PoolTimedOut) => Trouble::Crowded,
        (None, sqlx::Error::Io(_)) => Trouble::Io,
        _ => Trouble::Other,
    }
}

/// Sorts SQLite's result codes (sqlite.org/rescode.html), by the primary one where the extended one says no more.
pub(super) fn trouble_of_code(code: i32) -> Trouble {
    match code & 0xff {
        _ if code == NO_ROOM => Trouble::Full,
        13 => Trouble::Full,
        5 | 6 => Trouble::Busy,
        8 => Trouble::ReadOnly,
        14 => Trouble::CannotOpen,
        11 | 26 => Trouble::Damaged,
        10 => Trouble::Io,
        _ => Trouble::Other,
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(source: sqlx::Error) -> StoreError {
        StoreError::Database { file: PathBuf::new(), trouble: trouble_of(&source), source }
    }
}

impl StoreError {
    /// Names the database an error is about, where the place of failure did not know it.
    pub(super) fn of(self, path: &Path) -> StoreError {
        match self {
            StoreError::Database { file, trouble, source } if file.as_os_str().is_empty() => {
                StoreError::Database { file: path.to_path_buf(), trouble, source }
            }
            other => other,
        }
    }

    /// An error of doing something to a file.
    pub(super) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        move |source| StoreError::File { doing, path: path.to_path_buf(), source }
    }

    /// The error where this user may not look at `file` of a state.
    pub(super) fn barred(file: &Path, source: io::Error) -> StoreError {
        let dir = file.parent().unwrap_or(file).to_path_buf();
        let owner = fs::metadata(&dir).ok().map(|found| found.uid());
        StoreError::Barred { dir, owner, source }
    }

    /// The same of a file that was to be restored: what helps a database is no help for its backup.
    pub(super) fn of_backup(self, path: &Path) -> StoreError {
        let no = |what| StoreError::NoBackup { file: path.to_path_buf(), what };
        match self {
            StoreError::Damaged { what, .. } => no(what),
            StoreError::Database { trouble: Trouble::Damaged, source, .. } => no(source.to_string()),
            StoreError::Foreign(_) => no("it is of another program".into()),
            other => other,
        }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            StoreError::NotThere(_) => {
                "bring back a backup with `reconciled restore FILE`; without one, `reconciled state init --recover` takes what is out there into account (`state init` is for a first start)"
            }
            StoreError::AlreadyThere(_) => {
                "use it as it is, or start over with `reconciled state init --recover`"
            }
            StoreError::Locked { .. } => "let that process finish, or stop it first",
            StoreError::NewerSchema { .. } => {
                "run the newer program again, or `reconciled restore` a backup made before the upgrade"
            }
            StoreError::OlderSchema { .. } => {
                "start the daemon or run `reconciled apply` once: it migrates after making a backup"
            }
            StoreError::Migrate { .. } => {
                "the copy made before the migration lies beside the database; run the program that wrote it"
            }
            StoreError::Foreign(_) => "check `stateDir` in the configuration",
            StoreError::Damaged { .. } | StoreError::Database { trouble: Trouble::Damaged, .. } => {
                "bring back a backup with `reconciled restore FILE`, or start over from what is out there with `reconciled state init --recover`"
            }
            StoreError::NoBackup { .. } => {
                "name another one: `reconciled backup FILE` writes them, and the daemon into `backup.dir`"
            }
            StoreError::Database { trouble: Trouble::Full, .. } => {
                "free space on that file system; nothing was half-written"
            }
            StoreError::Database { trouble: Trouble::Busy, .. } => {
                "close other programs that have it open, such as a `sqlite3` shell in a transaction"
            }
            StoreError::Database { trouble: Trouble::Crowded, .. } => {
                "ask again; where that does not help, check that the disk is not overloaded (`iostat`), and start the daemon anew"
            }
            StoreError::Database { trouble: Trouble::ReadOnly | Trouble::CannotOpen, .. } => {
                "run as the user that owns the state directory, and check that it is mounted for writing"
            }
            StoreError::Database { trouble: Trouble::Io, .. } => "check the disk (`dmesg`) and make a backup",
            StoreError::Barred { owner, .. } => {
                let who = match owner {
                    Some(0) => "as root: `sudo reconciled …`".to_string(),
                    Some(uid) => format!(
                        "as the user with the id {uid}, which it belongs to: `sudo -u '#{uid}' reconciled …`"
                    ),
                    None => "as the user that owns it".to_string(),
                };
                return Some(format!("ask {who}; of a daemon that runs, members of `api.group` may ask"));
            }
            StoreError::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "run as the user that owns the state directory"
            }
            StoreError::File { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                "mount it for writing, or set another `stateDir`"
            }
            StoreError::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free space on that file system"
            }
            StoreError::File { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "check the path, and that the directory it is in exists"
            }
            StoreError::File { .. } => "check `stateDir` in the configuration",
            StoreError::SealKeyMissing(_) | StoreError::SealKeyWrong(_) => {
                "put back the `seal.key` that was kept with the backups, or start over with `reconciled state init --recover`"
            }
            StoreError::Unsealable(_) => "put back the `seal.key` this database was written with",
            StoreError::Superseded { .. } => "another `reconciled` took over; stop this one",
            StoreError::Renamed(_) => {
                "start the daemon or run `reconciled apply` once: either takes over what is known under that name, and asks no remote to change for it"
            }
            StoreError::RenameOpen(_) => {
                "give it its name of before, let `reconciled apply` find out what became of it, and rename it then; or let go of it: `reconciled status` has its address for `reconciled forget`"
            }
            StoreError::RenameTwice(_) => {
                "take `was` out of the configuration: what the name of before tracks stays as it is and is listed as unassigned by `reconciled status`"
            }
            StoreError::NotApproved(_) => "approve the digest that `reconciled approvals` shows now",
            _ => return None,
        };
        Some(text.to_string())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        let kind = match &error {
            StoreError::Superseded { .. } | StoreError::Moved { .. } | StoreError::NotApproved(_) => {
                ErrorKind::Conflict
            }
            StoreError::ReadOnly | StoreError::Barred { .. } => ErrorKind::PermissionDenied,
            StoreError::Damaged { .. }
            | StoreError::Unreadable(_)
            | StoreError::Unsealable(_)
            | StoreError::Database { trouble: Trouble::Damaged | Trouble::Other, .. } => {
                ErrorKind::Unexpected
            }
            _ => ErrorKind::Unavailable,
        };
        let hint = error.hint();
        let mut converted = Error::new(kind, error.to_string());
        converted.hint = hint;
        match error {
            StoreError::Database { source, .. } => converted.caused_by(source),
            StoreError::File { source, .. } | StoreError::Barred { source, .. } => {
                converted.caused_by(source)
            }
            _ => converted,
        }
    }
}
