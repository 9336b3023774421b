//! JSON patch, RFC 6902.

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use super::PatchError;

/// Kubernetes' limit.
const MAX_OPERATIONS: usize = 10_000;
/// Copies can double an object with every operation; the result must not be larger than a request.
const MAX_NODES: usize = 500_000;

/// Applies a list of operations atomically.
pub fn json_patch(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Patch(operations) = serde_json::from_value(patch.clone())
        .map_err(|error| PatchError::BadRequest(format!("error decoding patch: {error}")))?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut result = target.clone();
    for operation in operations {
        let tests = matches!(operation, PatchOperation::Test(_));
        let grows = matches!(operation, PatchOperation::Copy(_));
        json_patch::patch_unsafe(&mut result, std::slice::from_ref(&operation)).map_err(|error| {
            let text = serde_json::to_string(&operation).unwrap_or_default();
            let text = format!("the server rejected the patch at operation {text}: {}", error.kind);
            if tests { PatchError::TestFailed(text) } else { PatchError::Invalid(text) }
        })?;
        if grows && nodes(&result) > MAX_NODES {
            return Err(PatchError::TooLarge("the result of the JSON patch is too large".to_owned()));
        }
    }
    Ok(result)
}

fn nodes(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(nodes).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(nodes).sum::<usize>(),
        Value::String(text) => 1 + text.len() / 16,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn applies_operations_in_order() {
        let target = json!({"a": {"b": [1, 2]}, "c": "x"});
        let patch = json!([
            {"op": "test", "path": "/c", "value": "x"},
            {"op": "add", "path": "/a/b/-", "value": 3},
            {"op": "replace", "path": "/c", "value": "y"},
            {"op": "remove", "path": "/a/b/0"},
            {"op": "copy", "from": "/c", "path": "/d"},
            {"op": "move", "from": "/d", "path": "/e"},
        ]);
        assert_eq!(json_patch(&target, &patch), Ok(json!({"a": {"b": [2, 3]}, "c": "y", "e": "y"})));
    }

    #[test]
    fn a_failed_test_is_invalid() {
        let error =
            json_patch(&json!({"a": 1}), &json!([{"op": "test", "path": "/a", "value": 2}])).unwrap_err();
        assert_eq!(error.code(), 422);
        let error = json_patch(&json!({}), &json!([{"op": "remove", "path": "/a"}])).unwrap_err();
        assert_eq!(error.code(), 422);
    }

    #[test]
    fn malformed_patches_are_bad_requests() {
        assert_eq!(json_patch(&json!({}), &json!({"op": "add"})).unwrap_err().code(), 400);
        assert_eq!(json_patch(&json!({}), &json!([{"op": "jump", "path": "/a"}])).unwrap_err().code(), 400);
    }

    #[test]
    fn growth_is_limited() {
        let copies: Vec<_> = (0..40).map(|_| json!({"op": "copy", "from": "", "path": "/a/-"})).collect();
        let error = json_patch(&json!({"a": [1]}), &copies.into()).unwrap_err();
        assert_eq!(error.code(), 413);
        let many: Vec<_> = (0..10_001).map(|_| json!({"op": "test", "path": "", "value": {}})).collect();
        assert_eq!(json_patch(&json!({}), &many.into()).unwrap_err().code(), 413);
    }
}
