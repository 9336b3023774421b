//! Claims, mounted by real processes.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::*;

async fn claim(rig: &Rig, name: &str) -> Api<PersistentVolumeClaim> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(rig.client.clone(), "default");
    let claim = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    claims
}

fn with_claim(script: &str, mounts: &Value, read_only: bool) -> Value {
    let mut container = shell(script);
    container["volumeMounts"] = mounts.clone();
    json!({
        "terminationGracePeriodSeconds": 1, "restartPolicy": "Always", "containers": [container],
        "securityContext": {"runAsUser": 1000},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": read_only}}],
    })
}

async fn gone(rig: &Rig, name: &str) {
    rig.pods().delete(name, &DeleteParams::default()).await.unwrap();
    rig.wait(name, "the end", Value::is_null).await;
}

const IDLE: &str = "while :; do sleep 0.05; done";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_keeps_its_data_until_it_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    let claims = claim(&rig, "data").await;
    // given a non-root pod that writes into its claim, directly and below a subPath
    let mounts = json!([
        {"name": "data", "mountPath": "/data"},
        {"name": "data", "mountPath": "/sub", "subPath": "deep/er"},
    ]);
    let script = format!("echo first > /data/file && echo second > /sub/file && {IDLE}");
    let mut writer = with_claim(&script, &mounts, false);
    writer["containers"][0]["readinessProbe"] = json!({"exec": {"command": ["test", "-s", "/sub/file"]}});
    rig.create("writer", writer).await;
    rig.wait_ready("writer").await;
    let volume = claims.get("data").await.unwrap().spec.unwrap().volume_name.unwrap();
    let folder = dir.path().join("volumes").join(&volume);
    // when the pod is deleted and another one mounts it read-only
    gone(&rig, "writer").await;
    rig.create("reader", with_claim(IDLE, &mounts, true)).await;
    rig.wait_ready("reader").await;
    // then the data is present and unchanged
    let script = "cat /data/file /data/deep/er/file /sub/file; echo third > /data/file";
    let (code, out, err) = rig.exec("reader", script, None).await;
    assert_eq!(out, "first\nsecond\nsecond\n");
    assert!(code != 0 && err.contains("Read-only file system"), "{code} {err}");
    // when the whole cluster is stopped and started again
    let Rig { _turn, server, client, agent, stop, data, .. } = rig;
    agent.shutdown().await;
    let agent = super::agent(&client, Network::start().await.unwrap(), &data, Arc::new(HostImages)).await;
    let backend = agent.backend();
    server.set_backend(Arc::clone(&backend));
    let rig = Rig { _turn, server, client, backend, agent, stop, data };
    rig.wait("reader", "a restart", |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"] == 1 && condition(pod, "Ready") == "True"
    })
    .await;
    let (_, out, _) = rig.exec("reader", "cat /data/file", None).await;
    assert_eq!(out, "first\n");
    // then the data is removed with the claim, and not before its last pod
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    assert!(claims.get_opt("data").await.unwrap().is_some() && folder.join("file").exists());
    gone(&rig, "reader").await;
    let begin = Instant::now();
    while folder.exists() {
        assert!(begin.elapsed() < PATIENCE, "the data is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(claims.get_opt("data").await.unwrap().is_none());
    rig.stop().await;
}
