//! Manifests to resources. Pure.
//!
//! An issuer is no resource: nothing of it is anywhere but in the certificates that name it, and its account is made when
//! one of them needs it. So a certificate has its issuer in its own content.

use crate::{
    Config, duration,
    kind::{API_VERSION, CERT_MANAGER, CERTIFICATE, CLUSTER_ISSUER, CertificateSpec, ISSUER, IssuerSpec},
    sign,
    wish::{Issue, KeyKind, Renew, Wish, scope_name},
    x509,
};
use reconciled_provider::{
    At, Hash, Inputs, Manifest, Normalized, Problem, Resource, Scope, Spec, problem::did_you_mean,
};
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

mod issuer;
mod output;
mod reader;
mod theirs;

use issuer::Subject;
use reader::Reader;

/// Most names and addresses of a certificate: authorities take no more.
const NAMES: usize = 100;
/// Most issuers that a certificate names.
const ISSUERS: usize = 10;
/// How long a certificate is valid where nothing is said.
const DURATION: u64 = 90 * 86_400;

/// Turns a manifest of this family into its resource.
pub fn normalize(config: &Config, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
    let is_ours = matches!(&*manifest.api_version, API_VERSION | CERT_MANAGER);
    if !is_ours || !manifest.is_for(inputs.entry(), inputs.is_sole()) {
        return Normalized::default();
    }
    let mut reader = Reader { config, manifest, inputs, problems: Vec::new() };
    let wish = match &*manifest.kind {
        CERTIFICATE => reader.certificate(),
        ISSUER | CLUSTER_ISSUER => {
            let (spec, problems) = manifest.spec::<IssuerSpec>();
            reader.problems.extend(problems);
            if let Some(spec) = spec {
                reader.check_issuer(&spec);
            }
            None
        }
        _ => None,
    };
    let problems = reader.problems;
    let mut out = Normalized { problems, ..Normalized::default() };
    if let Some(wish) = wish.filter(|_| !out.problems.iter().any(Problem::is_error)) {
        let name = scope_name(manifest.key.namespace(), &manifest.name);
        let scope = Arc::new(Scope::new(inputs.entry(), name.as_str()));
        // Two in one directory would overwrite each other.
        let place = format!("the directory {}", wish.output.directory);
        out.on_host.push((scope.clone(), name.as_str().into(), place.into()));
        // A secret that rotates is no commit: what a person wrote stays as it is.
        let spec = Spec::resolved(wish.encode(), Hash::of(&wish.without_marks().encode()));
        let (origin, policy) = (manifest.origin(manifest.span), inputs.policy(manifest.policy.clone()));
        out.resources.push(Resource::new(name.as_str().into(), scope, spec, origin, policy));
    }
    out
}

fn is_authority(issuer: &Issue) -> bool {
    matches!(issuer, Issue::Acme(_))
}

impl Reader<'_> {
    fn certificate(&mut self) -> Option<Wish> {
        let (spec, problems) = self.manifest.spec::<CertificateSpec>();
        self.problems.extend(problems);
        let spec = spec?;
        let asked = spec.dns_names.len() + spec.ip_addresses.len();
        let is_too_much = [
            self.is_too_much(asked, NAMES, "names and addresses", "declare several certificates"),
            self.is_too_much(spec.issuer_refs.len(), ISSUERS, "issuers", "name those that are asked in turn"),
        ];
        if is_too_much.contains(&true) {
            return None;
        }
        let names: BTreeSet<String> = spec.dns_names.iter().filter_map(|at| self.name(at)).collect();
        let addresses: BTreeSet<IpAddr> =
            spec.ip_addresses.iter().filter_map(|at| self.address(at)).collect();
        let common_name = spec.common_name.as_ref().and_then(|at| self.common_name(at));
        if spec.dns_names.is_empty() && spec.ip_addresses.is_empty() && common_name.is_none() {
            let text = "the certificate is for nobody: it has no names and no addresses";
            self.refuse(self.manifest.span, text, "write dnsNames: [www.example.com]");
        }
        let key = self.key(&spec);
        let keep_key = self.rotation(&spec);
        let usages = self.usages(&spec);
        let duration = self.length(spec.duration.as_ref(), "duration of a certificate").unwrap_or(DURATION);
        let renew = self.renew(&spec);
        let output = self.output(&spec);
        let reload = spec.reload.iter().filter_map(|at| self.unit(at)).collect();
        let serve = spec.serve.iter().filter_map(|at| self.served(at)).collect();
        let escalate = self.escalate(&spec);
        let subject = Subject {
            names: &names,
            addresses: &addresses,
            common_name: common_name.as_deref(),
            is_ca: spec.is_ca,
        };
        let mut issuers = self.issuers(&spec, subject)?.into_iter();
        let issuer = issuers.next()?;
        let all = || std::iter::once(&issuer).chain(issuers.as_slice());
        if !all().any(is_authority) {
            // Authorities decide how long it is valid; `duration` says nothing of theirs.
            self.check_reserve(&spec, duration, renew);
        }
        self.theirs(&spec, all().all(is_authority));
        Some(Wish {
            issuer,
            others: issuers.collect(),
            issuer_names: spec.issuers().map(|at| at.value.name.clone()).collect(),
            names,
            addresses,
            common_name,
            key: key?,
            keep_key,
            usages,
            is_ca: spec.is_ca,
            duration,
            renew,
            output: output?,
            reload,
            escalate,
            serve,
        })
    }

    fn name(&mut self, at: &At<String>) -> Option<String> {
        let text = self.known(at)?;
        let shown = text.escape_debug().to_string();
        let bare = text.strip_suffix('.').unwrap_or(text);
        let (star, rest) = match bare.strip_prefix("*.") {
            Some(rest) => ("*.", rest),
            None => ("", bare),
        };
        let ascii = idna::domain_to_ascii(rest).ok().filter(|name| is_name(name));
        if ascii.is_none() {
            let hint = match bare.parse::<IpAddr>() {
                Ok(_) => "an address belongs into ipAddresses",
                Err(_) => "write a name such as www.example.com; `*` may only stand for the first label",
            };
            self.refuse(at.span, format!("`{shown}` is no name of a host"), hint);
        }
        Some(format!("{star}{}", ascii?))
    }

    fn address(&mut self, at: &At<String>) -> Option<IpAddr> {
        let text = self.known(at)?;
        let address = text.parse().ok();
        if address.is_none() {
            let message = format!("`{}` is no address", text.escape_debug());
            self.refuse(at.span, message, "write one such as 192.0.2.1 or 2001:db8::1");
        }
        address
    }

    fn common_name(&mut self, at: &At<String>) -> Option<String> {
        let text = self.known(at)?;
        // RFC 5280, ub-common-name.
        if text.is_empty() || text.chars().count() > 64 || text.contains(|c: char| c.is_control()) {
            self.refuse(
                at.span,
                "the name of a subject has 1 to 64 characters",
                "shorten it, or leave it out",
            );
            return None;
        }
        Some(text.clone())
    }

    fn key(&mut self, spec: &CertificateSpec) -> Option<KeyKind> {
        let key = &spec.private_key;
        if let Some(at) = key.encoding.as_ref().filter(|at| !matches!(&*at.value, "PKCS8" | "PKCS1")) {
            let message = format!("`{}` is no form of a key that can be written", at.value.escape_debug());
            self.refuse(at.span, message, "write encoding: PKCS8 or PKCS1, or leave it out");
        }
        let size = key.size.as_ref().map(|at| at.value);
        let algorithm = key.algorithm.as_ref().map_or("ECDSA", |at| at.value.as_str());
        let kind = match (algorithm, size) {
            ("ECDSA", None) => Some(KeyKind::Ecdsa(256)),
            ("ECDSA", Some(bits @ (256 | 384))) => Some(KeyKind::Ecdsa(bits)),
            ("RSA", None) => Some(KeyKind::Rsa(2_048)),
            ("RSA", Some(bits @ (2_048 | 3_072 | 4_096))) => Some(KeyKind::Rsa(bits)),
            ("Ed25519", None) => Some(KeyKind::Ed25519),
            _ => None,
        };
        if kind.is_none() {
            let span = key.size.as_ref().map(|at| at.span).or(key.algorithm.as_ref().map(|at| at.span));
            let size = size.map_or_else(String::new, |bits| format!(" {bits}"));
            let message = format!("there are no keys of kind `{}{size}` here", algorithm.escape_debug());
            let hint = "write ECDSA with 256 or 384 bits, RSA with 2048, 3072 or 4096, or Ed25519";
            self.refuse(span.unwrap_or(self.manifest.span), message, hint);
        }
        kind
    }

    fn rotation(&mut self, spec: &CertificateSpec) -> bool {
        match &spec.private_key.rotation_policy {
            None => false,
            Some(at) if at.value == "Always" => false,
            Some(at) if at.value == "Never" => true,
            Some(at) => {
                let message = format!("`{}` is no way to rotate a key", at.value.escape_debug());
                self.refuse(at.span, message, "write Always or Never");
                false
            }
        }
    }

    fn usages(&mut self, spec: &CertificateSpec) -> BTreeSet<String> {
        let Some(list) = &spec.usages else {
            let usual: &[&str] = match spec.is_ca {
                true => &["digital signature", "cert sign", "crl sign"],
                false => &["digital signature", "key encipherment", "server auth"],
            };
            return usual.iter().map(|word| (*word).into()).collect();
        };
        let mut usages = BTreeSet::new();
        for at in list {
            let word = at.value.as_str();
            if sign::usages().any(|known| known == word) {
                usages.insert(sign::usage(word).into());
                continue;
            }
            let hint = match did_you_mean(word, sign::usages()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write one such as server auth or client auth".into(),
            };
            self.refuse(at.span, format!("unknown usage `{}`", word.escape_debug()), &hint);
        }
        usages
    }

    fn renew(&mut self, spec: &CertificateSpec) -> Renew {
        match (&spec.renew_before, &spec.renew_before_percentage) {
            (Some(_), Some(percent)) => {
                let text = "`renewBeforePercentage` has no meaning beside `renewBefore`";
                self.refuse(percent.span, text, "leave one of the two out");
                Renew::Usual
            }
            (None, Some(percent)) if !(1..=99).contains(&percent.value) => {
                self.refuse(
                    percent.span,
                    "a share of the time is between 1 and 99 percent",
                    "write one such as 33",
                );
                Renew::Usual
            }
            (None, Some(percent)) => Renew::Percent(percent.value),
            (before, None) => self
                .length(before.as_ref(), "renewBefore of a certificate")
                .map_or(Renew::Usual, Renew::Before),
        }
    }

    /// Refuses a reserve that is as long as the certificate: each one would be due as soon as it is there.
    fn check_reserve(&mut self, spec: &CertificateSpec, duration: u64, renew: Renew) {
        // As far as it reaches back before the moment it is made, it serves nobody.
        let share = |percent: u32| (duration + x509::BACKDATED).saturating_mul(u64::from(percent)) / 100;
        let (reserve, span) = match renew {
            Renew::Usual => return,
            Renew::Before(seconds) => (seconds, spec.renew_before.as_ref().map(|at| at.span)),
            Renew::Percent(percent) => {
                (share(percent), spec.renew_before_percentage.as_ref().map(|at| at.span))
            }
        };
        if reserve >= duration {
            let (reserve, duration) = (duration::show(reserve), duration::show(duration));
            let text = format!(
                "it would be renewed {reserve} before its end, and is valid for {duration}: at once, for ever"
            );
            self.refuse(
                span.unwrap_or(self.manifest.span),
                text,
                "write a shorter time, or a longer `duration`",
            );
        }
    }

    fn unit(&mut self, at: &At<String>) -> Option<String> {
        let name = self.known(at)?;
        if let Err(error) = self.config.check_reload(self.inputs.entry()) {
            self.report(at.span, error);
            return None;
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
        // Not an option of the command, and a unit at all.
        if name.starts_with('-') || !name.contains('.') || name.len() > 255 || !name.chars().all(is_plain) {
            let message = format!("`{}` is no name of a unit", name.escape_debug());
            self.refuse(at.span, message, "write one such as nginx.service");
            return None;
        }
        Some(name.clone())
    }

    fn escalate(&mut self, spec: &CertificateSpec) -> bool {
        let Some(at) = spec.escalate.as_ref().filter(|at| at.value) else { return false };
        if spec.reload.is_empty() || spec.serve.is_empty() {
            let text =
                "`escalate` restarts units that show another certificate, and nothing says which, or where";
            self.refuse(at.span, text, "write reload: [nginx.service] and serve: [\"127.0.0.1:443\"] too");
            return false;
        }
        if self.config.restart().is_none() {
            let text = format!("provider `{}` restarts no service", self.inputs.entry());
            let hint =
                "in the host configuration, write restart: [systemctl, try-restart, \"{unit}\"] for it";
            self.refuse(at.span, text, hint);
        }
        true
    }

    fn served(&mut self, at: &At<String>) -> Option<String> {
        let text = self.known(at)?;
        // Of an address with colons nobody knows where it ends, unless it stands in brackets.
        let is_host = |host: &str| match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains(':'),
        };
        let fits = text.rsplit_once(':').filter(|(host, port)| is_host(host) && port.parse::<u16>().is_ok());
        if fits.is_none() {
            let message = format!("`{}` is no address of a service", text.escape_debug());
            self.refuse(at.span, message, "write it as HOST:PORT, such as 127.0.0.1:443 or [::1]:443");
            return None;
        }
        Some(text.clone())
    }
}

fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=63).contains(&label.len())
            && label.chars().all(is_plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_address = name.parse::<IpAddr>().is_ok();
    name.len() <= 253 && !is_address && name.split('.').all(is_label)
}
