//! Cells of printer columns that are not one field of the object.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    meta::{self, age, list, text},
    selector::selector_text,
};

/// `<none>` for an empty text, as in kubectl.
pub(super) fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

pub(super) fn param_kind(object: &Value) -> Value {
    match object.pointer("/spec/paramKind") {
        Some(kind) => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")).into(),
        None => "<unset>".into(),
    }
}

pub(super) fn param_ref(object: &Value) -> Value {
    match object.pointer("/spec/paramRef") {
        None => "<unset>".into(),
        Some(param) => match (text(param, "/namespace"), text(param, "/name")) {
            (_, "") => selector_text(&param["selector"]).into(),
            ("", name) => format!("*/{name}").into(),
            (namespace, name) => format!("{namespace}/{name}").into(),
        },
    }
}

pub(super) fn api_service(object: &Value) -> Value {
    let (namespace, name) = (text(object, "/spec/service/namespace"), text(object, "/spec/service/name"));
    if name.is_empty() { "Local".into() } else { format!("{namespace}/{name}").into() }
}

pub(super) fn available(object: &Value) -> Value {
    match list(object, "/status/conditions").iter().find(|c| c["type"] == "Available") {
        None => "Unknown".into(),
        Some(condition) if condition["status"] == "True" => "True".into(),
        Some(condition) => format!("{} ({})", text(condition, "/status"), text(condition, "/reason")).into(),
    }
}

pub(super) fn or_na(value: &Value) -> Value {
    match value {
        Value::Null => "N/A".into(),
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

pub(super) fn is_global_default(object: &Value) -> Value {
    (object["globalDefault"] == true).to_string().into()
}

fn entries(object: &Value, keys: &[&str]) -> Value {
    keys.iter().filter_map(|k| object.get(k)?.as_object()).map(serde_json::Map::len).sum::<usize>().into()
}

pub(super) fn data_entries(object: &Value) -> Value {
    entries(object, &["data", "binaryData"])
}

pub(super) fn secret_entries(object: &Value) -> Value {
    entries(object, &["data"])
}

/// A field of the containers of a pod template.
fn containers(object: &Value, field: &str) -> Value {
    let all = list(object, "/spec/template/spec/containers");
    all.iter().map(|c| text(c, field)).collect::<Vec<_>>().join(",").into()
}

pub(super) fn container_names(object: &Value) -> Value {
    containers(object, "/name")
}

pub(super) fn container_images(object: &Value) -> Value {
    containers(object, "/image")
}

pub(super) fn ready_replicas(object: &Value) -> Value {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    format!("{}/{}", number("/status/readyReplicas"), number("/spec/replicas")).into()
}

pub(super) fn external_ip(object: &Value) -> Value {
    match text(object, "/spec/type") {
        "ExternalName" => text(object, "/spec/externalName").into(),
        "LoadBalancer" if list(object, "/status/loadBalancer/ingress").is_empty() => "<pending>".into(),
        _ => {
            let ips: Vec<_> = list(object, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
            if ips.is_empty() { "<none>".into() } else { ips.join(",").into() }
        }
    }
}

pub(super) fn service_ports(object: &Value) -> Value {
    let port = |p: &Value| {
        let node = p["nodePort"].as_i64().filter(|n| *n > 0).map(|n| format!(":{n}")).unwrap_or_default();
        format!("{}{node}/{}", p["port"].as_i64().unwrap_or(0), text(p, "/protocol"))
    };
    or_none(&list(object, "/spec/ports").iter().map(port).collect::<Vec<_>>().join(","))
}

pub(super) fn service_selector(object: &Value) -> Value {
    selector_text(&json!({ "matchLabels": object["spec"]["selector"] })).into()
}

/// At most three of them, and the number of the others.
fn first_three(all: &[String], none: &str) -> Value {
    match all {
        [] => none.into(),
        [a, b, c, rest @ ..] if !rest.is_empty() => format!("{a},{b},{c} + {} more...", rest.len()).into(),
        few => few.join(",").into(),
    }
}

pub(super) fn endpoints(object: &Value) -> Value {
    let mut all = Vec::new();
    for subset in list(object, "/subsets") {
        for address in list(subset, "/addresses") {
            let ip = text(address, "/ip");
            match list(subset, "/ports") {
                [] => all.push(ip.to_owned()),
                ports => {
                    all.extend(ports.iter().map(|p| format!("{ip}:{}", p["port"].as_i64().unwrap_or(0))))
                }
            }
        }
    }
    first_three(&all, "<none>")
}

pub(super) fn slice_ports(object: &Value) -> Value {
    let port = |p: &Value| p["port"].as_i64().map_or("*".to_owned(), |n| n.to_string());
    first_three(&list(object, "/ports").iter().map(port).collect::<Vec<_>>(), "<unset>")
}

pub(super) fn slice_addresses(object: &Value) -> Value {
    let endpoints = list(object, "/endpoints").iter().flat_map(|e| list(e, "/addresses"));
    let all: Vec<String> = endpoints.filter_map(Value::as_str).map(str::to_owned).collect();
    first_three(&all, "<unset>")
}

pub(super) fn node_status(object: &Value) -> Value {
    let ready = list(object, "/status/conditions").iter().find(|c| c["type"] == "Ready");
    let mut status = match ready.map(|c| text(c, "/status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    status.into()
}

pub(super) fn node_roles(object: &Value) -> Value {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<&str> =
        labels.filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/")).collect();
    roles.sort_unstable();
    or_none(&roles.join(","))
}

pub(super) fn node_address(object: &Value, kind: &str) -> Value {
    let found = list(object, "/status/addresses").iter().find(|a| a["type"] == kind);
    or_none(found.map(|a| text(a, "/address")).unwrap_or_default())
}

/// The first of two texts, or the second where the first is empty.
pub(super) fn either<'a>(object: &'a Value, first: &str, second: &str) -> &'a str {
    match text(object, first) {
        "" => text(object, second),
        first => first,
    }
}

/// The object that an event is about.
pub(super) fn event_object(event: &Value) -> &Value {
    if event["involvedObject"].is_object() { &event["involvedObject"] } else { &event["regarding"] }
}

fn event_time(event: &Value) -> &str {
    either(event, "/eventTime", "/metadata/creationTimestamp")
}

pub(super) fn first_seen(event: &Value) -> &str {
    match either(event, "/firstTimestamp", "/deprecatedFirstTimestamp") {
        "" => event_time(event),
        first => first,
    }
}

pub(super) fn last_seen(event: &Value) -> &str {
    let last = either(event, "/lastTimestamp", "/deprecatedLastTimestamp");
    match (text(event, "/series/lastObservedTime"), last) {
        ("", "") => event_time(event),
        ("", last) => last,
        (observed, _) => observed,
    }
}

pub(super) fn event_count(event: &Value) -> Value {
    let count = event["series"]["count"].as_i64().or(event["count"].as_i64());
    count.or(event["deprecatedCount"].as_i64()).unwrap_or(1).into()
}

pub(super) fn event_source(event: &Value) -> Value {
    let component = text(event, "/source/component");
    if component.is_empty() {
        either(event, "/reportingComponent", "/reportingController")
    } else {
        component
    }
    .into()
}

pub(super) fn role(binding: &Value) -> Value {
    format!("{}/{}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name")).into()
}

pub(super) fn subjects(binding: &Value, kind: &str) -> Value {
    let name = |subject: &Value| match text(subject, "/namespace") {
        "" => text(subject, "/name").to_owned(),
        namespace => format!("{namespace}/{}", text(subject, "/name")),
    };
    let subjects = list(binding, "/subjects").iter().filter(|s| s["kind"] == kind);
    subjects.map(name).collect::<Vec<_>>().join(", ").into()
}

pub(super) fn pod_ready(pod: &Value) -> Value {
    let ready = list(pod, "/status/containerStatuses").iter().filter(|s| is_ready_container(s)).count();
    format!("{ready}/{}", list(pod, "/spec/containers").len()).into()
}

fn is_ready_container(status: &Value) -> bool {
    status["ready"] == true && status["state"]["running"].is_object()
}

/// The first init container that has not succeeded.
fn initializing(pod: &Value) -> Option<(usize, &Value)> {
    let mut all = list(pod, "/status/initContainerStatuses").iter().enumerate();
    all.find(|(_, status)| status["state"]["terminated"]["exitCode"] != 0)
}

pub(super) fn pod_restarts(pod: &Value) -> Value {
    let of = if initializing(pod).is_some() {
        "/status/initContainerStatuses"
    } else {
        "/status/containerStatuses"
    };
    let all = list(pod, of);
    let restarts = all.iter().filter_map(|s| s["restartCount"].as_i64()).sum::<i64>();
    let times = all.iter().map(|s| text(s, "/lastState/terminated/finishedAt"));
    match times.filter(|time| !time.is_empty()).max().filter(|_| restarts > 0) {
        Some(time) => format!("{restarts} ({} ago)", age(time)).into(),
        None => restarts.to_string().into(),
    }
}

/// As `printPod` of Kubernetes: the most specific reason of its containers.
pub(super) fn pod_status(pod: &Value) -> Value {
    let mut reason = either(pod, "/status/reason", "/status/phase").to_owned();
    if let Some((index, status)) = initializing(pod) {
        let terminated = &status["state"]["terminated"];
        let waiting = text(status, "/state/waiting/reason");
        reason = if terminated.is_object() {
            format!("Init:{}", ended(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", list(pod, "/spec/initContainers").len())
        };
    } else {
        let mut running = false;
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            let waiting = text(status, "/state/waiting/reason");
            let terminated = &status["state"]["terminated"];
            if !waiting.is_empty() {
                reason = waiting.to_owned();
            } else if terminated.is_object() {
                reason = ended(terminated);
            } else if is_ready_container(status) {
                running = true;
            }
        }
        if reason == "Completed" && running {
            reason = if has(pod, "Ready") { "Running" } else { "NotReady" }.to_owned();
        }
    }
    if meta::is_deleting(pod) {
        if text(pod, "/status/reason") == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
            reason = "Terminating".to_owned();
        }
    }
    reason.into()
}

/// Termination reason of a container.
fn ended(terminated: &Value) -> String {
    match (text(terminated, "/reason"), terminated["signal"].as_i64().unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Whether a condition is true.
fn has(object: &Value, ty: &str) -> bool {
    list(object, "/status/conditions").iter().any(|c| c["type"] == ty && c["status"] == "True")
}

/// As `printJob` of Kubernetes.
pub(super) fn job_status(job: &Value) -> Value {
    if has(job, "Complete") {
        "Complete".into()
    } else if has(job, "Failed") {
        "Failed".into()
    } else if meta::is_deleting(job) {
        "Terminating".into()
    } else {
        let all = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        all.into_iter().find(|ty| has(job, ty)).unwrap_or("Running").into()
    }
}

pub(super) fn completions(job: &Value) -> Value {
    let number = |pointer: &str| job.pointer(pointer).and_then(Value::as_i64);
    let succeeded = number("/status/succeeded").unwrap_or(0);
    let parallelism = number("/spec/parallelism").unwrap_or(0);
    match number("/spec/completions") {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
    .into()
}

pub(super) fn duration(job: &Value) -> Value {
    let time = |pointer: &str| meta::parse_time(text(job, pointer));
    match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => "".into(),
        (Some(begin), end) => {
            let end = end.unwrap_or_else(Timestamp::now);
            meta::human_duration(end.duration_since(begin).as_secs()).into()
        }
    }
}

pub(super) fn growth_allowed(class: &Value) -> Value {
    (class["allowVolumeExpansion"] == true).to_string().into()
}

/// Phase of a claim or volume.
pub(super) fn claim_phase(object: &Value) -> Value {
    if meta::is_deleting(object) { "Terminating" } else { text(object, "/status/phase") }.into()
}

/// The cell of a claim with a volume; empty without.
pub(super) fn of_bound_claim(claim: &Value, cell: fn(&Value) -> Value) -> Value {
    if text(claim, "/spec/volumeName").is_empty() { "".into() } else { cell(claim) }
}

/// The claim of a volume.
pub(super) fn claim_of(volume: &Value) -> Value {
    match volume.pointer("/spec/claimRef") {
        Some(claim) => format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")).into(),
        None => "".into(),
    }
}

/// The short forms of access modes, as kubectl shows them.
pub(super) fn short_modes(modes: &[Value]) -> Value {
    let all = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let there = all.iter().filter(|(mode, _)| modes.iter().any(|m| m == mode));
    there.map(|(_, short)| *short).collect::<Vec<_>>().join(",").into()
}
