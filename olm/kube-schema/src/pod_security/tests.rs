use serde_json::json;

use super::*;

fn broken(level: Level, minor: u64, template: &Value) -> Vec<String> {
    violations(template, level, minor)
}

fn pod(change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({
        "metadata": { "annotations": {} },
        "spec": {
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{ "name": "c", "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } } }],
            "volumes": [{ "name": "v", "emptyDir": {} }],
        }
    });
    change(&mut pod);
    pod
}

#[test]
fn a_hardened_pod_violates_no_level() {
    assert_eq!(broken(Level::Restricted, 34, &pod(|_| {})), Vec::<String>::new());
}

#[test]
fn an_ordinary_pod_satisfies_baseline_and_violates_restricted() {
    let plain = json!({ "spec": { "containers": [{ "name": "c" }], "initContainers": [{ "name": "i" }] } });
    assert_eq!(broken(Level::Baseline, 34, &plain), Vec::<String>::new());
    assert_eq!(
        broken(Level::Restricted, 34, &plain),
        [
            "allowPrivilegeEscalation is not false (containers i, c)",
            "runAsNonRoot is not true (containers i, c)",
            "no seccompProfile (containers i, c)",
            "capabilities are not dropped (drop: [ALL]) (containers i, c)",
        ]
    );
    assert_eq!(broken(Level::Privileged, 34, &plain), Vec::<String>::new());
}

/// Every rule of the level `baseline`, each violated on its own.
#[test]
fn baseline() {
    let cases: &[(&str, Value, &str)] = &[
        ("/spec/hostNetwork", json!(true), "hostNetwork: true"),
        ("/spec/hostPID", json!(true), "hostPID: true"),
        ("/spec/hostIPC", json!(true), "hostIPC: true"),
        (
            "/spec/securityContext/windowsOptions",
            json!({ "hostProcess": true }),
            "windowsOptions.hostProcess: true (the pod)",
        ),
        ("/spec/containers/0/securityContext/privileged", json!(true), "privileged (container c)"),
        (
            "/spec/containers/0/securityContext/capabilities/add",
            json!(["CHOWN", "SYS_ADMIN"]),
            "capabilities are added (container c)",
        ),
        ("/spec/volumes/0/hostPath", json!({ "path": "/" }), "hostPath volumes v"),
        (
            "/spec/containers/0/ports",
            json!([{ "containerPort": 1 }, { "containerPort": 2, "hostPort": 2 }]),
            "host ports (container c)",
        ),
        (
            "/spec/containers/0/livenessProbe",
            json!({ "httpGet": { "host": "10.0.0.1", "port": 1 } }),
            "probes or hooks that name a host (container c)",
        ),
        (
            "/spec/securityContext/appArmorProfile",
            json!({ "type": "Unconfined" }),
            "appArmorProfile Unconfined (the pod)",
        ),
        (
            "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1c",
            json!("unconfined"),
            "AppArmor profile unconfined (container c)",
        ),
        (
            "/spec/containers/0/securityContext/seLinuxOptions",
            json!({ "type": "spc_t" }),
            "seLinuxOptions.type spc_t (container c)",
        ),
        ("/spec/securityContext/seLinuxOptions", json!({ "user": "u" }), "seLinuxOptions.user (the pod)"),
        (
            "/spec/containers/0/securityContext/procMount",
            json!("Unmasked"),
            "procMount is not Default (container c)",
        ),
        (
            "/spec/containers/0/securityContext/seccompProfile",
            json!({ "type": "Unconfined" }),
            "seccompProfile Unconfined (container c)",
        ),
        (
            "/spec/securityContext/sysctls",
            json!([{ "name": "kernel.shm_rmid_forced", "value": "1" }, { "name": "kernel.msgmax", "value": "1" }]),
            "sysctl kernel.msgmax",
        ),
    ];
    for (pointer, value, expected) in cases {
        let pod = pod(|pod| {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value.clone();
        });
        assert_eq!(broken(Level::Baseline, 34, &pod), [*expected], "{pointer}");
    }
}

/// Every rule of the level `restricted`, each violated on its own.
#[test]
fn restricted() {
    let cases: &[(&str, Value, &str)] = &[
        (
            "/spec/volumes/0",
            json!({ "name": "v", "nfs": { "server": "s", "path": "/" } }),
            "volumes of a type that is not allowed: v",
        ),
        (
            "/spec/containers/0/securityContext/allowPrivilegeEscalation",
            json!(true),
            "allowPrivilegeEscalation is not false (container c)",
        ),
        (
            "/spec/containers/0/securityContext/runAsNonRoot",
            json!(false),
            "runAsNonRoot is not true (container c)",
        ),
        ("/spec/securityContext/runAsUser", json!(0), "runAsUser: 0 (the pod)"),
        ("/spec/securityContext/seccompProfile", json!(null), "no seccompProfile (container c)"),
        (
            "/spec/containers/0/securityContext/capabilities",
            json!({ "drop": ["NET_RAW"] }),
            "capabilities are not dropped (drop: [ALL]) (container c)",
        ),
        (
            "/spec/containers/0/securityContext/capabilities",
            json!({ "drop": ["ALL"], "add": ["NET_BIND_SERVICE", "CHOWN"] }),
            "capabilities other than NET_BIND_SERVICE are added (container c)",
        ),
    ];
    for (pointer, value, expected) in cases {
        let pod = pod(|pod| {
            *pod.pointer_mut(pointer.rsplit_once('/').unwrap().0)
                .and_then(|parent| match parent {
                    Value::Array(list) => list.first_mut(),
                    other => Some(&mut other[pointer.rsplit_once('/').unwrap().1]),
                })
                .unwrap() = value.clone();
        });
        assert_eq!(broken(Level::Restricted, 34, &pod), [*expected], "{pointer}");
    }
}

#[test]
fn rules_hold_from_their_version_on() {
    let probe = pod(|pod| {
        pod["spec"]["containers"][0]["lifecycle"] =
            json!({ "preStop": { "tcpSocket": { "host": "h", "port": 1 } } });
    });
    assert_eq!(
        (broken(Level::Baseline, 33, &probe).len(), broken(Level::Baseline, 34, &probe).len()),
        (0, 1)
    );
    let sysctl = pod(|pod| {
        pod["spec"]["securityContext"]["sysctls"] = json!([{ "name": "net.ipv4.tcp_rmem", "value": "1" }]);
    });
    assert_eq!(
        (broken(Level::Baseline, 31, &sysctl).len(), broken(Level::Baseline, 32, &sysctl).len()),
        (1, 0)
    );
    // a user namespace makes root harmless
    let users = pod(|pod| {
        pod["spec"]["hostUsers"] = json!(false);
        pod["spec"]["securityContext"]["runAsNonRoot"] = json!(false);
    });
    assert_eq!(
        (broken(Level::Restricted, 33, &users).len(), broken(Level::Restricted, 34, &users).len()),
        (2, 0)
    );
    // Windows has no capabilities to drop
    let windows = json!({ "spec": { "os": { "name": "windows" }, "containers": [{ "name": "c" }],
                                    "securityContext": { "runAsNonRoot": true } } });
    assert_eq!(broken(Level::Restricted, 34, &windows), Vec::<String>::new());
}
