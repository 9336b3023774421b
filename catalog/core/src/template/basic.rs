//! `olm.template.basic`

use serde_json::Value;

use super::bundle::{BundleResolver, resolve};
use super::document::{list, schema, text};
use super::error::TemplateError;

/// Every entry stays in its place; a bundle becomes the content of its image.
pub(super) fn render(template: Value, resolver: &dyn BundleResolver) -> Result<Vec<Value>, TemplateError> {
    let entries = list(&template, "entries")?.iter();
    entries
        .map(|entry| {
            if schema(entry) != "olm.bundle" {
                return Ok(entry.clone());
            }
            check(entry)?;
            Ok(resolve(resolver, text(entry, "image"))?.document)
        })
        .collect()
}

pub(super) fn references(template: &Value) -> Vec<String> {
    let entries = list(template, "entries").unwrap_or_default().iter();
    entries
        .filter(|entry| schema(entry) == "olm.bundle")
        .map(|entry| text(entry, "image").to_owned())
        .collect()
}

/// Upstream accepts a name, and then ignores it.
fn check(entry: &Value) -> Result<(), TemplateError> {
    if text(entry, "image").is_empty() {
        return Err(TemplateError::Shape {
            field: "image of an olm.bundle".into(),
            wanted: "an image reference",
        });
    }
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    let more: Vec<&str> = ["package", "properties", "relatedImages"]
        .into_iter()
        .filter(|key| !entry.get(*key).is_none_or(empty))
        .collect();
    if more.is_empty() { Ok(()) } else { Err(TemplateError::UnexpectedFields(more.join(", "))) }
}
