//! LimitRanges: defaults for the containers of a pod, and amounts outside of the limits.

use olm_kube_schema::quantity::Quantity;
use serde_json::{Map, Value};

use super::quota::{Amounts, pod_amounts};

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The limits of one type, such as `Container`.
fn limits_of<'a>(range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let limits = range.pointer("/spec/limits").and_then(Value::as_array);
    limits.into_iter().flatten().filter(move |limit| text(limit, "type") == kind)
}

fn amounts(limit: &Value, key: &str) -> Amounts {
    let map = limit.get(key).and_then(Value::as_object);
    let read = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    map.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), read(value)?))).collect()
}

/// Defaults of a container: limits and requests.
fn defaults(limit: &Value) -> (Map<String, Value>, Map<String, Value>) {
    let map = |key: &str| limit.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    let or = |mut first: Map<String, Value>, second: Map<String, Value>| {
        for (name, value) in second {
            first.entry(name).or_insert(value);
        }
        first
    };
    // The API's defaulting: a maximum is the default limit, and that the default request.
    let limits = or(map("default"), map("max"));
    let requests = or(or(map("defaultRequest"), limits.clone()), map("min"));
    (limits, requests)
}

/// Sets the defaults of containers.
pub fn fill_in(range: &Value, pod: &mut Value) {
    for limit in limits_of(range, "Container") {
        let (limits, requests) = defaults(limit);
        let Some(spec) = pod.get_mut("spec") else { return };
        for key in ["containers", "initContainers"] {
            for container in spec.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
                let Some(container) = container.as_object_mut() else { continue };
                let resources = container.entry("resources").or_insert_with(|| Value::Object(Map::new()));
                let Some(resources) = resources.as_object_mut() else { continue };
                // An explicit limit is the default of the request.
                let explicit =
                    resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
                for (kind, values) in [("limits", &limits), ("requests", &explicit), ("requests", &requests)]
                {
                    if values.is_empty() {
                        continue;
                    }
                    let slot = resources.entry(kind).or_insert_with(|| Value::Object(Map::new()));
                    let Some(slot) = slot.as_object_mut() else { continue };
                    for (name, value) in values {
                        if !slot.contains_key(name) {
                            slot.insert(name.clone(), value.clone());
                        }
                    }
                }
            }
        }
    }
}

/// The reasons why a range rejects a pod, in Kubernetes' wording.
#[must_use]
pub fn refusals(range: &Value, pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for limit in limits_of(range, "Container") {
        for key in ["containers", "initContainers"] {
            let containers = pod.pointer(&format!("/spec/{key}")).and_then(Value::as_array);
            for container in containers.into_iter().flatten() {
                let resources = container.get("resources").unwrap_or(&Value::Null);
                bounds(
                    limit,
                    "Container",
                    &amounts(resources, "requests"),
                    &amounts(resources, "limits"),
                    &mut found,
                );
            }
        }
    }
    for limit in limits_of(range, "Pod") {
        bounds(limit, "Pod", &pod_amounts(pod, "requests"), &pod_amounts(pod, "limits"), &mut found);
    }
    found
}

/// The reasons why a range rejects a claim.
#[must_use]
pub fn claim_refusals(range: &Value, claim: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let requests = amounts(claim.pointer("/spec/resources").unwrap_or(&Value::Null), "requests");
    for limit in limits_of(range, "PersistentVolumeClaim") {
        for (name, least) in amounts(limit, "min") {
            least_of(&name, least, requests.get(&name), None, "PersistentVolumeClaim", &mut found);
        }
        for (name, most) in amounts(limit, "max") {
            if let Some(requested) = requests.get(&name).filter(|requested| requested.compare(most).is_gt()) {
                found.push(format!(
                    "maximum {name} usage per PersistentVolumeClaim is {most}, but request is {requested}"
                ));
            }
        }
    }
    found
}

fn bounds(limit: &Value, kind: &str, requests: &Amounts, limits: &Amounts, found: &mut Vec<String>) {
    for (name, least) in amounts(limit, "min") {
        least_of(&name, least, requests.get(&name), limits.get(&name), kind, found);
    }
    for (name, most) in amounts(limit, "max") {
        let usage = format!("maximum {name} usage per {kind} is {most}");
        match (limits.get(&name), requests.get(&name)) {
            (None, _) => found.push(format!("{usage}.  No limit is specified")),
            (Some(requested), _) if requested.compare(most).is_gt() => {
                found.push(format!("{usage}, but limit is {requested}"))
            }
            (_, Some(requested)) if requested.compare(most).is_gt() => {
                found.push(format!("{usage}, but request is {requested}"))
            }
            _ => {}
        }
    }
    for (name, most) in amounts(limit, "maxLimitRequestRatio") {
        let usage = format!("{name} max limit to request ratio per {kind} is {most}");
        match (requests.get(&name).filter(|requested| requested.sign() > 0), limits.get(&name)) {
            (None, _) => found.push(format!("{usage}, but no request is specified or request is 0")),
            (_, None) => found.push(format!("{usage}, but no limit is specified")),
            (Some(requested), Some(limit)) => {
                let ratio = limit.as_float() / requested.as_float();
                if ratio > most.as_float() {
                    found.push(format!("{usage}, but provided ratio is {ratio:.6}"));
                }
            }
        }
    }
}

fn least_of(
    name: &str,
    least: Quantity,
    requested: Option<&Quantity>,
    limit: Option<&Quantity>,
    kind: &str,
    found: &mut Vec<String>,
) {
    let usage = format!("minimum {name} usage per {kind} is {least}");
    match (requested, limit) {
        (None, _) => found.push(format!("{usage}.  No request is specified")),
        (Some(requested), _) if requested.compare(least).is_lt() => {
            found.push(format!("{usage}, but request is {requested}"))
        }
        (_, Some(limit)) if limit.compare(least).is_lt() => {
            found.push(format!("{usage}, but limit is {limit}"))
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(limit: Value) -> Value {
        json!({ "spec": { "limits": [limit] } })
    }

    fn pod(resources: Value) -> Value {
        json!({ "spec": { "containers": [{ "name": "c", "resources": resources }] } })
    }

    #[test]
    fn defaults_are_set() {
        let range = range(
            json!({ "type": "Container", "default": { "cpu": "500m" }, "defaultRequest": { "cpu": "100m" },
            "max": { "memory": "1Gi" } }),
        );
        let mut plain = pod(json!({}));
        fill_in(&range, &mut plain);
        assert_eq!(
            plain["spec"]["containers"][0]["resources"],
            json!({ "limits": { "cpu": "500m", "memory": "1Gi" }, "requests": { "cpu": "100m", "memory": "1Gi" } })
        );
        // an explicit limit is the default of the request
        let mut explicit = pod(json!({ "limits": { "cpu": "2" } }));
        fill_in(&range, &mut explicit);
        assert_eq!(explicit["spec"]["containers"][0]["resources"]["requests"]["cpu"], "2");
        assert_eq!(explicit["spec"]["containers"][0]["resources"]["limits"]["cpu"], "2");
    }

    #[test]
    fn bounds_are_enforced() {
        let range = range(json!({ "type": "Container", "min": { "cpu": "200m" }, "max": { "cpu": "1" },
            "maxLimitRequestRatio": { "cpu": "2" } }));
        assert_eq!(
            refusals(&range, &pod(json!({ "requests": { "cpu": "500m" }, "limits": { "cpu": "1" } }))),
            [""; 0]
        );
        assert_eq!(
            refusals(&range, &pod(json!({ "requests": { "cpu": "100m" }, "limits": { "cpu": "2" } }))),
            [
                "minimum cpu usage per Container is 200m, but request is 100m",
                "maximum cpu usage per Container is 1, but limit is 2",
                "cpu max limit to request ratio per Container is 2, but provided ratio is 20.000000",
            ]
        );
        assert_eq!(
            refusals(&range, &pod(json!({})))[1],
            "maximum cpu usage per Container is 1.  No limit is specified"
        );
    }

    #[test]
    fn claims_have_a_size() {
        let range = range(
            json!({ "type": "PersistentVolumeClaim", "min": { "storage": "1Gi" }, "max": { "storage": "2Gi" } }),
        );
        let claim = |size: &str| json!({ "spec": { "resources": { "requests": { "storage": size } } } });
        assert_eq!(claim_refusals(&range, &claim("1Gi")), [""; 0]);
        assert_eq!(
            claim_refusals(&range, &claim("3Gi")),
            ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]
        );
        assert_eq!(claim_refusals(&range, &claim("1Mi")).len(), 1);
    }
}
