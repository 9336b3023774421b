//! The ClusterServiceVersion that a Subscription has installed. Pure.
//!
//! Upstream binds the two by name in a status field, and users got stuck when the pair diverged. Here any of
//! these is enough: the status, the component label, or a name that the package has in the catalog.

use std::borrow::Borrow;

use kube::ResourceExt;
use olm_api::{ClusterServiceVersion, Subscription, names};
use olm_resolver::{InstalledRef, Version};

/// The leaf of the chain of versions that belong to the Subscription's package.
pub fn installed<'a, C: Borrow<ClusterServiceVersion>>(
    subscription: &Subscription,
    csvs: &'a [C],
    in_package: impl Fn(&str) -> bool,
) -> Option<&'a ClusterServiceVersion> {
    let namespace = subscription.namespace().unwrap_or_default();
    let label = names::component_label(&subscription.spec.name, &namespace);
    let status = subscription.status.as_ref();
    let named = |name: &str| {
        status.is_some_and(|s| {
            s.installed_csv.as_deref() == Some(name) || s.current_csv.as_deref() == Some(name)
        })
    };
    let ours = |csv: &&ClusterServiceVersion| {
        let name = csv.name_any();
        csv.metadata.deletion_timestamp.is_none()
            && !csv.labels().contains_key(names::LABEL_COPIED_FROM)
            && (csv.labels().contains_key(&label) || named(&name) || in_package(&name))
    };
    let candidates: Vec<&ClusterServiceVersion> = csvs.iter().map(Borrow::borrow).filter(ours).collect();
    let replaced = |name: &str| candidates.iter().any(|c| c.spec.replaces.as_deref() == Some(name));
    let leaves = candidates.iter().filter(|c| !replaced(&c.name_any()));
    // Several leaves are a broken state; the newest version is the running one.
    leaves.max_by_key(|c| (version(c), c.name_any())).copied()
}

/// A version of the Subscription's package that is deleted and held by a finalizer, when no other version of
/// it is left.
pub fn leaving<'a>(
    subscription: &Subscription,
    csvs: &'a [ClusterServiceVersion],
) -> Option<&'a ClusterServiceVersion> {
    let label =
        names::component_label(&subscription.spec.name, &subscription.namespace().unwrap_or_default());
    let bound = subscription.status.as_ref().and_then(|s| s.installed_csv.as_ref());
    csvs.iter().find(|csv| {
        csv.metadata.deletion_timestamp.is_some()
            && !csv.labels().contains_key(names::LABEL_COPIED_FROM)
            && (csv.labels().contains_key(&label) || bound == csv.metadata.name.as_ref())
    })
}

pub fn version(csv: &ClusterServiceVersion) -> Option<Version> {
    csv.spec.version.as_deref().and_then(|text| olm_version::parse_lenient(text).ok())
}

pub fn reference(csv: &ClusterServiceVersion) -> InstalledRef {
    InstalledRef { name: csv.name_any(), version: version(csv) }
}

#[cfg(test)]
mod tests {
    use olm_api::{ClusterServiceVersionSpec, SubscriptionSpec, SubscriptionStatus};

    use super::*;

    fn subscription() -> Subscription {
        let spec = SubscriptionSpec { name: "etcd".into(), ..SubscriptionSpec::default() };
        let mut subscription = Subscription::new("my-etcd", spec);
        subscription.metadata.namespace = Some("db".into());
        subscription
    }

    fn csv(name: &str, version: &str, replaces: Option<&str>) -> ClusterServiceVersion {
        let spec = ClusterServiceVersionSpec {
            version: Some(version.into()),
            replaces: replaces.map(str::to_owned),
            ..ClusterServiceVersionSpec::default()
        };
        let mut csv = ClusterServiceVersion::new(name, spec);
        csv.labels_mut().insert("operators.coreos.com/etcd.db".into(), String::new());
        csv
    }

    #[test]
    fn the_newest_of_a_chain_is_installed() {
        let csvs = [csv("etcd.v2", "2.0.0", Some("etcd.v1")), csv("etcd.v1", "1.0.0", None)];
        let found = installed(&subscription(), &csvs, |_| false).unwrap();
        assert_eq!(found.name_any(), "etcd.v2");
    }

    #[test]
    fn a_version_that_was_applied_by_hand_is_found_by_its_name_in_the_catalog() {
        let mut by_hand = csv("etcd.v1", "1.0.0", None);
        by_hand.metadata.labels = None;
        let csvs = [by_hand, csv_of_other_package()];
        assert!(installed(&subscription(), &csvs, |_| false).is_none());
        assert!(installed(&subscription(), &csvs, |name| name == "etcd.v1").is_some());
    }

    #[test]
    fn the_status_binds_a_version_that_the_catalog_has_forgotten() {
        let mut old = csv("etcd.v0", "0.1.0", None);
        old.metadata.labels = None;
        let mut subscription = subscription();
        subscription.status =
            Some(SubscriptionStatus { installed_csv: Some("etcd.v0".into()), ..Default::default() });
        assert!(installed(&subscription, &[old], |_| false).is_some());
    }

    fn csv_of_other_package() -> ClusterServiceVersion {
        let mut csv = csv("prometheus.v1", "1.0.0", None);
        csv.metadata.labels = None;
        csv
    }
}
