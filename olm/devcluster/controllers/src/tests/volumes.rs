//! Claims, volumes and classes.

use super::*;

fn claim_object(name: &str, class: Option<&str>) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}}},
    })
}

async fn claim(cluster: &Cluster, name: &str, class: Option<&str>) {
    let mut object = claim_object(name, class);
    if class.is_none() {
        object["spec"].as_object_mut().unwrap().shift_remove("storageClassName");
    }
    cluster.create::<PersistentVolumeClaim>(object).await;
}

async fn class(cluster: &Cluster, name: &str, mode: &str, policy: &str) {
    let classes: Api<StorageClass> = Api::all(cluster.client.clone());
    let class = json!({"metadata": {"name": name}, "provisioner": olm_devcluster_machinery::PROVISIONER,
        "volumeBindingMode": mode, "reclaimPolicy": policy, "allowVolumeExpansion": true});
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
}

async fn pod_with(cluster: &Cluster, name: &str, claim: &str) {
    cluster
        .create::<Pod>(json!({"metadata": {"name": name}, "spec": {
            "containers": [{"name": "c", "image": "x"}],
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}],
        }}))
        .await;
}

async fn phase(cluster: &Cluster, name: &str, wanted: &str) -> PersistentVolumeClaim {
    let api: Api<PersistentVolumeClaim> = cluster.api();
    eventually(&format!("claim {name} {wanted}"), || async {
        let claim = api.get(name).await.ok()?;
        let phase = claim.status.as_ref()?.phase.clone()?;
        (phase == wanted).then_some(claim)
    })
    .await
}

async fn event(cluster: &Cluster, name: &str, reason: &str) -> String {
    let api: Api<Event> = cluster.api();
    eventually(&format!("event {reason} of {name}"), || async {
        let events = api.list(&ListParams::default()).await.unwrap();
        let found = events.into_iter().find(|event| {
            event.involved_object.name.as_deref() == Some(name) && event.reason.as_deref() == Some(reason)
        });
        found.and_then(|event| event.message)
    })
    .await
}

fn all_volumes(cluster: &Cluster) -> Api<PersistentVolume> {
    Api::all(cluster.client.clone())
}

async fn volume_phase(cluster: &Cluster, name: &str, wanted: &str) {
    let api = all_volumes(cluster);
    eventually(&format!("volume {name} {wanted}"), || async {
        (api.get(name).await.ok()?.status?.phase? == wanted).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_bound_with_its_first_pod_and_deleted_after_its_last() {
    // given a claim without a class
    let cluster = Cluster::with_node().await;
    claim(&cluster, "data", None).await;
    let created = phase(&cluster, "data", "Pending").await;
    assert_eq!(created.spec.as_ref().unwrap().storage_class_name.as_deref(), Some("standard"));
    assert_eq!(created.finalizers(), ["kubernetes.io/pvc-protection"]);
    let why = event(&cluster, "data", "WaitForFirstConsumer").await;
    assert_eq!(why, "waiting for first consumer to be created before binding");
    assert!(all_volumes(&cluster).list(&ListParams::default()).await.unwrap().items.is_empty());
    // when a pod mounts it
    pod_with(&cluster, "p", "data").await;
    let bound = phase(&cluster, "data", "Bound").await;
    // then there is a volume, and the pod is bound
    let name = format!("pvc-{}", bound.uid().unwrap());
    assert_eq!(bound.spec.as_ref().unwrap().volume_name.as_ref(), Some(&name));
    assert_eq!(bound.status.as_ref().unwrap().capacity.as_ref().unwrap()["storage"].0, "1Gi");
    volume_phase(&cluster, &name, "Bound").await;
    let volume = all_volumes(&cluster).get(&name).await.unwrap();
    let spec = volume.spec.as_ref().unwrap();
    assert_eq!(spec.host_path.as_ref().unwrap().path, format!("/nonexistent/volumes/{name}"));
    assert_eq!(spec.persistent_volume_reclaim_policy.as_deref(), Some("Delete"));
    eventually("the pod to run", || async { (cluster.running().await.len() == 1).then_some(()) }).await;
    // when the claim is deleted while the pod uses it
    let claims: Api<PersistentVolumeClaim> = cluster.api();
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    all_volumes(&cluster).delete(&name, &DeleteParams::default()).await.unwrap();
    // then another pod does not get it, once the scheduler has seen the deletion: it reads claims in order
    claim(&cluster, "marker", None).await;
    event(&cluster, "marker", "WaitForFirstConsumer").await;
    pod_with(&cluster, "late", "data").await;
    event(&cluster, "late", "FailedScheduling").await;
    assert!(claims.get("data").await.unwrap().metadata.deletion_timestamp.is_some());
    assert_eq!(all_volumes(&cluster).get(&name).await.unwrap().status.unwrap().phase.unwrap(), "Bound");
    // and everything is deleted with the pod
    cluster.api::<Pod>().delete("p", &DeleteParams::default()).await.unwrap();
    eventually("the claim to go", || async { claims.get_opt("data").await.unwrap().is_none().then_some(()) })
        .await;
    let volumes = all_volumes(&cluster);
    eventually("the volume to go", || async {
        volumes.get_opt(&name).await.unwrap().is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retained_volume_stays_and_a_claim_can_be_expanded() {
    let cluster = Cluster::with_node().await;
    class(&cluster, "kept", "Immediate", "Retain").await;
    // given a claim that is bound immediately
    claim(&cluster, "data", Some("kept")).await;
    let bound = phase(&cluster, "data", "Bound").await;
    let name = bound.spec.unwrap().volume_name.unwrap();
    // when it is expanded
    let claims: Api<PersistentVolumeClaim> = cluster.api();
    let more = json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}});
    claims.patch("data", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    eventually("more room", || async {
        let capacity = claims.get("data").await.unwrap().status?.capacity?;
        (capacity["storage"].0 == "3Gi").then_some(())
    })
    .await;
    // when it is deleted
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    // then the volume is retained for inspection, and is not bound again
    volume_phase(&cluster, &name, "Released").await;
    claim(&cluster, "data", Some("kept")).await;
    let second = phase(&cluster, "data", "Bound").await;
    assert_ne!(second.spec.unwrap().volume_name.unwrap(), name);
    // and is removed when it is deleted itself
    let volumes = all_volumes(&cluster);
    volumes.delete(&name, &DeleteParams::default()).await.unwrap();
    eventually("the volume to go", || async {
        volumes.get_opt(&name).await.unwrap().is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_without_a_class_waits_for_a_matching_volume() {
    let cluster = Cluster::with_node().await;
    let classes: Api<StorageClass> = Api::all(cluster.client.clone());
    classes.delete("standard", &DeleteParams::default()).await.unwrap();
    // given a claim without a default class
    claim(&cluster, "data", None).await;
    let why = event(&cluster, "data", "FailedBinding").await;
    assert_eq!(why, "no persistent volumes available for this claim and no storage class is set");
    phase(&cluster, "data", "Pending").await;
    // and a pod that waits for it
    pod_with(&cluster, "p", "data").await;
    // (the node may not be registered yet)
    let unbound = "pod has unbound immediate PersistentVolumeClaims";
    eventually("the reason why it is not scheduled", || async {
        event(&cluster, "p", "FailedScheduling").await.contains(unbound).then_some(())
    })
    .await;
    // when a volume is created by hand
    let volume = json!({"metadata": {"name": "by-hand"}, "spec": {"capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}}});
    let volume = serde_json::from_value(volume).unwrap();
    all_volumes(&cluster).create(&PostParams::default(), &volume).await.unwrap();
    // then both are bound and the pod runs
    let bound = phase(&cluster, "data", "Bound").await;
    assert_eq!(bound.status.unwrap().capacity.unwrap()["storage"].0, "5Gi");
    volume_phase(&cluster, "by-hand", "Bound").await;
    eventually("the pod to run", || async { (cluster.running().await.len() == 1).then_some(()) }).await;
    // and a bound claim whose volume is removed by force is lost
    let volumes = all_volumes(&cluster);
    volumes.delete("by-hand", &DeleteParams::default()).await.unwrap();
    let force = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    volumes.patch("by-hand", &PatchParams::default(), &force).await.unwrap();
    phase(&cluster, "data", "Lost").await;
    event(&cluster, "data", "ClaimLost").await;
}
