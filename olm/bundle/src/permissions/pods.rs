//! Pods with access beyond their sandbox: equivalent to rights on the node.

use serde_json::Value;

use super::grade::{Level, PermissionRule};

/// Capabilities that allow a container escape.
const AS_GOOD_AS_PRIVILEGED: &[&str] = &["ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE"];

/// Node access of a workload's pods.
pub(super) fn node_access(object: &Value) -> Vec<PermissionRule> {
    let Some(pod) = object.pointer("/spec/template/spec") else { return Vec::new() };
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut reaches: Vec<String> = Vec::new();
    for key in ["hostNetwork", "hostPID", "hostIPC"] {
        if pod.get(key) == Some(&Value::Bool(true)) {
            reaches.push(format!("uses {key}"));
        }
    }
    let list = |key: &str| pod.get(key).and_then(Value::as_array).into_iter().flatten();
    for path in list("volumes").filter_map(|volume| volume.pointer("/hostPath/path")?.as_str()) {
        reaches.push(format!("mounts hostPath {path}"));
    }
    for container in list("containers").chain(list("initContainers")) {
        let security = container.get("securityContext");
        if security.and_then(|s| s.get("privileged")) == Some(&Value::Bool(true)) {
            reaches.push("runs privileged".to_owned());
        }
        let added = security.and_then(|s| s.pointer("/capabilities/add")?.as_array());
        for capability in added.into_iter().flatten().filter_map(Value::as_str) {
            if AS_GOOD_AS_PRIVILEGED.contains(&capability.trim_start_matches("CAP_")) {
                reaches.push(format!("runs with capability {capability}"));
            }
        }
    }
    let (kind, name, namespace) = (text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
    let rule = |what: String| PermissionRule {
        rule: format!("{kind} {name} {what}"),
        level: Level::High,
        reason: Some("reaches the node".to_owned()),
        scope: namespace.to_owned(),
    };
    reaches.into_iter().map(rule).collect()
}
