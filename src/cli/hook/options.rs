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
    /// The commits to which branches may be rewound.
    pub(super) accept_rewind: Vec<String>,
    /// Colours.
    pub(super) colour: bool,
}

impl Options {
    /// Reads them as Git passes them on (githooks(5)). Options of others are ignored.
    ///
    /// Errors: one that cannot be read may be any, such as the one by which nothing is to be taken.
    pub(super) fn of(environment: &Environment) -> Result<Options, Failure> {
        let count =
            environment.var("GIT_PUSH_OPTION_COUNT").and_then(|count| count.parse().ok()).unwrap_or(0);
        if count > MOST {
            let message = format!("this push has {count} options, and {MOST} are read");
            return Err(Failure::hinted(message, "leave out those that nobody here reads"));
        }
        let mut options = Options::default();
        for number in 0..count {
            let name = format!("GIT_PUSH_OPTION_{number}");
            if !environment.is_set(&name) {
                let message = format!("option {} of this push is no text (UTF-8)", number + 1);
                return Err(Failure::hinted(message, "write it anew, or leave it out: git push -o OPTION"));
            }
            let option = environment.var(&name).unwrap_or_default();
            if let Some(option) = option.strip_prefix("reconciled.") {
                options.take(option)?;
            }
        }
        Ok(options)
    }

    /// Whether a rewind to `commit`, a full id, is consented to.
    pub(super) fn accepts_rewind(&self, commit: &str) -> bool {
        self.accept_rewind.iter().any(|wish| wish.len() >= 7 && commit.starts_with(wish.as_str()))
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
            ("accept-rewind", Some(commit)) => self.accept_rewind.push(commit.to_lowercase()),
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
    fn each_of_several_branches_may_be_rewound() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let wishes = ["1111111", "22222222", "333333"].map(|wish| format!("reconciled.accept-rewind={wish}"));
        let options = parse(&wishes.each_ref().map(String::as_str)).unwrap();
        assert!(options.accepts_rewind(&one) && options.accepts_rewind(&two));
        assert!(!options.accepts_rewind(&"3".repeat(40)), "six digits are too few");
        assert!(!Options::default().accepts_rewind(&one));
    }

    #[test]
    fn options_that_cannot_be_read_are_errors_whatever_they_say() {
        let most = vec!["x"; MOST];
        assert_eq!(parse(&most), Ok(Options::default()));
        let more = [&most[..], &["reconciled.plan"]].concat();
        assert!(parse(&more).unwrap_err().starts_with("this push has 1001 options"));
        // What is not UTF-8 is not in the environment; an empty one is.
        let environment = Environment::of([("GIT_PUSH_OPTION_COUNT", "2"), ("GIT_PUSH_OPTION_0", "")]);
        let failure = Options::of(&environment).unwrap_err();
        assert_eq!(failure.to_string(), "option 2 of this push is no text (UTF-8)");
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
