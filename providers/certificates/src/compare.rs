//! How what is there differs from what is declared, in words that may be shown. Pure, but for the clock handed in.

use crate::{
    kept::Issued,
    moment::moment,
    renewal,
    wish::{Issue, Wish, secret_words},
    x509::Facts,
};
use reconciled_provider::{Clock, Delta, FieldChange, Hash, Observed, Resource};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    time::Duration,
};

/// How long after the start of a host its clock may have to be set yet.
const SETTING: Duration = Duration::from_secs(600);

/// One thing that is not as declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Difference {
    /// The field.
    pub(crate) path: String,
    /// What is there.
    pub(crate) before: String,
    /// What shall be there.
    pub(crate) after: String,
    /// Nobody changed anything: it came to be so with time, or is left of what we did ourselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_due: bool,
    /// Another certificate is due for it, whatever else is not as declared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) renews: bool,
}

impl Difference {
    pub(crate) fn new(path: &str, before: impl Display, after: impl Display) -> Difference {
        let (before, after) = (before.to_string(), after.to_string());
        Difference { path: path.into(), before, after, is_due: false, renews: false }
    }
    /// The same of what nobody changed.
    pub(crate) fn due(path: &str, before: impl Display, after: impl Display) -> Difference {
        Difference { is_due: true, ..Difference::new(path, before, after) }
    }
    /// The same of what another certificate is due for.
    pub(crate) fn renewal(path: &str, before: impl Display, after: impl Display) -> Difference {
        Difference { renews: true, ..Difference::due(path, before, after) }
    }
}

impl Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}, not {}", self.path, self.before, self.after)
    }
}

/// The bytes of what is observed and not as declared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Deviant {
    /// Everything that is not as declared.
    pub(crate) differs: Vec<Difference>,
    /// Marks of what is in files that have something else in them, by name. Nobody is shown them: they tell one damage from
    /// the next, which may be the work of somebody else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) contents: BTreeMap<String, Hash>,
    /// Whose directory it is, in words for people, where it is not this entry's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) taken: Option<String>,
}

impl Deviant {
    /// What has nothing else in its files.
    pub(crate) fn of(differs: Vec<Difference>) -> Deviant {
        Deviant { differs, contents: BTreeMap::new(), taken: None }
    }
    /// Its bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Whose the directory is, where nothing can be put there.
pub(crate) fn taken(observed: &Observed) -> Option<String> {
    serde_json::from_slice::<Deviant>(&observed.bytes).ok()?.taken
}

/// How a resource differs from what was seen of it.
pub(crate) fn compare(desired: &Resource, observed: &Observed) -> Option<Delta> {
    let bytes = desired.spec.bytes()?;
    if *bytes == observed.bytes[..] {
        return None;
    }
    let deviant: Deviant =
        serde_json::from_slice(&observed.bytes).unwrap_or_else(|_| Deviant::of(Vec::new()));
    // What somebody else keeps doing to its files must not keep it from being renewed: another one puts them right as well.
    let is_due = deviant.differs.iter().any(|difference| difference.renews)
        || !deviant.differs.is_empty() && deviant.differs.iter().all(|difference| difference.is_due);
    let mut fields: Vec<FieldChange> = deviant.differs.into_iter().map(field).collect();
    if fields.is_empty() {
        // It was looked at for another wish, or for none.
        fields.push(FieldChange::text(
            "state",
            Some("as declared before".into()),
            Some("as declared".into()),
        ));
    }
    Some(Delta { fields, is_due, ..Delta::default() })
}

fn field(difference: Difference) -> FieldChange {
    FieldChange::text(&difference.path, Some(difference.before), Some(difference.after))
}

fn list<T: Display>(all: &BTreeSet<T>) -> String {
    all.iter().map(T::to_string).collect::<Vec<_>>().join(" ")
}

/// What of a certificate is not what was asked for: whatever is said here, another one has to be issued.
///
/// `facts` are those of the certificate, `issued` what is remembered of it, `signer` the one that signs now where that is
/// one of ours.
pub(crate) fn unlike(
    wish: &Wish,
    facts: &Facts,
    issued: Option<&Issued>,
    signer: Option<&Facts>,
    now: u64,
) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |path: &str, before: String, after: String| {
        if before != after {
            found.push(Difference::new(path, before, after));
        }
    };
    // An authority may add names (that with `www.`), so what it was asked for decides; of one that was adopted nobody knows.
    let asked = issued.filter(|issued| issued.issuer.is_some()).map(|issued| &issued.wish);
    if asked.is_none_or(|asked| asked.names != wish.names) || !wish.names.is_subset(&facts.names) {
        differ("dnsNames", list(&facts.names), list(&wish.names));
    }
    if asked.is_none_or(|asked| asked.addresses != wish.addresses)
        || !wish.addresses.is_subset(&facts.addresses)
    {
        differ("ipAddresses", list(&facts.addresses), list(&wish.addresses));
    }
    if !wish.keep_key {
        differ("privateKey", kind_of(facts), wish.key.to_string());
    }
    differ("isCA", facts.is_ca.to_string(), wish.is_ca.to_string());
    let by = wish.issuer_of(issued.and_then(|issued| issued.issuer.as_deref()));
    let is_ours = !matches!(by, Issue::Acme(_));
    // Of one that was adopted nobody knows; the next one is from whom it should be.
    if let Some(before) = issued.and_then(|issued| issued.issuer.as_ref()).filter(|it| !by.is_as_good(it)) {
        // Without the marks of secrets, which tell one value from another.
        let (was, is) = (Issue::words_of(before), by.words());
        let is = if was == is { format!("{is}, with another value") } else { is };
        differ("issuerRef", was, is);
    }
    if is_ours && issued.is_some_and(|issued| issued.issuer.is_some()) {
        // An authority decides about these itself.
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        differ("commonName", name(&facts.common_name), name(&wish.common_name));
        let mut wanted = wish.usages.clone();
        if wish.is_ca {
            wanted.extend(["digital signature", "cert sign", "crl sign"].map(String::from));
        }
        differ("usages", list(&facts.usages), list(&wanted));
        // That of its issuer may have cut it short, so the certificate does not tell.
        let before = issued.map_or(wish.duration, |issued| issued.wish.duration);
        let show = |seconds| crate::duration::show(seconds);
        differ("duration", show(before), show(wish.duration));
    }
    if signer.is_some_and(|signer| is_of_earlier_key(facts, signer)) {
        let (before, after) = ("signed by an earlier key of the issuer", "signed by its key of today");
        found.push(Difference::renewal("issuerRef", before, after));
    }
    let suggested = issued.and_then(|issued| issued.suggested.as_ref());
    let due = renewal::due_at(facts.not_before, facts.not_after, wish.renew, suggested);
    if now >= facts.not_after {
        found.push(Difference::renewal(
            "notAfter",
            format!("over since {}", moment(facts.not_after)),
            "renewed",
        ));
    } else if now >= due {
        let before = format!("{}, to be renewed since {}", moment(facts.not_after), moment(due));
        found.push(Difference::renewal("notAfter", before, "renewed"));
    }
    found
}

/// True where the clock may still be behind, as on a host without a battery until the network is there: what is issued by it may be
/// over once it is right, and what looks early is not.
pub(crate) fn may_be_behind(clock: &dyn Clock) -> bool {
    let up = clock.up();
    !up.is_zero() && up < SETTING
}

/// True when the certificate that signs now has another key than the one it was signed with. What somebody of another name signed
/// is not of our issuer.
pub(crate) fn is_of_earlier_key(facts: &Facts, signer: &Facts) -> bool {
    let is_its = signer.common_name.as_ref().is_none_or(|name| *name == facts.issuer);
    is_its
        && facts.authority.is_some()
        && signer.subject_key.is_some()
        && facts.authority != signer.subject_key
}

/// What is declared otherwise than when the certificate was put in place, and needs no other one. What an issuer says of itself
/// is left out: many certificates have it in common, and nothing is done about it before the next one is had.
pub(crate) fn declared_anew(before: &Wish, wish: &Wish) -> Vec<Difference> {
    type Side = fn(&Wish) -> String;
    let sides: [(&str, Side); 5] = [
        ("issuerRefs", |wish| wish.issuer_names.join(" ")),
        ("renewBefore", |wish| wish.renew.to_string()),
        ("reload", |wish| list(&wish.reload)),
        ("escalate", |wish| wish.escalate.to_string()),
        ("serve", |wish| list(&wish.serve)),
    ];
    let differs = sides.iter().map(|(path, side)| Difference::due(path, side(before), side(wish)));
    let found: Vec<Difference> = differs.filter(|it| it.before != it.after).collect();
    let bare = |wish: &Wish| Wish { issuer: Issue::SelfSigned, others: Vec::new(), ..wish.without_marks() };
    match found.is_empty() && bare(before) != bare(wish) {
        true => vec![Difference::due("state", "as declared before", "as declared now")],
        false => found,
    }
}

fn kind_of(facts: &Facts) -> String {
    facts.key.map_or_else(|| "of a kind unknown here".into(), |kind| kind.to_string())
}

/// That a key which stays (`rotationPolicy: Never`) is not of the kind that is declared; no other one is made for that.
pub(crate) fn key_mismatch(wish: &Wish, facts: &Facts) -> Option<String> {
    let is_other = wish.keep_key && facts.key != Some(wish.key);
    is_other.then(|| {
        let (is, wanted) = (kind_of(facts), wish.key);
        format!("KeyMismatch: its key is {is}, not {wanted}, and stays because of rotationPolicy: Never")
    })
}

/// Canonical bytes as fields and values a person can read.
pub(crate) fn show(bytes: &[u8]) -> Vec<(std::sync::Arc<str>, String)> {
    let Some(wish) = Wish::decode(bytes) else {
        let deviant: Option<Deviant> = serde_json::from_slice(bytes).ok();
        let all = deviant.into_iter().flat_map(|deviant| deviant.differs);
        return all.map(|difference| (difference.path.as_str().into(), difference.before)).collect();
    };
    let mut shown: Vec<(&str, String)> = Vec::new();
    let mut add = |path, value: String| {
        if !value.is_empty() {
            shown.push((path, value));
        }
    };
    add("issuerRef", wish.issuer.words());
    add("dnsNames", list(&wish.names));
    add("ipAddresses", list(&wish.addresses));
    add("commonName", wish.common_name.clone().unwrap_or_default());
    add("privateKey", wish.key.to_string());
    if wish.is_ca {
        add("isCA", "true".into());
    }
    if !matches!(wish.issuer, Issue::Acme(_)) {
        add("duration", crate::duration::show(wish.duration));
    }
    let output = &wish.output;
    add("output.directory", output.directory.clone());
    add("output.owner", output.owner.clone().unwrap_or_default());
    add("output.group", output.group.clone().unwrap_or_default());
    add("output.mode", format!("{:04o}", output.mode));
    if output.combined {
        add("output.combined", "true".into());
    }
    if let Some(keystore) = &wish.output.keystore {
        add("output.pkcs12", format!("with the password of {}", secret_words(&keystore.secret)));
    }
    if wish.output.pkcs1 {
        add("privateKey.encoding", "PKCS1".into());
    }
    add("reload", list(&wish.reload));
    if wish.escalate {
        add("escalate", "true".into());
    }
    add("serve", list(&wish.serve));
    shown.into_iter().map(|(path, value)| (path.into(), value)).collect()
}
