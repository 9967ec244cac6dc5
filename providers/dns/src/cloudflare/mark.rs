//! The mark of an instance, in the comment of a record: `reconciled=dns1`, behind the note of a person in
//! brackets. On plans with tags a note that leaves no room for it gets the mark as a tag, `reconciled:dns1`.

use reconciled_provider::Error;

const WORD: &str = "reconciled";

/// A comment and tags taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marked {
    /// What a person wrote.
    pub(crate) comment: String,
    /// Tags of people.
    pub(crate) tags: Vec<String>,
    /// The instance whose mark stands here.
    pub(crate) owner: Option<String>,
}

/// Tags as Cloudflare compares them: names in lower case, sorted, once each.
pub(crate) fn canonical_tags<'a>(tags: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let lower = |tag: &String| match tag.split_once(':') {
        Some((name, value)) => format!("{}:{value}", name.to_lowercase()),
        None => tag.to_lowercase(),
    };
    let mut tags: Vec<String> = tags.into_iter().map(lower).collect();
    tags.sort();
    tags.dedup();
    tags
}

/// Takes the mark out of what was seen.
pub(crate) fn split(comment: &str, tags: &[String]) -> Marked {
    let (mut text, mut owner) = (comment.trim(), None);
    if let Some(name) = text.strip_prefix(WORD).and_then(|rest| rest.strip_prefix('=')).filter(|n| is_name(n))
    {
        (text, owner) = ("", Some(name.to_owned()));
    } else if let Some((before, name)) = text
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once(&format!("({WORD}=")))
        .filter(|(_, name)| is_name(name))
    {
        (text, owner) = (before.trim_end(), Some(name.to_owned()));
    }
    let mut kept = Vec::new();
    for tag in tags {
        match tag.split_once(':') {
            Some((word, name)) if word.eq_ignore_ascii_case(WORD) && is_name(name) => {
                owner.get_or_insert_with(|| name.to_owned());
            }
            _ => kept.push(tag.clone()),
        }
    }
    Marked { comment: text.to_owned(), tags: canonical_tags(&kept), owner }
}

/// Comment and tags with the mark of `instance`, where there is room: `longest` characters in a comment, and
/// tags only where the plan `has_tags`.
pub(crate) fn join(
    comment: &str,
    tags: &[String],
    instance: &str,
    longest: usize,
    has_tags: bool,
) -> (String, Vec<String>) {
    let marked = match comment {
        "" => format!("{WORD}={instance}"),
        text => format!("{text} ({WORD}={instance})"),
    };
    if marked.chars().count() <= longest {
        return (marked, tags.to_vec());
    }
    let mark = has_tags.then(|| format!("{WORD}:{instance}"));
    (comment.to_owned(), tags.iter().cloned().chain(mark).collect())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ','))
}

/// Errors: the name of an instance that could not be read back from a comment.
pub(crate) fn validate_instance(instance: &str) -> Result<(), Error> {
    if is_name(instance) && instance.len() <= 64 && !instance.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Error::invalid(format!("instance `{instance}` cannot be written into comments of records"))
        .hint("use a name of at most 64 bytes without spaces, brackets and commas, or `marks: false`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(comment: &str, tags: &[&str], longest: usize, has_tags: bool) -> (String, Vec<String>) {
        let tags: Vec<String> = tags.iter().map(|tag| tag.to_string()).collect();
        let (text, with) = join(comment, &tags, "dns1", longest, has_tags);
        let is_marked = text != comment || with != tags;
        let owner = is_marked.then(|| "dns1".to_owned());
        assert_eq!(split(&text, &with), Marked { comment: comment.into(), tags, owner });
        (text, with)
    }

    #[test]
    fn a_mark_shares_the_comment_with_a_note_and_is_told_from_it() {
        assert_eq!(check("", &[], 100, false).0, "reconciled=dns1");
        assert_eq!(check("ask (Bob)", &["a"], 100, true).0, "ask (Bob) (reconciled=dns1)");
        let long = "x".repeat(95);
        assert_eq!(check(&long, &["a"], 100, false), (long.clone(), vec!["a".into()]));
        assert_eq!(check(&long, &["a"], 100, true).1, ["a", "reconciled:dns1"]);
    }

    #[test]
    fn other_comments_mark_nothing() {
        for text in
            ["", "reconciled", "reconciled=", "reconciled=two words", "x (reconciled=)", "see reconciled=a"]
        {
            assert_eq!(split(text, &[]).owner, None, "{text}");
            assert_eq!(split(text, &[]).comment, text);
        }
        assert!(validate_instance("two words").is_err() && validate_instance("dns1").is_ok());
    }

    #[test]
    fn tags_are_compared_without_case_of_their_names_and_without_order() {
        let tags = ["Team:Web".to_string(), "b".into(), "team:Web".into()];
        assert_eq!(canonical_tags(&tags), ["b", "team:Web"]);
    }
}
