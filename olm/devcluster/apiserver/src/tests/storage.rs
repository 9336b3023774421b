//! Claims, volumes and classes: defaults, validation and columns.

use super::*;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
}

async fn table(server: &ApiServer, path: &str) -> (Vec<String>, Vec<Value>) {
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let (_, table) = send(server, Identity::admin(), "GET", path, &accept, Value::Null).await;
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let names = columns.iter().map(|c| c["name"].as_str().expect("a name").to_owned()).collect();
    (names, table["rows"][0]["cells"].as_array().expect("cells").clone())
}

#[tokio::test]
async fn a_claim_gets_the_default_class_and_its_protection() {
    let (server, _client) = server();
    let (code, made) = post(&server, CLAIMS, claim("a")).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["storageClassName"], "standard");
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    assert_eq!(made["status"]["phase"], "Pending");
    // an explicitly empty class gets no default
    let mut without = claim("b");
    without["spec"]["storageClassName"] = "".into();
    let (_, made) = post(&server, CLAIMS, without).await;
    assert_eq!(made["spec"]["storageClassName"], "");
    // the newest default wins
    let newer = json!({"metadata": {"name": "a-newer", "creationTimestamp": null,
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "x.example.com/y"});
    let (code, body) = post(&server, CLASSES, newer).await;
    assert_eq!(code, 201, "{body}");
    let (_, made) = post(&server, CLAIMS, claim("c")).await;
    assert_eq!(made["spec"]["storageClassName"], "a-newer");
}

#[tokio::test]
async fn invalid_claims_volumes_and_classes_are_refused() {
    let (server, _client) = server();
    let (code, body) = post(&server, CLAIMS, json!({"metadata": {"name": "a"}, "spec": {}})).await;
    assert_eq!(code, 422);
    let message = body["message"].as_str().expect("a message");
    for part in [
        "spec.accessModes: Required value: at least 1 access mode is required",
        "spec.resources[storage]: Required value",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let mut zero = claim("a");
    zero["spec"]["resources"]["requests"]["storage"] = "0".into();
    let (code, body) = post(&server, CLAIMS, zero).await;
    assert!(code == 422 && body["message"].as_str().is_some_and(|m| m.contains("must be greater than zero")));
    let nowhere = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}});
    let (code, body) = post(&server, VOLUMES, nowhere).await;
    assert_eq!(code, 422);
    assert!(body["message"].as_str().is_some_and(|m| m.contains("must specify a volume type")), "{body}");
    let odd = json!({"metadata": {"name": "c"}, "volumeBindingMode": "Later"});
    let (code, body) = post(&server, CLASSES, odd).await;
    assert!((400..=422).contains(&code), "{body}");
}

#[tokio::test]
async fn the_spec_of_a_claim_is_immutable() {
    let (server, _client) = server();
    post(&server, CLAIMS, claim("a")).await;
    let path = format!("{CLAIMS}/a");
    let change = |spec: Value| patch(&server, "merge-patch+json", &path, json!({ "spec": spec }));
    let (code, body) = change(json!({"accessModes": ["ReadWriteMany"]})).await;
    assert_eq!(code, 422);
    let message = body["message"].as_str().expect("a message");
    assert!(message.contains("spec is immutable after creation except resources.requests"), "{message}");
    // a size may increase when the claim is bound
    let (code, _) = change(json!({"resources": {"requests": {"storage": "2Gi"}}})).await;
    assert_eq!(code, 422);
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}});
    let (code, _) = patch(&server, "merge-patch+json", &format!("{path}/status"), bound).await;
    assert_eq!(code, 200);
    let (code, body) = change(json!({"resources": {"requests": {"storage": "2Gi"}}})).await;
    assert_eq!(code, 200, "{body}");
    let (code, _) = change(json!({"resources": {"requests": {"storage": "1Gi"}}})).await;
    assert_eq!(code, 422);
    // and only where its class allows that
    patch(
        &server,
        "merge-patch+json",
        &format!("{CLASSES}/standard"),
        json!({"allowVolumeExpansion": false}),
    )
    .await;
    let (code, body) = change(json!({"resources": {"requests": {"storage": "3Gi"}}})).await;
    assert_eq!(code, 403, "{body}");
    // a class is immutable
    let (code, body) = patch(
        &server,
        "merge-patch+json",
        &format!("{CLASSES}/standard"),
        json!({"reclaimPolicy": "Retain"}),
    )
    .await;
    assert!(
        code == 422 && body["message"].as_str().is_some_and(|m| m.contains("field is immutable")),
        "{body}"
    );
}

#[tokio::test]
async fn kubectl_sees_the_usual_columns() {
    let (server, _client) = server();
    post(&server, CLAIMS, claim("a")).await;
    let (columns, cells) = table(&server, CLAIMS).await;
    let wanted = "Name Status Volume Capacity Access Modes StorageClass VolumeAttributesClass Age VolumeMode";
    assert_eq!(columns.join(" "), wanted);
    assert_eq!(cells[..7], ["a", "Pending", "", "", "", "standard", "<unset>"].map(Value::from));
    let (columns, cells) = table(&server, CLASSES).await;
    assert_eq!(
        columns.join(" "),
        "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age"
    );
    let wanted = ["standard (default)", "olm.dev/host-path", "Delete", "WaitForFirstConsumer", "true"];
    assert_eq!(cells[..5], wanted.map(Value::from));
    let volume = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"},
        "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "claimRef": {"namespace": "n", "name": "c"}}});
    let (code, body) = post(&server, VOLUMES, volume).await;
    assert_eq!(code, 201, "{body}");
    let (_, cells) = table(&server, VOLUMES).await;
    assert_eq!(cells[..6], ["v", "1Gi", "RWO,RWX", "Retain", "Pending", "n/c"].map(Value::from));
}
