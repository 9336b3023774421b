//! Fields of a document.

use serde_json::Value;

use super::error::TemplateError;

pub(super) fn schema(document: &Value) -> &str {
    text(document, "schema")
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The list in a field; `None` for another type.
pub(super) fn list<'a>(value: &'a Value, key: &'static str) -> Result<&'a [Value], TemplateError> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(TemplateError::Shape { field: key.to_owned(), wanted: "a list" }),
    }
}

/// The values of a document's properties of a type.
pub(super) fn properties<'a>(document: &'a Value, type_: &'static str) -> impl Iterator<Item = &'a Value> {
    let properties = document.get("properties").and_then(Value::as_array).into_iter().flatten();
    properties.filter(move |property| text(property, "type") == type_).filter_map(|p| p.get("value"))
}
