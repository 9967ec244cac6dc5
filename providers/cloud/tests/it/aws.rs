//! The real provider for AWS before a server that plays AWS: each service by the life of one resource, from its creation to its
//! deletion, with changes and a loss by a hand that is not ours. Before it goes, our mark on it does, and nothing else.

use crate::writes::Notes;
use reconciled_cloud::{Config, INFO, Mark, find::Program, open};
use reconciled_provider::{
    Action, ActionId, Batch, Cx, Delta, Focus, Hash, Observed, Op, Origin, Outcome, Owner, PolicyId,
    Provider, Resource, Scope, SecretRef, SourceFile, Spec, Tracked, Version, Want, yaml,
};
use reconciled_testkit::{
    PATIENCE,
    context::{TableSecrets, cx_with},
    ports,
    tools::{installed, needed},
};
use reqwest::{Client, Method};
use serde_json::{Value as Json, json};
use std::{
    ffi::OsStr,
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

const SECRET: &str = "canary-of-aws";

/// A server that plays AWS.
struct Server {
    child: Child,
    url: String,
    account: &'static str,
    http: Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    async fn start(
        program: &OsStr,
        account: &'static str,
        arguments: impl FnOnce(u16, &mut Command),
    ) -> Server {
        let port = ports::free(ports::CLOUD, 1);
        let mut command = Command::new(program);
        arguments(port, &mut command);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child =
            child.unwrap_or_else(|error| panic!("start {program:?} ({error}): tests/run installs it"));
        // An error says that one is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
        let server = Server { child, url: format!("http://127.0.0.1:{port}"), account, http };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "{program:?} does not listen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server
    }

    /// A request by hand. Nobody checks the signature; which service is meant is read from it.
    async fn ask(&self, service: &str, method: Method, path: &str, target: &str, body: String) -> String {
        let signed = format!(
            "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
        );
        let kind = match (target, service) {
            ("", "s3" | "route53") => "application/xml",
            ("", _) => "application/x-www-form-urlencoded",
            _ => "application/x-amz-json-1.1",
        };
        let request = self.http.request(method, format!("{}{path}", self.url));
        let request = request.header("authorization", signed).header("content-type", kind);
        let request = if target.is_empty() { request } else { request.header("x-amz-target", target) };
        let answer = request.body(body).send().await.expect("an answer");
        let (status, text) = (answer.status(), answer.text().await.expect("a text"));
        assert!(status.is_success(), "{service}: {status}: {text}");
        text
    }

    async fn form(&self, service: &str, body: &str) -> String {
        self.ask(service, Method::POST, "/", "", body.into()).await
    }

    async fn json(&self, service: &str, target: &str, body: Json) -> String {
        self.ask(service, Method::POST, "/", target, body.to_string()).await
    }

    async fn record(&self, zone: &str, action: &str, ttl: u32) {
        let body = format!(
            "<ChangeResourceRecordSetsRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><ChangeBatch>\
             <Changes><Change><Action>{action}</Action><ResourceRecordSet><Name>www.example.com.</Name><Type>A</Type>\
             <TTL>{ttl}</TTL><ResourceRecords><ResourceRecord><Value>192.0.2.1</Value></ResourceRecord>\
             </ResourceRecords></ResourceRecordSet></Change></Changes></ChangeBatch></ChangeResourceRecordSetsRequest>"
        );
        self.ask("route53", Method::POST, &format!("/2013-04-01/hostedzone/{zone}/rrset"), "", body).await;
    }

    /// Makes a zone, which takes the provider half a minute. Returns its id.
    async fn zone(&self) -> String {
        let body = "<CreateHostedZoneRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\">\
                    <Name>example.com.</Name><CallerReference>test</CallerReference></CreateHostedZoneRequest>";
        let text = self.ask("route53", Method::POST, "/2013-04-01/hostedzone", "", body.into()).await;
        let id = text.split("<Id>").nth(1).and_then(|rest| rest.split("</Id>").next()).expect("an id");
        id.rsplit('/').next().expect("an id").to_string()
    }
}

/// One resource: what is declared first, and then.
struct Life {
    type_name: &'static str,
    first: Json,
    then: Json,
    /// Attributes that a change by hand shows.
    touched: &'static str,
}

/// What a hand that is not ours does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hand {
    Changes,
    Deletes,
}

async fn by_hand(server: &Server, type_name: &str, remote: &str, hand: Hand) {
    use Hand::{Changes, Deletes};
    match (type_name, hand) {
        ("aws_sqs_queue", Changes) => {
            let body = "Action=SetQueueAttributes&Version=2012-11-05&Attribute.1.Name=VisibilityTimeout&Attribute.1.Value=5";
            server.form("sqs", &format!("{body}&QueueUrl={remote}")).await
        }
        ("aws_sqs_queue", Deletes) => {
            server.form("sqs", &format!("Action=DeleteQueue&Version=2012-11-05&QueueUrl={remote}")).await
        }
        ("aws_ssm_parameter", Changes) => {
            let body = json!({ "Name": remote, "Value": "by hand", "Type": "String", "Overwrite": true });
            server.json("ssm", "AmazonSSM.PutParameter", body).await
        }
        ("aws_ssm_parameter", Deletes) => {
            server.json("ssm", "AmazonSSM.DeleteParameter", json!({ "Name": remote })).await
        }
        ("aws_s3_bucket", Changes) => {
            let body = "<Tagging xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><TagSet><Tag><Key>team</Key>\
                        <Value>hand</Value></Tag></TagSet></Tagging>";
            server.ask("s3", Method::PUT, &format!("/{remote}?tagging"), "", body.into()).await
        }
        ("aws_s3_bucket", Deletes) => {
            server.ask("s3", Method::DELETE, &format!("/{remote}"), "", String::new()).await
        }
        ("aws_iam_role", Changes) => {
            let body = "Action=UpdateRole&Version=2010-05-08&Description=by-hand&MaxSessionDuration=3600";
            server.form("iam", &format!("{body}&RoleName={remote}")).await
        }
        ("aws_iam_role", Deletes) => {
            server.form("iam", &format!("Action=DeleteRole&Version=2010-05-08&RoleName={remote}")).await
        }
        ("aws_secretsmanager_secret", Changes) => {
            let body = json!({ "SecretId": remote, "Tags": [{ "Key": "team", "Value": "hand" }] });
            server.json("secretsmanager", "secretsmanager.TagResource", body).await
        }
        ("aws_secretsmanager_secret", Deletes) => {
            let body = json!({ "SecretId": remote, "ForceDeleteWithoutRecovery": true });
            server.json("secretsmanager", "secretsmanager.DeleteSecret", body).await
        }
        ("aws_dynamodb_table", Changes) => {
            let body = json!({
                "ResourceArn": format!("arn:aws:dynamodb:us-east-1:{}:table/{remote}", server.account),
                "Tags": [{ "Key": "team", "Value": "hand" }],
            });
            server.json("dynamodb", "DynamoDB_20120810.TagResource", body).await
        }
        ("aws_dynamodb_table", Deletes) => {
            server.json("dynamodb", "DynamoDB_20120810.DeleteTable", json!({ "TableName": remote })).await
        }
        ("aws_route53_record", Changes) => {
            server.record(remote.split('_').next().expect("a zone"), "UPSERT", 60).await;
            String::new()
        }
        other => panic!("nobody knows how to do {other:?}"),
    };
}

/// An entry for AWS.
struct Cloud {
    server: Server,
    provider: Arc<dyn Provider>,
    cx: Cx,
}

impl Cloud {
    fn new(server: Server, program: &Path) -> Cloud {
        let services = ["sqs", "ssm", "s3", "iam", "sts", "secretsmanager", "dynamodb", "route53"];
        let endpoints: Vec<String> =
            services.iter().map(|service| format!("{service}: '{}'", server.url)).collect();
        let text = format!(
            "region: us-east-1\naccess_key: AKIAEXAMPLE\nsecret_key: {{file: /key}}\nskip_credentials_validation: true\n\
             skip_requesting_account_id: true\nskip_metadata_api_check: true\nskip_get_ec2_platforms: true\n\
             s3_force_path_style: true\nendpoints: [{{{}}}]\n",
            endpoints.join(", ")
        );
        let file = Arc::new(SourceFile::new("config.yaml", &*text));
        let node = yaml::parse(&file, yaml::Limits::default()).expect("YAML").remove(0);
        let config = Config {
            source: "hashicorp/aws".into(),
            program: Program::At(program.into()),
            span: node.span,
            config: Some(node),
            environment: Vec::new(),
            allow_tcp: false,
            file,
            settle: INFO.consistency_window,
            timeout: Config::TIMEOUT,
            idle: None,
            max_calls: Config::MAX_CALLS,
            cache: None,
            keeper: Vec::new(),
            sandbox: None,
            handover: None,
            mark: Some(Mark { key: Mark::KEY.into(), instance: "one".into() }),
        };
        let mut secrets = TableSecrets::default();
        secrets.0.insert(SecretRef::File("/key".into()), SECRET.into());
        Cloud { server, provider: open("aws", config).expect("a program"), cx: cx_with(secrets) }
    }

    fn desired(type_name: &str, config: &Json) -> Resource {
        let bytes = json!({ "config": config }).to_string().into_bytes();
        Resource::new(
            format!("{type_name}.it").as_str().into(),
            Scope::new("aws", type_name).into(),
            Spec::resolved(bytes.clone(), Hash::of(&bytes)),
            Origin { manifest: 0, line: 1 },
            PolicyId(0),
        )
    }

    /// What is there, what would change, and the names of that.
    async fn plan(
        &self,
        desired: &Resource,
        tracked: Option<&Tracked>,
    ) -> (Option<Observed>, Option<Delta>, Vec<String>) {
        let list = [desired.clone()];
        let tracked: Vec<Tracked> = tracked.into_iter().cloned().collect();
        let want = Want {
            scope: &desired.scope,
            focus: &Focus::All,
            desired: &list,
            tracked: &tracked,
            claims: &[],
        };
        let mut seen = self.provider.observe(&self.cx, &want).await.expect("a look");
        let mut deltas = self.provider.diff(&self.cx, &want, &seen).await.expect("a plan");
        let delta = deltas.remove(&desired.id).map(|delta| delta.expect("a plan"));
        let names =
            delta.iter().flat_map(|delta| &delta.fields).map(|field| field.path.to_string()).collect();
        (seen.resources.pop(), delta, names)
    }

    async fn carry_out(&self, scope: &Scope, op: Op) -> Outcome {
        let notes = Notes::default();
        let action = Action { id: ActionId(1), token: "t".into(), op };
        let batch = Batch { scope: scope.clone(), base: Version::Unknown, actions: vec![action] };
        self.provider.apply(&self.cx, &batch, &notes).await.expect("the journal refuses nothing");
        notes.outcomes.into_inner().expect("nobody panics with it").remove(0)
    }

    async fn create(&self, desired: &Resource) -> Tracked {
        let (_, delta, _) = self.plan(desired, None).await;
        let delta = delta.expect("a creation");
        self.done(desired, Op::Create { desired: desired.clone(), delta: delta.into() }).await
    }

    /// Brings it to what is desired; `touched` is among what differs.
    async fn update(&self, desired: &Resource, tracked: Tracked, touched: &str) -> Tracked {
        let (observed, delta, names) = self.plan(desired, Some(&tracked)).await;
        assert!(names.iter().any(|name| name == touched), "{}: {names:?}", desired.id);
        let (observed, delta) = (observed.expect("it is there"), delta.expect("a difference"));
        assert!(!delta.replace, "{}: {names:?}", desired.id);
        let op = Op::Update {
            desired: desired.clone(),
            delta: delta.into(),
            observed: observed.into(),
            tracked: Some(tracked.into()),
        };
        self.done(desired, op).await
    }

    async fn done(&self, desired: &Resource, op: Op) -> Tracked {
        match self.carry_out(&desired.scope, op).await {
            Outcome::Done(tracked) => tracked,
            other => panic!("{}: {other:?}", desired.id),
        }
    }

    async fn in_sync(&self, desired: &Resource, tracked: &Tracked) {
        let (observed, _, names) = self.plan(desired, Some(tracked)).await;
        assert!(observed.is_some() && names.is_empty(), "{}: {names:?}", desired.id);
        let told = format!("{observed:?}");
        assert!(!told.contains(SECRET), "{told}");
    }

    /// What is there of what nobody declares any more.
    async fn undeclared(&self, scope: &Scope, tracked: &Tracked) -> Observed {
        let tracked = std::slice::from_ref(tracked);
        let want = Want { scope, focus: &Focus::All, desired: &[], tracked, claims: &[] };
        let mut seen = self.provider.observe(&self.cx, &want).await.expect("a look");
        seen.resources.pop().expect("it is there")
    }

    /// Leaves it to others: our mark goes, and nothing else of it changes.
    async fn abandon(&self, desired: &Resource, tracked: &Tracked) {
        let before = self.undeclared(&desired.scope, tracked).await;
        if before.owner != Owner::Ours {
            assert!(desired.id.0.starts_with("aws_route53_record"), "{} has tags", desired.id);
            return;
        }
        assert!(self.provider.takes_marks_away(&desired.id));
        let is_queue = desired.id.0.starts_with("aws_sqs_queue");
        let tags = async || {
            let url = tracked.remote.as_deref().expect("an id");
            let body = format!("Action=ListQueueTags&Version=2012-11-05&QueueUrl={url}");
            self.server.form("sqs", &body).await
        };
        assert!(!is_queue || tags().await.contains(Mark::KEY));
        let op = Op::Update {
            desired: desired.clone().with(|resource| resource.spec = Spec::known(before.bytes.to_vec())),
            delta: Delta::leaving().into(),
            observed: before.clone().into(),
            tracked: Some(tracked.clone().into()),
        };
        self.done(desired, op).await;
        let after = self.undeclared(&desired.scope, tracked).await;
        assert_eq!((content(&after), &after.owner), (content(&before), &Owner::Unmarked));
        assert!(!is_queue || !tags().await.contains(Mark::KEY));
    }

    async fn live(&self, life: &Life) {
        let (first, then) =
            (Cloud::desired(life.type_name, &life.first), Cloud::desired(life.type_name, &life.then));
        let tracked = self.create(&first).await;
        self.in_sync(&first, &tracked).await;
        // A record is waited for by the provider after each change, for up to half a minute.
        let is_slow = life.type_name == "aws_route53_record";
        let mut tracked = tracked;
        if !is_slow {
            tracked = self.update(&then, tracked, life.touched).await;
            self.in_sync(&then, &tracked).await;
        }
        let remote = tracked.remote.clone().expect("an id");
        by_hand(&self.server, life.type_name, &remote, Hand::Changes).await;
        let now = if is_slow { &first } else { &then };
        let mut tracked = self.update(now, tracked, life.touched).await;
        self.in_sync(now, &tracked).await;
        if !is_slow {
            by_hand(&self.server, life.type_name, &remote, Hand::Deletes).await;
            let (observed, delta, _) = self.plan(now, Some(&tracked)).await;
            assert!(observed.is_none(), "{} is gone", now.id);
            let op = Op::Create { desired: now.clone(), delta: delta.expect("it is made again").into() };
            tracked = self.done(now, op).await;
            self.in_sync(now, &tracked).await;
        }
        self.abandon(now, &tracked).await;
        let (observed, ..) = self.plan(now, Some(&tracked)).await;
        let op = Op::Delete {
            observed: observed.expect("it is there").into(),
            tracked: Some(tracked.clone().into()),
        };
        let outcome = self.carry_out(&now.scope, op).await;
        assert!(matches!(outcome, Outcome::Gone), "{}: {outcome:?}", now.id);
        assert!(self.plan(now, Some(&tracked)).await.0.is_none(), "{} is still there", now.id);
    }
}

/// What there is to be declared of it, without the mark in what the provider says of all of its tags.
fn content(observed: &Observed) -> Json {
    let mut content: Json = serde_json::from_slice(&observed.bytes).expect("a declaration");
    let config = content["config"].as_object_mut().expect("attributes");
    let mut all = config.remove("tags_all").unwrap_or_else(|| json!({}));
    all.as_object_mut().expect("tags").remove(Mark::KEY);
    config.insert("tags_all".into(), all);
    content
}

fn life(type_name: &'static str, touched: &'static str, first: Json, then: &[(&str, Json)]) -> Life {
    let mut changed = first.clone();
    for (name, value) in then {
        changed[name] = value.clone();
    }
    Life { type_name, first, then: changed, touched }
}

/// A resource of each service.
fn lives(zone: &str) -> Vec<Life> {
    let policy = json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Action": "sts:AssumeRole", "Effect": "Allow", "Principal": { "Service": "ec2.amazonaws.com" },
        }],
    });
    vec![
        life(
            "aws_sqs_queue",
            "visibility_timeout_seconds",
            json!({ "name": "jobs", "visibility_timeout_seconds": 60 }),
            &[("visibility_timeout_seconds", json!(90))],
        ),
        life(
            "aws_ssm_parameter",
            "value",
            json!({ "name": "/jobs/size", "type": "String", "value": "small" }),
            &[("value", json!("large"))],
        ),
        life(
            "aws_s3_bucket",
            "tags.team",
            json!({ "bucket": "data-bucket", "tags": { "team": "web" } }),
            &[("tags", json!({ "team": "ops" }))],
        ),
        life(
            "aws_iam_role",
            "description",
            json!({ "name": "runner", "description": "first", "assume_role_policy": policy.to_string() }),
            &[("description", json!("then"))],
        ),
        life(
            // Its tags: moto changes no description of a secret that has no value yet.
            "aws_secretsmanager_secret",
            "tags.team",
            json!({ "name": "db", "recovery_window_in_days": 0, "tags": { "team": "web" } }),
            &[("tags", json!({ "team": "ops" }))],
        ),
        life(
            "aws_dynamodb_table",
            "tags.team",
            json!({
                "name": "events", "billing_mode": "PAY_PER_REQUEST", "hash_key": "id",
                "attribute": [{ "name": "id", "type": "S" }], "tags": { "team": "web" },
            }),
            &[("tags", json!({ "team": "ops" }))],
        ),
        life(
            "aws_route53_record",
            "ttl",
            json!({ "zone_id": zone, "name": "www.example.com", "type": "A", "ttl": 300, "records": ["192.0.2.1"] }),
            &[],
        ),
    ]
}

/// Runs all lives at one time: the provider is one process, and most of the time it waits.
async fn all_live(server: Server, except: &[&str]) {
    let program = needed("RECONCILED_TEST_AWS_PROVIDER");
    let zone = server.zone().await;
    let cloud = Arc::new(Cloud::new(server, Path::new(&program)));
    let mut all = tokio::task::JoinSet::new();
    for life in lives(&zone).into_iter().filter(|life| !except.contains(&life.type_name)) {
        let cloud = cloud.clone();
        all.spawn(async move { cloud.live(&life).await });
    }
    while let Some(ended) = all.join_next().await {
        ended.expect("a life without a mistake");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_service_is_made_changed_healed_and_deleted_at_moto() {
    let server = Server::start(OsStr::new("moto_server"), "123456789012", |port, command| {
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
    });
    all_live(server.await, &[]).await;
}

/// `tests/run` installs it where it can, and says where it is.
#[tokio::test(flavor = "multi_thread")]
async fn each_service_is_made_changed_healed_and_deleted_at_ministack() {
    let Some(program) = installed("RECONCILED_TEST_MINISTACK") else { return };
    let server = Server::start(&program, "000000000000", |port, command| {
        command.env("BIND_HOST", "127.0.0.1").env("GATEWAY_PORT", port.to_string());
        command.env("DOCKER_HOST", "unix:///nonexistent");
    });
    // It says that buckets are encrypted, as AWS does since 2023; this provider, of 2021, would undo that for ever. Records are
    // those of moto: the provider waits half a minute after each of their changes.
    all_live(server.await, &["aws_s3_bucket", "aws_route53_record"]).await;
}
