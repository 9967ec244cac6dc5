//! Taking over what Terraform made, and giving it back.

use crate::{
    env::Env,
    running::Daemon,
    terraform::{Moto, aws_entry, aws_entry_of, desk, newer_aws, state, thing, things},
};
use serde_json::{Value as Json, json};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

/// A state file as Terraform writes it.
fn tfstate(resources: &[Json]) -> String {
    json!({ "version": 4, "terraform_version": "1.5.7", "serial": 3, "lineage": "x", "outputs": {}, "resources": resources })
        .to_string()
}

fn managed(source: &str, type_name: &str, name: &str, instance: &Json) -> Json {
    json!({
        "mode": "managed", "type": type_name, "name": name,
        "provider": format!("provider[\"registry.terraform.io/{source}\"]"),
        "instances": [instance],
    })
}

fn put(env: &Env, id: &str, fields: &Json) {
    fs::write(env.path("world").join(format!("{id}.json")), fields.to_string()).unwrap();
}

/// Has the source hold what was imported.
pub(crate) fn push_all(env: &Env, dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        env.push(path.file_name().unwrap().to_str().unwrap(), &fs::read_to_string(&path).unwrap());
    }
}

#[test]
fn a_state_file_is_taken_over_with_an_empty_first_plan() {
    let env = desk("");
    let one = json!({ "id": "thing-1", "name": "a ${x}", "content": "c\n\"d\"", "size": 5, "level": 3, "words": ["x", "y"],
        "rule": [{ "port": 80, "protocol": "tcp" }], "tags": { "team": "web" } });
    let two = json!({ "id": "thing-2", "name": "b", "size": 0, "level": 7, "secret": "canary-in-the-state" });
    put(&env, "thing-1", &one);
    put(&env, "thing-2", &two);
    let instance = |attributes: &Json| json!({ "schema_version": 1, "attributes": attributes, "private": "cHJpdmF0ZQ==" });
    let toy = |name: &str, instance: Json| managed("example/toy", "toy_thing", name, &instance);
    let mut depends = instance(&two);
    depends["dependencies"] = json!(["toy_thing.one", "data.toy_thing.d"]);
    depends["create_before_destroy"] = true.into();
    let mut tainted = instance(&one);
    tainted["status"] = "tainted".into();
    let mut newer = instance(&one);
    newer["schema_version"] = 99.into();
    let gone = instance(&json!({ "id": "thing-9", "name": "gone" }));
    env.write(
        "terraform.tfstate",
        &tfstate(&[
            toy("one", instance(&one)),
            toy("two", depends),
            toy("again", instance(&one)),
            toy("spoilt", tainted),
            toy("newer", newer),
            toy("gone", gone),
            // Nothing can find it by an id: all there is of it is its state.
            managed("example/toy", "toy_trivial", "n", &json!({ "schema_version": 0, "attributes": { "id": "77", "input": "x" } })),
            managed("other/cloud", "cloud_thing", "x", &instance(&one)),
            json!({ "mode": "data", "type": "toy_thing", "name": "d", "provider": "provider[\"registry.terraform.io/example/toy\"]", "instances": [{ "attributes": {} }] }),
        ]),
    );
    let file = env.path("terraform.tfstate");
    let out = env.path("taken");
    for flag in [["--only", "toy_*"], ["--ignore", "x"], ["--filter", "a=b"], ["--split", "by-name"]] {
        env.run(&[&["import", file.to_str().unwrap()], &flag[..]].concat())
            .exits(1)
            .says(&[flag[0], "a state file is taken over as a whole"]);
    }
    env.run(&["import", file.to_str().unwrap(), "--out", out.to_str().unwrap()])
        .exits(3)
        .says(&[
            "3 resources in 2 files",
            "left out: toy_thing.again: it is the same resource as toy_thing.one",
            "left out: toy_thing.spoilt: it is tainted",
            "left out: toy_thing.newer: its state is from a newer version",
            "left out: toy_thing.gone: it is not there any more",
            "left out: cloud_thing.x: no entry has its provider, `source: other/cloud`",
            "left out: data.toy_thing.d: a data source",
            "1 resource cannot be found by an id",
        ])
        .hides(&["canary-in-the-state"]);
    for path in fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("canary-in-the-state"), "{text}");
    }
    let things_file = fs::read_to_string(out.join("Thing.yaml")).unwrap();
    for part in [
        "reconciled/import: thing-1",
        "reconciled/depends-on: Thing.toy/one",
        "createBeforeDestroy: true",
        "reconciled/ignore: secret",
        "name: \"a $${x}\"",
    ] {
        assert!(things_file.contains(part), "`{part}` is missing in:\n{things_file}");
    }
    env.run(&["plan", "--dir", out.to_str().unwrap()])
        .exits(0)
        .says(&["= Thing/one", "= Thing/two", "= Trivial/n"])
        .hides(&["+ ", "~ ", "-/+", "canary-in-the-state"]);
    push_all(&env, &out);
    env.apply();
    env.in_sync();
    // From now on it is like any other.
    fs::write(env.path("world/thing-2.json"), two.to_string().replace("7", "8")).unwrap();
    env.run(&["plan", "--refresh"]).says(&["level: 8 → 7"]);
    env.apply();
    assert_eq!((state(&env, "thing-2.json")["level"].clone(), things(&env).len()), (7.into(), 2));
    assert_eq!(state(&env, "thing-2.json")["secret"], "canary-in-the-state");
    no_canary(&env.path("state"), "canary-in-the-state");
}

/// No file below `dir` holds it.
fn no_canary(dir: &Path, canary: &str) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            no_canary(&path, canary);
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        assert!(!bytes.windows(canary.len()).any(|part| part == canary.as_bytes()), "{}", path.display());
    }
}

#[test]
fn what_depends_on_a_module_with_keys_depends_on_what_is_in_it() {
    let env = desk("");
    let (a, b) = (r#"module.vpc["a"]"#, r#"module.vpc["b"]"#);
    let net = "module.vpc.toy_thing.net";
    let all =
        [(a, "net", None), (b, "net", None), (a, "server", Some(net)), ("module.app", "web", Some(net))];
    let resources = all.iter().zip(1..).map(|((module, name, depends), number)| {
        let id = format!("thing-{number}");
        let thing = json!({ "id": id, "name": format!("n{number}"), "size": 0, "level": 3 });
        put(&env, &id, &thing);
        let depends: Vec<&str> = depends.iter().copied().collect();
        let instance = json!({ "schema_version": 1, "attributes": thing, "dependencies": depends });
        let mut resource = managed("example/toy", "toy_thing", name, &instance);
        resource["module"] = (*module).into();
        resource
    });
    env.write("terraform.tfstate", &tfstate(&resources.collect::<Vec<_>>()));
    let (file, out) = (env.path("terraform.tfstate"), env.path("taken"));
    env.run(&["import", file.to_str().unwrap(), "--out", out.to_str().unwrap()]).exits(0);
    let text = fs::read_to_string(out.join("Thing.yaml")).unwrap();
    let depends = |name: &str| {
        let document =
            text.split("---\n").find(|document| document.contains(&format!("name: {name}\n"))).unwrap();
        ["a", "b"].map(|key| document.contains(&format!("Thing.toy/vpc-{key}-net")))
    };
    // Within an instance of a module there is that instance alone; from elsewhere any of them may be meant.
    assert_eq!(depends("vpc-a-server"), [true, false], "{text}");
    assert_eq!(depends("app-web"), [true, true], "{text}");
    assert_eq!(depends("vpc-b-net"), [false, false], "{text}");
}

#[test]
fn what_waits_for_its_state_is_never_made_instead() {
    let env = desk("");
    let resource = "apiVersion: toy/v1\nkind: Trivial\nmetadata: {name: n, annotations: {reconciled/import: \"tfstate:toy_trivial.n\"}}\nspec: {input: x}\n";
    env.push("a.yaml", resource);
    env.run(&["apply", "--yes"])
        .exits(1)
        .says(&["this host has no such state", "reconciled import FILE.tfstate"]);
}

#[test]
fn what_goes_back_to_terraform_goes_with_its_state() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a, content: x, secret: canary-of-a-thing, words: [b, a]"));
    env.apply();
    let file = env.path("out.tfstate");
    let export = |more: &[&str]| {
        let _ = fs::remove_file(&file);
        let args = [&["export", "--tfstate", file.to_str().unwrap()][..], more].concat();
        let secrets = if more.is_empty() { "secrets were left out" } else { "holds secrets in clear" };
        env.run(&args).exits(0).says(&["1 resource written", secrets]).hides(&["canary-of-a-thing"]);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::read_to_string(&file).unwrap()
    };
    let without = export(&[]);
    assert!(!without.contains("canary-of-a-thing") && without.contains("thing-1"), "{without}");
    let with = export(&["--with-secrets"]);
    let parsed: Json = serde_json::from_str(&with).unwrap();
    let instance = &parsed["resources"][0]["instances"][0];
    assert_eq!(instance["attributes"]["secret"], "canary-of-a-thing");
    assert_eq!(parsed["resources"][0]["provider"], "provider[\"registry.terraform.io/example/toy\"]");
    env.run(&["export", "--tfstate", file.to_str().unwrap()]).exits(1).says(&["name another file"]);
    let own = env.path("state/out.tfstate");
    env.run(&["export", "--tfstate", own.to_str().unwrap()]).exits(1).says(&["in the state directory"]);
    assert!(!own.exists());
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("name: toy,", "name: other,"));
    let left = env.path("left.tfstate");
    let told = env.run(&["export", "--tfstate", left.to_str().unwrap()]).exits(3);
    told.says(&["0 resources written", "left out: toy/", "no entry `toy` is configured"]);
    env.write("config.yaml", &config);
    // What was given back can be taken again.
    fs::remove_dir_all(env.path("state")).unwrap();
    let out = env.path("taken");
    env.run(&["import", file.to_str().unwrap(), "--out", out.to_str().unwrap()])
        .exits(0)
        .hides(&["forgotten"]);
    env.run(&["plan", "--dir", out.to_str().unwrap()]).exits(0).says(&["= Thing/a"]).hides(&["+ ", "~ "]);
}

#[test]
fn what_goes_back_to_terraform_knows_what_it_depends_on() {
    let env = desk("");
    let on = |name: &str| format!("content: \"${{Thing.toy/{name}:status.id}}\"");
    let all = [
        thing("a", "", "name: a"),
        thing("b", "", &format!("name: b, {}", on("a"))),
        thing("c", "", &format!("name: c, {}", on("b"))),
    ];
    env.push("a.yaml", &all.concat());
    env.apply();
    let file = env.path("out.tfstate");
    env.run(&["export", "--tfstate", file.to_str().unwrap()]).exits(0).says(&["3 resources written"]);
    let written: Json = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let depends = |name: &str| {
        let mut all = written["resources"].as_array().unwrap().iter();
        all.find(|one| one["name"] == name).unwrap()["instances"][0]["dependencies"].clone()
    };
    assert_eq!(depends("a"), Json::Null);
    assert_eq!(depends("b"), json!(["toy_thing.a"]));
    assert_eq!(depends("c"), json!(["toy_thing.a", "toy_thing.b"]));
}

#[test]
fn secrets_are_spoken_of_where_there_are_any_and_bars_where_some_were_forgotten() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a, content: x"));
    env.apply();
    let file = env.path("out.tfstate");
    let export = ["export", "--tfstate", file.to_str().unwrap()];
    env.run(&export).exits(0).says(&["1 resource written"]).hides(&["secrets"]);
    // Nothing else leads to it any more, so its id is told.
    env.run(&["forget", "Thing/a", "--yes"])
        .exits(0)
        .says(&["write its id among the annotations", "Thing/a: reconciled/import: \"thing-1\""])
        .hides(&["to take one back: "]);
    let out = env.path("taken");
    env.run(&["import", file.to_str().unwrap(), "--out", out.to_str().unwrap()])
        .exits(0)
        .says(&["but for what was forgotten here", "reconciled adopt ADDRESS"]);
    env.run(&["plan", "--dir", out.to_str().unwrap()]).exits(3).says(&["it was forgotten"]);
}

#[test]
fn one_resource_is_imported_by_its_type_and_id() {
    let env = desk("");
    put(&env, "thing-4", &json!({ "id": "thing-4", "name": "a", "content": "hello", "size": 5, "level": 3 }));
    env.run(&["import", "toy", "Thing", "thing-4"]).exits(0).says(&[
        "kind: Thing",
        "name: thing-4",
        "reconciled/import: thing-4",
        "content: hello",
    ]);
    let out = env.path("taken");
    env.run(&["import", "toy", "toy_thing", "thing-4", "--out", out.to_str().unwrap()]).exits(0);
    push_all(&env, &out);
    env.run(&["plan"]).exits(0).says(&["= Thing/thing-4"]);
    // A second manifest of it would collide with the one that it has.
    env.apply();
    let again = env.path("again");
    let import = ["import", "toy", "Thing", "thing-4", "--out", again.to_str().unwrap()];
    let told = ["managed by Thing/thing-4 of source `infra`, declared in "];
    env.run(&import).exits(1).says(&told).says(&["reconciled explain Thing/thing-4"]);
    let daemon = Daemon::ready(&env);
    env.run(&import).exits(1).says(&told);
    daemon.stop();
    assert!(!again.exists());
    env.run(&["import", "toy", "Thing", "thing-5"])
        .exits(1)
        .says(&["there is no toy_thing with the id `thing-5`"]);
    env.run(&["import", "toy", "Thnig", "x"])
        .exits(1)
        .says(&["no resource type `Thnig`", "did you mean `Thing`?"]);
    env.run(&["import", "toy", "thing", "x"]).exits(1).says(&["did you mean `toy_thing`?"]);
    env.run(&["import", "toy"]).exits(1).says(&["is not said"]);
}

#[test]
fn what_a_tracked_resource_has_of_a_secret_is_not_shown_whatever_it_is_imported_as() {
    let env = desk("");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("key", "canary-in-the-content");
    let secrets = format!("secrets: {{key: {{file: {}}}}}\n", env.path("key").display());
    env.write("config.yaml", &format!("{secrets}{config}"));
    env.push("a.yaml", &thing("a", "", "name: a, content: {secret: key}"));
    env.apply();
    assert_eq!(state(&env, "thing-1.json")["content"], "canary-in-the-content");
    env.run(&["explain", "Thing/a"]).exits(0).hides(&["canary-in-the-content"]);
    // Also where the very id holds it, which nothing but what is remembered tells.
    env.push("b.yaml", &thing("b", "", "name: b, content: {secret: key}, fault: telltale"));
    env.apply();
    env.run(&["import", "toy", "Thing", "thing-canary-in-the-content"])
        .exits(1)
        .says(&["it is managed by Thing/b of source `infra`, declared in b.yaml:"])
        .hides(&["canary-in-the-content"]);
    env.run(&["import", "toy", "Thing"])
        .exits(0)
        .says(&["2 tracked already, and left out: Thing/a, Thing/b"])
        .hides(&["canary-in-the-content"]);
}

#[test]
fn what_nobody_declared_is_found_by_the_list_of_its_provider() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a, content: hello"));
    env.apply();
    for (number, name) in [(2, "web-1"), (3, "web-2"), (4, "db"), (5, "")] {
        let id = format!("thing-{number}");
        put(&env, &id, &json!({ "id": id, "name": name, "size": 0, "level": 3 }));
    }
    let out = env.path("found");
    env.run(&["import", "toy", "Thing", "--out", out.to_str().unwrap()]).exits(3).says(&[
        "left out: toy_thing unnamed",
        "a name has letters",
        "1 tracked already, and left out: Thing/a",
        "1 file written",
    ]);
    let text = fs::read_to_string(out.join("Thing.yaml")).unwrap();
    assert_eq!(text.matches("kind: Thing").count(), 3, "{text}");
    push_all(&env, &out);
    env.run(&["plan"]).exits(0).says(&["= Thing/web-1", "= Thing/web-2", "= Thing/db"]).hides(&["+ ", "~ "]);
    env.apply();
    env.in_sync();

    // Of a part, with a running daemon too.
    put(&env, "thing-6", &json!({ "id": "thing-6", "name": "web-3", "size": 0, "level": 3 }));
    let part = ["import", "toy", "toy_thing", "--filter", "prefix=web-"];
    let told = ["name: web-3", "2 tracked already, and left out: Thing/web-1, Thing/web-2"];
    env.run(&part).exits(0).says(&told).hides(&["name: db"]);
    let daemon = Daemon::start(&env);
    env.run(&part).exits(0).says(&told);
    drop(daemon);
    env.run(&["import", "toy", "Thing", "--filter", "prefix=z"])
        .exits(1)
        .says(&["`toy` has nothing that `Thing` means"]);
    env.run(&["import", "toy", "Thing", "--drifted"]).exits(1).says(&["resource by resource"]);
    env.run(&["import", "toy", "Thing", "--filter", "prefix"]).exits(1).says(&["write KEY=VALUE"]);
    env.run(&["import", "toy", "Trivial"])
        .exits(1)
        .says(&["list each toy_trivial: `shelf` is required and missing", "--filter KEY=VALUE"]);
}

#[test]
fn what_terraform_made_at_aws_is_taken_over_with_an_empty_first_plan() {
    let moto = Moto::start();
    let env = Env::new();
    aws_entry(&env, &moto, "");
    // What Terraform would have made, made by the provider itself; its state is what Terraform would hold.
    let manifests = "apiVersion: aws/v1\nkind: SqsQueue\nmetadata: {name: jobs}\nspec: {name: jobs, visibility_timeout_seconds: 60, tags: {team: web}}\n---\n\
        apiVersion: aws/v1\nkind: S3Bucket\nmetadata: {name: data}\nspec: {bucket: data-bucket, acl: private, force_destroy: true, versioning: {enabled: true}}\n---\n\
        apiVersion: aws/v1\nkind: SsmParameter\nmetadata: {name: p}\nspec: {name: /p, type: SecureString, value: canary-of-ssm}\n---\n\
        apiVersion: aws/v1\nkind: IamRole\nmetadata: {name: r}\nspec: {name: r, assume_role_policy: '{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Principal\":{\"Service\":\"ec2.amazonaws.com\"},\"Action\":\"sts:AssumeRole\"}]}'}\n---\n\
        apiVersion: aws/v1\nkind: IamPolicy\nmetadata: {name: pol}\nspec: {name: pol, policy: '{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Action\":\"sqs:*\",\"Resource\":\"*\"}]}'}\n---\n\
        apiVersion: aws/v1\nkind: IamRolePolicyAttachment\nmetadata: {name: at}\nspec: {role: \"${IamRole.aws/r:status.name}\", policy_arn: \"${IamPolicy.aws/pol:status.arn}\"}\n---\n\
        apiVersion: aws/v1\nkind: IamRolePolicy\nmetadata: {name: own}\nspec: {name: own, role: \"${IamRole.aws/r:status.name}\", policy: '{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Action\":\"sns:*\",\"Resource\":\"*\"}]}'}\n---\n\
        apiVersion: aws/v1\nkind: SecretsmanagerSecret\nmetadata: {name: s}\nspec: {name: s, recovery_window_in_days: 0}\n---\n\
        apiVersion: aws/v1\nkind: DynamodbTable\nmetadata: {name: t}\nspec: {name: tab, billing_mode: PAY_PER_REQUEST, hash_key: id, attribute: [{name: id, type: S}], timeouts: {create: 5m}}\n";
    env.push("a.yaml", manifests);
    env.apply();
    let file = env.path("aws.tfstate");
    env.run(&["export", "--tfstate", file.to_str().unwrap(), "--with-secrets"]).exits(0);
    fs::remove_dir_all(env.path("state")).unwrap();
    env.push_without("a.yaml");

    let out = env.path("taken");
    let secrets = env.path("secrets");
    env.run(&["import", file.to_str().unwrap()])
        .exits(3)
        .says(&["left out: aws_ssm_parameter.p: value has to be declared and is secret", "--secrets DIR"]);
    env.run(&[
        "import",
        file.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--secrets",
        secrets.to_str().unwrap(),
    ])
    .exits(0)
    .says(&[
        "9 resources in 9 files",
        "aws-ssm-parameter-p-value: {file: ",
        "not declared with aws_iam_role.r: `inline_policy`, `managed_policy_arns`, which resources of their own declare",
    ])
    .hides(&["canary-of-ssm"]);
    // Declared twice, a policy that is deleted would be put back by its role.
    let role = fs::read_to_string(out.join("IamRole.yaml")).unwrap();
    assert!(!role.contains("inline_policy") && !role.contains("managed_policy"), "{role}");
    // No id leads to them: they are in the state alone.
    let table = fs::read_to_string(out.join("DynamodbTable.yaml")).unwrap();
    let timeouts = ["import: \"tfstate:aws_dynamodb_table.t\"", "  timeouts:\n    create: \"5m\"\n"];
    assert!(timeouts.iter().all(|part| table.contains(part)), "{table}");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let secret = secrets.join("aws-ssm-parameter-p-value");
    env.write(
        "config.yaml",
        &format!("secrets: {{aws-ssm-parameter-p-value: {{file: {}}}}}\n{config}", secret.display()),
    );
    push_all(&env, &out);
    env.run(&["plan"])
        .exits(0)
        .says(&[
            "= SqsQueue/jobs",
            "= S3Bucket/data",
            "= SsmParameter/p",
            "= IamRolePolicyAttachment/at",
            "= IamRolePolicy/own",
            "= DynamodbTable/t",
        ])
        .hides(&["+ ", "~ ", "-/+", "canary-of-ssm"]);
    env.apply();
    env.in_sync();
    // A role with a policy is refused its end: the attachment goes first.
    for kind in ["IamRole", "IamRolePolicy", "IamPolicy", "IamRolePolicyAttachment"] {
        env.push_without(&format!("{kind}.yaml"));
    }
    env.apply().says(&["4 deleted"]);
    env.in_sync();
}

#[test]
fn a_newer_provider_for_aws_gives_its_secrets_and_rules_to_one_manifest_each() {
    let Some(aws) = newer_aws() else { return };
    let (moto, env) = (Moto::start(), Env::new());
    aws_entry_of(&aws, &env, &moto, "    settle: 0s\n");
    let rule = |name: &str, port: u16| {
        format!(
            "---\napiVersion: aws/v1\nkind: VpcSecurityGroupIngressRule\nmetadata: {{name: {name}}}\nspec: {{security_group_id: \"${{SecurityGroup.aws/g:status.id}}\", cidr_ipv4: 10.0.0.0/8, from_port: {port}, to_port: {port}, ip_protocol: tcp}}\n"
        )
    };
    let parameter = |name: &str, of: &str| {
        format!(
            "---\napiVersion: aws/v1\nkind: SsmParameter\nmetadata: {{name: {name}}}\nspec: {{name: /{name}, type: {of}, value: canary-of-{name}}}\n"
        )
    };
    let group =
        "apiVersion: aws/v1\nkind: SecurityGroup\nmetadata: {name: g}\nspec: {name: g, description: d}\n";
    let own = "---\napiVersion: aws/v1\nkind: SecurityGroup\nmetadata: {name: own}\nspec: {name: own, description: d, ingress: [{cidr_blocks: [10.0.0.0/8], from_port: 22, to_port: 22, protocol: tcp, description: \"\", ipv6_cidr_blocks: [], prefix_list_ids: [], security_groups: [], self: false}]}\n";
    let secrets = [parameter("open", "String"), parameter("sealed", "SecureString")].concat();
    env.push("a.yaml", &[group, &rule("web", 80), &rule("tls", 443), own, &secrets].concat());
    env.apply();
    env.in_sync();
    let file = env.path("aws.tfstate");
    env.run(&["export", "--tfstate", file.to_str().unwrap(), "--with-secrets"]).exits(0);
    fs::remove_dir_all(env.path("state")).unwrap();
    env.push_without("a.yaml");

    let (out, dir) = (env.path("taken"), env.path("secrets"));
    let args = ["--out", out.to_str().unwrap(), "--secrets", dir.to_str().unwrap()];
    env.run(&[&["import", file.to_str().unwrap()], &args[..]].concat())
        .exits(0)
        .says(&["not declared with aws_security_group.g: `ingress`"])
        .hides(&["aws_security_group.own", "canary-of-open", "canary-of-sealed"]);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let names = ["aws-ssm-parameter-open-value", "aws-ssm-parameter-sealed-value"];
    let declared = names.map(|name| format!("{name}: {{file: {}}}", dir.join(name).display()));
    env.write("config.yaml", &format!("secrets: {{{}}}\n{config}", declared.join(", ")));
    push_all(&env, &out);
    let adopts = ["= SecurityGroup/g", "= SecurityGroup/own", "= SsmParameter/open", "= SsmParameter/sealed"];
    env.run(&["plan"]).exits(0).says(&adopts).hides(&["+ ", "~ ", "-/+", "canary-of-"]);
    env.apply();
    env.in_sync();
    // One by its id: where the value is, a person says.
    let forgotten = ["forget", "SsmParameter/open", "--yes"];
    env.run(&forgotten).exits(0);
    env.run(&["import", "aws", "aws_ssm_parameter", "/open"])
        .exits(0)
        .says(&["secret: NAME"])
        .hides(&["canary-of-"]);
}

/// Configures what the example of a cloud needs beside it, and has the source hold its manifests but `left`.
pub(crate) fn cloud_example(env: &Env, host: &str, left: &[&str]) {
    fs::create_dir(env.path("zones")).unwrap();
    let zones = env.path("zones");
    let own = fs::read_to_string(env.path("config.yaml")).unwrap();
    let others = format!(
        "providers:\n  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.]}}\n  \
         - {{name: host, type: host, {host}, paths: [/etc]}}\n",
        zones.display()
    );
    env.write("config.yaml", &own.replace("providers:\n", &others));
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/cloud");
    for entry in fs::read_dir(example).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.ends_with(".yaml") && !left.contains(&name) {
            env.write(&format!("work/{name}"), &fs::read_to_string(&path).unwrap());
        }
    }
    env.push_all();
}

#[test]
fn the_cloud_example_is_applied_as_it_stands() {
    let moto = Moto::start();
    let env = Env::new();
    aws_entry(&env, &moto, "");
    fs::create_dir_all(env.path("machine/etc/default")).unwrap();
    // What needs a systemd has a test of its own.
    cloud_example(&env, &format!("root: {}", env.path("machine").display()), &["worker.yaml"]);
    env.apply();
    env.in_sync();
    let zone = fs::read_dir(env.path("zones"))
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let zone = zone.collect::<String>();
    assert!(zone.contains("example-com-assets.s3") && zone.contains("/jobs"), "{zone}");
    let worker = fs::read_to_string(env.path("machine/etc/default/worker")).unwrap();
    assert!(worker.starts_with("QUEUE_URL=http") && worker.ends_with("/jobs\n"), "{worker}");
}
