//! Where secrets of the host come from: files, environment variables, systemd credentials, commands.
//!
//! Errors name the place and the remedy and never hold a value. What a manifest may name is what the host
//! declared under `secrets:`, and only for the sources and kinds it said.

use super::{
    Environment, SopsKey, Wanted,
    printed::Printed,
    sops::{self, Opened},
};
use crate::sops::Refused;
use reconciled_provider::{
    Error, ErrorKind, Secret, SecretMark, SecretRef, Secrets, address::glob, problem::did_you_mean,
};
use std::{
    collections::BTreeMap,
    fmt, fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use zeroize::Zeroizing;

/// What a name begins with that stands for an opened value; no declared name does.
const OPENED: &str = "sops:";

/// A secret that manifests may name, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredSecret {
    /// Where the value is.
    pub place: SecretRef,
    /// Sources that may name it; none means all.
    pub sources: Option<Vec<Arc<str>>>,
    /// Kinds, as `GROUP/KIND` globs, that may name it; none means all.
    pub kinds: Option<Vec<Arc<str>>>,
}

/// The secrets of this host.
///
/// *Guarantees*: no error, `Debug` or mark gives a value away. *Assumptions*: `key` is the installation's and
/// stays the same, otherwise every mark changes and every secret looks rotated.
pub struct HostSecrets {
    key: Zeroizing<[u8; 32]>,
    environment: Environment,
    declared: BTreeMap<Arc<str>, DeclaredSecret>,
    sops: Vec<SopsKey>,
    printed: Printed,
    opened: Opened,
    has_marked: AtomicBool,
}

impl fmt::Debug for HostSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSecrets").field("declared", &self.declared.keys()).finish_non_exhaustive()
    }
}

impl HostSecrets {
    /// Secrets marked with `key`, found through `environment` and the names in `declared`.
    pub fn new(
        key: [u8; 32],
        environment: Environment,
        declared: BTreeMap<Arc<str>, DeclaredSecret>,
    ) -> HostSecrets {
        HostSecrets {
            key: Zeroizing::new(key),
            environment,
            declared,
            sops: Vec::new(),
            printed: Printed::default(),
            opened: Opened::default(),
            has_marked: AtomicBool::new(false),
        }
    }

    /// The same, which also opens what sops encrypted for `keys`.
    pub fn with_sops(self, keys: &[SopsKey]) -> HostSecrets {
        HostSecrets { sops: keys.to_vec(), ..self }
    }

    /// The name of a value that could not be opened; there is none by it.
    pub(crate) const NO_NAME: &str = OPENED;

    /// The name by which a manifest's backend asks for a value that was opened for it.
    pub(crate) fn name_of(mark: SecretMark) -> String {
        format!("{OPENED}{}", mark.0)
    }

    /// The name by which a manifest's backend asks for a secret that another manifest puts out.
    pub(crate) fn name_of_output(mark: SecretMark) -> String {
        format!("{}{}", SecretRef::PUT_OUT, mark.0)
    }

    /// True for a name that [`Self::name_of`] or [`Self::name_of_output`] makes.
    pub(crate) fn is_name_of_mark(name: &str) -> bool {
        name.starts_with(OPENED) || name.starts_with(SecretRef::PUT_OUT)
    }

    /// The mark of a secret that a manifest puts out, which from then on can be revealed by it: by its mark, so that no other
    /// value is written than the one that was planned.
    pub(crate) fn keep_output(&self, secret: &Secret) -> SecretMark {
        let mark = self.mark(secret.reveal());
        self.opened.keep(HostSecrets::name_of_output(mark), secret.clone());
        mark
    }

    /// The mark of a value in `content`, a file that sops encrypted, which from then on can be revealed by it.
    ///
    /// Errors: no key of this host opens the file, or it is not as sops wrote it.
    pub fn open_for_manifest(&self, wanted: &Wanted<'_>, content: &[u8]) -> Result<SecretMark, Refused> {
        let file = self
            .opened
            .file(wanted, content, || sops::identities(&self.places_of_keys(wanted.source), self))?;
        let secret = file.get(wanted.key).cloned();
        let secret = secret.ok_or_else(|| Refused::Unreadable(Error::invalid("the value is gone")))?;
        let mark = self.mark(secret.reveal());
        self.opened.keep(HostSecrets::name_of(mark), secret);
        Ok(mark)
    }

    /// The marks of the keys that open what sops encrypted in files of `source`; none of one that cannot be had.
    pub(crate) fn marks_of_keys(&self, source: &str) -> Vec<Option<SecretMark>> {
        let places = self.places_of_keys(source).into_iter();
        places.map(|place| self.reveal(&place).ok().map(|key| self.mark(key.reveal()))).collect()
    }

    fn places_of_keys(&self, source: &str) -> Vec<SecretRef> {
        sops::places(&self.sops, source, &self.environment)
    }

    /// True once a secret was marked with the key.
    pub fn has_marked(&self) -> bool {
        self.has_marked.load(Ordering::Relaxed)
    }

    /// The mark of a secret that a manifest of `kind` (`GROUP/KIND`) in `source` names.
    ///
    /// Errors: `PermissionDenied` when the host did not declare it, or not for this source or kind; `Unavailable` when it may be
    /// named, and where it is kept has none.
    pub fn mark_for_manifest(
        &self,
        source: &str,
        kind: &str,
        reference: &SecretRef,
    ) -> Result<SecretMark, Error> {
        let SecretRef::Named(name) = reference else {
            return Err(Error::permission_denied("a manifest may not name a place on the host")
                .hint("write {secret: NAME} and declare NAME under `secrets` in the host configuration"));
        };
        let declared = self.declared(name)?;
        let may = |list: &Option<Vec<Arc<str>>>, word: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|pattern| glob(pattern, word)))
        };
        if !may(&declared.sources, source) || !may(&declared.kinds, kind) {
            let text = format!("secret `{name}` is not declared for {kind} in source `{source}`");
            return Err(Error::permission_denied(text)
                .hint(format!("extend `sources` and `kinds` of secrets.{name} in the host configuration")));
        }
        let secret = self.reveal(&declared.place).map_err(|mut error| {
            error.kind = ErrorKind::Unavailable;
            error
        })?;
        Ok(self.mark(secret.reveal()))
    }

    /// What is odd about where a secret is kept, in one line; the value itself is not looked at.
    pub fn warning(&self, reference: &SecretRef) -> Option<String> {
        let path = match reference {
            SecretRef::File(path) => PathBuf::from(&**path),
            SecretRef::Named(name) => return self.warning(&self.declared.get(name)?.place),
            SecretRef::Env(_) | SecretRef::Credential(_) | SecretRef::Exec(_) => return None,
        };
        let mode = fs::metadata(&path).ok()?.permissions().mode();
        (mode & 0o004 != 0).then(|| {
            format!("secret file {} can be read by everyone: chmod 600 {}", path.display(), path.display())
        })
    }

    fn declared(&self, name: &str) -> Result<&DeclaredSecret, Error> {
        self.declared.get(name).ok_or_else(|| {
            let error = Error::permission_denied(format!("secret `{name}` is not declared on this host"));
            match did_you_mean(name, self.declared.keys().map(|k| &**k)) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(format!("declare {name} under `secrets` in the host configuration")),
            }
        })
    }

    fn credential_path(&self, name: &str) -> Result<PathBuf, Error> {
        let directory = self.environment.var("CREDENTIALS_DIRECTORY").ok_or_else(|| {
            Error::permission_denied(format!("read credential `{name}`: $CREDENTIALS_DIRECTORY is not set"))
                .hint(format!("add LoadCredential={name}:PATH to the unit, or use {{file: PATH}}"))
        })?;
        // A name with a slash would leave the directory.
        if name.contains('/') || name == ".." || name == "." {
            return Err(Error::invalid(format!("`{name}` is not the name of a credential")));
        }
        Ok(Path::new(directory).join(name))
    }
}

fn read(path: &Path) -> Result<Secret, Error> {
    let bytes = fs::read(path).map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => {
                format!("create it, readable by this service only: chmod 600 {}", path.display())
            }
            io::ErrorKind::PermissionDenied => "let the service's user read it".to_string(),
            _ => "check that it is a readable file".to_string(),
        };
        Error::permission_denied(format!("read secret file {}", path.display())).caused_by(error).hint(remedy)
    })?;
    let mut bytes = Zeroizing::new(bytes);
    // Editors end files with a newline that is not part of the secret.
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    if bytes.is_empty() {
        return Err(Error::permission_denied(format!("secret file {} is empty", path.display()))
            .hint("write the secret into it"));
    }
    Ok(Secret::new(std::mem::take(&mut *bytes)))
}

impl Secrets for HostSecrets {
    fn reveal(&self, reference: &SecretRef) -> Result<Secret, Error> {
        match reference {
            SecretRef::Named(name) if HostSecrets::is_name_of_mark(name) => self
                .opened
                .value(name)
                .ok_or_else(|| Error::unavailable("the manifest that names this secret is not read yet")),
            SecretRef::Named(name) => self.reveal(&self.declared(name)?.place.clone()),
            SecretRef::Exec(argv) => self.printed.of(argv),
            SecretRef::File(path) => read(Path::new(&**path)),
            SecretRef::Credential(name) => read(&self.credential_path(name)?),
            SecretRef::Env(name) => {
                let value = self.environment.var(name).ok_or_else(|| {
                    Error::permission_denied(format!("environment variable {name} is not set"))
                        .hint("set it for the service, or use {file: PATH}")
                })?;
                Ok(Secret::new(value.as_bytes().to_vec()))
            }
        }
    }

    fn mark(&self, clear: &[u8]) -> SecretMark {
        self.has_marked.store(true, Ordering::Relaxed);
        SecretMark::keyed(&self.key, clear)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(environment: Environment) -> HostSecrets {
        let declared = DeclaredSecret {
            place: SecretRef::Env("TOKEN".into()),
            sources: Some(vec!["infra".into()]),
            kinds: Some(vec!["aws/*".into()]),
        };
        HostSecrets::new([7; 32], environment, BTreeMap::from([("jobs-db".into(), declared)]))
    }

    #[test]
    fn a_file_loses_its_last_newline_only_and_a_credential_comes_from_its_directory() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("key"), " a\n\n").unwrap();
        let path = folder.path().join("key").display().to_string();
        let host = secrets(Environment::of([("CREDENTIALS_DIRECTORY", folder.path().to_str().unwrap())]));
        assert_eq!(host.reveal(&SecretRef::File(path.as_str().into())).unwrap().reveal(), b" a\n");
        assert_eq!(host.reveal(&SecretRef::Credential("key".into())).unwrap().reveal(), b" a\n");
        assert!(host.reveal(&SecretRef::Credential("../key".into())).is_err());
    }

    #[test]
    fn errors_name_place_and_remedy_and_no_value() {
        let host = secrets(Environment::of([("TOKEN", "canary")]));
        for (reference, words) in [
            (SecretRef::File("/nowhere/key".into()), ["/nowhere/key", "chmod 600"]),
            (SecretRef::Env("MISSING".into()), ["MISSING", "set it"]),
            (SecretRef::Credential("k".into()), ["CREDENTIALS_DIRECTORY", "LoadCredential"]),
            (SecretRef::Named("jobs-bd".into()), ["jobs-bd", "did you mean `jobs-db`"]),
        ] {
            let error = host.reveal(&reference).unwrap_err();
            let text = format!("{} {}", error.chain(), error.hint.clone().unwrap());
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
            assert!(!text.contains("canary"));
        }
    }

    #[test]
    fn a_manifest_reaches_only_what_was_declared_for_its_source_and_kind() {
        let host = secrets(Environment::of([("TOKEN", "canary")]));
        let named = SecretRef::Named("jobs-db".into());
        assert_eq!(
            host.mark_for_manifest("infra", "aws/SsmParameter", &named).unwrap(),
            host.mark(b"canary")
        );
        assert!(host.mark_for_manifest("other", "aws/SsmParameter", &named).is_err());
        assert!(host.mark_for_manifest("infra", "local/File", &named).is_err());
        assert!(host.mark_for_manifest("infra", "aws/X", &SecretRef::Env("TOKEN".into())).is_err());
        // What may be named and is not there is told apart from what may not.
        let host = secrets(Environment::default());
        let kind = |source| host.mark_for_manifest(source, "aws/X", &named).unwrap_err().kind;
        assert_eq!([kind("infra"), kind("other")], [ErrorKind::Unavailable, ErrorKind::PermissionDenied]);
    }

    #[test]
    fn marks_depend_on_the_key() {
        let other = HostSecrets::new([8; 32], Environment::default(), BTreeMap::new());
        let host = secrets(Environment::default());
        assert_eq!(host.mark(b"x"), host.mark(b"x"));
        assert_ne!(host.mark(b"x"), other.mark(b"x"));
    }

    #[test]
    fn a_secret_file_that_everyone_can_read_is_pointed_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "a").unwrap();
        let reference = SecretRef::File(path.to_str().unwrap().into());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(secrets(Environment::default()).warning(&reference).unwrap().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(secrets(Environment::default()).warning(&reference), None);
    }
}
