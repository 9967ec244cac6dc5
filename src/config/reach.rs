//! How a daemon is reached from elsewhere: the address it listens at, and who may ask there.

use super::{
    SecretPlace,
    decode::{decode_all, list},
    names::is_name,
    source::SourceConfig,
    values::from_text,
};
use reconciled_provider::{Node, Problem, SecretRef, SourceFile};
use serde::{Deserialize, Deserializer, Serialize};
use std::{collections::BTreeSet, fmt, net::SocketAddr, str::FromStr, sync::Arc};

/// Someone who may ask over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Name, as the audit trail shows it.
    pub name: Arc<str>,
    /// What it may be used for.
    pub role: Role,
    /// Where the hash of the token is.
    pub hash: SecretRef,
}

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// To look.
    Read,
    /// To look, consent, and have it written.
    Operator,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Read => "read",
            Role::Operator => "operator",
        })
    }
}

/// An address to listen at.
pub(super) struct Listen(pub(super) SocketAddr);

impl FromStr for Listen {
    type Err = String;
    fn from_str(text: &str) -> Result<Listen, String> {
        text.parse().map(Listen).map_err(|_| {
            format!("`{text}` is no address to listen at: write ADDRESS:PORT, as in 127.0.0.1:9440")
        })
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Listen, D::Error> {
        from_text(deserializer)
    }
}

#[derive(Deserialize)]
struct RawToken {
    name: String,
    role: Role,
    hash: SecretPlace,
}

/// Reads `tokens`.
pub(super) fn tokens(root: &Node, file: &SourceFile, problems: &mut Vec<Problem>) -> Vec<Token> {
    let (mut all, mut names) = (Vec::new(), BTreeSet::new());
    for node in list(root, "tokens", file, problems) {
        let Some(raw) = decode_all::<RawToken>(node, file, problems) else { continue };
        let mut error = |message: String, hint: &str| {
            problems.push(Problem::error(message).at(file, node.span).hint(hint));
        };
        if !is_name(&raw.name) {
            let hint = "use small letters, digits and `-`, at most 63";
            error(format!("`{}` is not a name for a token", raw.name), hint);
        }
        if !names.insert(raw.name.clone()) {
            error(
                format!("two tokens are named `{}`", raw.name),
                "the audit trail tells them by their names",
            );
        }
        all.push(Token { name: raw.name.into(), role: raw.role, hash: raw.hash.0 });
    }
    all
}

/// Says what cannot work as it is written: whoever listens nowhere is reached by no token and no forge, and what
/// listens for other hosts is heard by those between.
pub(super) fn check(
    root: &Node,
    listen: Option<SocketAddr>,
    sources: &[SourceConfig],
    file: &SourceFile,
    problems: &mut Vec<Problem>,
) {
    let nowhere = "write where to listen: api: {listen: \"127.0.0.1:9440\"}";
    let mut warn = |place, message: &str, hint: &str| {
        problems.push(Problem::warning(message).at(file, place).hint(hint));
    };
    match listen {
        None => {
            if let Some((key, _)) = root.entry("tokens") {
                warn(key.span, "`tokens` have no effect without `api.listen`", nowhere);
            }
            for source in sources.iter().filter(|source| source.webhook.is_some()) {
                let message =
                    format!("`webhook` of source `{}` has no effect without `api.listen`", source.name);
                warn(source.span, &message, nowhere);
            }
        }
        Some(address) if !address.ip().is_loopback() => {
            let span = root.get("api").and_then(|api| api.get("listen")).map_or(root.span, |node| node.span);
            let message =
                format!("`{address}` can be reached from elsewhere, and what is said there is plain HTTP");
            let hint = "listen at 127.0.0.1 and let a reverse proxy on this host speak TLS";
            warn(span, &message, hint);
        }
        Some(_) => {}
    }
}
