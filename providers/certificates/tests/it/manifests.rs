//! What manifests come to, and what is wrong with them.

use bytes::Bytes;
use reconciled_certificates::{Config, normalize::normalize};
use reconciled_provider::{
    Error, Hash, Inputs, Manifest, ManifestKey, Normalized, Policies, Policy, PolicyId, Reference, Scope,
    SecretMark, SecretRef, SourceFile, manifest::Value, yaml,
};
use std::{cell::RefCell, collections::BTreeSet, sync::Arc};

#[derive(Default)]
struct TestInputs {
    scopes: BTreeSet<Scope>,
    others: Vec<Manifest>,
    policies: RefCell<Policies>,
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
            SecretRef::Named(name) if &**name == "p12" => Ok(SecretMark(Hash::of(b"a password"))),
            _ => Err(Error::invalid("there is no such secret")),
        }
    }
    fn output(&self, _: &Reference) -> Value {
        Value::Unknown
    }
    fn scopes(&self) -> &BTreeSet<Scope> {
        &self.scopes
    }
    fn siblings(&self, kind: &str) -> Vec<&Manifest> {
        self.others.iter().filter(|other| &*other.kind == kind).collect()
    }
    fn policy(&self, policy: Policy) -> PolicyId {
        self.policies.borrow_mut().intern(policy)
    }
}

fn manifest(kind: &str, name: &str, spec: &str) -> Manifest {
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
fn told(out: &Normalized) -> Vec<String> {
    let hint = |hint: &Option<String>| hint.clone().unwrap_or_default();
    out.problems.iter().map(|problem| format!("{} / {}", problem.message, hint(&problem.hint))).collect()
}

fn host() -> Config {
    Config::new("/state", &["/etc/ssl"])
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
    let (scope, id, remote) = &out.remotes[0];
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
        ("", ", keystores: {jks: {create: true}}".into(), "jks"),
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
