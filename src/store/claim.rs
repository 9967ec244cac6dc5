//! Who somebody is by their own account: beside the user that the kernel names, never in that one's place.

/// What stands between the two.
const CLAIM: &str = ", by their own account ";

/// `actor`, and who that is by their own account, if they gave one.
pub fn with_claim(actor: &str, claimed: Option<&str>) -> String {
    claimed.map_or_else(|| actor.to_owned(), |claimed| format!("{actor}{CLAIM}{claimed}"))
}

/// True when `who` is the one that `actor` names, or who that is by their own account.
pub(super) fn names(actor: &str, who: &str) -> bool {
    let is_either = |(user, claimed): (&str, &str)| [user, claimed].contains(&who);
    actor == who || actor.split_once(CLAIM).is_some_and(is_either)
}

/// Who pushed by their own account, in the message of the event of a push: a ref and the name of a source have no space in them.
pub(super) fn in_push(message: &str) -> Option<&str> {
    let (_, said) = message.split_once(CLAIM)?;
    said.rsplit_once("; source ").map(|(claimed, _)| claimed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_stands_beside_the_user_and_both_are_found() {
        let both = with_claim("git", Some("ann"));
        assert_eq!(
            (both.as_str(), with_claim("git", None).as_str()),
            ("git, by their own account ann", "git")
        );
        for (who, expect) in [("git", true), ("ann", true), (both.as_str(), true), ("an", false), ("", false)]
        {
            assert_eq!(names(&both, who), expect, "{who}");
        }
        // A claim within a claim is no other user.
        assert!(!names(&with_claim("git", Some("x, by their own account root")), "root"));
        let message =
            |claimed| format!("{}; source infra: in force", with_claim("abc1234 pushed to main", claimed));
        assert_eq!(
            (in_push(&message(Some("a; source b"))), in_push(&message(None))),
            (Some("a; source b"), None)
        );
    }
}
