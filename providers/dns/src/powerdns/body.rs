//! Request bodies: actions → JSON, written straight from borrowed data into bytes.

use super::{Backend, zone::ACCOUNT};
use crate::{
    batch, merge, ownership, rdata,
    record::{self, RrSet},
};
use std::io::Write;

/// One action on an RRset.
pub(crate) type Item<'b> = batch::Item<'b, ()>;

/// What bodies depend on besides their items.
#[derive(Debug)]
pub(crate) struct Encoder<'a> {
    /// The server and how to mark.
    pub(crate) backend: &'a Backend,
    /// Serial that completes a SOA; the server raises it.
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
            let _ = write!(out, ",\"disabled\":{is_disabled}}}");
        }
        out.push(b']');
        self.comments(item, out);
        out.push(b'}');
    }

    /// Our mark, where anything in the set is ours, and the comments of others. Without marks the key is left out and the server keeps them all.
    fn comments(&self, item: &Item<'_>, out: &mut Vec<u8>) {
        let is_beside = item.action.op.desired().is_some_and(ownership::is_beside);
        if !self.backend.config.marks || is_beside {
            return;
        }
        out.extend_from_slice(b",\"comments\":[");
        let is_marked = !merge::is_left(item.action);
        if is_marked {
            out.extend_from_slice(b"{\"account\":");
            text(ACCOUNT, out);
            out.extend_from_slice(b",\"content\":");
            text(&self.backend.instance, out);
            out.push(b'}');
        }
        let others = item.observed().map(|observed| &observed.private.0[..]).unwrap_or_default();
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

    /// Body of the POST that creates `zone` with its first records.
    pub(crate) fn post<'i, 'b: 'i>(
        &self,
        zone: &str,
        items: impl Iterator<Item = &'i Item<'b>> + Clone,
    ) -> Vec<u8> {
        let mut out = b"{\"name\":".to_vec();
        text(zone, &mut out);
        // `soa_edit_api` makes the serial a change token from the first change on.
        out.extend_from_slice(b",\"kind\":\"Native\",\"soa_edit_api\":\"DEFAULT\",\"nameservers\":[");
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
