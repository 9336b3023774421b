use std::sync::Arc;

use serde_json::{Value, from_value, json};

use super::*;

fn claim(extra: Value) -> PersistentVolumeClaim {
    let mut claim = json!({
        "metadata": {"name": "data", "namespace": "n", "uid": "u1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
            "resources": {"requests": {"storage": "2Gi"}}},
    });
    merge(&mut claim, extra);
    from_value(claim).unwrap()
}

fn volume(name: &str, size: &str, extra: Value) -> Arc<PersistentVolume> {
    let mut volume = json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "storageClassName": "standard",
            "capacity": {"storage": size}, "hostPath": {"path": "/x"}},
    });
    merge(&mut volume, extra);
    Arc::new(from_value(volume).unwrap())
}

fn merge(into: &mut Value, extra: Value) {
    json_patch::merge(into, &extra);
}

fn class(provisioner: &str, mode: &str) -> StorageClass {
    from_value(
        json!({"metadata": {"name": "standard"}, "provisioner": provisioner, "volumeBindingMode": mode}),
    )
    .unwrap()
}

fn reason(step: Step) -> &'static str {
    match step {
        Step::Wait(Some(note)) | Step::Lost(note) => note.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_claim_gets_the_smallest_matching_volume_before_provisioning() {
    let ours = class(PROVISIONER, "Immediate");
    let all = [
        volume("small", "1Gi", json!({})),
        volume("large", "20Gi", json!({})),
        volume("right", "2048Mi", json!({})),
        volume("other-class", "2Gi", json!({"spec": {"storageClassName": "fast"}})),
        volume("shared", "2Gi", json!({"spec": {"accessModes": ["ReadWriteMany"]}})),
        volume("going", "2Gi", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        volume(
            "taken",
            "2Gi",
            json!({"spec": {"claimRef": {"namespace": "n", "name": "data", "uid": "u0"}}}),
        ),
    ];
    assert_eq!(next(&claim(json!({})), &all, Some(&ours)), Step::Reserve("right".to_owned()));
    assert_eq!(next(&claim(json!({})), &all[..1], Some(&ours)), Step::Provision);
}

#[test]
fn a_volume_reserved_for_the_claim_comes_first() {
    let kept = volume("kept", "9Gi", json!({"spec": {"claimRef": {"namespace": "n", "name": "data"}}}));
    let mine =
        volume("mine", "9Gi", json!({"spec": {"claimRef": {"namespace": "n", "name": "data", "uid": "u1"}}}));
    let late = class(PROVISIONER, "WaitForFirstConsumer");
    let free = volume("free", "2Gi", json!({}));
    let both = [Arc::clone(&free), Arc::clone(&kept)];
    assert_eq!(next(&claim(json!({})), &both, Some(&late)), Step::Reserve("kept".to_owned()));
    assert_eq!(next(&claim(json!({})), &[kept, mine], Some(&late)), Step::Complete("mine".to_owned()));
}

#[test]
fn a_pending_claim_reports_the_reason() {
    let ours = class(PROVISIONER, "Immediate");
    let late = class(PROVISIONER, "WaitForFirstConsumer");
    let foreign = class("ebs.example.com", "Immediate");
    assert_eq!(reason(next(&claim(json!({})), &[], Some(&late))), "WaitForFirstConsumer");
    assert_eq!(reason(next(&claim(json!({})), &[], Some(&foreign))), "ExternalProvisioning");
    assert_eq!(reason(next(&claim(json!({})), &[], None)), "ProvisioningFailed");
    let none = claim(json!({"spec": {"storageClassName": null}}));
    assert_eq!(reason(next(&none, &[], None)), "FailedBinding");
    let block = claim(json!({"spec": {"volumeMode": "Block"}}));
    assert_eq!(reason(next(&block, &[], Some(&ours))), "ProvisioningFailed");
    // once a node is selected for a pod, the volume is provisioned
    let selected = claim(json!({"metadata": {"annotations": {SELECTED_NODE: "olm-node"}}}));
    assert_eq!(next(&selected, &[], Some(&late)), Step::Provision);
}

#[test]
fn a_claim_can_name_its_volume() {
    let named = claim(json!({"spec": {"volumeName": "v"}}));
    let theirs =
        volume("v", "2Gi", json!({"spec": {"claimRef": {"namespace": "n", "name": "x", "uid": "u9"}}}));
    assert_eq!(next(&named, &[], None), Step::Wait(None));
    assert_eq!(next(&named, &[volume("v", "2Gi", json!({}))], None), Step::Reserve("v".to_owned()));
    assert_eq!(reason(next(&named, &[volume("v", "1Gi", json!({}))], None)), "VolumeMismatch");
    assert_eq!(reason(next(&named, &[theirs], None)), "FailedBinding");
}

#[test]
fn a_bound_claim_without_its_volume_is_lost() {
    let bound =
        claim(json!({"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": "v"}}));
    let mine =
        volume("v", "2Gi", json!({"spec": {"claimRef": {"namespace": "n", "name": "data", "uid": "u1"}}}));
    let theirs =
        volume("v", "2Gi", json!({"spec": {"claimRef": {"namespace": "n", "name": "x", "uid": "u9"}}}));
    assert_eq!(next(&bound, &[mine], None), Step::Complete("v".to_owned()));
    assert_eq!(reason(next(&bound, &[], None)), "ClaimLost");
    assert_eq!(reason(next(&bound, &[theirs], None)), "ClaimMisbound");
}

#[test]
fn only_pods_on_a_node_use_a_claim() {
    let pod = |node: &str| -> Pod {
        from_value(json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [],
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}}))
        .unwrap()
    };
    assert!(uses(&pod("olm-node"), "data"));
    assert!(!uses(&pod("olm-node"), "other"));
    assert!(!uses(&pod(""), "data"));
}
