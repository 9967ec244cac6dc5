//! Fields of cert-manager that mean nothing here: what has no effect is warned of, what would change the certificate or cannot
//! work is an error that says what to write.

use super::reader::Reader;
use crate::kind::{AcmeSpec, CaSpec, CertificateSpec, Dns01Spec, EabSpec, Http01Spec};
use reconciled_provider::{At, Span};

impl Reader<'_> {
    /// Fields of a certificate; `is_public` where authorities alone issue it.
    pub(super) fn theirs(&mut self, spec: &CertificateSpec, is_public: bool) {
        if let Some(at) = &spec.secret_template {
            let hint = "there is no Secret whose labels these could be: leave it out";
            self.warn(at.span, "`secretTemplate` has no effect", hint);
        }
        if let Some(at) = spec.encode_usages_in_request.as_ref().filter(|at| !at.value) {
            let hint = "usages are always in the request: leave it out";
            self.warn(at.span, "`encodeUsagesInRequest` has no effect", hint);
        }
        match &spec.subject {
            Some(at) if is_public => {
                let hint = "no authority that speaks ACME writes them into a certificate: leave it out";
                self.warn(at.span, "`subject` has no effect", hint);
            }
            Some(at) => {
                let text = "parts of a subject but its common name are not written here";
                self.refuse(at.span, text, "write commonName: NAME, and leave `subject` out");
            }
            None => {}
        }
        match &spec.signature_algorithm {
            Some(at) if is_public => {
                let hint = "the authority decides how it signs: leave it out";
                self.warn(at.span, "`signatureAlgorithm` has no effect", hint);
            }
            Some(at) => {
                let hint = "leave it out, or choose the key of the issuer: `privateKey` of its certificate";
                self.refuse(at.span, "the key of the issuer decides how a certificate is signed", hint);
            }
            None => {}
        }
        let jks = spec.keystores.as_ref().and_then(|at| at.value.jks.as_ref());
        let refused = [
            (
                &spec.literal_subject,
                "`literalSubject` is not written here",
                "write commonName: NAME, the only part of a subject that is",
            ),
            (
                &spec.name_constraints,
                "`nameConstraints` are not written here, so it could sign for any name",
                "declare a certificate without them, or sign with one that the host has: ca: {cert: …, key: …}",
            ),
            (
                &spec.other_names,
                "names in `otherNames` are not written here",
                "only dnsNames and ipAddresses are: leave it out",
            ),
        ];
        for (at, text, hint) in refused {
            if let Some(at) = at {
                self.refuse(at.span, text, hint);
            }
        }
        if let Some(at) = jks.filter(|at| at.value.get("create") != Some(&false.into())) {
            let hint = "write keystores: {pkcs12: …}, or output: {pkcs12: …}: Java reads that as well";
            self.refuse(at.span, "no JKS file is written here", hint);
        }
        for (field, names, hint) in [
            ("uris", &spec.uris, "only dnsNames and ipAddresses are: leave it out"),
            ("emailAddresses", &spec.email_addresses, "only dnsNames and ipAddresses are: leave it out"),
        ] {
            if let Some(at) = names.first() {
                self.refuse(at.span, format!("names in `{field}` are not written here"), hint);
            }
        }
    }

    /// True when key and chain are wanted in one file; what else is wanted is refused.
    pub(super) fn formats(&mut self, spec: &CertificateSpec) -> bool {
        for at in spec.additional_output_formats.iter().filter(|at| at.value.kind != "CombinedPEM") {
            let text = format!("files of the format `{}` are not written here", at.value.kind.escape_debug());
            self.refuse(at.span, text, "write type: CombinedPEM, or leave it out");
        }
        spec.additional_output_formats.iter().any(|at| at.value.kind == "CombinedPEM")
    }

    /// Fields of an issuer that signs with a certificate of ours.
    pub(super) fn check_ca_theirs(&mut self, ca: &CaSpec) {
        let revoked = "nothing is taken back here, so there is no list of it: leave it out";
        for (field, at, hint) in [
            ("crlDistributionPoints", &ca.crl_distribution_points, revoked),
            ("ocspServers", &ca.ocsp_servers, revoked),
            (
                "issuingCertificateURLs",
                &ca.issuing_certificate_urls,
                "the chain in `tls.crt` leads to the issuer: leave it out",
            ),
        ] {
            if let Some(at) = at {
                self.refuse(at.span, format!("`{field}` is not written into certificates here"), hint);
            }
        }
    }

    /// Fields of an issuer.
    pub(super) fn check_theirs(&mut self, acme: &AcmeSpec) {
        if let Some(at) = acme.enable_duration_feature.as_ref().filter(|at| at.value) {
            let hint = "the authority says how long a certificate is valid: ask for a `profile`";
            self.warn(at.span, "`enableDurationFeature` has no effect", hint);
        }
        if let Some(at) = acme.disable_account_key_generation.as_ref().filter(|at| at.value) {
            let hint = "the key of the account is made and kept in the state directory: leave it out";
            self.refuse(at.span, "`disableAccountKeyGeneration` is not possible here", hint);
        }
        if let Some(at) = acme.skip_tls_verify.as_ref().filter(|at| at.value) {
            let hint =
                "write caBundle: the certificates to check that of the authority with, in PEM and base64";
            self.refuse(at.span, "an authority that may be anybody is not asked", hint);
        }
        if let Some(binding) = &acme.external_account_binding {
            self.check_binding(acme, binding);
        }
        for solver in &acme.solvers {
            if let Some(dns) = &solver.value.dns01 {
                self.check_dns(dns, solver.span);
            }
            if let Some(http) = &solver.value.http01 {
                self.check_http(http);
            }
        }
    }

    fn check_binding(&mut self, acme: &AcmeSpec, binding: &EabSpec) {
        let hint =
            "write key: {secret: NAME}, or keySecretRef: {name: NAME}, a secret that the host declares";
        match (&binding.key, &binding.key_secret_ref) {
            (None, None) => {
                self.refuse(acme.server.span, "the account is bound, and nothing says with which key", hint);
            }
            (Some(_), Some(at)) => {
                self.refuse(
                    at.span,
                    "`keySecretRef` has no meaning beside `key`",
                    "leave one of the two out",
                );
            }
            _ => {}
        }
        if let Some(at) = binding.key_algorithm.as_ref().filter(|at| at.value != "HS256") {
            let text = format!("`{}` is no way to bind an account here", at.value.escape_debug());
            self.refuse(at.span, text, "write keyAlgorithm: HS256, or leave it out");
        }
    }

    fn check_dns(&mut self, dns: &Dns01Spec, span: Span) {
        let hint =
            "write provider: NAME, an entry of the host configuration that has the zone and its credentials";
        let mut is_said = dns.provider.is_some();
        for (field, at) in dns.theirs() {
            is_said = true;
            self.refuse(at.span, format!("`dns01.{field}` has no meaning here"), hint);
        }
        if !is_said {
            self.refuse(span, "`dns01` says nowhere to put a record", hint);
        }
        if let Some(at) = dns.cname_strategy.as_ref().filter(|at| at.value != "None") {
            let hint = "no CNAME is followed: write delegatedTo: NAME, where `_acme-challenge` leads";
            self.warn(at.span, "`cnameStrategy` has no effect", hint);
        }
    }

    fn check_http(&mut self, http: &Http01Spec) {
        let theirs = [("ingress", &http.ingress), ("gatewayHTTPRoute", &http.gateway_http_route)];
        for (field, at) in theirs.into_iter().filter_map(|(field, at)| Some((field, at.as_ref()?))) {
            let hint =
                "the answer is given at `listen` of the provider entry, or below `webroot`: leave it out";
            self.warn(at.span, format!("`http01.{field}` has no effect"), hint);
        }
    }
}

/// Where the key stands that an account is bound with, and which secret it is.
pub(super) fn binding_key(binding: &EabSpec) -> Option<(Span, &str)> {
    let ours = binding.key.as_ref().map(|at: &At<_>| (at.span, &*at.value.secret));
    ours.or_else(|| binding.key_secret_ref.as_ref().map(|at| (at.span, &*at.value.name)))
}
