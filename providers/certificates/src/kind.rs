//! The kinds `Issuer` and `Certificate`; the doc comments of the fields are what `explain` prints.
//!
//! Fields are called as cert-manager calls them, and manifests of `cert-manager.io/v1` are read as they are.

use reconciled_provider::{At, Kind, Kinds};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Value of `apiVersion`.
pub const API_VERSION: &str = "cert/v1";
/// What cert-manager writes there.
pub const CERT_MANAGER: &str = "cert-manager.io/v1";
/// Value of `kind` of who issues.
pub const ISSUER: &str = "Issuer";
/// What cert-manager calls an issuer for every namespace.
pub const CLUSTER_ISSUER: &str = "ClusterIssuer";
/// Value of `kind` of a certificate.
pub const CERTIFICATE: &str = "Certificate";

/// What a field of cert-manager says, whatever it is.
pub type Anything = serde_json::Value;

/// The kinds of this family.
pub fn kinds() -> Kinds {
    let versions = &[API_VERSION, CERT_MANAGER];
    Kinds(vec![
        Kind::of::<IssuerSpec>(versions, ISSUER, "Who issues certificates"),
        Kind::of::<IssuerSpec>(
            &[CERT_MANAGER],
            CLUSTER_ISSUER,
            "Who issues certificates, for every namespace",
        ),
        Kind::of::<CertificateSpec>(versions, CERTIFICATE, "A certificate, its key, and where they are put"),
    ])
}

/// Who issues certificates: exactly one of `acme`, `ca` and `selfSigned`.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct IssuerSpec {
    /// The provider entry. Default: the only one that knows certificates.
    #[serde(rename = "provider")]
    pub _provider: Option<String>,
    /// Several provider entries that all know it.
    #[serde(rename = "providers")]
    pub _providers: Option<Vec<String>>,
    /// An authority that speaks ACME (RFC 8555).
    pub acme: Option<At<AcmeSpec>>,
    /// A certificate of our own that signs others.
    pub ca: Option<At<CaSpec>>,
    /// Each certificate signs itself.
    pub self_signed: Option<At<SelfSignedSpec>>,
}

/// Each certificate signs itself.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SelfSignedSpec {}

/// A certificate of our own that signs others: that of a manifest, or one that the host has.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct CaSpec {
    /// Name of a Certificate with `isCA: true`, of the same namespace and provider entry.
    pub certificate: Option<At<String>>,
    /// `secretName` of a Certificate with `isCA: true`, as cert-manager writes it.
    pub secret_name: Option<At<String>>,
    /// Its certificate, in PEM, as a secret that the host declares; behind it may stand those above it.
    pub cert: Option<At<SecretName>>,
    /// Its key, in PEM (PKCS #8), as a secret that the host declares.
    pub key: Option<At<SecretName>>,
    /// cert-manager's addresses of lists of what was taken back. Nothing is taken back here, so it is an error.
    pub crl_distribution_points: Option<At<Anything>>,
    /// cert-manager's addresses of a service that says what was taken back. As `crlDistributionPoints`.
    pub ocsp_servers: Option<At<Anything>>,
    /// cert-manager's addresses of the certificate that signs. They are not written here: an error.
    #[serde(rename = "issuingCertificateURLs")]
    #[schemars(rename = "issuingCertificateURLs")]
    pub issuing_certificate_urls: Option<At<Anything>>,
}

/// A secret that the host declares.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SecretName {
    /// Its name under `secrets` of the host configuration. Instead of a mapping with it: `{sops: PATH, key: KEY}`, a value of a file
    /// of the repository that sops encrypted.
    pub secret: String,
}

/// An authority that speaks ACME.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct AcmeSpec {
    /// URL of its directory.
    pub server: At<String>,
    /// Where it may write to.
    pub email: Option<String>,
    /// Certificates its own is checked with, in PEM and base64, instead of those of the system.
    pub ca_bundle: Option<At<String>>,
    /// An account that exists elsewhere, to which the one made here is bound.
    pub external_account_binding: Option<EabSpec>,
    /// After how long the account gets another key, such as `365d`. Default: never.
    pub rotate_account_key_after: Option<At<String>>,
    /// What kind of certificates: a word the authority gives, such as `shortlived`.
    pub profile: Option<String>,
    /// When certificates that were issued with another `profile` are replaced: with their next `renewal` (the default), or `now`.
    pub on_profile_change: Option<At<String>>,
    /// Common name of the topmost issuer of the chain to take where several are offered.
    pub preferred_chain: Option<String>,
    /// cert-manager's way to have `duration` heeded. Here authorities decide, so it has no effect, and is warned of.
    pub enable_duration_feature: Option<At<bool>>,
    /// cert-manager's way to use an account that exists. Here one is made, so `true` is an error.
    pub disable_account_key_generation: Option<At<bool>>,
    /// cert-manager's way to ask whoever answers. Here `true` is an error: `caBundle` says whom to believe.
    #[serde(rename = "skipTLSVerify")]
    #[schemars(rename = "skipTLSVerify")]
    pub skip_tls_verify: Option<At<bool>>,
    /// Where cert-manager keeps the key of the account. It is kept in the state directory here.
    #[serde(rename = "privateKeySecretRef")]
    pub _private_key_secret_ref: Option<NameRef>,
    /// How names are proven. The most fitting is taken: by `dnsNames`, then by the longest of `dnsZones`, then the first.
    pub solvers: Vec<At<SolverSpec>>,
}

/// An account that exists elsewhere.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct EabSpec {
    /// Its id.
    #[serde(rename = "keyID")]
    #[schemars(rename = "keyID")]
    pub key_id: String,
    /// Its key, in base64url, as a secret that the host declares.
    pub key: Option<At<SecretName>>,
    /// The same, as cert-manager writes it.
    pub key_secret_ref: Option<At<PasswordRef>>,
    /// `HS256`, the only one there is.
    pub key_algorithm: Option<At<String>>,
}

/// A name of something else.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NameRef {
    /// The name.
    #[serde(rename = "name")]
    pub _name: Option<String>,
    /// Part of it.
    #[serde(rename = "key")]
    pub _key: Option<String>,
}

/// How names are proven: one of `dns01`, `http01`, `tlsAlpn01` and `dnsPersist01`.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct SolverSpec {
    /// Which names it is for. Default: all.
    #[serde(default)]
    pub selector: SelectorSpec,
    /// By a TXT record.
    pub dns01: Option<Dns01Spec>,
    /// By an answer over HTTP.
    pub http01: Option<Http01Spec>,
    /// By an answer in a TLS handshake.
    pub tls_alpn01: Option<TlsAlpn01Spec>,
    /// By a TXT record that is declared once and stays.
    pub dns_persist01: Option<DnsPersist01Spec>,
}

/// Which names a solver is for.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase", default)]
pub struct SelectorSpec {
    /// These names, as the certificate writes them.
    pub dns_names: Vec<String>,
    /// Every name in these zones.
    pub dns_zones: Vec<String>,
    /// Every name of certificates with these labels. Default: of all certificates.
    pub match_labels: BTreeMap<String, String>,
}

/// A TXT record at `_acme-challenge`.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct Dns01Spec {
    /// The provider entry that has the zone; needed.
    pub provider: Option<At<String>>,
    /// Where the record is put instead, when `_acme-challenge` is a CNAME that leads there.
    pub delegated_to: Option<At<String>>,
    /// cert-manager's way to follow a CNAME. It has no effect here, and `Follow` is warned of: `delegatedTo` says where to.
    pub cname_strategy: Option<At<String>>,
    /// cert-manager's credentials. Here they are the host's, so these are errors that say what to write.
    #[serde(rename = "acmeDNS")]
    #[schemars(rename = "acmeDNS")]
    pub acme_dns: Option<At<Anything>>,
    /// As `acmeDNS`.
    pub akamai: Option<At<Anything>>,
    /// As `acmeDNS`.
    #[serde(rename = "azureDNS")]
    #[schemars(rename = "azureDNS")]
    pub azure_dns: Option<At<Anything>>,
    /// As `acmeDNS`.
    #[serde(rename = "cloudDNS")]
    #[schemars(rename = "cloudDNS")]
    pub cloud_dns: Option<At<Anything>>,
    /// As `acmeDNS`.
    pub cloudflare: Option<At<Anything>>,
    /// As `acmeDNS`.
    pub digitalocean: Option<At<Anything>>,
    /// As `acmeDNS`.
    pub rfc2136: Option<At<Anything>>,
    /// As `acmeDNS`.
    pub route53: Option<At<Anything>>,
    /// As `acmeDNS`.
    pub webhook: Option<At<Anything>>,
}

impl Dns01Spec {
    /// What cert-manager would have asked instead of a provider entry, with its field.
    pub fn theirs(&self) -> impl Iterator<Item = (&'static str, &At<Anything>)> {
        let all = [
            ("acmeDNS", &self.acme_dns),
            ("akamai", &self.akamai),
            ("azureDNS", &self.azure_dns),
            ("cloudDNS", &self.cloud_dns),
            ("cloudflare", &self.cloudflare),
            ("digitalocean", &self.digitalocean),
            ("rfc2136", &self.rfc2136),
            ("route53", &self.route53),
            ("webhook", &self.webhook),
        ];
        all.into_iter().filter_map(|(field, at)| Some((field, at.as_ref()?)))
    }
}

/// An answer over HTTP at port 80 of the name.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct Http01Spec {
    /// The directory that a web server shows at port 80, below one of `paths` of the provider entry: the answer is put into
    /// `.well-known/acme-challenge` in it. Default: the answer is given at `listen` of the entry.
    pub webroot: Option<At<String>>,
    /// What cert-manager would have in front of its answer. It has no effect here, and is warned of: the answer is given at
    /// `listen`.
    pub ingress: Option<At<Anything>>,
    /// As `ingress`.
    #[serde(rename = "gatewayHTTPRoute")]
    #[schemars(rename = "gatewayHTTPRoute")]
    pub gateway_http_route: Option<At<Anything>>,
}

/// An answer in a TLS handshake at port 443 of the name (RFC 8737).
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct TlsAlpn01Spec {}

/// A TXT record at `_validation-persist` that names the authority and the account (draft-ietf-acme-dns-persist). It is
/// declared once, wherever the zone is managed, and stays: `status` of the certificate has it.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DnsPersist01Spec {}

/// A certificate, its key, and where they are put.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct CertificateSpec {
    /// The provider entry. Default: the only one that knows certificates.
    #[serde(rename = "provider")]
    pub _provider: Option<String>,
    /// Several provider entries that each issue one.
    #[serde(rename = "providers")]
    pub _providers: Option<Vec<String>>,
    /// Who issues it.
    pub issuer_ref: Option<At<IssuerRef>>,
    /// Who issues it, in this order: the next one is asked where one refuses, or has not answered for long.
    #[serde(default)]
    pub issuer_refs: Vec<At<IssuerRef>>,
    /// Names it is for; the first label may be `*`.
    #[serde(default)]
    pub dns_names: Vec<At<String>>,
    /// Addresses it is for.
    #[serde(default)]
    pub ip_addresses: Vec<At<String>>,
    /// Name of the subject; up to 64 characters. Only shown where there are names and addresses.
    pub common_name: Option<At<String>>,
    /// Its key.
    #[serde(default)]
    pub private_key: KeySpec,
    /// What it may be used for, such as `server auth`. Default: `digital signature`, `key encipherment`, `server auth`.
    pub usages: Option<Vec<At<String>>>,
    /// It may sign other certificates.
    #[serde(rename = "isCA", default)]
    #[schemars(rename = "isCA")]
    pub is_ca: bool,
    /// How long it is valid, such as `2160h` or `90d`, where the issuer lets us say: `ca` and `selfSigned`. Default: `90d`.
    pub duration: Option<At<String>>,
    /// How long before its end it is renewed. Default: a third of its time, half of it at ten days or less.
    pub renew_before: Option<At<String>>,
    /// The same as a share of its time, in percent.
    pub renew_before_percentage: Option<At<u32>>,
    /// Where it is put: `tls.crt`, `tls.key` and, where the issuer has one, `ca.crt`.
    pub output: Option<At<OutputSpec>>,
    /// Name of a directory in `directory` of the provider entry, where `output` says nothing.
    pub secret_name: Option<At<String>>,
    /// The same as `pkcs12` of `output`, as cert-manager writes it.
    pub keystores: Option<At<KeystoresSpec>>,
    /// Units that read the files again whenever they changed.
    #[serde(default)]
    pub reload: Vec<At<String>>,
    /// Units that go on showing another certificate at an address in `serve` although they were told again are restarted.
    /// Default: false.
    pub escalate: Option<At<bool>>,
    /// Addresses, as `HOST:PORT`, at which it shall be served; it is Degraded until they do, and units in `reload` are told
    /// again while one shows another certificate.
    #[serde(default)]
    pub serve: Vec<At<String>>,
    /// Files beside `tls.crt` and `tls.key`, as cert-manager writes them: `CombinedPEM` is `combined` of `output`.
    #[serde(default)]
    pub additional_output_formats: Vec<At<FormatSpec>>,
    /// Further parts of the subject. Authorities leave them out, so there they are warned of; else they are an error.
    pub subject: Option<At<Anything>>,
    /// Labels of cert-manager's Secret. There is none here: of no effect, and warned of.
    pub secret_template: Option<At<Anything>>,
    /// Whether usages are in the request. They are here: `false` is warned of.
    pub encode_usages_in_request: Option<At<bool>>,
    /// Names that are URIs. They are not written here: an error.
    #[serde(default)]
    pub uris: Vec<At<String>>,
    /// Names that are mail addresses. They are not written here: an error.
    #[serde(default)]
    pub email_addresses: Vec<At<String>>,
    /// Names of other kinds. They are not written here: an error.
    pub other_names: Option<At<Anything>>,
    /// The whole subject as a text. Only `commonName` is written here: an error.
    pub literal_subject: Option<At<Anything>>,
    /// How it is signed. The key of who signs decides: with an authority a warning, else an error.
    pub signature_algorithm: Option<At<Anything>>,
    /// Which names a certificate that signs others may sign. It is not written here: an error.
    pub name_constraints: Option<At<Anything>>,
    /// Accepted, and of no effect: what is no longer used is not kept.
    #[serde(rename = "revisionHistoryLimit")]
    pub _revision_history_limit: Option<u32>,
}

impl CertificateSpec {
    /// Who issues it, in the order they are asked.
    pub fn issuers(&self) -> impl Iterator<Item = &At<IssuerRef>> {
        self.issuer_ref.iter().chain(&self.issuer_refs)
    }
}

/// Who issues a certificate.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct IssuerRef {
    /// Name of the issuer.
    pub name: String,
    /// `Issuer` (of the same namespace, the default) or `ClusterIssuer`.
    pub kind: Option<String>,
    /// As cert-manager writes it: `cert-manager.io`.
    #[serde(rename = "group")]
    pub _group: Option<String>,
}

/// The key of a certificate.
#[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase", default)]
pub struct KeySpec {
    /// `ECDSA` (the default), `RSA` or `Ed25519`.
    pub algorithm: Option<At<String>>,
    /// Bits: 256 or 384 for ECDSA, 2048, 3072 or 4096 for RSA.
    pub size: Option<At<u32>>,
    /// `Always` (the default): a new key for each certificate; `Never`: the key stays.
    pub rotation_policy: Option<At<String>>,
    /// How it is written: `PKCS8` (the default), or `PKCS1`, which is what cert-manager calls the older forms of RSA and ECDSA.
    pub encoding: Option<At<String>>,
}

/// A file beside the others.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FormatSpec {
    /// `CombinedPEM`, the only one there is: the key and behind it the chain, as `tls-combined.pem`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Where a certificate is put.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct OutputSpec {
    /// The directory, below one of `paths` of the provider entry.
    pub directory: At<String>,
    /// Name or number of the user the files belong to. Default: the user that reconciled runs as.
    pub owner: Option<At<String>>,
    /// Name or number of the group the files belong to. Default: the group that reconciled runs as.
    pub group: Option<At<String>>,
    /// Permissions of the key, in octal digits. Default: `"0600"`. Certificates are for everybody to read.
    pub mode: Option<At<String>>,
    /// Also write `tls-combined.pem`: the key and behind it the chain, with the permissions of the key. Default: false.
    #[serde(default)]
    pub combined: bool,
    /// Also write `keystore.p12`, with the permissions of the key.
    pub pkcs12: Option<At<Pkcs12Spec>>,
}

/// Key and chain in one file with a password (PKCS #12), as Java and Windows read it: AES-256 and HMAC-SHA-256.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Pkcs12Spec {
    /// Its password, as a secret that the host declares or the repository has encrypted.
    pub password: At<SecretName>,
}

/// Files with a password, as cert-manager writes them down.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct KeystoresSpec {
    /// `keystore.p12`.
    pub pkcs12: Option<At<KeystoreSpec>>,
    /// Java's own form. It is not written here, and Java reads `keystore.p12`: an error where it is to be made.
    pub jks: Option<At<Anything>>,
}

/// Key and chain in one file with a password.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct KeystoreSpec {
    /// Write it.
    pub create: bool,
    /// Its password.
    pub password_secret_ref: Option<At<PasswordRef>>,
    /// How it is encrypted: `Modern2023`, the only way there is.
    pub profile: Option<At<String>>,
}

/// A password, as cert-manager names it.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PasswordRef {
    /// Name of a secret that the host declares.
    pub name: String,
    /// Accepted, and of no effect: a secret of the host is one value.
    #[serde(rename = "key")]
    pub _key: Option<String>,
}
