//! A revision: what its commit says about itself, apart from its files.

use super::oid::Oid;

/// What a commit says about itself. Names and subjects are as their authors wrote them: a renderer escapes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    pub oid: Oid,
    /// Name and address: `A U Thor <author@example.com>`.
    pub author: String,
    /// When it was committed, in seconds since 1970.
    pub time: i64,
    /// The first line of the message.
    pub subject: String,
    pub parents: Vec<Oid>,
    /// What its trailers `Reconciled-Approve:` say (git-interpret-trailers(1)).
    pub approves: Vec<String>,
}

/// The trailer that consents to a held plan.
pub const APPROVE: &str = "Reconciled-Approve";

impl CommitInfo {
    /// Returns the first seven digits of the name.
    pub fn short(&self) -> String {
        self.oid.short()
    }

    pub(super) fn of(commit: &git2::Commit<'_>) -> Self {
        let author = commit.author();
        let name = String::from_utf8_lossy(author.name_bytes());
        let email = String::from_utf8_lossy(author.email_bytes());
        let subject = commit.message_bytes().split(|byte| *byte == b'\n').find(|line| !line.is_empty());
        Self {
            oid: commit.id().into(),
            author: format!("{name} <{email}>"),
            time: commit.time().seconds(),
            subject: String::from_utf8_lossy(subject.unwrap_or_default()).trim().to_owned(),
            parents: commit.parent_ids().map(Oid::from).collect(),
            approves: approves(commit.message_bytes()),
        }
    }
}

fn approves(message: &[u8]) -> Vec<String> {
    let Ok(trailers) = git2::message_trailers_bytes(message) else { return Vec::new() };
    let said = trailers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(APPROVE.as_bytes()));
    said.map(|(_, value)| String::from_utf8_lossy(value).trim().to_owned()).collect()
}
