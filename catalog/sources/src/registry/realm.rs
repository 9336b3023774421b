//! Whether a token service belongs to a registry.

use std::net::IpAddr;

/// Second-level domains under which countries register names, such as `co.uk`.
const SECOND_LEVELS: [&str; 12] =
    ["ac", "co", "com", "edu", "go", "gob", "gov", "gouv", "ne", "net", "or", "org"];
/// Domains whose subdomains belong to different customers or clusters: only the same host is the same site.
const SHARED: [&str; 17] = [
    "amazonaws.com",
    "amazonaws.com.cn",
    "aliyuncs.com",
    "azure.com",
    "azurecr.cn",
    "azurecr.io",
    "azurecr.us",
    "azurewebsites.net",
    "cloudfront.net",
    "fly.dev",
    "github.io",
    "herokuapp.com",
    "ocir.io",
    "pages.dev",
    "pkg.dev",
    "run.app",
    "workers.dev",
];
/// Top-level domains of private networks: their names are not registered publicly.
const PRIVATE: [&str; 7] = ["cluster", "internal", "lan", "local", "localhost", "svc", "test"];

/// Whether two hosts have the same registrable domain (`registry.gitlab.com` and `gitlab.com`), or are the
/// same.
pub(super) fn same_site(registry: &str, other: &str) -> bool {
    let (registry, other) = (registry.to_ascii_lowercase(), other.to_ascii_lowercase());
    registry == other || site(&registry).is_some_and(|site| Some(site) == self::site(&other))
}

/// The registrable domain of a host; none where only the host itself counts.
fn site(host: &str) -> Option<&str> {
    let host = host.trim_end_matches('.');
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let below =
        |domain: &&str| host.strip_suffix(*domain).is_some_and(|rest| rest.ends_with('.') || rest.is_empty());
    let labels: Vec<&str> = host.split('.').collect();
    let (last, second) = (labels.last()?, labels.len().checked_sub(2).map(|at| labels[at])?);
    if address || PRIVATE.contains(last) || SHARED.iter().any(below) {
        return None;
    }
    let wanted = if last.len() == 2 && SECOND_LEVELS.contains(&second) { 3 } else { 2 };
    let start = labels.len().checked_sub(wanted)?;
    let length: usize = labels[start..].iter().map(|label| label.len() + 1).sum();
    host.get(host.len() + 1 - length..)
}

#[cfg(test)]
mod tests {
    use super::same_site;

    #[test]
    fn t14_a_token_service_belongs_to_the_registry_or_gets_nothing() {
        for (registry, realm) in [
            ("registry-1.docker.io", "auth.docker.io"),
            ("quay.io", "quay.io"),
            ("registry.gitlab.com", "gitlab.com"),
            ("registry.connect.redhat.com", "sso.redhat.com"),
            ("harbor.example.co.uk", "login.example.co.uk"),
            ("me.azurecr.io", "ME.azurecr.io"),
            ("127.0.0.1", "127.0.0.1"),
            ("registry.ns.svc.cluster.local", "registry.ns.svc.cluster.local"),
        ] {
            assert!(same_site(registry, realm), "{registry} {realm}");
        }
        for (registry, realm) in [
            ("quay.io", "quay.io.evil.example"),
            ("quay.io", "evil-quay.io"),
            ("docker.io", "io"),
            ("a.co.uk", "b.co.uk"),
            ("me.azurecr.io", "evil.azurecr.io"),
            ("1.dkr.ecr.eu-west-1.amazonaws.com", "evil.s3.amazonaws.com"),
            ("127.0.0.1", "127.0.0.2"),
            ("[::1]", "[::2]"),
            ("registry.ns.svc.cluster.local", "registry.evil.svc.cluster.local"),
            ("registry", "evil"),
            ("registry.lan", "evil.lan"),
        ] {
            assert!(!same_site(registry, realm), "{registry} {realm}");
        }
    }
}
