//! Field differences between what is there and what will be there.

use base64::Engine as _;
use serde_json::{Map, Value, json};

use crate::plan::FieldDiff;

/// What stands in place of a secret value.
const MASK: &str = "***";

/// Fields that servers and controllers write: never compared.
const NOISE: &[&str] = &[
    "/status",
    "/metadata/creationTimestamp",
    "/metadata/resourceVersion",
    "/metadata/uid",
    "/metadata/generation",
    "/metadata/managedFields",
    "/metadata/ownerReferences",
    "/metadata/selfLink",
];

/// The fields that change when `new` is applied over `live`, where `previous` is what was applied last: those that `new`
/// sets and that are different, and those that `previous` set and `new` does not. Sorted by path.
pub(crate) fn diff(live: &Value, previous: Option<&Value>, new: &Value) -> Vec<FieldDiff> {
    let mut list = Vec::new();
    let new = normalized(new);
    changed(&mut list, "", Some(live), &new);
    if let Some(previous) = previous {
        dropped(&mut list, "", live, &normalized(previous), &new);
    }
    list.sort_by(|a, b| a.path.cmp(&b.path));
    list
}

/// Replaces the values of a Secret's diff; returns whether there were any.
pub(crate) fn mask(kind: &str, list: &mut [FieldDiff]) -> bool {
    let mut masked = false;
    for field in list.iter_mut().filter(|f| kind == "Secret" && f.path.starts_with("/data")) {
        for value in [&mut field.live, &mut field.new].into_iter().flatten() {
            *value = match &*value {
                Value::Object(map) => {
                    map.keys().map(|k| (k.clone(), json!(MASK))).collect::<Map<_, _>>().into()
                }
                _ => json!(MASK),
            };
            masked = true;
        }
    }
    masked
}

/// `stringData` is another spelling of `data`.
fn normalized(manifest: &Value) -> Value {
    let mut manifest = manifest.clone();
    if manifest["kind"] != "Secret" {
        return manifest;
    }
    let Some(Value::Object(strings)) = manifest.as_object_mut().and_then(|o| o.remove("stringData")) else {
        return manifest;
    };
    for (key, value) in strings {
        let text = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        manifest["data"][key] = json!(text);
    }
    manifest
}

fn changed(list: &mut Vec<FieldDiff>, path: &str, live: Option<&Value>, new: &Value) {
    if NOISE.contains(&path) || (live.is_none() && is_empty(new)) {
        return;
    }
    match (live, new) {
        (Some(Value::Object(live)), Value::Object(new)) => {
            for (key, value) in new {
                changed(list, &join(path, key), live.get(key), value);
            }
        }
        (Some(Value::Array(live)), Value::Array(new)) if live.len() == new.len() => {
            for (i, value) in new.iter().enumerate() {
                changed(list, &format!("{path}/{i}"), live.get(i), value);
            }
        }
        (Some(live), new) if same(live, new) => {}
        (live, new) => {
            list.push(FieldDiff { path: path.to_owned(), live: live.cloned(), new: Some(new.clone()) });
        }
    }
}

/// Fields that were set last time and are not set any more, as long as they are still there.
fn dropped(list: &mut Vec<FieldDiff>, path: &str, live: &Value, previous: &Value, new: &Value) {
    if NOISE.contains(&path) {
        return;
    }
    match (previous, new) {
        (Value::Object(previous), Value::Object(new)) => {
            for (key, old) in previous {
                let path = join(path, key);
                match (live.get(key), new.get(key)) {
                    (Some(live), Some(new)) => dropped(list, &path, live, old, new),
                    (Some(live), None) if !NOISE.contains(&path.as_str()) && !is_empty(live) => {
                        list.push(FieldDiff { path, live: Some(live.clone()), new: None });
                    }
                    _ => {}
                }
            }
        }
        (Value::Array(previous), Value::Array(new)) if previous.len() == new.len() => {
            for (i, (old, new)) in previous.iter().zip(new).enumerate() {
                if let Some(live) = live.get(i) {
                    dropped(list, &format!("{path}/{i}"), live, old, new);
                }
            }
        }
        _ => {}
    }
}

fn join(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
        _ => false,
    }
}

/// Equal, or two spellings of one quantity: the API server writes `1` for `1000m`.
fn same(live: &Value, new: &Value) -> bool {
    if live == new || (is_empty(live) && is_empty(new)) {
        return true;
    }
    let text = |v: &Value| match v {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        _ => None,
    };
    match (text(live), text(new)) {
        (Some(live), Some(new)) => quantity(&live).is_some_and(|q| quantity(&new) == Some(q)),
        _ => false,
    }
}

/// A quantity in thousandths.
fn quantity(text: &str) -> Option<i128> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: i128 = match unit {
        "m" => 1,
        "" => 1_000,
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "G" => 1_000_000_000_000,
        "T" => 1_000_000_000_000_000,
        "Ki" => 1_000 << 10,
        "Mi" => 1_000 << 20,
        "Gi" => 1_000 << 30,
        "Ti" => 1_000 << 40,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() > 15 || fraction.len() > 6 {
        return None;
    }
    let whole: i128 = whole.parse().ok()?;
    let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    (part * factor % scale == 0).then_some(whole * factor + part * factor / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(list: &[FieldDiff]) -> Vec<&str> {
        list.iter().map(|f| f.path.as_str()).collect()
    }

    #[test]
    fn only_fields_that_we_set_count() {
        // given a live object with defaults of the server
        let live = json!({
            "metadata": { "name": "a", "uid": "1", "resourceVersion": "7" },
            "spec": { "replicas": 1, "template": { "spec": { "containers": [
                { "name": "c", "image": "i:1", "terminationMessagePath": "/dev/termination-log",
                  "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } } ] } } },
            "status": { "replicas": 1 }
        });
        let new = json!({
            "metadata": { "name": "a", "creationTimestamp": null },
            "spec": { "replicas": 1, "selector": {}, "template": { "spec": { "containers": [
                { "name": "c", "image": "i:1",
                  "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } } } ] } } },
            "status": {}
        });
        // then nothing differs
        assert_eq!(diff(&live, None, &new), vec![]);
        // and an image that changes is the one difference
        let mut new = new;
        new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
        let list = diff(&live, None, &new);
        assert_eq!(paths(&list), ["/spec/template/spec/containers/0/image"]);
        assert_eq!((list[0].live.clone(), list[0].new.clone()), (Some(json!("i:1")), Some(json!("i:2"))));
    }

    #[test]
    fn a_field_that_we_set_last_time_and_do_not_set_any_more_goes() {
        let live = json!({ "spec": { "a": 1, "b": 2, "defaulted": 3 } });
        let previous = json!({ "spec": { "a": 1, "b": 2 } });
        let new = json!({ "spec": { "a": 1 } });
        let list = diff(&live, Some(&previous), &new);
        assert_eq!(paths(&list), ["/spec/b"]);
        assert_eq!(list[0].new, None);
    }

    #[test]
    fn secrets_are_masked_and_string_data_is_data() {
        let live = json!({ "kind": "Secret", "data": { "password": "b2xk" } });
        let new = json!({ "kind": "Secret", "stringData": { "password": "new" } });
        let mut list = diff(&live, None, &new);
        assert_eq!(paths(&list), ["/data/password"]);
        assert!(mask("Secret", &mut list));
        let text = serde_json::to_string(&list).unwrap();
        assert!(!text.contains("b2xk") && !text.contains("bmV3"), "{text}");
        // and the same value in its other spelling is no difference
        let same = json!({ "kind": "Secret", "stringData": { "password": "old" } });
        assert_eq!(diff(&live, None, &same), vec![]);
    }
}
