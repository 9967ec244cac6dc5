//! Providers and zones of the solvers of an issuer: what is not there is told before anything is ordered.

use crate::manifests::{TestInputs, host, manifest, told};
use reconciled_certificates::normalize::normalize;
use reconciled_provider::Scope;

#[test]
fn a_record_that_goes_into_no_declared_zone_is_warned_of() {
    let check = |solver: &str, zones: &[(&str, &str)], name: &str, part: &str| {
        let issuer = format!("{{acme: {{server: 'https://ca.example/dir', solvers: [{solver}]}}}}");
        let spec = format!(
            "{{issuerRef: {{name: own}}, output: {{directory: /etc/ssl/web}}, dnsNames: ['{name}']}}"
        );
        let scopes = zones.iter().map(|(entry, zone)| Scope::new(*entry, *zone)).collect();
        let others = vec![manifest("Issuer", "own", &issuer)];
        let inputs = TestInputs { others, scopes, ..TestInputs::default() };
        let out = normalize(&host(), &manifest("Certificate", "web", &spec), &inputs);
        let said = told(&out);
        assert_eq!(said.len(), usize::from(!part.is_empty()), "{solver} {zones:?} {name}: {said:?}");
        assert!(said.iter().all(|said| said.contains(part)), "{said:?}");
        assert_eq!(out.resources.len(), 1);
    };
    let (dns, elsewhere) =
        ("{dns01: {provider: pdns}}", "{dns01: {provider: pdns, delegatedTo: a.ACME.example.}}");
    check(dns, &[("pdns", "b.example")], "a.b.example", "");
    check(dns, &[("pdns", "b.example")], "*.b.example", "");
    check(dns, &[("pdns", "b.example")], "a.ab.example", "holds `_acme-challenge.a.ab.example`");
    check(dns, &[("other", "b.example")], "b.example", "no zone of provider `pdns`");
    check(elsewhere, &[("pdns", "b.example")], "b.example", "holds `a.acme.example`");
    check(elsewhere, &[("pdns", "acme.example")], "b.example", "");
    check("{http01: {}}", &[], "b.example", "");
}

#[test]
fn a_solver_of_a_provider_that_the_host_does_not_have_is_told_as_that() {
    let check = |provider: &str, expect: &str, is_made: bool| {
        let issuer = format!(
            "{{acme: {{server: 'https://ca.example/dir', solvers: [{{dns01: {{provider: {provider}}}}}]}}}}"
        );
        let spec = "{issuerRef: {name: own}, output: {directory: /etc/ssl/web}, dnsNames: ['a.b.example']}";
        let inputs = TestInputs {
            others: vec![manifest("Issuer", "own", &issuer)],
            scopes: [Scope::new("pdns", "b.example")].into(),
            entries: &["cert", "pdns"],
            ..TestInputs::default()
        };
        let out = normalize(&host(), &manifest("Certificate", "web", spec), &inputs);
        assert_eq!(told(&out).join(" / "), expect, "{provider}");
        assert_eq!(out.resources.len(), usize::from(is_made), "{provider}");
    };
    let message = "of a solver of the issuer is not configured on this host";
    check("pdns", "", true);
    check("pdsn", &format!("provider `pdsn` {message} / did you mean `pdns`?"), false);
    let other = format!("provider `elsewhere` {message}: nothing is ordered here / configured: cert, pdns");
    check("elsewhere", &other, true);
}
