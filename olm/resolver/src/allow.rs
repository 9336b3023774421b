//! Allowlists.

use crate::bundle::CatalogRef;

/// Bundles that a policy allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowlist {
    /// Name of the policy.
    pub policy: String,
    /// A bundle is allowed where one of them matches.
    pub entries: Vec<Allowed>,
}

impl Allowlist {
    pub fn allows(&self, catalog: &CatalogRef, package: &str, channel: &str) -> bool {
        self.entries.iter().any(|entry| entry.matches(catalog, package, channel))
    }

    /// Message for a bundle that is not allowed.
    pub fn refusal(&self, catalog: &CatalogRef, package: &str, channel: &str) -> String {
        let policy = &self.policy;
        let known = self.entries.iter().any(|entry| entry.matches_package(catalog, package));
        if known && !channel.is_empty() {
            return format!(
                "InstallPolicy {policy} does not allow channel {channel} of package {package} (spec.allow)"
            );
        }
        format!("InstallPolicy {policy} does not allow package {package} of catalog {catalog} (spec.allow)")
    }
}

/// One entry of an [`Allowlist`]. `None` matches everything; in names, `*` matches any characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Catalogs. The namespace is literal.
    pub catalogs: Option<Vec<CatalogRef>>,
    pub packages: Option<Vec<String>>,
    pub channels: Option<Vec<String>>,
}

impl Allowed {
    pub fn matches(&self, catalog: &CatalogRef, package: &str, channel: &str) -> bool {
        self.matches_package(catalog, package) && any(self.channels.as_ref(), channel)
    }

    fn matches_package(&self, catalog: &CatalogRef, package: &str) -> bool {
        let from = |wanted: &CatalogRef| {
            wanted.namespace == catalog.namespace && matches(&wanted.name, &catalog.name)
        };
        self.catalogs.as_ref().is_none_or(|list| list.iter().any(from))
            && any(self.packages.as_ref(), package)
    }
}

fn any(patterns: Option<&Vec<String>>, text: &str) -> bool {
    patterns.is_none_or(|list| list.iter().any(|pattern| matches(pattern, text)))
}

/// Whether a text matches a pattern in which `*` matches any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts = rest.split('*');
    let last = parts.next_back().unwrap_or_default();
    // The leftmost match of each part leaves the most for the following ones.
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = text.get(at + part.len()..).unwrap_or_default();
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, wanted) in [
            ("etcd", "etcd", true),
            ("etcd", "etcd2", false),
            ("*", "", true),
            ("etcd*", "etcd", true),
            ("*-operator", "etcd-operator", true),
            ("*-operator", "-operators", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*a*", "bab", true),
            ("ä*", "äb", true),
            ("stable-*", "stable", false),
        ] {
            assert_eq!(matches(pattern, text), wanted, "{pattern} {text}");
        }
    }

    #[test]
    fn every_field_of_an_entry_must_match_and_one_entry_suffices() {
        let names = |list: &[&str]| Some(list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let list = Allowlist {
            policy: "dev".into(),
            entries: vec![
                Allowed {
                    catalogs: Some(vec![CatalogRef::new("olm", "com*")]),
                    packages: names(&["etcd"]),
                    channels: names(&["stable"]),
                },
                Allowed { packages: names(&["cert-*"]), ..Allowed::default() },
            ],
        };
        let allows = |namespace: &str, catalog: &str, package: &str, channel: &str| {
            list.allows(&CatalogRef::new(namespace, catalog), package, channel)
        };
        assert!(allows("olm", "community", "etcd", "stable"));
        // a catalog of the same name in another namespace is a different one
        assert!(!allows("team", "community", "etcd", "stable"));
        assert!(!allows("olm", "mine", "etcd", "stable"));
        assert!(!allows("olm", "community", "etcd", "beta"));
        assert!(allows("team", "mine", "cert-manager", "beta"));
        assert!(!allows("olm", "community", "vault", "stable"));
        let text = |package, channel| list.refusal(&CatalogRef::new("olm", "community"), package, channel);
        assert_eq!(
            text("etcd", "beta"),
            "InstallPolicy dev does not allow channel beta of package etcd (spec.allow)"
        );
        assert!(text("vault", "beta").contains("package vault of catalog olm/community"));
    }
}
