//! Field names as Go's JSON decoder matches them: a key that differs from a field only in case is that field.
//!
//! Upstream decodes templates, file-based catalogs, package manifests and bundle metadata with
//! `encoding/json`, and its own examples of templates use `Schema`, `GenerateMajorChannels`. Kubernetes
//! objects are matched exactly, and so is `ci.yaml`, which upstream's pipeline reads in Python.

use serde_json::{Map, Value};

/// The fields of a map, each with the shape of its value where that has fields of its own.
#[derive(Debug)]
pub struct Shape(pub &'static [(&'static str, Option<&'static Shape>)]);

/// A map has one field in two spellings; upstream rejects it as well, or picks one by the order of the keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{first:?} and {second:?} are one field, expected it once")]
pub struct Ambiguous {
    /// The first spelling.
    pub first: String,
    pub second: String,
}

impl Shape {
    fn field(&self, key: &str) -> Option<&'static (&'static str, Option<&'static Self>)> {
        let exact = self.0.iter().find(|(name, _)| *name == key);
        exact.or_else(|| self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)))
    }
}

/// Renames the keys that differ from a field of the shape only in case; in a list, those of each item.
/// # Errors
/// [`Ambiguous`]
pub fn rename(value: &mut Value, shape: &Shape) -> Result<(), Ambiguous> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| rename(item, shape)),
        Value::Object(map) => {
            rename_keys(map, shape)?;
            let inner = shape.0.iter().filter_map(|(name, shape)| Some((*name, (*shape)?)));
            for (name, shape) in inner {
                if let Some(value) = map.get_mut(name) {
                    rename(value, shape)?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn rename_keys(map: &mut Map<String, Value>, shape: &Shape) -> Result<(), Ambiguous> {
    if map.keys().all(|key| shape.field(key).is_none_or(|(name, _)| name == key)) {
        return Ok(());
    }
    let mut spelled: Vec<(&'static str, String)> = Vec::new();
    for (key, value) in std::mem::take(map) {
        let Some((name, _)) = shape.field(&key) else {
            map.insert(key, value);
            continue;
        };
        if let Some((_, first)) = spelled.iter().find(|(known, _)| known == name) {
            return Err(Ambiguous { first: first.clone(), second: key });
        }
        map.insert((*name).to_owned(), value);
        spelled.push((name, key));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    static INNER: Shape = Shape(&[("image", None)]);
    static OUTER: Shape = Shape(&[("schema", None), ("bundles", Some(&INNER))]);

    #[test]
    fn keys_in_another_case_are_renamed_where_fields_are() {
        let mut value =
            json!({"Schema": "s", "BUNDLES": [{"Image": "i", "Other": 1}, 3], "Labels": {"Image": 1}});
        rename(&mut value, &OUTER).unwrap();
        assert_eq!(
            value,
            json!({"schema": "s", "bundles": [{"image": "i", "Other": 1}, 3], "Labels": {"Image": 1}})
        );
    }

    #[test]
    fn one_field_in_two_spellings_is_refused() {
        let mut value = json!({"schema": "s", "bundles": [{"image": "i", "Image": "j"}]});
        let error = rename(&mut value, &OUTER).unwrap_err().to_string();
        assert_eq!(error, "\"image\" and \"Image\" are one field, expected it once");
    }
}
