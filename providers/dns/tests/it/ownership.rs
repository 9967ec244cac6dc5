//! Marks in TXT records at every backend: others are left alone and taken over whole, ours come and go with their
//! records.

use crate::{
    dnsd::{Dnsd, Kind, SECRET, provider_with},
    fake_cloudflare, fake_route53, fake_webhook,
    pdns::{KEY, Pdns},
    world::{self, Notes, apply, batch, converge, desired, diff, observe, observe_for},
};
use reconciled_dns::{
    ownership::{Naming, Ownership, TxtMarks},
    zonefile,
};
use reconciled_provider::{
    Cx, FieldChange, Focus, OWNER_FIELD, Observation, Op, Owner, Provider, Resource, ResourceId, SecretRef,
    Tracked, Version, Want,
};
use std::sync::Arc;

const ZONE: &str = "example.com";
const EXTERNAL: &str = "heritage=external-dns,external-dns/owner=k8s,external-dns/resource=ingress/a/b";

/// A backend with the zone: makes providers of an instance, with marks of its own kind or without.
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    /// Nobody can make a zone here, or see one.
    is_zoneless: bool,
    make: Box<dyn Fn(Ownership, bool) -> Arc<dyn Provider>>,
    pub(crate) cx: Cx,
    /// What has to live as long.
    _world: Box<dyn std::any::Any>,
}

impl Backend {
    pub(crate) fn of(&self, instance: &str, marks: Option<TxtMarks>) -> Arc<dyn Provider> {
        (self.make)(Ownership { instance: instance.into(), marks, external_dns: None }, true)
    }
    /// Somebody who leaves no mark but those in the records they write.
    pub(crate) fn hand(&self) -> Arc<dyn Provider> {
        (self.make)(Ownership { instance: "hand".into(), ..Ownership::default() }, false)
    }
    pub(crate) fn desired(&self, provider: &dyn Provider, records: &[&str]) -> Vec<Resource> {
        let records: Vec<String> = records.iter().map(|record| format!("{{{record}}}")).collect();
        let all = desired(provider, ZONE, &records);
        all.into_iter().filter(|resource| !self.is_zoneless || resource.id.0.contains('/')).collect()
    }
}

pub(crate) async fn backends() -> Vec<Backend> {
    let pdns = Pdns::start().await;
    let url = pdns.url.clone();
    let powerdns = move |ownership: Ownership, marks| {
        let mut config = reconciled_dns::powerdns::Config::new(&url);
        let instance = ownership.instance.clone();
        (config.marks, config.options.ownership) = (marks && ownership.marks.is_none(), ownership);
        reconciled_dns::powerdns::connect("test", &instance, config, SecretRef::Named("key".into())).unwrap()
    };
    let mut all = vec![Backend {
        name: "powerdns",
        is_zoneless: false,
        make: Box::new(powerdns),
        cx: Cx { secrets: world::cx(KEY).secrets, ..world::cx(KEY) },
        _world: Box::new(pdns),
    }];
    for kind in [Kind::Bind, Kind::Knot, Kind::PowerDns] {
        let server = Dnsd::with_example(kind).await;
        let (address, cx) = (server.address(), server.cx());
        let make = move |ownership: Ownership, _| {
            provider_with(&address, |config, _| config.options.ownership = ownership)
        };
        let name = match kind {
            Kind::Bind | Kind::BindSigned => "bind",
            Kind::Knot | Kind::KnotSigned => "knot",
            Kind::PowerDns => "powerdns by updates",
        };
        all.push(Backend { name, is_zoneless: true, make: Box::new(make), cx, _world: Box::new(server) });
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let files = move |ownership: Ownership, marks| {
        let mut config = zonefile::Config::new(&path);
        let instance = ownership.instance.clone();
        (config.marks, config.options.ownership) = (marks && ownership.marks.is_none(), ownership);
        zonefile::open("test", &instance, config).unwrap()
    };
    let (make, cx) = (Box::new(files), world::cx(""));
    all.push(Backend { name: "zonefile", is_zoneless: false, make, cx, _world: Box::new(directory) });
    let fake = Arc::new(fake_cloudflare::start());
    let cloudflare = fake.clone();
    let make = Box::new(move |ownership: Ownership, marks| {
        let instance = ownership.instance.clone();
        fake_cloudflare::provider_with(&cloudflare, &instance, |config| {
            (config.marks, config.options.ownership) = (marks && ownership.marks.is_none(), ownership);
        })
    });
    let cx = fake_cloudflare::cx();
    all.push(Backend { name: "cloudflare", is_zoneless: false, make, cx, _world: Box::new(fake) });
    let fake = Arc::new(fake_route53::start());
    let route53 = fake.clone();
    let make = Box::new(move |ownership: Ownership, _| {
        fake_route53::provider_with(&route53, |config| config.options.ownership = ownership)
    });
    let cx = fake_route53::cx();
    all.push(Backend { name: "route53", is_zoneless: false, make, cx, _world: Box::new(fake) });
    let fake = Arc::new(fake_webhook::start());
    let webhook = fake.clone();
    let make = Box::new(move |ownership: Ownership, _| {
        fake_webhook::provider_with(&webhook, |config| config.options.ownership = ownership)
    });
    all.push(Backend { name: "webhook", is_zoneless: true, make, cx: world::cx(""), _world: Box::new(fake) });
    all
}

fn owner(seen: &Observation, id: &str) -> Owner {
    seen.get(&ResourceId::from(id)).unwrap_or_else(|| panic!("{id} was not seen: {seen:#?}")).owner.clone()
}

fn other(name: &str) -> Owner {
    Owner::Other(name.into())
}

/// The takeover of `resource`, as the planner says it.
fn takeover(provider: &dyn Provider, resource: &Resource, seen: &Observation) -> Op {
    let observed = seen.get(&resource.id).unwrap().clone();
    let Owner::Other(from) = &observed.owner else { panic!("{} is nobody else's", resource.id) };
    let field = FieldChange::text(OWNER_FIELD, Some(from.to_string()), Some("this instance".into()));
    let mut delta = provider.compare(resource, &observed).unwrap_or_default();
    delta.fields.push(field);
    Op::Update { desired: resource.clone(), delta: delta.into(), observed: observed.into(), tracked: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_externaldns_and_octodns_are_theirs_until_they_are_taken_over() {
    for backend in backends().await {
        let (name, cx) = (backend.name, &backend.cx);
        let hand = backend.hand();
        let external = format!("values: ['{EXTERNAL}']");
        let theirs = backend.desired(
            &*hand,
            &[
                "name: www, type: A, values: [192.0.2.1]",
                &format!("name: a-www, type: TXT, {external}"),
                "name: api, type: A, values: [192.0.2.2]",
                &format!("name: extdns-api, type: TXT, {external}"),
                "name: octo, type: A, values: [192.0.2.3]",
                "name: _owner.a.octo, type: TXT, values: ['*octodns*']",
                "name: free, type: A, values: [192.0.2.4]",
            ],
        );
        converge(&*hand, cx, ZONE, &theirs, &[]).await;

        let ours = backend.of("dns1", None);
        let wanted = backend.desired(
            &*ours,
            &[
                "name: www, type: A, values: [192.0.2.1]",
                "name: api, type: A, values: [192.0.2.99]",
                "name: octo, type: A, values: [192.0.2.3]",
            ],
        );
        let seen = observe_for(&*ours, cx, ZONE, &wanted).await.unwrap();
        let [www, api, octo] = ["www", "api", "octo"].map(|name| format!("{name}.example.com./A"));
        assert_eq!(owner(&seen, &www), other("externaldns/k8s"), "{name}");
        assert_eq!(owner(&seen, &api), other("externaldns/k8s"), "{name}");
        assert_eq!(owner(&seen, &octo), other("octodns"), "{name}");
        assert_eq!(owner(&seen, "a-www.example.com./TXT"), other("externaldns/k8s"), "{name}");
        assert_eq!(owner(&seen, "free.example.com./A"), Owner::Unmarked, "{name}");
        let is_whole = |id: &str| ours.is_owned_whole(seen.get(&id.into()).unwrap());
        let whole = [&*www, &*octo, "a-www.example.com./TXT", "free.example.com./A"].map(is_whole);
        assert_eq!(whole, [true, true, false, false], "{name}");

        // Two at once; the third stays theirs.
        let wanted: Vec<Resource> = wanted.into_iter().filter(|r| r.id.0.contains('/')).collect();
        let take = |id: &str| {
            let resource = wanted.iter().find(|r| &*r.id.0 == id).unwrap();
            takeover(&*ours, resource, &seen)
        };
        let work = batch(ZONE, &seen, vec![take(&api), take(&octo)]);
        let notes = Notes::default();
        ours.apply(cx, &work, &notes).await.unwrap();
        assert_eq!(notes.counts(), [("done", 2)].into(), "{name}: {:?}", notes.outcomes);
        let seen = observe_for(&*ours, cx, ZONE, &wanted).await.unwrap();
        for mark in ["extdns-api.example.com./TXT", "_owner.a.octo.example.com./TXT"] {
            assert!(seen.get(&mark.into()).is_none(), "{name}: {mark} is still there");
        }
        for id in [&api, &octo] {
            assert!(!matches!(owner(&seen, id), Owner::Other(_)), "{name}: {id}");
        }
        assert_eq!(owner(&seen, &www), other("externaldns/k8s"), "{name}");
        let left = diff(&*ours, cx, ZONE, &wanted, &seen).await;
        assert!(left.is_empty(), "{name}: {left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_of_two_records_goes_only_with_both_and_other_values_stay() {
    for backend in backends().await.into_iter().filter(|b| ["bind", "powerdns"].contains(&b.name)) {
        let (name, cx) = (backend.name, &backend.cx);
        let hand = backend.hand();
        let records = [
            "name: old, type: A, values: [192.0.2.1]",
            "name: old, type: MX, values: [10 mail.example.net.]",
            &format!("name: old, type: TXT, values: ['{EXTERNAL}', 'a note']"),
        ];
        converge(&*hand, cx, ZONE, &backend.desired(&*hand, &records), &[]).await;
        let ours = backend.of("dns1", None);
        let wanted = backend.desired(&*ours, &records[..2]);
        let (a, mx) = ("old.example.com./A", "old.example.com./MX");
        let find = |id: &str| wanted.iter().find(|r| &*r.id.0 == id).unwrap();
        let seen = observe(&*ours, cx, ZONE).await.unwrap();
        let work = batch(ZONE, &seen, vec![takeover(&*ours, find(a), &seen)]);
        let notes = Notes::default();
        ours.apply(cx, &work, &notes).await.unwrap();
        let said = notes.outcome(&work, a);
        assert!(said.starts_with("failed") && said.contains("old.example.com./MX"), "{name}: {said}");
        assert_eq!(observe(&*ours, cx, ZONE).await.unwrap(), seen, "{name}: nothing was written");

        let both = vec![takeover(&*ours, find(a), &seen), takeover(&*ours, find(mx), &seen)];
        let notes = Notes::default();
        ours.apply(cx, &batch(ZONE, &seen, both), &notes).await.unwrap();
        assert_eq!(notes.counts(), [("done", 2)].into(), "{name}");
        let seen = observe(&*ours, cx, ZONE).await.unwrap();
        let text = seen.get(&"old.example.com./TXT".into()).unwrap();
        assert_eq!((&text.bytes[..], &text.owner), (&b"300\n\"a note\""[..], &Owner::Unmarked), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_not_born_with_the_mark_of_another() {
    for backend in backends().await.into_iter().filter(|b| ["bind", "zonefile"].contains(&b.name)) {
        let (name, cx) = (backend.name, &backend.cx);
        let hand = backend.hand();
        let left = format!("name: a-gone, type: TXT, values: ['{EXTERNAL}']");
        converge(&*hand, cx, ZONE, &backend.desired(&*hand, &[&left]), &[]).await;
        let ours = backend.of("dns1", None);
        let wanted = backend.desired(&*ours, &["name: gone, type: A, values: [192.0.2.1]"]);
        let seen = observe_for(&*ours, cx, ZONE, &wanted).await.unwrap();
        let deltas = diff(&*ours, cx, ZONE, &wanted, &seen).await;
        let error = deltas[&ResourceId::from("gone.example.com./A")].as_ref().unwrap_err();
        assert!(error.message.contains("`externaldns/k8s` at a-gone.example.com./TXT"), "{name}: {error}");
    }
}

pub(crate) fn txt(key: Option<&str>) -> TxtMarks {
    let naming = Naming::new("%{record_type}-own.", "", "any").unwrap();
    TxtMarks { naming, key: key.map(|name| SecretRef::Named(name.into())) }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_marks_come_stay_and_go_with_their_records() {
    for backend in backends().await {
        let (name, cx) = (backend.name, &backend.cx);
        let ours = backend.of("dns1", Some(txt(None)));
        let wanted = backend.desired(
            &*ours,
            &[
                "name: '@', type: MX, values: [10 mail.example.net.]",
                "name: www, type: A, values: [192.0.2.1]",
                "name: '*.dev', type: A, values: [192.0.2.2]",
                "name: note, type: TXT, values: [hello]",
                "name: alias, type: CNAME, values: [www.example.org.]",
                "name: _acme-challenge, type: TXT, values: [token]",
            ],
        );
        converge(&*ours, cx, ZONE, &wanted, &[]).await;
        let marks = [
            ("example.com./MX", "mx-own.example.com./TXT"),
            ("www.example.com./A", "a-own.www.example.com./TXT"),
            ("*.dev.example.com./A", "a-own.any.dev.example.com./TXT"),
            ("note.example.com./TXT", "txt-own.note.example.com./TXT"),
            ("alias.example.com./CNAME", "cname-own.alias.example.com./TXT"),
        ];
        let text = "\"heritage=external-dns,external-dns/owner=dns1,external-dns/resource=reconciled/zone/example.com\"";
        let bytes_of = |seen: &Observation, id: &str| {
            String::from_utf8(seen.get(&id.into()).unwrap_or_else(|| panic!("{name}: {id}")).bytes.to_vec())
                .unwrap()
        };
        // Another process, and another instance.
        for (instance, whose) in [("dns1", Owner::Ours), ("dns2", other("dns1"))] {
            let seen = observe(&*backend.of(instance, Some(txt(None))), cx, ZONE).await.unwrap();
            for (record, mark) in marks {
                assert_eq!(owner(&seen, record), whose, "{name}: {record} to {instance}");
                assert_eq!(bytes_of(&seen, mark).split_once('\n').unwrap().1, text, "{name}: {mark}");
            }
            assert_eq!(owner(&seen, "_acme-challenge.example.com./TXT"), Owner::Unmarked, "{name}");
            if instance == "dns1" {
                assert_eq!(owner(&seen, marks[0].1), Owner::System, "{name}: never foreign");
            }
        }

        // A change leaves the mark as it is, a deletion takes it along.
        let changed = backend.desired(&*ours, &["name: www, type: A, values: [192.0.2.7]"]);
        let gone = ["example.com./MX", "note.example.com./TXT"];
        converge(&*ours, cx, ZONE, &changed, &gone).await;
        let seen = observe(&*ours, cx, ZONE).await.unwrap();
        assert!(bytes_of(&seen, "a-own.www.example.com./TXT").ends_with(text), "{name}");
        for mark in ["mx-own.example.com./TXT", "txt-own.note.example.com./TXT"] {
            assert!(seen.get(&mark.into()).is_none(), "{name}: {mark} outlived its record");
        }

        // Marks that are written no longer go with their records all the same.
        let plain = backend.of("dns1", None);
        converge(&*plain, cx, ZONE, &[], &["www.example.com./A"]).await;
        let seen = observe(&*plain, cx, ZONE).await.unwrap();
        assert!(seen.get(&"a-own.www.example.com./TXT".into()).is_none(), "{name}");
    }
}

/// Puts the record that `declared` is beside the values of others, and returns what is remembered of that.
async fn share(provider: &dyn Provider, cx: &Cx, declared: &Resource) -> Tracked {
    let seen = observe_for(provider, cx, ZONE, std::slice::from_ref(declared)).await.unwrap();
    let merged = provider.merge(&[declared], seen.get(&declared.id), None, &[]).unwrap().unwrap();
    let hash = merged.resource.spec.hash().unwrap();
    converge(provider, cx, ZONE, &[merged.resource], &[]).await;
    Tracked { private: merged.ours, ..Tracked::new(declared.id.clone(), hash) }
}

/// Takes the values out again that are remembered so.
async fn leave(provider: &dyn Provider, cx: &Cx, tracked: Tracked) {
    let seen = observe(provider, cx, ZONE).await.unwrap();
    let observed = seen.get(&tracked.id).unwrap().clone();
    let left = provider.merge(&[], Some(&observed), Some(&tracked), &[]).unwrap().unwrap().resource;
    let desired = left.with(|resource| resource.scope = Arc::new(world::scope(ZONE)));
    let delta = provider.compare(&desired, &observed).unwrap();
    let (observed, tracked) = (observed.into(), Some(tracked.into()));
    let op = Op::Update { desired, delta: delta.into(), observed, tracked };
    let notes = Notes::default();
    provider.apply(cx, &batch(ZONE, &seen, vec![op]), &notes).await.unwrap();
    assert_eq!(notes.counts(), [("done", 1)].into(), "{:?}", notes.outcomes);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_two_instances_share_stays_under_the_mark_of_the_first_until_that_leaves() {
    for backend in
        backends().await.into_iter().filter(|b| ["powerdns", "zonefile", "cloudflare"].contains(&b.name))
    {
        let (name, cx) = (backend.name, &backend.cx);
        let (one, two) = (backend.of("dns1", None), backend.of("dns2", None));
        let id = "x.example.com./A";
        let x = |provider: &dyn Provider, ip: &str| {
            let all = backend.desired(provider, &[&format!("name: x, type: A, values: [{ip}], merge: true")]);
            all.into_iter().find(|resource| &*resource.id.0 == id).unwrap()
        };
        let zone = backend.desired(&*one, &["name: keep, type: A, values: [192.0.2.5]"]);
        converge(&*one, cx, ZONE, &zone, &[]).await;
        let is_seen = async |of_one: Owner, of_two: Owner, content: &str| {
            for (provider, expected) in [(&one, of_one), (&two, of_two)] {
                let seen = observe(&**provider, cx, ZONE).await.unwrap();
                assert_eq!(owner(&seen, id), expected, "{name}");
                let bytes = &seen.get(&id.into()).unwrap().bytes;
                assert_eq!(String::from_utf8_lossy(bytes), content, "{name}");
            }
        };
        let of_one = share(&*one, cx, &x(&*one, "192.0.2.1")).await;
        let of_two = share(&*two, cx, &x(&*two, "192.0.2.2")).await;
        is_seen(Owner::Ours, other("dns1"), "300\n192.0.2.1\n192.0.2.2").await;
        leave(&*two, cx, of_two).await;
        is_seen(Owner::Ours, other("dns1"), "300\n192.0.2.1").await;

        share(&*two, cx, &x(&*two, "192.0.2.3")).await;
        leave(&*one, cx, of_one).await;
        is_seen(Owner::Unmarked, Owner::Unmarked, "300\n192.0.2.3").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_whose_record_somebody_removed_stands_for_nothing_that_comes_later() {
    for backend in backends().await {
        let (name, cx) = (backend.name, &backend.cx);
        let ours = backend.of("dns1", Some(txt(None)));
        let [www, keep] = ["www", "keep"].map(|name| format!("name: {name}, type: A, values: [192.0.2.1]"));
        converge(&*ours, cx, ZONE, &backend.desired(&*ours, &[&www, &keep]), &[]).await;
        let id = ResourceId::from("www.example.com./A");
        converge(&*backend.hand(), cx, ZONE, &[], &[&id.0]).await;
        let [mark, kept] = ["www", "keep"].map(|name| format!("a-own.{name}.example.com./TXT"));
        let [mark, kept] = [mark, kept].map(|id| ResourceId::from(&*id));

        // Nobody else makes it anew as long as the mark is there.
        let other = backend.of("dns2", Some(txt(None)));
        let wanted = backend.desired(&*other, &[&www]);
        let seen = observe_for(&*other, cx, ZONE, &wanted).await.unwrap();
        let deltas = diff(&*other, cx, ZONE, &wanted, &seen).await;
        let error = deltas[&id].as_ref().unwrap_err();
        assert!(error.message.contains(&format!("`dns1` at {mark}")), "{name}: {error}");
        assert_eq!(other.remains(&world::scope(ZONE), &id, &seen), None, "{name}: it is not theirs");

        // It is there to be deleted, and goes with nothing else that is written; also not where marks are named otherwise by
        // now, and both look as if they were of nothing.
        let seen = observe(&*ours, cx, ZONE).await.unwrap();
        let remains = |id: &str| ours.remains(&world::scope(ZONE), &id.into(), &seen).map(|left| &left.id);
        assert_eq!((remains(&id.0), remains("keep.example.com./A")), (Some(&mark), None), "{name}");
        let naming = Naming::new("", "", "any").unwrap();
        let renamed = backend.of("dns1", Some(TxtMarks { naming, key: None }));
        for (provider, new) in [(&ours, "new"), (&renamed, "newer")] {
            let new = backend.desired(&**provider, &[&format!("name: {new}, type: A, values: [192.0.2.2]")]);
            converge(&**provider, cx, ZONE, &new, &[]).await;
            let seen = observe(&*ours, cx, ZONE).await.unwrap();
            assert!(seen.get(&mark).is_some() && seen.get(&kept).is_some(), "{name}: {seen:#?}");
        }
        converge(&*ours, cx, ZONE, &[], &[&mark.0]).await;
        let seen = observe(&*ours, cx, ZONE).await.unwrap();
        assert!(seen.get(&mark).is_none() && seen.get(&kept).is_some(), "{name}: {seen:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_mark_beside_a_record_says_is_known_where_that_record_alone_is_read() {
    let server = Pdns::start().await;
    let cx = &server.cx();
    let one = server.provider_of("dns1", |config| {
        (config.marks, config.options.ownership.marks) = (false, Some(txt(None)));
    });
    let two = server.provider_of("dns2", |_| {});
    let wanted = desired(&*one, ZONE, &["{name: x, type: A, values: [192.0.2.1]}".into()]);
    converge(&*one, cx, ZONE, &wanted, &[]).await;
    let x = wanted.iter().find(|resource| &*resource.id.0 == "x.example.com./A").unwrap();
    assert_eq!(owner(&observe(&*two, cx, ZONE).await.unwrap(), &x.id.0), other("dns1"));
    let scope = world::scope(ZONE);
    let tracked = [Tracked::new(x.id.clone(), x.spec.hash().unwrap())];
    let focus = Focus::Only(Arc::from([x.id.clone()]));
    let want = Want { scope: &scope, focus: &focus, desired: &[], tracked: &tracked, claims: &[] };
    let seen = two.observe(cx, &want).await.unwrap();
    assert_eq!(seen.covered, focus);
    assert_eq!(owner(&seen, &x.id.0), other("dns1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_marks_say_nothing_without_the_key_and_stay_as_they_are() {
    // The secret of these servers decodes to 33 octets, so that the key is refused by name first.
    for backend in backends().await.into_iter().filter(|b| b.name == "zonefile") {
        let cx = &backend.cx;
        let ours = backend.of("dns1", Some(txt(Some("key"))));
        let error = observe(&*ours, cx, ZONE).await.unwrap_err();
        assert!(error.message.contains("32 octets") && !error.chain().contains(SECRET), "{error}");
        let cx = &world::cx("an-octet-string-of-32-octets-key");
        let wanted = backend.desired(&*ours, &["name: www, type: A, values: [192.0.2.1]"]);
        converge(&*ours, cx, ZONE, &wanted, &[]).await;
        let mark: ResourceId = "a-own.www.example.com./TXT".into();
        let seen = observe(&*ours, cx, ZONE).await.unwrap();
        assert_eq!(owner(&seen, "www.example.com./A"), Owner::Ours);
        let sealed = seen.get(&mark).unwrap().bytes.clone();
        assert!(!String::from_utf8_lossy(&sealed).contains("heritage"));
        let changed = backend.desired(&*ours, &["name: www, type: A, values: [192.0.2.9]"]);
        converge(&*ours, cx, ZONE, &changed, &[]).await;
        let seen = observe(&*ours, cx, ZONE).await.unwrap();
        assert_eq!(seen.get(&mark).unwrap().bytes, sealed);
        let blind = observe(&*backend.of("dns2", Some(txt(None))), cx, ZONE).await.unwrap();
        assert_eq!(owner(&blind, "www.example.com./A"), other("externaldns/encrypted"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_stands_where_a_mark_would_is_kept_beside_it_or_refused() {
    for backend in backends().await.into_iter().filter(|b| ["bind", "powerdns", "zonefile"].contains(&b.name))
    {
        let (name, cx) = (backend.name, &backend.cx);
        let hand = backend.hand();
        let note = "name: a-own.www, type: TXT, values: [a note]";
        converge(&*hand, cx, ZONE, &backend.desired(&*hand, &[note]), &[]).await;
        let ours = backend.of("dns1", Some(txt(None)));
        let www = "name: www, type: A, values: [192.0.2.1]";
        converge(&*ours, cx, ZONE, &backend.desired(&*ours, &[www]), &[]).await;
        let seen = observe(&*ours, cx, ZONE).await.unwrap();
        let text = seen.get(&"a-own.www.example.com./TXT".into()).unwrap();
        assert!(text.bytes.starts_with(b"300\n\"a note\"\n\"heritage="), "{name}: {text:?}");
        assert_eq!(owner(&seen, "www.example.com./A"), Owner::Ours, "{name}");
        let (_, _, result) = apply(&*ours, cx, ZONE, &[], &["www.example.com./A"]).await;
        result.unwrap();
        let seen = observe(&*ours, cx, ZONE).await.unwrap();
        assert_eq!(
            &seen.get(&"a-own.www.example.com./TXT".into()).unwrap().bytes[..],
            b"300\n\"a note\"",
            "{name}"
        );

        let both = backend.desired(&*ours, &[www, note]);
        let deltas = diff(&*ours, cx, ZONE, &both, &seen).await;
        let error = deltas[&ResourceId::from("a-own.www.example.com./TXT")].as_ref().unwrap_err();
        assert!(error.message.contains("ownership mark of www.example.com./A"), "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_with_another_name_knows_no_zone_by_the_version_that_it_had_for_the_one_before() {
    let knot = Dnsd::with_example(Kind::Knot).await;
    let fake = fake_webhook::start();
    let of =
        |instance: &str| Ownership { instance: instance.into(), marks: Some(txt(None)), external_dns: None };
    let instances = ["dns1", "dns1", "dns2"];
    let by_updates =
        instances.map(|name| provider_with(&knot.address(), |config, _| config.options.ownership = of(name)));
    let by_webhook = instances
        .map(|name| fake_webhook::provider_with(&fake, |config| config.options.ownership = of(name)));
    for (cx, [one, again, other]) in [(knot.cx(), by_updates), (world::cx(""), by_webhook)] {
        let mut wanted = desired(&*one, ZONE, &["{name: www, type: A, values: [192.0.2.1]}".into()]);
        // Nobody can make a zone there.
        wanted.retain(|resource| resource.id.0.contains('/'));
        converge(&*one, &cx, ZONE, &wanted, &[]).await;
        let scopes = [world::scope(ZONE)];
        let known = one.versions(&cx, &scopes).await.unwrap();
        assert!(matches!(known[&scopes[0]], Version::At(_)), "{known:?}");
        assert_eq!(observe(&*one, &cx, ZONE).await.unwrap().version, known[&scopes[0]]);
        assert_eq!(again.versions(&cx, &scopes).await.unwrap(), known);
        assert_ne!(
            other.versions(&cx, &scopes).await.unwrap(),
            known,
            "nothing else would have it read the marks"
        );
    }
}
