//! What is known of provider types before anything is configured: their kinds, capabilities and samples.

use reconciled_provider::{Kind, Kinds, ManifestKey, Observer, ProviderInfo, ResourceId};
use std::sync::{Arc, LazyLock};

/// What is known of a provider type before anything is configured.
pub struct Type {
    /// Value of `type`.
    pub name: &'static str,
    /// Its kinds.
    pub kinds: Arc<Kinds>,
    /// Its capabilities.
    pub info: &'static ProviderInfo,
}

/// Every provider type in this binary. Schemas that one reading of manifests has worked out are there for the next.
pub fn types() -> &'static [Type] {
    static ALL: LazyLock<Vec<Type>> = LazyLock::new(all);
    &ALL
}

fn all() -> Vec<Type> {
    let dns = Arc::new(reconciled_dns::kind::kinds());
    vec![
        Type { name: "powerdns", kinds: dns.clone(), info: &reconciled_dns::powerdns::INFO },
        Type { name: "rfc2136", kinds: dns.clone(), info: &reconciled_dns::rfc2136::INFO },
        Type { name: "cloudflare", kinds: dns.clone(), info: &reconciled_dns::cloudflare::INFO },
        Type { name: "route53", kinds: dns.clone(), info: &reconciled_dns::route53::INFO },
        Type { name: "webhook", kinds: dns.clone(), info: &reconciled_dns::webhook::INFO },
        Type { name: "zonefile", kinds: dns, info: &reconciled_dns::zonefile::INFO },
        Type {
            name: "host",
            kinds: Arc::new(reconciled_local::kind::kinds()),
            info: &reconciled_local::INFO,
        },
        Type {
            name: "certificates",
            kinds: Arc::new(reconciled_certificates::kind::kinds()),
            info: &reconciled_certificates::INFO,
        },
        Type {
            name: "terraform",
            kinds: Arc::new(reconciled_cloud::kind::static_kinds()),
            info: &reconciled_cloud::INFO,
        },
    ]
}

/// Every kind in this binary, once.
pub fn kinds() -> Kinds {
    let mut all = Kinds::default();
    for kind in types().iter().flat_map(|t| t.kinds.0.iter()) {
        if !all.0.iter().any(|k| k.name == kind.name && k.api_versions == kind.api_versions) {
            all.0.push(kind.clone());
        }
    }
    all
}

/// One observer for each type, for checking manifests where nothing is configured. They never reach a remote.
pub fn samples() -> Vec<(&'static str, Arc<dyn Observer>)> {
    let zonefile = reconciled_dns::zonefile::sample("zonefile").map(|observer| ("zonefile", observer));
    let others = [
        ("host", reconciled_local::sample("host")),
        ("certificates", reconciled_certificates::sample("certificates")),
        ("terraform", reconciled_cloud::sample("terraform")),
    ];
    zonefile.into_iter().chain(others).collect()
}

/// True for what nothing but the id that its remote gave it leads to, once nobody remembers it. What is only read is read again
/// by its declaration.
pub fn needs_id(manifest: &ManifestKey, id: &ResourceId) -> bool {
    let is_group = |version: &Arc<str>| version.split('/').next() == Some(manifest.group());
    let is_its = |kind: &Kind| *kind.name == *manifest.kind() && kind.api_versions.iter().any(is_group);
    let knows = |one: &&Type| one.name != reconciled_cloud::INFO.type_name && one.kinds.0.iter().any(is_its);
    match types().iter().find(knows) {
        Some(one) => !one.info.finds_untracked(),
        // What is claimed is of no kind.
        None if manifest.group().is_empty() => false,
        // Only entries of this type tell kinds that no type knows by itself.
        None => {
            let terraform = reconciled_cloud::sample("terraform");
            !terraform.info().finds_untracked() && !terraform.only_reads(id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_its_key_or_a_list_leads_to_needs_no_id() {
        let check = |group: &str, kind: &str, id: &str, expect: bool| {
            let manifest = ManifestKey::new("infra", group, kind, "", "a");
            assert_eq!(needs_id(&manifest, &id.into()), expect, "{group} {kind}");
        };
        check("dns", "Zone", "www.a.example./A", false);
        check("externaldns.k8s.io", "DNSEndpoint", "www.a.example./A", false);
        check("cert", "Certificate", "a", false);
        check("cert-manager.io", "Certificate", "a", false);
        check("local", "File", "/etc/motd", false);
        check("", "Claim", "a.example./TXT", false);
        check("aws", "SqsQueue", "aws_sqs_queue.a", true);
        check("terraform", "Resource", "aws_sqs_queue.a", true);
        check("terraform", "Data", "data.aws_caller_identity.a", false);
    }
}
