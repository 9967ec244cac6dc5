//! `reverse: true`: the PTR records that belong to addresses, in the reverse zones that are declared.
//!
//! A PTR goes to the longest reverse zone of the same entry that holds its name. Where there is none, the record
//! says so instead of going without. While a longer one may be declared where nothing can be read, or in a manifest in error, the
//! PTR is made nowhere and stays where it is.

use super::{
    context::{Context, refusal},
    inherited::{hidden, inherited},
};
use crate::{
    ignore::Ignored,
    kind::{Data, RecordSpec},
    name::{Name, is_within},
    rdata::{Refusal, Type},
    record,
};
use reconciled_provider::{At, Normalized, PolicyId, Problem, Resource, ResourceId, Scope, Spec};
use std::{collections::BTreeMap, fmt::Write, net::IpAddr, sync::Arc};

/// PTR records of a manifest by their id: hosts that share an address share its PTR.
#[derive(Default)]
pub(super) struct Reverse {
    pointers: BTreeMap<ResourceId, Pointer>,
    /// Those whose zone may be declared where nothing can be read, with each that may be theirs.
    unsettled: Vec<(Arc<Scope>, ResourceId)>,
}

struct Pointer {
    scope: Arc<Scope>,
    hosts: Vec<String>,
    ttl: u32,
    span: reconciled_provider::Span,
    policy: PolicyId,
}

impl Reverse {
    /// Adds the addresses of one record.
    pub(super) fn add(
        &mut self,
        cx: &Context<'_>,
        at: &At<RecordSpec>,
        (name, kind): (&Name, Type),
        spec: &Spec,
        policy: PolicyId,
        problems: &mut Vec<Problem>,
    ) {
        let span = at.span;
        let mut refuse = |message: String, hint: &str| {
            problems.push(refusal(cx.manifest, span, Refusal::new(message, hint)));
        };
        if !matches!(kind, Type::A | Type::Aaaa) {
            return refuse(format!("`reverse` of a {} record", kind.word()), "it is for A and AAAA");
        }
        if name.as_str().starts_with("*.") {
            return refuse("a wildcard has no reverse".into(), "leave `reverse` out, or name the hosts");
        }
        if let Spec::Waiting { on, .. } = spec
            && on.iter().all(|reference| reference.target.source().is_empty())
        {
            // A variable, where no configuration says what it holds: nothing is planned from that.
            return;
        }
        let Some(set) = spec.bytes().and_then(record::RrSet::decode) else {
            // Going without for now would take the PTR away that is there.
            return refuse(
                "`reverse` of an address that is an output of another manifest".into(),
                "write the address, or declare the PTR in the reverse zone",
            );
        };
        for value in &set.values {
            let Ok(address) = value.parse::<IpAddr>() else { continue };
            let pointer = pointer(address);
            let id = record::id(&pointer, "PTR");
            let here = zone_of(cx, &pointer);
            let longer = here.as_ref().map_or(0, |scope| scope.name.len() + 1);
            let hidden = hidden(cx.inputs, &pointer, longer).filter_map(|zone| Name::zone(zone).ok());
            let mut unsettled: Vec<Scope> =
                hidden.map(|zone| record::scope(cx.inputs.entry(), &zone)).collect();
            if !unsettled.is_empty() {
                unsettled.extend(here);
                let all = unsettled.into_iter().map(|scope| (Arc::new(scope), id.clone()));
                self.unsettled.extend(all);
                continue;
            }
            let Some(scope) = here else {
                let example = example(address);
                refuse(
                    format!("no reverse zone for {address} is declared at the same provider"),
                    &format!("declare a Zone such as `{example}`, or leave `reverse` out"),
                );
                continue;
            };
            let here = self.pointers.entry(id).or_insert_with(|| Pointer {
                scope: Arc::new(scope),
                hosts: Vec::new(),
                ttl: set.ttl,
                span,
                policy,
            });
            here.hosts.push(name.as_str().into());
            here.ttl = here.ttl.min(set.ttl);
        }
    }

    /// Adds the PTR records, but for those that their zone ignores.
    pub(super) fn finish(self, cx: &Context<'_>, out: &mut Normalized) {
        let mut zones: BTreeMap<Arc<str>, Ignored> = BTreeMap::new();
        out.unsettled.extend(self.unsettled);
        for (id, mut pointer) in self.pointers {
            let spec = Spec::known(record::encode(pointer.ttl, &mut pointer.hosts));
            let rules = zones.entry(pointer.scope.name.clone()).or_insert_with_key(|zone| {
                let zone = Name::zone(zone).ok().map(|zone| inherited(cx.inputs, &pointer.scope, &zone));
                zone.map(|zone| zone.ignored).unwrap_or_default()
            });
            if let Some(place) = rules.place_of(&id, &spec) {
                let name = record::part(&pointer.scope, &id).unwrap_or_default();
                let message =
                    format!("`reverse` declares {name} of {}, which ignores it", pointer.scope.name);
                let problem = cx.manifest.error(pointer.span, message);
                let problem = problem.related(place.clone(), rules.word(cx.manifest));
                out.problems.push(problem.hint("leave `reverse` out, or narrow the rule of `ignore`"));
                continue;
            }
            let origin = cx.manifest.origin(pointer.span);
            let Pointer { scope, policy, .. } = pointer;
            out.resources.push(Resource::new(id, scope, spec, origin, policy));
        }
    }
}

/// The PTR records of a record that is for other hosts: they are for other hosts too.
pub(super) fn unselected(cx: &Context<'_>, spec: &RecordSpec) -> Vec<(Arc<Scope>, ResourceId)> {
    let addresses = spec.values.iter().filter(|_| spec.reverse).filter_map(|value| match &value.value {
        Data::Text(text) => text.trim().parse::<IpAddr>().ok(),
        Data::Map(_) => None,
    });
    let pointers = addresses.map(pointer);
    pointers.filter_map(|name| Some((Arc::new(zone_of(cx, &name)?), record::id(&name, "PTR")))).collect()
}

/// The name under which an address is looked up (RFC 1035 §3.5, RFC 3596 §2.5).
fn pointer(address: IpAddr) -> String {
    let mut out = String::new();
    match address {
        IpAddr::V4(address) => {
            for octet in address.octets().iter().rev() {
                let _ = write!(out, "{octet}.");
            }
            out + "in-addr.arpa."
        }
        IpAddr::V6(address) => {
            for octet in address.octets().iter().rev() {
                let _ = write!(out, "{:x}.{:x}.", octet & 15, octet >> 4);
            }
            out + "ip6.arpa."
        }
    }
}

/// The zone that usually holds the name: of a /24, of a /64.
fn example(address: IpAddr) -> String {
    let labels = if address.is_ipv4() { 1 } else { 16 };
    let pointer = pointer(address);
    let zone = pointer.splitn(labels + 1, '.').last().unwrap_or_default();
    zone.trim_end_matches('.').into()
}

fn zone_of(cx: &Context<'_>, pointer: &str) -> Option<Scope> {
    let scopes = cx.inputs.scopes().iter().filter(|scope| &*scope.provider == cx.inputs.entry());
    let holds = |scope: &&Scope| is_within(pointer, &record::zone_name(scope));
    scopes.filter(holds).max_by_key(|scope| scope.name.len()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_reversed_as_the_rfcs_say() {
        assert_eq!(pointer("192.0.2.1".parse().unwrap()), "1.2.0.192.in-addr.arpa.");
        let long = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.";
        assert_eq!(pointer("2001:db8::1".parse().unwrap()), long);
        assert_eq!(example("192.0.2.1".parse().unwrap()), "2.0.192.in-addr.arpa");
        assert_eq!(example("2001:db8::1".parse().unwrap()), "0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa");
    }
}
