//! Checks of labels, quantities and tolerations that a schema cannot express: Kubernetes would reject the pod
//! or claim later, with a message that does not name the field of the EtcdCluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Maximum length of the name in a key and of the value of a label.
const MAX_NAME: usize = 63;
/// Maximum length of the prefix of a key.
const MAX_PREFIX: usize = 253;
/// Maximum size of all annotations of an object.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Labels: keys and values.
pub(super) fn labels(field: &str, labels: &BTreeMap<String, String>, errors: &mut Vec<String>) {
    keys(field, labels, errors);
    for (key, value) in labels {
        if !value.is_empty() && !is_name(value) {
            errors.push(format!(
                "{field}[{key}]: invalid value {value:?}, expected at most {MAX_NAME} letters, digits, '-', '_' or '.', starting and \
                 ending with a letter or digit"
            ));
        }
    }
}

/// Annotations: keys and total size.
pub(super) fn annotations(field: &str, annotations: &BTreeMap<String, String>, errors: &mut Vec<String>) {
    keys(field, annotations, errors);
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > MAX_ANNOTATIONS {
        errors.push(format!("{field}: {size} bytes, expected at most {MAX_ANNOTATIONS}"));
    }
}

fn keys(field: &str, map: &BTreeMap<String, String>, errors: &mut Vec<String>) {
    for key in map.keys().filter(|key| !is_key(key)) {
        errors.push(format!(
            "{field}[{key}]: invalid key, expected a name of at most {MAX_NAME} letters, digits, '-', '_' or '.', starting and ending \
             with a letter or digit, with an optional DNS name and '/' in front of it"
        ));
    }
}

fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

fn is_name(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= MAX_NAME
        && edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= MAX_PREFIX && text.split('.').all(|part| is_dns_label(part, false))
}

/// A DNS label: of RFC 1123, or of RFC 1035 where it has to start with a letter.
pub(super) fn is_dns_label(text: &str, starts_with_letter: bool) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    let starts = if starts_with_letter { first.is_ascii_lowercase() } else { word(*first) };
    starts && word(*last) && bytes.iter().all(|byte| word(*byte) || *byte == b'-')
}

/// Tolerations: combinations that Kubernetes rejects.
pub(super) fn tolerations(field: &str, list: &[Toleration], errors: &mut Vec<String>) {
    for (index, toleration) in list.iter().enumerate() {
        let empty = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
        let operator = toleration.operator.as_deref().unwrap_or_default();
        if operator == "Exists" && !empty(&toleration.value) {
            errors.push(format!("{field}[{index}].value: set with operator Exists, expected none"));
        }
        if operator != "Exists" && empty(&toleration.key) {
            errors.push(format!("{field}[{index}].operator: expected Exists where key is empty"));
        }
        if toleration.toleration_seconds.is_some() && toleration.effect.as_deref() != Some("NoExecute") {
            errors
                .push(format!("{field}[{index}].effect: expected NoExecute where tolerationSeconds is set"));
        }
    }
}

pub(super) fn resources(field: &str, resources: &ResourceRequirements, errors: &mut Vec<String>) {
    let none = BTreeMap::new();
    let (limits, requests) =
        (resources.limits.as_ref().unwrap_or(&none), resources.requests.as_ref().unwrap_or(&none));
    for (list, amounts) in [("limits", limits), ("requests", requests)] {
        for (name, Quantity(text)) in amounts {
            if amount(text).is_none_or(|amount| amount < 0.0) {
                errors.push(format!(
                    "{field}.{list}.{name}: invalid quantity {text:?}, expected one such as 500m or 1Gi that is not negative"
                ));
            }
        }
    }
    for (name, Quantity(request)) in requests {
        let limit = limits.get(name).and_then(|Quantity(limit)| amount(limit));
        if let (Some(limit), Some(asked)) = (limit, amount(request))
            && asked > limit
        {
            errors.push(format!(
                "{field}.requests.{name}: {request} exceeds the limit, expected at most the limit"
            ));
        }
    }
}

pub(super) fn claim(field: &str, claim: &PersistentVolumeClaimSpec, errors: &mut Vec<String>) {
    let size = claim.resources.as_ref().and_then(|r| r.requests.as_ref()?.get("storage"));
    match size {
        None => errors.push(format!("{field}: missing size, expected a quantity such as 8Gi")),
        Some(Quantity(text)) if amount(text).is_none_or(|amount| amount <= 0.0) => {
            errors
                .push(format!("{field}: invalid size {text:?}, expected a quantity above zero such as 8Gi"));
        }
        Some(_) => {}
    }
}

/// A Kubernetes quantity as a number; exact enough to compare with zero and with a limit of the same unit.
pub(crate) fn amount(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if !number.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: f64 = number.parse().ok()?;
    let factor = match unit {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        "Pi" => 1_125_899_906_842_624.0,
        "Ei" => 1_152_921_504_606_846_976.0,
        _ => 10_f64.powi(unit.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{tests::cluster, validate};
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (text, expected) in [
            ("1", Some(1.0)),
            ("-1Gi", Some(-1_073_741_824.0)),
            ("100m", Some(0.1)),
            ("1.5Ki", Some(1536.0)),
            ("1e3", Some(1000.0)),
            ("1E", Some(1e18)),
            ("+.5", Some(0.5)),
            ("", None),
            (".", None),
            ("1Q", None),
            ("--1", None),
            ("Gi", None),
        ] {
            assert_eq!(amount(text), expected, "{text}");
        }
    }

    #[test]
    fn what_kubernetes_would_refuse_is_refused_with_the_field_of_the_cluster() {
        let pod = |field: &str, value: serde_json::Value| json!({ "size": 1, "pod": { field: value } });
        let claim = |size: &str| {
            pod("persistentVolumeClaimSpec", json!({ "resources": { "requests": { "storage": size } } }))
        };
        for (spec, expected) in [
            (pod("labels", json!({ "a b": "c" })), "spec.pod.labels[a b]: invalid key"),
            (pod("labels", json!({ "Shop.example/a": "c" })), "spec.pod.labels[Shop.example/a]: invalid key"),
            (pod("labels", json!({ "a": "b c" })), "spec.pod.labels[a]: invalid value \"b c\""),
            (pod("labels", json!({ "a".repeat(64): "b" })), "invalid key"),
            (pod("nodeSelector", json!({ "/a": "b" })), "spec.pod.nodeSelector[/a]: invalid key"),
            (pod("annotations", json!({ "a/b/c": "d" })), "spec.pod.annotations[a/b/c]: invalid key"),
            (
                pod("tolerations", json!([{ "operator": "Exists", "value": "b" }])),
                "spec.pod.tolerations[0].value",
            ),
            (pod("tolerations", json!([{ "value": "b" }])), "spec.pod.tolerations[0].operator"),
            (
                pod("tolerations", json!([{ "operator": "Exists", "tolerationSeconds": 5 }])),
                "spec.pod.tolerations[0].effect",
            ),
            (
                pod("resources", json!({ "limits": { "cpu": "-1" } })),
                "spec.pod.resources.limits.cpu: invalid quantity \"-1\"",
            ),
            (
                pod("resources", json!({ "limits": { "cpu": 1 }, "requests": { "cpu": "1500m" } })),
                "spec.pod.resources.requests.cpu",
            ),
            (json!({ "size": 1, "storage": { "size": "-1Gi" } }), "spec.storage.size: invalid size \"-1Gi\""),
            (claim("0"), "spec.pod.persistentVolumeClaimSpec.resources.requests.storage: invalid size \"0\""),
            (
                pod("persistentVolumeClaimSpec", json!({})),
                "spec.pod.persistentVolumeClaimSpec.resources.requests.storage: missing size",
            ),
        ] {
            let found = validate(&cluster(spec.clone())).unwrap_err().0;
            assert!(found.iter().any(|error| error.contains(expected)), "{expected} in {found:?} of {spec}");
        }
        for spec in [
            pod("labels", json!({ "app.kubernetes.io/part-of": "shop", "a_b.c": "" })),
            pod(
                "tolerations",
                json!([{ "operator": "Exists" }, { "key": "a", "effect": "NoExecute", "tolerationSeconds": 5 }]),
            ),
            pod("resources", json!({ "limits": { "cpu": 1 }, "requests": { "cpu": "1000m", "memory": 0 } })),
        ] {
            assert!(validate(&cluster(spec.clone())).is_ok(), "{spec}");
        }
    }

    #[test]
    fn a_name_that_is_not_a_dns_label_is_refused() {
        for (name, good) in
            [("dot.name", false), ("1digit", false), ("a-", false), ("", false), ("a-1", true)]
        {
            let mut cluster = cluster(json!({ "size": 1 }));
            cluster.metadata.name = Some(name.into());
            let found = validate(&cluster).err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(found.starts_with("metadata.name: expected a DNS label"), !good, "{name}: {found}");
        }
    }

    #[test]
    fn reserved_variables_of_stored_objects_are_dropped_with_a_note() {
        let env = json!([{ "name": "ETCD_INITIAL_CLUSTER_STATE", "value": "new" }, { "name": "ETCD_HEARTBEAT_INTERVAL", "value": "9" }]);
        let valid = validate(&cluster(pod_with(&env))).unwrap();
        let names: Vec<&str> = valid.pod.env.iter().map(|variable| variable.name.as_str()).collect();
        assert_eq!(names, ["ETCD_HEARTBEAT_INTERVAL"]);
        assert_eq!(
            valid.notes,
            [
                "spec.pod.etcdEnv: ETCD_INITIAL_CLUSTER_STATE has no effect, it is set by the operator; remove it"
            ]
        );
    }

    #[test]
    fn a_variable_for_a_flag_that_the_spec_sets_is_refused() {
        // etcd does not start with a flag and the variable of the same setting.
        let mut spec = pod_with(&json!([{ "name": "ETCD_METRICS", "value": "basic" }]));
        assert!(validate(&cluster(spec.clone())).is_ok());
        spec["metrics"] = json!({ "extensive": true });
        let found = validate(&cluster(spec)).unwrap_err().to_string();
        assert!(found.starts_with("spec.pod.etcdEnv: ETCD_METRICS"), "{found}");
        let mut spec = pod_with(&json!([{ "name": "ETCD_AUTO_COMPACTION_RETENTION", "value": "1" }]));
        assert!(validate(&cluster(spec.clone())).is_ok());
        spec["maintenance"] = json!({ "autoCompaction": { "retention": "5m" } });
        let found = validate(&cluster(spec)).unwrap_err().to_string();
        assert!(found.starts_with("spec.pod.etcdEnv: ETCD_AUTO_COMPACTION_RETENTION"), "{found}");
    }

    fn pod_with(env: &serde_json::Value) -> serde_json::Value {
        json!({ "size": 1, "pod": { "etcdEnv": env } })
    }
}
