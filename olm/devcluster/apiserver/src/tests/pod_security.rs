use super::*;

async fn namespace(server: &ApiServer, name: &str, labels: Value) -> (u16, Value) {
    let answer =
        post(server, "/api/v1/namespaces", json!({"metadata": {"name": name, "labels": labels}})).await;
    if answer.0 == 201 {
        service_account(server, name, "default").await;
    }
    answer
}

fn label(mode: &str) -> String {
    format!("pod-security.kubernetes.io/{mode}")
}

/// A pod that the level `restricted` allows.
fn hardened(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["securityContext"] =
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    pod["spec"]["containers"][0]["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    pod
}

#[tokio::test]
async fn t17_a_host_path_is_refused_where_pod_security_is_enforced() {
    let (server, _client) = server();
    let spy = |name: &str| {
        let mut pod = hardened(name);
        pod["spec"]["volumes"] = json!([{"name": "host", "hostPath": {"path": "/"}}]);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "host", "mountPath": "/host"}]);
        pod
    };
    for level in ["restricted", "baseline"] {
        assert_eq!(namespace(&server, level, json!({label("enforce"): level})).await.0, 201);
        let pods = format!("/api/v1/namespaces/{level}/pods");
        // when a pod mounts the host's files
        let (code, body) = post(&server, &pods, spy("spy")).await;
        // then it is refused, and a hardened pod is not
        assert_eq!(code, 403, "{body}");
        let message = body["message"].as_str().expect("a message");
        let begin = format!(
            "pods \"spy\" is forbidden: violates PodSecurity \"{level}:latest\": hostPath volumes host"
        );
        assert!(message.starts_with(&begin), "{message}");
        assert_eq!(post(&server, &pods, hardened("good")).await.0, 201);
        // and an existing pod cannot become one that would be refused
        let change = json!({"spec": spy("good")["spec"]});
        let (code, body) = patch(&server, "merge-patch+json", &format!("{pods}/good"), change).await;
        assert!(code >= 400, "{body}");
        // and a dry run has the same result
        assert_eq!(post(&server, &format!("{pods}?dryRun=All"), spy("dry")).await.0, 403);
    }
    // without `enforce` it is allowed
    assert_eq!(namespace(&server, "free", json!({})).await.0, 201);
    assert_eq!(post(&server, "/api/v1/namespaces/free/pods", spy("spy")).await.0, 201);
}

#[tokio::test]
async fn t17_every_privilege_escalation_violates_baseline() {
    let (server, _client) = server();
    namespace(&server, "b", json!({label("enforce"): "baseline"})).await;
    let cases = [
        ("/spec/hostPID", json!(true)),
        ("/spec/hostNetwork", json!(true)),
        ("/spec/containers/0/securityContext/privileged", json!(true)),
        ("/spec/containers/0/securityContext/capabilities/add", json!(["SYS_ADMIN"])),
        ("/spec/containers/0/securityContext/procMount", json!("Unmasked")),
    ];
    for (pointer, value) in cases {
        let mut pod = hardened("p");
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        pod.pointer_mut(parent).expect("a parent")[key] = value;
        let (code, body) = post(&server, "/api/v1/namespaces/b/pods", pod).await;
        let message = body["message"].as_str().unwrap_or_default();
        assert!(
            code == 403 && message.contains("violates PodSecurity \"baseline:latest\""),
            "{pointer}: {body}"
        );
    }
}

#[tokio::test]
async fn t17_workloads_get_warnings() {
    let (server, _client) = server();
    namespace(&server, "r", json!({label("enforce"): "restricted", label("enforce-version"): "v1.30"})).await;
    let path = "/apis/apps/v1/namespaces/r/deployments";
    let (code, warnings, _) = send_full(&server, Identity::admin(), "POST", path, &[], deployment("d")).await;
    assert_eq!(code, 201);
    let begin =
        "299 - \"would violate PodSecurity \\\"restricted:v1.30\\\": allowPrivilegeEscalation is not false";
    assert!(warnings.iter().any(|warning| warning.starts_with(begin)), "{warnings:?}");
    // `warn` alone refuses no pod
    namespace(&server, "w", json!({label("warn"): "baseline"})).await;
    let mut pod = pod("p");
    pod["spec"]["hostIPC"] = json!(true);
    let path = "/api/v1/namespaces/w/pods";
    let (code, warnings, _) = send_full(&server, Identity::admin(), "POST", path, &[], pod).await;
    assert_eq!((code, warnings.len()), (201, 1), "{warnings:?}");
}

#[tokio::test]
async fn t17_labels_are_checked_and_existing_pods_are_named() {
    let (server, _client) = server();
    let (code, body) =
        namespace(&server, "x", json!({label("enforce"): "strict", label("warn-version"): "1"})).await;
    assert_eq!(code, 422);
    let message = body["message"].as_str().expect("a message");
    assert!(message.contains("metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted"), "{message}");
    assert!(message.contains("must be \"latest\" or \"v1.x\""), "{message}");
    namespace(&server, "x", json!({})).await;
    assert_eq!(post(&server, "/api/v1/namespaces/x/pods", pod("old")).await.0, 201);
    let change = json!({"metadata": {"labels": {label("enforce"): "restricted"}}});
    let media = [("content-type", "application/merge-patch+json")];
    let (code, warnings, _) =
        send_full(&server, Identity::admin(), "PATCH", "/api/v1/namespaces/x", &media, change).await;
    assert_eq!(code, 200);
    assert!(
        warnings[0].contains("existing pods in namespace \\\"x\\\" violate the new PodSecurity enforce level \\\"restricted:latest\\\""),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("old: allowPrivilegeEscalation is not false"), "{warnings:?}");
}
