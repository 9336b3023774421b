//! Names and labels of coreos/etcd-operator, so that its objects are recognized and existing tools recognize
//! ours.

use std::collections::BTreeMap;

/// Label on pods and Services: the application.
pub(crate) const LABEL_APP: &str = "app";
/// Label on pods: name of the member.
pub(crate) const LABEL_NODE: &str = "etcd_node";
/// Label on pods and Services: name of the cluster.
pub(crate) const LABEL_CLUSTER: &str = "etcd_cluster";
/// Label on pods: whether the client Service selects them. Pods of older operators have none.
pub(crate) const LABEL_SERVING: &str = "etcd_serving";
/// Value of [`LABEL_SERVING`] that the client Service selects.
pub(crate) const SERVING: &str = "true";
/// Value of [`LABEL_SERVING`] of a pod that left the client Service.
pub(crate) const NOT_SERVING: &str = "false";
/// Annotation on pods: time of the last change of [`LABEL_SERVING`]; none since the pod was created.
pub(crate) const ANNOTATION_SERVING_SINCE: &str = "etcd.database.coreos.com/serving-since";
/// Reserved prefix: labels of users must not use it.
pub(crate) const RESERVED_LABEL_PREFIX: &str = "etcd_";
/// Annotation on clusters: uid of the EtcdRestore that works on the members.
pub(crate) const ANNOTATION_RESTORE: &str = "etcd.database.coreos.com/restore";
/// Label on claims set aside by a restore: uid of the EtcdRestore.
pub(crate) const LABEL_REPLACED_BY: &str = "etcd.database.coreos.com/replaced-by";
/// Annotation on pods: the etcd version they were created for.
pub(crate) const ANNOTATION_VERSION: &str = "etcd.version";
/// Annotation on clusters: managed by operators of the whole cluster (`clusterwide`) or of one namespace
/// (absent).
pub(crate) const ANNOTATION_SCOPE: &str = "etcd.database.coreos.com/scope";
/// Annotation on clusters: a known bad version that may be upgraded to nevertheless.
pub(crate) const ANNOTATION_ALLOW_VERSION: &str = "etcd.database.coreos.com/allow-version";
/// Annotation on pods: `--initial-cluster` of the member, read on every start of its container.
pub(crate) const ANNOTATION_INITIAL_CLUSTER: &str = "etcd.database.coreos.com/initial-cluster";
/// Annotation on pods: `--initial-cluster-state` of the member, likewise.
pub(crate) const ANNOTATION_INITIAL_STATE: &str = "etcd.database.coreos.com/initial-cluster-state";
/// Annotation on pods: restart count of the container when its version was last set.
pub(crate) const ANNOTATION_RESTARTS: &str = "etcd.database.coreos.com/restarts-before-version";
/// Label on claims: uid of their cluster, also of those that outlive it.
pub(crate) const LABEL_CLUSTER_UID: &str = "etcd_cluster_uid";
/// Label on claims retained for users, without an owner.
pub(crate) const LABEL_RETAINED: &str = "etcd_retained";
pub(crate) const MANAGER: &str = "etcd-operator";

pub const CLIENT_PORT: u16 = 2379;
/// Port between members.
pub const PEER_PORT: u16 = 2380;
/// Port for health and metrics, without TLS and without access to data.
pub(crate) const METRICS_PORT: u16 = 2381;

const SUFFIX_LENGTH: usize = 10;
/// The alphabet of Kubernetes: no vowels and no ambiguous characters.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A random name for a new member, never used before.
pub(crate) fn fresh_member(cluster: &str) -> String {
    let suffix: String =
        (0..SUFFIX_LENGTH).map(|_| char::from(ALPHABET[rand::random_range(0..ALPHABET.len())])).collect();
    format!("{cluster}-{suffix}")
}

/// Whether a member of the cluster can have this name.
pub(crate) fn is_member_name(cluster: &str, name: &str) -> bool {
    name.strip_prefix(cluster).and_then(|rest| rest.strip_prefix('-')).is_some_and(|suffix| {
        suffix.len() == SUFFIX_LENGTH && suffix.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    })
}

pub(crate) fn client_service(cluster: &str) -> String {
    format!("{cluster}-client")
}

pub(crate) fn cluster_labels(cluster: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(LABEL_APP.into(), "etcd".into()), (LABEL_CLUSTER.into(), cluster.into())])
}

pub(crate) fn cluster_selector(cluster: &str) -> String {
    format!("{LABEL_APP}=etcd,{LABEL_CLUSTER}={cluster}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_name_is_a_member_name_of_its_cluster_alone() {
        let name = fresh_member("orders");
        assert!(is_member_name("orders", &name), "{name}");
        assert!(!is_member_name("order", &name));
        assert!(!is_member_name("orders-x", &name));
        assert_ne!(name, fresh_member("orders"));
    }

    #[test]
    fn the_longest_cluster_name_makes_a_dns_label() {
        assert_eq!(fresh_member(&"a".repeat(crate::crd::MAX_NAME_LENGTH)).len(), 63);
    }
}
