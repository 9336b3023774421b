//! Restore from the claim of a surviving member: checks of the claim, and the steps from its data to a member
//! that can be restored from. The claim is mounted read-only. etcd starts from a copy, with
//! `--force-new-cluster`: its database lags its log, and only etcd reads both.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;

use super::plan::{ObservedCluster, ObservedPod, RestoreState, SEED_TRIES, Step, newer};
use crate::crd::EtcdCluster;
use crate::crd::restore::{ClaimStatus, EtcdRestoreStatus};
use crate::names;

/// The claim of `spec.fromClaim`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedClaim {
    pub(crate) name: String,
    pub(crate) uid: String,
    /// etcd version that wrote to it; empty where the claim does not record one.
    pub(crate) version: String,
    /// Why it must not be used.
    pub(crate) refusal: Option<String>,
}

/// Inspects a claim. `pods` are those of its namespace, `restore` is the uid of the EtcdRestore.
pub(crate) fn inspect(
    name: &str,
    claim: Option<&PersistentVolumeClaim>,
    pods: &[Pod],
    cluster: &EtcdCluster,
    restore: &str,
) -> ObservedClaim {
    let Some(claim) = claim else {
        let list = list_command(cluster);
        let text =
            format!("claim {name} (spec.fromClaim) not found; use one of the claims listed by `{list}`");
        return ObservedClaim { name: name.into(), refusal: Some(text), ..ObservedClaim::default() };
    };
    ObservedClaim {
        name: name.into(),
        uid: claim.uid().unwrap_or_default(),
        version: claim.annotations().get(names::ANNOTATION_VERSION).cloned().unwrap_or_default(),
        refusal: refusal(name, claim, pods, cluster, restore),
    }
}

fn list_command(cluster: &EtcdCluster) -> String {
    let selector = names::cluster_selector(&cluster.name_any());
    format!("kubectl -n {} get pvc -l {selector}", cluster.namespace().unwrap_or_default())
}

fn refusal(
    name: &str,
    claim: &PersistentVolumeClaim,
    pods: &[Pod],
    cluster: &EtcdCluster,
    restore: &str,
) -> Option<String> {
    let (cluster_name, cluster_uid) = (cluster.name_any(), cluster.uid().unwrap_or_default());
    let label = |key: &str| claim.labels().get(key).map_or("", String::as_str);
    let foreign = |field: String, expected: &str| {
        let list = list_command(cluster);
        Some(format!(
            "claim {name} (spec.fromClaim): {field}, expected {expected} for a claim of EtcdCluster \
             {cluster_name}; use one of the claims listed by `{list}`"
        ))
    };
    let labels = names::cluster_labels(&cluster_name);
    if let Some((key, expected)) = labels.iter().find(|(key, expected)| label(key) != expected.as_str()) {
        return foreign(format!("label {key} is {:?}", label(key)), &format!("{expected:?}"));
    }
    let owned = claim.owner_references().iter().any(|owner| owner.uid == cluster_uid);
    if !owned && label(names::LABEL_CLUSTER_UID) != cluster_uid {
        let found = format!("label {} is {:?}", names::LABEL_CLUSTER_UID, label(names::LABEL_CLUSTER_UID));
        return foreign(found, &format!("{cluster_uid:?}"));
    }
    if label(names::LABEL_NODE) != name || !names::is_member_name(&cluster_name, name) {
        let found = format!("label {} is {:?}", names::LABEL_NODE, label(names::LABEL_NODE));
        return foreign(found, "the name of the claim (the name of its member)");
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return Some(format!(
            "claim {name} (spec.fromClaim) is being deleted (metadata.deletionTimestamp); use another \
             claim, or restore a backup (spec.backupStorageType)"
        ));
    }
    let own = |pod: &Pod| {
        let member = pod.name_any() == name;
        let of = |uid: &str| pod.owner_references().iter().any(|owner| owner.uid == uid);
        (member && of(&cluster_uid)) || of(restore)
    };
    let mounts = |pod: &&Pod| {
        let ended = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let mut claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        !matches!(ended, Some("Succeeded" | "Failed")) && claims.any(|volume| volume.claim_name == name)
    };
    let other = pods.iter().filter(mounts).find(|pod| !own(pod))?;
    Some(format!(
        "claim {name} (spec.fromClaim) is mounted by pod {} (spec.volumes); delete the pod, then create another EtcdRestore",
        other.name_any()
    ))
}

/// Before any change.
pub(super) fn before(state: &RestoreState, cluster: &ObservedCluster, claim: &ObservedClaim) -> Step {
    let (status, name) = (&state.status, &state.name);
    if cluster.serves || cluster.silent {
        return Step::Fail(format!(
            "EtcdCluster {name} has a quorum, so its members hold newer data than claim {} \
             (spec.fromClaim); to restore older data, restore a backup (spec.backupStorageType)",
            claim.name
        ));
    }
    if cluster.available {
        return Step::Wait("Verified", format!("EtcdCluster {name} is available, but does not respond"));
    }
    if let Some(why) = unusable(status, claim) {
        return Step::Fail(why);
    }
    if let Some(why) = newer(&format!("claim {}", claim.name), &claim.version, &cluster.version) {
        return Step::Fail(why);
    }
    let mut new = status.clone();
    if status.claim.is_none() {
        new.claim = Some(ClaimStatus { name: claim.name.clone(), uid: claim.uid.clone(), revision: None });
        new.phase = "Verified".into();
        new.safety_backup = "none: the cluster has no quorum for reads".into();
    } else {
        new.cluster_uid.clone_from(&cluster.uid);
        new.former_cluster_id = cluster.cluster_id.clone().unwrap_or_default();
        new.phase = "Stopping".into();
    }
    new.reason.clear();
    Step::Remember(Box::new(new))
}

/// Why the claim is not, or is no longer, the one to restore from.
fn unusable(status: &EtcdRestoreStatus, claim: &ObservedClaim) -> Option<String> {
    let replaced = status.claim.as_ref().is_some_and(|known| known.uid != claim.uid);
    claim.refusal.clone().or_else(|| {
        replaced.then(|| {
            format!(
                "claim {} (spec.fromClaim) was replaced by another claim of the same name (metadata.uid); \
                 create another EtcdRestore",
                claim.name
            )
        })
    })
}

/// Whether etcd started from the copy, so that its database holds everything from its log.
pub(super) fn is_recovered(status: &EtcdRestoreStatus) -> bool {
    status.claim.as_ref().is_some_and(|claim| claim.revision.is_some())
}

/// All members are stopped, and the first one has no pod.
pub(super) fn create(status: &EtcdRestoreStatus, claim: &ObservedClaim) -> Step {
    let name = status.seed_member.clone();
    if is_recovered(status) {
        return Step::CreateSeed { name };
    }
    unusable(status, claim).map_or(Step::Recover { name }, Step::Fail)
}

/// The pod in which etcd runs on the copy. It must end before others join: a later restart would drop them.
pub(super) fn recovering(status: &EtcdRestoreStatus, pod: &ObservedPod) -> Step {
    if is_recovered(status) || pod.ended {
        return Step::DeletePod { name: pod.name.clone(), uid: pod.uid.clone() };
    }
    if let (Some(claim), Some(revision), Some(_)) = (&status.claim, pod.revision, &pod.serves) {
        let mut new = status.clone();
        new.claim = Some(ClaimStatus { revision: Some(revision), ..claim.clone() });
        return Step::Remember(Box::new(new));
    }
    let claim = status.claim.as_ref().map(|claim| claim.name.as_str()).unwrap_or_default();
    let problem = pod.problem.as_deref().unwrap_or("starting");
    if pod.failures >= SEED_TRIES {
        return Step::Fail(format!(
            "pod {} failed to start etcd from a copy of claim {claim} (spec.fromClaim): {problem}; the claim is unchanged, restore \
             another claim or a backup",
            pod.name
        ));
    }
    Step::Wait("Seeding", format!("pod {}, etcd on a copy of claim {claim}: {problem}", pod.name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::validate::tests::cluster;

    const NAME: &str = "orders-bcdfghjklm";

    fn claim(change: impl FnOnce(&mut Value)) -> PersistentVolumeClaim {
        let mut claim = json!({ "metadata": {
            "name": NAME, "namespace": "shop", "uid": "v-1",
            "labels": { "app": "etcd", "etcd_cluster": "orders", "etcd_node": NAME, "etcd_cluster_uid": "u-1" },
            "annotations": { "etcd.version": "3.4.23" },
        } });
        change(&mut claim["metadata"]);
        serde_json::from_value(claim).unwrap()
    }

    fn pod(name: &str, owner: &str, phase: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name, "ownerReferences": [
                { "apiVersion": "v1", "kind": "EtcdCluster", "name": "orders", "uid": owner, "controller": true }] },
            "spec": { "containers": [], "volumes": [{ "name": "d", "persistentVolumeClaim": { "claimName": NAME } }] },
            "status": { "phase": phase },
        }))
        .unwrap()
    }

    fn refused(claim: &PersistentVolumeClaim, pods: &[Pod]) -> String {
        let cluster = cluster(json!({ "size": 3 }));
        inspect(NAME, Some(claim), pods, &cluster, "r-1").refusal.unwrap_or_default()
    }

    #[test]
    fn a_claim_of_a_member_of_this_cluster_is_used_also_one_that_was_set_aside() {
        let orders = cluster(json!({ "size": 3 }));
        let state = inspect(NAME, Some(&claim(|_| ())), &[], &orders, "");
        assert_eq!((state.uid.as_str(), state.version.as_str(), state.refusal), ("v-1", "3.4.23", None));
        let aside = claim(|meta| meta["labels"][names::LABEL_REPLACED_BY] = json!("r-0"));
        assert_eq!(refused(&aside, &[]), "");
        // pods of its own member, the copying pod of this restore, and terminated pods do not conflict
        let own =
            [pod(NAME, "u-1", "Running"), pod("orders-seed", "r-1", "Pending"), pod("job", "j", "Succeeded")];
        assert_eq!(refused(&claim(|_| ()), &own), "");
    }

    #[test]
    fn a_claim_that_must_not_be_used_is_refused_with_object_field_and_next_step() {
        let orders = cluster(json!({ "size": 3 }));
        let missing = inspect(NAME, None, &[], &orders, "").refusal.unwrap();
        assert!(
            missing.contains("spec.fromClaim) not found") && missing.contains("kubectl -n shop get pvc"),
            "{missing}"
        );
        let label = |key: &'static str, value: &'static str| {
            let refused = refused(&claim(|meta| meta["labels"][key] = json!(value)), &[]);
            assert!(refused.contains(&format!("label {key} is {value:?}")), "{refused}");
            assert!(refused.contains("kubectl -n shop get pvc -l app=etcd,etcd_cluster=orders"), "{refused}");
        };
        label("app", "shop");
        label("etcd_cluster", "other");
        label("etcd_cluster_uid", "u-0");
        label("etcd_node", "orders-zzzzzzzzzz");
        let deleting = claim(|meta| meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
        assert!(refused(&deleting, &[]).contains("metadata.deletionTimestamp"));
        // a foreign pod, also one with the name of a member
        for other in [pod("rescue", "x", "Running"), pod(NAME, "u-0", "Running")] {
            let refused = refused(&claim(|_| ()), std::slice::from_ref(&other));
            assert!(refused.contains(&format!("mounted by pod {}", other.name_any())), "{refused}");
            assert!(refused.contains("delete the pod"), "{refused}");
        }
    }
}
