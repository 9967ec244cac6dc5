//! Records of one name and type as an RRset, and an RRset as changes of records.
//!
//! The API knows single values, each with a TTL, a cloud and a comment of its own. Where the values of a set
//! differ in these, the odd ones are shown with what is odd in front (`(ttl 60) 192.0.2.1`), so that they
//! differ from what is desired, and are brought in line when the set is written.

use super::{
    data,
    dialect::{AUTO, Extra},
    mark::{self, Marked},
    zones::Plan,
};
use crate::{
    ownership::MarkAfter,
    record::{self, RrSet},
};
use reconciled_provider::{Error, Owner};
use serde_json::{Map, Value, json};

/// One record as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Id that Cloudflare assigned.
    pub(crate) id: String,
    /// Canonical value.
    pub(crate) value: String,
    /// Seconds, or [`AUTO`].
    pub(crate) ttl: u32,
    /// Traffic goes through Cloudflare.
    pub(crate) proxied: bool,
    /// Comment and tags, the mark taken out.
    pub(crate) marked: Marked,
    /// Made by another product of Cloudflare; cannot be changed here.
    pub(crate) is_system: bool,
}

/// A set as plans see it.
#[derive(Debug)]
pub(crate) struct View {
    /// Canonical bytes.
    pub(crate) bytes: Vec<u8>,
    /// The canonical text of each record, in the order of the records.
    shown: Vec<String>,
}

/// The one value that all have, if they do.
fn common<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// The set that `records` make. `wanted` is what is declared besides the data: of comments and tags that nobody
/// declares nothing is shown, for they are not ours. None: not declared at all, so everything is shown.
pub(crate) fn view(records: &[Seen], wanted: Option<&Extra>) -> View {
    let ttl = records.iter().map(|r| r.ttl).min().unwrap_or(AUTO);
    let proxied = !records.is_empty() && records.iter().all(|r| r.proxied);
    let comment = match wanted {
        Some(Extra { comment: None, .. }) => None,
        Some(Extra { comment: declared, .. }) => {
            common(records.iter().map(|r| &r.marked.comment)).cloned().or_else(|| declared.clone())
        }
        None => common(records.iter().map(|r| &r.marked.comment)).filter(|text| !text.is_empty()).cloned(),
    };
    let tags = match wanted {
        Some(Extra { tags: None, .. }) => None,
        Some(Extra { tags: declared, .. }) => {
            common(records.iter().map(|r| &r.marked.tags)).cloned().or_else(|| declared.clone())
        }
        None => common(records.iter().map(|r| &r.marked.tags)).filter(|tags| !tags.is_empty()).cloned(),
    };
    let extra = Extra { proxied, comment, tags };
    let odd = |record: &Seen| {
        let mut words = Vec::new();
        if record.ttl != ttl {
            words.push(format!("ttl {}", record.ttl));
        }
        if record.proxied != proxied {
            words.push("proxied".into());
        }
        if wanted.is_some() && extra.comment.as_ref().is_some_and(|text| *text != record.marked.comment) {
            words.push("other comment".into());
        }
        if wanted.is_some() && extra.tags.as_ref().is_some_and(|tags| *tags != record.marked.tags) {
            words.push("other tags".into());
        }
        words
    };
    let show = |record: &Seen| {
        // What cannot be parsed is carried as it is, but a line break would look like two values.
        let value = record.value.replace('\n', "\\010");
        match odd(record).join(", ") {
            words if words.is_empty() => value,
            words => format!("({words}) {value}"),
        }
    };
    let shown: Vec<String> = records.iter().map(show).collect();
    let bytes = record::encode_with(ttl, &extra.text(), &mut shown.clone());
    View { bytes, shown }
}

/// Whose the set is: the marks of its records, else nobody's.
pub(crate) fn owner(records: &[Seen], instance: &str) -> Owner {
    if records.iter().any(|record| record.is_system) {
        return Owner::System;
    }
    let marks = || records.iter().filter_map(|record| record.marked.owner.as_deref());
    match marks().find(|owner| *owner != instance) {
        Some(other) => Owner::Other(other.into()),
        None if marks().next().is_some() => Owner::Ours,
        None => Owner::Unmarked,
    }
}

/// What a batch is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// Ids of records to delete.
    pub(crate) deletes: Vec<String>,
    /// Records to change in place, each with its id.
    pub(crate) patches: Vec<Value>,
    /// Records to create.
    pub(crate) posts: Vec<Value>,
}

impl Changes {
    /// How many operations these are.
    pub(crate) fn count(&self) -> usize {
        self.deletes.len() + self.patches.len() + self.posts.len()
    }
}

/// How records are written in one zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    /// Whom our mark names.
    pub(crate) instance: &'a str,
    /// False where marks are turned off: ours is written nowhere, and stays where it is.
    pub(crate) marks: bool,
    /// What becomes of the marks of the set.
    pub(crate) after: MarkAfter,
    /// What the plan of the zone allows.
    pub(crate) plan: Plan,
}

impl Writer<'_> {
    /// What makes the set `name`/`kind`, which is `now`, as desired; deletes all of it for none.
    ///
    /// A value that stays keeps its record. Old and new values are paired, so that a record changes in place
    /// and its name always answers.
    pub(crate) fn changes(
        &self,
        name: &str,
        kind: &str,
        now: &[Seen],
        desired: Option<&RrSet<'_>>,
    ) -> Result<Changes, Error> {
        let mut out = Changes::default();
        let Some(desired) = desired else {
            out.deletes.extend(now.iter().map(|record| record.id.clone()));
            return Ok(out);
        };
        let wanted = Extra::parse(desired.extra);
        self.fits(name, kind, &wanted)?;
        let view = view(now, Some(&wanted));
        let mut left: Vec<(&Seen, &String)> = now.iter().zip(&view.shown).collect();
        let (mut kept, mut new) = (Vec::new(), Vec::new());
        for value in &desired.values {
            match left.iter().position(|(record, shown)| shown == value || record.value == *value) {
                Some(index) => kept.push((left.remove(index), *value)),
                // A value of somebody else that was odd and is gone or mended by now.
                None if value.starts_with('(') => {}
                None => new.push(*value),
            }
        }
        for ((record, shown), value) in &kept {
            // What is odd and stays odd belongs to somebody else.
            if *shown == value && value.starts_with('(') {
                continue;
            }
            let patch = self.patch(record, desired.ttl, &wanted, record.marked.owner.is_some());
            out.patches.extend(patch.map(|patch| with_id(&record.id, patch)));
        }
        let mut olds = left.into_iter();
        for value in new {
            let data = data::write(kind, value)?;
            match olds.next() {
                Some((record, _)) => {
                    let mut patch = self.patch(record, desired.ttl, &wanted, true).unwrap_or_default();
                    patch.extend(data);
                    // The fields of some types can only be read together with name and type.
                    patch.insert("name".into(), name.trim_end_matches('.').into());
                    patch.insert("type".into(), data::type_of(kind).into());
                    out.patches.push(with_id(&record.id, patch));
                }
                None => out.posts.push(self.post(name, kind, desired.ttl, &wanted, data)),
            }
        }
        out.deletes.extend(olds.map(|(record, _)| record.id.clone()));
        let is_ours = |record: &Seen| record.marked.owner.as_deref() == Some(self.instance);
        let is_marked = self.after != MarkAfter::Ours || !self.marks || now.iter().all(is_ours);
        if out.count() == 0 && !is_marked {
            // Somebody wants it written although nothing differs: for the mark.
            for ((record, _), _) in &kept {
                let patch = self.patch(record, desired.ttl, &wanted, true);
                out.patches.extend(patch.map(|patch| with_id(&record.id, patch)));
            }
        }
        Ok(out)
    }

    /// Errors: what is declared does not fit the plan of the zone; nothing of it would be said by Cloudflare in
    /// words that name the record.
    fn fits(&self, name: &str, kind: &str, wanted: &Extra) -> Result<(), Error> {
        let length = wanted.comment.as_ref().map_or(0, |comment| comment.chars().count());
        if length > self.plan.longest_comment {
            let longest = self.plan.longest_comment;
            let text =
                format!("the comment of {name} {kind} has {length} characters, this zone takes {longest}");
            return Err(Error::invalid(text).hint("shorten `comment`; paid plans take 500 characters"));
        }
        if !self.plan.has_tags && wanted.tags.as_ref().is_some_and(|tags| !tags.is_empty()) {
            let text = format!("{name} {kind} has tags, which the Free plan of this zone does not know");
            return Err(Error::invalid(text).hint("remove `tags`"));
        }
        Ok(())
    }

    /// The mark of a record that is written and now has that of `before`.
    fn mark<'m>(&'m self, before: Option<&'m str>) -> Option<&'m str> {
        match self.after {
            MarkAfter::Ours if self.marks => Some(self.instance),
            // That of another goes all the same: this is ours by now.
            MarkAfter::Ours => before.filter(|mark| *mark == self.instance),
            MarkAfter::AsSeen => before,
            MarkAfter::NotOurs => before.filter(|mark| *mark != self.instance),
        }
    }

    /// Comment and tags as they shall be, with the mark if `with_mark`. What another owner wrote beside its mark stays with that.
    fn notes(&self, before: &Marked, wanted: &Extra, with_mark: bool) -> (String, Vec<String>) {
        let owner = self.mark(before.owner.as_deref()).filter(|_| with_mark);
        let is_theirs = owner.is_some_and(|owner| owner != self.instance);
        let comment = wanted.comment.as_deref().filter(|_| !is_theirs).unwrap_or(&before.comment);
        let tags = wanted.tags.as_deref().filter(|_| !is_theirs).unwrap_or(&before.tags);
        match owner {
            Some(instance) => {
                mark::join(comment, tags, instance, self.plan.longest_comment, self.plan.has_tags)
            }
            None => (comment.to_owned(), tags.to_vec()),
        }
    }

    /// What differs besides the value; none when nothing does.
    fn patch(&self, record: &Seen, ttl: u32, wanted: &Extra, with_mark: bool) -> Option<Map<String, Value>> {
        let mut out = Map::new();
        if record.ttl != ttl {
            out.insert("ttl".into(), ttl.into());
        }
        if record.proxied != wanted.proxied {
            out.insert("proxied".into(), wanted.proxied.into());
        }
        let (comment, tags) = self.notes(&record.marked, wanted, with_mark);
        let after = mark::split(&comment, &tags);
        let is_marked = !with_mark || after.owner == record.marked.owner;
        if after.comment != record.marked.comment || after.tags != record.marked.tags || !is_marked {
            out.insert("comment".into(), comment.into());
            if self.plan.has_tags {
                out.insert("tags".into(), tags.into());
            }
        }
        (!out.is_empty()).then_some(out)
    }

    fn post(&self, name: &str, kind: &str, ttl: u32, wanted: &Extra, data: Map<String, Value>) -> Value {
        let (comment, tags) = self.notes(&Marked::default(), wanted, true);
        let mut out = Map::new();
        out.insert("name".into(), name.trim_end_matches('.').into());
        out.insert("type".into(), data::type_of(kind).into());
        out.insert("ttl".into(), ttl.into());
        if matches!(kind, "A" | "AAAA" | "ALIAS" | "CNAME") {
            out.insert("proxied".into(), wanted.proxied.into());
        }
        if !comment.is_empty() {
            out.insert("comment".into(), comment.into());
        }
        if !tags.is_empty() {
            out.insert("tags".into(), tags.into());
        }
        out.extend(data);
        out.into()
    }
}

fn with_id(id: &str, patch: Map<String, Value>) -> Value {
    let mut out = Map::from_iter([("id".to_owned(), json!(id))]);
    out.extend(patch);
    out.into()
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;
