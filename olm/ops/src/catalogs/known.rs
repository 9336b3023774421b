//! Public catalogs with a short name.

/// A public catalog image.
#[derive(Debug)]
pub struct Known {
    pub name: &'static str,
    pub image: &'static str,
    pub display_name: &'static str,
    pub publisher: &'static str,
}

impl Known {
    /// Whether the registry of the image requires a pull secret.
    #[must_use]
    pub fn requires_pull_secret(&self) -> bool {
        self.image.starts_with("registry.redhat.io/")
    }
}

/// The public catalogs with a short name. The images of Red Hat require a pull secret for registry.redhat.io. Their names are those of OpenShift;
/// `community` is the shipped catalog.
pub const KNOWN: &[Known] = &[
    Known {
        name: "operatorhub",
        image: "quay.io/operatorhubio/catalog:latest",
        display_name: "OperatorHub.io",
        publisher: "OperatorHub.io",
    },
    Known {
        name: "redhat-operators",
        image: "registry.redhat.io/redhat/redhat-operator-index:v4.21",
        display_name: "Red Hat Operators",
        publisher: "Red Hat",
    },
    Known {
        name: "certified-operators",
        image: "registry.redhat.io/redhat/certified-operator-index:v4.21",
        display_name: "Certified Operators",
        publisher: "Red Hat",
    },
    Known {
        name: "community-operators",
        image: "registry.redhat.io/redhat/community-operator-index:v4.21",
        display_name: "Community Operators",
        publisher: "Red Hat",
    },
];

/// The known catalog with this name.
#[must_use]
pub fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// The names of all known catalogs.
#[must_use]
pub fn known_names() -> Vec<&'static str> {
    KNOWN.iter().map(|known| known.name).collect()
}

#[cfg(test)]
mod tests {
    use olm_kube_schema::names::is_dns_label;

    use super::*;

    #[test]
    fn known_catalogs_are_in_the_page_and_do_not_hide_the_shipped_one() {
        let page = include_str!("../../../../docs/catalog-sources.md");
        for name in known_names() {
            let known = known(name).unwrap();
            assert!(is_dns_label(name) && name != crate::manifests::SHIPPED_CATALOG, "{name}");
            let access = if known.requires_pull_secret() { "`--pull-secret`" } else { "public" };
            assert!(page.contains(&format!("| `{name}` | `{}` | {access} |", known.image)), "{name}");
        }
        assert!(known("operatorhb").is_none());
    }
}
