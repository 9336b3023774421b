//! Fields of a configuration that its type does not declare.

use serde_json::Value;

use super::fields::elements;
use crate::layout::Layout;

/// The paths in `config` that are not in `declared`, the same object without undeclared fields, in the
/// notation of structured-merge-diff: `.spec.containers[name="a"].foo`.
pub fn undeclared(layout: Layout<'_>, config: &Value, declared: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    collect(layout, config, declared, "", &mut paths);
    paths
}

fn collect(layout: Layout<'_>, config: &Value, declared: &Value, path: &str, paths: &mut Vec<String>) {
    match (config, declared) {
        (Value::Object(config), Value::Object(declared)) => {
            for (key, value) in config {
                let path = format!("{path}.{key}");
                match declared.get(key) {
                    Some(kept) => collect(layout.field(key), value, kept, &path, paths),
                    None => paths.push(path),
                }
            }
        }
        (Value::Array(config), Value::Array(declared)) => {
            let named = elements(layout, config);
            for (index, (value, kept)) in config.iter().zip(declared).enumerate() {
                let mut path = path.to_owned();
                match named.as_ref().and_then(|named| named.get(index)) {
                    Some(element) => element.show(&mut path),
                    None => path.push_str(&format!("[{index}]")),
                }
                collect(layout.item(), value, kept, &path, paths);
            }
        }
        _ => {}
    }
}
