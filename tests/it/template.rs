//! Texts with `template: true`, through the real program.

use crate::env::{Env, WIDE_GUARD};
use std::fs;

fn desk(vars: &str) -> Env {
    let env = Env::host("");
    let root = env.path("machine");
    let providers = format!(
        "  - {{name: host, type: host, root: {}, paths: [/etc]}}\nhost: {{name: h1, labels: {{role: web}}}}",
        root.display()
    );
    env.config_with("it", &providers, &format!(", vars: {vars}"));
    env
}

fn read(env: &Env, name: &str) -> String {
    fs::read_to_string(env.path("machine/etc").join(name)).unwrap()
}

fn file(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: local/v1\nkind: File\nmetadata: {{name: {name}}}\nspec:\n  path: /etc/{name}\n{spec}\n---\n"
    )
}

#[test]
fn a_text_is_rendered_with_variables_and_facts_of_the_host() {
    let env = desk("{domain: example.com, peers: [a, b]}");
    let text = "  template: true\n  content: |\n    {% for p in vars.peers %}{{ p }}.{{ vars.domain }}\n    {% endfor %}{{ host.name }} {{ host.labels.role }} ${HOME} ${vars.domain}\n";
    env.push("a.yaml", &(file("a", text) + &file("b", "  content: \"{{ vars.domain }}\"")));
    env.apply();
    assert_eq!(read(&env, "a"), "a.example.com\nb.example.com\nh1 web ${HOME} ${vars.domain}\n");
    assert_eq!(read(&env, "b"), "{{ vars.domain }}", "without the word nothing is rendered");
    env.in_sync();
}

#[test]
fn a_file_of_the_repository_is_a_template_too_and_followed_when_it_changes() {
    let env = desk("{port: 80}");
    env.write("work/files/a.conf", "listen {{ vars.port }};\n");
    env.push("a.yaml", &file("a", "  template: true\n  from: files/a.conf"));
    env.apply();
    assert_eq!(read(&env, "a"), "listen 80;\n");
    env.write("work/files/a.conf", "listen {{ vars.port + 1 }};\n");
    env.push_all();
    env.run(&["plan"]).exits(0).says(&["~ File/a", "listen 80; → listen 81;"]);
    env.apply();
    assert_eq!(read(&env, "a"), "listen 81;\n");
    env.in_sync();
}

#[test]
fn a_text_waits_for_a_certificate_of_a_host_without_an_entry_for_any() {
    let env = Env::trusted();
    fs::create_dir(env.path("out")).unwrap();
    let out = env.path("out").display().to_string();
    env.config(&format!("  - {{name: host, type: host, paths: [{out}], {WIDE_GUARD}}}"));
    let issuer = "apiVersion: cert/v1\nkind: Issuer\nmetadata: {name: own}\nspec: {selfSigned: {}}\n---\n";
    let certificate = |name: &str| {
        format!(
            "apiVersion: cert/v1\nkind: Certificate\nmetadata: {{name: web}}\nspec: {{issuerRef: {{name: own}}, dnsNames: [{name}], output: {{directory: {out}/web}}}}\n---\n"
        )
    };
    let text =
        "{{ ref('Certificate/web:status.fingerprint') }} {{ ref('Certificate/web:spec.issuerRef.name') }}";
    let page = format!(
        "apiVersion: local/v1\nkind: File\nmetadata: {{name: page}}\nspec: {{path: {out}/page, template: true, content: \"{text}\"}}\n"
    );
    env.push("all.yaml", &format!("{issuer}{}{page}", certificate("a.example")));
    env.run(&["plan"]).exits(0).says(&[
        "+ File/page",
        "(known after apply)",
        "waiting: for an output of Certificate/web",
        "+ Certificate/web",
    ]);
    env.apply();
    let read = || fs::read_to_string(env.path("out/page")).unwrap();
    let first = read();
    assert!(first.ends_with(" own") && first.len() > 40, "{first}");
    assert!(fs::read_to_string(env.path("out/web/tls.crt")).unwrap().contains("BEGIN CERTIFICATE"));
    env.in_sync();
    env.push("all.yaml", &format!("{issuer}{}{page}", certificate("b.example")));
    env.apply();
    assert_ne!(read(), first, "the certificate is another one");
    env.in_sync();
}

#[test]
fn mistakes_have_their_place_and_touch_nothing() {
    let env = desk("{domain: example.com}");
    env.push("a.yaml", &(file("a", "  content: one") + &file("b", "  content: one")));
    env.apply();
    for (text, told) in [
        ("{{ vars.doman }}", "undefined value"),
        ("{% if %}", "line 1 of the template"),
        ("{% set a = 1 %}", "`set` is not available"),
        ("{{ ref('File/nope:spec.path') }}", "there is no manifest `File/nope`"),
        ("{{ ref('File/a:spec.path') }}", "refers to itself"),
    ] {
        let spec = format!("  template: true\n  content: \"{text}\"");
        env.push("a.yaml", &(file("a", &spec) + &file("b", "  content: two")));
        env.run(&["apply", "--yes"]).exits(1).says(&["a.yaml:7", told]);
        assert_eq!((read(&env, "a"), read(&env, "b")), ("one".into(), "one".into()));
    }
    env.write("work/files/x", "{{ vars.nope }}");
    env.push("a.yaml", &file("a", "  template: true\n  from: files/x"));
    env.run(&["apply", "--yes"]).exits(1).says(&["line 1 of `files/x`"]);
    env.run(&["validate", "work"]).exits(0);
    env.write("work/files/x", "{{ vars.nope");
    env.run(&["validate", "work"]).exits(1).says(&["line 1 of `files/x`"]);
}

#[test]
fn a_template_that_would_be_endless_is_refused_in_no_time() {
    let env = desk("{x: y}");
    let bomb = "{% for a in range(90000) %}{% for b in range(90000) %}{{ vars.x }}{% endfor %}{% endfor %}";
    env.push("a.yaml", &file("a", &format!("  template: true\n  content: \"{bomb}\"")));
    env.run(&["plan"]).exits(1).says(&["too many steps"]);
}
