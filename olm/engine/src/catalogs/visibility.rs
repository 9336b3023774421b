//! The catalogs that a namespace may use: its own and, unless its OperatorGroup excludes them, those of the
//! product's namespace. Pure.

use std::sync::Arc;

use kube::ResourceExt;
use olm_api::{OperatorGroup, names};

use super::LoadedCatalog;

/// The catalogs visible from a namespace.
#[derive(Debug, Clone, Copy)]
pub struct CatalogVisibility<'a> {
    namespace: &'a str,
    global: &'a str,
    /// The OperatorGroup excludes catalogs of the product's namespace.
    alone: bool,
}

impl<'a> CatalogVisibility<'a> {
    pub fn of(namespace: &'a str, global: &'a str, groups: &[Arc<OperatorGroup>]) -> Self {
        let alone = groups.iter().any(|group| {
            group.annotations().get(names::ANNOTATION_EXCLUDE_GLOBAL).is_some_and(|value| value == "true")
        });
        Self { namespace, global, alone }
    }

    /// Whether catalogs of that namespace may be used.
    pub fn reaches(&self, namespace: &str) -> bool {
        namespace == self.namespace || namespace == self.global && !self.alone
    }

    /// The catalogs that may be used, in the same order.
    pub fn among(&self, catalogs: &[LoadedCatalog]) -> Vec<LoadedCatalog> {
        catalogs.iter().filter(|catalog| self.reaches(&catalog.reference.namespace)).cloned().collect()
    }

    /// Why a catalog is not usable, and the fix.
    pub fn refuses(&self, namespace: &str, name: &str) -> Option<(String, String)> {
        let (own, global) = (self.namespace, self.global);
        if self.reaches(namespace) {
            return None;
        }
        let what = format!("catalogsource {namespace}/{name} is not available in namespace {own}");
        Some(if namespace == global {
            let key = names::ANNOTATION_EXCLUDE_GLOBAL;
            (
                format!("{what}: its OperatorGroup has the annotation {key}"),
                format!("set spec.sourceNamespace to {own}, or remove the annotation"),
            )
        } else if self.alone {
            (
                format!("{what}: only catalogs of that namespace are visible there"),
                format!("set spec.sourceNamespace to {own}"),
            )
        } else {
            (
                format!("{what}: only catalogs of that namespace and of {global} are visible there"),
                format!("set spec.sourceNamespace to {own} or {global}"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(value: &str) -> [Arc<OperatorGroup>; 1] {
        let mut group = OperatorGroup::new("g", olm_api::OperatorGroupSpec::default());
        group.annotations_mut().insert(names::ANNOTATION_EXCLUDE_GLOBAL.into(), value.into());
        [Arc::new(group)]
    }

    #[test]
    fn a_namespace_uses_its_own_catalogs_and_those_of_the_products() {
        let visibility = CatalogVisibility::of("ns", "olm", &[]);
        assert_eq!(["ns", "olm", "web"].map(|namespace| visibility.reaches(namespace)), [true, true, false]);
        let (text, fix) = visibility.refuses("web", "c").unwrap();
        assert!(text.starts_with("catalogsource web/c is not available in namespace ns: "), "{text}");
        assert_eq!(fix, "set spec.sourceNamespace to ns or olm");
    }

    #[test]
    fn a_group_shuts_the_products_catalogs_out_by_the_word_true() {
        let groups = group("true");
        let visibility = CatalogVisibility::of("ns", "olm", &groups);
        assert_eq!(["ns", "olm", "web"].map(|namespace| visibility.reaches(namespace)), [true, false, false]);
        assert!(visibility.refuses("olm", "c").unwrap().0.ends_with(names::ANNOTATION_EXCLUDE_GLOBAL));
        assert_eq!(visibility.refuses("web", "c").unwrap().1, "set spec.sourceNamespace to ns");
        // the product's namespace may use its own
        assert!(CatalogVisibility::of("olm", "olm", &groups).reaches("olm"));
        assert!(CatalogVisibility::of("ns", "olm", &group("false")).reaches("olm"));
    }
}
