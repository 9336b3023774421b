//! Accessors for manifests.

use serde_json::Value;

/// The text at a pointer; empty when there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a pointer; empty when there is none.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The texts of the list at a pointer.
pub(crate) fn strings(value: &Value, pointer: &str) -> Vec<String> {
    list(value, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The resource name of a kind, as Kubernetes derives it: correct for every kind allowed in a bundle.
pub(crate) fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if lower.ends_with('s') => format!("{lower}es"),
        None => format!("{lower}s"),
    }
}

pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}

/// The first few items of a list: `a, b, c and 4 more`.
pub(crate) fn some_of(items: &[String], most: usize) -> String {
    let shown = items.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    match items.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Whether a label selector matches labels. An absent or empty selector matches all.
pub(crate) fn selects(selector: Option<&Value>, labels: Option<&Value>) -> bool {
    let Some(selector) = selector else { return true };
    let get = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
    let equal = selector.get("matchLabels").and_then(Value::as_object);
    let equal = equal.into_iter().flatten().all(|(key, value)| get(key) == value.as_str());
    equal
        && list(selector, "/matchExpressions").iter().all(|expression| {
            let value = get(text(expression, "/key"));
            let values = list(expression, "/values");
            let among = |v: &str| values.iter().any(|one| one.as_str() == Some(v));
            match text(expression, "/operator") {
                "In" => value.is_some_and(among),
                "NotIn" => !value.is_some_and(among),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plurals_of_the_kinds_of_bundles() {
        let plurals =
            ["NetworkPolicy", "PriorityClass", "ConsoleCLIDownload", "PodDisruptionBudget"].map(plural);
        assert_eq!(
            plurals,
            ["networkpolicies", "priorityclasses", "consoleclidownloads", "poddisruptionbudgets"]
        );
    }

    #[test]
    fn selectors() {
        let labels = json!({ "a": "1" });
        let matches = |selector: Value| selects(Some(&selector), Some(&labels));
        assert!(selects(None, None) && matches(json!({})));
        assert!(
            matches(json!({ "matchLabels": { "a": "1" } }))
                && !matches(json!({ "matchLabels": { "b": "1" } }))
        );
        let expression = |operator: &str, values: Value| json!({ "matchExpressions": [{ "key": "a", "operator": operator, "values": values }] });
        assert!(matches(expression("In", json!(["1"]))) && !matches(expression("NotIn", json!(["1"]))));
        assert!(matches(expression("Exists", json!([]))) && !matches(expression("DoesNotExist", json!([]))));
        // an unknown operator matches nothing
        assert!(!matches(expression("Like", json!(["1"]))));
    }

    #[test]
    fn long_lists_are_cut() {
        let items: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!((some_of(&items, 3), some_of(&items, 2)), ("a, b, c".into(), "a, b and 1 more".into()));
    }
}
