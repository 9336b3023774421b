//! Digests over content: independent of the order of keys and lists of objects.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Feeds a value with its keys sorted.
fn feed(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            hasher.update(b"{");
            for key in keys {
                hasher.update(Value::String(key.clone()).to_string());
                hasher.update(b":");
                feed(hasher, &map[key]);
                hasher.update(b",");
            }
            hasher.update(b"}");
        }
        Value::Array(list) => {
            hasher.update(b"[");
            for item in list {
                feed(hasher, item);
                hasher.update(b",");
            }
            hasher.update(b"]");
        }
        other => hasher.update(other.to_string()),
    }
}

/// `sha256:...` of values that are in a fixed order already.
pub(crate) fn digest<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let mut hasher = Sha256::new();
    for value in values {
        feed(&mut hasher, value);
        hasher.update(b"\n");
    }
    let hex: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
