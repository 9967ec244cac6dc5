//! Where a text is cut into strings, and when that is no difference.
//!
//! A TXT value that is one string says a text and not where it is cut: others cut long texts at places of their own. It stands for
//! the value that was seen of the same text, if that is the only one, and is compared and written as that, so that nothing that
//! has another meaning cut otherwise (RFC 6763 §6.1) changes with its TTL or with a value beside it. A value of several strings is
//! just these.
//!
//! Guarantees: pure; nothing depends on the order of values; what is written as it was seen equals it when it is seen again.

use crate::{
    rdata::{self, Type},
    record::{self, RrSet},
    text::{self, Strings},
};
use reconciled_provider::{Batch, Observed, Op, Resource, ResourceId, Spec};
use std::borrow::Cow;

/// The content of `desired` with its texts cut as they are in `observed`.
pub(crate) fn as_seen<'d>(id: &ResourceId, desired: &'d [u8], observed: &[u8]) -> Cow<'d, [u8]> {
    cut_as(id, desired, observed).map_or(desired.into(), Cow::Owned)
}

/// `batch` with the texts of what is there cut as they were seen; none where they are so anyway.
pub(crate) fn written_as_seen(batch: &Batch) -> Option<Batch> {
    let spec = |desired: &Resource, observed: &Observed| {
        let bytes = cut_as(&desired.id, desired.spec.bytes()?, &observed.bytes)?;
        Some(Spec::resolved(bytes, desired.spec.template()))
    };
    let of = |op: &Op| match op {
        Op::Update { desired, observed, .. }
        | Op::Replace { desired, observed, .. }
        | Op::Continue { desired, observed: Some(observed), .. } => spec(desired, observed),
        Op::Create { .. } | Op::Delete { .. } | Op::Continue { .. } => None,
    };
    let specs: Vec<(usize, Spec)> =
        batch.actions.iter().enumerate().filter_map(|(at, action)| Some((at, of(&action.op)?))).collect();
    if specs.is_empty() {
        return None;
    }
    let mut batch = batch.clone();
    for (at, spec) in specs {
        if let Op::Update { desired, .. } | Op::Replace { desired, .. } | Op::Continue { desired, .. } =
            &mut batch.actions[at].op
        {
            desired.spec = spec;
        }
    }
    Some(batch)
}

fn cut_as(id: &ResourceId, desired: &[u8], observed: &[u8]) -> Option<Vec<u8>> {
    if !is_text(id) {
        return None;
    }
    let (desired, observed) = (RrSet::decode(desired)?, RrSet::decode(observed)?);
    let mut values = values_as_seen(&desired.values, &observed.values)?;
    Some(record::encode_with(desired.ttl, desired.extra, &mut values))
}

/// True for a set of texts.
pub(crate) fn is_text(id: &ResourceId) -> bool {
    record::parts(id).is_some_and(|(_, kind)| kind == Type::Txt.word())
}

/// The texts `desired`, each as the one that was seen of it; none where that changes nothing. What says how a value stands
/// at the remote stays as it is desired.
pub(crate) fn values_as_seen(desired: &[&str], seen: &[&str]) -> Option<Vec<String>> {
    let wanted: Vec<(&str, &str)> = desired.iter().map(|value| parts(value)).collect();
    let mut there: Vec<(&str, &str)> = seen.iter().map(|value| parts(value)).collect();
    there.sort_unstable();
    there.dedup();
    let cut: Vec<(&str, Vec<u8>, String)> = there
        .iter()
        // One that is desired as it is cut is no other's.
        .filter(|seen| !wanted.contains(seen))
        .filter_map(|(set, data)| {
            let strings = Strings::read(data).filter(Strings::is_cut)?;
            let mut canonical = String::new();
            strings.quote(&mut canonical);
            Some((*set, strings.octets().to_vec(), canonical))
        })
        .collect();
    if cut.is_empty() {
        return None;
    }
    let mut has_changed = false;
    let values = desired.iter().zip(&wanted).map(|(value, (set, data))| {
        let text = (!there.contains(&(*set, *data))).then(|| uncut(data)).flatten();
        let mut same = cut.iter().filter(|(of, octets, _)| of == set && Some(octets) == text.as_ref());
        match (same.next(), same.next()) {
            (Some((_, _, canonical)), None) => {
                has_changed = true;
                format!("{}{canonical}", &value[..value.len() - data.len()])
            }
            _ => (*value).to_owned(),
        }
    });
    let values: Vec<String> = values.collect();
    has_changed.then_some(values)
}

/// The octets of a text that does not say where it is cut.
fn uncut(data: &str) -> Option<Vec<u8>> {
    let strings = Strings::read(data).filter(|strings| !strings.is_cut())?;
    Some(strings.octets().to_vec())
}

/// The set with a routing policy that a value is in, if it is, and the value without what says how it stands.
fn parts(value: &str) -> (&str, &str) {
    let data = record::bare(value);
    let before = &value[..value.len() - data.len()];
    (if before.starts_with("(set ") { before } else { "" }, data)
}

/// The text of a value that says where it is cut, as one that does not; none for any other.
pub(crate) fn joined(value: &str) -> Option<String> {
    // Most values are no texts at all.
    let strings = value.starts_with('"').then(|| Strings::read(value)).flatten().filter(Strings::is_cut)?;
    let mut out = String::new();
    text::quote(strings.octets(), &mut out);
    Some(out)
}

/// The content of `bytes`, for a remote that has no form for where a text is cut; none where it says nothing of it.
pub(crate) fn without_cuts(id: &ResourceId, bytes: &[u8]) -> Option<Vec<u8>> {
    let set = RrSet::decode(bytes).filter(|_| is_text(id))?;
    if !set.values.iter().any(|value| rdata::strings(Type::Txt, value).is_some()) {
        return None;
    }
    let text = |value: &&str| joined(value).unwrap_or_else(|| (*value).to_owned());
    Some(record::encode_with(set.ttl, set.extra, &mut set.values.iter().map(text).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(desired: &[&str], seen: &[&str], expect: &[&str]) {
        let turned: Vec<&str> = seen.iter().rev().copied().collect();
        for seen in [seen, &turned[..]] {
            let values = values_as_seen(desired, seen);
            let values = values.unwrap_or_else(|| desired.iter().map(|value| value.to_string()).collect());
            assert_eq!(values, expect, "{desired:?} of {seen:?}");
        }
    }

    #[test]
    fn a_text_stands_for_the_only_one_that_was_seen_of_it() {
        check(&["\"ab\"", "\"c\""], &["\"a\" \"b\""], &["\"a\" \"b\"", "\"c\""]);
        check(&["\"ab\""], &["(disabled) \"a\" \"b\""], &["\"a\" \"b\""]);
        check(&["\"ab\""], &["(ttl 60) \"a\" \"\\098\""], &["\"a\" \"b\""]);
        check(&["(set x) \"ab\""], &["(set x) \"a\" \"b\"", "(set y) \"\" \"ab\""], &["(set x) \"a\" \"b\""]);
        check(&["\"ab\""], &["(set x) \"a\" \"b\""], &["\"ab\""]);
        check(&["\"abc\""], &["\"a\" \"b\""], &["\"abc\""]);
    }

    #[test]
    fn where_it_is_not_the_only_one_it_stands_for_itself() {
        check(&["\"ab\""], &["\"a\" \"b\"", "\"ab\""], &["\"ab\""]);
        check(&["\"ab\""], &["\"a\" \"b\"", "\"\" \"ab\""], &["\"ab\""]);
        check(&["\"ab\"", "\"a\" \"b\""], &["\"a\" \"b\""], &["\"ab\"", "\"a\" \"b\""]);
    }

    #[test]
    fn several_strings_are_just_these() {
        check(&["\"a\" \"b\""], &["\"ab\""], &["\"a\" \"b\""]);
        check(&["\"a\" \"b\""], &["\"\" \"ab\""], &["\"a\" \"b\""]);
    }

    #[test]
    fn only_texts_are_cut_and_only_their_difference_is_told() {
        let (txt, other) = (ResourceId::from("a.example./TXT"), ResourceId::from("a.example./HINFO"));
        let seen = b"300\n\"a\" \"b\"";
        assert_eq!(&*as_seen(&txt, b"60\n\"ab\"", seen), b"60\n\"a\" \"b\"");
        assert_eq!(&*as_seen(&other, b"60\n\"ab\"", seen), b"60\n\"ab\"");
        assert_eq!(without_cuts(&txt, seen).unwrap(), b"300\n\"ab\"");
        assert_eq!(without_cuts(&other, seen), None);
        assert_eq!(without_cuts(&txt, b"300\n\"ab\""), None);
    }
}
