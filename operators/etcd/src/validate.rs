//! Converts the user's spec to a validated one: all options decided, every Kubernetes type parsed. The API
//! server has checked the schema; what a schema cannot express is checked here, and unsupported features are
//! rejected.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvVar, PersistentVolumeClaimSpec, PodAffinityTerm, PodAntiAffinity, PodSecurityContext,
    ResourceRequirements, Toleration, TopologySpreadConstraint, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::{Resource, ResourceExt};
use semver::Version;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::build::pod::RESERVED_VARIABLES;
use crate::crd::{
    DEFAULT_REPOSITORY, DEFAULT_VERSION, EtcdCluster, EtcdClusterSpec, MAX_NAME_LENGTH, MAX_SIZE, PodPolicy,
    RetentionPolicy, StorageMode,
};
use crate::names;
use crate::plan::Goal;
use crate::{disk, maintenance, tls};

mod terms;

pub(crate) use terms::amount;

/// Sufficient for etcd's largest recommended database.
const DEFAULT_VOLUME_SIZE: &str = "8Gi";
/// The supported etcd versions: earlier ones have no learners, and a 4.0 does not exist.
const SUPPORTED_VERSIONS: &str = "a 3.4 version (such as 3.4.23), a 3.5 version (3.5.3 or later) or a \
 later 3.x";

/// All errors of a spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct InvalidSpec(pub Vec<String>);

/// A cluster that can be built.
#[derive(Debug, Clone)]
pub struct Validated {
    pub name: String,
    pub namespace: String,
    /// Uid; also the token of the etcd cluster, so that two clusters never mix.
    pub uid: String,
    pub generation: Option<i64>,
    pub goal: Goal,
    pub storage: Storage,
    /// Members expose more on their metrics port.
    pub extensive_metrics: bool,
    /// Image repository.
    pub repository: String,
    /// Appended to the names of members, with a leading dot, or empty.
    pub domain: String,
    pub pod: PodShape,
    pub tls: tls::TlsGoal,
    /// Secret with the password of user root, if authentication is configured.
    pub root_secret: Option<String>,
    pub budget: bool,
    /// Owner of pods and Services.
    pub owner: OwnerReference,
    /// Accepted settings without effect, or with a likely unintended one.
    pub notes: Vec<String>,
}

/// Settings of member pods.
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
    pub(crate) spread: Option<Vec<TopologySpreadConstraint>>,
}

#[derive(Debug, Clone)]
pub struct Storage {
    pub(crate) claim: PersistentVolumeClaimSpec,
    pub(crate) when: Volumes,
    /// Retention of unused volumes.
    pub(crate) retention: RetentionPolicy,
}

/// Which new members get a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Volumes {
    Always,
    Never,
    /// All, if a default StorageClass exists.
    WithDefaultClass,
}

/// Validates a cluster.
/// # Errors
/// All errors, each with its field.
pub fn validate(cluster: &EtcdCluster) -> Result<Validated, InvalidSpec> {
    let mut errors = Vec::new();
    let mut notes = Vec::new();
    let name = cluster.name_any();
    let spec = &cluster.spec;

    if name.len() > MAX_NAME_LENGTH || !terms::is_dns_label(&name, true) {
        errors.push(format!(
            "metadata.name: expected a DNS label of at most {MAX_NAME_LENGTH} characters that starts with a letter, found {name:?}; \
             create the EtcdCluster under another name"
        ));
    }
    if !(1..=MAX_SIZE).contains(&spec.size) {
        errors.push(format!("spec.size: invalid value {}, expected 1 to {MAX_SIZE}", spec.size));
    } else if spec.size % 2 == 0 {
        notes.push(format!(
            "spec.size: {} members tolerate no more failures than {}",
            spec.size,
            spec.size - 1
        ));
    }
    let version = version(spec.version.as_deref().unwrap_or_default(), &mut errors, &mut notes);
    let tls = tls::goal(&name, spec.tls.as_ref(), &mut errors);
    let empty = PodPolicy::default();
    let policy = spec.pod.as_ref().unwrap_or(&empty);
    let pod = pod_shape(&name, policy, &mut errors, &mut notes);
    if spec.auth.is_some() && tls.client_facing.is_none() {
        errors.push(
            "spec.auth: requires client TLS, because passwords are not sent unencrypted; set spec.TLS".into(),
        );
    }
    let maintenance = maintenance::settings(spec.maintenance.as_ref(), &pod.env, &mut errors, &mut notes);
    shadowed(spec, &pod.env, &mut errors);
    let storage = storage(spec, policy, maintenance.quota(), &mut errors, &mut notes);
    let domain = policy.cluster_domain.clone().unwrap_or_default();
    let domain = if domain.is_empty() { domain } else { format!(".{}", domain.trim_matches('.')) };

    let (namespace, uid, owner) = (cluster.namespace(), cluster.uid(), cluster.controller_owner_ref(&()));
    let (Some(namespace), Some(uid), Some(owner)) = (namespace, uid, owner) else {
        errors
            .push("metadata: namespace or uid is missing, expected an object read from an API server".into());
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
            restoring: cluster.annotations().get(names::ANNOTATION_RESTORE).cloned(),
            version,
            allowed_version: cluster.annotations().get(names::ANNOTATION_ALLOW_VERSION).cloned(),
            auth: spec.auth.is_some(),
            generation: cluster.metadata.generation,
            maintenance,
            restart_before: None,
        },
        root_secret: spec.auth.as_ref().map(|auth| auth.root_secret.clone()),
        budget: spec.pod_disruption_budget.unwrap_or(true),
        storage,
        extensive_metrics: spec.metrics.as_ref().and_then(|m| m.extensive).unwrap_or_default(),
        repository: repository.unwrap_or_else(|| DEFAULT_REPOSITORY.into()),
        domain,
        pod,
        tls,
        owner,
        notes,
        name,
    })
}

fn version(text: &str, errors: &mut Vec<String>, notes: &mut Vec<String>) -> String {
    let text = text.trim_start_matches('v');
    let text = if text.is_empty() { DEFAULT_VERSION } else { text };
    match Version::parse(text) {
        Err(error) => errors
            .push(format!("spec.version: invalid version {text:?} ({error}), expected {SUPPORTED_VERSIONS}")),
        Ok(version) if version.major != 3 || version.minor < 4 => errors.push(format!(
            "spec.version: etcd {text} is not supported, expected {SUPPORTED_VERSIONS}; omit spec.version \
             for {DEFAULT_VERSION}"
        )),
        Ok(version) if (version.minor, version.patch) < (5, 3) && version.minor == 5 => notes
            .push(format!("spec.version: etcd {text} can lose data when a member is killed, fixed in 3.5.3")),
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
                "spec.pod.labels[{key}]: `app` and names with prefix `etcd_` are reserved for the operator"
            ));
        }
    }
    terms::labels("spec.pod.labels", &labels, errors);
    if let Some(selector) = &policy.node_selector {
        terms::labels("spec.pod.nodeSelector", selector, errors);
    }
    let annotations = policy.annotations.clone().unwrap_or_default();
    terms::annotations("spec.pod.annotations", &annotations, errors);
    if annotations.contains_key(names::ANNOTATION_VERSION) {
        let key = names::ANNOTATION_VERSION;
        errors.push(format!("spec.pod.annotations[{key}]: this annotation is reserved for the operator"));
    }
    if policy.busybox_image.is_some() {
        notes.push("spec.pod.busyboxImage: no effect, members have no init container".into());
    }
    if policy.dns_timeout_in_second.is_some() {
        notes.push("spec.pod.DNSTimeoutInSecond: no effect, members have no init container for DNS".into());
    }
    let mut affinity = read("spec.pod.affinity", policy.affinity.as_ref(), errors);
    if policy.anti_affinity == Some(true) {
        if affinity.is_some() {
            notes.push("spec.pod.antiAffinity: no effect if spec.pod.affinity is set".into());
        } else {
            affinity = Some(apart(cluster));
        }
    }
    let tolerations: Option<Vec<Toleration>> =
        read("spec.pod.tolerations", policy.tolerations.as_ref(), errors);
    terms::tolerations("spec.pod.tolerations", tolerations.as_deref().unwrap_or_default(), errors);
    let resources = policy.resources.clone().map(amounts_as_text);
    let resources: Option<ResourceRequirements> = read("spec.pod.resources", resources.as_ref(), errors);
    if let Some(resources) = &resources {
        terms::resources("spec.pod.resources", resources, errors);
    }
    PodShape {
        labels,
        annotations,
        node_selector: policy.node_selector.clone(),
        affinity,
        tolerations,
        resources,
        env: environment(policy, errors, notes),
        security_context: read("spec.pod.securityContext", policy.security_context.as_ref(), errors),
        spread: spread(cluster, policy, errors),
    }
}

/// The variables of the spec without those that the operator sets. The API rejects new ones; an object stored
/// with one before keeps working.
fn environment(policy: &PodPolicy, errors: &mut Vec<String>, notes: &mut Vec<String>) -> Vec<EnvVar> {
    let field = "spec.pod.etcdEnv";
    let all: Vec<EnvVar> = read(field, policy.etcd_env.as_ref(), errors).unwrap_or_default();
    let (reserved, env): (Vec<EnvVar>, Vec<EnvVar>) =
        all.into_iter().partition(|variable| RESERVED_VARIABLES.contains(&variable.name.as_str()));
    for variable in reserved {
        notes.push(format!("{field}: {} has no effect, it is set by the operator; remove it", variable.name));
    }
    env
}

/// Variables for settings that the spec sets by a flag: etcd does not start with both.
fn shadowed(spec: &EtcdClusterSpec, env: &[EnvVar], errors: &mut Vec<String>) {
    let extensive = spec.metrics.as_ref().and_then(|m| m.extensive).unwrap_or_default();
    let compaction = spec.maintenance.as_ref().is_some_and(|m| m.auto_compaction.is_some());
    for (set, field, variables) in [
        (extensive, "spec.metrics.extensive", ["ETCD_METRICS"].as_slice()),
        (
            compaction,
            "spec.maintenance.autoCompaction",
            &["ETCD_AUTO_COMPACTION_MODE", "ETCD_AUTO_COMPACTION_RETENTION"],
        ),
    ] {
        for variable in env.iter().filter(|v| set && variables.contains(&v.name.as_str())) {
            let name = &variable.name;
            errors.push(format!("spec.pod.etcdEnv: {name} conflicts with {field}; remove one of them"));
        }
    }
}

/// A constraint without a selector selects the members.
fn spread(
    cluster: &str,
    policy: &PodPolicy,
    errors: &mut Vec<String>,
) -> Option<Vec<TopologySpreadConstraint>> {
    let field = "spec.pod.topologySpreadConstraints";
    let mut list: Vec<TopologySpreadConstraint> =
        read(field, policy.topology_spread_constraints.as_ref(), errors)?;
    for constraint in list.iter_mut().filter(|constraint| constraint.label_selector.is_none()) {
        let labels = names::cluster_labels(cluster);
        constraint.label_selector =
            Some(LabelSelector { match_labels: Some(labels), ..LabelSelector::default() });
    }
    Some(list)
}

fn storage(
    spec: &EtcdClusterSpec,
    policy: &PodPolicy,
    quota: u64,
    errors: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> Storage {
    let wanted = spec.storage.clone().unwrap_or_default();
    let field = "spec.pod.persistentVolumeClaimSpec";
    let given = policy.persistent_volume_claim_spec.clone().map(|mut claim| {
        if let Some(resources) = claim.get_mut("resources") {
            *resources = amounts_as_text(resources.take());
        }
        claim
    });
    let given: Option<PersistentVolumeClaimSpec> = read(field, given.as_ref(), errors);
    let described = wanted.size.is_some() || wanted.storage_class_name.is_some();
    if given.is_some() && described {
        notes.push(format!("spec.storage: size and storageClassName have no effect if {field} is set"));
    }
    let when = match wanted.mode {
        Some(StorageMode::Volume) => Volumes::Always,
        Some(StorageMode::Pod) => Volumes::Never,
        None if given.is_some() || described => Volumes::Always,
        None => Volumes::WithDefaultClass,
    };
    if when == Volumes::Never && given.is_some() {
        errors
            .push(format!("spec.storage.mode: Pod conflicts with the volume in {field}; remove one of them"));
    }
    let size = match &wanted.size {
        None => DEFAULT_VOLUME_SIZE.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let mut claim = given.unwrap_or_else(|| PersistentVolumeClaimSpec {
        resources: Some(VolumeResourceRequirements {
            requests: Some([("storage".to_owned(), Quantity(size))].into()),
            ..VolumeResourceRequirements::default()
        }),
        storage_class_name: wanted.storage_class_name.clone(),
        ..PersistentVolumeClaimSpec::default()
    });
    let size_field = match described && policy.persistent_volume_claim_spec.is_none() {
        true => "spec.storage.size".to_owned(),
        false => format!("{field}.resources.requests.storage"),
    };
    terms::claim(&size_field, &claim, errors);
    let requests = claim.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let size = requests.and_then(|requests| maintenance::bytes(&requests.get("storage")?.0));
    notes.extend(
        size.filter(|_| when != Volumes::Never).and_then(|size| disk::note(&size_field, size, quota)),
    );
    // Manifests of coreos/etcd-operator omit it, and Kubernetes requires it.
    claim.access_modes.get_or_insert_with(|| vec!["ReadWriteOnce".into()]);
    Storage { claim, when, retention: wanted.retention_policy.unwrap_or_default() }
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

/// YAML accepts `cpu: 1` like `cpu: "1"`, the types do not.
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
    fn all_mistakes_are_reported_at_once_with_their_fields() {
        let found = errors(serde_json::json!({
            "size": 9, "version": "3.2.13", "TLS": { "static": { "operatorSecret": "s" } },
            "pod": { "labels": { "app": "x", "etcd_node": "y" }, "annotations": { "etcd.version": "1" },
                     "persistentVolumeClaimSpec": { "accessModes": 7 }, "affinity": { "nodeAffinity": 7 } }
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
        assert!(
            errors(serde_json::json!({ "size": 1, "version": "foo" }))[0].contains("invalid version \"foo\"")
        );
        // An example of coreos/etcd-operator, and a nonexistent version: the error lists the supported
        // versions.
        for version in ["3.2.13", "4.0.0"] {
            let found = errors(serde_json::json!({ "size": 1, "version": version }));
            let expected = format!(
                "spec.version: etcd {version} is not supported, expected a 3.4 version (such as 3.4.23), a \
                 3.5 version (3.5.3 or later) or a later 3.x; omit spec.version for 3.4.23"
            );
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn a_name_too_long_for_members_is_refused() {
        let mut long = cluster(serde_json::json!({ "size": 1 }));
        long.metadata.name = Some("n".repeat(53));
        assert!(validate(&long).unwrap_err().0[0].starts_with("metadata.name"));
    }
}
