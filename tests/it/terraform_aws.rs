//! AWS, as a server plays it: what is made there, and what a hand that is not ours changed or deleted, under each word that a
//! manifest may say about drift.

use crate::{
    env::Env,
    machine::Machine,
    terraform::{Aws, Moto, aws, aws_entry, aws_entry_of, newer_aws},
    terraform_import::cloud_example,
};
use std::{fs, process::Command};

const QUEUES: [(&str, &str); 3] =
    [("healed", ""), ("warned", "reconciled/drift: warn"), ("left", "reconciled/drift: ignore")];

fn queue(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: aws/v1\nkind: SqsQueue\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\nspec: {{name: {name}, visibility_timeout_seconds: 60}}\n---\n"
    )
}

/// A request by hand. Nobody checks the signature; which service is meant is read from it.
fn by_hand(moto: &Moto, queue: &str, action: &str) -> String {
    let url = format!("http://127.0.0.1:{}", moto.port);
    let signed = "Authorization: AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0";
    let body = format!("Action={action}&Version=2012-11-05&QueueUrl={url}/123456789012/{queue}");
    let output =
        Command::new("curl").args(["-sS", "--fail", "-H", signed, "-d", &body, &url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn timeout(moto: &Moto, queue: &str) -> String {
    let said = by_hand(moto, queue, "GetQueueAttributes&AttributeName.1=VisibilityTimeout");
    said.split("<Value>").nth(1).and_then(|rest| rest.split('<').next()).unwrap_or(&said).to_string()
}

#[test]
fn what_a_hand_changes_at_aws_is_healed_told_or_left_as_its_manifest_says() {
    let (moto, env) = (Moto::start(), Env::new());
    aws_entry(&env, &moto, "    settle: 0s\n");
    env.push("a.yaml", &QUEUES.map(|(name, annotations)| queue(name, annotations)).concat());
    env.apply();
    env.in_sync();
    for (name, _) in QUEUES {
        by_hand(&moto, name, "SetQueueAttributes&Attribute.1.Name=VisibilityTimeout&Attribute.1.Value=5");
    }
    env.run(&["plan"])
        .exits(3)
        .says(&["~ SqsQueue/healed", "visibility_timeout_seconds: 5 → 60", "Drifted: it was changed by hand"])
        .hides(&["SqsQueue/left"]);
    env.run(&["apply", "--yes"]).exits(3).says(&["SqsQueue/warned", "1 updated"]);
    assert_eq!(QUEUES.map(|(name, _)| timeout(&moto, name)), ["60", "5", "5"]);
    env.run(&["status"])
        .says(&["visibility_timeout_seconds is `5`, declared `60`"])
        .hides(&["SqsQueue/left"]);

    for name in ["healed", "left"] {
        by_hand(&moto, name, "DeleteQueue");
    }
    env.run(&["plan"]).says(&["+ SqsQueue/healed", "restore"]);
    env.run(&["apply", "--yes"]).exits(3).says(&["created"]);
    assert_eq!(timeout(&moto, "healed"), "60");
    // What has to be as it was declared after all.
    env.push("a.yaml", &QUEUES.map(|(name, _)| queue(name, "")).concat());
    env.apply();
    env.in_sync();
    assert_eq!(QUEUES.map(|(name, _)| timeout(&moto, name)), ["60", "60", "60"]);
}

#[test]
fn the_provider_for_aws_makes_queues_parameters_and_buckets() {
    queues_parameters_and_buckets_are_made(&aws());
}

#[test]
fn a_newer_provider_for_aws_makes_queues_parameters_and_buckets() {
    let Some(aws) = newer_aws() else { return };
    queues_parameters_and_buckets_are_made(&aws);
}

fn queues_parameters_and_buckets_are_made(aws: &Aws) {
    let moto = Moto::start();
    let env = Env::new();
    aws_entry_of(aws, &env, &moto, "");
    let queue = |timeout: u32| {
        format!(
            "apiVersion: aws/v1\nkind: SqsQueue\nmetadata: {{name: jobs}}\nspec: {{name: jobs, visibility_timeout_seconds: {timeout}}}\n---\n"
        )
    };
    let rest = "apiVersion: aws/v1\nkind: SsmParameter\nmetadata: {name: arn}\nspec: {name: /jobs/arn, type: String, value: \"${SqsQueue.aws/jobs:status.arn}\"}\n---\napiVersion: aws/v1\nkind: S3Bucket\nmetadata: {name: data}\nspec: {bucket: data-bucket, tags: {team: web}}\n";
    env.push("a.yaml", &format!("{}{rest}", queue(60)));
    env.run(&["plan"]).exits(0).says(&[
        "+ SqsQueue/jobs",
        "arn: (none) → (known after apply)",
        "waiting: for an output of SqsQueue/jobs",
    ]);
    env.apply();
    env.in_sync();
    env.push("a.yaml", &format!("{}{rest}", queue(90)));
    env.run(&["plan"]).exits(0).says(&["~ SqsQueue/jobs", "visibility_timeout_seconds: 60 → 90"]);
    env.apply();
    env.in_sync();
    // A bucket may hold data: without its declaration it stays.
    env.push("a.yaml", &queue(90));
    env.run(&["plan"])
        .exits(0)
        .says(&["- SsmParameter/arn", "S3Bucket/data"])
        .hides(&["- S3Bucket/data", "canary-of-aws"]);
    env.apply();
    env.in_sync();
}

/// All of the example, on a machine whose units are managed too.
#[test]
fn the_unit_of_the_cloud_example_is_told_what_aws_gave_and_restarted_when_that_is_another() {
    let Some(machine) = Machine::bare() else { return };
    let (moto, env) = (Moto::start(), &machine.env);
    aws_entry_of(&aws().on_desk(env), env, &moto, "");
    cloud_example(env, "bus: system", &[]);
    machine.write("/usr/local/bin/worker", "#!/bin/sh\nexec sleep 1d\n");
    machine.run(&["chmod", "755", "/usr/local/bin/worker"]);
    let config = env.path("config.yaml");
    let program = [env!("CARGO_BIN_EXE_reconciled"), "--config", config.to_str().unwrap()];
    let run = |words: &[&str]| machine.run(&[&program[..], words].concat());
    let unit = |property: &str| {
        machine.run(&["systemctl", "show", "worker.service", "--value", "-p", property]).trim().to_owned()
    };
    run(&["apply", "--yes"]);
    assert_eq!(unit("ActiveState"), "active");
    let told = unit("Environment");
    assert!(told.contains("/jobs ") && told.ends_with("BUCKET=example-com-assets"), "{told}");
    assert!(run(&["plan"]).contains("No changes."));

    // Another queue has another address.
    let pid = unit("MainPID");
    let manifests = fs::read_to_string(env.path("work/aws.yaml")).unwrap();
    let other = manifests.replace("spec: {name: jobs,", "spec: {name: work,");
    assert_ne!(other, manifests);
    env.push("aws.yaml", &other);
    run(&["apply", "--yes"]);
    assert_eq!(unit("ActiveState"), "active");
    let told = unit("Environment");
    assert!(told.contains("/work ") && unit("MainPID") != pid, "{told}");
    assert!(run(&["plan"]).contains("No changes."));
}
