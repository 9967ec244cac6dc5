//! What is there of a certificate: what is kept, and the files where it is used.
//!
//! What is as declared is reported in the bytes declared; else what differs is said, each thing in a line. So a new version
//! of this program that writes a wish in another way finds the same certificate as good as before.

use crate::{
    acme,
    aside::aside,
    calm::{InPlace, Look, Memory, Seen},
    compare::{self, Deviant, Difference, unlike},
    deliver::{self, View},
    found::{self, Theirs, found},
    heirs::Heirs,
    kept::{Issued, Keep, Unread},
    moment::moment,
    owner::{self, Stranger},
    place::{self, File, Files, Place, way},
    renewal,
    served::{self, Sights},
    sign,
    watch::Watches,
    wish::{Authority, Issue, Output, Wish},
    x509::{self, Facts},
};
use reconciled_provider::{
    Cx, Error, Hash, Observation, Observed, Owner, ResourceId, Sealed, Version, Want, secret_output,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// What is known of one certificate at one moment.
pub(crate) struct Standing {
    /// What is kept of it.
    pub(crate) issued: Option<Issued>,
    /// What is kept of it is broken: what is in its place counts.
    is_broken: bool,
    /// What it says, if it can be read.
    pub(crate) facts: Option<Facts>,
    /// It is one of its key.
    fits: bool,
    /// What another certificate is needed for.
    pub(crate) unlike: Vec<Difference>,
    /// What is not right with its files.
    files: Vec<Difference>,
    /// What is in its place instead of it, where that can be read.
    in_place: Option<Facts>,
    /// Marks of what is in its files instead of what should be.
    contents: BTreeMap<String, Hash>,
    /// Directories that its files are still in.
    left: Vec<String>,
    /// Services do not know of it yet.
    pub(crate) untold: bool,
}

impl Standing {
    /// Looks at the certificate `name`; none when nothing is there.
    pub(crate) fn look(
        cx: &Cx,
        keep: &Keep,
        name: &str,
        wish: &Wish,
        view: &View,
    ) -> Result<Option<Standing>, Error> {
        let now = cx.clock.now().as_secs();
        let (kept, broken) = match keep.in_use(name) {
            Ok(kept) => (kept, None),
            Err(Unread::Broken(path)) => (None, Some(path)),
            Err(Unread::Failed(error)) => return Err(error),
        };
        let is_broken = broken.is_some();
        let unusable = |what: &str| Standing {
            issued: None,
            is_broken,
            facts: None,
            fits: false,
            unlike: vec![Difference::new("certificate", what, "issued anew")],
            files: Vec::new(),
            in_place: None,
            contents: BTreeMap::new(),
            left: Vec::new(),
            untold: false,
        };
        let is_kept = kept.is_some();
        let issued = match (kept, &broken) {
            (Some(issued), _) => issued,
            (None, Some(path)) => match found::left_of(path, wish, found(wish, view)?)? {
                Some(issued) => *issued,
                None => return Ok(Some(unusable(&format!("{} is broken", path.display())))),
            },
            (None, None) => match found(wish, view)? {
                Theirs::Nothing => return Ok(None),
                Theirs::NoFiles(what) => return Ok(Some(unusable(&what))),
                Theirs::Files(issued) => *issued,
            },
        };
        let Ok(facts) = issued.facts() else { return Ok(Some(unusable("cannot be read"))) };
        let by = wish.issuer_of(issued.issuer.as_deref());
        let signer = signer(cx, keep, by);
        let mut unlike = unlike(wish, &facts, Some(&issued), signer.as_ref(), now);
        // Of an authority another one would begin no sooner: then it is the clock of today that is wrong, and orders are counted.
        let is_ours = !matches!(by, Issue::Acme(_));
        if is_ours && facts.is_early(now) && !compare::may_be_behind(&*cx.clock) {
            unlike.push(Difference::renewal("notBefore", facts.not_yet(), "valid now"));
        }
        let fits = issued.is_of_key();
        if !fits {
            unlike.push(Difference::new("certificate", "is not one of its key", "issued anew"));
        }
        if is_kept && keep.renewal(name)?.is_some_and(|asked| asked.fingerprint == facts.fingerprint) {
            unlike.push(Difference::renewal("renew", "asked for by a person", "renewed"));
        }
        let mut wanted = deliver::files(&wish.output, &issued);
        if !is_kept && let Some(key) = wanted.iter_mut().find(|file| file.name == deliver::KEY) {
            // The same key, in whatever form: it is written in the one declared once it is taken over.
            let theirs = deliver::others(view, std::slice::from_ref(&*key)).next();
            if let Some(bytes) = theirs.map(|(_, bytes)| bytes.to_vec()) {
                key.bytes = bytes.into();
            }
        }
        let is_unplaced = issued.is_unplaced;
        let trouble = |what: String| Difference {
            is_due: is_unplaced,
            ..Difference::new("output", what, "as declared")
        };
        let mut files: Vec<Difference> =
            deliver::troubles(view, &wish.output, &wanted)?.into_iter().map(trouble).collect();
        let marked = |(name, bytes): (&str, &[u8])| (name.to_owned(), cx.secrets.mark(bytes).0);
        let contents = deliver::others(view, &wanted).map(marked).collect();
        let mark = keep.mark(name);
        match is_kept {
            true => {
                files.extend(view.disorder(&mark)?.into_iter().map(trouble));
                files.extend(view.left_over().map(|left| Difference::due("output", left, "as declared")));
            }
            false => files.extend(view.marked_otherwise(&mark)?.map(trouble)),
        }
        if is_kept && files.is_empty() && view.is_unmarked()? {
            files.push(Difference::due("state", "taken over, and not marked as ours", "marked"));
        }
        files.extend(broken.as_deref().map(is_broken_at));
        if is_unplaced && files.is_empty() {
            // Or what somebody else does to the files from now on would be taken for ours.
            files.push(Difference::due("state", "in place, and not known to be", "known to be"));
        }
        let in_place = other_in_place(view, &wanted, &facts).filter(|_| is_kept);
        let is_elsewhere = |output: &&Output| output.directory != wish.output.directory;
        let left = std::iter::once(&issued.wish.output).chain(&issued.leaving).filter(is_elsewhere);
        let left = left.map(|output| output.directory.clone()).collect();
        // Whoever put files there that we did not has told their service.
        let untold = is_kept && !wish.reload.is_empty() && issued.told.as_ref() != Some(&facts.fingerprint);
        Ok(Some(Standing {
            issued: is_kept.then_some(issued),
            is_broken,
            facts: Some(facts),
            fits,
            unlike,
            files,
            in_place,
            contents,
            left,
            untold,
        }))
    }

    /// True when it is better than none: it can be used until another one is there.
    pub(crate) fn is_of_use(&self, now: u64) -> bool {
        self.fits && self.facts.as_ref().is_some_and(|facts| now < facts.not_after)
    }

    /// Everything that is not as declared.
    fn differences(&self, wish: &Wish) -> Vec<Difference> {
        let files = self.files.iter().cloned();
        let units = wish.reload.iter().cloned().collect::<Vec<_>>().join(" ");
        let told = Difference::due("reload", "has not read the files since they changed", units);
        let left =
            |directory| Difference::due("output", format!("it is still in {directory}"), "as declared");
        let left = self.left.iter().map(left);
        self.unlike.iter().cloned().chain(files).chain(left).chain(self.untold.then_some(told)).collect()
    }
}

/// That a file of what is kept is broken, which nobody declared.
fn is_broken_at(path: &Path) -> Difference {
    Difference::due("state", format!("{} is broken", path.display()), "set aside")
}

/// The certificate that is in place of the one that is `kept`, whose files are to be `wanted`.
pub(crate) fn other_in_place(view: &View, wanted: &[File], kept: &Facts) -> Option<Facts> {
    let (_, chain) = deliver::others(view, wanted).find(|(name, _)| *name == deliver::CHAIN)?;
    let facts = x509::leaf("what is in its place", std::str::from_utf8(chain).ok()?).ok()?;
    (facts.fingerprint != kept.fingerprint).then_some(facts)
}

/// What the certificate says that signs, where it is one of ours and there already.
pub(crate) fn signer(cx: &Cx, keep: &Keep, issuer: &Issue) -> Option<Facts> {
    match issuer {
        Issue::Certificate(name) => keep.issued(name).ok()??.facts().ok(),
        Issue::Secret { cert, .. } => {
            let cert = cx.secrets.reveal(&Issue::secret(cert)).ok()?;
            x509::leaf("the certificate of the issuer", cert.reveal_str().ok()?).ok()
        }
        Issue::SelfSigned | Issue::Acme(_) => None,
    }
}

/// The certificate that signs, with its key; none while it is not there.
pub(crate) fn signing(cx: &Cx, keep: &Keep, issuer: &Issue) -> Result<Option<sign::Ca>, Error> {
    match issuer {
        Issue::Certificate(name) => {
            let now = cx.clock.now().as_secs();
            // One that is not valid yet is about to be issued anew.
            let is_early = |issued: &Issued| issued.facts().is_ok_and(|it| it.is_early(now));
            let issued = keep.issued(name)?.filter(|issued| !is_early(issued));
            Ok(issued.map(|issued| sign::Ca { chain: issued.chain.clone(), key: issued.key.secret() }))
        }
        Issue::Secret { cert, key, .. } => {
            let chain = cx.secrets.reveal(&Issue::secret(cert))?.reveal_str()?.to_owned();
            Ok(Some(sign::Ca { chain, key: cx.secrets.reveal(&Issue::secret(key))? }))
        }
        Issue::SelfSigned | Issue::Acme(_) => Ok(None),
    }
}

/// What looking needs, and who has to know what was seen.
pub(crate) struct Eye<'a> {
    pub(crate) keep: &'a Keep,
    pub(crate) watches: &'a Watches,
    pub(crate) heirs: &'a Heirs,
    pub(crate) sights: &'a Sights,
    pub(crate) memory: &'a Memory,
}

impl Eye<'_> {
    /// What is remembered of the certificate that is the scope, where it still holds; else the look that has begun, where what
    /// it comes to may be remembered.
    fn recall(&self, place: &dyn Place, cx: &Cx, want: &Want<'_>) -> Result<Observed, Option<Look>> {
        let (Eye { heirs, memory, .. }, name) = (self, &*want.scope.name);
        let question = want.desired.first().and_then(|desired| desired.spec.hash());
        let tracked = want.tracked.iter().find(|tracked| *tracked.id.0 == *name);
        let (Some(question), Some(tracked)) = (question, tracked) else { return Err(None) };
        let now = cx.clock.now();
        let way = |directory: &Path| memory.sweeps.way(directory, now);
        let mut seen_at = now;
        let stamps = |files: &Arc<Files>| match memory.sweeps.ahead(name, files, now) {
            Some((stamps, at)) => {
                seen_at = at;
                Some(stamps)
            }
            None => place.stamps(files, &way),
        };
        let Seen { observed, directory, outputs, kept } =
            memory.seen.recall(name, question, now, stamps).map_err(Some)?;
        // What is tracked may be that of a database of before.
        if memory.tag(&tracked.outputs) != Some(outputs) {
            return Err(None);
        }
        heirs.looked_at(name, Some(&directory), true);
        heirs.waits_no_more(name);
        memory.sweeps.note_kept(name, kept, seen_at);
        Ok(Observed { outputs: tracked.outputs.clone(), ..observed })
    }

    /// Remembers what a look came to, as long as none of its files changes.
    fn learn(&self, place: &dyn Place, cx: &Cx, name: &str, look: Option<Look>, quiet: Option<Quiet>) {
        let Some(Quiet { mut seen, files, kept, until }) = quiet else {
            return self.memory.seen.forget(name);
        };
        let Some(look) = look else { return };
        match place.stamps(&files, &way) {
            Some(stamps) => {
                // After those of all: what changes in between is seen by the next look, which believes neither.
                seen.kept = place::stamps(&kept);
                self.memory.seen.learn(name, look, (files, stamps), cx.clock.now(), (seen, until));
            }
            None => self.memory.seen.forget(name),
        }
    }
}

/// A certificate that is as declared, and how long it is if nothing changes.
struct Quiet {
    seen: Seen,
    files: Files,
    /// Those of them that are kept of it.
    kept: Files,
    until: Duration,
}

/// What says whether anything changed of what is kept of the certificate `name`, and of what it depends on; none where it
/// depends on more than files: the host may give another secret to sign with at any moment.
pub(crate) fn kept_files(
    keep: &Keep,
    name: &str,
    wish: &Wish,
    issued: &Issued,
) -> Result<Option<Vec<PathBuf>>, Error> {
    let mut files = keep.files(name)?;
    match wish.issuer_of(issued.issuer.as_deref()) {
        Issue::Certificate(signer) => files.extend(keep.files(signer)?),
        Issue::Secret { .. } => return Ok(None),
        Issue::SelfSigned | Issue::Acme(_) => {}
    }
    let authorities = wish.issuers().filter_map(Issue::authority);
    files.extend(authorities.map(|authority| keep.account_file(&acme::account_id(authority))));
    Ok(Some(files))
}

/// Looks at the certificate that is the scope.
pub(crate) async fn observe(
    place: &dyn Place,
    cx: &Cx,
    eye: &Eye<'_>,
    want: &Want<'_>,
) -> Result<Observation, Error> {
    let name = &*want.scope.name;
    let look = match eye.recall(place, cx, want) {
        Ok(observed) => return Ok(observation(want, Some(observed))),
        Err(look) => look,
    };
    eye.watches.looked_at(name);
    let desired = want.desired.first().and_then(|desired| Wish::decode(desired.spec.bytes()?));
    let is_declared = desired.is_some();
    if let Some(wish) = desired.as_ref().filter(|wish| !wish.serve.is_empty())
        && let Ok(Some(issued)) = eye.keep.in_use(name)
    {
        eye.sights.look_again(name, wish, &issued, cx.clock.now().as_secs()).await;
    }
    // A manifest that is gone declares what was put in place last.
    let wish = match desired {
        Some(wish) => Some(wish),
        None => eye.keep.issued(name)?.map(|issued| issued.wish),
    };
    let seen = match wish {
        Some(wish) => {
            let view = View::of(place, &wish.output).await;
            Some((wish, view))
        }
        None => None,
    };
    aside(|| {
        let (observation, quiet) = judge(cx, eye, want, seen.as_ref(), is_declared)?;
        eye.learn(place, cx, name, look, quiet);
        Ok(observation)
    })
}

fn observation(want: &Want<'_>, resource: Option<Observed>) -> Observation {
    let resources = resource.into_iter().filter(|found| want.focus.covers(&found.id)).collect();
    Observation { covered: want.focus.clone(), complete: true, version: Version::Unknown, resources }
}

/// Says what was seen, with what is kept; and whether there is nothing to be done about it.
fn judge(
    cx: &Cx,
    eye: &Eye<'_>,
    want: &Want<'_>,
    seen: Option<&(Wish, View)>,
    is_declared: bool,
) -> Result<(Observation, Option<Quiet>), Error> {
    let (keep, name) = (eye.keep, &*want.scope.name);
    let is_tracked = want.tracked.iter().any(|tracked| *tracked.id.0 == *name);
    let directory = seen.filter(|_| is_declared).map(|(wish, _)| &*wish.output.directory);
    eye.heirs.looked_at(name, directory, is_tracked);
    let (mut standing, mut stranger) = (None, None);
    if let Some((wish, view)) = seen
        && !(is_declared && owner::comes_after(cx, keep, eye.heirs, name, view)?.is_some())
    {
        standing = Standing::look(cx, keep, name, wish, view)?.map(|standing| (wish, standing));
        stranger = owner::stranger(keep, name, view);
    }
    // What a person may take from another instance, nobody is told cannot be had.
    let other = stranger.as_ref().and_then(|stranger| stranger.instance.clone());
    let taken = || {
        let stranger = stranger.as_ref().filter(|stranger| is_declared && stranger.instance.is_none());
        stranger.map(|stranger| stranger.words.clone())
    };
    if let Some((wish, Standing { issued, is_broken, facts, in_place, .. })) = &standing
        && (*is_broken || issued.as_ref().is_some_and(|it| it.wish.output.directory == wish.output.directory))
    {
        let due = |it: &Facts| renewal::due_at(it.not_before, it.not_after, wish.renew, None);
        let other = if *is_broken { facts } else { in_place };
        let other = other.as_ref().map(|it| InPlace { due: due(it), end: it.not_after });
        eye.memory.note(name, other);
    }
    if !is_declared && !is_tracked {
        // What is only left out of a plan is tracked.
        eye.watches.end(name);
        eye.memory.forget(name);
    }
    let broken = keep.broken_besides(name)?;
    let is_left_over = is_declared && keep.is_begun(name)?;
    let contact = match &standing {
        Some((wish, Standing { issued: Some(issued), .. })) if is_declared => {
            other_contact(keep, wish, issued)
        }
        _ => None,
    };
    let mut quiet = None;
    let resources = standing.map(|(wish, standing)| {
        let mut differs = standing.differences(wish);
        // What was adopted stands only where it is used: one pass more, and it is kept as well.
        if standing.issued.is_none() && is_tracked && !want.desired.is_empty() {
            differs.push(Difference::due("state", "adopted, and not kept yet", "kept"));
        }
        let unserved = |issued| eye.sights.unserved(name, wish, issued, cx.clock.now().as_secs());
        if is_declared && let Some(unserved) = standing.issued.as_ref().and_then(unserved) {
            differs.push(unserved);
        }
        differs.extend(contact);
        differs.extend(broken.iter().map(|path| is_broken_at(path)));
        if is_left_over && standing.unlike.is_empty() {
            differs.push(Difference::due("state", "something begun is left over", "ended"));
        }
        if is_declared
            && differs.is_empty()
            && let Some(issued) = &standing.issued
        {
            differs = compare::declared_anew(&issued.wish, wish);
        }
        let is_quiet = is_declared && is_tracked && differs.is_empty();
        let bytes = match differs.is_empty() {
            true => wish.encode(),
            false => {
                let contents = standing.contents.clone();
                Deviant { differs, contents, taken: taken() }.encode()
            }
        };
        let mut observed = Observed::new(ResourceId::from(name), bytes);
        // What is kept in our state directory was put there by us, whatever the inventory remembers.
        let is_ours = standing.issued.is_some() || standing.is_broken;
        observed.owner = match &other {
            Some(other) => Owner::Other(other.clone()),
            None if is_ours => Owner::Ours,
            None => Owner::Unmarked,
        };
        observed.outputs = outputs(wish, &standing);
        // What is early is looked at again once the clock is right.
        let now = cx.clock.now().as_secs();
        let is_early = standing.facts.as_ref().is_some_and(|facts| facts.is_early(now));
        if is_quiet
            && !is_early
            && let Some((_, view)) = seen
        {
            quiet = remembered(eye, name, wish, view, &standing, &observed);
        }
        observed
    });
    let resources = match (resources, &stranger) {
        (None, Some(Stranger { words, .. })) => {
            let differs = vec![Difference::new("output", format!("{words} is put there"), "as declared")];
            let deviant = Deviant { taken: taken(), ..Deviant::of(differs) };
            let owner = other.map_or(Owner::Unmarked, Owner::Other);
            Some(Observed { owner, ..Observed::new(ResourceId::from(name), deviant.encode()) })
        }
        // Nobody wants what was begun: it is there to be deleted, key and all.
        (None, None) if want.desired.is_empty() && (keep.is_begun(name)? || !broken.is_empty()) => {
            let differs = vec![Difference::new("certificate", "being issued", "nothing")];
            let bytes = Deviant::of(differs).encode();
            Some(Observed { owner: Owner::Ours, ..Observed::new(ResourceId::from(name), bytes) })
        }
        (seen, _) => seen,
    };
    Ok((observation(want, resources), quiet))
}

/// What to remember of a certificate that is as declared; none where more than files says whether it is.
fn remembered(
    eye: &Eye<'_>,
    name: &str,
    wish: &Wish,
    view: &View,
    standing: &Standing,
    observed: &Observed,
) -> Option<Quiet> {
    let (issued, facts) = (standing.issued.as_ref()?, standing.facts.as_ref()?);
    let mut files = view.files().filter(|_| wish.serve.is_empty())?;
    let kept = Files { exact: kept_files(eye.keep, name, wish, issued).ok()??, way: None };
    files.exact.extend(kept.exact.iter().cloned());
    files.exact.extend(deliver::names_of(&wish.output).map(PathBuf::from));
    let due = renewal::due_at(facts.not_before, facts.not_after, wish.renew, issued.suggested.as_ref());
    let seen = Seen {
        observed: Observed { outputs: Sealed::default(), ..observed.clone() },
        directory: wish.output.directory.as_str().into(),
        outputs: eye.memory.tag(&observed.outputs)?,
        kept: None,
    };
    Some(Quiet { seen, files, kept, until: Duration::from_secs(due.min(facts.not_after)) })
}

/// That an authority was told another address to write to, where this certificate had it declared so before: with several
/// that say different ones none of them would be the last.
fn other_contact(keep: &Keep, wish: &Wish, issued: &Issued) -> Option<Difference> {
    let before: Vec<&Authority> = issued.wish.issuers().filter_map(Issue::authority).collect();
    for authority in wish.issuers().filter_map(Issue::authority) {
        let is_same =
            |before: &&Authority| before.server == authority.server && before.binding == authority.binding;
        let has_changed = before.iter().any(|before| is_same(before) && before.email != authority.email);
        if let Some(told) = acme::told_otherwise(keep, authority).filter(|_| has_changed) {
            let show = |email: Option<&str>| email.unwrap_or("nobody").to_owned();
            let path = "issuerRef.email";
            return Some(Difference::new(path, show(told.as_deref()), show(authority.email.as_deref())));
        }
    }
    None
}

/// Watches the certificate `name` from now on, of which `issued` is kept. For passes alone: what is looked at for a plan need
/// never be in force.
pub(crate) fn watch(cx: &Cx, watches: &Watches, name: &str, wish: &Wish, issued: Option<&Issued>) {
    let now = cx.clock.now();
    let due_at = issued.and_then(|issued| look_at(wish, issued, now.as_secs())).unwrap_or_default();
    watches.set(name, &wish.output.directory, due_at, Duration::from_secs(due_at).saturating_sub(now));
    let signer = |issuer: &Issue| match issuer {
        Issue::Certificate(signer) => Some(signer.clone()),
        _ => None,
    };
    watches.signed_by(name, wish.issuers().filter_map(signer).collect());
}

/// When to look at it again whatever happens: once it is due, or once services might have to be told again.
fn look_at(wish: &Wish, issued: &Issued, now: u64) -> Option<u64> {
    let facts = issued.facts().ok()?;
    let due_at = renewal::due_at(facts.not_before, facts.not_after, wish.renew, issued.suggested.as_ref());
    let next = served::again_at(wish, issued).into_iter().chain([due_at]).filter(|at| *at > now).min();
    next.or(Some(due_at))
}

/// What others may refer to. The key is a secret, which only what may hold one can.
pub(crate) fn outputs(wish: &Wish, standing: &Standing) -> Sealed {
    let Some(facts) = &standing.facts else { return Sealed::default() };
    let suggested = standing.issued.as_ref().and_then(|issued| issued.suggested.as_ref());
    let due = renewal::due_at(facts.not_before, facts.not_after, wish.renew, suggested);
    let mut told = serde_json::json!({
        "fingerprint": facts.fingerprint,
        "issuer": facts.issuer,
        "notBefore": moment(facts.not_before),
        "notAfter": moment(facts.not_after),
        "renewalTime": moment(due),
        "directory": wish.output.directory,
    });
    // Of one that was adopted there is only what its files are, until it is kept.
    if let Some(issued) = &standing.issued {
        let (certificate, chain) = x509::split(&issued.chain);
        told["certificate"] = certificate.into();
        told["chain"] = chain.into();
        told["fullChain"] = issued.chain.as_str().into();
        if let Some(ca) = &issued.ca {
            told["caBundle"] = ca.as_str().into();
        }
        if let Ok(key) = issued.key.secret().reveal_str() {
            told["privateKey"] = secret_output(key.into());
        }
    }
    Sealed::new(told.to_string())
}
