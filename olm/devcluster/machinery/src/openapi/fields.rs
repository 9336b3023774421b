//! A compact graph of the fields of built-in types with their JSON types.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::builtin::{KINDS, REF_PREFIX, schemas};
use crate::schema::child_path;

/// Allowed values of a field.
#[derive(Debug, Clone, PartialEq)]
enum FieldType {
    Struct(usize),
    List(Box<FieldType>),
    Map(Box<FieldType>),
    String,
    Bytes,
    Time,
    Integer(&'static str),
    Number,
    Boolean,
    IntOrString,
    Any,
}

#[derive(Debug, Default)]
struct Struct {
    name: String,
    fields: HashMap<Box<str>, FieldType>,
}

struct Graph {
    structs: Vec<Struct>,
    roots: HashMap<(&'static str, &'static str, &'static str), usize>,
}

static GRAPH: LazyLock<Graph> = LazyLock::new(Graph::build);

/// Types whose schema is `object` without details: any JSON is allowed.
const FREE: [&str; 7] = [
    "JSON",
    "RawExtension",
    "FieldsV1",
    "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrStringArray",
    "WatchEvent",
];

impl Graph {
    fn build() -> Self {
        let schemas = schemas(KINDS);
        let index: HashMap<&str, usize> =
            schemas.keys().enumerate().map(|(i, name)| (name.as_str(), i)).collect();
        let structs = schemas
            .iter()
            .map(|(name, schema)| {
                let properties = schema.get("properties").and_then(Value::as_object);
                let fields = properties
                    .into_iter()
                    .flatten()
                    .map(|(field, schema)| (field.as_str().into(), shape(schema, &schemas, &index)))
                    .collect();
                Struct { name: go_name(name), fields }
            })
            .collect();
        let roots = KINDS
            .iter()
            .filter_map(|kind| {
                let at = *index.get((kind.schema)().as_str())?;
                Some(((kind.group, kind.version, kind.kind), at))
            })
            .collect();
        Self { structs, roots }
    }

    fn root(&self, group: &str, version: &str, kind: &str) -> Option<FieldType> {
        self.roots.get(&(group, version, kind)).copied().map(FieldType::Struct)
    }
}

fn shape(schema: &Value, schemas: &Map<String, Value>, index: &HashMap<&str, usize>) -> FieldType {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let name = target.trim_start_matches(REF_PREFIX);
        let ty = name.rsplit('.').next().unwrap_or_default();
        if FREE.contains(&ty) {
            return FieldType::Any;
        }
        let Some(target) = schemas.get(name) else { return FieldType::Any };
        // Named scalars (Time, Quantity, IntOrString) are not structs.
        if target.get("properties").is_none() {
            return shape(target, schemas, index);
        }
        return index.get(name).map_or(FieldType::Any, |at| FieldType::Struct(*at));
    }
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return FieldType::IntOrString;
    }
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => match format {
            "byte" => FieldType::Bytes,
            "date-time" => FieldType::Time,
            _ => FieldType::String,
        },
        Some("integer") => FieldType::Integer(if format == "int32" { "int32" } else { "int64" }),
        Some("number") => FieldType::Number,
        Some("boolean") => FieldType::Boolean,
        Some("array") => {
            let items = schema.get("items").map_or(FieldType::Any, |items| shape(items, schemas, index));
            FieldType::List(Box::new(items))
        }
        Some("object") => match schema.get("additionalProperties") {
            Some(values) => FieldType::Map(Box::new(shape(values, schemas, index))),
            None => FieldType::Any,
        },
        _ => FieldType::Any,
    }
}

/// `io.k8s.api.core.v1.PodSpec` as Go names it: `v1.PodSpec`.
fn go_name(name: &str) -> String {
    let mut parts = name.rsplitn(3, '.');
    let (ty, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{version}.{ty}")
}

/// The fields of `object` that its built-in kind does not declare (`spec.template.spec.containers[0].foo`);
/// `None` for a kind that is not built in.
pub(super) fn unknown_fields(group: &str, version: &str, kind: &str, object: &Value) -> Option<Vec<String>> {
    let shape = GRAPH.root(group, version, kind)?;
    let mut paths = Vec::new();
    find_unknown(&shape, object, "", &mut paths);
    Some(paths)
}

fn find_unknown(shape: &FieldType, value: &Value, path: &str, paths: &mut Vec<String>) {
    match (shape, value) {
        (FieldType::Struct(at), Value::Object(map)) => {
            for (key, value) in map {
                match GRAPH.structs[*at].fields.get(key.as_str()) {
                    Some(shape) => find_unknown(shape, value, &child_path(path, key), paths),
                    None => paths.push(child_path(path, key)),
                }
            }
        }
        (FieldType::Map(values), Value::Object(map)) => {
            for (key, value) in map {
                find_unknown(values, value, &child_path(path, key), paths);
            }
        }
        (FieldType::List(items), Value::Array(list)) => {
            for (index, value) in list.iter().enumerate() {
                find_unknown(items, value, &format!("{path}[{index}]"), paths);
            }
        }
        _ => {}
    }
}

/// Removes the fields of `object` that its built-in kind does not declare, and returns their paths
/// (`spec.template.spec.containers[0].foo`). Objects of other kinds are not changed.
pub fn drop_unknown(group: &str, version: &str, kind: &str, object: &mut Value) -> Vec<String> {
    let paths = unknown_fields(group, version, kind, object).unwrap_or_default();
    if !paths.is_empty()
        && let Some(shape) = GRAPH.root(group, version, kind)
    {
        remove_unknown(&shape, object);
    }
    paths
}

fn remove_unknown(shape: &FieldType, value: &mut Value) {
    match (shape, value) {
        (FieldType::Struct(at), Value::Object(map)) => {
            let fields = &GRAPH.structs[*at].fields;
            map.retain(|key, value| match fields.get(key.as_str()) {
                Some(shape) => {
                    remove_unknown(shape, value);
                    true
                }
                None => false,
            });
        }
        (FieldType::Map(values), Value::Object(map)) => {
            map.values_mut().for_each(|value| remove_unknown(values, value))
        }
        (FieldType::List(items), Value::Array(list)) => {
            list.iter_mut().for_each(|value| remove_unknown(items, value));
        }
        _ => {}
    }
}

/// Values of a wrong JSON type, in the wording of Go's decoder (`json: cannot unmarshal string into Go struct
/// field DeploymentSpec.spec.replicas of type int32`); `None` for a kind that is not built in.
pub fn type_errors(group: &str, version: &str, kind: &str, object: &Value) -> Option<Vec<String>> {
    let shape = GRAPH.root(group, version, kind)?;
    let mut errors = Vec::new();
    check_types(&shape, object, "", "", &mut errors);
    Some(errors)
}

fn check_types(shape: &FieldType, value: &Value, owner: &str, path: &str, errors: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    match (shape, value) {
        (FieldType::Any, _)
        | (FieldType::String | FieldType::Bytes | FieldType::Time, Value::String(_))
        | (FieldType::Boolean, Value::Bool(_))
        | (FieldType::Number, Value::Number(_))
        | (FieldType::IntOrString, Value::String(_) | Value::Number(_)) => match (shape, value) {
            (FieldType::Bytes, Value::String(text)) if !is_base64(text) => {
                errors.push(format!("illegal base64 data in field {path}"));
            }
            (FieldType::Time, Value::String(text)) if text.parse::<jiff::Timestamp>().is_err() => {
                errors.push(format!("parsing time {text:?} in field {path}: want RFC 3339"));
            }
            _ => {}
        },
        (FieldType::Integer(ty), Value::Number(number)) => {
            let fits = match *ty {
                "int32" => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
                _ => number.is_i64() || number.is_u64(),
            };
            if !fits {
                errors.push(unmarshal_error(&format!("number {number}"), owner, path, shape));
            }
        }
        (FieldType::Struct(at), Value::Object(map)) => {
            let ty = &GRAPH.structs[*at];
            let name = ty.name.rsplit('.').next().unwrap_or_default();
            for (key, value) in map {
                if let Some(shape) = ty.fields.get(key.as_str()) {
                    check_types(shape, value, name, &child_path(path, key), errors);
                }
            }
        }
        (FieldType::Map(values), Value::Object(map)) => {
            for (key, value) in map {
                check_types(values, value, owner, &child_path(path, key), errors);
            }
        }
        (FieldType::List(items), Value::Array(list)) => {
            // Go's message omits the index of the item.
            for value in list {
                check_types(items, value, owner, path, errors);
            }
        }
        _ => errors.push(unmarshal_error(json_name(value), owner, path, shape)),
    }
}

fn is_base64(text: &str) -> bool {
    use base64::Engine;
    let compact: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    base64::engine::general_purpose::STANDARD.decode(compact).is_ok()
}

fn unmarshal_error(found: &str, owner: &str, path: &str, shape: &FieldType) -> String {
    format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {}", go_type(shape))
}

fn json_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_type(shape: &FieldType) -> String {
    match shape {
        FieldType::Struct(at) => GRAPH.structs[*at].name.clone(),
        FieldType::List(items) => format!("[]{}", go_type(items)),
        FieldType::Map(values) => format!("map[string]{}", go_type(values)),
        FieldType::String => "string".to_owned(),
        FieldType::Bytes => "[]uint8".to_owned(),
        FieldType::Time => "v1.Time".to_owned(),
        FieldType::Integer(name) => (*name).to_owned(),
        FieldType::Number => "float64".to_owned(),
        FieldType::Boolean => "bool".to_owned(),
        FieldType::IntOrString => "intstr.IntOrString".to_owned(),
        FieldType::Any => "interface {}".to_owned(),
    }
}
