//! How a certificate fares: served where it should be, and renewed in time.
//!
//! A renewal that nobody uses is the most frequent complaint about tools like this one. So what counts is what a service
//! shows ([`served`](crate::served)): it is Degraded while an address in `serve` answers with another certificate than the one that is kept, a moment
//! after services were told of it, and Unknown while one does not answer: a service that waits for its certificate has to be able to start.

use crate::{
    Config,
    acme::{self, Acme},
    aside::aside,
    calm::{InPlace, Look},
    compare,
    deliver::{self, View},
    duration,
    kept::{Issued, Keep, Unread},
    moment::moment,
    observe::{self, Eye},
    place::{self, Files, Place},
    renewal, served,
    wish::{Issue, Wish},
    x509,
};
use reconciled_provider::{Cx, Ending, Error, Fact, Hash, Health, ResourceId, Want};
use std::{path::Path, sync::Arc, time::Duration};

/// How long services may take to show what they were told of, in seconds: most answer before they have read it.
const READING: u64 = 3;

/// By how much clocks may differ before a person is told of a certificate that is not valid yet, in seconds.
const CLOCKS: u64 = 3_600;

/// How the certificate of a scope fares. Asks the authority when it would like it renewed, where it is time to; and from now on
/// watches it, as only passes ask.
pub(crate) async fn health(
    acme: &Acme,
    cx: &Cx,
    config: &Config,
    eye: &Eye<'_>,
    want: &Want<'_>,
) -> Result<Vec<(ResourceId, Health)>, Error> {
    let Eye { keep, watches, sights, memory, .. } = *eye;
    let name = &*want.scope.name;
    if want.desired.is_empty() {
        return undeclared(cx, eye, want);
    }
    let question = want.desired.first().and_then(|desired| desired.spec.hash());
    let mut look = None;
    let in_place = memory.in_place(name);
    if let Some(question) = question.filter(|_| watches.again(name) && in_place.is_none()) {
        let now = cx.clock.now();
        let stamps = |files: &Arc<Files>| memory.sweeps.kept(name, now).or_else(|| place::stamps(files));
        match memory.well.recall(name, question, now, stamps) {
            Ok(()) => return Ok(vec![(ResourceId::from(name), Health::Healthy)]),
            Err(begun) => look = Some(begun),
        }
    }
    let wish = want.desired.first().and_then(|desired| Wish::decode(desired.spec.bytes()?));
    let Some(wish) = wish else { return Ok(Vec::new()) };
    let mut issued = match keep.in_use(name) {
        Err(Unread::Broken(path)) => {
            return Ok(vec![(ResourceId::from(name), of_broken(cx, &path, in_place.as_ref()))]);
        }
        Err(Unread::Failed(error)) => return Err(error),
        Ok(issued) => issued,
    };
    // Whatever becomes of the questions below.
    observe::watch(cx, watches, name, &wish, issued.as_ref());
    let authority = match issued.as_ref().and_then(|issued| issued.issuer.as_deref()) {
        Some(known) => wish.issuer_of(Some(known)).authority(),
        // Of one that was adopted nobody knows.
        None => wish.issuers().find_map(Issue::authority),
    };
    if let Some(authority) = authority {
        // An authority that does not answer is no reason to think ill of the certificate.
        let _ = acme::suggest(acme, cx, config, keep, name, authority).await;
        issued = keep.issued(name)?;
        observe::watch(cx, watches, name, &wish, issued.as_ref());
    }
    let Some(mut issued) = issued else { return Ok(Vec::new()) };
    if let Some(wish) = with_issuers_of_today(&issued.wish, &wish) {
        issued.wish = wish;
        keep.put_issued(name, &issued)?;
    }
    let facts = issued.facts()?;
    let now = cx.clock.now().as_secs();
    let due = renewal::due_at(facts.not_before, facts.not_after, wish.renew, issued.suggested.as_ref());
    let (mut why, mut is_silent) = (Vec::new(), false);
    why.extend(lateness(due, facts.not_after, now));
    if now.saturating_add(CLOCKS) < facts.not_before {
        why.push(format!("it is {}: is the clock of this machine right?", facts.not_yet()));
    }
    // What is kept is of no use to whoever reads the files.
    let late = in_place.and_then(|it| lateness(it.due, it.end, now));
    why.extend(late.map(|late| format!("in its place is another one, and {late}")));
    why.extend(compare::key_mismatch(&wish, &facts));
    let by = wish.issuer_of(issued.issuer.as_deref());
    let signer = observe::signer(cx, keep, by);
    // One that we issue is renewed itself; of one that the host holds nobody else says a word.
    if let (Issue::Secret { .. }, Some(signer)) = (by, &signer)
        && facts.not_after >= signer.not_after
    {
        let end = moment(signer.not_after);
        why.push(format!("its issuer is over at {end}, and all that it signed: give the host another one"));
    }
    if signer.is_some_and(|signer| compare::is_of_earlier_key(&facts, &signer)) {
        why.push("it is signed by an earlier key of its issuer".into());
    }
    let unusable = wish.issuers().filter_map(Issue::authority).find_map(|it| acme::trouble(keep, it));
    why.extend(unusable.map(|error| {
        let hint = error.hint.clone().unwrap_or_default();
        format!("its account cannot order another one: {}; {hint}", error.chain())
    }));
    let is_well = why.is_empty();
    // Who shows it may show another one at any moment, and an authority is asked again in time.
    let asked = issued.suggested.as_ref().map_or(issued.unasked_until, |suggested| suggested.ask_again);
    let asked = if authority.is_some() { asked } else { u64::MAX };
    if let Some(look) = look.filter(|_| is_well && wish.serve.is_empty())
        && let Some(exact) = observe::kept_files(keep, name, &wish, &issued)?
    {
        let until = renewal::late_at(due, facts.not_after).min(facts.not_after).min(asked);
        let files = Files { exact, way: None };
        if let Some(stamps) = place::stamps(&files) {
            let until = Duration::from_secs(until);
            memory.well.learn(name, look, (files, stamps), cx.clock.now(), ((), until));
        }
    }
    let is_told = issued.told.as_deref() == Some(&*facts.fingerprint) && issued.told_again == 0;
    let seen = served::look(&wish, facts.key).await;
    sights.remember(name, &seen, now);
    for (address, sight) in seen {
        match sight {
            Ok(sight) if sight.fingerprint == facts.fingerprint => {}
            Ok(_) if issued.told_again > 0 => {
                let times = issued.told_again;
                why.push(format!("{address} serves another certificate (told again {times} times)"));
            }
            Ok(_) => why.push(format!("{address} serves another certificate")),
            // Whoever serves it may be waiting for this certificate to be ready.
            Err(_) => is_silent = true,
        }
    }
    let health = match (why.is_empty(), is_silent) {
        (true, false) => Health::Healthy,
        (true, true) => Health::Unknown,
        (false, _) if is_well && is_told && (issued.told_at..issued.told_at + READING).contains(&now) => {
            Health::Progressing { why: why.join("; "), recheck: Duration::from_secs(1) }
        }
        (false, _) => Health::Degraded { why: why.join("; ") },
    };
    Ok(vec![(ResourceId::from(name), health)])
}

/// How a certificate fares of which what is kept, at `path`, is broken: the next pass sets that aside, and until then what is in its
/// place counts.
fn of_broken(cx: &Cx, path: &Path, in_place: Option<&InPlace>) -> Health {
    let late = in_place.and_then(|it| lateness(it.due, it.end, cx.clock.now().as_secs()));
    let broken = format!("{} is broken", path.display());
    Health::Degraded { why: [broken].into_iter().chain(late).collect::<Vec<_>>().join("; ") }
}

/// That it is late or over, where it is.
fn lateness(due: u64, not_after: u64, now: u64) -> Option<String> {
    if now >= not_after {
        return Some(format!("it is over since {}", moment(not_after)));
    }
    let left = duration::show(not_after - now);
    (now >= renewal::late_at(due, not_after))
        .then(|| format!("it should have been renewed at {}, and is over in {left}", moment(due)))
}

/// How a certificate fares that is kept and that no manifest which can be read declares: it stays as it is until one does, and
/// its end does not wait for that.
fn undeclared(cx: &Cx, eye: &Eye<'_>, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
    let name = &*want.scope.name;
    let is_tracked = want.tracked.iter().any(|tracked| *tracked.id.0 == *name);
    let Some(issued) = eye.keep.issued(name)?.filter(|_| is_tracked) else { return Ok(Vec::new()) };
    let facts = issued.facts()?;
    let (now, end) = (cx.clock.now(), facts.not_after);
    let due = renewal::due_at(facts.not_before, end, issued.wish.renew, issued.suggested.as_ref());
    // Nothing else has it looked at when there is more to say.
    let moments = [renewal::late_at(due, end), end];
    let next = moments.into_iter().find(|at| *at > now.as_secs()).unwrap_or(end);
    let directory = &issued.wish.output.directory;
    eye.watches.set(name, directory, next, Duration::from_secs(next).saturating_sub(now));
    let why = lateness(due, end, now.as_secs());
    let why = why.map(|why| format!("{why}; no manifest that can be read declares it, so nothing renews it"));
    Ok(why.map(|why| (ResourceId::from(name), Health::Degraded { why })).into_iter().collect())
}

/// What was wished for, with what its issuers say of themselves now, where that is something else. Where they may be written to
/// stays as it was: that is how it is known that they are to be told.
fn with_issuers_of_today(before: &Wish, wish: &Wish) -> Option<Wish> {
    let mut today = Wish { issuer: wish.issuer.clone(), others: wish.others.clone(), ..before.clone() };
    for issuer in std::iter::once(&mut today.issuer).chain(&mut today.others) {
        let Issue::Acme(authority) = issuer else { continue };
        let mut known = before.issuers().filter_map(Issue::authority);
        let known = known.find(|it| it.server == authority.server && it.binding == authority.binding);
        if let Some(known) = known {
            authority.email.clone_from(&known.email);
        }
    }
    (before.issuer_names == wish.issuer_names && today != *before).then_some(today)
}

/// When the certificate ends that is in use, and what was last seen of it.
pub(crate) fn ending(cx: &Cx, eye: &Eye<'_>, name: &str) -> Result<Option<Ending>, Error> {
    let endings = &eye.memory.endings;
    let ending = match endings.recall(name, Hash::default(), cx.clock.now(), |files| place::stamps(files)) {
        Ok(ending) => Some(ending),
        Err(look) => aside(|| read_ending(cx, eye, name, look))?,
    };
    let sooner = |ending: Ending| match eye.memory.in_place(name) {
        Some(InPlace { due, end }) if Duration::from_secs(end) < ending.at => {
            Ending { at: Duration::from_secs(end), renewed_at: Duration::from_secs(due), ..ending }
        }
        _ => ending,
    };
    Ok(ending.map(sooner))
}

fn read_ending(cx: &Cx, eye: &Eye<'_>, name: &str, look: Look) -> Result<Option<Ending>, Error> {
    let in_place = |InPlace { due, end }| Ending {
        id: name.into(),
        at: Duration::from_secs(end),
        renewed_at: Duration::from_secs(due),
        served: Vec::new(),
    };
    let (issued, instead) = match eye.keep.in_use(name) {
        Ok(issued) => (issued, None),
        Err(Unread::Broken(_)) => (None, eye.memory.in_place(name).map(in_place)),
        Err(Unread::Failed(error)) => return Err(error),
    };
    let Some(issued) = issued else {
        eye.memory.endings.forget(name);
        return Ok(instead);
    };
    let facts = issued.facts()?;
    let renew = issued.wish.renew;
    let due = renewal::due_at(facts.not_before, facts.not_after, renew, issued.suggested.as_ref());
    let (at, renewed_at) = (Duration::from_secs(facts.not_after), Duration::from_secs(due));
    let served = eye.sights.shown(name, &facts.fingerprint);
    let ending = Ending { id: name.into(), at, renewed_at, served };
    // What is shown is looked at by others, at any moment.
    if issued.wish.serve.is_empty() && ending.served.is_empty() {
        let files = Files { exact: eye.keep.files(name)?, way: None };
        if let Some(stamps) = place::stamps(&files) {
            let answer = (ending.clone(), Duration::MAX);
            eye.memory.endings.learn(name, look, (files, stamps), cx.clock.now(), answer);
        }
    }
    Ok(Some(ending))
}

/// What a person wants to know of a certificate. Asks the services that should show it.
pub(crate) async fn facts(place: &dyn Place, keep: &Keep, name: &str) -> Result<Vec<Fact>, Error> {
    let mut told = Vec::new();
    let mut tell = |name: &str, value: String| told.push(Fact { name: name.into(), value });
    let issued = match keep.in_use(name) {
        Ok(issued) => issued,
        Err(Unread::Broken(path)) => {
            tell("broken", path.display().to_string());
            None
        }
        Err(Unread::Failed(error)) => return Err(error),
    };
    if let Some(issued) = issued {
        let wanted = deliver::files(&issued.wish.output, &issued);
        let view = View::of(place, &issued.wish.output).await;
        let in_place = observe::other_in_place(&view, &wanted, &issued.facts()?);
        let Issued { wish, suggested, chain, issuer, .. } = issued;
        for authority in wish.issuers().filter_map(Issue::authority) {
            let id = acme::account_id(authority);
            if let Some(wait) = keep.wait(&id)? {
                tell("left alone", format!("asked again at {}: {}", moment(wait.until), wait.message));
            }
            if let Some(error) = acme::trouble(keep, authority) {
                tell("account", error.chain());
                continue;
            }
            let account = keep.account(&id)?;
            if let Some(refused) = account.as_ref().and_then(|account| account.refused_email.as_ref()) {
                tell("account email", format!("not taken: {}", refused.message));
            }
            if let Some(change) = account.and_then(|account| account.change) {
                let (again, message) = (moment(change.again_at), change.message);
                tell("account key", format!("not changed, tried again at {again}: {message}"));
            }
        }
        let facts = x509::leaf("the certificate that is kept", &chain)?;
        let due = renewal::due_at(facts.not_before, facts.not_after, wish.renew, suggested.as_ref());
        tell("valid until", moment(facts.not_after));
        tell("renewal at", moment(due));
        let known = issuer.as_deref().map(Issue::words_of).unwrap_or_default();
        let by = if facts.issuer.is_empty() { known } else { facts.issuer };
        tell("issued by", by);
        tell("fingerprint", facts.fingerprint.clone());
        if let Some(other) = in_place {
            let until = moment(other.not_after);
            tell("in its place", format!("{}, another one, until {until}", other.fingerprint));
        }
        let ders = x509::chain("the certificate that is kept", &chain)?;
        tell("chain", x509::path(ders.iter().map(Vec::as_slice)));
        for (address, sight) in served::look(&wish, facts.key).await {
            let (at, chain_at) = (format!("served at {address}"), format!("chain at {address}"));
            match sight {
                Ok(sight) => {
                    let which =
                        if sight.fingerprint == facts.fingerprint { "this one" } else { "another one" };
                    tell(&at, format!("{}, {which}, until {}", sight.fingerprint, moment(sight.until)));
                    tell(&chain_at, sight.chain);
                }
                Err(why) => tell(&at, format!("no answer: {why}")),
            }
        }
        if let Some(explanation) = suggested.and_then(|suggested| suggested.explanation) {
            tell("why then", explanation);
        }
    }
    for keep in keep.issuers(name)? {
        for record in keep.lasting(name)? {
            tell("record to declare", record.to_string());
        }
        if let Some(attempt) = keep.attempt(name)? {
            tell("being issued", attempt.order.unwrap_or_else(|| "no order yet".into()));
        }
        if let Some(busy) = keep.busy(name)? {
            tell("left alone", format!("asked again at {}: {}", moment(busy.until), busy.message));
        }
        if let Some(outage) = keep.outage(name)? {
            tell("no answer", format!("since {}: {}", moment(outage.since), outage.message));
        }
        let refusals = keep.refusals(name)?;
        if refusals.count > 0 {
            let (count, until) = (refusals.count, moment(refusals.until));
            tell("refused", format!("{count} in a row, asked again at {until}: {}", refusals.message));
        }
    }
    Ok(told)
}
