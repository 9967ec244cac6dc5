//! The real `terraform` beside the program: there is nothing to change about what it made and we take over, and nothing about
//! what we give back to it.

use crate::{
    env::{Env, Output, left_out, path},
    terraform::{Moto, aws, aws_entry},
    terraform_import::push_all,
};
use std::{fs, path::PathBuf, process::Command};

/// A folder of HCL, whose provider comes from a mirror on this machine and from nowhere else.
struct Folder<'e> {
    env: &'e Env,
    path: PathBuf,
}

impl<'e> Folder<'e> {
    fn new(env: &'e Env, name: &str, hcl: &str) -> Folder<'e> {
        env.write(&format!("{name}/main.tf"), hcl);
        let folder = Folder { env, path: env.path(name) };
        folder.run(&["init"]).exits(0);
        folder
    }
    fn run(&self, args: &[&str]) -> Output {
        let mut command = terraform(self.env);
        command.args(args).args(["-input=false", "-no-color"]).current_dir(&self.path);
        self.env.finish(command)
    }
}

fn terraform(env: &Env) -> Command {
    let mut command = Command::new("terraform");
    command
        .env_clear()
        .env("PATH", path())
        .env("HOME", env.dir.path())
        .env("TF_CLI_CONFIG_FILE", env.path("terraform.rc"))
        .env("CHECKPOINT_DISABLE", "1");
    command
}

/// A desk whose `terraform` finds the provider for AWS; none where there is no `terraform`.
fn desk(moto: &Moto) -> Option<Env> {
    let env = Env::new();
    let version = "mirror/registry.terraform.io/hashicorp/aws/3.39.0";
    let platform = if cfg!(target_arch = "aarch64") { "linux_arm64" } else { "linux_amd64" };
    let folder = env.path(version).join(platform);
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(aws().path, folder.join("terraform-provider-aws_v3.39.0_x5")).unwrap();
    let mirror = env.path("mirror");
    let settings = format!(
        "provider_installation {{\n  filesystem_mirror {{\n    path = \"{}\"\n  }}\n}}\n",
        mirror.display()
    );
    env.write("terraform.rc", &settings);
    if !terraform(&env).arg("version").output().is_ok_and(|output| output.status.success()) {
        left_out("there is no `terraform`");
        return None;
    }
    aws_entry(&env, moto, "");
    Some(env)
}

/// A parameter, a role and a policy that depend on `queue`, one of `queues`.
fn hcl(moto: &Moto, queues: &str, queue: &str) -> String {
    let url = format!("http://127.0.0.1:{}", moto.port);
    let endpoints = ["sqs", "ssm", "iam", "sts"].map(|service| format!("    {service} = \"{url}\"\n"));
    format!(
        r#"terraform {{
  required_providers {{
    aws = {{ source = "hashicorp/aws" }}
  }}
}}
provider "aws" {{
  region                      = "us-east-1"
  access_key                  = "AKIAEXAMPLE"
  secret_key                  = "canary-of-aws"
  skip_credentials_validation = true
  skip_requesting_account_id  = true
  skip_metadata_api_check     = true
  skip_get_ec2_platforms      = true
  endpoints {{
{}  }}
}}
{queues}
resource "aws_ssm_parameter" "url" {{
  name  = "/jobs/url"
  type  = "String"
  value = {queue}.id
}}
resource "aws_iam_role" "worker" {{
  name       = "worker"
  depends_on = [{queue}]
  assume_role_policy = jsonencode({{
    Version   = "2012-10-17"
    Statement = [{{ Effect = "Allow", Action = "sts:AssumeRole", Principal = {{ Service = "ec2.amazonaws.com" }} }}]
  }})
  lifecycle {{
    create_before_destroy = true
  }}
}}
resource "aws_iam_policy" "jobs" {{
  name = "jobs"
  policy = jsonencode({{
    Version   = "2012-10-17"
    Statement = [{{ Effect = "Allow", Action = "sqs:*", Resource = {queue}.arn }}]
  }})
}}
resource "aws_iam_role_policy_attachment" "jobs" {{
  role       = aws_iam_role.worker.name
  policy_arn = aws_iam_policy.jobs.arn
}}
"#,
        endpoints.concat()
    )
}

fn queue(label: &str, name: &str, more: &str) -> String {
    format!(
        "resource \"aws_sqs_queue\" \"{label}\" {{\n{more}  name = \"{name}\"\n  visibility_timeout_seconds = 60\n  tags = {{ team = \"web\" }}\n}}\n"
    )
}

#[test]
fn nothing_changes_on_the_way_from_terraform_and_back_to_it() {
    let moto = Moto::start();
    let Some(env) = desk(&moto) else { return };
    let queues = queue("jobs", "jobs-${count.index}", "  count = 2\n");
    let made = Folder::new(&env, "made", &hcl(&moto, &queues, "aws_sqs_queue.jobs[0]"));
    made.run(&["apply", "-auto-approve"]).exits(0);

    let (state, out, secrets) = (made.path.join("terraform.tfstate"), env.path("taken"), env.path("secrets"));
    env.run(&[
        "import",
        state.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--secrets",
        secrets.to_str().unwrap(),
    ])
    .exits(0)
    .says(&["6 resources in 5 files"]);
    let role = fs::read_to_string(out.join("IamRole.yaml")).unwrap();
    for part in ["reconciled/depends-on: ", "SqsQueue.aws/jobs-0", "createBeforeDestroy: true"] {
        assert!(role.contains(part), "`{part}` is missing in:\n{role}");
    }
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let secret = "aws-ssm-parameter-url-value";
    let file = secrets.join(secret);
    env.write("config.yaml", &format!("secrets: {{{secret}: {{file: {}}}}}\n{config}", file.display()));
    push_all(&env, &out);
    env.run(&["plan"]).exits(0).says(&["0 to create, 0 to update, 0 to delete, 6 to adopt"]).says(&[
        "= SqsQueue/jobs-0",
        "= SqsQueue/jobs-1",
        "= IamRolePolicyAttachment/jobs",
    ]);
    env.apply();
    env.in_sync();

    // Under the names of the manifests, which know no `count`.
    let queues = ["jobs-0", "jobs-1"].map(|name| queue(name, name, "")).concat();
    let back = Folder::new(&env, "back", &hcl(&moto, &queues, "aws_sqs_queue.jobs-0"));
    let file = back.path.join("terraform.tfstate");
    env.run(&["export", "--tfstate", file.to_str().unwrap(), "--with-secrets"])
        .exits(0)
        .says(&["6 resources written"]);
    // 2 says that there is something to change.
    back.run(&["plan", "-detailed-exitcode"]).exits(0);
}
