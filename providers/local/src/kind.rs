//! The kinds `File` and `Directory`; the doc comments of the fields are what `explain` prints.

use reconciled_provider::{At, Kind, Kinds, yaml::TextOr};
use serde::Deserialize;

use crate::{
    balancer::{BALANCER, BalancerSpec},
    cron::{CRON_JOB, CronJobSpec},
    deployment::{DEPLOYMENT, DeploymentSpec},
    systemd::{self, UnitSpec},
};

/// Value of `apiVersion`.
pub const API_VERSION: &str = "local/v1";
/// Value of `kind` of a file, a symbolic link, or a block in a file.
pub const FILE: &str = "File";
/// Value of `kind` of a directory.
pub const DIRECTORY: &str = "Directory";

/// The kinds of a host.
pub fn kinds() -> Kinds {
    Kinds(vec![
        Kind::of::<FileSpec>(
            &[API_VERSION],
            FILE,
            "A file of a host, a symbolic link, or a block of lines in a file",
        ),
        Kind::of::<DirectorySpec>(&[API_VERSION], DIRECTORY, "A directory of a host"),
        Kind::of::<CronJobSpec>(&[API_VERSION], CRON_JOB, "A command that a host runs at times"),
        Kind::of::<UnitSpec>(&[systemd::API_VERSION], systemd::UNIT, "A unit of systemd on a host"),
        Kind::of::<DeploymentSpec>(
            &[systemd::API_VERSION],
            DEPLOYMENT,
            "Instances of a service on a host, brought to a new revision a few at a time",
        ),
        Kind::of::<BalancerSpec>(
            &[systemd::API_VERSION],
            BALANCER,
            "An nginx or HAProxy in front of deployments on a host",
        ),
    ])
}

/// A file of a host, a symbolic link, or a block of lines in a file that others write as well.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct FileSpec {
    /// Where it is: an absolute path below one of `paths` of the provider entry.
    pub path: At<String>,
    /// The provider entry. Default: the only one that knows files.
    #[serde(rename = "provider")]
    pub _provider: Option<String>,
    /// Several provider entries that all get it.
    #[serde(rename = "providers")]
    pub _providers: Option<Vec<String>>,
    /// What is in it, exactly as written: `${…}` stands for itself. Or `{secret: NAME}`, a secret that the host declares,
    /// `{sops: PATH, key: KEY}`, a value of a file of the repository that sops encrypted, or `{secret: "${ADDRESS:path}"}`, what
    /// another manifest puts out: such content is never shown.
    #[schemars(extend("x-reconciled-verbatim" = true))]
    pub content: Option<At<TextOr<SecretName>>>,
    /// Path of a file of the repository, from its root, whose content it gets.
    #[schemars(extend("x-reconciled-text-of" = "content"))]
    pub from: Option<At<String>>,
    /// The text is a template of minijinja: `{{ vars.x }}`, `{{ host.name }}`, `{{ ref('ADDRESS:path') }}`. What is not
    /// defined is an error. Default: false.
    #[serde(default, rename = "template")]
    pub _template: bool,
    /// Makes it a symbolic link that leads there.
    pub symlink: Option<At<String>>,
    /// Name or number of the user it belongs to. Default: the user that reconciled runs as.
    pub owner: Option<At<String>>,
    /// Name or number of the group it belongs to. Default: the group that reconciled runs as.
    pub group: Option<At<String>>,
    /// Permissions, in octal digits, such as `"0640"`. Default: `"0644"`, and `"0600"` where the content is a secret.
    pub mode: Option<At<String>>,
    /// Name of a command of the host configuration that must accept the new file before it takes the place of the old one.
    pub validate: Option<At<String>>,
    /// Name of a block: only the lines between its two marker lines are managed, the rest of the file belongs to others.
    pub block: Option<At<String>>,
    /// What a marker line of the block begins with. Default: `#`.
    pub comment: Option<At<String>>,
}

/// A secret that the host declares.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SecretName {
    /// Its name under `secrets` of the host configuration. Instead of a mapping with it: `{sops: PATH, key: KEY}`, a value of a file
    /// of the repository that sops encrypted.
    pub secret: String,
}

/// A directory of a host.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct DirectorySpec {
    /// Where it is: an absolute path below one of `paths` of the provider entry.
    pub path: At<String>,
    /// The provider entry. Default: the only one that knows directories.
    #[serde(rename = "provider")]
    pub _provider: Option<String>,
    /// Several provider entries that all get it.
    #[serde(rename = "providers")]
    pub _providers: Option<Vec<String>>,
    /// Name or number of the user it belongs to. Default: the user that reconciled runs as.
    pub owner: Option<At<String>>,
    /// Name or number of the group it belongs to. Default: the group that reconciled runs as.
    pub group: Option<At<String>>,
    /// Permissions, in octal digits, such as `"0750"`. Default: `"0755"`.
    pub mode: Option<At<String>>,
    /// Also delete whatever is in it and nobody declares. Such deletions are held while `guard.always` names
    /// `foreign-delete`, as it does by default. Default: false.
    #[serde(default)]
    pub purge: bool,
}
