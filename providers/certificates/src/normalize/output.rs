//! Where a certificate is put, and in which files.

use super::reader::Reader;
use crate::{
    config::check_path,
    kind::{CertificateSpec, KeystoreSpec},
    wish::{Issue, Keystore, Output},
};
use reconciled_provider::{At, SecretMark, Span};

/// What cert-manager calls AES-256 with PBKDF2 and HMAC-SHA-256.
const MODERN: &str = "Modern2023";

impl Reader<'_> {
    pub(super) fn output(&mut self, spec: &CertificateSpec) -> Option<Output> {
        let (directory, span, at) = match (&spec.output, &spec.secret_name) {
            (Some(at), _) => {
                (self.known(&at.value.directory)?.clone(), at.value.directory.span, Some(&at.value))
            }
            (None, Some(name)) => (self.named_directory(name)?, name.span, None),
            (None, None) if self.says("output") || self.says("secretName") => return None,
            (None, None) => {
                let text = "nothing says where the certificate is put";
                self.refuse(self.manifest.span, text, "write output: {directory: /etc/ssl/NAME}");
                return None;
            }
        };
        if let Err(why) = check_path(&directory) {
            self.refuse(span, format!("`{}` {why}", directory.escape_debug()), "write an absolute path");
            return None;
        }
        if !self.config.allows(&directory) {
            let message = format!("`{directory}` is not below any of the directories for certificates");
            let hint = format!(
                "the host allows {}: `paths` of provider `{}`",
                self.config.allowed(),
                self.inputs.entry()
            );
            self.refuse(span, message, &hint);
            return None;
        }
        let owner = at.and_then(|at| at.owner.as_ref()).map(|at| self.account(at));
        let group = at.and_then(|at| at.group.as_ref()).map(|at| self.account(at));
        let mode = at.and_then(|at| at.mode.as_ref()).map_or(Some(0o600), |at| self.mode(at));
        Some(Output {
            directory,
            owner: owner.map_or(Some(None), |name| name.map(Some))?,
            group: group.map_or(Some(None), |name| name.map(Some))?,
            mode: mode?,
            pkcs1: spec.private_key.encoding.as_ref().is_some_and(|at| at.value == "PKCS1"),
            combined: at.is_some_and(|at| at.combined) | self.formats(spec),
            keystore: self.keystore(spec).ok()?,
        })
    }

    fn named_directory(&mut self, name: &At<String>) -> Option<String> {
        let text = self.known(name)?;
        if text.is_empty() || text.starts_with('.') || text.contains('/') {
            self.refuse(
                name.span,
                format!("`{}` is no name of a directory", text.escape_debug()),
                "write a plain name",
            );
            return None;
        }
        let Some(directory) = &self.config.directory else {
            let message = "`secretName` has no place on this host";
            let hint = format!(
                "write output: {{directory: /etc/ssl/{text}}}, or in the host configuration `directory` for provider `{}`",
                self.inputs.entry()
            );
            self.refuse(name.span, message, &hint);
            return None;
        };
        Some(format!("{directory}/{text}"))
    }

    fn account(&mut self, at: &At<String>) -> Option<String> {
        let name = self.known(at)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.@$".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            let message = format!("`{}` is no name of a user or group", name.escape_debug());
            self.refuse(at.span, message, "write a name such as www-data, or a number");
            return None;
        }
        Some(name.clone())
    }

    fn mode(&mut self, at: &At<String>) -> Option<u32> {
        let text = self.known(at)?;
        let mode = (text.len() == 4).then(|| u32::from_str_radix(text, 8).ok()).flatten();
        // A key that all may read is none.
        let closed = mode.filter(|mode| mode & 0o7007 == 0 && mode & 0o400 != 0);
        if closed.is_none() {
            let message = format!("`{}` are no permissions for a key", text.escape_debug());
            self.refuse(
                at.span,
                message,
                "write four octal digits that keep others out, such as \"0600\" or \"0640\"",
            );
        }
        closed
    }

    /// The PKCS #12 file that is wanted; an error is one that was told.
    fn keystore(&mut self, spec: &CertificateSpec) -> Result<Option<Keystore>, ()> {
        let ours = spec.output.as_ref().and_then(|at| at.value.pkcs12.as_ref());
        let theirs = spec.keystores.as_ref().and_then(|at| at.value.pkcs12.as_ref());
        match (ours, theirs.filter(|at| at.value.create)) {
            (None, None) => Ok(None),
            (Some(at), None) => {
                let password = &at.value.password;
                self.password(password.span, &password.value.secret).map(Some)
            }
            (None, Some(at)) => self.keystore_of_cert_manager(at).map(Some),
            (Some(_), Some(at)) => {
                let text = "`keystores` has no meaning beside `pkcs12` of `output`";
                self.refuse(at.span, text, "leave one of the two out");
                Err(())
            }
        }
    }

    fn keystore_of_cert_manager(&mut self, at: &At<KeystoreSpec>) -> Result<Keystore, ()> {
        // Its default is RC2 with 40 bits, which nobody should have because nothing was said.
        if let Some(profile) = at.value.profile.as_ref().filter(|at| at.value != MODERN) {
            let message =
                format!("`{}` is no way to encrypt a PKCS #12 file here", profile.value.escape_debug());
            let hint = format!("write profile: {MODERN}, or leave it out");
            self.refuse(profile.span, message, &hint);
            return Err(());
        }
        let Some(password) = &at.value.password_secret_ref else {
            let text = "a PKCS #12 file has a password, and nothing says which";
            self.refuse(
                at.span,
                text,
                "write passwordSecretRef: {name: NAME}, a secret that the host declares",
            );
            return Err(());
        };
        self.password(password.span, &password.value.name)
    }

    fn password(&mut self, span: Span, secret: &str) -> Result<Keystore, ()> {
        match self.inputs.secret(&Issue::secret(secret)) {
            Ok(SecretMark(mark)) => Ok(Keystore { secret: secret.into(), mark }),
            Err(error) => {
                self.report(span, error);
                Err(())
            }
        }
    }
}
