//! Printer columns of built-in kinds.

use serde_json::{Value, json};

use super::{
    jobs,
    kinds::Builtin,
    meta::{self, age, list, text},
    storage,
};

/// A column after `NAME`.
pub(crate) struct ColumnDef {
    pub name: &'static str,
    /// Only with `-o wide`.
    pub wide: bool,
    pub number: bool,
}

/// The columns of a kind and the function for their cells.
pub(crate) struct Columns {
    pub columns: &'static [ColumnDef],
    pub cells: fn(&Value) -> Vec<Value>,
}

const fn c(name: &'static str) -> ColumnDef {
    ColumnDef { name, wide: false, number: false }
}

const fn w(name: &'static str) -> ColumnDef {
    ColumnDef { name, wide: true, number: false }
}

const fn n(name: &'static str) -> ColumnDef {
    ColumnDef { name, wide: false, number: true }
}

pub(crate) fn of(builtin: &Builtin) -> Columns {
    match (builtin.group, builtin.kind) {
        ("", "Pod") => Columns {
            columns: const {
                &[
                    c("Ready"),
                    c("Status"),
                    c("Restarts"),
                    c("Age"),
                    w("IP"),
                    w("Node"),
                    w("Nominated Node"),
                    w("Readiness Gates"),
                ]
            },
            cells: pod,
        },
        ("apps", "Deployment") => Columns {
            columns: const {
                &[
                    c("Ready"),
                    n("Up-to-date"),
                    n("Available"),
                    c("Age"),
                    w("Containers"),
                    w("Images"),
                    w("Selector"),
                ]
            },
            cells: deployment,
        },
        ("apps", "ReplicaSet") => Columns {
            columns: const {
                &[
                    n("Desired"),
                    n("Current"),
                    n("Ready"),
                    c("Age"),
                    w("Containers"),
                    w("Images"),
                    w("Selector"),
                ]
            },
            cells: replica_set,
        },
        ("", "Service") => Columns {
            columns: const {
                &[c("Type"), c("Cluster-IP"), c("External-IP"), c("Port(s)"), c("Age"), w("Selector")]
            },
            cells: service,
        },
        ("", "Endpoints") => Columns { columns: const { &[c("Endpoints"), c("Age")] }, cells: endpoints },
        ("discovery.k8s.io", _) => Columns {
            columns: const { &[c("AddressType"), c("Ports"), c("Endpoints"), c("Age")] },
            cells: endpoint_slice,
        },
        ("", "Node") => Columns {
            columns: const {
                &[
                    c("Status"),
                    c("Roles"),
                    c("Age"),
                    c("Version"),
                    w("Internal-IP"),
                    w("External-IP"),
                    w("OS-Image"),
                    w("Kernel-Version"),
                    w("Container-Runtime"),
                ]
            },
            cells: node,
        },
        ("", "Namespace") => Columns {
            columns: const { &[c("Status"), c("Age")] },
            cells: |o| vec![text(o, "/status/phase").into(), created(o)],
        },
        ("" | "events.k8s.io", "Event") => Columns {
            columns: const {
                &[
                    c("Last Seen"),
                    c("Type"),
                    c("Reason"),
                    c("Object"),
                    w("Subobject"),
                    w("Source"),
                    c("Message"),
                    w("First Seen"),
                    w("Count"),
                    w("Name"),
                ]
            },
            cells: event,
        },
        ("", "ConfigMap") => Columns {
            columns: const { &[n("Data"), c("Age")] },
            cells: |o| vec![entries(o, &["data", "binaryData"]), created(o)],
        },
        ("", "Secret") => Columns {
            columns: const { &[c("Type"), n("Data"), c("Age")] },
            cells: |o| vec![text(o, "/type").into(), entries(o, &["data"]), created(o)],
        },
        ("", "ServiceAccount") => Columns {
            columns: const { &[n("Secrets"), c("Age")] },
            cells: |o| vec![list(o, "/secrets").len().into(), created(o)],
        },
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => Columns {
            columns: const { &[c("Created At")] },
            cells: |o| vec![text(o, "/metadata/creationTimestamp").into()],
        },
        ("rbac.authorization.k8s.io", _) => Columns {
            columns: const { &[c("Role"), c("Age"), w("Users"), w("Groups"), w("ServiceAccounts")] },
            cells: role_binding,
        },
        ("apiextensions.k8s.io", _) => Columns {
            columns: const { &[c("Created At")] },
            cells: |o| vec![text(o, "/metadata/creationTimestamp").into()],
        },
        ("apiregistration.k8s.io", _) => {
            Columns { columns: const { &[c("Service"), c("Available"), c("Age")] }, cells: api_service }
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => Columns {
            columns: const { &[n("Mutations"), c("ParamKind"), c("Age")] },
            cells: |o| policy(o, "/spec/mutations"),
        },
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => Columns {
            columns: const { &[n("Validations"), c("ParamKind"), c("Age")] },
            cells: |o| policy(o, "/spec/validations"),
        },
        (
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding",
        ) => {
            Columns { columns: const { &[c("PolicyName"), c("ParamRef"), c("Age")] }, cells: policy_binding }
        }
        ("admissionregistration.k8s.io", _) => Columns {
            columns: const { &[n("Webhooks"), c("Age")] },
            cells: |o| vec![list(o, "/webhooks").len().into(), created(o)],
        },
        ("coordination.k8s.io", _) => Columns {
            columns: const { &[c("Holder"), c("Age")] },
            cells: |o| vec![text(o, "/spec/holderIdentity").into(), created(o)],
        },
        ("", "PersistentVolumeClaim") => Columns {
            columns: const {
                &[
                    c("Status"),
                    c("Volume"),
                    c("Capacity"),
                    c("Access Modes"),
                    c("StorageClass"),
                    c("VolumeAttributesClass"),
                    c("Age"),
                    w("VolumeMode"),
                ]
            },
            cells: storage::claim_cells,
        },
        ("", "PersistentVolume") => Columns {
            columns: const {
                &[
                    c("Capacity"),
                    c("Access Modes"),
                    c("Reclaim Policy"),
                    c("Status"),
                    c("Claim"),
                    c("StorageClass"),
                    c("VolumeAttributesClass"),
                    c("Reason"),
                    c("Age"),
                    w("VolumeMode"),
                ]
            },
            cells: storage::volume_cells,
        },
        ("policy", _) => Columns {
            columns: const { &[c("Min Available"), c("Max Unavailable"), n("Allowed Disruptions"), c("Age")] },
            cells: |o| {
                vec![
                    or_na(&o["spec"]["minAvailable"]),
                    or_na(&o["spec"]["maxUnavailable"]),
                    number(o, "/status/disruptionsAllowed"),
                    created(o),
                ]
            },
        },
        ("networking.k8s.io", _) => Columns {
            columns: const { &[c("Pod-Selector"), c("Age")] },
            cells: |o| vec![selector_text(&o["spec"]["podSelector"]).into(), created(o)],
        },
        ("scheduling.k8s.io", _) => Columns {
            columns: const { &[n("Value"), c("Global-Default"), c("Age"), c("PreemptionPolicy")] },
            cells: |o| {
                vec![
                    number(o, "/value"),
                    o["globalDefault"].as_bool().unwrap_or(false).to_string().into(),
                    created(o),
                    text(o, "/preemptionPolicy").into(),
                ]
            },
        },
        (jobs::GROUP, _) => Columns {
            columns: const {
                &[
                    c("Status"),
                    c("Completions"),
                    c("Duration"),
                    c("Age"),
                    w("Containers"),
                    w("Images"),
                    w("Selector"),
                ]
            },
            cells: jobs::cells,
        },
        (storage::GROUP, _) => Columns {
            columns: const {
                &[
                    c("Provisioner"),
                    c("ReclaimPolicy"),
                    c("VolumeBindingMode"),
                    c("AllowVolumeExpansion"),
                    c("Age"),
                ]
            },
            cells: storage::class_cells,
        },
        _ => Columns { columns: const { &[c("Age")] }, cells: |o| vec![created(o)] },
    }
}

/// Cell of the column `NAME`.
pub(crate) fn name(builtin: &Builtin, object: &Value) -> String {
    if builtin.group == storage::GROUP { storage::class_name(object) } else { meta::name(object).to_owned() }
}

fn policy(object: &Value, steps: &str) -> Vec<Value> {
    let kind = match object.pointer("/spec/paramKind") {
        Some(kind) => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")),
        None => "<unset>".to_owned(),
    };
    vec![list(object, steps).len().into(), kind.into(), created(object)]
}

fn policy_binding(object: &Value) -> Vec<Value> {
    let param = match object.pointer("/spec/paramRef") {
        None => "<unset>".to_owned(),
        Some(param) => match (text(param, "/namespace"), text(param, "/name")) {
            (_, "") => selector_text(&param["selector"]),
            ("", name) => format!("*/{name}"),
            (namespace, name) => format!("{namespace}/{name}"),
        },
    };
    vec![text(object, "/spec/policyName").into(), param.into(), created(object)]
}

fn api_service(object: &Value) -> Vec<Value> {
    let (namespace, name) = (text(object, "/spec/service/namespace"), text(object, "/spec/service/name"));
    let service = if name.is_empty() { "Local".to_owned() } else { format!("{namespace}/{name}") };
    let conditions = list(object, "/status/conditions");
    let available = match conditions.iter().find(|c| c["type"] == "Available") {
        None => "Unknown".to_owned(),
        Some(condition) if condition["status"] == "True" => "True".to_owned(),
        Some(condition) => format!("{} ({})", text(condition, "/status"), text(condition, "/reason")),
    };
    vec![service.into(), available.into(), created(object)]
}

fn created(object: &Value) -> Value {
    age(text(object, "/metadata/creationTimestamp")).into()
}

fn number(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0).into()
}

fn or_na(value: &Value) -> Value {
    match value {
        Value::Null => "N/A".into(),
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

fn entries(object: &Value, keys: &[&str]) -> Value {
    keys.iter().filter_map(|k| object.get(k)?.as_object()).map(serde_json::Map::len).sum::<usize>().into()
}

/// `<none>` for an empty text, as in kubectl.
fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

/// A `LabelSelector` in its text form.
pub(crate) fn selector_text(selector: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut labels: Vec<_> =
        selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten().collect();
    labels.sort_by_key(|(key, _)| key.as_str());
    parts.extend(labels.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())));
    for term in list(selector, "/matchExpressions") {
        let key = text(term, "/key");
        let values = list(term, "/values").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        parts.push(match text(term, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}

/// Names and images of the containers of a pod template.
pub(crate) fn containers(object: &Value) -> [Value; 2] {
    let all = list(object, "/spec/template/spec/containers");
    let column = |key: &str| all.iter().map(|c| text(c, key)).collect::<Vec<_>>().join(",").into();
    [column("/name"), column("/image")]
}

fn deployment(o: &Value) -> Vec<Value> {
    let desired = o.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    let [names, images] = containers(o);
    vec![
        format!("{}/{desired}", o["status"]["readyReplicas"].as_i64().unwrap_or(0)).into(),
        number(o, "/status/updatedReplicas"),
        number(o, "/status/availableReplicas"),
        created(o),
        names,
        images,
        selector_text(&o["spec"]["selector"]).into(),
    ]
}

fn replica_set(o: &Value) -> Vec<Value> {
    let [names, images] = containers(o);
    vec![
        number(o, "/spec/replicas"),
        number(o, "/status/replicas"),
        number(o, "/status/readyReplicas"),
        created(o),
        names,
        images,
        selector_text(&o["spec"]["selector"]).into(),
    ]
}

fn service(o: &Value) -> Vec<Value> {
    let type_ = text(o, "/spec/type");
    let external = match type_ {
        "ExternalName" => text(o, "/spec/externalName").to_owned(),
        "LoadBalancer" if list(o, "/status/loadBalancer/ingress").is_empty() => "<pending>".to_owned(),
        _ => {
            let ips: Vec<_> = list(o, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
            if ips.is_empty() { "<none>".to_owned() } else { ips.join(",") }
        }
    };
    let ports: Vec<String> = list(o, "/spec/ports")
        .iter()
        .map(|p| {
            let node = p["nodePort"].as_i64().filter(|n| *n > 0).map(|n| format!(":{n}")).unwrap_or_default();
            format!("{}{node}/{}", p["port"].as_i64().unwrap_or(0), text(p, "/protocol"))
        })
        .collect();
    let labels = selector_text(&json!({ "matchLabels": o["spec"]["selector"] }));
    vec![
        type_.into(),
        or_none(text(o, "/spec/clusterIP")),
        external.into(),
        or_none(&ports.join(",")),
        created(o),
        labels.into(),
    ]
}

/// At most three of them, and the number of the others.
fn first_three(all: &[String]) -> Value {
    match all {
        [] => "<none>".into(),
        [a, b, c, rest @ ..] if !rest.is_empty() => format!("{a},{b},{c} + {} more...", rest.len()).into(),
        few => few.join(",").into(),
    }
}

fn endpoints(o: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in list(o, "/subsets") {
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
    vec![first_three(&all), created(o)]
}

fn endpoint_slice(o: &Value) -> Vec<Value> {
    let ports: Vec<String> = list(o, "/ports")
        .iter()
        .map(|p| p["port"].as_i64().map_or("*".to_owned(), |n| n.to_string()))
        .collect();
    let addresses: Vec<String> = list(o, "/endpoints")
        .iter()
        .flat_map(|e| list(e, "/addresses"))
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let ports = if ports.is_empty() { "<unset>".into() } else { first_three(&ports) };
    let addresses = if addresses.is_empty() { "<unset>".into() } else { first_three(&addresses) };
    vec![text(o, "/addressType").into(), ports, addresses, created(o)]
}

fn node(o: &Value) -> Vec<Value> {
    let ready = list(o, "/status/conditions").iter().find(|c| c["type"] == "Ready");
    let mut status = match ready.map(|c| text(c, "/status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if o["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = o["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        let found = list(o, "/status/addresses").iter().find(|a| a["type"] == kind);
        or_none(found.map(|a| text(a, "/address")).unwrap_or_default())
    };
    let info = |key: &str| text(o, &format!("/status/nodeInfo/{key}")).into();
    vec![
        status.into(),
        or_none(&roles.join(",")),
        created(o),
        info("kubeletVersion"),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn event(o: &Value) -> Vec<Value> {
    let either =
        |a: &str, b: &str| if text(o, a).is_empty() { text(o, b).to_owned() } else { text(o, a).to_owned() };
    let object = if o["involvedObject"].is_object() { &o["involvedObject"] } else { &o["regarding"] };
    let first = either("/firstTimestamp", "/deprecatedFirstTimestamp");
    let last = either("/lastTimestamp", "/deprecatedLastTimestamp");
    let moment = if text(o, "/eventTime").is_empty() {
        text(o, "/metadata/creationTimestamp")
    } else {
        text(o, "/eventTime")
    };
    let first = if first.is_empty() { moment.to_owned() } else { first };
    let observed = text(o, "/series/lastObservedTime");
    let last = match (observed, last.as_str()) {
        ("", "") => moment.to_owned(),
        ("", last) => last.to_owned(),
        (observed, _) => observed.to_owned(),
    };
    let count =
        o["series"]["count"].as_i64().or(o["count"].as_i64()).or(o["deprecatedCount"].as_i64()).unwrap_or(1);
    let source =
        [text(o, "/source/component"), text(o, "/reportingComponent"), text(o, "/reportingController")]
            .into_iter()
            .find(|s| !s.is_empty())
            .unwrap_or_default();
    vec![
        age(&last).into(),
        text(o, "/type").into(),
        text(o, "/reason").into(),
        format!("{}/{}", text(object, "/kind").to_lowercase(), text(object, "/name")).into(),
        text(object, "/fieldPath").into(),
        source.into(),
        either("/message", "/note").trim().into(),
        age(&first).into(),
        count.into(),
        meta::name(o).into(),
    ]
}

fn role_binding(o: &Value) -> Vec<Value> {
    let subjects = |kind: &str| {
        let names: Vec<String> = list(o, "/subjects")
            .iter()
            .filter(|s| s["kind"] == kind)
            .map(|s| match text(s, "/namespace") {
                "" => text(s, "/name").to_owned(),
                namespace => format!("{namespace}/{}", text(s, "/name")),
            })
            .collect();
        Value::from(names.join(", "))
    };
    vec![
        format!("{}/{}", text(o, "/roleRef/kind"), text(o, "/roleRef/name")).into(),
        created(o),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

/// As `printPod` of Kubernetes: the status is the most specific reason of its containers.
fn pod(o: &Value) -> Vec<Value> {
    let statuses = list(o, "/status/containerStatuses");
    let init = list(o, "/status/initContainerStatuses");
    let total = list(o, "/spec/containers").len();
    let ready = statuses.iter().filter(|s| s["ready"] == true && s["state"]["running"].is_object()).count();
    let restarts_of = |all: &[Value]| all.iter().filter_map(|s| s["restartCount"].as_i64()).sum::<i64>();
    let last_restart = |all: &[Value]| {
        all.iter()
            .map(|s| text(s, "/lastState/terminated/finishedAt").to_owned())
            .filter(|t| !t.is_empty())
            .max()
    };
    let mut reason = match text(o, "/status/reason") {
        "" => text(o, "/status/phase").to_owned(),
        reason => reason.to_owned(),
    };
    let (mut restarts, mut restarted) = (restarts_of(statuses), last_restart(statuses));
    let mut initializing = false;
    for (index, status) in init.iter().enumerate() {
        let terminated = &status["state"]["terminated"];
        if terminated["exitCode"] == 0 {
            continue;
        }
        (restarts, restarted) = (restarts_of(init), last_restart(init));
        let waiting = text(status, "/state/waiting/reason");
        reason = if terminated.is_object() {
            format!("Init:{}", ended(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", list(o, "/spec/initContainers").len())
        };
        initializing = true;
        break;
    }
    if !initializing {
        let mut running = false;
        for status in statuses.iter().rev() {
            let waiting = text(status, "/state/waiting/reason");
            let terminated = &status["state"]["terminated"];
            if !waiting.is_empty() {
                reason = waiting.to_owned();
            } else if terminated.is_object() {
                reason = ended(terminated);
            } else if status["ready"] == true && status["state"]["running"].is_object() {
                running = true;
            }
        }
        if reason == "Completed" && running {
            let is_ready =
                list(o, "/status/conditions").iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
            reason = if is_ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
    if meta::is_deleting(o) {
        let lost = text(o, "/status/reason") == "NodeLost";
        let ended = matches!(text(o, "/status/phase"), "Succeeded" | "Failed");
        if lost {
            reason = "Unknown".to_owned();
        } else if !ended {
            reason = "Terminating".to_owned();
        }
    }
    let restarts = match restarted.filter(|_| restarts > 0) {
        Some(time) => format!("{restarts} ({} ago)", age(&time)),
        None => restarts.to_string(),
    };
    vec![
        format!("{ready}/{total}").into(),
        reason.into(),
        restarts.into(),
        created(o),
        or_none(text(o, "/status/podIP")),
        or_none(text(o, "/spec/nodeName")),
        or_none(text(o, "/status/nominatedNodeName")),
        "<none>".into(),
    ]
}

/// Termination reason of a container.
fn ended(terminated: &Value) -> String {
    match (text(terminated, "/reason"), terminated["signal"].as_i64().unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_shows_its_most_telling_reason() {
        let running = json!({
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
            "status": {"phase": "Running", "containerStatuses": [
                {"ready": true, "restartCount": 0, "state": {"running": {}}},
                {"ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            ]},
        });
        assert_eq!(pod(&running)[..3], [json!("1/2"), json!("CrashLoopBackOff"), json!("3")]);
        let initializing = json!({
            "spec": {"containers": [{}], "initContainers": [{}, {}]},
            "status": {"phase": "Pending", "initContainerStatuses": [
                {"state": {"terminated": {"exitCode": 0}}}, {"state": {"running": {}}},
            ]},
        });
        assert_eq!(pod(&initializing)[1], "Init:1/2");
    }

    #[test]
    fn ports_of_a_service() {
        let o = json!({"spec": {"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{"port": 80, "nodePort": 30001, "protocol": "TCP"}]}});
        assert_eq!(service(&o)[3], "80:30001/TCP");
    }
}
