//! Push options: what the pusher says with `git push -o`.

use crate::{
    config::{Environment, Period},
    failure::Failure,
};
use reconciled_provider::problem::did_you_mean;
use std::time::Duration;

/// The names after `reconciled.`, and what each does.
const NAMES: [&str; 5] = ["approve", "plan", "wait", "accept-rewind", "color"];

/// Most options that one push may have.
const MOST: usize = 1_000;

/// What the pusher wishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Digests of held plans that the pusher consents to.
    pub(super) approve: Vec<String>,
    /// Show the plan and take nothing.
    pub(super) plan: bool,
    /// How long to follow; none for as long as the daemon says.
    pub(super) wait: Option<Duration>,
    /// The commit to which a branch may be rewound.
    pub(super) accept_rewind: Option<String>,
    /// Colours.
    pub(super) colour: bool,
}

impl Options {
    /// Reads them as Git passes them on (githooks(5)). Options of others are ignored.
    pub(super) fn of(environment: &Environment) -> Result<Options, Failure> {
        let count =
            environment.var("GIT_PUSH_OPTION_COUNT").and_then(|count| count.parse().ok()).unwrap_or(0);
        let given = (0..MOST.min(count)).filter_map(|n| environment.var(&format!("GIT_PUSH_OPTION_{n}")));
        let mut options = Options::default();
        for option in given.filter_map(|option| option.strip_prefix("reconciled.")) {
            options.take(option)?;
        }
        Ok(options)
    }

    fn take(&mut self, option: &str) -> Result<(), Failure> {
        let (name, value) =
            option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        let value = value.filter(|value| !value.is_empty());
        match (name, value) {
            ("approve", Some(digest)) => self.approve.push(digest.into()),
            ("plan", None) => self.plan = true,
            ("wait", Some("0")) => self.wait = Some(Duration::ZERO),
            ("wait", Some(text)) => self.wait = Some(period(text)?),
            ("accept-rewind", Some(commit)) => self.accept_rewind = Some(commit.to_lowercase()),
            ("color", None | Some("always")) => self.colour = true,
            ("color", Some("never")) => self.colour = false,
            _ => return Err(unknown(name, option)),
        }
        Ok(())
    }
}

fn period(text: &str) -> Result<Duration, Failure> {
    let period = text.parse::<Period>().map_err(|_| {
        let message = format!("`{text}` is no duration");
        Failure::hinted(message, "write -o reconciled.wait=30s, or 0 for not at all")
    });
    Ok(period?.0)
}

fn unknown(name: &str, option: &str) -> Failure {
    if NAMES.contains(&name) {
        let form = match name {
            "approve" => "reconciled.approve=DIGEST",
            "wait" => "reconciled.wait=30s",
            "accept-rewind" => "reconciled.accept-rewind=COMMIT",
            "color" => "reconciled.color=always",
            _ => "reconciled.plan",
        };
        return Failure::hinted(
            format!("`reconciled.{option}` is not understood"),
            format!("write -o {form}"),
        );
    }
    let hint = match did_you_mean(name, NAMES) {
        Some(near) => format!("did you mean `reconciled.{near}`?"),
        None => format!("options: {}", NAMES.map(|name| format!("reconciled.{name}")).join(", ")),
    };
    Failure::hinted(format!("there is no push option `reconciled.{name}`"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[&str]) -> Result<Options, String> {
        let count = options.len().to_string();
        let names: Vec<String> = (0..options.len()).map(|n| format!("GIT_PUSH_OPTION_{n}")).collect();
        let pairs = names.iter().map(String::as_str).zip(options.iter().copied());
        let environment = Environment::of(pairs.chain([("GIT_PUSH_OPTION_COUNT", count.as_str())]));
        Options::of(&environment)
            .map_err(|failure| format!("{failure}; {}", failure.hint().unwrap_or_default()))
    }

    #[test]
    fn options_are_read_and_those_of_others_ignored() {
        let all =
            ["ci.skip", "reconciled.approve=7f3a91", "reconciled.approve=aabbcc", "reconciled.wait=30s"];
        let options = parse(&all).unwrap();
        assert_eq!(options.approve, ["7f3a91", "aabbcc"]);
        assert_eq!(options.wait, Some(Duration::from_secs(30)));
        assert_eq!(parse(&["reconciled.wait=0"]).unwrap().wait, Some(Duration::ZERO));
        assert!(parse(&["reconciled.plan"]).unwrap().plan);
        assert_eq!(parse(&[]), Ok(Options::default()));
    }

    #[test]
    fn what_is_not_understood_is_an_error_with_what_was_meant() {
        let said = |option: &str| parse(&[option]).unwrap_err();
        assert!(said("reconciled.aprove=1").ends_with("did you mean `reconciled.approve`?"));
        assert!(said("reconciled.frobnicate").contains("options: reconciled.approve, "));
        assert!(said("reconciled.approve").ends_with("write -o reconciled.approve=DIGEST"));
        assert!(said("reconciled.plan=yes").ends_with("write -o reconciled.plan"));
        assert!(said("reconciled.wait=soon").contains("`soon` is no duration"));
    }
}
