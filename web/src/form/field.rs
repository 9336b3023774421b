//! Selection of the fields of a form.

use olm_api::csv::SpecDescriptor;
use serde_json::Value;

use super::Descriptor;
use crate::{dynamic::at_path, links::clean};

/// Below this depth, a sub-document is edited as YAML.
const DEPTH: usize = 4;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    /// JSON pointer into the object: name of the input, and position of errors.
    pub(crate) pointer: String,
    pub(crate) label: String,
    pub(crate) help: String,
    pub(crate) required: bool,
    /// Default of the API server.
    pub(crate) default: Option<Value>,
    pub(crate) widget: Widget,
    pub(crate) advanced: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Widget {
    Text {
        pattern: Option<String>,
    },
    Password,
    Number {
        integer: bool,
        min: Option<f64>,
        max: Option<f64>,
    },
    Switch,
    Select(Vec<String>),
    /// Limits and requests of cpu and memory.
    Resources,
    /// One item per line.
    List,
    /// One `key=value` per line.
    Map,
    Group(Vec<Field>),
    /// YAML, for any other schema.
    Yaml,
}

impl Field {
    /// The part of an `id` attribute that is specific to this field.
    pub(crate) fn id(&self) -> String {
        id(&self.pointer)
    }

    /// All fields with a value below this one, itself included.
    pub(crate) fn leaves(&self) -> Vec<&Self> {
        match &self.widget {
            Widget::Group(fields) => fields.iter().flat_map(Self::leaves).collect(),
            _ => vec![self],
        }
    }
}

pub(crate) fn id(pointer: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("f{}", pointer.chars().map(safe).collect::<String>())
}

/// The fields of `spec`, most important first; empty without a schema for it.
pub(crate) fn fields(schema: &Value, descriptors: &[SpecDescriptor], example: &Value) -> Vec<Field> {
    let Some(spec) = schema.pointer("/properties/spec") else { return Vec::new() };
    let descriptors: Vec<(String, &SpecDescriptor)> =
        descriptors.iter().map(|d| (format!("/spec/{}", d.path.replace('.', "/")), d)).collect();
    let example = example.get("spec").unwrap_or(&Value::Null);
    properties(spec, "/spec", &descriptors, example, 0)
}

type Descriptors<'a> = [(String, &'a SpecDescriptor)];

fn properties(
    schema: &Value,
    at: &str,
    descriptors: &Descriptors<'_>,
    example: &Value,
    depth: usize,
) -> Vec<Field> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut ranked = Vec::new();
    for (name, schema) in properties {
        let pointer = format!("{at}/{}", escape(name));
        let described = descriptors.iter().position(|(path, _)| *path == pointer);
        let descriptor = described.map(|at| descriptors[at].1);
        let x = descriptor.map(|d| Descriptor::parse(&d.x_descriptors)).unwrap_or_default();
        if x.hidden {
            continue;
        }
        let is_required = required.contains(&name.as_str());
        let sample = at_path(example, name);
        let widget = widget(schema, &pointer, &x, descriptors, sample.unwrap_or(&Value::Null), depth);
        // Fields of the example are shown. Of the rest, single fields with a descriptor, but not groups: a
        // short form is filled in faster.
        let is_group = matches!(&widget, Widget::Group(_) | Widget::Resources | Widget::Yaml);
        let shown = is_required || sample.is_some() || (descriptor.is_some() && !is_group);
        let field = Field {
            label: label(descriptor.and_then(|d| d.display_name.as_deref()), name),
            help: help(descriptor.and_then(|d| d.description.as_deref()), schema),
            required: is_required,
            default: schema.get("default").cloned(),
            advanced: x.advanced || !shown,
            widget,
            pointer,
        };
        // Order: required and described, required, described, the rest; then the author's order, then by
        // name.
        let rank = (!is_required, described.is_none(), described.unwrap_or(usize::MAX), name.clone());
        ranked.push((rank, field));
    }
    ranked.sort_by(|a, b| a.0.cmp(&b.0));
    ranked.into_iter().map(|(_, field)| field).collect()
}

fn widget(
    schema: &Value,
    pointer: &str,
    x: &Descriptor,
    descriptors: &Descriptors<'_>,
    example: &Value,
    depth: usize,
) -> Widget {
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_true = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
    if is_true("x-kubernetes-int-or-string") {
        return Widget::Text { pattern: None };
    }
    let texts = |values: &Value| -> Option<Vec<String>> {
        values.as_array()?.iter().map(|v| v.as_str().map(str::to_owned)).collect()
    };
    match kind {
        "string" => {
            if let Some(options) = schema.get("enum").and_then(texts) {
                // An author may offer fewer values than the schema accepts.
                let offered =
                    !x.options.is_empty() && x.options.iter().all(|option| options.contains(option));
                return Widget::Select(if offered { x.options.clone() } else { options });
            }
            if !x.options.is_empty() {
                return Widget::Select(x.options.clone());
            }
            if x.pull_policy {
                return Widget::Select(["Always", "IfNotPresent", "Never"].map(str::to_owned).into());
            }
            if x.password || schema.get("format").and_then(Value::as_str) == Some("password") {
                return Widget::Password;
            }
            Widget::Text { pattern: schema.get("pattern").and_then(Value::as_str).map(str::to_owned) }
        }
        "integer" | "number" => Widget::Number {
            integer: kind == "integer",
            min: schema.get("minimum").and_then(Value::as_f64).or(x.pod_count.then_some(0.0)),
            max: schema.get("maximum").and_then(Value::as_f64),
        },
        "boolean" => Widget::Switch,
        "array" if schema.pointer("/items/type").and_then(Value::as_str) == Some("string") => Widget::List,
        "object" if x.resources || is_resources(schema) => Widget::Resources,
        "object"
            if schema.pointer("/additionalProperties/type").and_then(Value::as_str) == Some("string") =>
        {
            Widget::Map
        }
        "object" if depth < DEPTH && schema.get("properties").is_some() => {
            let inner = properties(schema, pointer, descriptors, example, depth + 1);
            if inner.is_empty() { Widget::Yaml } else { Widget::Group(inner) }
        }
        _ => Widget::Yaml,
    }
}

/// Resource requirements are recognized by their shape.
fn is_resources(schema: &Value) -> bool {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return false };
    properties.contains_key("limits")
        && properties.contains_key("requests")
        && properties.keys().all(|key| matches!(key.as_str(), "limits" | "requests" | "claims"))
}

fn label(given: Option<&str>, name: &str) -> String {
    match given.map(str::trim).filter(|g| !g.is_empty()) {
        Some(given) => clean(given),
        None => label_from(&clean(name)),
    }
}

/// `storageClassName` becomes `Storage class name`; abbreviations are retained.
pub(crate) fn label_from(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, c) in chars.iter().enumerate() {
        let word_starts = i > 0
            && c.is_uppercase()
            && (chars[i - 1].is_lowercase() || chars.get(i + 1).is_some_and(|next| next.is_lowercase()));
        if word_starts {
            out.push(' ');
        }
        if i == 0 {
            out.extend(c.to_uppercase());
        } else if word_starts && chars.get(i + 1).is_none_or(|next| next.is_lowercase()) {
            out.extend(c.to_lowercase());
        } else {
            out.push(*c);
        }
    }
    out
}

fn help(given: Option<&str>, schema: &Value) -> String {
    let text =
        given.filter(|g| !g.trim().is_empty()).or_else(|| schema.get("description").and_then(Value::as_str));
    let text = clean(text.unwrap_or_default().trim());
    match text.char_indices().nth(400) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// A key, escaped for a JSON pointer.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields_become_words() {
        assert_eq!(label_from("storageClassName"), "Storage class name");
        assert_eq!(label_from("size"), "Size");
        assert_eq!(label_from("clientTLSSecret"), "Client TLS secret");
        assert_eq!(label_from("enableTLS"), "Enable TLS");
    }
}
