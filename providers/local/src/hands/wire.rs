//! What is said over the socket of the helper: frames of JSON, each with its length in front.
//!
//! A connection carries one question and its answers: frames that say something, and one that says how it ended. Only
//! who listens for changes stays. Whatever is not exactly a question of this version is refused with a reason, before
//! anything of it is done.

use super::{Change, Check, Fault, Job, Link, Put, Remove, Run, Seen, Start, UnitState, Watched};
use crate::path::FilePath;
use reconciled_provider::{Error, ErrorKind};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeSet,
    io::{self, ErrorKind as Io},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The version of these words. Two that differ do not talk.
pub const VERSION: u32 = 5;

/// Longest frame: the largest file that is managed, in base64, and what is said of it.
pub const LONGEST: usize = 24 * 1024 * 1024;

/// A question and the version it is asked in.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// [`VERSION`].
    pub version: u32,
    /// What is asked.
    pub ask: Ask,
}

/// What can be asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// [`super::Hands::look`].
    Look(Vec<FilePath>),
    /// [`super::Hands::list`].
    List(FilePath),
    /// [`super::Hands::list_all`].
    ListAll,
    /// [`super::Hands::put`].
    Put(Put),
    /// [`super::Hands::remove`].
    Remove(Remove),
    /// [`super::Hands::check`], where it runs a command.
    Check(OneCheck),
    /// [`super::Manager::units`].
    Units(Vec<String>),
    /// [`super::Manager::triggers`].
    Triggers(String),
    /// [`super::Manager::runs`].
    Runs(Vec<String>),
    /// [`super::Manager::starts`].
    Starts(Vec<String>),
    /// [`super::Manager::link`].
    Link(String, Link),
    /// [`super::Manager::reload`].
    Reload,
    /// [`super::Manager::job`].
    Job(String, Job, String),
    /// [`super::Manager::reset_failed`].
    ResetFailed(String),
    /// [`super::Hands::changes`]; asked again on the same connection for others. The number comes back.
    ListenFiles(u64, Watched),
    /// [`super::Manager::changes`]; asked again on the same connection for others. The number comes back.
    ListenUnits(u64, BTreeSet<String>),
}

impl Ask {
    /// True for what may take as long as a job of systemd or a command of somebody does.
    pub fn is_long(&self) -> bool {
        match self {
            Ask::Look(_) | Ask::List(_) | Ask::ListAll | Ask::Units(_) => false,
            Ask::Triggers(_) | Ask::Runs(_) | Ask::Starts(_) => false,
            // They stay, and are at nothing.
            Ask::ListenFiles(..) | Ask::ListenUnits(..) => false,
            Ask::Put(_) | Ask::Remove(_) | Ask::Check(_) | Ask::Link(..) | Ask::Reload => true,
            Ask::Job(..) | Ask::ResetFailed(_) => true,
        }
    }
}

/// A check of one instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneCheck {
    /// What must answer.
    pub check: Check,
    /// Name of the unit.
    pub unit: String,
    /// Number of the instance.
    pub instance: u32,
}

/// What can be answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// One path, in the order of the question.
    Seen(Seen),
    /// All units that were asked for, in the order of the question.
    Units(Vec<UnitState>),
    /// Names of units.
    Names(Vec<String>),
    /// The last runs of all that were asked for, in the order of the question.
    Runs(Vec<Run>),
    /// What systemd says about starting all that were asked for, in the order of the question.
    Starts(Vec<Start>),
    /// The instance that a check is about was asked, and is not well.
    Unwell(Why),
    /// From now on changes are told of what was asked for with this number.
    Listening(u64),
    /// Files changed.
    Files(Vec<Change>),
    /// A unit changed; none where nobody knows which.
    Unit(Option<String>),
    /// It was done, or all was said.
    Done,
    /// Nothing changed.
    Failed(Why),
    /// It may have been done.
    Unknown(Why),
}

/// An error, with its causes as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Why {
    #[serde(with = "crate::state::kind")]
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    retry_after: Option<Duration>,
}

impl From<&Error> for Why {
    fn from(error: &Error) -> Why {
        let (hint, retry_after) = (error.hint.clone(), error.retry_after);
        Why { kind: error.kind, message: error.chain(), hint, retry_after }
    }
}

impl From<Why> for Error {
    fn from(why: Why) -> Error {
        let mut error = Error::new(why.kind, why.message);
        (error.hint, error.retry_after) = (why.hint, why.retry_after);
        error
    }
}

impl From<Result<(), Fault>> for Answer {
    fn from(result: Result<(), Fault>) -> Answer {
        match result {
            Ok(()) => Answer::Done,
            Err(Fault::NoEffect(error)) => Answer::Failed((&error).into()),
            Err(Fault::Unknown(error)) => Answer::Unknown((&error).into()),
        }
    }
}

/// Reads a question.
///
/// Errors: why it is none, in words for who asked.
pub fn question(frame: &[u8]) -> Result<Ask, Error> {
    /// What every version has.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let no_question = |error: serde_json::Error| Error::invalid(format!("this is no question: {error}"));
    let Version { version } = serde_json::from_slice(frame).map_err(no_question)?;
    if version != VERSION {
        let text = format!("the question is of version {version}, and the helper knows version {VERSION}");
        return Err(
            Error::unsupported(text).hint("restart both: systemctl restart reconciled reconciled-hostd")
        );
    }
    serde_json::from_slice(frame).map(|question: Question| question.ask).map_err(no_question)
}

/// Writes one frame.
pub async fn send(to: &mut (impl AsyncWrite + Unpin), words: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(words)?;
    let length = u32::try_from(text.len()).ok().filter(|_| text.len() <= LONGEST);
    let length =
        length.ok_or_else(|| io::Error::new(Io::InvalidInput, "it is longer than a frame may be"))?;
    to.write_all(&length.to_be_bytes()).await?;
    to.write_all(&text).await?;
    to.flush().await
}

/// Frames that come in. Nothing is lost where [`Frames::next`] is given up.
#[derive(Debug)]
pub struct Frames<R> {
    from: R,
    read: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    /// Frames of `from`.
    pub fn of(from: R) -> Frames<R> {
        Frames { from, read: Vec::new() }
    }

    /// The next frame; none at the end.
    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some((head, _)) = self.read.split_first_chunk::<4>() {
                let length = u32::from_be_bytes(*head) as usize;
                if length > LONGEST {
                    let text =
                        format!("a frame of {length} bytes is longer than the {LONGEST} that are read");
                    return Err(io::Error::new(Io::InvalidData, text));
                }
                if self.read.len() >= 4 + length {
                    let rest = self.read.split_off(4 + length);
                    let mut frame = std::mem::replace(&mut self.read, rest);
                    frame.drain(..4);
                    return Ok(Some(frame));
                }
            }
            if self.from.read_buf(&mut self.read).await? == 0 {
                return match self.read.is_empty() {
                    true => Ok(None),
                    false => Err(Io::UnexpectedEof.into()),
                };
            }
        }
    }

    /// The next frame, read.
    pub async fn words<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        match self.next().await? {
            Some(frame) => Ok(Some(serde_json::from_slice(&frame)?)),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> String {
        question(text.as_bytes()).unwrap_err().message.clone()
    }

    #[test]
    fn what_is_no_question_is_refused_with_the_reason() {
        assert!(question(br#"{"version":5,"ask":"ListAll"}"#).is_ok());
        assert!(question(br#"{"version":5,"ask":{"Look":["/etc/motd"]}}"#).is_ok());
        assert!(refused("").contains("no question"));
        assert!(refused("GET / HTTP/1.1").contains("no question"));
        assert!(refused(r#"{"version":1,"ask":"ListAll"}"#).contains("version 1"));
        assert!(refused(r#"{"version":5,"ask":"Shell"}"#).contains("unknown variant `Shell`"));
        assert!(refused(r#"{"version":5,"ask":"ListAll","as":"root"}"#).contains("unknown field `as`"));
        assert!(refused(r#"{"version":5,"ask":{"Look":["/etc/../root"]}}"#).contains("`..` in it"));
        assert!(refused(r#"{"version":5,"ask":{"List":"etc"}}"#).contains("slash"));
        let put = r#"{"version":5,"ask":{"Put":{"path":"/etc/x","expect":"00","make":{"Link":{"target":"a"}},"keep":false}}}"#;
        assert!(refused(put).contains("no hash"));
    }

    #[tokio::test]
    async fn frames_come_as_they_were_sent_and_too_long_ones_not_at_all() {
        let mut sent = Vec::new();
        send(&mut sent, &"one").await.unwrap();
        send(&mut sent, &"two").await.unwrap();
        let mut frames = Frames::of(&sent[..]);
        assert_eq!(frames.words::<String>().await.unwrap().as_deref(), Some("one"));
        assert_eq!(frames.words::<String>().await.unwrap().as_deref(), Some("two"));
        assert_eq!(frames.next().await.unwrap(), None);
        assert!(Frames::of(&sent[..6]).next().await.is_err());
        assert!(Frames::of(&[0xff; 8][..]).next().await.unwrap_err().to_string().contains("longer"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), text in r#"[{}":,\[\]a-zA-Z0-9/.]{0,60}"#) {
            let _ = question(&bytes);
            let _ = question(format!(r#"{{"version":5,"ask":{text}}}"#).as_bytes());
        }
    }
}
