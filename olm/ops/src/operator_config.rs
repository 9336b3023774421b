//! Settings of an operator's Deployments (`Subscription.spec.config`), written as assignments.

use olm_kube_schema::{
    names::{is_label_value, is_qualified_name},
    quantity::Quantity,
};
use serde_json::{Map, Value, json};

/// Effects of a taint.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Reads assignments: `env.NAME=VALUE`, `resources.requests.NAME=QUANTITY`, `resources.limits.NAME=QUANTITY`,
/// `nodeSelector.LABEL=VALUE`, and `toleration=KEY[=VALUE][:EFFECT]` as in `kubectl taint`. A later assignment
/// of the same setting replaces an earlier one. `None` without assignments.
///
/// # Errors
/// The first invalid assignment, and what is expected.
pub fn parse_config<S: AsRef<str>>(assignments: &[S]) -> Result<Option<Value>, String> {
    let mut config = Map::new();
    for assignment in assignments {
        let assignment = assignment.as_ref();
        // The value may be a credential.
        let (setting, value) = assignment
            .split_once('=')
            .ok_or_else(|| format!("{assignment}: expected SETTING=VALUE, such as env.LOG_LEVEL=debug"))?;
        set(&mut config, setting, value).map_err(|why| format!("{setting}: {why}"))?;
    }
    Ok((!config.is_empty()).then_some(Value::Object(config)))
}

/// The config of an existing Subscription after a request with another one, which replaces the settings that it
/// names.
#[must_use]
pub fn merge_config(existing: Option<Value>, requested: &Value) -> Value {
    let mut config = existing.unwrap_or_else(|| json!({}));
    json_patch::merge(&mut config, requested);
    config
}

fn set(config: &mut Map<String, Value>, setting: &str, value: &str) -> Result<(), String> {
    if setting == "toleration" {
        let toleration = toleration(value)?;
        let list = config.entry("tolerations").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut().filter(|list| !list.contains(&toleration)) {
            list.push(toleration);
        }
        return Ok(());
    }
    let (kind, name) = setting.split_once('.').unwrap_or((setting, ""));
    match kind {
        "env" => {
            if !is_variable(name) {
                return Err("invalid name of an environment variable, expected such as env.LOG_LEVEL".into());
            }
            let variable = json!({ "name": name, "value": value });
            let list = config.entry("env").or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.retain(|other| other["name"] != name);
                list.push(variable);
            }
        }
        "resources" => {
            let (kind, resource) = name.split_once('.').unwrap_or((name, ""));
            if !matches!(kind, "requests" | "limits") || !is_qualified_name(resource) {
                return Err(
                    "unknown setting, expected such as resources.requests.cpu or resources.limits.memory"
                        .into(),
                );
            }
            if value.parse::<Quantity>().is_err() {
                return Err(format!("invalid quantity `{value}`, expected such as 100m or 64Mi"));
            }
            let resources = config.entry("resources").or_insert_with(|| json!({}));
            resources[kind][resource] = value.into();
        }
        "nodeSelector" => {
            if !is_qualified_name(name) || !is_label_value(value) {
                return Err("invalid label, expected such as nodeSelector.kubernetes.io/os=linux".into());
            }
            config.entry("nodeSelector").or_insert_with(|| json!({}))[name] = value.into();
        }
        _ => return Err("unknown setting, expected env, resources, nodeSelector or toleration".into()),
    }
    Ok(())
}

/// `KEY[=VALUE][:EFFECT]`.
fn toleration(text: &str) -> Result<Value, String> {
    let (taint, effect) = match text.rsplit_once(':') {
        Some((taint, effect)) => (taint, Some(effect)),
        None => (text, None),
    };
    let (key, value) = match taint.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (taint, None),
    };
    let valid = is_qualified_name(key)
        && value.is_none_or(is_label_value)
        && effect.is_none_or(|effect| EFFECTS.contains(&effect));
    if !valid {
        return Err(format!(
            "invalid taint `{text}`, expected KEY[=VALUE][:EFFECT], such as dedicated=db:NoSchedule"
        ));
    }
    let mut out = match value {
        Some(value) => json!({ "key": key, "operator": "Equal", "value": value }),
        None => json!({ "key": key, "operator": "Exists" }),
    };
    if let Some(effect) = effect {
        out["effect"] = effect.into();
    }
    Ok(out)
}

/// Names of environment variables: printable ASCII without `=`.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_become_the_config_of_a_subscription() {
        let config = parse_config(&[
            "env.LOG_LEVEL=debug",
            "env.OPTIONS=a=b c",
            "env.LOG_LEVEL=info",
            "resources.requests.cpu=100m",
            "resources.limits.memory=64Mi",
            "nodeSelector.kubernetes.io/os=linux",
            "toleration=dedicated=db:NoSchedule",
            "toleration=spot",
            "toleration=spot",
        ]);
        assert_eq!(
            config.unwrap().unwrap(),
            json!({
                "env": [{"name": "OPTIONS", "value": "a=b c"}, {"name": "LOG_LEVEL", "value": "info"}],
                "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}},
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "tolerations": [
                    {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"},
                    {"key": "spot", "operator": "Exists"}],
            })
        );
        assert_eq!(parse_config::<&str>(&[]), Ok(None));
    }

    #[test]
    fn a_request_replaces_the_settings_that_it_names() {
        let existing =
            json!({ "env": [{ "name": "A", "value": "1" }], "resources": { "limits": { "cpu": "1" } } });
        let requested = parse_config(&["env.B=2", "resources.limits.memory=64Mi"]).unwrap().unwrap();
        assert_eq!(merge_config(None, &requested), requested);
        assert_eq!(
            merge_config(Some(existing), &requested),
            json!({ "env": [{ "name": "B", "value": "2" }],
                "resources": { "limits": { "cpu": "1", "memory": "64Mi" } } })
        );
    }

    #[test]
    fn invalid_assignments_name_the_setting_and_not_the_value() {
        for (assignment, setting) in [
            ("env.=x", "env."),
            ("env.A B=secret", "env.A B"),
            ("env=x", "env"),
            ("resources.cpu=1", "resources.cpu"),
            ("resources.requests.cpu=much", "resources.requests.cpu"),
            ("nodeSelector.a b=c", "nodeSelector.a b"),
            ("nodeSelector.a=b c", "nodeSelector.a"),
            ("toleration=a:Never", "toleration"),
            ("toleration==x", "toleration"),
            ("replicas=2", "replicas"),
        ] {
            let error = parse_config(&[assignment]).unwrap_err();
            assert!(error.starts_with(&format!("{setting}: ")) && error.contains("expected"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(parse_config(&["nothing"]).unwrap_err().starts_with("nothing: expected SETTING=VALUE"));
    }
}
