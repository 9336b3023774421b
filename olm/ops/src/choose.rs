//! Default choices for omitted options.

use olm_engine::catalogs::LoadedCatalog;
use olm_kube_schema::names::is_dns_label;

/// The default namespace of a package: the one that its newest version suggests
/// (`operatorframework.io/suggested-namespace`), else the package's name.
#[must_use]
pub fn suggested_namespace(catalogs: &[LoadedCatalog], package: &str) -> String {
    let summary = catalogs.iter().find_map(|c| c.catalog.summary(package));
    summary
        .and_then(|summary| summary.suggested_namespace.clone())
        // Text from a catalog is untrusted.
        .filter(|namespace| is_dns_label(namespace))
        .unwrap_or_else(|| package.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_that_is_no_name_is_not_taken() {
        assert!(is_dns_label("etcd") && is_dns_label("my-ns-2"));
        for bad in ["", "-a", "a-", "A", "a/b", "../x", &"a".repeat(64)] {
            assert!(!is_dns_label(bad), "{bad}");
        }
    }
}
