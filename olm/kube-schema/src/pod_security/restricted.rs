//! The level `restricted`: pod hardening practices, beyond `baseline`.

use serde_json::Value;

use super::{Pod, list, named, text};

const VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

pub(super) fn violations(pod: &Pod<'_>) -> Vec<String> {
    let mut out = Vec::new();
    out.extend(volumes(pod));
    // Windows has none of these settings; its pods were subject to the rules until 1.25.
    let linux = !pod.is_windows() || pod.minor < 25;
    if linux {
        let escalates =
            |c: &Value| c.pointer("/securityContext/allowPrivilegeEscalation") != Some(&false.into());
        out.extend(named("allowPrivilegeEscalation is not false", &pod.containers_that(escalates)));
    }
    if !pod.has_own_users() {
        out.extend(runs_as_root(pod));
    }
    if linux && pod.minor >= 19 {
        let by_pod =
            matches!(text(pod.spec, "/securityContext/seccompProfile/type"), "RuntimeDefault" | "Localhost");
        // The level `baseline` reports an invalid profile.
        let without =
            |c: &Value| !by_pod && c.pointer("/securityContext/seccompProfile").is_none_or(Value::is_null);
        out.extend(named("no seccompProfile", &pod.containers_that(without)));
    }
    if linux && pod.minor >= 22 {
        let keeps = |c: &Value| !list(c, "/securityContext/capabilities/drop").iter().any(|d| d == "ALL");
        out.extend(named("capabilities are not dropped (drop: [ALL])", &pod.containers_that(keeps)));
        let adds =
            |c: &Value| list(c, "/securityContext/capabilities/add").iter().any(|a| a != "NET_BIND_SERVICE");
        out.extend(named("capabilities other than NET_BIND_SERVICE are added", &pod.containers_that(adds)));
    }
    out
}

fn volumes(pod: &Pod<'_>) -> Option<String> {
    let fits = |volume: &Value| VOLUMES.iter().any(|kind| !volume[*kind].is_null());
    let names: Vec<&str> =
        list(pod.spec, "/volumes").iter().filter(|v| !fits(v)).map(|v| text(v, "/name")).collect();
    (!names.is_empty()).then(|| format!("volumes of a type that is not allowed: {}", names.join(", ")))
}

fn runs_as_root(pod: &Pod<'_>) -> Vec<String> {
    let mut out = Vec::new();
    let by_pod = pod.spec.pointer("/securityContext/runAsNonRoot");
    let may = |c: &Value| match c.pointer("/securityContext/runAsNonRoot").filter(|v| !v.is_null()) {
        Some(own) => *own != true,
        None => by_pod != Some(&true.into()),
    };
    if by_pod == Some(&false.into()) {
        out.push("runAsNonRoot: false (the pod)".to_owned());
    }
    out.extend(named("runAsNonRoot is not true", &pod.containers_that(may)));
    if pod.minor >= 23 {
        for (who, user) in pod.settings("/runAsUser") {
            if user.as_i64() == Some(0) {
                out.push(format!("runAsUser: 0 ({who})"));
            }
        }
    }
    out
}
