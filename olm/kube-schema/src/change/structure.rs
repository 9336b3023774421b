//! Compares two schemas.

mod limits;
mod logic;

use serde_json::{Map, Value};

use super::collect::{Collector, listed, plain};
use super::{ChangeCode, Severity};
use crate::schema::MAX_DEPTH;

use ChangeCode::*;
use Severity::{Breaking, Careful, Safe};

/// A schema, and whether its definition preserves fields that it does not name.
pub(super) struct Side<'a> {
    pub schema: &'a Value,
    pub preserves_all: bool,
}

/// Effects of the schema `new` on objects of the schema `old`.
pub(super) fn compare(old: &Side<'_>, new: &Side<'_>, out: &mut Collector) {
    let mut walk = Walk { preserves: (old.preserves_all, new.preserves_all), validated: Vec::new(), more: 0 };
    walk.node(&Place { path: "", required: true, depth: 0 }, old.schema, new.schema, out);
    walk.finish(out);
}

/// The path of a schema in the objects.
struct Place<'a> {
    path: &'a str,
    required: bool,
    depth: usize,
}

/// The type of a value, without its limits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape<'a> {
    Any,
    IntOrString,
    Type(&'a str),
}

impl<'a> Shape<'a> {
    fn of(schema: &'a Map<String, Value>) -> Self {
        match schema.get("type").and_then(Value::as_str) {
            _ if is_set(schema, "x-kubernetes-int-or-string") => Self::IntOrString,
            Some(name) if !name.is_empty() => Self::Type(name),
            // A schema with properties means an object; schemas that are not structural omit the type.
            _ if schema.contains_key("properties") => Self::Type("object"),
            _ => Self::Any,
        }
    }

    fn name(self) -> &'a str {
        match self {
            Self::Any => "any",
            Self::IntOrString => "int-or-string",
            Self::Type(name) => name,
        }
    }

    /// Whether every value of this shape is one of the other.
    fn fits(self, other: Self) -> bool {
        self == other
            || matches!(
                (self, other),
                (_, Self::Any)
                    | (Self::Type("integer"), Self::Type("number"))
                    | (Self::Type("integer" | "string"), Self::IntOrString)
            )
    }
}

fn is_set(schema: &Map<String, Value>, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

fn text<'a>(schema: &'a Map<String, Value>, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(schema: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn names<'a>(schema: &'a Map<String, Value>, key: &str) -> Vec<&'a str> {
    list(schema, key).iter().filter_map(Value::as_str).collect()
}

/// `.key`, or `['a.b']` where the key is not an identifier.
fn join(path: &str, key: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    if !key.is_empty() && key.chars().all(is_plain) {
        format!("{path}.{key}")
    } else {
        format!("{path}['{key}']")
    }
}

/// The schema of `additionalProperties`; `true` accepts any value.
fn additional(schema: &Map<String, Value>) -> Option<&Value> {
    schema.get("additionalProperties").filter(|value| value.is_object() || **value == Value::Bool(true))
}

fn properties(schema: &Map<String, Value>) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object).filter(|properties| !properties.is_empty())
}

struct Walk {
    /// Whether the old and the new definition preserve all unknown fields.
    preserves: (bool, bool),
    /// Fields that were unknown and preserved only because the old definition preserves everything. They are
    /// unlikely to be in use, so one finding lists them together.
    validated: Vec<String>,
    /// Number of further ones.
    more: usize,
}

/// Limit of the fields that one finding lists.
const MOST_TOGETHER: usize = 10;

impl Walk {
    fn finish(self, out: &mut Collector) {
        if self.validated.is_empty() {
            return;
        }
        let text = "fields that were kept without a look are validated from now on";
        let more = (self.more > 0).then(|| format!("{} more", self.more));
        out.add_with(
            FieldsValidated,
            Careful,
            "",
            text,
            None,
            Some(listed(self.validated.into_iter().chain(more))),
        );
    }

    fn node(&mut self, place: &Place<'_>, old: &Value, new: &Value, out: &mut Collector) {
        let empty = Map::new();
        // `additionalProperties: true` and values that are not a schema place no constraint.
        let old = old.as_object().unwrap_or(&empty);
        let new = new.as_object().unwrap_or(&empty);
        if old == new {
            return;
        }
        let path = place.path;
        if place.depth > MAX_DEPTH {
            let text = format!("schemas are compared {MAX_DEPTH} levels deep; below there are differences");
            return out.add(NotCompared, Breaking, path, text);
        }
        if !self.shape(path, old, new, out) {
            return;
        }
        if is_set(old, "nullable") && !is_set(new, "nullable") {
            out.add(NullableRemoved, Breaking, path, "objects that have null here are refused");
        }
        self.default(place, old, new, out);
        self.embedded(path, old, new, out);
        limits::compare(path, old, new, out);
        logic::compare(path, old, new, out);
        self.required(path, old, new, out);
        self.fields(place, old, new, out);
        self.items(place, old, new, out);
    }

    /// Whether the types allow a comparison of the contents.
    fn shape(
        &self,
        path: &str,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        out: &mut Collector,
    ) -> bool {
        let (before, after) = (Shape::of(old), Shape::of(new));
        if before.fits(after) {
            return true;
        }
        let mut add = |code, severity, text: String| {
            out.add_with(code, severity, path, text, Some(before.name().into()), Some(after.name().into()));
        };
        match before {
            // The root is an object also without a type.
            Shape::Any if path.is_empty() => return true,
            Shape::Any => {
                add(TypeChanged, Careful, format!("only values of type {} are accepted", after.name()));
                return true;
            }
            Shape::IntOrString => {
                add(
                    IntOrStringRemoved,
                    Breaking,
                    format!("only values of type {} are accepted", after.name()),
                );
            }
            Shape::Type(_) => {
                let text =
                    format!("values of type {} are refused, and clients read the field wrong", before.name());
                add(TypeChanged, Breaking, text);
            }
        }
        false
    }

    fn default(
        &self,
        place: &Place<'_>,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        out: &mut Collector,
    ) {
        let (before, after) = (old.get("default"), new.get("default"));
        let (code, severity, text) = match (before, after) {
            (None, Some(_)) => {
                (DefaultAdded, Careful, "objects that leave it out get a value, as if they had asked for it")
            }
            (Some(before), Some(after)) if !limits::same(before, after) => {
                (DefaultChanged, Careful, "objects that leave it out get another value than before")
            }
            (Some(_), None) if place.required => {
                (DefaultRemoved, Breaking, "it is required, and requests that leave it out are refused")
            }
            (Some(_), None) => (DefaultRemoved, Careful, "objects that leave it out no longer get a value"),
            _ => return,
        };
        out.add_with(code, severity, place.path, text, before.map(plain), after.map(plain));
    }

    fn embedded(&self, path: &str, old: &Map<String, Value>, new: &Map<String, Value>, out: &mut Collector) {
        const KEY: &str = "x-kubernetes-embedded-resource";
        match (is_set(old, KEY), is_set(new, KEY)) {
            (false, true) => {
                let text = "values without apiVersion and kind are refused";
                out.add(EmbeddedResourceChanged, Breaking, path, text);
            }
            (true, false) => {
                let kept = self.preserves.1 || is_set(new, "x-kubernetes-preserve-unknown-fields");
                let (severity, text) = match kept {
                    true => (Careful, "apiVersion, kind and metadata of the value are no longer validated"),
                    false => (
                        Breaking,
                        "apiVersion, kind and metadata of the value are dropped unless the schema names them",
                    ),
                };
                out.add(EmbeddedResourceChanged, severity, path, text);
            }
            _ => {}
        }
    }

    fn required(&self, path: &str, old: &Map<String, Value>, new: &Map<String, Value>, out: &mut Collector) {
        let before = names(old, "required");
        for name in names(new, "required") {
            let is_implicit = path.is_empty() && matches!(name, "apiVersion" | "kind" | "metadata");
            let filled_in = properties(new)
                .and_then(|properties| properties.get(name))
                .is_some_and(|schema| schema.get("default").is_some_and(|default| !default.is_null()));
            if !before.contains(&name) && !is_implicit && !filled_in {
                let text = "it must be set: objects without it are refused";
                out.add(RequiredAdded, Breaking, &join(path, name), text);
            }
        }
    }

    fn fields(
        &mut self,
        place: &Place<'_>,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        out: &mut Collector,
    ) {
        const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
        let path = place.path;
        let keeps_old = self.preserves.0 || is_set(old, PRESERVE);
        let keeps_new = self.preserves.1 || is_set(new, PRESERVE);
        if is_set(old, PRESERVE) && !keeps_new && additional(new).is_none() {
            let text = "fields that the schema does not name were kept and are dropped from now on";
            out.add(UnknownFieldsPruned, Breaking, path, text);
        }
        let (old_fields, new_fields) = (properties(old), properties(new));
        let (old_values, new_values) = (additional(old), additional(new));
        if let (Some(_), None, Some(_)) = (old_fields, old_values, new_values) {
            let text = "the named fields became keys of a map; clients see another structure";
            out.add(FieldsToMap, Careful, path, text);
        }
        if let (Some(values), None) = (old_values, new_values) {
            if keeps_new {
                // The keys stay; the named ones must now match their schema.
                for (name, schema) in new_fields.into_iter().flatten() {
                    self.field(place, name, values, schema, new, out);
                }
            } else {
                let (kept, text) = match new_fields {
                    Some(fields) => (listed(fields.keys()), "keys other than the named fields are dropped"),
                    None => (String::new(), "all keys are dropped"),
                };
                out.add_with(MapToFields, Breaking, path, text, Some("any key".into()), Some(kept));
            }
        }
        if let (Some(values), Some(next)) = (old_values, new_values) {
            let path = format!("{path}.*");
            self.node(&Place { path: &path, required: false, depth: place.depth + 1 }, values, next, out);
        }
        for (name, schema) in old_fields.into_iter().flatten() {
            match new_fields.and_then(|fields| fields.get(name)).or(new_values) {
                Some(next) => self.field(place, name, schema, next, new, out),
                None if keeps_new => {}
                None => {
                    let text = "the field is gone: what objects have in it is dropped";
                    let before = Shape::of(schema.as_object().unwrap_or(&Map::new())).name().to_owned();
                    out.add_with(PropertyRemoved, Breaking, &join(path, name), text, Some(before), None);
                }
            }
        }
        if keeps_old && old_values.is_none() {
            let before = |name: &str| old_fields.is_some_and(|fields| fields.contains_key(name));
            let implied = |name: &str| path.is_empty() && matches!(name, "apiVersion" | "kind" | "metadata");
            let restricts = |schema: &Value| schema.as_object().is_some_and(|schema| !schema.is_empty());
            let others = new_values.filter(|schema| restricts(schema)).map(|_| "*");
            let named: Vec<&str> = new_fields
                .into_iter()
                .flatten()
                .map(|(name, _)| name.as_str())
                .filter(|name| !before(name) && !implied(name))
                .chain(others)
                .collect();
            if !is_set(old, PRESERVE) {
                for name in named {
                    if self.validated.len() < MOST_TOGETHER {
                        let field = if name == "*" { format!("{path}.*") } else { join(path, name) };
                        self.validated.push(field);
                    } else {
                        self.more += 1;
                    }
                }
            } else if !named.is_empty() {
                let text = "fields that were kept without a look are validated from now on";
                out.add_with(FieldsValidated, Careful, path, text, None, Some(listed(&named)));
            }
        }
    }

    fn field(
        &mut self,
        place: &Place<'_>,
        name: &str,
        old: &Value,
        new: &Value,
        parent: &Map<String, Value>,
        out: &mut Collector,
    ) {
        let required = names(parent, "required").contains(&name);
        let path = join(place.path, name);
        self.node(&Place { path: &path, required, depth: place.depth + 1 }, old, new, out);
    }

    fn items(
        &mut self,
        place: &Place<'_>,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        out: &mut Collector,
    ) {
        if let (Some(old), Some(new)) = (old.get("items"), new.get("items")) {
            let path = format!("{}[]", place.path);
            self.node(&Place { path: &path, required: false, depth: place.depth + 1 }, old, new, out);
        }
        self.list_type(place.path, old, new, out);
        let map_type = |schema| match text(schema, "x-kubernetes-map-type") {
            "" => "granular",
            other => other,
        };
        let (before, after) = (map_type(old), map_type(new));
        if before != after {
            let text = "changes of several writers to it are merged in another way";
            out.add_with(MapTypeChanged, Safe, place.path, text, Some(before.into()), Some(after.into()));
        }
    }

    fn list_type(&self, path: &str, old: &Map<String, Value>, new: &Map<String, Value>, out: &mut Collector) {
        let shown = |schema| {
            let keys = names(schema, "x-kubernetes-list-map-keys");
            match text(schema, "x-kubernetes-list-type") {
                "" => "atomic".to_owned(),
                "map" => format!("map by {}", listed(keys)),
                other => other.to_owned(),
            }
        };
        let (before, after) = (shown(old), shown(new));
        if before == after {
            return;
        }
        let (severity, text) = match text(new, "x-kubernetes-list-type") {
            "set" => (Breaking, "lists that have an item twice are refused".to_owned()),
            "map" => {
                let keys = listed(names(new, "x-kubernetes-list-map-keys"));
                (Breaking, format!("lists that have two items with the same {keys} are refused"))
            }
            _ => (Careful, "changes of several writers to it are merged in another way".to_owned()),
        };
        out.add_with(ListTypeChanged, severity, path, text, Some(before), Some(after));
    }
}
