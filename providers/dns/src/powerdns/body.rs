//! Request bodies: actions → JSON, written straight from borrowed data into bytes.

use super::{
    backend::Backend,
    zone::{ACCOUNT, without_marks},
};
use crate::{
    batch,
    ownership::MarkAfter,
    rdata,
    record::{self, RrSet},
};
use reconciled_provider::Owner;
use std::{borrow::Cow, io::Write};

/// One action on an RRset.
pub(crate) type Item<'b> = batch::Item<'b, ()>;

/// What bodies depend on besides their items.
#[derive(Debug)]
pub(crate) struct Encoder<'a> {
    /// The server and how to mark.
    pub(crate) backend: &'a Backend,
    /// Serial that completes a SOA, and a new zone begins after; the server raises it.
    pub(crate) serial: u32,
}

impl Encoder<'_> {
    /// Appends one element of `rrsets`. `is_patch`: with the change that is wanted.
    pub(crate) fn item(&self, item: &Item<'_>, is_patch: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"name\":");
        text(item.name(), out);
        out.extend_from_slice(b",\"type\":");
        text(item.kind(), out);
        let Some(set) = item.desired().and_then(RrSet::decode) else {
            out.extend_from_slice(b",\"changetype\":\"DELETE\"}");
            return;
        };
        if is_patch {
            out.extend_from_slice(b",\"changetype\":\"REPLACE\"");
        }
        let _ = write!(out, ",\"ttl\":{},\"records\":[", set.ttl);
        for (i, value) in set.values.iter().enumerate() {
            out.extend_from_slice(if i == 0 { b"{\"content\":" } else { b",{\"content\":" });
            // A merged set may hold what somebody else switched off: it stays so.
            let (value, is_disabled) = match value.strip_prefix(record::DISABLED) {
                Some(value) => (value, true),
                None => (*value, false),
            };
            text(&rdata::wire(item.kind(), value, self.serial), out);
            // Left out it is false, and of thousands of records that is a tenth of what the server has to read.
            out.extend_from_slice(if is_disabled { b",\"disabled\":true}" } else { b"}" });
        }
        out.push(b']');
        self.comments(item, out);
        out.push(b'}');
    }

    /// Our mark, where the set is ours and marks are written, and the comments of others. Where they stay as they are, the key is
    /// left out and the server keeps them all.
    fn comments(&self, item: &Item<'_>, out: &mut Vec<u8>) {
        let after = MarkAfter::of(item.action);
        let observed = item.observed();
        let seen = observed.map(|observed| &observed.private.0[..]).unwrap_or_default();
        // What is ours was taken over where somebody else's mark is on it.
        let others = if after == MarkAfter::Ours { without_marks(seen) } else { Cow::Borrowed(seen) };
        let is_changed = match after {
            MarkAfter::AsSeen => false,
            _ if self.backend.config.marks => true,
            MarkAfter::Ours => *others != *seen,
            MarkAfter::NotOurs => observed.is_some_and(|observed| observed.owner == Owner::Ours),
        };
        if !is_changed {
            return;
        }
        out.extend_from_slice(b",\"comments\":[");
        let is_marked = after == MarkAfter::Ours && self.backend.config.marks;
        if is_marked {
            out.extend_from_slice(b"{\"account\":");
            text(ACCOUNT, out);
            out.extend_from_slice(b",\"content\":");
            text(&self.backend.instance, out);
            out.push(b'}');
        }
        // The private state of an observation is a JSON list of the other comments.
        if let Some(inner) = others.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) {
            if is_marked {
                out.push(b',');
            }
            out.extend_from_slice(inner);
        }
        out.push(b']');
    }

    /// Body of a PATCH. Deletions come first: a CNAME must be gone before other data take its place.
    pub(crate) fn patch<'i, 'b: 'i>(&self, items: impl Iterator<Item = &'i Item<'b>> + Clone) -> Vec<u8> {
        let deletes = items.clone().filter(|item| item.desired().is_none());
        let replaces = items.filter(|item| item.desired().is_some());
        let mut out = b"{\"rrsets\":[".to_vec();
        self.list(deletes.chain(replaces), true, &mut out);
        out.extend_from_slice(b"]}");
        out
    }

    /// Body of the POST that creates `zone` with its first records, which are to need so much room.
    pub(crate) fn post<'i, 'b: 'i>(
        &self,
        zone: &str,
        items: impl Iterator<Item = &'i Item<'b>> + Clone,
        room: usize,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(room);
        out.extend_from_slice(b"{\"name\":");
        text(zone, &mut out);
        // `soa_edit_api` makes the serial a change token from the first change on.
        out.extend_from_slice(b",\"kind\":\"Native\",\"soa_edit_api\":\"DEFAULT\"");
        // Of the SOA that the server makes up where none is declared.
        let _ = write!(out, ",\"serial\":{},\"nameservers\":[", self.serial);
        let has_apex_ns = items.clone().any(|item| item.kind() == "NS" && item.name() == zone);
        let names = self.backend.config.nameservers.iter().filter(|_| !has_apex_ns);
        for (i, name) in names.enumerate() {
            if i > 0 {
                out.push(b',');
            }
            text(&format!("{}.", name.trim_end_matches('.')), &mut out);
        }
        out.extend_from_slice(b"],\"rrsets\":[");
        self.list(items.filter(|item| item.desired().is_some()), false, &mut out);
        out.extend_from_slice(b"]}");
        out
    }

    fn list<'i, 'b: 'i>(&self, items: impl Iterator<Item = &'i Item<'b>>, is_patch: bool, out: &mut Vec<u8>) {
        for (i, item) in items.enumerate() {
            if i > 0 {
                out.push(b',');
            }
            self.item(item, is_patch, out);
        }
    }
}

fn text(text: &str, out: &mut Vec<u8>) {
    // Writing a string into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        powerdns::{Config, client::Client, zone::parse_zone},
        rdata::{Type, tests::canonical_values},
    };
    use proptest::prelude::*;
    use reconciled_provider::{
        Action, ActionId, Delta, FieldChange, OWNER_FIELD, Observed, Op, Origin, PolicyId, Resource, Scope,
        SecretRef, Spec,
    };
    use std::sync::Arc;

    fn backend() -> Backend {
        let config = Config::new("http://127.0.0.1:8081");
        let client = Client::new(&config, SecretRef::Env("KEY".into())).unwrap();
        Backend {
            entry: "pdns".into(),
            instance: "dns1".into(),
            client,
            limit: config.max_body.into(),
            most: config.max_body.into(),
            lost: 0.into(),
            config,
            turn: Default::default(),
            made: Default::default(),
        }
    }

    #[test]
    fn the_mark_of_another_instance_goes_only_where_the_record_is_taken_over() {
        let check_with = |marks: bool, owner: Option<&str>, seen: &str, is_taken: bool, expected: &str| {
            let mut observed = Observed::new("www.example.com./A".into(), b"300\n192.0.2.1");
            observed.owner = owner.map_or(Owner::Ours, |other| Owner::Other(other.into()));
            observed.private = reconciled_provider::Sealed::new(seen);
            let desired = Resource::new(
                observed.id.clone(),
                Arc::new(Scope::new("pdns", "example.com")),
                Spec::known(b"300\n192.0.2.1\n192.0.2.2".to_vec()),
                Origin { manifest: 0, line: 1 },
                PolicyId::default(),
            );
            let mut delta = Delta::default();
            if is_taken {
                delta.fields.push(FieldChange::text(OWNER_FIELD, Some("dns2".into()), None));
            }
            let op = Op::Update { desired, delta: delta.into(), observed: observed.into(), tracked: None };
            let action = Action { id: ActionId(1), token: "t".into(), op };
            let (mut backend, mut sent) = (backend(), Vec::new());
            backend.config.marks = marks;
            Encoder { backend: &backend, serial: 7 }.item(
                &Item { action: &action, takes: () },
                true,
                &mut sent,
            );
            let sent: serde_json::Value = serde_json::from_slice(&sent).unwrap();
            let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
            assert_eq!(sent["comments"], expected, "{marks} {owner:?} {seen} {is_taken}");
        };
        let check = |owner: Option<&str>, seen: &str, is_taken: bool, expected: &str| {
            check_with(true, owner, seen, is_taken, expected);
        };
        let (ours, theirs) =
            (r#"{"account":"reconciled","content":"dns1"}"#, r#"{"account":"reconciled","content":"dns2"}"#);
        let ops = r#"{"account":"ops","content":"call me"}"#;
        check(None, "", false, &format!("[{ours}]"));
        check(None, &format!("[{ops}]"), false, &format!("[{ours},{ops}]"));
        check(Some("dns2"), &format!("[{theirs},{ops}]"), false, "null");
        check(Some("dns2"), &format!("[{theirs},{ops}]"), true, &format!("[{ours},{ops}]"));
        check(Some("dns2"), &format!("[{theirs}]"), true, &format!("[{ours}]"));
        // Where marks are written no longer, or elsewhere, theirs goes all the same.
        let unmarked = |owner, seen: &str, is_taken, expected: &str| {
            check_with(false, owner, seen, is_taken, expected);
        };
        unmarked(None, &format!("[{ops}]"), false, "null");
        unmarked(Some("dns2"), &format!("[{theirs},{ops}]"), false, "null");
        unmarked(Some("dns2"), &format!("[{theirs},{ops}]"), true, &format!("[{ops}]"));
        unmarked(Some("dns2"), &format!("[{theirs}]"), true, "[]");
        unmarked(Some("externaldns/k8s"), &format!("[{ops}]"), true, "null");
    }

    proptest! {
        #[test]
        fn any_value_of_any_type_comes_back_from_the_api_as_it_was_sent((kind, value) in canonical_values(), ttl in 0u32..90_000) {
            let scope = Scope::new("pdns", "example.com");
            let name = if kind == Type::Soa { "example.com." } else { "www.example.com." };
            let bytes = record::encode(ttl, &mut vec![value]);
            let (id, spec) = (record::id(name, kind.word()), Spec::known(bytes.clone()));
            let origin = Origin { manifest: 0, line: 1 };
            let desired = Resource::new(id, Arc::new(scope.clone()), spec, origin, PolicyId::default());
            let op = Op::Create { desired, delta: Default::default() };
            let action = Action { id: ActionId(1), token: "t".into(), op };
            let (backend, mut sent) = (backend(), Vec::new());
            let encoder = Encoder { backend: &backend, serial: 7 };
            encoder.item(&Item { action: &action, takes: () }, false, &mut sent);
            let sent = String::from_utf8(sent).unwrap();
            // As the server tells it, which has a SOA of its own where none was sent.
            let soa = r#"{"name": "example.com.", "type": "SOA", "ttl": 1, "records": [{"content": "a. h. 7 1 2 3 4"}]}"#;
            let all = if kind == Type::Soa { sent.clone() } else { format!("{soa},{sent}") };
            let body = format!(r#"{{"name": "example.com.", "serial": 7, "soa_edit_api": "DEFAULT", "rrsets": [{all}]}}"#);
            let zone = parse_zone(body.as_bytes(), &scope, "dns1", true).unwrap();
            let found = zone.resources.iter().find(|seen| seen.id == *action.op.id()).unwrap();
            prop_assert_eq!(&*found.bytes, &*bytes, "{}", sent);
        }
    }
}
