//! The certificate is put where it is used, and services are told.

use crate::{
    aside::aside,
    config::is_usual,
    deliver,
    desk::Desk,
    kept::Issued,
    keystore,
    place::Again,
    served,
    wish::{Issue, KeyKind, Wish},
};
use reconciled_command::{Invocation, NotRun, excerpt};
use reconciled_provider::Error;
use std::{path::Path, time::Duration};

/// Characters of a command's output that are shown.
const EXCERPT: usize = 300;

/// How often services are looked at that were told again before they are restarted, and how long between two looks.
const LOOKS: u32 = 5;
const BETWEEN: Duration = Duration::from_secs(1);

fn kind(issued: &Issued) -> Option<KeyKind> {
    issued.facts().ok().and_then(|facts| facts.key)
}

impl Desk<'_> {
    /// Puts what is kept where it is used, and tells services of it.
    pub(super) async fn put_in_place(&self, name: &str, wish: &Wish) -> Result<(), Error> {
        let Some(mut issued) = self.keep.issued(name)? else {
            return Err(Error::unexpected(format!("the certificate {name} was issued, and is not kept")));
        };
        let fingerprint = issued.facts()?.fingerprint;
        self.pack(name, wish, &mut issued)?;
        let files = deliver::files(&wish.output, &issued);
        let is_elsewhere = issued.wish.output.directory != wish.output.directory;
        let (place, mark) = (&*self.config.place, self.keep.mark(name));
        let view = self.view(wish).await;
        if !deliver::troubles(&view, &wish.output, &files)?.is_empty() {
            for (file, bytes) in deliver::foreign(&view, &wish.output, &files)? {
                self.keep.put_replaced(name, &file, &bytes)?;
            }
            if issued.told.take().is_some() || !issued.told_units.is_empty() {
                issued.told_units.clear();
                issued.restarted_units.clear();
                issued.told_again = 0;
                self.put_issued(name, &issued)?;
            }
            let version = &fingerprint[..16];
            self.effects.note();
            deliver::put(place, &view, &mark, version, &wish.output, &files, self.config.passed).await?;
            (self.config.passed)("certificate.put");
            // What is not wanted any more stands as it was, and is to go all the same.
            let names: Vec<&str> = files.iter().map(|file| file.name).collect();
            if issued.forget_adopted(Path::new(&wish.output.directory), &names) {
                self.put_issued(name, &issued)?;
            }
        } else {
            let adopted = deliver::adopted(&view, &files);
            if adopted.iter().any(|(path, hash)| issued.adopted.get(path) != Some(hash)) {
                // Before the mark, which says that they are ours.
                issued.adopted.extend(adopted);
                self.put_issued(name, &issued)?;
            }
            let is_in_order = view.disorder(&mark)?.is_empty() && !view.is_unmarked()?;
            if !is_in_order || view.left_over().next().is_some() {
                self.effects.note();
                deliver::tidy(place, &view, &wish.output, &mark).await?;
            }
        }
        if issued.is_unplaced {
            issued.is_unplaced = false;
            self.put_issued(name, &issued)?;
        }
        if issued.wish != *wish {
            if (&issued.wish.reload, &issued.wish.serve) != (&wish.reload, &wish.serve) {
                issued.told_again = 0;
            }
            if is_elsewhere {
                issued.leaving.retain(|left| left.directory != wish.output.directory);
                issued.leaving.push(issued.wish.output.clone());
            }
            // Of units that are new nobody knows what they have read; the others need not read again.
            if issued.told.as_ref() == Some(&fingerprint) && !wish.reload.is_subset(&issued.wish.reload) {
                issued.told = None;
                issued.told_units = issued.wish.reload.clone();
            }
            issued.wish = wish.clone();
            self.put_issued(name, &issued)?;
        }
        if self.is_unserved(name, wish, &issued).await {
            // On disk before anybody is told, so that no number of crashes tells them more often.
            issued.told = None;
            issued.told_units.clear();
            issued.restarted_units.clear();
            issued.told_again += 1;
            self.put_issued(name, &issued)?;
        }
        let is_told = wish.reload.is_empty() || issued.told.as_ref() == Some(&fingerprint);
        if !is_told {
            let mut failed = None;
            for unit in &wish.reload {
                if issued.told_units.contains(unit) {
                    continue;
                }
                // One that fails must not make the others read again at every retry.
                match self.call(&self.config.reload, Again::Read, unit).await {
                    Ok(()) => {
                        issued.told_units.insert(unit.clone());
                        self.put_issued(name, &issued)?;
                    }
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
            if wish.escalate && issued.told_again > 0 {
                self.escalate(name, wish, &fingerprint, &mut issued).await?;
            }
            (self.config.passed)("certificate.told");
            issued.told = Some(fingerprint);
            issued.told_at = self.cx.clock.now().as_secs();
            issued.told_units.clear();
            self.put_issued(name, &issued)?;
        }
        self.leave(name, &mut issued).await
    }

    /// Takes the files away from where they were before. What keeps them there keeps nobody from using the new ones.
    async fn leave(&self, name: &str, issued: &mut Issued) -> Result<(), Error> {
        let mut failed = None;
        for left in issued.leaving.clone() {
            self.effects.note();
            match deliver::withdraw(&*self.config.place, &self.keep.mark(name), &left, issued).await {
                Ok(()) => {
                    issued.forget_adopted(Path::new(&left.directory), &deliver::NAMES);
                    issued.leaving.retain(|output| *output != left);
                    self.put_issued(name, issued)?;
                }
                Err(error) => failed = failed.or(Some((left.directory, error))),
            }
        }
        let Some((directory, error)) = failed else { return Ok(()) };
        let message =
            format!("it is in its new place and in use there; take away what it left in {directory}");
        Err(Error::new(error.kind, message).caused_by(error))
    }

    /// Makes the PKCS #12 file that is wanted, unless it is kept; kept when this returns.
    fn pack(&self, name: &str, wish: &Wish, issued: &mut Issued) -> Result<(), Error> {
        let wanted = wish.output.keystore.as_ref();
        if keystore::is_packed(issued, wanted) {
            return Ok(());
        }
        issued.packed = match wanted {
            Some(wanted) => {
                let password = self.cx.secrets.reveal(&Issue::secret(&wanted.secret))?;
                Some(aside(|| keystore::pack(issued, wanted, &password))?)
            }
            None => None,
        };
        self.put_issued(name, issued)
    }

    /// True when it is time to tell services again: an address shows another certificate now.
    async fn is_unserved(&self, name: &str, wish: &Wish, issued: &Issued) -> bool {
        let now = self.cx.clock.now().as_secs();
        if self.sights.unserved(name, wish, issued, now).is_none() {
            return false;
        }
        // What a plan was made of may be a while ago.
        self.sights.remember(name, &served::look(wish, kind(issued)).await, now);
        self.sights.unserved(name, wish, issued, now).is_some()
    }

    /// Restarts the services of a certificate in whose place another one is shown although they were told twice: each once,
    /// however often that of another one fails.
    async fn escalate(
        &self,
        name: &str,
        wish: &Wish,
        fingerprint: &str,
        issued: &mut Issued,
    ) -> Result<(), Error> {
        for _ in 0..LOOKS {
            let now = self.cx.clock.now().as_secs();
            self.sights.remember(name, &served::look(wish, kind(issued)).await, now);
            if self.sights.strangers(name, wish, fingerprint, now).is_empty() {
                return Ok(());
            }
            self.cx.clock.sleep(BETWEEN).await;
        }
        // What the host allows may have changed since the manifest was read.
        let Some(restart) = self.config.restart() else { return Ok(()) };
        let mut failed = None;
        for unit in &wish.reload {
            if issued.restarted_units.contains(unit) {
                continue;
            }
            match self.call(&restart, Again::Start, unit).await {
                Ok(()) => {
                    issued.restarted_units.insert(unit.clone());
                    self.put_issued(name, issued)?;
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Makes a service read its files again, or start again.
    async fn call(&self, command: &[String], again: Again, unit: &str) -> Result<(), Error> {
        self.config.check_reload(self.keep.entry())?;
        self.effects.note();
        if is_usual(command, again)
            && let Some(called) = self.config.place.call(unit, again).await
        {
            return called;
        }
        let verb = match again {
            Again::Read => "reload",
            Again::Start => "restart",
        };
        let mut argv = command.iter().map(|argument| argument.replace("{unit}", unit));
        let program = argv.next().unwrap_or_default();
        let arguments: Vec<String> = argv.collect();
        let what = format!("{verb} {unit} with {program}");
        let invocation = Invocation::new(&program, &arguments, self.config.timeout);
        let output = match reconciled_command::run(invocation).await {
            Ok(output) => output,
            Err(NotRun::NotBegun(error)) => {
                let hint = format!("`{verb}` of the provider entry is the command; is the program there?");
                return Err(Error::unavailable(what).caused_by(error).hint(hint));
            }
            Err(NotRun::Late) => return Err(Error::unavailable(format!("{what}: no answer in time"))),
        };
        if output.status.success() {
            return Ok(());
        }
        let said = excerpt(&[&output.stderr], EXCERPT);
        Err(Error::unavailable(format!("{what}: {}: {said}", output.status)).hint(format!(
            "the new certificate is in place, and {unit} does not use it yet: what does its log say?"
        )))
    }
}
