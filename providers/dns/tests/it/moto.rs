//! Route 53 as others imitate it: moto, a server in Python that `tests/run` installs.

use crate::{
    pdns::free_port,
    world::{self, Notes, converge, desired, normalize, observe, plan, scope},
};
use reconciled_dns::route53::{Config, Credentials, connect};
use reconciled_provider::{Cx, ErrorKind, Op, Provider, SecretRef, Version};
use reconciled_testkit::PATIENCE;
use std::{
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

const ZONE: &str = "example.com";

/// A running moto.
struct Moto {
    child: Child,
    port: u16,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Moto {
    async fn start() -> Moto {
        for _ in 0..5 {
            let port = free_port();
            let child = Command::new("moto_server")
                .args(["-H", "127.0.0.1", "-p", &port.to_string()])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| {
                    panic!("cannot start moto_server ({error}): tests/run installs it, or pip install 'moto[server]'")
                });
            let mut moto = Moto { child, port };
            let deadline = Instant::now() + PATIENCE;
            while moto.child.try_wait().unwrap().is_none() && Instant::now() < deadline {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return moto;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        panic!("moto_server did not come up in five attempts");
    }

    fn provider(&self, change: impl FnOnce(&mut Config)) -> Arc<dyn Provider> {
        let mut config = Config {
            url: format!("http://127.0.0.1:{}", self.port),
            create_zones: true,
            ..Config::default()
        };
        change(&mut config);
        let key = || SecretRef::Named("key".into());
        connect(
            "test",
            config,
            Credentials { access_key_id: key(), secret_access_key: key(), session_token: None },
        )
        .unwrap()
    }
}

fn cx() -> Cx {
    world::cx("secret-of-moto")
}

fn records(list: &[&str]) -> Vec<String> {
    list.iter().map(|record| format!("{{{record}}}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_lives_and_dies_at_moto() {
    let moto = Moto::start().await;
    let provider = moto.provider(|_| {});
    assert_eq!(observe(&*provider, &cx(), ZONE).await.unwrap().version, Version::Absent);
    let mut list = records(&[
        r#"name: "@", type: A, values: [192.0.2.2, 192.0.2.1], ttl: 60"#,
        r#"name: "@", type: MX, values: [10 mail.example.com., 20 @]"#,
        r#"name: "@", type: CAA, values: ['0 issue "letsencrypt.org; a=b"']"#,
        "name: WWW, type: CNAME, values: [Example.COM.]",
        r#"name: v6, type: AAAA, values: ["2001:DB8:0:0:1::1"]"#,
        "name: _sip._tcp, type: SRV, values: [10 60 5060 sip.example.com.]",
        r#"name: "*.dev", type: A, values: [192.0.2.9]"#,
        r#"name: txt, type: TXT, values: ["a;b", "<&>", "it's", "quo\"te"]"#,
    ]);
    list.extend((0..700).map(|i| format!("{{name: h{i}, type: A, values: [10.0.{}.{}]}}", i >> 8, i & 255)));
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &list), &[]).await;
    let listed = provider.versions(&cx(), &[scope(ZONE), scope("gone.example")]).await.unwrap();
    assert_eq!(listed, [(scope("gone.example"), Version::Absent)].into());

    // One record of many, and CNAME ↔ A.
    list[8] = list[8].replace("10.0", "10.9");
    list[3] = "{name: www, type: A, values: [192.0.2.7]}".into();
    let wanted = desired(&*provider, ZONE, &list);
    converge(&*provider, &cx(), ZONE, &wanted, &["www.example.com./CNAME"]).await;

    // A zone goes when nothing is left in it.
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let goes = |id: &&str| !["example.com./NS", "example.com./SOA", "example.com."].contains(id);
    let ids: Vec<&str> = seen.resources.iter().map(|observed| &*observed.id.0).filter(goes).collect();
    converge(&*provider, &cx(), ZONE, &[], &ids).await;
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let observed = seen.get(&"example.com.".into()).unwrap().clone();
    let batch = world::batch(ZONE, &seen, vec![Op::Delete { observed: observed.into(), tracked: None }]);
    let notes = Notes::default();
    provider.apply(&cx(), &batch, &notes).await.unwrap();
    assert_eq!(notes.counts(), [("gone", 1)].into());
    assert_eq!(observe(&*provider, &cx(), ZONE).await.unwrap().version, Version::Absent);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_behind_the_last_look_is_refused_by_moto_and_named() {
    let moto = Moto::start().await;
    let (provider, other) = (moto.provider(|_| {}), moto.provider(|_| {}));
    let list = records(&["name: a, type: A, values: [192.0.2.1]", "name: b, type: A, values: [192.0.2.2]"]);
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &list), &[]).await;
    let seen = observe(&*provider, &cx(), ZONE).await.unwrap();
    let changed = desired(&*provider, ZONE, &[list[0].replace("2.1", "2.9"), list[1].replace("2.2", "2.9")]);
    let batch = plan(&*provider, &cx(), ZONE, &changed, &[], &seen).await;
    let theirs = desired(&*other, ZONE, &[list[0].replace("2.1", "2.66"), list[1].clone()]);
    converge(&*other, &cx(), ZONE, &theirs, &[]).await;
    let error = provider.apply(&cx(), &batch, &Notes::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    converge(&*provider, &cx(), ZONE, &changed, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moto_knows_how_far_a_change_has_come() {
    let moto = Moto::start().await;
    let provider = moto.provider(|config| config.insync = true);
    let (wanted, problems) =
        normalize(&*provider, ZONE, "records: [{name: a, type: A, values: [192.0.2.1]}]");
    assert!(problems.is_empty(), "{problems:?}");
    // It says at once that every name server has it.
    converge(&*provider, &cx(), ZONE, &wanted, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moto_keeps_aliases_and_routed_sets_as_they_are_declared() {
    let moto = Moto::start().await;
    let provider = moto.provider(|_| {});
    let mut list: Vec<String> = crate::routing::ROUTED.map(str::to_owned).to_vec();
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &list), &[]).await;
    list[2] = list[2].replace("weight: 10", "weight: 20");
    list[4] = list[4].replace("guten tag", "moin");
    converge(&*provider, &cx(), ZONE, &desired(&*provider, ZONE, &list), &[]).await;
}
