//! Image changes of running pods.

use kube::api::{Patch, PatchParams};
use olm_devcluster_machinery::backend::LogOptions;
use serde_json::{Value, json};

use super::{Duration, Rig, state};

/// A kubelet restarts a container whose image changed, whatever the restart policy is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_whose_image_changes_is_restarted() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    let image = |pod: &str, tag: &str| {
        let containers = json!([{"name": "main", "image": format!("test/host:{tag}")}]);
        let (pods, pod, patch) = (rig.pods(), pod.to_owned(), json!({"spec": {"containers": containers}}));
        async move { pods.patch(&pod, &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap() }
    };
    let runs = |pod: &Value, tag: &str, restarts: i64| {
        let status = &pod["status"]["containerStatuses"][0];
        status["ready"] == true
            && status["restartCount"] == restarts
            && status["image"] == format!("test/host:{tag}")
            && state(pod)["running"].is_object()
    };
    // given running containers, under two restart policies
    for policy in ["Always", "Never"] {
        let name = policy.to_lowercase();
        let container = json!({"name": "main", "image": "test/host:2"});
        rig.create(&name, json!({"restartPolicy": policy, "containers": [container]})).await;
        let first = rig.wait_ready(&name).await;
        // when the image changes, then another instance runs the other image, and the first one is its last
        // state
        image(&name, "3").await;
        let second = rig.wait(&name, "the other image", |pod| runs(pod, "3", 1)).await;
        let (first, second) =
            (&first["status"]["containerStatuses"][0], &second["status"]["containerStatuses"][0]);
        assert_ne!(first["containerID"], second["containerID"]);
        assert_eq!(second["lastState"]["terminated"]["containerID"], first["containerID"]);
        while !rig.logs(&name, LogOptions::default()).await.contains("version 3") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let reasons = rig.reasons(&name).await.join("\n");
        assert!(
            reasons.contains("Killing: Container main definition changed, will be restarted"),
            "{reasons}"
        );
    }
    // when the image cannot be pulled, then the pod waits, and the right image is started without a back-off
    image("always", "9").await;
    rig.wait("always", "an error", |pod| state(pod)["waiting"]["reason"] == "ErrImagePull").await;
    image("always", "2").await;
    rig.wait("always", "the image before", |pod| runs(pod, "2", 2)).await;
    rig.stop().await;
}
