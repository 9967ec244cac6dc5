//! What manifests come to, and what is wrong with them.

use bytes::Bytes;
use reconciled_certificates::{
    Config,
    normalize::normalize,
    wish::{Issue, Solver, Wish},
};
use reconciled_provider::{
    Around, Error, Hash, Inputs, Linted, Manifest, ManifestKey, Normalized, Policies, Policy, PolicyId,
    Reference, Scope, SecretMark, SecretRef, SourceFile, manifest::Value, yaml,
};
use std::{cell::RefCell, collections::BTreeSet, sync::Arc};

#[derive(Default)]
pub(crate) struct TestInputs {
    /// What all secrets are at the moment.
    pub(crate) secret: &'static str,
    pub(crate) scopes: BTreeSet<Scope>,
    /// Entries of the host; none where there is no host.
    pub(crate) entries: &'static [&'static str],
    pub(crate) others: Vec<Manifest>,
    pub(crate) policies: RefCell<Policies>,
}

impl Inputs for TestInputs {
    fn entry(&self) -> &str {
        "cert"
    }
    fn is_sole(&self) -> bool {
        true
    }
    fn blob(&self, path: &str) -> Result<Bytes, Error> {
        Err(Error::invalid(format!("there is no file `{path}`")))
    }
    fn secret(&self, reference: &SecretRef) -> Result<SecretMark, Error> {
        match reference {
            SecretRef::Named(name) if ["p12", "eab", "ca", "key"].contains(&&**name) => {
                Ok(SecretMark(Hash::of(self.secret.as_bytes())))
            }
            SecretRef::Named(name) if &**name == "away" => Err(Error::unavailable("read secret file /x")),
            _ => Err(Error::invalid("there is no such secret")),
        }
    }
    fn secret_of(&self, _: &Manifest, reference: &SecretRef) -> Result<SecretMark, Error> {
        self.secret(reference)
    }
    fn output(&self, _: &Reference) -> Value {
        Value::Unknown
    }
    fn scopes(&self) -> &BTreeSet<Scope> {
        &self.scopes
    }
    fn entries(&self) -> BTreeSet<&str> {
        self.entries.iter().copied().collect()
    }
    fn siblings(&self, kind: &str) -> Vec<&Manifest> {
        self.others.iter().filter(|other| &*other.kind == kind).collect()
    }
    fn policy(&self, policy: Policy) -> PolicyId {
        self.policies.borrow_mut().intern(policy)
    }
}

pub(crate) fn manifest(kind: &str, name: &str, spec: &str) -> Manifest {
    let file = Arc::new(SourceFile::new("all.yaml", spec));
    let spec = yaml::parse(&file, yaml::Limits::default()).unwrap().remove(0);
    Manifest {
        index: 0,
        key: ManifestKey::new("infra", "cert", kind, "", name),
        api_version: "cert/v1".into(),
        kind: kind.into(),
        name: name.into(),
        labels: Default::default(),
        annotations: Default::default(),
        providers: None,
        policy: Policy::default(),
        file,
        span: spec.span,
        spec,
    }
}

/// What a certificate comes to beside an issuer `own`.
fn certificate(config: &Config, issuer: &str, spec: &str) -> Normalized {
    let others = vec![manifest("Issuer", "own", issuer)];
    let spec = format!("{{output: {{directory: /etc/ssl/web}}, {spec}}}");
    let inputs = TestInputs { others, ..TestInputs::default() };
    normalize(config, &manifest("Certificate", "web", &spec), &inputs)
}

/// One line for each problem.
pub(crate) fn told(out: &Normalized) -> Vec<String> {
    let hint = |hint: &Option<String>| hint.clone().unwrap_or_default();
    out.problems.iter().map(|problem| format!("{} / {}", problem.message, hint(&problem.hint))).collect()
}

pub(crate) fn host() -> Config {
    Config::new("/state", &["/etc/ssl"])
}

#[test]
fn what_could_not_be_read_is_told_once_and_nothing_is_missing_beside_it() {
    let one = |out: &Normalized, part: &str| {
        let said = told(out);
        assert!(said.len() == 1 && said[0].contains(part), "{part}: {said:?}");
    };
    for output in ["directory: /etc/ssl/web, pkcs12: {password: 1}", "directory: /etc/ssl/web, pkcs12: {}"] {
        let spec = format!("{{issuerRef: {{name: own}}, dnsNames: [a.example], output: {{{output}}}}}");
        let others = vec![manifest("Issuer", "own", "{selfSigned: {}}")];
        let inputs = TestInputs { others, ..TestInputs::default() };
        one(&normalize(&host(), &manifest("Certificate", "web", &spec), &inputs), "");
    }
    one(&certificate(&host(), "{selfSigned: {}}", "issuerRef: {kind: Issuer}, dnsNames: [a.example]"), "");
    let issuer = |spec: &str| normalize(&host(), &manifest("Issuer", "own", spec), &TestInputs::default());
    one(&issuer("{acme: {server: 'https://ca.example/dir'}}"), "solvers");
    one(&issuer("{}"), "exactly one kind");
    one(&issuer("{ca: {certificate: ca}, selfSigned: {}}"), "exactly one kind");
}

#[test]
fn a_password_in_the_url_of_an_authority_is_not_repeated() {
    let spec = "{acme: {server: \"https://user:CANARYpw@host/dir\", solvers: [{http01: {}}]}}";
    let out = normalize(&host(), &manifest("Issuer", "own", spec), &TestInputs::default());
    let [problem] = &out.problems[..] else { panic!("{:?}", out.problems) };
    assert!(problem.message.contains("@host/dir` is no URL of an authority"), "{}", problem.message);
    assert!(!format!("{problem} {problem:?}").contains("CANARY"), "{problem}");
}

#[test]
fn where_the_host_has_no_command_for_it_no_service_is_named() {
    let spec = "issuerRef: {name: own}, dnsNames: [a.example], reload: [sshd.service]";
    assert_eq!(certificate(&host(), "{selfSigned: {}}", spec).problems, []);
    let config = Config { reload: Vec::new(), ..host() };
    let out = certificate(&config, "{selfSigned: {}}", spec);
    let told = told(&out);
    assert!(out.resources.is_empty() && told.len() == 1, "{told:?}");
    assert!(told[0].contains("makes no service read its files again") && told[0].contains("bus: system"));
    let without = spec.replace(", reload: [sshd.service]", "");
    assert_eq!(certificate(&config, "{selfSigned: {}}", &without).problems, []);
}

#[test]
fn what_would_be_due_as_soon_as_it_is_there_is_refused() {
    let check = |issuer: &str, spec: &str, is_refused: bool| {
        let spec = format!("issuerRef: {{name: own}}, dnsNames: [a.example], {spec}");
        let told = told(&certificate(&host(), issuer, &spec));
        assert_eq!(told.len(), usize::from(is_refused), "{spec}: {told:?}");
        assert!(told.iter().all(|told| told.contains("at once, for ever")), "{told:?}");
    };
    let own = "{selfSigned: {}}";
    check(own, "duration: 1h, renewBefore: 59m", false);
    check(own, "duration: 1h, renewBefore: 1h", true);
    check(own, "renewBefore: 91d", true);
    check(own, "duration: 1h, renewBeforePercentage: 95", false);
    // It begins a minute before it is made, so 95 percent are more than all of its time.
    check(own, "duration: 5m, renewBeforePercentage: 95", true);
    check(own, "duration: 5m, renewBeforePercentage: 83", false);
    // How long it is valid is the authority's to say.
    let acme = "{acme: {server: 'https://ca.example/dir', solvers: [{http01: {}}]}}";
    check(acme, "renewBefore: 100d", false);
}

#[test]
fn what_signs_without_a_name_is_warned_of() {
    let observer = reconciled_certificates::open("cert", host()).unwrap();
    let check = |issuer: &str, spec: &str, told: &str| {
        let out = certificate(&host(), issuer, &format!("issuerRef: {{name: own}}, {spec}"));
        let linted = Linted { resource: &out.resources[0], quiet: &[] };
        let found = observer.lint(&out.resources[0].scope, &[linted], Around::default());
        let messages: Vec<&str> = found.iter().map(|finding| &*finding.message).collect();
        let is_told = messages.iter().all(|message| message.contains(told));
        assert!(messages.len() == usize::from(!told.is_empty()) && is_told, "{issuer} {spec}: {messages:?}");
        let quiet = ["issuer-without-name".into()];
        let silenced = [Linted { quiet: &quiet, ..linted }];
        assert_eq!(observer.lint(&out.resources[0].scope, &silenced, Around::default()), []);
    };
    let (own, ca) = ("{selfSigned: {}}", "{ca: {cert: {secret: ca}, key: {secret: key}}}");
    let acme = "{acme: {server: 'https://ca.example/dir', solvers: [{http01: {}}]}}";
    check(own, "dnsNames: [a.example]", "it signs itself");
    check(own, "dnsNames: [a.example], isCA: true", "it signs others");
    check(own, "dnsNames: [a.example], commonName: a", "");
    check(ca, "dnsNames: [a.example], isCA: true", "it signs others");
    check(ca, "dnsNames: [a.example]", "");
    check(acme, "dnsNames: [a.example]", "");
}

#[test]
fn what_is_shown_says_who_may_read_the_key() {
    let observer = reconciled_certificates::open("cert", host()).unwrap();
    let others = vec![manifest("Issuer", "own", "{selfSigned: {}}")];
    let output =
        "output: {directory: /etc/ssl/web, owner: root, group: www-data, mode: '0640', combined: true}";
    let spec = format!("{{issuerRef: {{name: own}}, dnsNames: [a.example], {output}}}");
    let inputs = TestInputs { others, ..TestInputs::default() };
    let out = normalize(&host(), &manifest("Certificate", "web", &spec), &inputs);
    let shown = observer.show(&"web".into(), out.resources[0].spec.bytes().unwrap());
    let shown = |path: &str| shown.iter().find(|(known, _)| &**known == path).map(|(_, value)| &**value);
    let seen = ["owner", "group", "mode", "combined"].map(|part| shown(&format!("output.{part}")));
    assert_eq!(seen, [Some("root"), Some("www-data"), Some("0640"), Some("true")]);
}

#[test]
fn units_are_restarted_only_where_the_host_can_and_something_says_which() {
    let check = |config: &Config, spec: &str, part: &str| {
        let spec = format!("issuerRef: {{name: own}}, dnsNames: [a.example], {spec}");
        let told = told(&certificate(config, "{selfSigned: {}}", &spec));
        assert!(told.len() == usize::from(!part.is_empty()), "{spec}: {told:?}");
        assert!(told.iter().all(|told| told.contains(part)), "{spec}: {told:?}");
    };
    const ALL: &str = "reload: [nginx.service], serve: ['127.0.0.1:443'], escalate: true";
    check(&host(), ALL, "");
    check(&host(), "serve: ['127.0.0.1:443'], escalate: true", "nothing says which, or where");
    check(&host(), "reload: [nginx.service], escalate: true", "nothing says which, or where");
    check(&host(), "escalate: false", "");
    let rndc = Config { reload: vec!["rndc".into(), "reload".into()], ..host() };
    check(&rndc, ALL, "restart: [systemctl, try-restart");
    check(&Config { restart: Some(vec!["boot".into()]), ..rndc }, ALL, "");
}

#[test]
fn lists_end_somewhere() {
    let acme = |names: usize| {
        let names: Vec<String> = (0..names).map(|number| format!("n{number}.example")).collect();
        let names = names.join(", ");
        format!(
            "{{acme: {{server: 'https://acme.example/dir', solvers: [{{http01: {{}}, selector: {{dnsNames: [{names}]}}}}, {{http01: {{}}}}]}}}}"
        )
    };
    let many =
        |count: usize, make: &dyn Fn(usize) -> String| (0..count).map(make).collect::<Vec<_>>().join(", ");
    let named = |names: usize, addresses: usize, issuers: usize| {
        let names = many(names, &|number| format!("a{number}.example"));
        let addresses = many(addresses, &|number| format!("192.0.2.{number}"));
        let issuers = many(issuers, &|_| "{name: own}".into());
        format!("issuerRefs: [{issuers}], dnsNames: [{names}], ipAddresses: [{addresses}]")
    };
    let most = certificate(&host(), &acme(998), &named(50, 50, 10));
    assert_eq!((most.problems.len(), most.resources.len()), (0, 1));
    for (spec, text) in [
        (named(50, 51, 1), "101 names and addresses, and at most 100 are taken"),
        (named(1, 0, 11), "11 issuers, and at most 10 are taken"),
    ] {
        let out = certificate(&host(), &acme(1), &spec);
        assert!(told(&out).len() == 1 && told(&out)[0].contains(text), "{:?}", told(&out));
    }
    let inputs = TestInputs::default();
    let out = normalize(&host(), &manifest("Issuer", "own", &acme(999)), &inputs);
    assert!(told(&out)[0].contains("1001 names and zones of solvers, and at most 1000"), "{:?}", told(&out));
    let out = certificate(&host(), &acme(999), &named(1, 0, 1));
    assert_eq!((told(&out).len(), out.resources.len()), (0, 0), "it is said where it stands");
}

#[test]
fn a_certificate_is_the_only_one_in_its_directory() {
    let out = certificate(&host(), "{selfSigned: {}}", "issuerRef: {name: own}, dnsNames: [a.example]");
    let (scope, id, remote) = &out.on_host[0];
    assert_eq!(
        (&**scope, &*id.0, &**remote),
        (&Scope::new("cert", "web"), "web", "the directory /etc/ssl/web")
    );
}

#[test]
fn a_pkcs12_file_is_declared_in_our_words_and_in_those_of_cert_manager() {
    let of = |output: &str, more: &str| {
        let spec = format!(
            "{{issuerRef: {{name: own}}, dnsNames: [a.example], output: {{directory: /etc/ssl/web{output}}}{more}}}"
        );
        let others = vec![manifest("Issuer", "own", "{selfSigned: {}}")];
        let inputs = TestInputs { others, ..TestInputs::default() };
        normalize(&host(), &manifest("Certificate", "web", &spec), &inputs)
    };
    let bytes = |out: Normalized| {
        assert_eq!(told(&out), [""; 0]);
        out.resources[0].spec.bytes().unwrap().to_vec()
    };
    let theirs = |more: &str| {
        format!(", keystores: {{pkcs12: {{passwordSecretRef: {{name: p12, key: password}}, {more}}}}}")
    };
    const OURS: &str = ", pkcs12: {password: {secret: p12}}";
    let ours = bytes(of(OURS, ""));
    assert_eq!(bytes(of("", &theirs("create: true, profile: Modern2023"))), ours);
    assert_eq!(bytes(of("", &theirs("create: true"))), ours);
    let none = bytes(of("", ""));
    assert_eq!(bytes(of("", &theirs("create: false"))), none);
    assert!(!String::from_utf8(none).unwrap().contains("keystore"), "what was declared before is as it was");
    for (output, more, part) in [
        (", pkcs12: {password: {secret: other}}", "".into(), "there is no such secret"),
        (OURS, theirs("create: true"), "leave one of the two out"),
        ("", theirs("create: true, profile: LegacyRC2"), "write profile: Modern2023"),
        ("", ", keystores: {pkcs12: {create: true}}".into(), "passwordSecretRef: {name: NAME}"),
        ("", ", keystores: {jks: {create: true}}".into(), "no JKS file"),
    ] {
        let told = told(&of(output, &more));
        assert!(told.len() == 1 && told[0].contains(part), "{output}{more}: {told:?}");
    }
}

#[test]
fn a_record_that_stays_proves_names_with_a_star_and_no_addresses() {
    let issuer = "{acme: {server: 'https://ca.example/dir', solvers: [{dnsPersist01: {}}]}}";
    let of = |spec: &str| certificate(&host(), issuer, &format!("issuerRef: {{name: own}}, {spec}"));
    let out = of("dnsNames: [a.example, '*.a.example']");
    assert_eq!((told(&out), out.resources.len()), (Vec::new(), 1));
    let out = of("ipAddresses: [192.0.2.1]");
    assert!(told(&out)[0].contains("no solver of the issuer can prove `192.0.2.1`"), "{:?}", told(&out));
}

/// What a manifest of cert-manager comes to beside an issuer, whose problems come first.
fn of_cert_manager(
    issuer: &str,
    labels: &[(&str, &str)],
    spec: &str,
) -> (Vec<String>, Vec<String>, Option<Wish>) {
    let issuer = manifest("Issuer", "own", issuer);
    let first = told(&normalize(&host(), &issuer, &TestInputs::default()));
    let inputs = TestInputs { others: vec![issuer], ..TestInputs::default() };
    let spec = format!(
        "{{issuerRef: {{name: own, group: cert-manager.io}}, secretName: web, dnsNames: [a.example]{spec}}}"
    );
    let mut certificate = manifest("Certificate", "web", &spec);
    certificate.labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let config = Config { directory: Some("/etc/ssl".into()), ..host() };
    let out = normalize(&config, &certificate, &inputs);
    let wish = out.resources.first().and_then(|resource| Wish::decode(resource.spec.bytes()?));
    (first, told(&out), wish)
}

#[test]
fn what_a_manifest_of_cert_manager_says_is_done_or_warned_of_or_refused_by_name() {
    let solvers = "solvers: [{http01: {ingress: {ingressClassName: nginx, podTemplate: {spec: {}}}}}]";
    let acme = |more: &str| format!("{{acme: {{server: 'https://ca.example/dir', {more}}}}}");
    // An issuer: what is told of it, and whether a certificate can be had from it.
    for (spec, expect, works) in [
        (solvers, "`http01.ingress` has no effect", true),
        (
            "enableDurationFeature: true, solvers: [{http01: {}}]",
            "`enableDurationFeature` has no effect",
            true,
        ),
        ("skipTLSVerify: true, solvers: [{http01: {}}]", "write caBundle", true),
        ("skipTLSVerify: false, privateKeySecretRef: {name: x}, solvers: [{http01: {}}]", "", true),
        (
            "disableAccountKeyGeneration: true, solvers: [{http01: {}}]",
            "the key of the account is made",
            true,
        ),
        (
            "externalAccountBinding: {keyID: a, keySecretRef: {name: eab, key: secret}}, solvers: [{http01: {}}]",
            "",
            true,
        ),
        (
            "externalAccountBinding: {keyID: a, keyAlgorithm: HS512, key: {secret: eab}}, solvers: [{http01: {}}]",
            "write keyAlgorithm: HS256",
            true,
        ),
        (
            "externalAccountBinding: {keyID: a}, solvers: [{http01: {}}]",
            "write key: {secret: NAME}, or keySecretRef",
            false,
        ),
        (
            "solvers: [{dns01: {cloudflare: {apiTokenSecretRef: {name: x, key: y}}}}]",
            "`dns01.cloudflare` has no meaning here / write provider: NAME",
            false,
        ),
        (
            "solvers: [{dns01: {cnameStrategy: Follow, route53: {region: r}}}]",
            "`dns01.route53` has no meaning here",
            false,
        ),
        ("onProfileChange: renewal, solvers: [{http01: {}}]", "", true),
        ("onProfileChange: later, solvers: [{http01: {}}]", "write onProfileChange: now, or renewal", true),
        ("solvers: [{dns01: {}}]", "`dns01` says nowhere to put a record / write provider: NAME", false),
        ("solvers: [{dns01: {provider: pdns, cnameStrategy: Follow}}]", "write delegatedTo: NAME", true),
        ("solvers: [{dns01: {provider: pdns, cnameStrategy: None}}]", "", true),
        ("solvers: [{dns01: {cloudfare: {}}}]", "did you mean `cloudflare`?", false),
    ] {
        let (first, _, wish) = of_cert_manager(&acme(spec), &[], "");
        assert!(
            first.iter().any(|told| told.contains(expect)) || (expect.is_empty() && first.is_empty()),
            "{spec}: {first:?}"
        );
        assert_eq!(wish.is_some(), works, "{spec}");
    }
    for field in ["crlDistributionPoints", "ocspServers", "issuingCertificateURLs"] {
        let ca =
            format!("{{ca: {{cert: {{secret: ca}}, key: {{secret: key}}, {field}: ['http://a.example']}}}}");
        let (first, ..) = of_cert_manager(&ca, &[], "");
        assert!(first.len() == 1 && first[0].contains(&format!("`{field}` is not written")), "{first:?}");
    }
    // A certificate, of an authority and of our own.
    let public = acme("solvers: [{http01: {}}]");
    for (issuer, spec, expect, works) in [
        (&*public, "secretTemplate: {labels: {a: b}}", "`secretTemplate` has no effect", true),
        (&public, "subject: {organizations: [x]}", "`subject` has no effect", true),
        ("{selfSigned: {}}", "subject: {organizations: [x]}", "write commonName: NAME", false),
        (&public, "uris: ['spiffe://a']", "names in `uris` are not written here", false),
        (&public, "emailAddresses: [a@a.example]", "names in `emailAddresses` are not written here", false),
        (&public, "literalSubject: 'CN=a,O=b'", "`literalSubject` is not written here", false),
        (&public, "signatureAlgorithm: SHA256WithRSA", "`signatureAlgorithm` has no effect", true),
        ("{selfSigned: {}}", "signatureAlgorithm: SHA256WithRSA", "the key of the issuer decides", false),
        (
            "{selfSigned: {}}",
            "nameConstraints: {permitted: {}}",
            "`nameConstraints` are not written here",
            false,
        ),
        (&public, "otherNames: [{oid: '1.2', utf8Value: a}]", "names in `otherNames` are not written", false),
        (&public, "keystores: {jks: {create: true, passwordSecretRef: {name: x}}}", "no JKS file", false),
        (&public, "keystores: {jks: {create: false, passwordSecretRef: {name: x}}}", "", true),
        (&public, "encodeUsagesInRequest: false", "`encodeUsagesInRequest` has no effect", true),
        (&public, "encodeUsagesInRequest: true, uris: []", "", true),
        (&public, "additionalOutputFormats: [{type: DER}]", "write type: CombinedPEM", false),
        (&public, "privateKey: {encoding: PKCS7}", "write encoding: PKCS8 or PKCS1", false),
    ] {
        let (_, told, wish) = of_cert_manager(issuer, &[], &format!(", {spec}"));
        assert!(
            told.iter().any(|told| told.contains(expect)) || (expect.is_empty() && told.is_empty()),
            "{spec}: {told:?}"
        );
        assert_eq!(wish.is_some(), works, "{spec}: {told:?}");
    }
    let more = ", privateKey: {encoding: PKCS1}, additionalOutputFormats: [{type: CombinedPEM}]";
    let output = of_cert_manager(&public, &[], more).2.unwrap().output;
    assert!(output.pkcs1 && output.combined);
    let output = of_cert_manager(&public, &[], "").2.unwrap().output;
    assert!(!output.pkcs1 && !output.combined);
    let issuer = acme(
        "externalAccountBinding: {keyID: a, keySecretRef: {name: eab, key: secret}}, solvers: [{http01: {}}]",
    );
    let Issue::Acme(authority) = of_cert_manager(&issuer, &[], "").2.unwrap().issuer else { panic!() };
    assert_eq!(authority.binding, Some(("a".into(), "eab".into())));
}

#[test]
fn a_solver_is_chosen_by_name_then_by_zone_then_by_labels() {
    let issuer = "{acme: {server: 'https://ca.example/dir', solvers: [\
        {http01: {}}, \
        {selector: {matchLabels: {zone: 'yes'}}, tlsAlpn01: {}}, \
        {selector: {dnsZones: [example]}, dns01: {provider: wide}}, \
        {selector: {dnsZones: [b.example]}, dns01: {provider: zone, delegatedTo: b.delegated.example.}}, \
        {selector: {dnsNames: [x.b.example]}, dns01: {provider: name}}]}}";
    let chosen = |labels: &[(&str, &str)], name: &str| {
        let spec = format!(
            "{{issuerRef: {{name: own}}, output: {{directory: /etc/ssl/web}}, dnsNames: ['{name}']}}"
        );
        let inputs = TestInputs { others: vec![manifest("Issuer", "own", issuer)], ..TestInputs::default() };
        let mut certificate = manifest("Certificate", "web", &spec);
        certificate.labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let out = normalize(&host(), &certificate, &inputs);
        let wish = Wish::decode(out.resources[0].spec.bytes().unwrap()).unwrap();
        let Issue::Acme(authority) = wish.issuer else { panic!() };
        authority.solvers[0].1.clone()
    };
    let dns = |provider: &str| Solver::Dns(provider.into(), None);
    assert_eq!(chosen(&[], "a.other"), Solver::Http);
    assert_eq!(chosen(&[("zone", "yes")], "a.other"), Solver::Tls);
    assert_eq!(chosen(&[("zone", "no")], "a.other"), Solver::Http);
    assert_eq!(chosen(&[("zone", "yes")], "a.example"), dns("wide"), "a zone counts more than labels");
    assert_eq!(chosen(&[], "*.b.example"), Solver::Dns("zone".into(), Some("b.delegated.example".into())));
    assert_eq!(chosen(&[], "ab.example"), dns("wide"), "no part of a label");
    assert_eq!(chosen(&[], "x.b.example"), dns("name"));
}

#[test]
fn a_secret_that_rotates_is_another_content_and_nothing_that_a_person_wrote() {
    let of = |issuer: &str, name: &str, secret: &'static str| {
        let others = vec![manifest("Issuer", "own", issuer)];
        let output = "output: {directory: /etc/ssl/web, pkcs12: {password: {secret: p12}}}";
        let spec = format!("{{issuerRef: {{name: own}}, dnsNames: [{name}], {output}}}");
        let inputs = TestInputs { others, secret, ..TestInputs::default() };
        let out = normalize(&host(), &manifest("Certificate", "web", &spec), &inputs);
        assert_eq!(told(&out), [""; 0]);
        (out.resources[0].spec.hash().unwrap(), out.resources[0].spec.template())
    };
    for issuer in ["{selfSigned: {}}", "{ca: {cert: {secret: ca}, key: {secret: key}}}"] {
        let (before, after) = (of(issuer, "a.example", "one"), of(issuer, "a.example", "two"));
        assert!(before.0 != after.0 && before.1 == after.1, "{issuer}: the engine calls that `input`");
        let other = of(issuer, "b.example", "one");
        assert!(before.0 != other.0 && before.1 != other.1, "{issuer}: and that `commit`");
    }
}

#[test]
fn another_key_that_binds_an_account_is_another_content_and_no_other_certificate() {
    let binding = "externalAccountBinding: {keyID: k, key: {secret: eab}}";
    let acme =
        format!("{{acme: {{server: 'https://ca.example/dir', {binding}, solvers: [{{http01: {{}}}}]}}}}");
    let of = |secret: &'static str| {
        let others = vec![manifest("Issuer", "own", &acme)];
        let spec = "{issuerRef: {name: own}, dnsNames: [a.example], output: {directory: /etc/ssl/web}}";
        let inputs = TestInputs { others, secret, ..TestInputs::default() };
        let out = normalize(&host(), &manifest("Certificate", "web", spec), &inputs);
        let spec = &out.resources[0].spec;
        let material = Wish::decode(spec.bytes().unwrap()).unwrap().material();
        (spec.hash().unwrap(), spec.template(), material)
    };
    let (before, after) = (of("one"), of("two"));
    assert!(before.0 != after.0, "what an authority refused is tried again");
    assert_eq!((before.1, before.2), (after.1, after.2));
}

#[test]
fn what_is_wrong_with_an_issuer_is_said_there_and_not_of_its_certificates() {
    let issuer =
        "{acme: {server: 'https://ca.example/dir', rotateAccountKeyAfter: 1m, solvers: [{http01: {}}]}}";
    let out = normalize(&host(), &manifest("Issuer", "own", issuer), &TestInputs::default());
    let said = told(&out);
    assert!(said.len() == 1 && said[0].contains("`1m` is no age of the key of an account"), "{said:?}");
    let out = certificate(&host(), issuer, "issuerRef: {name: own}, dnsNames: [a.example]");
    assert_eq!((out.problems.len(), out.resources.len()), (0, 1), "{:?}", told(&out));
}

#[test]
fn where_an_address_ends_that_is_served_at_is_said() {
    let check = |address: &str, is_taken: bool| {
        let spec = format!("issuerRef: {{name: own}}, dnsNames: [a.example], serve: ['{address}']");
        let said = told(&certificate(&host(), "{selfSigned: {}}", &spec));
        assert_eq!(said.is_empty(), is_taken, "{address}: {said:?}");
        assert!(said.iter().all(|said| said.contains("or [::1]:443")), "{said:?}");
    };
    for address in ["127.0.0.1:443", "www.example.com:443", "[::1]:443", "[2001:db8::1]:8443"] {
        check(address, true);
    }
    for address in ["::1:443", "[::1:443", "[a.example]:443", ":443", "[::1]", "a.example:https"] {
        check(address, false);
    }
}

#[test]
fn what_is_shown_of_a_secret_is_its_name_and_never_a_mark() {
    let config = host();
    let observer = reconciled_certificates::open("cert", config.clone()).unwrap();
    let others = vec![manifest("Issuer", "own", "{ca: {cert: {secret: ca}, key: {secret: key}}}")];
    let output = "output: {directory: /etc/ssl/web, pkcs12: {password: {secret: p12}}}";
    let spec = format!("{{issuerRef: {{name: own}}, dnsNames: [a.example], {output}}}");
    let inputs = TestInputs { others, ..TestInputs::default() };
    let out = normalize(&config, &manifest("Certificate", "web", &spec), &inputs);
    let bytes = out.resources[0].spec.bytes().unwrap().to_vec();
    let shown = |bytes: &[u8]| {
        let shown = observer.show(&"web".into(), bytes);
        move |path: &str| {
            shown.iter().find(|(known, _)| &**known == path).map(|(_, value)| value.clone()).unwrap()
        }
    };
    let named = shown(&bytes);
    assert_eq!(
        (named("issuerRef"), named("output.pkcs12")),
        ("secret ca".into(), "with the password of secret p12".into())
    );
    let hash = Hash::of(b"of a file").to_string();
    let text = String::from_utf8(bytes).unwrap().replace("\"p12\"", &format!("\"sops:{hash}\""));
    assert_eq!(shown(text.as_bytes())("output.pkcs12"), "with the password of a sops file");
}

#[test]
fn a_key_that_binds_an_account_and_is_away_stops_no_certificate_and_one_that_may_not_be_named_does() {
    let spec = "issuerRef: {name: own}, dnsNames: [a.example]";
    let of = |secret: &str| {
        let binding = format!("externalAccountBinding: {{keyID: k, key: {{secret: {secret}}}}}");
        let acme =
            format!("{{acme: {{server: 'https://ca.example/dir', {binding}, solvers: [{{http01: {{}}}}]}}}}");
        certificate(&host(), &acme, spec)
    };
    let wish = |out: &Normalized| Wish::decode(out.resources[0].spec.bytes().unwrap()).unwrap();
    let there = of("eab");
    assert_eq!(there.problems, []);
    let away = of("away");
    let said = told(&away);
    assert!(said.len() == 1 && said[0].contains("no account can be bound: read secret file /x"), "{said:?}");
    assert!(!away.problems[0].is_error());
    let of_wish = |out: &Normalized| {
        let Issue::Acme(authority) = wish(out).issuer else { panic!() };
        authority.lacks_binding_key
    };
    assert_eq!([&there, &away].map(of_wish), [false, true]);
    let refused = of("other");
    assert!(refused.resources.is_empty() && refused.problems[0].is_error(), "{:?}", told(&refused));
}
