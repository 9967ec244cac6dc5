//! Rules about names: who stands in whose way, and where targets lead.

use super::{
    found::Found,
    zone::{Set, Zone},
};
use crate::name::{is_within, labels, parent};
use std::collections::{HashMap, HashSet};

/// Longest row of CNAMEs that nobody minds.
const LONGEST_CHAIN: usize = 3;

pub(super) fn look(zone: &Zone<'_>, found: &mut Found) {
    beside_cname(zone, found);
    below_cuts(zone, found);
    below_zones(zone, found);
    chains(zone, found);
    for set in &zone.sets {
        targets(zone, set, found);
    }
}

fn beside_cname(zone: &Zone<'_>, found: &mut Found) {
    for set in zone.sets.iter().filter(|set| set.kind == "CNAME") {
        for other in zone.sets_at(set.name).filter(|other| other.kind != "CNAME") {
            let message = format!("{} {} stands beside a CNAME", host(zone, other.name), other.kind);
            found.tell_with("cname-and-other-data", other, set, message);
        }
    }
}

/// What a delegation or a DNAME above takes away.
fn below_cuts(zone: &Zone<'_>, found: &mut Found) {
    let is_cut = |set: &&Set<'_>| set.kind == "DNAME" || (set.kind == "NS" && set.name != zone.apex);
    let cuts: HashMap<&str, &Set<'_>> = zone.sets.iter().filter(is_cut).map(|set| (set.name, set)).collect();
    if cuts.is_empty() {
        return;
    }
    let glue: HashSet<&str> =
        zone.sets.iter().filter(|set| set.kind == "NS").flat_map(|set| set.values.iter().copied()).collect();
    for set in &zone.sets {
        if let Some(cut) = cuts.get(set.name)
            && cut.kind == "NS"
            && !matches!(set.kind, "NS" | "DS")
            && !(matches!(set.kind, "A" | "AAAA") && glue.contains(set.name))
        {
            let name = host(zone, set.name);
            let message = format!("{name} {} stands at a delegation, and is not answered here", set.kind);
            found.tell_with("below-delegation", set, cut, message);
        }
        let mut above = set.name;
        while above != zone.apex && is_within(above, &zone.apex) {
            above = parent(above);
            let Some(cut) = cuts.get(above) else { continue };
            let (name, over) = (host(zone, set.name), host(zone, above));
            if cut.kind == "DNAME" {
                let message = format!("{name} {} lies below the DNAME of {over}", set.kind);
                found.tell_with("below-dname", set, cut, message);
            } else if !(matches!(set.kind, "A" | "AAAA") && glue.contains(set.name)) {
                let message = format!("{name} {} lies below the delegation of {over}", set.kind);
                found.tell_with("below-delegation", set, cut, message);
            }
            break;
        }
    }
}

/// What a zone below answers for: all in it but its delegation, and the addresses of its name servers.
fn below_zones(zone: &Zone<'_>, found: &mut Found) {
    if zone.below.is_empty() {
        return;
    }
    let glue: HashSet<&str> =
        zone.sets.iter().filter(|set| set.kind == "NS").flat_map(|set| set.values.iter().copied()).collect();
    for set in &zone.sets {
        let is_cut = zone.below.contains(set.name) && matches!(set.kind, "NS" | "DS");
        if is_cut || (matches!(set.kind, "A" | "AAAA") && glue.contains(set.name)) {
            continue;
        }
        let mut above = set.name;
        while above != zone.apex && is_within(above, &zone.apex) {
            if zone.below.contains(above) {
                let (name, other) = (host(zone, set.name), above.trim_end_matches('.'));
                let message = format!("{name} {} lies in {other}, which is a zone of its own here", set.kind);
                found.tell("below-zone", set, message);
                break;
            }
            above = parent(above);
        }
    }
}

/// Rows of CNAMEs within the zone. Each name is walked once.
fn chains(zone: &Zone<'_>, found: &mut Found) {
    let target = |name: &str| {
        let set = zone.find(name, "CNAME")?;
        Some((set, *set.values.first()?))
    };
    // CNAMEs at the last but one place of their row, and those of them whose row is told as a whole.
    let (mut last_but_one, mut told) = (Vec::new(), HashSet::new());
    // How many CNAMEs follow from a name; none: they never end.
    let mut known: HashMap<&str, Option<usize>> = HashMap::new();
    for set in zone.sets.iter().filter(|set| set.kind == "CNAME") {
        let mut row: Vec<(&str, &Set<'_>)> = Vec::new();
        let mut on_row = HashSet::new();
        let mut name = set.name;
        let mut rest = loop {
            if let Some(rest) = known.get(name) {
                break *rest;
            }
            if !on_row.insert(name) {
                let circle = row.iter().position(|(known, _)| *known == name).unwrap_or(0);
                let names: Vec<_> = row[circle..].iter().map(|(name, _)| host(zone, name)).collect();
                let (_, first) = row[circle];
                let message = format!("{} lead back to the first", names.join(" → "));
                let message =
                    if names.len() == 1 { format!("{} leads to itself", names[0]) } else { message };
                found.tell("cname-loop", first, message);
                break None;
            }
            let Some((set, next)) = target(name) else { break Some(0) };
            row.push((name, set));
            name = next;
        };
        for (name, set) in row.into_iter().rev() {
            rest = rest.map(|rest| rest + 1);
            known.insert(name, rest);
            if rest == Some(2) {
                last_but_one.push(set);
            }
            // The first that is too long says it; those in front of it follow.
            if rest == Some(LONGEST_CHAIN + 1) {
                let message = format!("{} is followed by {LONGEST_CHAIN} more CNAMEs", host(zone, name));
                found.tell("cname-chain", set, message);
                let mut at = name;
                for _ in 2..=LONGEST_CHAIN {
                    at = target(at).map_or(at, |(_, next)| next);
                }
                told.insert(at);
            }
        }
    }
    for set in last_but_one.into_iter().filter(|set| !told.contains(set.name)) {
        if let Some((other, _)) = set.values.first().and_then(|next| target(next)) {
            let message = format!(
                "{} CNAME points at {}, which is a CNAME",
                host(zone, set.name),
                host(zone, other.name)
            );
            found.tell_with("cname-target-cname", set, other, message);
        }
    }
}

/// Which word of the data is a host, and which rule says that it is no alias.
fn target_of(kind: &str) -> Option<(usize, Option<&'static str>)> {
    Some(match kind {
        "MX" => (1, Some("mx-target-cname")),
        "NS" => (0, Some("ns-target-cname")),
        "SRV" => (3, Some("srv-target-cname")),
        "CNAME" | "ALIAS" | "PTR" => (0, None),
        _ => return None,
    })
}

fn targets(zone: &Zone<'_>, set: &Set<'_>, found: &mut Found) {
    let Some((word, rule)) = target_of(set.kind) else { return };
    let name = || host(zone, set.name);
    for target in set.words(word) {
        let numbers = labels(target).take(4).filter(|label| label.parse::<u8>().is_ok()).count();
        if numbers == 4 && !target.ends_with(".arpa.") {
            found.tell("target-address", set, format!("{} {} points at `{target}`", name(), set.kind));
            continue;
        }
        if target == "." || !is_within(target, &zone.apex) {
            continue;
        }
        let short = host(zone, target);
        if let (Some(rule), Some(alias)) = (rule, zone.find(target, "CNAME")) {
            let message = format!("{} {} points at {short}, which is a CNAME", name(), set.kind);
            found.tell_with(rule, set, alias, message);
        }
        let has_address =
            zone.sets_at(target).any(|set| matches!(set.kind, "A" | "AAAA" | "ALIAS" | "CNAME"));
        let is_glue = set.kind == "NS" && is_within(target, set.name);
        if is_glue && !has_address && (set.name != zone.apex || zone.is_exclusive) {
            found.tell(
                "ns-without-glue",
                set,
                format!("{} NS points at {short}, which has no address", name()),
            );
        } else if zone.is_exclusive && !has_address && !is_answered(zone, set, target) {
            let message = format!("{} {} points at {short}, which is not declared", name(), set.kind);
            found.tell("target-missing", set, message);
        }
    }
    if set.kind == "NS" && zone.whole(set).is_some_and(|whole| whole.len() == 1) {
        found.tell("ns-single", set, format!("{} has a single name server", name()));
    }
}

/// True when a wildcard, a DNAME or a delegation answers for the target of `set`. A wildcard that points at what only it covers leads
/// to itself; whether it does is not known but where nothing else shall be in the zone.
fn is_answered(zone: &Zone<'_>, set: &Set<'_>, target: &str) -> bool {
    let mut above = target;
    while above != zone.apex && is_within(above, &zone.apex) {
        above = parent(above);
        let is_cut = zone.sets_at(above).any(|set| matches!(set.kind, "DNAME" | "NS"));
        let has_cut = is_cut && above != zone.apex;
        let wildcard = format!("*.{above}");
        if has_cut || zone.at.contains_key(wildcard.as_str()) {
            return has_cut || set.kind != "CNAME" || set.name != wildcard;
        }
    }
    false
}

/// A name as a person writes it in this zone.
pub(super) fn host(zone: &Zone<'_>, name: &str) -> String {
    crate::name::relative(name, &zone.apex).into_owned()
}
