//! Checks an install strategy against the rules of the API server, before anything is applied, with the field
//! of each error.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::error::RenderError;
use crate::model::Bundle;

/// Rejects an invalid strategy, Deployments of one name, and rules that no API server accepts in a role.
pub(super) fn check(bundle: &Bundle) -> Result<(), RenderError> {
    let invalid = |field: String, text: &str| {
        Err(RenderError::Invalid { bundle: bundle.name().to_owned(), field, text: text.to_owned() })
    };
    let word = bundle.csv_raw.pointer("/spec/install/strategy").and_then(Value::as_str).unwrap_or_default();
    if !matches!(word, "" | "deployment") {
        return invalid(
            "spec.install.strategy".into(),
            &format!("`{word}` is not a known strategy; write `deployment`"),
        );
    }
    let mut names = BTreeSet::new();
    for (index, deployment) in bundle.deployments().iter().enumerate() {
        let name = deployment.get("name").and_then(Value::as_str).unwrap_or_default();
        if !names.insert(name) {
            let text = format!("the name `{name}` is used twice; rename one of the Deployments");
            return invalid(format!("spec.install.spec.deployments[{index}].name"), &text);
        }
    }
    let lists = [("permissions", bundle.permissions()), ("clusterPermissions", bundle.cluster_permissions())];
    for (list, permissions) in lists {
        for (index, permission) in permissions.iter().enumerate() {
            let rules = permission.get("rules").and_then(Value::as_array);
            for (number, rule) in rules.into_iter().flatten().enumerate() {
                if let Some((field, text)) = fault(rule) {
                    let path = format!("spec.install.spec.{list}[{index}].rules[{number}]{field}");
                    return invalid(path, text);
                }
            }
        }
    }
    Ok(())
}

/// Why Kubernetes rejects a rule.
fn fault(rule: &Value) -> Option<(&'static str, &'static str)> {
    let empty = |field: &str| rule.get(field).and_then(Value::as_array).is_none_or(Vec::is_empty);
    if empty("verbs") {
        return Some((".verbs", "it is empty; name at least one verb, or remove the rule"));
    }
    if !empty("nonResourceURLs") {
        let both = !empty("apiGroups") || !empty("resources") || !empty("resourceNames");
        return both.then_some(("", "it has both resources and URLs; split it into two rules"));
    }
    if empty("apiGroups") {
        return Some((".apiGroups", "it is empty; name the API groups (\"\" is the core one)"));
    }
    empty("resources").then_some((".resources", "it is empty; name at least one resource"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bundle(install: &Value) -> Bundle {
        let csv = json!({ "metadata": { "name": "a.v1" }, "spec": { "install": install } });
        Bundle::from_installed(Default::default(), csv, Vec::new())
    }

    fn refused(install: &Value) -> String {
        check(&bundle(install)).unwrap_err().to_string()
    }

    #[test]
    fn a_strategy_without_deployments_is_one() {
        assert!(check(&bundle(&json!({ "strategy": "deployment", "spec": { "deployments": [] } }))).is_ok());
    }

    #[test]
    fn what_no_cluster_takes_is_named_by_field() {
        assert!(refused(&json!({ "strategy": "magic" })).contains("spec.install.strategy: `magic`"));
        let twice = json!({ "spec": { "deployments": [{ "name": "a" }, { "name": "a" }] } });
        assert!(refused(&twice).contains("spec.install.spec.deployments[1].name"));
        let rule = |rule: Value| json!({ "spec": { "clusterPermissions": [{ "serviceAccountName": "sa", "rules": [rule] }] } });
        let place = "spec.install.spec.clusterPermissions[0].rules[0]";
        let no_verb = refused(&rule(json!({ "verbs": [], "apiGroups": [""], "resources": ["pods"] })));
        assert!(no_verb.contains(&format!("{place}.verbs: it is empty")), "{no_verb}");
        // upstream: BadStrategyPermissions
        let both = refused(&rule(json!({ "verbs": ["*"], "resources": ["*"], "nonResourceURLs": ["/osb"] })));
        assert!(both.contains(&format!("{place}: it has both resources and URLs")), "{both}");
        assert!(check(&bundle(&rule(json!({ "verbs": ["get"], "nonResourceURLs": ["/metrics"] })))).is_ok());
    }
}
