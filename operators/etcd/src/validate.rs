//! From what users wrote to what can be built: no options left open, every Kubernetes type read. The API server has
//! checked the schema; what a schema cannot say is checked here, and what this release does not serve is refused.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvVar, PodAffinityTerm, PodAntiAffinity, PodSecurityContext, ResourceRequirements, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::{Resource, ResourceExt};
use semver::Version;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::crd::{DEFAULT_REPOSITORY, DEFAULT_VERSION, EtcdCluster, MAX_NAME_LENGTH, MAX_SIZE, PodPolicy};
use crate::names;
use crate::plan::Goal;

/// What is wrong with a spec, all of it at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct InvalidSpec(pub Vec<String>);

/// A cluster that can be built.
#[derive(Debug, Clone)]
pub struct Validated {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Uid; also the token of the etcd cluster, so that two clusters never take each other for the same.
    pub uid: String,
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// Size, version, paused.
    pub goal: Goal,
    /// Where images come from.
    pub repository: String,
    /// Appended to the names of members, with a leading dot, or empty.
    pub domain: String,
    /// How pods look.
    pub pod: PodShape,
    /// Says to whom pods and Services belong.
    pub owner: OwnerReference,
    /// What was accepted although it has no effect.
    pub notes: Vec<String>,
}

/// How pods look.
#[derive(Debug, Clone, Default)]
pub struct PodShape {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) node_selector: Option<BTreeMap<String, String>>,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) tolerations: Option<Vec<Toleration>>,
    pub(crate) resources: Option<ResourceRequirements>,
    pub(crate) env: Vec<EnvVar>,
    pub(crate) security_context: Option<PodSecurityContext>,
}

/// Reads a cluster.
///
/// # Errors
/// Everything that is wrong with it, each with its field.
pub fn validate(cluster: &EtcdCluster) -> Result<Validated, InvalidSpec> {
    let mut errors = Vec::new();
    let mut notes = Vec::new();
    let name = cluster.name_any();
    let spec = &cluster.spec;

    if name.len() > MAX_NAME_LENGTH {
        errors.push(format!(
            "metadata.name: {} characters are too many, members need names of at most {MAX_NAME_LENGTH} before theirs",
            name.len()
        ));
    }
    if !(1..=MAX_SIZE).contains(&spec.size) {
        errors.push(format!("spec.size: {} is not between 1 and {MAX_SIZE}", spec.size));
    } else if spec.size % 2 == 0 {
        notes.push(format!(
            "spec.size: {} members survive no more failures than {}",
            spec.size,
            spec.size - 1
        ));
    }
    let version = version(spec.version.as_deref().unwrap_or_default(), &mut errors);
    if spec.tls.as_ref().and_then(|tls| tls.static_.as_ref()).is_some() {
        errors.push("spec.TLS: this release does not serve TLS, a later one will; remove the field".into());
    }
    let empty = PodPolicy::default();
    let policy = spec.pod.as_ref().unwrap_or(&empty);
    let pod = pod_shape(&name, policy, &mut errors, &mut notes);
    let domain = policy.cluster_domain.clone().unwrap_or_default();
    let domain = if domain.is_empty() { domain } else { format!(".{}", domain.trim_matches('.')) };

    let (namespace, uid, owner) = (cluster.namespace(), cluster.uid(), cluster.controller_owner_ref(&()));
    let (Some(namespace), Some(uid), Some(owner)) = (namespace, uid, owner) else {
        errors.push(
            "metadata: namespace or uid is missing, so the object does not come from an API server".into(),
        );
        return Err(InvalidSpec(errors));
    };
    if !errors.is_empty() {
        return Err(InvalidSpec(errors));
    }
    let repository = spec.repository.clone().filter(|text| !text.is_empty());
    Ok(Validated {
        namespace,
        uid,
        generation: cluster.metadata.generation,
        goal: Goal {
            size: usize::try_from(spec.size).unwrap_or(1),
            paused: spec.paused.unwrap_or_default(),
            version,
        },
        repository: repository.unwrap_or_else(|| DEFAULT_REPOSITORY.into()),
        domain,
        pod,
        owner,
        notes,
        name,
    })
}

fn version(text: &str, errors: &mut Vec<String>) -> String {
    let text = text.trim_start_matches('v');
    let text = if text.is_empty() { DEFAULT_VERSION } else { text };
    match Version::parse(text) {
        Err(error) => errors.push(format!("spec.version: {text:?} is not a version such as {DEFAULT_VERSION}: {error}")),
        Ok(version) if version.major != 3 || version.minor < 4 => errors.push(format!(
            "spec.version: etcd {text} is not served; members join as learners, which needs a 3.x of at least 3.4"
        )),
        Ok(_) => {}
    }
    text.to_owned()
}

fn pod_shape(
    cluster: &str,
    policy: &PodPolicy,
    errors: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> PodShape {
    let labels = policy.labels.clone().unwrap_or_default();
    for key in labels.keys() {
        if key == names::LABEL_APP || key.starts_with(names::RESERVED_LABEL_PREFIX) {
            errors.push(format!(
                "spec.pod.labels[{key}]: `app` and names that begin with `etcd_` are the operator's own"
            ));
        }
    }
    let annotations = policy.annotations.clone().unwrap_or_default();
    if annotations.contains_key(names::ANNOTATION_VERSION) {
        let key = names::ANNOTATION_VERSION;
        errors.push(format!("spec.pod.annotations[{key}]: this annotation is the operator's own"));
    }
    if policy.persistent_volume_claim_spec.is_some() {
        errors.push(
            "spec.pod.persistentVolumeClaimSpec: this release keeps data in the pods alone, a later one will serve volumes; remove the field"
                .into(),
        );
    }
    if policy.busybox_image.is_some() {
        notes.push("spec.pod.busyboxImage: has no effect, members have no init container".into());
    }
    if policy.dns_timeout_in_second.is_some() {
        notes.push("spec.pod.DNSTimeoutInSecond: has no effect, no init container waits for DNS".into());
    }
    let mut affinity = read("spec.pod.affinity", policy.affinity.as_ref(), errors);
    if policy.anti_affinity == Some(true) {
        if affinity.is_some() {
            notes.push("spec.pod.antiAffinity: has no effect beside spec.pod.affinity".into());
        } else {
            affinity = Some(apart(cluster));
        }
    }
    PodShape {
        labels,
        annotations,
        node_selector: policy.node_selector.clone(),
        affinity,
        tolerations: read("spec.pod.tolerations", policy.tolerations.as_ref(), errors),
        resources: read("spec.pod.resources", policy.resources.clone().map(amounts_as_text).as_ref(), errors),
        env: read("spec.pod.etcdEnv", policy.etcd_env.as_ref(), errors).unwrap_or_default(),
        security_context: read("spec.pod.securityContext", policy.security_context.as_ref(), errors),
    }
}

fn read<T: DeserializeOwned>(field: &str, value: Option<&Value>, errors: &mut Vec<String>) -> Option<T> {
    match serde_json::from_value(value?.clone()) {
        Ok(value) => Some(value),
        Err(error) => {
            errors.push(format!("{field}: {error}"));
            None
        }
    }
}

/// `cpu: 1` is as good as `cpu: "1"` in YAML, but not in the types.
fn amounts_as_text(mut resources: Value) -> Value {
    for list in ["limits", "requests"] {
        for amount in
            resources.get_mut(list).and_then(Value::as_object_mut).into_iter().flat_map(|m| m.values_mut())
        {
            if amount.is_number() {
                *amount = Value::String(amount.to_string());
            }
        }
    }
    resources
}

/// Never two members of the cluster on one node.
fn apart(cluster: &str) -> Affinity {
    let labels = BTreeMap::from([(names::LABEL_CLUSTER.to_owned(), cluster.to_owned())]);
    let term = PodAffinityTerm {
        label_selector: Some(LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }),
        topology_key: "kubernetes.io/hostname".into(),
        ..PodAffinityTerm::default()
    };
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![term]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn cluster(spec: Value) -> EtcdCluster {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2",
            "kind": "EtcdCluster",
            "metadata": { "name": "orders", "namespace": "shop", "uid": "u-1", "generation": 4 },
            "spec": spec,
        }))
        .unwrap()
    }

    fn errors(spec: Value) -> Vec<String> {
        validate(&cluster(spec)).unwrap_err().0
    }

    #[test]
    fn a_size_is_enough() {
        let valid = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
        assert_eq!((valid.goal.size, valid.goal.version.as_str()), (3, DEFAULT_VERSION));
        assert_eq!(valid.repository, DEFAULT_REPOSITORY);
        assert!(valid.notes.is_empty() && valid.owner.controller == Some(true));
    }

    #[test]
    fn a_manifest_of_coreos_is_read_with_notes_about_what_has_no_effect() {
        let valid = validate(&cluster(serde_json::json!({
            "size": 4, "version": "v3.4.23", "repository": "registry.local/etcd", "paused": true,
            "pod": { "busyboxImage": "b", "DNSTimeoutInSecond": 0, "ClusterDomain": ".cluster.local", "antiAffinity": true,
                     "resources": { "requests": { "cpu": 1, "memory": "64Mi" } },
                     "etcdEnv": [{ "name": "ETCD_QUOTA_BACKEND_BYTES", "value": "1" }],
                     "securityContext": { "runAsUser": 9000 }, "tolerations": [{ "operator": "Exists" }] }
        })))
        .unwrap();
        assert_eq!(valid.goal.version, "3.4.23");
        assert_eq!(valid.domain, ".cluster.local");
        assert_eq!(valid.pod.resources.unwrap().requests.unwrap()["cpu"].0, "1");
        assert!(valid.pod.affinity.unwrap().pod_anti_affinity.is_some());
        assert_eq!(valid.notes.len(), 3, "{:?}", valid.notes);
    }

    #[test]
    fn all_mistakes_are_told_at_once_with_their_fields() {
        let found = errors(serde_json::json!({
            "size": 9, "version": "3.2.13", "TLS": { "static": { "operatorSecret": "s" } },
            "pod": { "labels": { "app": "x", "etcd_node": "y" }, "annotations": { "etcd.version": "1" },
                     "persistentVolumeClaimSpec": {}, "affinity": { "nodeAffinity": 7 } }
        }));
        for field in [
            "spec.size",
            "spec.version",
            "spec.TLS",
            "spec.pod.labels[app]",
            "spec.pod.labels[etcd_node]",
            "spec.pod.annotations[etcd.version]",
            "spec.pod.persistentVolumeClaimSpec",
            "spec.pod.affinity",
        ] {
            assert!(found.iter().any(|e| e.starts_with(field)), "{field} in {found:?}");
        }
    }

    #[test]
    fn versions_must_be_versions() {
        assert!(errors(serde_json::json!({ "size": 1, "version": "foo" }))[0].contains("not a version"));
        assert!(errors(serde_json::json!({ "size": 1, "version": "4.0.0" }))[0].contains("at least 3.4"));
    }

    #[test]
    fn a_name_too_long_for_members_is_refused() {
        let mut long = cluster(serde_json::json!({ "size": 1 }));
        long.metadata.name = Some("n".repeat(53));
        assert!(validate(&long).unwrap_err().0[0].starts_with("metadata.name"));
    }
}
