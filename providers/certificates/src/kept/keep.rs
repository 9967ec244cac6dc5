//! The directory of an entry: what is in it, and how it is written.

use super::{
    Account, Asked, Attempt, Busy, Issued, Lasting, Outage, Parsed, Refusals, Wait,
    disk::{
        self, Durable, Unread, decode, failed, read, read_bytes, read_unless_broken, remove, sync, write_now,
    },
    mark::{Mark, parts},
};
use crate::{aside::aside, x509};
use reconciled_provider::{Error, Hash};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};
use zeroize::Zeroizing;

/// Where that is of which there is one for each issuer but the first.
const ISSUERS: &str = "issuers";

const ISSUED: &str = "issued.json";
const ATTEMPT: &str = "attempt.json";
const RENEWAL: &str = "renew.json";

/// What comes of a certificate and of an account without their file.
const ADOPTED: &str = "then what is in place is as if somebody else had put it there";
const ANOTHER_ACCOUNT: &str = "then another account is made, which takes an `externalAccountBinding` that may be used again, and \
                               records that name the account (`accounturi`) declared anew";

type ParsedByName = BTreeMap<String, (Hash, Arc<Parsed>)>;

/// The directory of one entry.
#[derive(Clone, Debug)]
pub struct Keep {
    entry: String,
    directory: PathBuf,
    /// Names that the entry had before.
    former: Vec<String>,
    /// Whose marks are ours.
    instance: Arc<str>,
    /// Which of the issuers of a certificate it is about; what is in use is that of all of them.
    issuer: usize,
    /// The directory is there: from then on nothing is looked for under a former name.
    settled: Arc<OnceLock<()>>,
    /// What was read out of each certificate in use, by name, and the hash of the file it was in.
    parsed: Arc<Mutex<ParsedByName>>,
    durable: Arc<Durable>,
}

impl Keep {
    /// What is kept for the entry `entry` in `directory`, which need not exist.
    pub fn new(entry: &str, directory: impl Into<PathBuf>) -> Keep {
        let (entry, directory) = (entry.into(), directory.into());
        let (settled, parsed, durable) = (Arc::default(), Arc::default(), Arc::default());
        let (former, instance) = (Vec::new(), Arc::default());
        Keep { entry, directory, former, instance, issuer: 0, settled, parsed, durable }
    }

    /// The same of an entry that had other names before: what is kept under one of these, beside the directory of today, is
    /// its own.
    pub fn formerly(self, names: &[String]) -> Keep {
        // One directory beside that of today, and no other one.
        let is_plain = |name: &&String| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        Keep { former: names.iter().filter(is_plain).cloned().collect(), ..self }
    }

    /// The same of an instance that is called so.
    pub fn for_instance(self, instance: &Arc<str>) -> Keep {
        Keep { instance: instance.clone(), ..self }
    }

    /// Takes over what is kept under a former name, where nothing is kept under the name of today.
    pub fn settle(&self) -> Result<(), Error> {
        let (from, to) = (self.directory(), &self.directory);
        if from == *to {
            return Ok(());
        }
        let moved = aside(|| {
            fs::rename(&from, to)?;
            to.parent().map_or(Ok(()), sync)
        });
        match moved {
            // Another pass was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound && to.is_dir() => Ok(()),
            moved => moved.map_err(|error| failed("take over what is kept from", &from, error)),
        }
    }

    /// Where it is now.
    fn directory(&self) -> PathBuf {
        if self.former.is_empty() || self.settled.get().is_some() {
            return self.directory.clone();
        }
        if self.directory.exists() {
            self.settled.get_or_init(|| ());
            return self.directory.clone();
        }
        let mut former = self.former.iter().map(|name| self.directory.with_file_name(name));
        former.find(|directory| directory.is_dir()).unwrap_or_else(|| self.directory.clone())
    }

    /// The same for the issuer with this number: what is begun there, and what went wrong there, is apart.
    pub(crate) fn of_issuer(&self, number: usize) -> Keep {
        Keep { issuer: number, ..self.clone() }
    }

    /// The number of the issuer that it is about.
    pub(crate) fn number(&self) -> usize {
        self.issuer
    }

    /// The name of the entry.
    pub(crate) fn entry(&self) -> &str {
        &self.entry
    }

    /// How the directory says whose it is that a certificate is put into.
    pub(crate) fn mark(&self, name: &str) -> Mark {
        let is_kept = self.of(name).join(ISSUED).exists() || self.is_set_aside(name);
        Mark::new(&self.instance, name, &self.entry, self.former.iter(), is_kept)
    }

    /// The name of the certificate of this entry that has this mark, as far as it says whose it is.
    pub(crate) fn marked(&self, mark: &str) -> Option<String> {
        let (of, instance) = parts(mark);
        if instance.is_some_and(|instance| *instance != *self.instance) {
            return None;
        }
        let mut entries = std::iter::once(&self.entry).chain(&self.former);
        let name = entries.find_map(|entry| of.strip_prefix(entry.as_str())?.strip_prefix('/'))?;
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// The certificate in use.
    pub fn issued(&self, name: &str) -> Result<Option<Issued>, Error> {
        self.in_use(name).map_err(|unread| unread.into_error(ADOPTED))
    }
    /// The same for whoever goes on where it is broken.
    pub(crate) fn in_use(&self, name: &str) -> Result<Option<Issued>, Unread> {
        let path = self.of(name).join(ISSUED);
        let parsed = || self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bytes) = read_bytes(&path)? else {
            parsed().remove(name);
            return Ok(None);
        };
        let mut issued: Issued = decode(&path, &bytes)?;
        let of = Hash::of(&bytes);
        let mut parsed = parsed();
        match parsed.get(name) {
            Some((known, parsed)) if *known == of => issued.parsed = parsed.clone(),
            _ => drop(parsed.insert(name.to_owned(), (of, issued.parsed.clone()))),
        }
        Ok(Some(issued))
    }
    /// Keeps the certificate in use.
    pub fn put_issued(&self, name: &str, issued: &Issued) -> Result<(), Error> {
        self.write(&self.of(name), ISSUED, issued)
    }
    /// The certificate being made.
    pub fn attempt(&self, name: &str) -> Result<Option<Attempt>, Error> {
        read_unless_broken(&self.at_issuer(name).join(ATTEMPT))
    }
    /// Keeps the certificate being made.
    pub fn put_attempt(&self, name: &str, attempt: &Attempt) -> Result<(), Error> {
        self.write(&self.at_issuer(name), ATTEMPT, attempt)
    }
    /// Forgets the certificate being made.
    pub fn end_attempt(&self, name: &str) -> Result<(), Error> {
        remove(&self.at_issuer(name).join(ATTEMPT))
    }
    /// How often an authority refused.
    pub fn refusals(&self, name: &str) -> Result<Refusals, Error> {
        Ok(read_unless_broken(&self.at_issuer(name).join("refusals.json"))?.unwrap_or_default())
    }
    /// Keeps how often an authority refused.
    pub fn put_refusals(&self, name: &str, refusals: &Refusals) -> Result<(), Error> {
        self.write(&self.at_issuer(name), "refusals.json", refusals)
    }
    /// Forgets that an authority refused.
    pub fn end_refusals(&self, name: &str) -> Result<(), Error> {
        remove(&self.at_issuer(name).join("refusals.json"))
    }
    /// Until when an authority asked to be left alone.
    pub fn busy(&self, name: &str) -> Result<Option<Busy>, Error> {
        read_unless_broken(&self.at_issuer(name).join("busy.json"))
    }
    /// Keeps that an authority asked to be left alone.
    pub fn put_busy(&self, name: &str, busy: &Busy) -> Result<(), Error> {
        self.write(&self.at_issuer(name), "busy.json", busy)
    }
    /// Forgets that an authority asked to be left alone.
    pub fn end_busy(&self, name: &str) -> Result<(), Error> {
        remove(&self.at_issuer(name).join("busy.json"))
    }
    /// Since when an authority does not answer.
    pub fn outage(&self, name: &str) -> Result<Option<Outage>, Error> {
        read_unless_broken(&self.at_issuer(name).join("outage.json"))
    }
    /// Keeps that an authority does not answer.
    pub fn put_outage(&self, name: &str, outage: &Outage) -> Result<(), Error> {
        self.write(&self.at_issuer(name), "outage.json", outage)
    }
    /// Forgets that an authority did not answer.
    pub fn end_outage(&self, name: &str) -> Result<(), Error> {
        remove(&self.at_issuer(name).join("outage.json"))
    }
    /// Records that an authority looks for whenever it is asked, as far as it has said.
    pub fn lasting(&self, name: &str) -> Result<BTreeSet<Lasting>, Error> {
        Ok(read_unless_broken(&self.at_issuer(name).join("lasting.json"))?.unwrap_or_default())
    }
    /// Keeps the records that an authority looks for.
    pub fn put_lasting(&self, name: &str, records: &BTreeSet<Lasting>) -> Result<(), Error> {
        self.write(&self.at_issuer(name), "lasting.json", records)
    }
    /// Forgets them.
    pub fn end_lasting(&self, name: &str) -> Result<(), Error> {
        remove(&self.at_issuer(name).join("lasting.json"))
    }
    /// What is kept of a certificate besides the one in use, is broken, and is more than a wait.
    pub(crate) fn broken_besides(&self, name: &str) -> Result<Vec<PathBuf>, Error> {
        let attempts = self.issuers(name)?.into_iter().map(|keep| keep.at_issuer(name).join(ATTEMPT));
        let attempts = attempts.map(|path| read::<Attempt>(&path).map(drop));
        let renewal = read::<Asked>(&self.of(name).join(RENEWAL)).map(drop);
        let mut broken = Vec::new();
        for read in attempts.chain([renewal]) {
            match read {
                Err(Unread::Broken(path)) => broken.push(path),
                Err(Unread::Failed(error)) => return Err(error),
                Ok(()) => {}
            }
        }
        Ok(broken)
    }
    /// True where what was kept of the certificate in use was broken once, and set aside.
    pub(crate) fn is_set_aside(&self, name: &str) -> bool {
        disk::place_aside(&self.of(name).join(ISSUED)).exists()
    }
    /// Gives a file that is broken another name, under which nobody looks for it. Returns it.
    pub(crate) fn set_aside(&self, path: &Path) -> Result<PathBuf, Error> {
        aside(|| disk::set_aside(path))
    }
    /// True when a certificate is being made, whoever makes it.
    pub fn is_begun(&self, name: &str) -> Result<bool, Error> {
        let mut begun = self.issuers(name)?.into_iter().map(|keep| keep.attempt(name));
        begun.try_fold(false, |is_begun, attempt| Ok(is_begun || attempt?.is_some()))
    }
    /// True when it was tried to have a certificate, whatever came of it: one is being made, or something is waited for.
    pub fn is_tried(&self, name: &str) -> Result<bool, Error> {
        for keep in self.issuers(name)? {
            let is_refused = keep.refusals(name)? != Refusals::default();
            if is_refused
                || keep.attempt(name)?.is_some()
                || keep.busy(name)?.is_some()
                || keep.outage(name)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
    /// What is kept of each issuer of which anything is.
    pub fn issuers(&self, name: &str) -> Result<Vec<Keep>, Error> {
        let directory = self.of(name).join(ISSUERS);
        let mut numbers = vec![0];
        match fs::read_dir(&directory) {
            Ok(entries) => {
                let names = entries.flatten().map(|entry| entry.file_name());
                numbers.extend(names.filter_map(|name| name.to_str()?.parse::<usize>().ok()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("read", &directory, error)),
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers.into_iter().map(|number| self.of_issuer(number)).collect())
    }
    /// What says whether anything changed of what is kept of a certificate: files, and directories in which names change.
    pub(crate) fn files(&self, name: &str) -> Result<Vec<PathBuf>, Error> {
        let of = self.of(name);
        let mut files = vec![of.join(ISSUED), of];
        for keep in self.issuers(name)?.iter().filter(|keep| keep.issuer > 0) {
            files.extend([self.of(name).join(ISSUERS), keep.at_issuer(name)]);
        }
        Ok(files)
    }
    /// True when any certificate is being had from an authority.
    pub fn has_orders(&self) -> Result<bool, Error> {
        let directory = self.directory().join("certificates");
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed("read", &directory, error)),
        };
        for of in entries.flatten().map(|entry| entry.path()) {
            let apart =
                fs::read_dir(of.join(ISSUERS)).into_iter().flatten().flatten().map(|entry| entry.path());
            for at in std::iter::once(of.clone()).chain(apart) {
                let attempt: Option<Attempt> = read_unless_broken(&at.join(ATTEMPT))?;
                if attempt.is_some_and(|attempt| attempt.order.is_some()) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
    /// Ends every wait: whoever asks has mended what went wrong.
    pub fn end_waits(&self, name: &str) -> Result<(), Error> {
        self.issuers(name)?.iter().try_for_each(|keep| {
            keep.end_refusals(name)?;
            keep.end_busy(name)?;
            keep.end_outage(name)
        })
    }
    /// Which certificate a person wants another one for, and how.
    ///
    /// A file of its own: it is written while a pass may be writing the others.
    pub fn renewal(&self, name: &str) -> Result<Option<Asked>, Error> {
        read_unless_broken(&self.of(name).join(RENEWAL))
    }
    /// Keeps that a person wants another certificate.
    pub fn put_renewal(&self, name: &str, asked: &Asked) -> Result<(), Error> {
        self.write(&self.of(name), RENEWAL, asked)
    }
    /// Forgets that a person wants another certificate than the one with this fingerprint.
    pub fn end_renewal(&self, name: &str) -> Result<(), Error> {
        remove(&self.of(name).join(RENEWAL))
    }
    /// Keeps what somebody else had put where a certificate goes, each content once. It stays when all else is forgotten.
    pub fn put_replaced(&self, name: &str, file: &str, bytes: &[u8]) -> Result<(), Error> {
        let directory = self.directory().join("replaced").join(escaped(name));
        let copy = format!("{}-{file}", &x509::fingerprint(bytes)[..16]);
        match fs::symlink_metadata(directory.join(&copy)) {
            Ok(_) => Ok(()),
            Err(_) => self.write_bytes(&directory, &copy, bytes),
        }
    }
    /// Forgets a certificate and its key.
    pub fn forget(&self, name: &str) -> Result<(), Error> {
        let directory = self.of(name);
        self.durable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|known| !known.starts_with(&directory));
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &directory, error)),
            _ => Ok(()),
        }
    }

    /// When each bucket of an authority is full again, by what is counted, in seconds since 1970.
    pub fn limits(&self, server: &str) -> Result<BTreeMap<String, u64>, Error> {
        Ok(read_unless_broken(&self.directory().join("limits").join(file_of(server)))?.unwrap_or_default())
    }
    /// Keeps what an authority has given.
    pub fn put_limits(&self, server: &str, full: &BTreeMap<String, u64>) -> Result<(), Error> {
        self.write(&self.directory().join("limits"), &file_of(server), full)
    }

    /// The account with this `id` (a hash of authority and binding).
    pub fn account(&self, id: &str) -> Result<Option<Account>, Error> {
        read(&self.account_file(id)).map_err(|unread| unread.into_error(ANOTHER_ACCOUNT))
    }
    /// That the account with this `id` cannot be used as it is kept.
    pub(crate) fn broken_account(&self, id: &str) -> Error {
        disk::broken(&self.account_file(id), ANOTHER_ACCOUNT)
    }
    /// Where the account with this `id` is.
    pub fn account_file(&self, id: &str) -> PathBuf {
        self.directory().join("accounts").join(format!("{id}.json"))
    }
    /// Keeps an account.
    pub fn put_account(&self, id: &str, account: &Account) -> Result<(), Error> {
        self.write(&self.directory().join("accounts"), &format!("{id}.json"), account)
    }

    /// Until when an authority asked the account with this `id` to leave it alone.
    pub fn wait(&self, id: &str) -> Result<Option<Wait>, Error> {
        read_unless_broken(&self.directory().join("accounts").join(format!("{id}.wait.json")))
    }
    /// Keeps that an authority asked an account to leave it alone.
    pub fn put_wait(&self, id: &str, wait: &Wait) -> Result<(), Error> {
        self.write(&self.directory().join("accounts"), &format!("{id}.wait.json"), wait)
    }
    /// Forgets that an authority asked an account to leave it alone.
    pub fn end_wait(&self, id: &str) -> Result<(), Error> {
        remove(&self.directory().join("accounts").join(format!("{id}.wait.json")))
    }

    fn write(&self, directory: &Path, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let bytes = serde_json::to_vec(value).map(Zeroizing::new);
        let bytes =
            bytes.map_err(|_| Error::unexpected(format!("write {name}: it cannot be written as JSON")))?;
        self.write_bytes(directory, name, &bytes)
    }

    fn write_bytes(&self, directory: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
        aside(|| write_now(&self.durable, directory, name, bytes))
    }

    fn of(&self, name: &str) -> PathBuf {
        self.directory().join("certificates").join(escaped(name))
    }

    fn at_issuer(&self, name: &str) -> PathBuf {
        match self.issuer {
            0 => self.of(name),
            number => self.of(name).join(ISSUERS).join(number.to_string()),
        }
    }
}

fn file_of(server: &str) -> String {
    format!("{}.json", Hash::of(server.as_bytes()))
}

/// No name of a manifest leads out of the directory, and none is another one's.
fn escaped(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    name.chars().map(|c| if plain(c) { c.to_string() } else { format!("={:02X}", u32::from(c)) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Private;
    use reconciled_provider::Secret;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_kept_is_closed_to_others_and_no_name_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let keep = Keep::new("cert", dir.path().join("cert"));
        let refusals = Refusals { count: 2, ..Refusals::default() };
        for name in ["web", "../../web", "a/b", "a=2Fb", "ä"] {
            assert_eq!(keep.refusals(name).unwrap(), Refusals::default());
            keep.put_refusals(name, &refusals).unwrap();
            assert_eq!(keep.refusals(name).unwrap(), refusals);
        }
        let directory = dir.path().join("cert/certificates");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 5);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&directory.join("web/refusals.json"))), (0o700, 0o600));
        keep.put_replaced("web", "tls.key", b"theirs").unwrap();
        keep.put_replaced("web", "tls.key", b"theirs").unwrap();
        keep.forget("web").unwrap();
        keep.forget("web").unwrap();
        let copies: Vec<_> = fs::read_dir(dir.path().join("cert/replaced/web")).unwrap().flatten().collect();
        assert_eq!(copies.len(), 1, "each content once, and it stays");
        assert_eq!(
            (fs::read(copies[0].path()).unwrap(), mode(&copies[0].path())),
            (b"theirs".to_vec(), 0o600)
        );
        assert_eq!(keep.refusals("web").unwrap(), Refusals::default());
    }

    #[test]
    fn many_that_write_one_file_at_a_time_tear_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let keep = Keep::new("cert", dir.path().join("cert"));
        let key = |number: usize| Private::of(&Secret::new(vec![b'a' + number as u8; 1_000 * (number + 1)]));
        let account = |number| Account {
            key: key(number).unwrap(),
            url: None,
            email: None,
            refused_email: None,
            made_at: 0,
            next: None,
            change: None,
        };
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (keep, account) = (keep.clone(), account(number));
                scope.spawn(move || {
                    for _ in 0..25 {
                        keep.put_account("a", &account).unwrap();
                        let seen = keep.account("a").unwrap().unwrap().key;
                        assert!((0..8).any(|number| seen.is(&key(number).unwrap())));
                    }
                });
            }
        });
        let names = fs::read_dir(dir.path().join("cert/accounts")).unwrap().flatten();
        assert_eq!(names.map(|entry| entry.file_name()).collect::<Vec<_>>(), ["a.json"]);
    }

    #[test]
    fn a_broken_file_is_named_and_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let keep = Keep::new("cert", dir.path());
        fs::create_dir_all(dir.path().join("certificates/web")).unwrap();
        fs::write(dir.path().join("certificates/web/issued.json"), "{\"key\": \"canary\"").unwrap();
        let error = keep.issued("web").unwrap_err();
        assert!(error.chain().contains("issued.json is broken") && !error.chain().contains("canary"));
        assert!(error.hint.as_ref().unwrap().contains("what is in place") && !error.kind.stalls());
    }

    #[test]
    fn what_is_set_aside_takes_no_name_of_what_was() {
        let dir = tempfile::tempdir().unwrap();
        let keep = Keep::new("cert", dir.path());
        let path = keep.of("web").join(ATTEMPT);
        fs::create_dir_all(keep.of("web")).unwrap();
        for (text, name) in [("{", "attempt.json.broken"), ("{\"", "attempt.json.broken.2")] {
            fs::write(&path, text).unwrap();
            assert_eq!(keep.broken_besides("web").unwrap(), std::slice::from_ref(&path));
            assert!(keep.attempt("web").unwrap().is_none() && !keep.has_orders().unwrap());
            let kept_as = keep.set_aside(&path).unwrap();
            assert_eq!((fs::read_to_string(&kept_as).unwrap(), kept_as.ends_with(name)), (text.into(), true));
            assert!(keep.broken_besides("web").unwrap().is_empty() && !path.exists());
        }
        assert!(!keep.is_set_aside("web"), "that was another file");
        assert_eq!(fs::read_to_string(keep.of("web").join("attempt.json.broken")).unwrap(), "{");
    }
}
