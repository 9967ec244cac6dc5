use super::*;
use crate::source::History;
use insta::assert_snapshot;
use reconciled_provider::{EntryPolicy, SecretRef};

fn parsed(text: &str) -> (Option<Config>, Vec<Problem>) {
    parse(Arc::new(SourceFile::new("config.yaml", text)), &Environment::of([("HOME", "/home/u")]))
}

fn problems(text: &str) -> String {
    parsed(text).1.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

fn good(text: &str) -> Config {
    let (config, problems) = parsed(text);
    assert_eq!(problems, vec![]);
    config.unwrap()
}

#[test]
fn an_empty_file_is_a_configuration_with_defaults() {
    let config = good("");
    assert_eq!((&*config.instance, &*config.host.name), ("localhost", "localhost"));
    assert_eq!(config.state_dir, Path::new("/home/u/.local/state/reconciled"));
    assert_eq!(config.guard, GuardLimits::default());
}

#[test]
fn every_key_of_a_source_is_read() {
    let config = good(
        "instance: dns1\nstateDir: /s\nhost: {name: h, labels: {role: dns}}\nsources:\n- name: infra\n  was: old\n  url: [/a, \"https://b\"]\n  \
         ref: {tag: v1}\n  path: [common, \"env/${host.labels.env}\"]\n  vars: {ttl: 60, v: 1.10}\n  ignore: [\"compose*.yaml\"]\n  interval: 5m\n  \
         onInvalid: hold\n  apply: approve\n  approve: [trailer]\n  verify: {gpgKeys: /k, history: head}\n  windows: [{allow: \"0 2 * * 1-5\", duration: 3h, timeZone: Europe/Berlin, heal: all, manual: true}]\n  drift: warn\n  allow: [{provider: pdns, scopes: [\"*.a\"], kinds: [\"dns/*\"], deny: [\"#@/NS\"]}]\n\
         providers:\n- {name: pdns, type: powerdns}\n",
    );
    let source = &config.sources[0];
    assert_eq!((source.urls.len(), source.paths.len(), source.interval.as_secs()), (2, 2, 300));
    assert_eq!(source.reference, GitRef::Tag("v1".into()));
    assert_eq!((source.on_invalid, source.apply), (OnInvalid::Hold, ApplyMode::Approve));
    let verify = source.verify.as_ref().unwrap();
    assert_eq!((verify.keys.gpg_keys.as_deref(), verify.history), (Some(Path::new("/k")), History::Head));
    let [window] = &*source.windows.0 else { panic!() };
    assert_eq!(
        (window.denies, window.duration.as_secs(), window.zone.iana_name(), window.passes.manual),
        (false, 10_800, Some("Europe/Berlin"), true)
    );
    let Vars::Inline(vars) = &source.vars else { panic!() };
    assert_eq!(vars.get("v").unwrap().as_str(), Some("1.10"));
    let Allow::Rules(rules) = &source.allow else { panic!() };
    assert!(rules[0].deny[0].matches(&"Zone/a#@/NS".parse().unwrap(), "dns"));
}

#[test]
fn common_keys_are_taken_from_an_entry_and_the_rest_is_left_for_its_backend() {
    let config = good(
        "guard: {maxDeletes: 9}\nproviders:\n- {name: pdns, type: powerdns, url: \"http://x\", policy: upsert-only, guard: {maxDeletePercent: 50%}, rate: 20/s, timeout: 5s, resync: 1h, was: old}\n- {name: b, type: zonefile}\n",
    );
    let entry = &config.providers[0];
    assert_eq!((entry.policy, entry.timeout.as_secs()), (EntryPolicy::UpsertOnly, 5));
    let guard = entry.guard.as_ref().unwrap();
    assert_eq!((guard.max_deletes, guard.max_delete_percent), (9, 50));
    let keys: Vec<_> = entry.rest.entries().iter().map(|(key, _)| key.as_str().unwrap()).collect();
    assert_eq!(keys, ["url"]);
    assert_eq!(config.providers[1].guard, None);
    assert_eq!(config.providers[1].resync.as_secs(), 600);
}

#[test]
fn a_name_or_type_under_another_word_is_told_by_that() {
    let check = |text: &str, place: &str, message: &str, hint: &str| {
        let said = problems(&format!("providers:\n- {text}\n"));
        let begins = format!("error: {message}\n  --> config.yaml:{place}\n");
        assert!(said.starts_with(&begins) && said.contains(hint), "{said}");
        assert_eq!(said.matches("error: ").count(), 1, "{said}");
    };
    let of_type = "hint: did you mean `type`?";
    check("{name: z, typ: zonefile}", "2:13", "unknown field `typ`", of_type);
    check("name: z\n  tpye: zonefile\n  policy: sync", "3:3", "unknown field `tpye`", of_type);
    check("{nmae: z, type: zonefile}", "2:4", "unknown field `nmae`", "hint: did you mean `name`?");
    check("{name: z, directory: /z}", "2:3", "field `type` is missing", "");
}

#[test]
fn times_that_are_none_and_an_empty_name_are_refused_where_they_stand() {
    let check = |text: &str, place: &str, expect: &str| {
        let said = problems(text);
        assert!(said.contains(expect) && said.contains(&format!("config.yaml:{place}\n")), "{said}");
        assert!(said.contains("hint: write "), "{said}");
    };
    check("instance: \"\"\n", "1:11", "`instance` is empty");
    let all = "all the time";
    check("providers:\n- {name: z, type: zonefile, resync: 1ms}\n", "2:37", all);
    check("hook: {planTimeout: 0s}\n", "1:21", "ever be shown its plan");
    for keep in ["0d", "12m", "23h"] {
        check(&format!("audit: {{keep: {keep}}}\n"), "1:15", "events would be gone for good");
    }
    assert_eq!(problems("instance: a\nhook: {planTimeout: 500ms}\naudit: {keep: 1d}\n"), "");
}

#[test]
fn a_reference_that_can_be_none_is_refused_where_it_stands() {
    let check = |keys: &str, place: &str, expect: &str, hint: &str| {
        let said = problems(&format!("sources:\n- {{name: a, url: /a, {keys}}}\n"));
        let place = format!("config.yaml:2:{place}\n");
        assert!(said.contains(expect) && said.contains(&place) && said.contains(hint), "{said}");
    };
    let range = "`>=1.0 <2` is no range of versions: ";
    check("ref: {semver: '>=1.0 <2'}", "36", range, "hint: write a range such as `1.x` or `>=1.2, <2`");
    check("ref: {commit: xyz}", "36", "`xyz` is no commit: ", "hint: write the 40 digits");
    check("ref: {tag: 'a..b'}", "33", "`a..b` is no name of a tag: ", "hint: write a name such as `v1.2`");
    check("branch: 'a b'", "30", "`a b` is no name of a branch: ", "hint: write a name such as `main`");
    for good in ["branch: team/a-b", "ref: {tag: v1}", "ref: {semver: '>=1.2, <2'}"] {
        assert_eq!(problems(&format!("sources:\n- {{name: a, url: /a, {good}}}\n")), "");
    }
}

#[test]
fn all_problems_are_found_at_once_with_place_and_remedy() {
    assert_snapshot!(problems(
        "instanec: x\nguard: {maxDeletes: many}\nsources:\n- {name: Infra, url: /a, interval: 60, allow: al}\n- {name: b}\n- {name: b, url: /c, ref: {tag: a, branch: b}, allow: [{provider: pdsn}]}\n\
         providers:\n- {name: pdns, type: x, policy: snyc}\n- {name: p, type: y, rate: 20}\n- {name: pdns, type: z}\n"
    ), @r#"
    error: unknown field `instanec`
      --> config.yaml:1:1
    1 | instanec: x
      | ^
    hint: did you mean `instance`?
    error: expected a number, found `many`
      --> config.yaml:2:21
    2 | guard: {maxDeletes: many}
      |                     ^
    error: `Infra` is not a name for a source
      --> config.yaml:4:3
    4 | - {name: Infra, url: /a, interval: 60, allow: al}
      |   ^
    hint: use small letters, digits and `-`, at most 63
    error: `60` is not a duration: write a number and a unit, as in 90s or 1h30m
      --> config.yaml:4:36
    4 | - {name: Infra, url: /a, interval: 60, allow: al}
      |                                    ^
    error: expected `all` or a list of rules, found `al`
      --> config.yaml:4:47
    4 | - {name: Infra, url: /a, interval: 60, allow: al}
      |                                               ^
    error: source `b` has no `url`
      --> config.yaml:5:3
    5 | - {name: b}
      |   ^
    hint: write a path, https:// or ssh:// address
    error: source `b` does not say what it may touch
      --> config.yaml:5:4
    5 | - {name: b}
      |    ^
    hint: with two sources or more each needs `allow: all` or rules
    error: two sources are named `b`
      --> config.yaml:6:3
    6 | - {name: b, url: /c, ref: {tag: a, branch: b}, allow: [{provider: pdsn}]}
      |   ^
      --> config.yaml:5:3 first named here
    error: `ref` names not exactly one thing
      --> config.yaml:6:22
    6 | - {name: b, url: /c, ref: {tag: a, branch: b}, allow: [{provider: pdsn}]}
      |                      ^
    hint: write one of branch, tag, semver, commit
    error: there is no provider `pdsn`
      --> config.yaml:6:56
    6 | - {name: b, url: /c, ref: {tag: a, branch: b}, allow: [{provider: pdsn}]}
      |                                                        ^
    hint: did you mean `pdns`?
    error: unknown value `snyc`, expected one of: observe, create-only, upsert-only, sync (did you mean `sync`?)
      --> config.yaml:8:33
    8 | - {name: pdns, type: x, policy: snyc}
      |                                 ^
    error: `20` is not a rate: write calls per unit of time, as in 20/s or 300/m
      --> config.yaml:9:28
    9 | - {name: p, type: y, rate: 20}
      |                            ^
    error: two providers are named `pdns`
      --> config.yaml:10:3
    10 | - {name: pdns, type: z}
       |   ^
      --> config.yaml:8:3 first named here
    "#);
}

#[test]
fn what_is_kept_of_the_state_has_defaults() {
    let config = good("backup: {dir: /b}\n");
    let backups = config.backup.unwrap();
    assert_eq!((backups.every.as_secs(), backups.keep), (86_400, 7));
    assert_eq!(config.audit, Audit::default());
    let config = good("backup: {dir: /b, every: 6h, keep: 8}\naudit: {keep: 400d, export: /a.jsonl}\n");
    let backups = config.backup.unwrap();
    assert_eq!((backups.every.as_secs(), backups.keep), (21_600, 8));
    assert_eq!(config.audit.keep.unwrap().as_secs(), 400 * 86_400);
    assert_snapshot!(problems("backup: {dir: /b, kep: 8}\naudit: {keep: 400}\n"), @r#"
    error: unknown field `kep`
      --> config.yaml:1:19
    1 | backup: {dir: /b, kep: 8}
      |                   ^
    hint: did you mean `keep`?
    error: `400` is not a duration: write a number and a unit, as in 90s or 1h30m
      --> config.yaml:2:15
    2 | audit: {keep: 400}
      |               ^
    "#);
    assert_snapshot!(problems("backup: {dir: /b, every: 59s}\n"), @"
    error: `59s` is too often for a copy of the state: write 1m or longer
      --> config.yaml:1:26
    1 | backup: {dir: /b, every: 59s}
      |                          ^
    ");
    assert_snapshot!(problems("backup: {dir: /b, keep: 0}\n"), @"
    error: no copy would be kept: write 1 or more, or leave `backup` out
      --> config.yaml:1:25
    1 | backup: {dir: /b, keep: 0}
      |                         ^
    ");
}

#[test]
fn a_collector_has_an_address_of_http() {
    let config = good("telemetry: {log: journald, otlp: \"http://127.0.0.1:4318\"}\n");
    assert_eq!(config.telemetry.log, LogFormat::Journald);
    assert_eq!(config.telemetry.otlp.unwrap().as_str(), "http://127.0.0.1:4318/");
    assert_snapshot!(problems("telemetry: {log: xml}\n"), @"
    error: unknown value `xml`, expected one of: text, json, journald
      --> config.yaml:1:18
    1 | telemetry: {log: xml}
      |                  ^
    ");
    assert_snapshot!(problems("telemetry: {otlp: \"collector:4318\"}\n"), @r#"
    error: `otlp` is not the address of a collector
      --> config.yaml:1:19
    1 | telemetry: {otlp: "collector:4318"}
      |                   ^
    hint: write http://HOST:4317 (gRPC), or http://HOST:4318 or https://HOST:4318 (HTTP)
    "#);
}

#[test]
fn a_receiver_has_the_keys_of_its_type() {
    let config = good(
        "notify:\n\
         - {name: ops, type: slack, url: {credential: slack}, on: [held], for: 5m}\n\
         - {name: mail, type: email, server: mail.example, from: a@example.com, to: b@example.com, tls: tls}\n\
         - {name: am, type: alertmanager, url: \"http://127.0.0.1:9093\"}\n",
    );
    assert_eq!(config.notify[0].settle.as_secs(), 300);
    assert_eq!(config.notify[0].on.iter().copied().collect::<Vec<_>>(), [Topic::Held]);
    assert!(matches!(&config.notify[1].way, Way::Email(mail) if mail.port == 465 && mail.login.is_none()));
    assert_eq!(config.notify[2].settle.as_secs(), 30);
    let silent = problems("notify: [{name: a, type: ntfy, url: \"http://x\", on: []}]\n");
    assert!(silent.contains("receiver `a` would be told of nothing"), "{silent}");
    assert_snapshot!(problems(
        "notify:\n- {name: a, type: slack, url: \"https://hooks.example/x\"}\n- {name: b, type: ntfy, on: [helt]}\n\
         - {name: c, type: webhook, url: \"http://u:p@x\"}\n- {name: c, type: webhook, url: \"http://x\", template: \"{{\", server: x}\n\
         - {name: d, type: email, server: x, tls: none, username: u, password: {env: P}}\n- {name: e, type: slack}\n"
    ), @r#"
    error: whoever knows this address can write to the channel: it is a secret
      --> config.yaml:2:26
    hint: keep it in a file or a credential: url: {credential: NAME}
    error: receiver `b` has no `url`
      --> config.yaml:3:4
    3 | - {name: b, type: ntfy, on: [helt]}
      |    ^
    hint: write url: "https://…", or url: {credential: NAME} where it is a secret
    error: unknown value `helt`, expected one of: degraded, held, suspended, expiring, recovered (did you mean `held`?)
      --> config.yaml:3:30
    3 | - {name: b, type: ntfy, on: [helt]}
      |                              ^
    error: expected an address of http or https without a password in it, or the place of a secret: {file: PATH}, {env: NAME}, {credential: NAME} or {exec: [PROGRAM, ARGUMENT]}
      --> config.yaml:4:33
    error: the template cannot be read: syntax error, line 1
      --> config.yaml:5:45
    5 | - {name: c, type: webhook, url: "http://x", template: "{{", server: x}
      |                                             ^
    hint: see docs/notifications.md for what a template is given
    error: `server` is not for this type of receiver
      --> config.yaml:5:61
    5 | - {name: c, type: webhook, url: "http://x", template: "{{", server: x}
      |                                                             ^
    hint: keys of this type: url, secret, template, contentType
    error: a password is not sent in clear
      --> config.yaml:6:37
    6 | - {name: d, type: email, server: x, tls: none, username: u, password: {env: P}}
      |                                     ^
    hint: write tls: starttls or tls: tls
    error: receiver `e` has no `url`
      --> config.yaml:7:4
    7 | - {name: e, type: slack}
      |    ^
    hint: write url: "https://…", or url: {credential: NAME} where it is a secret
    "#);
}

#[test]
fn a_report_names_one_forge_and_one_project() {
    let config =
        good("sources: [{name: a, url: /a, report: {github: acme/infra, token: {credential: gh}}}]\n");
    let report = config.sources[0].report.clone().unwrap();
    assert_eq!((report.forge, report.api.as_str()), (ReportForge::Github, "https://api.github.com/"));
    assert_snapshot!(problems(
        "sources:\n- {name: a, url: /a, allow: all, report: {github: acme, token: {env: T}}}\n\
         - {name: b, url: /b, allow: all, report: {gitea: a/b, token: {env: T}}}\n\
         - {name: c, url: /c, allow: all, report: {github: a/b, gitlab: a/b, token: {env: T}}}\n"
    ), @r#"
    error: `acme` is not a project
      --> config.yaml:2:42
    2 | - {name: a, url: /a, allow: all, report: {github: acme, token: {env: T}}}
      |                                          ^
    hint: write OWNER/REPOSITORY
    error: `report` to gitea needs a `url`
      --> config.yaml:3:42
    3 | - {name: b, url: /b, allow: all, report: {gitea: a/b, token: {env: T}}}
      |                                          ^
    hint: write the base of its API, as in https://git.example.com/api/v1
    error: `report` needs exactly one forge
      --> config.yaml:4:42
    4 | - {name: c, url: /c, allow: all, report: {github: a/b, gitlab: a/b, token: {env: T}}}
      |                                          ^
    hint: write one of github, gitlab, gitea: OWNER/REPOSITORY
    "#);
}

#[test]
fn a_command_is_an_argv_and_no_line_for_a_shell() {
    let text = "commands:\n  nginx: [nginx, -t, -c, \"{file}\"]\n  none: []\n  line: [\"nginx -t\"]\n  blank: [check, \"{zone}\"]\n  up: [probe, \"{unit}\", \"--number={instance}\"]\n";
    assert_snapshot!(problems(text), @r#"
    error: command `none` names no program
      --> config.yaml:3:9
    3 |   none: []
      |         ^
    hint: write NAME: [program, argument, "{file}"]
    error: command `line` begins with `nginx -t`, which is no program
      --> config.yaml:4:9
    4 |   line: ["nginx -t"]
      |         ^
    hint: each argument is an element of the list: no shell splits or fills in the first one
    error: command `blank` has `{zone}`, which nothing fills in
      --> config.yaml:5:10
    5 |   blank: [check, "{zone}"]
      |          ^
    hint: write {file}; in a command that asks for the health of a deployment, {unit} or {instance}
    "#);
}

#[test]
fn a_path_is_never_filled_into_a_line_that_a_shell_runs() {
    for line in
        ["[sh, -c, \"nginx -t -c {file}\"]", "[/bin/bash, -ec, \"{file}\"]", "[check, \"--run x {file}\"]"]
    {
        let found = problems(&format!("commands:\n  a: {line}\n"));
        assert!(found.contains("\"{file}\"]"), "{line}: what to write instead: {found}");
    }
    let fine = "commands:\n  a: [sh, -c, 'nginx -t -c \"$1\"', check, \"{file}\"]\n  b: [visudo, \"--file={file}\"]\n";
    assert_eq!(problems(fine), "");
}

#[test]
fn a_secret_has_one_place_and_known_sources() {
    let config = good(
        "secrets: {db: {credential: db, sources: [a], kinds: [aws/*]}}\nsources: [{name: a, url: /a}]\n",
    );
    assert_eq!(config.secrets["db"].place, SecretRef::Credential("db".into()));
    assert_snapshot!(problems("secrets:\n  a: {file: /x, env: Y}\n  b: {env: Y, sources: [ifra]}\nsources: [{name: infra, url: /a}]\n"), @r#"
    error: secret `a` needs exactly one place
      --> config.yaml:2:6
    2 |   a: {file: /x, env: Y}
      |      ^
    hint: write one of file, env, credential, exec
    error: there is no source `ifra`
      --> config.yaml:3:24
    3 |   b: {env: Y, sources: [ifra]}
      |                        ^
    hint: did you mean `infra`?
    "#);
}

#[test]
fn a_secret_in_the_place_of_its_place_is_not_repeated() {
    for text in [
        "sources: [{name: a, url: /a, token: S3CR3T}]",
        "sources: [{name: a, url: /a, token: [S3CR3T]}]",
        "sources: [{name: a, url: /a, token: {value: S3CR3T}}]",
        "sources: [{name: a, url: /a, token: {exec: S3CR3T}}]",
        "sources: [{name: a, url: /a, token: {file: {S3CR3T: x}}}]",
        "tokens: [{name: a, role: read, hash: S3CR3T}]",
        "notify: [{name: a, type: ntfy, url: S3CR3T}]",
        "notify: [{name: a, type: ntfy, url: \"http://x\", token: S3CR3T}]",
        "notify: [{name: a, type: slack, url: \"https://hooks.example/S3CR3T\"}]",
        "secrets: {db: S3CR3T}",
        "secrets: {db: {value: S3CR3T}}",
        "sops: {age: S3CR3T}",
    ] {
        let said = problems(text);
        assert!(said.contains("error: ") && !said.contains("S3CR3T"), "{text}\n{said}");
    }
    assert_snapshot!(problems("sources:\n- name: a\n  url: /a\n  token: S3CR3T\n"), @r#"
    error: expected the place of a secret, and not the secret itself: {file: PATH}, {env: NAME}, {credential: NAME} or {exec: [PROGRAM, ARGUMENT]}
      --> config.yaml:4:10
    "#);
}

#[test]
fn two_sources_must_say_what_they_may_touch() {
    let text = problems("sources: [{name: a, url: /a, allow: all}, {name: b, url: /b}]\n");
    assert!(text.contains("source `b` does not say what it may touch"), "{text}");
}

#[test]
fn what_limits_and_is_left_empty_is_no_missing_limit() {
    let check = |text: &str, place: &str, expect: &str| {
        let said = problems(text);
        assert!(said.contains(&format!("error: {expect}\n  --> config.yaml:{place}")), "{text}\n{said}");
    };
    let source = |keys: &str| format!("sources:\n- name: a\n  url: /a\n  {keys}\n");
    let (list, mapping) = ("expected a list, found nothing", "expected a mapping, found nothing");
    check(&source("verify:"), "4:9", mapping);
    check(&source("allow:"), "4:8", "expected `all` or a list of rules, found nothing");
    check(&source("approve:"), "4:10", list);
    check(&source("windows:"), "4:10", "`windows` is a list");
    check(&source("allow: [{provider: p, scopes: }]"), "4:31", list);
    check(&source("allow: [{provider: p, kinds: }]"), "4:30", list);
    check("secrets: {s: {file: /s, kinds: }}\n", "1:30", list);
    check("secrets: {s: {file: /s, sources: }}\n", "1:32", list);
    check("sops: {age: {file: /s}, sources: }\n", "1:32", list);
}

#[test]
fn the_address_tokens_and_webhooks_are_read() {
    let config = good(
        "api: {listen: \"127.0.0.1:9440\"}\ntokens: [{name: ci, role: read, hash: {file: /h}}, {name: ops, role: operator, hash: {env: H}}]\n\
         sources: [{name: a, url: /a, webhook: {type: forgejo, secret: {credential: hook}}}]\n",
    );
    assert_eq!(config.api.listen, "127.0.0.1:9440".parse().ok());
    let ops = Token { name: "ops".into(), role: Role::Operator, hash: SecretRef::Env("H".into()) };
    assert_eq!(config.tokens[1], ops);
    let webhook = Webhook { forge: Forge::Gitea, secret: SecretRef::Credential("hook".into()) };
    assert_eq!(config.sources[0].webhook, Some(webhook));
}

#[test]
fn what_cannot_be_reached_or_can_be_overheard_is_pointed_out() {
    assert_snapshot!(problems(
        "sources: [{name: a, url: /a, webhook: {type: github, secret: {credential: h}}}]\n\
         tokens: [{name: ci, role: read, hash: {file: /h}}]\n"
    ), @r#"
    warning: `webhook` of source `a` has no effect without `api.listen`
      --> config.yaml:1:11
    1 | sources: [{name: a, url: /a, webhook: {type: github, secret: {credential: h}}}]
      |           ^
    hint: write where to listen: api: {listen: "127.0.0.1:9440"}
    warning: `tokens` have no effect without `api.listen`
      --> config.yaml:2:1
    2 | tokens: [{name: ci, role: read, hash: {file: /h}}]
      | ^
    hint: write where to listen: api: {listen: "127.0.0.1:9440"}
    "#);
    assert_snapshot!(problems("api: {listen: \"[::]:9440\"}\ntokens: [{name: A, role: raed, hash: {file: /h}}]\n"), @r#"
    warning: `[::]:9440` can be reached from elsewhere, and what is said there is plain HTTP
      --> config.yaml:1:15
    1 | api: {listen: "[::]:9440"}
      |               ^
    hint: listen at 127.0.0.1 and let a reverse proxy on this host speak TLS
    error: unknown value `raed`, expected one of: read, operator (did you mean `read`?)
      --> config.yaml:2:26
    2 | tokens: [{name: A, role: raed, hash: {file: /h}}]
      |                          ^
    "#);
    assert_snapshot!(problems("api: {listen: 9440}\n"), @r#"
    error: `9440` is no address to listen at: write ADDRESS:PORT, as in 127.0.0.1:9440
      --> config.yaml:1:15
    1 | api: {listen: 9440}
      |               ^
    "#);
}

#[test]
fn what_is_wrong_with_windows_and_signatures_has_its_place_and_a_way_out() {
    assert_snapshot!(problems(
        "sources:\n- name: infra\n  url: /a\n  approve: [trailer]\n  verify: {history: all}\n  windows:\n  - {deny: \"0 18 * * FRI\", duration: 62h, timeZone: Europe/Berln}\n  \
         - {deny: \"0 18 13 * FRI\", duration: 1h}\n  - {duration: 1h}\n  - {allow: \"0 2 * * *\", duration: 0s, manuel: true}\n"
    ), @r#"
    warning: whoever may push can write a trailer that approves: commits are not verified
      --> config.yaml:4:3
    4 |   approve: [trailer]
      |   ^
    hint: add verify: {allowedSigners: PATH}, or take `trailer` out
    error: `verify` names no allowed keys
      --> config.yaml:5:3
    5 |   verify: {history: all}
      |   ^
    hint: write verify: {allowedSigners: /etc/reconciled/allowed_signers} or {gpgKeys: PATH}
    error: `Europe/Berln` is no time zone
      --> config.yaml:7:53
    7 |   - {deny: "0 18 * * FRI", duration: 62h, timeZone: Europe/Berln}
      |                                                     ^
    hint: did you mean `Europe/Berlin`?
    error: `0 18 13 * FRI` restricts day and weekday, which cron joins with "or": write one window for each
      --> config.yaml:8:12
    8 |   - {deny: "0 18 13 * FRI", duration: 1h}
      |            ^
    hint: see crontab(5)
    error: a window has either `deny` or `allow`
      --> config.yaml:9:5
    9 |   - {duration: 1h}
      |     ^
    hint: write one of them: deny: "0 18 * * FRI"
    error: a window of 0s is none
      --> config.yaml:10:36
    10 |   - {allow: "0 2 * * *", duration: 0s, manuel: true}
       |                                    ^
    hint: write how long it lasts, up to 366d: 62h
    error: unknown field `manuel`
      --> config.yaml:10:40
    10 |   - {allow: "0 2 * * *", duration: 0s, manuel: true}
       |                                        ^
    hint: did you mean `manual`?
    "#);
    assert_snapshot!(problems(
        "sources:\n- name: infra\n  url: /a\n  approve: [socket, trailer]\n"
    ), @"
    warning: whoever may push can write a trailer that approves: commits are not verified
      --> config.yaml:4:3
    4 |   approve: [socket, trailer]
      |   ^
    hint: add verify: {allowedSigners: PATH}, or take `trailer` out
    ");
}

#[test]
fn a_former_name_is_nobody_elses() {
    let of =
        |providers: &str, sources: &str| problems(&format!("sources: [{sources}]\nproviders: [{providers}]"));
    let entry = |name: &str, was: &str| format!("{{name: {name}, type: powerdns, was: {was}}}");
    assert_eq!(of(&entry("new", "old"), "{name: infra, url: /a, was: before}"), "");
    let both = format!("{}, {{name: old, type: powerdns}}", entry("new", "old"));
    let said = of(&both, "");
    assert!(said.contains("provider `new` was `old`, and a provider of that name is configured"), "{said}");
    assert!(said.contains("hint: take out `was`, or the other of the two"), "{said}");
    let twins = format!("{}, {}", entry("a", "old"), entry("b", "old"));
    assert!(of(&twins, "").contains("two providers say that they were `old`"));
    assert!(of(&entry("a", "a"), "").contains("provider `a` was `a`"));
    assert!(of("", "{name: infra, url: /a, was: dir}").contains("`dir` is not a name a source can have had"));
}
