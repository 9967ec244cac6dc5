//! What manifests of kind `Zone` say to records that are declared elsewhere, and which of them may be hidden.

use crate::{
    ignore::Ignored,
    kind::{API_VERSION, HIDDEN, IgnoreSpec, ZONE},
    name::{Name, zones},
    record::MAX_TTL,
};
use reconciled_provider::{Each, Inputs, Manifest, Scope};

/// What a zone's own manifest says to records declared elsewhere.
#[derive(Default)]
pub(super) struct Inherited {
    pub(super) ttl: Option<u32>,
    pub(super) has_apex: bool,
    pub(super) ignored: Ignored,
}

/// What the `Zone` of that name says which this entry serves: that of the same source, else the first one of another.
pub(super) fn inherited(inputs: &dyn Inputs, scope: &Scope, zone: &Name) -> Inherited {
    let own = declaration(inputs.siblings(ZONE), inputs, zone);
    own.or_else(|| declaration(inputs.beside(ZONE, scope), inputs, zone)).unwrap_or_default()
}

/// The `Zone` of that name which this entry serves, if one of these manifests declares it.
pub(super) fn declaration(zones: Vec<&Manifest>, inputs: &dyn Inputs, zone: &Name) -> Option<Inherited> {
    let manifest = zones.iter().find(|manifest| {
        manifest.is_for(inputs.entry(), inputs.is_sole())
            && declared(manifest).is_some_and(|name| name == *zone)
    })?;
    let text = |key: &str| manifest.spec.get(key).and_then(|node| node.as_str());
    Some(Inherited {
        ttl: text("ttl").and_then(|ttl| ttl.parse().ok()).filter(|ttl| *ttl <= MAX_TTL),
        ignored: ignored(manifest, zone),
        has_apex: text("apex").is_some_and(|apex| apex.eq_ignore_ascii_case("true")),
    })
}

/// The zone that a `Zone` declares.
pub(super) fn declared(manifest: &Manifest) -> Option<Name> {
    let text = manifest.spec.get("zone").and_then(|node| node.as_str()).unwrap_or(&manifest.name);
    Name::zone(text).ok().filter(|_| &*manifest.api_version == API_VERSION)
}

/// The rules of a zone declared elsewhere; what is wrong with them is told there.
fn ignored(manifest: &Manifest, zone: &Name) -> Ignored {
    let specs =
        manifest.spec.get("ignore").and_then(|node| node.decode::<Each<IgnoreSpec>>(&manifest.file).0);
    specs.map_or_else(Ignored::default, |specs| Ignored::of(manifest, &specs, zone, &mut Vec::new()))
}

/// The zones that hold `name`, have a name of at least `length` octets, and may be declared where nothing can be read.
pub(super) fn hidden<'a>(
    inputs: &'a dyn Inputs,
    name: &'a str,
    length: usize,
) -> impl Iterator<Item = &'a str> {
    zones(name).take_while(move |zone| zone.len() >= length).filter(move |zone| inputs.may_hide(HIDDEN, zone))
}
