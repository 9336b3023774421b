//! The claim for the volume of a member.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ObjectMeta;

use crate::crd::RetentionPolicy;
use crate::names;
use crate::validate::Validated;

/// The claim has the name of its member. A claim that outlives the cluster has no owner and carries the cluster's uid.
pub(crate) fn claim(cluster: &Validated, member: &str, version: &str) -> PersistentVolumeClaim {
    let mut labels = names::cluster_labels(&cluster.name);
    labels.insert(names::LABEL_NODE.into(), member.into());
    labels.insert(names::LABEL_CLUSTER_UID.into(), cluster.uid.clone());
    let owned = cluster.storage.retention == RetentionPolicy::Delete;
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(member.into()),
            namespace: Some(cluster.namespace.clone()),
            labels: Some(labels),
            annotations: Some([(names::ANNOTATION_VERSION.to_owned(), version.to_owned())].into()),
            owner_references: owned.then(|| vec![cluster.owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: Some(cluster.storage.claim.clone()),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::{tests::cluster, validate};

    #[test]
    fn volume_settings_reach_the_claim() {
        use serde_json::json;
        // given a fully described volume, and an empty description
        let described = json!({ "accessModes": ["ReadWriteOncePod"], "storageClassName": "fast", "volumeMode": "Filesystem",
                                "selector": { "matchLabels": { "tier": "a" } },
                                "resources": { "requests": { "storage": "5Gi" }, "limits": { "storage": "9Gi" } } });
        let once = |size: &str| json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } } });
        let mut slow = once("20Gi");
        slow["storageClassName"] = json!("slow");
        for (spec, expected) in [
            (json!({ "size": 3 }), once("8Gi")),
            (json!({ "size": 3, "storage": { "size": "20Gi", "storageClassName": "slow" } }), slow),
            (json!({ "size": 3, "pod": { "persistentVolumeClaimSpec": described } }), described.clone()),
            // manifests of coreos/etcd-operator: no access mode, and a number as quantity
            (
                json!({ "size": 3, "pod": { "persistentVolumeClaimSpec": { "resources": { "requests": { "storage": 5 } } } } }),
                once("5"),
            ),
        ] {
            // when a claim is built from it, then the claim has every field
            let made = claim(&validate(&cluster(spec.clone())).unwrap(), "orders-bcdfghjklm", "3.4.23");
            assert_eq!(serde_json::to_value(made.spec.unwrap()).unwrap(), expected, "{spec}");
            assert_eq!(made.metadata.annotations.unwrap()["etcd.version"], "3.4.23");
        }
    }

    #[test]
    fn a_claim_belongs_to_the_cluster_unless_it_is_to_outlive_it() {
        for (policy, owned) in [("Delete", true), ("Retain", false)] {
            let spec = serde_json::json!({ "size": 3, "storage": { "size": 1, "retentionPolicy": policy } });
            let claim = claim(&validate(&cluster(spec)).unwrap(), "orders-bcdfghjklm", "3.4.23");
            assert_eq!(claim.metadata.owner_references.is_some(), owned);
            let labels = claim.metadata.labels.unwrap();
            assert_eq!(
                (labels["etcd_cluster_uid"].as_str(), labels["etcd_node"].as_str()),
                ("u-1", "orders-bcdfghjklm")
            );
            let requests = claim.spec.unwrap().resources.unwrap().requests.unwrap();
            assert_eq!(requests["storage"].0, "1");
        }
    }
}
