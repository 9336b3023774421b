//! `Subscription.spec.config`: a user's changes of an operator's Deployments.

use serde_json::{Map, Value};

use super::maps::map_at;

/// A part of the configuration with the wrong shape.
#[derive(Debug)]
pub(crate) struct BadConfig {
    pub field: &'static str,
    pub text: &'static str,
}

/// Merges a configuration into a Deployment, with upstream's rule for each field: `env`, `volumes` and
/// `volumeMounts` replace entries of the same name, `envFrom` and `tolerations` are added once, `resources`
/// and `nodeSelector` replace, `affinity` replaces part by part, `annotations` never overwrite.
pub(crate) fn apply(config: &Value, deployment: &mut Value) -> Result<(), BadConfig> {
    if config.is_null() {
        return Ok(());
    }
    let Some(config) = config.as_object() else {
        return Err(BadConfig { field: "", text: "it is not a map" });
    };

    set_env(deployment, list(config, "env")?);
    let env_from = list(config, "envFrom")?;
    let mounts = list(config, "volumeMounts")?;
    let resources = map(config, "resources")?;
    for container in containers(deployment) {
        append_new(container, "envFrom", env_from);
        replace_by_name(container, "volumeMounts", mounts);
        if let Some(resources) = resources {
            container.insert("resources".into(), resources.clone().into());
        }
    }

    let volumes = list(config, "volumes")?;
    let tolerations = list(config, "tolerations")?;
    let pod = map_at(deployment, &["spec", "template", "spec"]);
    replace_by_name(pod, "volumes", volumes);
    append_new(pod, "tolerations", tolerations);
    if let Some(selector) = map(config, "nodeSelector")? {
        pod.insert("nodeSelector".into(), selector.clone().into());
    }
    if let Some(affinity) = map(config, "affinity")? {
        merge_affinity(pod, affinity);
    }

    if let Some(annotations) = map(config, "annotations")? {
        for path in [&["metadata", "annotations"][..], &["spec", "template", "metadata", "annotations"][..]] {
            let existing = map_at(deployment, path);
            for (key, value) in annotations {
                existing.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    Ok(())
}

/// Sets variables in every container.
pub(crate) fn set_env(deployment: &mut Value, env: &[Value]) {
    for container in containers(deployment) {
        replace_by_name(container, "env", env);
    }
}

fn containers(deployment: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let containers = deployment.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
    containers.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn list<'a>(config: &'a Map<String, Value>, field: &'static str) -> Result<&'a [Value], BadConfig> {
    match config.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) if list.iter().all(Value::is_object) => Ok(list),
        Some(_) => Err(BadConfig { field, text: "it is not a list of maps" }),
    }
}

fn map<'a>(
    config: &'a Map<String, Value>,
    field: &'static str,
) -> Result<Option<&'a Map<String, Value>>, BadConfig> {
    match config.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(_) => Err(BadConfig { field, text: "it is not a map" }),
    }
}

fn list_of<'a>(holder: &'a mut Map<String, Value>, field: &str) -> &'a mut Vec<Value> {
    let list = holder.entry(field).or_insert_with(|| Value::Array(Vec::new()));
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    list.as_array_mut().expect("it was made a list above")
}

fn replace_by_name(holder: &mut Map<String, Value>, field: &str, items: &[Value]) {
    if items.is_empty() {
        return;
    }
    let list = list_of(holder, field);
    for item in items {
        match list.iter_mut().find(|existing| existing.get("name") == item.get("name")) {
            Some(existing) => *existing = item.clone(),
            None => list.push(item.clone()),
        }
    }
}

fn append_new(holder: &mut Map<String, Value>, field: &str, items: &[Value]) {
    if items.is_empty() {
        return;
    }
    let list = list_of(holder, field);
    for item in items {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}

/// `{}` clears the whole; an absent part stays, an empty one is removed, another replaces.
fn merge_affinity(pod: &mut Map<String, Value>, affinity: &Map<String, Value>) {
    if affinity.is_empty() {
        pod.remove("affinity");
        return;
    }
    let existing = pod.entry("affinity").or_insert(Value::Null);
    let existing = map_at(existing, &[]);
    for (part, value) in affinity.iter().filter(|(_, value)| !value.is_null()) {
        if value.as_object().is_some_and(Map::is_empty) {
            existing.remove(part);
        } else {
            existing.insert(part.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Value {
        json!({"spec": {"template": {
            "metadata": {"annotations": {"kept": "theirs"}},
            "spec": {
                "volumes": [{"name": "a", "emptyDir": {}}],
                "affinity": {"nodeAffinity": {"x": 1}, "podAffinity": {"y": 1}},
                "containers": [{"name": "one", "env": [{"name": "A", "value": "1"}], "resources": {"limits": {"cpu": "1"}}}, {"name": "two"}],
            },
        }}})
    }

    #[test]
    fn every_field_by_its_rule() {
        let mut result = deployment();
        let config = json!({
            "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
            "envFrom": [{"secretRef": {"name": "s"}}, {"secretRef": {"name": "s"}}],
            "volumes": [{"name": "a", "secret": {"secretName": "s"}}],
            "volumeMounts": [{"name": "a", "mountPath": "/a"}],
            "tolerations": [{"key": "k"}],
            "resources": {"requests": {"memory": "1Mi"}},
            "nodeSelector": {"zone": "z"},
            "affinity": {"nodeAffinity": {}, "podAntiAffinity": {"z": 1}},
            "annotations": {"kept": "ours", "new": "ours"},
            "selector": {"matchLabels": {}},
        });
        apply(&config, &mut result).unwrap();
        let pod = &result["spec"]["template"]["spec"];
        assert_eq!(
            pod["containers"][0]["env"],
            json!([{"name": "A", "value": "2"}, {"name": "B", "value": "3"}])
        );
        assert_eq!(pod["containers"][1]["envFrom"], json!([{"secretRef": {"name": "s"}}]));
        assert_eq!(pod["containers"][0]["resources"], json!({"requests": {"memory": "1Mi"}}));
        assert_eq!(pod["containers"][1]["volumeMounts"], json!([{"name": "a", "mountPath": "/a"}]));
        assert_eq!(pod["volumes"], json!([{"name": "a", "secret": {"secretName": "s"}}]));
        assert_eq!(pod["tolerations"], json!([{"key": "k"}]));
        assert_eq!(pod["nodeSelector"], json!({"zone": "z"}));
        assert_eq!(pod["affinity"], json!({"podAffinity": {"y": 1}, "podAntiAffinity": {"z": 1}}));
        assert_eq!(
            result["spec"]["template"]["metadata"]["annotations"],
            json!({"kept": "theirs", "new": "ours"})
        );
        assert_eq!(result["metadata"]["annotations"]["new"], "ours");
    }

    #[test]
    fn nothing_changes_nothing_and_empty_affinity_erases() {
        let mut result = deployment();
        apply(&Value::Null, &mut result).unwrap();
        apply(&json!({"env": null, "affinity": null}), &mut result).unwrap();
        assert_eq!(result, deployment());
        apply(&json!({"affinity": {}}), &mut result).unwrap();
        assert_eq!(result.pointer("/spec/template/spec/affinity"), None);
    }

    #[test]
    fn wrong_shapes_are_named() {
        assert_eq!(apply(&json!({"env": {}}), &mut deployment()).unwrap_err().field, "env");
        assert_eq!(apply(&json!({"resources": "1"}), &mut deployment()).unwrap_err().field, "resources");
        assert!(apply(&json!([]), &mut deployment()).is_err());
    }
}
