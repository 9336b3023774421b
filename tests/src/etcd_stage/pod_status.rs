//! Pod status for the API.

use serde_json::{Value, json};

use super::kubelet::{Run, lock};

/// The current second: Kubernetes has no finer resolution.
pub(super) fn now() -> String {
    jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap_or_default().to_string()
}

/// The status of a pod whose container does not run, with the reason.
pub(super) fn waiting(reason: &str, message: &str) -> Value {
    json!({
        "phase": "Pending", "ready": false,
        "containerStatuses": [{ "name": "etcd", "image": "", "imageID": "", "ready": false, "started": false,
            "restartCount": 0, "lastState": null, "state": { "running": null, "waiting": { "reason": reason, "message": message } } }],
    })
}

/// The status of a pod whose container runs.
pub(super) fn running(run: &Run, image: &str, started: &str, last: &Value) -> Value {
    let state = lock(&run.state).clone();
    let ip = run.outside.to_string();
    json!({
        "phase": "Running", "ready": state.ready, "podIP": ip, "podIPs": [{ "ip": ip }],
        "containerStatuses": [{ "name": "etcd", "image": image,
            "imageID": "", "ready": state.ready, "started": true, "restartCount": state.restarts, "lastState": last,
            "state": { "waiting": null, "running": { "startedAt": started } } }],
    })
}

/// The last lines of a text.
pub(super) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
