//! Settings of member pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvVar, PodSecurityContext, ResourceRequirements, Toleration, TopologySpreadConstraint,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Settings of member pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodPolicy {
    /// Labels added to the pods. `app` and names with prefix `etcd_` are reserved for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations added to the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Required node labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Scheduling constraints.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Affinity>")]
    pub affinity: Option<Value>,
    /// Deprecated: at most one member per node. Ignored if `affinity` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<bool>,
    /// Tolerated taints.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Toleration>>")]
    pub tolerations: Option<Value>,
    /// Topology spread of members over zones and nodes. An entry without a `labelSelector` selects the members of
    /// this cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<TopologySpreadConstraint>>")]
    pub topology_spread_constraints: Option<Value>,
    /// Resources of the etcd container.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ResourceRequirements>")]
    pub resources: Option<Value>,
    /// Environment of the etcd container, for settings such as ETCD_QUOTA_BACKEND_BYTES.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<EnvVar>>")]
    pub etcd_env: Option<Value>,
    /// Security context of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PodSecurityContext>")]
    pub security_context: Option<Value>,
    /// Kubernetes PersistentVolumeClaim spec for the volume of each member. If set, `storage.size` and
    /// `storage.storageClassName` are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::any_object")]
    pub persistent_volume_claim_spec: Option<Value>,
    /// Ignored; accepted for compatibility: members have no init container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busybox_image: Option<String>,
    /// Ignored; accepted for compatibility: members have no init container for DNS.
    #[serde(rename = "DNSTimeoutInSecond", skip_serializing_if = "Option::is_none")]
    pub dns_timeout_in_second: Option<i64>,
    /// DNS domain of the Kubernetes cluster with its leading dot, such as `.cluster.local`, appended to the members' names.
    #[serde(rename = "ClusterDomain", skip_serializing_if = "Option::is_none")]
    pub cluster_domain: Option<String>,
}
