//! The keys `backup` and `audit`: what the daemon keeps, where, and for how long.

use super::{
    locate::beside,
    values::{Period, from_text},
};
use reconciled_provider::SourceFile;
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

/// Copies of the state, made by the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backups {
    /// Where they are.
    pub dir: PathBuf,
    /// How often one is made.
    pub every: Duration,
    /// How many are kept, the newest ones.
    pub keep: usize,
}

/// What becomes of the audit trail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// How long events stay in the state; for ever without.
    pub keep: Option<Duration>,
    /// A file that every event is appended to.
    pub export: Option<PathBuf>,
}

#[derive(Deserialize)]
pub(super) struct RawBackup {
    dir: String,
    every: Option<Every>,
    keep: Option<Keep>,
}

struct Every(Duration);

impl FromStr for Every {
    type Err = String;
    fn from_str(text: &str) -> Result<Every, String> {
        let Period(every) = text.parse::<Period>().map_err(|error| error.to_string())?;
        match every < SHORTEST {
            true => Err(format!("`{text}` is too often for a copy of the state: write 1m or longer")),
            false => Ok(Every(every)),
        }
    }
}

impl<'de> Deserialize<'de> for Every {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Every, D::Error> {
        from_text(deserializer)
    }
}

struct Keep(usize);

impl<'de> Deserialize<'de> for Keep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Keep, D::Error> {
        struct NumberVisitor;
        impl Visitor<'_> for NumberVisitor {
            type Value = Keep;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("how many copies to keep, at least 1")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Keep, E> {
                match usize::try_from(number) {
                    Ok(keep @ 1..) => Ok(Keep(keep)),
                    _ => Err(E::custom("no copy would be kept: write 1 or more, or leave `backup` out")),
                }
            }
        }
        deserializer.deserialize_u64(NumberVisitor)
    }
}

#[derive(Deserialize)]
pub(super) struct RawAudit {
    keep: Option<Period>,
    export: Option<String>,
}

/// Shorter than this would be a load, not a precaution.
const SHORTEST: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

impl RawBackup {
    /// As written, with defaults for the rest.
    pub(super) fn read(self, file: &SourceFile) -> Backups {
        Backups {
            dir: beside(Some(Path::new(&*file.path)), Path::new(&self.dir)),
            every: self.every.map_or(DAY, |every| every.0),
            keep: self.keep.map_or(7, |keep| keep.0),
        }
    }
}

impl RawAudit {
    /// As written.
    pub(super) fn read(self, file: &SourceFile) -> Audit {
        let export = self.export.map(|path| beside(Some(Path::new(&*file.path)), Path::new(&path)));
        Audit { keep: self.keep.map(|period| period.0), export }
    }
}
