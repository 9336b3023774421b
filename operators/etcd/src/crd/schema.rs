//! The CustomResourceDefinition as API servers accept it: the output of schemars without details of Rust, plus the
//! rules that a type cannot express.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use super::{EtcdCluster, limits};

/// Pattern of a non-negative Kubernetes quantity.
const QUANTITY: &str = r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The definition of `etcdclusters.etcd.database.coreos.com`.
///
/// # Panics
/// Never: the definition is made from constants, and a test makes it.
#[must_use]
pub fn crd() -> CustomResourceDefinition {
    finish(EtcdCluster::crd(), rules)
}

/// Converts kube's definition to one that API servers accept; `rules` adds rules that types cannot express.
pub(super) fn finish(
    crd: CustomResourceDefinition,
    rules: impl FnOnce(&mut Value),
) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(crd).expect("a CRD made by kube serializes");
    let schema = &mut value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    simplify(schema, 0);
    rules(schema);
    serde_json::from_value(value).expect("a CRD stays one when keywords of its schema are changed")
}

fn rules(schema: &mut Value) {
    schema["required"] = json!(["spec"]);
    schema["x-kubernetes-validations"] = rule(&[limits::cluster_name()]);
    let spec = &mut schema["properties"]["spec"];
    // TLS is part of the arguments of a pod: it cannot be added or removed while members run.
    spec["x-kubernetes-validations"] = rule(&[
        (has_same("self", "oldSelf", "TLS"), "spec.TLS cannot be added or removed after creation".into()),
        (
            "!has(self.auth) || has(self.TLS)".into(),
            "spec.auth: requires spec.TLS, because passwords are not sent unencrypted".into(),
        ),
    ]);
    spec["required"] = json!(["size"]);
    spec["properties"]["version"]["pattern"] = json!(r"^v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$");
    spec["properties"]["repository"]["minLength"] = json!(1);
    limits::repository(&mut spec["properties"]["repository"]);
    limits::pod(&mut spec["properties"]["pod"]["properties"]);
    let defragmentation = &mut spec["properties"]["maintenance"]["properties"]["defragmentation"];
    limits::schedule(&mut defragmentation["properties"]["schedule"], false);
    let storage = &mut spec["properties"]["storage"];
    storage["properties"]["size"] = quantity("Size of each volume. Default: 8Gi.", 1);
    enumeration(&mut storage["properties"]["mode"], &["Volume", "Pod"]);
    enumeration(&mut storage["properties"]["retentionPolicy"], &["Delete", "Retain"]);
    storage["x-kubernetes-validations"] = rule(&[(
        "!has(self.mode) || self.mode != 'Pod' || (!has(self.size) && !has(self.storageClassName))".into(),
        "spec.storage: `size` and `storageClassName` conflict with mode `Pod`".into(),
    )]);
    let tls = &mut spec["properties"]["TLS"];
    tls["x-kubernetes-validations"] = rule(&[
        (
            "!(has(self.static) && has(self.auto))".into(),
            "spec.TLS: `static` and `auto` are mutually exclusive".into(),
        ),
        (
            has_same("self", "oldSelf", "auto"),
            "spec.TLS.auto cannot be added or removed after creation".into(),
        ),
    ]);
    let static_ = &mut tls["properties"]["static"];
    let server = |of: &str| {
        format!("has({of}.member) && has({of}.member.serverSecret) && {of}.member.serverSecret != ''")
    };
    let operator = |of: &str| format!("has({of}.operatorSecret) && {of}.operatorSecret != ''");
    let peer =
        |of: &str| format!("has({of}.member) && has({of}.member.peerSecret) && {of}.member.peerSecret != ''");
    static_["x-kubernetes-validations"] = rule(&[
        (
            format!("({}) == ({})", server("self"), operator("self")),
            "spec.TLS.static: `member.serverSecret` and `operatorSecret` must be set together".into(),
        ),
        (
            format!("({}) == ({})", server("self"), server("oldSelf")),
            "spec.TLS.static.member.serverSecret cannot be added or removed after creation".into(),
        ),
        (
            format!("({}) == ({})", peer("self"), peer("oldSelf")),
            "spec.TLS.static.member.peerSecret cannot be added or removed after creation".into(),
        ),
    ]);
    let conditions = &mut schema["properties"]["status"]["properties"]["conditions"];
    conditions["x-kubernetes-list-type"] = json!("map");
    conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    conditions["items"]["required"] = json!(["type", "status"]);
}

/// CEL rules, each with its error message.
pub(super) fn rule(rules: &[(String, String)]) -> Value {
    rules.iter().map(|(rule, message)| json!({ "rule": rule, "message": message })).collect()
}

/// An enum of strings; the output of schemars for it is not structural.
pub(super) fn enumeration(schema: &mut Value, words: &[&str]) {
    let mut new = json!({ "type": "string", "enum": words });
    if let Value::String(description) = schema["description"].take() {
        new["description"] = description.into();
    }
    *schema = new;
}

fn has_same(new: &str, old: &str, field: &str) -> String {
    format!("has({new}.{field}) == has({old}.{field})")
}

/// A Kubernetes quantity: a number or a string.
/// `minimum` bounds numbers; the pattern bounds texts.
pub(super) fn quantity(description: &str, minimum: u32) -> Value {
    json!({
        "minimum": minimum,
        "description": description,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": true,
    })
}

/// An object that is passed through.
pub(super) fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// `depth` counts properties from the top: the Kubernetes types inside lose their long descriptions.
pub(super) fn simplify(schema: &mut Value, depth: usize) {
    let Some(object) = schema.as_object_mut() else { return };
    for word in ["default", "title", "nullable"] {
        object.remove(word);
    }
    object.remove("required");
    drop_unknown_format(object);
    collapse_nullable(object);
    if depth > 3 {
        object.remove("description");
    } else if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(|inner| simplify(inner, depth + 1));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            simplify(inner, depth + 1);
        }
    }
}

/// schemars writes Rust's integer formats; API servers support only these.
fn drop_unknown_format(object: &mut Map<String, Value>) {
    let known = ["int32", "int64", "float", "double", "date-time", "byte"];
    if object.get("format").and_then(Value::as_str).is_some_and(|format| !known.contains(&format)) {
        object.remove("format");
    }
}

/// `anyOf: [X, null]` only means that X is optional.
fn collapse_nullable(object: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = object.remove("anyOf") else { return };
    let null = |branch: &Value| {
        branch["type"] == "null"
            || branch["enum"] == json!([null])
            || branch.get("nullable") == Some(&json!(true))
    };
    for branch in branches.into_iter().filter(|branch| !null(branch)) {
        for (key, value) in branch.as_object().cloned().unwrap_or_default() {
            object.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn schema() -> Value {
        serde_json::to_value(crd()).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
    }

    /// A structural schema has a type (or preserves unknown fields, or is int-or-string) at every level.
    pub(in crate::crd) fn assert_structural(schema: &Value, path: &str) {
        let ok = schema["type"].is_string()
            || schema["x-kubernetes-int-or-string"] == true
            || schema["x-kubernetes-preserve-unknown-fields"] == true;
        assert!(ok, "{path} has no type: {schema}");
        for word in ["$ref", "oneOf", "default", "title"] {
            assert!(schema.get(word).is_none(), "{path} has {word}");
        }
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            assert_structural(inner, &format!("{path}.{name}"));
        }
        for key in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get(key) {
                assert_structural(inner, &format!("{path}.{key}"));
            }
        }
    }

    #[test]
    fn the_schema_is_structural() {
        assert_structural(&schema(), "");
    }

    #[test]
    fn size_and_name_have_bounds() {
        let schema = schema();
        let size = &schema["properties"]["spec"]["properties"]["size"];
        assert_eq!((size["minimum"].as_f64(), size["maximum"].as_f64()), (Some(1.0), Some(7.0)));
        let rule = schema["x-kubernetes-validations"][0]["rule"].as_str().unwrap();
        assert!(rule.contains("self.metadata.name.size() <= 52"), "{rule}");
    }

    #[test]
    fn the_odd_names_of_upstream_are_kept() {
        let schema = schema();
        let spec = &schema["properties"]["spec"]["properties"];
        for name in ["size", "repository", "version", "paused", "pod", "TLS"] {
            assert!(spec[name].is_object(), "{name}");
        }
        for name in [
            "labels",
            "annotations",
            "nodeSelector",
            "affinity",
            "antiAffinity",
            "resources",
            "tolerations",
            "etcdEnv",
            "persistentVolumeClaimSpec",
            "busyboxImage",
            "securityContext",
            "DNSTimeoutInSecond",
            "ClusterDomain",
        ] {
            assert!(spec["pod"]["properties"][name].is_object(), "pod.{name}");
        }
        assert!(
            spec["TLS"]["properties"]["static"]["properties"]["member"]["properties"]["peerSecret"]
                .is_object()
        );
        assert!(schema["properties"]["status"]["properties"]["clusterID"].is_object());
    }
}
