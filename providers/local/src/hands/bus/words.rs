//! What a call came to that brought no answer: systemd's word, or nobody's.

use crate::hands::Fault;
use reconciled_provider::Error;
use zbus::fdo;

/// Why a call brought no answer that could be used.
pub(super) enum Trouble {
    /// It never left.
    NotSent(Error),
    /// systemd would not: what that means, and its words.
    Refused(Word, String),
    /// It may have been carried out.
    Lost(Error),
}

/// What systemd has against a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// There is no such unit or file, or its name is that of none.
    Nothing,
    /// Who asks may not.
    Denied,
    /// Another unit may have it done, and nobody who asks.
    ByUnits,
    /// It can be said of this unit, or done to it, by nobody.
    No,
}

impl Word {
    /// The meaning and the text of an error that is systemd's word about what was asked. None for all others, which say
    /// nothing of the unit: nobody answered in time, nobody has the name, the bus is away.
    pub(super) fn of(error: &zbus::Error) -> Option<(Word, String)> {
        let (word, text) = match error {
            zbus::Error::FDO(error) => match &**error {
                fdo::Error::FileNotFound(text) | fdo::Error::InvalidArgs(text) => (Word::Nothing, text),
                fdo::Error::AccessDenied(text) | fdo::Error::InteractiveAuthorizationRequired(text) => {
                    (Word::Denied, text)
                }
                fdo::Error::FileExists(text)
                | fdo::Error::NotSupported(text)
                | fdo::Error::UnknownProperty(text)
                | fdo::Error::PropertyReadOnly(text) => (Word::No, text),
                _ => return None,
            },
            zbus::Error::MethodError(name, text, _) => {
                let text = text.clone().unwrap_or_default();
                return Word::named(name.as_str()).map(|word| (word, text));
            }
            _ => return None,
        };
        Some((word, text.clone()))
    }

    /// The same of the names that systemd has for itself.
    fn named(name: &str) -> Option<Word> {
        match name.strip_prefix("System.Error.").unwrap_or(name) {
            "org.freedesktop.systemd1.NoSuchUnit" | "ENOENT" => Some(Word::Nothing),
            "EACCES" | "EPERM" => Some(Word::Denied),
            "org.freedesktop.systemd1.OnlyByDependency" => Some(Word::ByUnits),
            "org.freedesktop.systemd1.ShuttingDown" => None,
            "EEXIST" | "EINVAL" | "EISDIR" | "ELOOP" | "ENOTDIR" | "EXDEV" | "EADDRNOTAVAIL" | "EROFS"
            | "EBADMSG" | "EUCLEAN" => Some(Word::No),
            name => name.starts_with("org.freedesktop.systemd1.").then_some(Word::No),
        }
    }
}

impl Trouble {
    pub(super) fn error(self, doing: &str) -> Error {
        match self {
            Trouble::NotSent(error) | Trouble::Lost(error) => error,
            Trouble::Refused(Word::Denied, text) => Error::permission_denied(format!("{doing}: {text}"))
                .hint("run the daemon as root, or let it ask a helper that is: docs/host-privileges.md"),
            Trouble::Refused(Word::ByUnits, text) => Error::invalid(format!("{doing}: {text}"))
                .hint("take `RefuseManualStart=` and `RefuseManualStop=` out of the unit and its drop-ins"),
            Trouble::Refused(_, text) => Error::invalid(format!("{doing}: {text}")),
        }
    }

    pub(super) fn fault(self, doing: &str) -> Fault {
        match self {
            Trouble::Lost(error) => Fault::Unknown(error),
            other => Fault::NoEffect(other.error(doing)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_systemd_says_itself_counts_as_its_word() {
        let of = |error: fn(String) -> fdo::Error| {
            Word::of(&zbus::Error::FDO(error("why".into()).into())).map(|(word, _)| word)
        };
        assert_eq!(of(fdo::Error::FileNotFound), Some(Word::Nothing));
        assert_eq!(of(fdo::Error::InvalidArgs), Some(Word::Nothing));
        assert_eq!(of(fdo::Error::AccessDenied), Some(Word::Denied));
        for nobody in [
            fdo::Error::NoReply,
            fdo::Error::ServiceUnknown,
            fdo::Error::NameHasNoOwner,
            fdo::Error::Disconnected,
            fdo::Error::TimedOut,
            fdo::Error::UnknownObject,
            fdo::Error::SpawnChildExited,
        ] {
            assert_eq!(of(nobody), None, "{:?}", nobody(String::new()));
        }
        assert_eq!(Word::named("org.freedesktop.systemd1.NoSuchUnit"), Some(Word::Nothing));
        assert_eq!(Word::named("org.freedesktop.systemd1.UnitMasked"), Some(Word::No));
        assert_eq!(Word::named("org.freedesktop.systemd1.OnlyByDependency"), Some(Word::ByUnits));
        assert_eq!(Word::named("System.Error.ECONNRESET"), None);
    }
}
