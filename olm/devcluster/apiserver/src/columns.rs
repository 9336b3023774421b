//! Printer columns of built-in kinds.

use serde_json::Value;

use self::Cell::{Age, Count, Number, Of, OrNone, OrUnset, Text};
use super::{
    cells::{
        api_service, available, claim_of, claim_phase, completions, container_images, container_names,
        data_entries, duration, either, endpoints, event_count, event_object, event_source, external_ip,
        first_seen, growth_allowed, is_global_default, job_status, last_seen, node_address, node_roles,
        node_status, of_bound_claim, or_na, or_none, param_kind, param_ref, pod_ready, pod_restarts,
        pod_status, ready_replicas, role, secret_entries, service_ports, service_selector, short_modes,
        slice_addresses, slice_ports, subjects,
    },
    job_rules,
    meta::{self, age, list, text},
    selector::selector_text,
    volumes,
};

/// A column after `NAME`.
pub(crate) struct ColumnDef {
    pub name: &'static str,
    /// Only with `-o wide`.
    pub wide: bool,
    pub number: bool,
    cell: Cell,
}

/// The content of a cell; texts and numbers are at a JSON pointer.
enum Cell {
    Text(&'static str),
    /// A text, or `<none>` for an empty one.
    OrNone(&'static str),
    /// A text, or `<unset>` where it is missing.
    OrUnset(&'static str),
    Number(&'static str),
    /// The length of a list.
    Count(&'static str),
    Age,
    Of(fn(&Value) -> Value),
}

impl ColumnDef {
    pub(crate) fn cell(&self, object: &Value) -> Value {
        match self.cell {
            Text(pointer) => text(object, pointer).into(),
            OrNone(pointer) => or_none(text(object, pointer)),
            OrUnset(pointer) => object.pointer(pointer).and_then(Value::as_str).unwrap_or("<unset>").into(),
            Number(pointer) => object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0).into(),
            Count(pointer) => list(object, pointer).len().into(),
            Age => age(text(object, "/metadata/creationTimestamp")).into(),
            Of(function) => function(object),
        }
    }
}

const fn c(name: &'static str, cell: Cell) -> ColumnDef {
    ColumnDef { name, wide: false, number: false, cell }
}

const fn w(name: &'static str, cell: Cell) -> ColumnDef {
    ColumnDef { name, wide: true, number: false, cell }
}

const fn n(name: &'static str, cell: Cell) -> ColumnDef {
    ColumnDef { name, wide: false, number: true, cell }
}

const AGE: ColumnDef = c("Age", Age);
const CREATED_AT: ColumnDef = c("Created At", Text("/metadata/creationTimestamp"));
const CONTAINERS: ColumnDef = w("Containers", Of(container_names));
const IMAGES: ColumnDef = w("Images", Of(container_images));
const SELECTOR: ColumnDef = w("Selector", Of(|o| selector_text(&o["spec"]["selector"]).into()));
const VOLUME_MODE: ColumnDef = w("VolumeMode", OrUnset("/spec/volumeMode"));
const ATTRIBUTES_CLASS: ColumnDef = c("VolumeAttributesClass", OrUnset("/spec/volumeAttributesClassName"));
const EVENT: &[ColumnDef] = &[
    c("Last Seen", Of(|o| age(last_seen(o)).into())),
    c("Type", Text("/type")),
    c("Reason", Text("/reason")),
    c(
        "Object",
        Of(|o| {
            let object = event_object(o);
            format!("{}/{}", text(object, "/kind").to_lowercase(), text(object, "/name")).into()
        }),
    ),
    w("Subobject", Of(|o| text(event_object(o), "/fieldPath").into())),
    w("Source", Of(event_source)),
    c("Message", Of(|o| either(o, "/message", "/note").trim().into())),
    w("First Seen", Of(|o| age(first_seen(o)).into())),
    w("Count", Of(event_count)),
    w("Name", Text("/metadata/name")),
];

/// Of all other kinds.
const OTHERS: &[ColumnDef] = &[AGE];

/// Group, kinds (none: all others of the group), columns.
static KINDS: &[(&str, &[&str], &[ColumnDef])] = &[
    (
        "",
        &["Pod"],
        &[
            c("Ready", Of(pod_ready)),
            c("Status", Of(pod_status)),
            c("Restarts", Of(pod_restarts)),
            AGE,
            w("IP", OrNone("/status/podIP")),
            w("Node", OrNone("/spec/nodeName")),
            w("Nominated Node", OrNone("/status/nominatedNodeName")),
            w("Readiness Gates", Of(|_| or_none(""))),
        ],
    ),
    (
        "apps",
        &["Deployment"],
        &[
            c("Ready", Of(ready_replicas)),
            n("Up-to-date", Number("/status/updatedReplicas")),
            n("Available", Number("/status/availableReplicas")),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "apps",
        &["ReplicaSet"],
        &[
            n("Desired", Number("/spec/replicas")),
            n("Current", Number("/status/replicas")),
            n("Ready", Number("/status/readyReplicas")),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "",
        &["Service"],
        &[
            c("Type", Text("/spec/type")),
            c("Cluster-IP", OrNone("/spec/clusterIP")),
            c("External-IP", Of(external_ip)),
            c("Port(s)", Of(service_ports)),
            AGE,
            w("Selector", Of(service_selector)),
        ],
    ),
    ("", &["Endpoints"], &[c("Endpoints", Of(endpoints)), AGE]),
    (
        "discovery.k8s.io",
        &[],
        &[
            c("AddressType", Text("/addressType")),
            c("Ports", Of(slice_ports)),
            c("Endpoints", Of(slice_addresses)),
            AGE,
        ],
    ),
    (
        "",
        &["Node"],
        &[
            c("Status", Of(node_status)),
            c("Roles", Of(node_roles)),
            AGE,
            c("Version", Text("/status/nodeInfo/kubeletVersion")),
            w("Internal-IP", Of(|o| node_address(o, "InternalIP"))),
            w("External-IP", Of(|o| node_address(o, "ExternalIP"))),
            w("OS-Image", Text("/status/nodeInfo/osImage")),
            w("Kernel-Version", Text("/status/nodeInfo/kernelVersion")),
            w("Container-Runtime", Text("/status/nodeInfo/containerRuntimeVersion")),
        ],
    ),
    ("", &["Namespace"], &[c("Status", Text("/status/phase")), AGE]),
    ("", &["Event"], EVENT),
    ("events.k8s.io", &["Event"], EVENT),
    ("", &["ConfigMap"], &[n("Data", Of(data_entries)), AGE]),
    ("", &["Secret"], &[c("Type", Text("/type")), n("Data", Of(secret_entries)), AGE]),
    ("", &["ServiceAccount"], &[n("Secrets", Count("/secrets")), AGE]),
    ("rbac.authorization.k8s.io", &["Role", "ClusterRole"], &[CREATED_AT]),
    (
        "rbac.authorization.k8s.io",
        &[],
        &[
            c("Role", Of(role)),
            AGE,
            w("Users", Of(|o| subjects(o, "User"))),
            w("Groups", Of(|o| subjects(o, "Group"))),
            w("ServiceAccounts", Of(|o| subjects(o, "ServiceAccount"))),
        ],
    ),
    ("apiextensions.k8s.io", &[], &[CREATED_AT]),
    ("apiregistration.k8s.io", &[], &[c("Service", Of(api_service)), c("Available", Of(available)), AGE]),
    (
        "admissionregistration.k8s.io",
        &["MutatingAdmissionPolicy"],
        &[n("Mutations", Count("/spec/mutations")), c("ParamKind", Of(param_kind)), AGE],
    ),
    (
        "admissionregistration.k8s.io",
        &["ValidatingAdmissionPolicy"],
        &[n("Validations", Count("/spec/validations")), c("ParamKind", Of(param_kind)), AGE],
    ),
    (
        "admissionregistration.k8s.io",
        &["MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicyBinding"],
        &[c("PolicyName", Text("/spec/policyName")), c("ParamRef", Of(param_ref)), AGE],
    ),
    ("admissionregistration.k8s.io", &[], &[n("Webhooks", Count("/webhooks")), AGE]),
    ("coordination.k8s.io", &[], &[c("Holder", Text("/spec/holderIdentity")), AGE]),
    (
        "",
        &["PersistentVolumeClaim"],
        &[
            c("Status", Of(claim_phase)),
            c("Volume", Text("/spec/volumeName")),
            c("Capacity", Of(|o| of_bound_claim(o, |o| text(o, "/status/capacity/storage").into()))),
            c("Access Modes", Of(|o| of_bound_claim(o, |o| short_modes(list(o, "/status/accessModes"))))),
            c("StorageClass", Text("/spec/storageClassName")),
            ATTRIBUTES_CLASS,
            AGE,
            VOLUME_MODE,
        ],
    ),
    (
        "",
        &["PersistentVolume"],
        &[
            c("Capacity", Text("/spec/capacity/storage")),
            c("Access Modes", Of(|o| short_modes(list(o, "/spec/accessModes")))),
            c("Reclaim Policy", Text("/spec/persistentVolumeReclaimPolicy")),
            c("Status", Of(claim_phase)),
            c("Claim", Of(claim_of)),
            c("StorageClass", Text("/spec/storageClassName")),
            ATTRIBUTES_CLASS,
            c("Reason", Text("/status/reason")),
            AGE,
            VOLUME_MODE,
        ],
    ),
    (
        "policy",
        &[],
        &[
            c("Min Available", Of(|o| or_na(&o["spec"]["minAvailable"]))),
            c("Max Unavailable", Of(|o| or_na(&o["spec"]["maxUnavailable"]))),
            n("Allowed Disruptions", Number("/status/disruptionsAllowed")),
            AGE,
        ],
    ),
    (
        "networking.k8s.io",
        &[],
        &[c("Pod-Selector", Of(|o| selector_text(&o["spec"]["podSelector"]).into())), AGE],
    ),
    (
        "scheduling.k8s.io",
        &[],
        &[
            n("Value", Number("/value")),
            c("Global-Default", Of(is_global_default)),
            AGE,
            c("PreemptionPolicy", Text("/preemptionPolicy")),
        ],
    ),
    (
        job_rules::GROUP,
        &[],
        &[
            c("Status", Of(job_status)),
            c("Completions", Of(completions)),
            c("Duration", Of(duration)),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        volumes::GROUP,
        &[],
        &[
            c("Provisioner", Text("/provisioner")),
            c("ReclaimPolicy", Text("/reclaimPolicy")),
            c("VolumeBindingMode", Text("/volumeBindingMode")),
            c("AllowVolumeExpansion", Of(growth_allowed)),
            AGE,
        ],
    ),
];

/// The columns of a kind.
pub(crate) fn of(group: &str, kind: &str) -> &'static [ColumnDef] {
    KINDS
        .iter()
        .find(|(known, kinds, _)| *known == group && (kinds.is_empty() || kinds.contains(&kind)))
        .map_or(OTHERS, |(.., columns)| columns)
}

/// Cell of the column `NAME`.
pub(crate) fn name(group: &str, object: &Value) -> String {
    if group == volumes::GROUP { volumes::class_name(object) } else { meta::name(object).to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cells(kind: &str, object: &Value) -> Vec<Value> {
        of("", kind).iter().map(|column| column.cell(object)).collect()
    }

    #[test]
    fn a_pod_shows_its_most_specific_reason() {
        let running = json!({
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
            "status": {"phase": "Running", "containerStatuses": [
                {"ready": true, "restartCount": 0, "state": {"running": {}}},
                {"ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            ]},
        });
        assert_eq!(cells("Pod", &running)[..3], [json!("1/2"), json!("CrashLoopBackOff"), json!("3")]);
        let initializing = json!({
            "spec": {"containers": [{}], "initContainers": [{}, {}]},
            "status": {"phase": "Pending", "initContainerStatuses": [
                {"state": {"terminated": {"exitCode": 0}}}, {"state": {"running": {}}},
            ]},
        });
        assert_eq!(cells("Pod", &initializing)[1], "Init:1/2");
    }

    #[test]
    fn ports_of_a_service() {
        let o = json!({"spec": {"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{"port": 80, "nodePort": 30001, "protocol": "TCP"}]}});
        assert_eq!(cells("Service", &o)[3], "80:30001/TCP");
    }
}
