//! Issuers: what one may say, and what the certificates that name it take from it.

use super::{
    reader::{Reader, seconds},
    theirs::binding_key,
};
use crate::{
    config::check_path,
    kind::{
        AcmeSpec, CERTIFICATE, CLUSTER_ISSUER, CaSpec, CertificateSpec, ISSUER, IssuerRef, IssuerSpec,
        SolverSpec,
    },
    wish::{Authority, Issue, Solver, scope_name},
    x509,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use reconciled_provider::{At, ErrorKind, Hash, Manifest, SecretMark, Span, problem::did_you_mean};
use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

/// Most names and zones that the solvers of an issuer are for.
const SELECTED: usize = 1_000;

/// Whom a certificate is for.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) names: &'a BTreeSet<String>,
    pub(super) addresses: &'a BTreeSet<IpAddr>,
    pub(super) common_name: Option<&'a str>,
    /// It may sign others.
    pub(super) is_ca: bool,
}

impl Reader<'_> {
    /// Says what is wrong with an issuer as such.
    pub(super) fn check_issuer(&mut self, spec: &IssuerSpec) {
        let is_one = ["acme", "ca", "selfSigned"].into_iter().filter(|kind| self.says(kind)).count() == 1;
        if !is_one {
            let hint = "write one of acme: {…}, ca: {…} and selfSigned: {}";
            self.refuse(self.manifest.span, "an issuer is of exactly one kind", hint);
        }
        if let Some(acme) = &spec.acme {
            self.check_acme(acme);
        }
        if let Some(ca) = &spec.ca {
            self.check_ca(&ca.value, ca.span);
            self.check_ca_theirs(&ca.value);
        }
    }

    fn check_acme(&mut self, acme: &At<AcmeSpec>) {
        let server = &acme.value.server;
        if !server.value.starts_with("https://") || server.value.contains('@') || !server.unknown.is_empty() {
            let message = format!("`{}` is no URL of an authority", server.value.escape_debug());
            self.refuse(
                server.span,
                message,
                "write the URL of its directory: https://acme.example/directory",
            );
        }
        if let Some(at) = &acme.value.ca_bundle
            && bundle(&at.value).is_none()
        {
            let text = "`caBundle` is no certificate in PEM and base64";
            self.refuse(at.span, text, "base64 -w0 ca.pem makes it");
        }
        self.length(acme.value.rotate_account_key_after.as_ref(), "age of the key of an account");
        let when = acme.value.on_profile_change.as_ref();
        if let Some(at) = when.filter(|at| !matches!(&*at.value, "now" | "renewal")) {
            let message = format!("`{}` is no time for another profile", at.value.escape_debug());
            self.refuse(at.span, message, "write onProfileChange: now, or renewal");
        }
        self.check_theirs(&acme.value);
        for solver in &acme.value.solvers {
            let value = &solver.value;
            let kinds = [is_dns, is_http, is_tls, is_persist];
            if kinds.iter().filter(|is_there| is_there(value)).count() != 1 {
                let text = "a solver is of exactly one kind";
                self.refuse(
                    solver.span,
                    text,
                    "write one of dns01: {provider: NAME}, http01: {}, tlsAlpn01: {} and dnsPersist01: {}",
                );
            }
            if let Some(at) = value.http01.as_ref().and_then(|http| http.webroot.as_ref()) {
                self.check_webroot(at);
            }
        }
        let selected = selected(&acme.value);
        self.is_too_much(selected, SELECTED, "names and zones of solvers", "select whole zones: dnsZones");
        if acme.value.solvers.is_empty() {
            let text = "an authority wants names proven, and there are no solvers";
            self.refuse(acme.span, text, "write solvers: [{dns01: {provider: NAME}}]");
        }
    }

    /// What a manifest has written has to be below what the host allows.
    fn check_webroot(&mut self, at: &At<String>) {
        let Some(directory) = self.known(at) else { return };
        let shown = directory.escape_debug();
        if let Err(why) = check_path(directory) {
            self.refuse(at.span, format!("`{shown}` {why}"), "write an absolute path");
        } else if !self.config.allows(&format!("{directory}/x")) {
            let (allowed, entry) = (self.config.allowed(), self.inputs.entry());
            let message = format!("`{shown}` is in none of the directories for certificates");
            self.refuse(
                at.span,
                message,
                &format!("the host allows {allowed}: `paths` of provider `{entry}`"),
            );
        }
    }

    fn check_ca(&mut self, ca: &CaSpec, span: Span) {
        let own = ca.certificate.is_some() || ca.secret_name.is_some();
        let is_whole = match (ca.cert.is_some(), ca.key.is_some()) {
            (true, true) => !own,
            (false, false) => ca.certificate.is_some() != ca.secret_name.is_some(),
            _ => false,
        };
        if !is_whole {
            let hint = "write ca: {certificate: NAME}, or ca: {cert: {secret: NAME}, key: {secret: NAME}}";
            self.refuse(span, "nothing, or more than one thing, says what signs", hint);
        }
    }

    /// What the issuers that a certificate names come to.
    pub(super) fn issuers(&mut self, spec: &CertificateSpec, subject: Subject<'_>) -> Option<Vec<Issue>> {
        if spec.issuer_ref.is_none() && self.says("issuerRef") {
            return None;
        }
        if spec.issuer_ref.is_some() != spec.issuer_refs.is_empty() {
            let text = "nothing, or more than one thing, says who issues the certificate";
            self.refuse(
                self.manifest.span,
                text,
                "write issuerRef: {name: NAME}, or issuerRefs: [{name: NAME}, …]",
            );
            return None;
        }
        let issuer = |at| self.issuer(at, subject);
        spec.issuers().map(issuer).collect::<Vec<_>>().into_iter().collect()
    }

    /// What the issuer that a certificate names comes to.
    fn issuer(&mut self, at: &At<IssuerRef>, subject: Subject<'_>) -> Option<Issue> {
        let kind = at.value.kind.as_deref().unwrap_or(ISSUER);
        if !matches!(kind, ISSUER | CLUSTER_ISSUER) {
            let message = format!("`{}` is no kind of issuer", kind.escape_debug());
            self.refuse(at.span, message, "write Issuer or ClusterIssuer");
            return None;
        }
        let namespace = self.manifest.key.namespace();
        let siblings = self.inputs.siblings(kind);
        let in_reach = |other: &&&Manifest| kind == CLUSTER_ISSUER || other.key.namespace() == namespace;
        let Some(found) = siblings.iter().filter(in_reach).find(|other| *other.name == *at.value.name) else {
            let near =
                did_you_mean(&at.value.name, siblings.iter().filter(in_reach).map(|other| &*other.name));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("declare it with a manifest of kind `{kind}`"),
            };
            self.refuse(at.span, format!("there is no {kind} `{}`", at.value.name.escape_debug()), &hint);
            return None;
        };
        // What is wrong with it is said where it stands.
        let spec = found.spec::<IssuerSpec>().0?;
        match (spec.acme, spec.ca, spec.self_signed) {
            (Some(acme), None, None) => self.authority(at.span, found, &acme.value, subject),
            (None, Some(ca), None) => self.ca(at.span, found, &ca.value),
            (None, None, Some(_)) => Some(Issue::SelfSigned),
            _ => None,
        }
    }

    fn ca(&mut self, span: Span, issuer: &Manifest, ca: &CaSpec) -> Option<Issue> {
        if let (Some(cert), Some(key)) = (&ca.cert, &ca.key) {
            let mut mark = |name: &str| match self.inputs.secret_of(issuer, &Issue::secret(name)) {
                Ok(SecretMark(mark)) => Some(mark),
                Err(error) => {
                    self.report(span, error);
                    None
                }
            };
            let (first, second) = (mark(&cert.value.secret), mark(&key.value.secret));
            let mark = Hash::of(&[first?.0, second?.0].concat());
            return Some(Issue::Secret {
                cert: cert.value.secret.clone(),
                key: key.value.secret.clone(),
                mark,
            });
        }
        let namespace = self.manifest.key.namespace();
        let named = |other: &&&Manifest| match (&ca.certificate, &ca.secret_name) {
            (Some(name), _) => *other.name == *name.value,
            (None, Some(secret)) => {
                let spec = other.spec.get("secretName").and_then(|node| node.as_str());
                spec == Some(&secret.value)
            }
            (None, None) => false,
        };
        let siblings = self.inputs.siblings(CERTIFICATE);
        let mut near = siblings.iter().filter(|other| other.key.namespace() == namespace);
        let Some(found) = near.find(named) else {
            let name = ca.certificate.as_ref().or(ca.secret_name.as_ref()).map_or("", |at| at.value.as_str());
            let message =
                format!("the issuer signs with Certificate `{}`, which is not declared", name.escape_debug());
            self.refuse(span, message, "declare it, with isCA: true");
            return None;
        };
        let spec = found.spec::<CertificateSpec>().0?;
        if !spec.is_ca {
            let message = format!("the issuer signs with Certificate `{}`, which may not sign", found.name);
            self.refuse(span, message, "write isCA: true in its spec");
            return None;
        }
        if found.key == self.manifest.key {
            self.refuse(
                span,
                "the certificate would sign itself",
                "name an issuer with selfSigned: {} for it",
            );
            return None;
        }
        Some(Issue::Certificate(scope_name(namespace, &found.name)))
    }

    fn authority(
        &mut self,
        span: Span,
        issuer: &Manifest,
        acme: &AcmeSpec,
        subject: Subject<'_>,
    ) -> Option<Issue> {
        let Subject { names, addresses, common_name, is_ca } = subject;
        // What is wrong with it is said where it stands.
        if selected(acme) > SELECTED {
            return None;
        }
        if is_ca {
            self.refuse(span, "no authority gives certificates that may sign others", "leave `isCA` out");
            return None;
        }
        if let Some(name) = common_name.filter(|name| !names.contains(&name.to_ascii_lowercase())) {
            let message = format!("the common name `{}` is none of `dnsNames`", name.escape_debug());
            self.refuse(span, message, "leave `commonName` out, or add it to `dnsNames`");
            return None;
        }
        let (mut binding_mark, mut lacks_binding_key) = (None, false);
        let binding = match &acme.external_account_binding {
            Some(binding) => {
                // Where it is missing that is said where it stands.
                let name = binding_key(binding)?.1.to_owned();
                match self.inputs.secret_of(issuer, &Issue::secret(&name)) {
                    Ok(SecretMark(mark)) => binding_mark = Some(mark),
                    // The account may be there already, and then nobody needs it: certificates are renewed all the same.
                    Err(error) if error.kind == ErrorKind::Unavailable => {
                        let text = format!("no account can be bound: {}", error.chain());
                        self.warn(span, text, "one that is made already is used without it");
                        lacks_binding_key = true;
                    }
                    Err(error) => {
                        self.report(span, error);
                        return None;
                    }
                }
                Some((binding.key_id.clone(), name))
            }
            None => None,
        };
        let (mut solvers, mut others) = (Vec::new(), Vec::new());
        let all = names.iter().cloned().chain(addresses.iter().map(IpAddr::to_string));
        for name in all {
            let needs_dns = name.starts_with("*.");
            let is_address = name.parse::<IpAddr>().is_ok();
            let labels = &self.manifest.labels;
            let fits = |solver: &&At<SolverSpec>| {
                let mut wanted = solver.value.selector.match_labels.iter();
                let is_labelled =
                    wanted.all(|(key, value)| labels.get(&**key).is_some_and(|has| **has == **value));
                match is_dns(&solver.value) || is_persist(&solver.value) {
                    true => is_labelled && !is_address,
                    false => is_labelled && !needs_dns,
                }
            };
            let Some(solver) = choose(&name, acme.solvers.iter().filter(fits)) else {
                let why = if needs_dns { ": that takes dns01 or dnsPersist01" } else { "" };
                let message = format!("no solver of the issuer can prove `{name}`{why}");
                self.refuse(span, message, "add one to its `solvers`, or change their selectors");
                return None;
            };
            for kind in [is_dns, is_http, is_tls, is_persist] {
                let other = choose(&name, acme.solvers.iter().filter(fits).filter(|at| kind(&at.value)));
                others.extend(
                    other.filter(|other| other.key() != solver.key()).map(|other| (name.clone(), other)),
                );
            }
            solvers.push((name, solver));
        }
        self.check_zones(span, &solvers);
        Some(Issue::Acme(Box::new(Authority {
            server: acme.server.value.clone(),
            email: acme.email.clone(),
            bundle: acme.ca_bundle.as_ref().and_then(|at| bundle(&at.value)),
            binding,
            binding_mark,
            lacks_binding_key,
            // What is none is said where it stands.
            rotate: acme.rotate_account_key_after.as_ref().and_then(|at| seconds(&at.value)),
            profile: acme.profile.clone(),
            profile_at_once: acme.on_profile_change.as_ref().is_some_and(|at| at.value == "now"),
            preferred_chain: acme.preferred_chain.clone(),
            solvers,
            others,
        })))
    }
}

impl Reader<'_> {
    /// Warns of names whose record goes into no zone that is declared: nothing is ordered until there is one.
    fn check_zones(&mut self, span: Span, solvers: &[(String, Solver)]) {
        let record = |(name, solver): &(String, Solver)| {
            let Solver::Dns(provider, delegated) = solver else { return None };
            let usual = || format!("_acme-challenge.{}", name.strip_prefix("*.").unwrap_or(name));
            let record = delegated.as_ref().map_or_else(usual, |name| name.to_ascii_lowercase());
            Some((provider.clone(), record))
        };
        let mut records: BTreeSet<(String, String)> = solvers.iter().filter_map(record).collect();
        let providers: BTreeSet<String> = records.iter().map(|(provider, _)| provider.clone()).collect();
        let lacking: BTreeSet<&String> =
            providers.iter().filter(|name| self.lacks_entry(span, name)).collect();
        records.retain(|(provider, _)| !lacking.contains(provider));
        // What was not read may declare it.
        if records.is_empty() || self.inputs.is_apart() || !self.inputs.is_all_read() {
            return;
        }
        let scopes = self.inputs.scopes();
        for (provider, record) in &records {
            let zones = scopes.iter().filter(|scope| &*scope.provider == provider);
            let held = zones.filter(|zone| holds(&zone.name, record)).map(|zone| zone.name.len()).max();
            let for_others = self.for_others(provider, record, held);
            let message = match (held, &for_others) {
                (Some(_), None) => continue,
                (Some(_), Some((zone, _))) => format!(
                    "`{record}` belongs into zone `{zone}`, which is for other hosts: nothing is ordered for it here"
                ),
                (None, _) => format!(
                    "no zone of provider `{provider}` that is declared holds `{record}`: nothing is ordered until one does"
                ),
            };
            let hint = match for_others {
                Some((zone, hosts)) => {
                    format!("`reconciled/hosts` of zone `{zone}` says {hosts}; let both be for one host")
                }
                None => {
                    "declare the zone with a manifest of kind `Zone`, or, where that name is a CNAME, write \
                         delegatedTo: NAME at the solver"
                        .to_owned()
                }
            };
            self.warn(span, message, &hint);
        }
    }

    /// True where this host has no entry of that name, which is said: what is near another one is a mistake.
    fn lacks_entry(&mut self, span: Span, name: &str) -> bool {
        let inputs = self.inputs;
        let entries = inputs.entries();
        if entries.is_empty() || entries.contains(name) {
            return false;
        }
        let message = format!("provider `{name}` of a solver of the issuer is not configured on this host");
        match did_you_mean(name, entries.iter().copied()) {
            Some(near) => self.refuse(span, message, &format!("did you mean `{near}`?")),
            None => {
                let known = entries.into_iter().collect::<Vec<_>>().join(", ");
                self.warn(
                    span,
                    format!("{message}: nothing is ordered here"),
                    &format!("configured: {known}"),
                );
            }
        }
        true
    }

    /// The longest zone for `record` that this source declares for other hosts, and for which, where it is longer than what holds the
    /// record here.
    fn for_others(&self, provider: &str, record: &str, here: Option<usize>) -> Option<(String, Arc<str>)> {
        let for_others = |zone: &Manifest| {
            let is_own = zone.key.group() == "dns" && zone.key.source() == self.manifest.key.source();
            let named = zone.providers.as_ref();
            let is_meant = named.is_none_or(|names| names.iter().any(|name| **name == *provider));
            let hosts = zone.annotations.get("reconciled/hosts").filter(|_| is_own && is_meant)?;
            let name = zone.spec.get("zone").and_then(|node| node.as_str()).unwrap_or(&zone.name);
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            let is_better = here.is_none_or(|here| name.len() > here) && holds(&name, record);
            // In error it may be for this one.
            let is_other = is_better && self.inputs.selects(hosts).is_ok_and(|is_this| !is_this);
            is_other.then(|| (name, hosts.clone()))
        };
        let zones = self.inputs.absent("Zone").into_iter().filter_map(for_others);
        zones.max_by_key(|(name, _)| name.len())
    }
}

fn holds(zone: &str, record: &str) -> bool {
    record.strip_suffix(zone).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// How many names and zones its solvers are for; one that is for all counts too.
fn selected(acme: &AcmeSpec) -> usize {
    let of = |solver: &At<SolverSpec>| {
        let selector = &solver.value.selector;
        1 + selector.dns_names.len() + selector.dns_zones.len() + selector.match_labels.len()
    };
    acme.solvers.iter().map(of).sum()
}

fn is_dns(solver: &SolverSpec) -> bool {
    solver.dns01.is_some()
}
fn is_http(solver: &SolverSpec) -> bool {
    solver.http01.is_some()
}
fn is_tls(solver: &SolverSpec) -> bool {
    solver.tls_alpn01.is_some()
}
fn is_persist(solver: &SolverSpec) -> bool {
    solver.dns_persist01.is_some()
}

/// The most fitting solver for a name: one that names it, else the one with the longest zone, else one without any; of several
/// the one with most labels, and then the first.
fn choose<'s>(name: &str, solvers: impl Iterator<Item = &'s At<SolverSpec>>) -> Option<Solver> {
    let bare = name.strip_prefix("*.").unwrap_or(name);
    let fit = |solver: &SolverSpec| {
        let selector = &solver.selector;
        let same = |other: &String| other.trim_end_matches('.').eq_ignore_ascii_case(name);
        if selector.dns_names.iter().any(same) {
            return Some(usize::MAX);
        }
        let within = |zone: &&String| {
            let zone = zone.trim_end_matches('.').to_ascii_lowercase();
            bare == zone || bare.strip_suffix(&zone).is_some_and(|rest| rest.ends_with('.'))
        };
        let zone = selector.dns_zones.iter().filter(within).map(|zone| zone.len()).max();
        let is_open = selector.dns_names.is_empty() && selector.dns_zones.is_empty();
        zone.or(is_open.then_some(0))
    };
    let mut best: Option<((usize, usize), &SolverSpec)> = None;
    for solver in solvers {
        let Some(fits) = fit(&solver.value) else { continue };
        let fits = (fits, solver.value.selector.match_labels.len());
        if best.is_none_or(|(other, _)| fits > other) {
            best = Some((fits, &solver.value));
        }
    }
    let (_, solver) = best?;
    match &solver.dns01 {
        Some(dns) => {
            let delegated = dns.delegated_to.as_ref().map(|at| at.value.trim_end_matches('.').to_owned());
            // Where it is missing that is said where it stands.
            Some(Solver::Dns(dns.provider.as_ref()?.value.clone(), delegated))
        }
        None => match &solver.http01 {
            Some(http) => Some(match &http.webroot {
                Some(directory) => Solver::Webroot(directory.value.clone()),
                None => Solver::Http,
            }),
            None if is_persist(solver) => Some(Solver::Persist),
            None => solver.tls_alpn01.as_ref().map(|_| Solver::Tls),
        },
    }
}

/// The certificates of a `caBundle`, in PEM.
fn bundle(text: &str) -> Option<String> {
    let bytes = STANDARD.decode(text.split_whitespace().collect::<String>()).ok()?;
    let pem = String::from_utf8(bytes).ok()?;
    x509::chain("caBundle", &pem).ok().map(|_| pem)
}
