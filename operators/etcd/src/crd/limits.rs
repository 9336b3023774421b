//! Bounds that API servers check on a custom resource, for values that Kubernetes itself checks only when a pod, a claim or a
//! Service is created from them.

use serde_json::{Value, json};

use super::schema::{enumeration, quantity, rule};
use crate::build::pod::RESERVED_VARIABLES;
use crate::names;

/// A DNS label as Services need it (RFC 1035).
const CLUSTER_NAME: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
/// A DNS label (RFC 1123).
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// The longest DNS label.
const MAX_LABEL: usize = 63;
/// A value of a label.
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// An image without tag and digest.
const REPOSITORY: &str = r"^((\[[0-9a-fA-F:]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)(:[0-9]+)?/)?[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*$";
/// Entries of a list or map that a rule in CEL visits.
const MAX_ENTRIES: u32 = 64;
/// The largest id of a user or group.
const MAX_ID: i64 = 2_147_483_647;

/// The rule for the name of a cluster. API servers without ratcheting apply all rules to every update: an object that was stored
/// before the rule existed must still get a status, so an object with a status passes.
pub(super) fn cluster_name() -> (String, String) {
    let max = super::MAX_NAME_LENGTH;
    let message = format!(
        "metadata.name: expected a DNS label of at most {max} characters: lower-case letters, digits and \
         hyphens, starting with a letter and ending with a letter or digit; it is the prefix of the names \
         of Services and pods"
    );
    (name(CLUSTER_NAME, max), message)
}

/// The same for backups and restores.
pub(super) fn object_name() -> (String, String) {
    let message = format!(
        "metadata.name: expected a DNS label of at most {MAX_LABEL} characters: lower-case letters, digits and hyphens, starting \
         and ending with a letter or digit"
    );
    (name(LABEL, MAX_LABEL), message)
}

fn name(pattern: &str, max: usize) -> String {
    format!(
        "has(self.status) || (self.metadata.name.size() <= {max} && self.metadata.name.matches('{pattern}'))"
    )
}

/// A field that names a cluster.
pub(super) fn cluster_reference(field: &mut Value) {
    field["minLength"] = json!(1);
    field["maxLength"] = json!(super::MAX_NAME_LENGTH);
    field["pattern"] = json!(CLUSTER_NAME);
}

/// A field that names a claim of a member.
pub(super) fn claim_reference(field: &mut Value) {
    field["minLength"] = json!(1);
    field["maxLength"] = json!(MAX_LABEL);
    field["pattern"] = json!(CLUSTER_NAME);
}

/// `spec.repository`.
pub(super) fn repository(field: &mut Value) {
    field["pattern"] = json!(REPOSITORY);
}

/// The properties of `spec.pod`.
pub(super) fn pod(pod: &mut Value) {
    for amounts in ["limits", "requests"] {
        let mut amount = quantity("", 0);
        amount.as_object_mut().map(|object| object.remove("description"));
        pod["resources"]["properties"][amounts]["additionalProperties"] = amount;
    }
    environment(&mut pod["etcdEnv"]);
    for map in ["labels", "nodeSelector"] {
        let value = &mut pod[map]["additionalProperties"];
        value["maxLength"] = json!(MAX_LABEL);
        value["pattern"] = json!(LABEL_VALUE);
    }
    pod["labels"]["maxProperties"] = json!(MAX_ENTRIES);
    pod["labels"]["x-kubernetes-validations"] = rule(&[(
        format!(
            "self.all(key, key != '{}' && !key.startsWith('{}'))",
            names::LABEL_APP,
            names::RESERVED_LABEL_PREFIX
        ),
        "spec.pod.labels: `app` and names with prefix `etcd_` are reserved for the operator".into(),
    )]);
    pod["annotations"]["maxProperties"] = json!(MAX_ENTRIES);
    pod["annotations"]["x-kubernetes-validations"] = rule(&[(
        format!("!('{}' in self)", names::ANNOTATION_VERSION),
        format!("spec.pod.annotations: `{}` is reserved for the operator", names::ANNOTATION_VERSION),
    )]);
    scheduling(pod);
    security(&mut pod["securityContext"]["properties"]);
}

fn environment(variables: &mut Value) {
    variables["maxItems"] = json!(MAX_ENTRIES);
    let item = &mut variables["items"];
    item["required"] = json!(["name"]);
    item["properties"]["name"]["minLength"] = json!(1);
    item["properties"]["name"]["maxLength"] = json!(253);
    item["properties"]["name"]["pattern"] = json!("^[^=]+$");
    let reserved: Vec<String> = RESERVED_VARIABLES.iter().map(|name| format!("'{name}'")).collect();
    item["x-kubernetes-validations"] = rule(&[(
        format!("!(self.name in [{}])", reserved.join(", ")),
        "spec.pod.etcdEnv: this variable, or its flag, is set by the operator; remove it".into(),
    )]);
}

fn scheduling(pod: &mut Value) {
    let toleration = &mut pod["tolerations"]["items"]["properties"];
    // Lt and Gt compare numbers, from Kubernetes 1.35 on.
    enumeration(&mut toleration["operator"], &["", "Equal", "Exists", "Lt", "Gt"]);
    enumeration(&mut toleration["effect"], &["", "NoSchedule", "PreferNoSchedule", "NoExecute"]);
    let spread = &mut pod["topologySpreadConstraints"]["items"];
    spread["required"] = json!(["maxSkew", "topologyKey", "whenUnsatisfiable"]);
    spread["properties"]["maxSkew"]["minimum"] = json!(1);
    spread["properties"]["topologyKey"]["minLength"] = json!(1);
    enumeration(&mut spread["properties"]["whenUnsatisfiable"], &["DoNotSchedule", "ScheduleAnyway"]);
    selectors(&mut pod["topologySpreadConstraints"], &["In", "NotIn", "Exists", "DoesNotExist"]);
    let affinity = &mut pod["affinity"]["properties"];
    selectors(&mut affinity["nodeAffinity"], &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
    for kind in ["podAffinity", "podAntiAffinity"] {
        selectors(&mut affinity[kind], &["In", "NotIn", "Exists", "DoesNotExist"]);
    }
}

/// The operators of all selector terms below a schema, and the weights of preferences.
fn selectors(schema: &mut Value, operators: &[&str]) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        if properties.contains_key("key") && properties.contains_key("values") {
            enumeration(&mut properties["operator"], operators);
        }
        if let Some(weight) = properties.get_mut("weight") {
            (weight["minimum"], weight["maximum"]) = (json!(1), json!(100));
        }
        properties.values_mut().for_each(|inner| selectors(inner, operators));
    }
    if let Some(items) = object.get_mut("items") {
        selectors(items, operators);
    }
}

fn security(context: &mut Value) {
    let id = |field: &mut Value| (field["minimum"], field["maximum"]) = (json!(0), json!(MAX_ID));
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        id(&mut context[field]);
    }
    id(&mut context["supplementalGroups"]["items"]);
    enumeration(&mut context["fsGroupChangePolicy"], &["Always", "OnRootMismatch"]);
    enumeration(&mut context["supplementalGroupsPolicy"], &["Merge", "Strict"]);
    for profile in ["seccompProfile", "appArmorProfile"] {
        enumeration(
            &mut context[profile]["properties"]["type"],
            &["RuntimeDefault", "Localhost", "Unconfined"],
        );
    }
}

/// A schedule of cron: five fields; with `seconds` also six or seven, or a nickname such as `@daily`. A pattern checks the
/// form and the numbers of minutes and hours; the operator reads the rest and reports it in the status.
pub(super) fn schedule(field: &mut Value, seconds: bool) {
    let list = |number: &str| {
        let element = format!(r"(\*|\?|{number}(-{number})?)(/[0-9]+)?");
        format!("{element}(,{element})*")
    };
    let (minute, hour) = (list("[0-5]?[0-9]"), list("([01]?[0-9]|2[0-3])"));
    let other = r"[0-9A-Za-z*?,/#+-]+";
    let five = format!(r"{minute}\s+{hour}(\s+{other}){{3}}");
    let pattern = if seconds {
        // In front of the five, seconds have the form of minutes; a year may follow.
        format!(r"^\s*(@[A-Za-z]+|{five}|{minute}\s+{five}(\s+{other})?)?\s*$")
    } else {
        format!(r"^\s*{five}\s*$")
    };
    field["pattern"] = json!(pattern);
    field["maxLength"] = json!(256);
}
