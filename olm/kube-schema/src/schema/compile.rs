//! Compiles `openAPIV3Schema` to [`Node`]s, and enforces the rules of structural schemas.

mod limits;
mod lists;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{Additional, MAX_DEPTH, Node, Type, child_path, node::Rules, validate, walk};
use crate::cel::{self, Cache, Rule};
use crate::field_error::FieldError;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The position of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Item,
    /// Below allOf, anyOf, oneOf or not: value validations only.
    Logic,
}

/// A keyword. As in the API server, null counts as absent.
fn get<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|value| !value.is_null())
}

/// The notations of an int-or-string in value validations: the only place where these may carry types
/// (`isIntOrStringAnyOfPattern` and `isIntOrStringAllOfPattern` of the API server).
#[derive(Clone, Copy, PartialEq, Eq)]
enum IntOrStringPattern {
    None,
    /// `anyOf: [{type: integer}, {type: string}]`.
    AnyOf,
    /// That `anyOf` in the first schema of `allOf`.
    AllOf,
}

impl IntOrStringPattern {
    fn of(schema: &Map<String, Value>) -> Self {
        let matches =
            |any_of: Option<&Value>| any_of == Some(&json!([{"type": "integer"}, {"type": "string"}]));
        if matches(schema.get("anyOf")) {
            Self::AnyOf
        } else if matches(
            schema.get("allOf").and_then(|list| list.get(0)).and_then(|first| first.get("anyOf")),
        ) {
            Self::AllOf
        } else {
            Self::None
        }
    }
}

struct Compiler {
    errors: Vec<FieldError>,
    expressions: Cache,
    /// Patterns that compiled: schemas repeat them at many places.
    patterns: HashSet<String>,
}

pub(super) fn compile(schema: &Value, path: &str) -> Result<Node, Vec<FieldError>> {
    let mut compiler = Compiler { errors: Vec::new(), expressions: Cache::new(), patterns: HashSet::new() };
    let root = compiler.node(schema, path, Place::Root, 0);
    if compiler.errors.is_empty() {
        compiler.errors.extend(cel::check_rules(&root, path, None));
    }
    if compiler.errors.is_empty() {
        compiler.defaults(&root, path);
    }
    if compiler.errors.is_empty() { Ok(root) } else { Err(compiler.errors) }
}

impl Compiler {
    fn node(&mut self, schema: &Value, path: &str, place: Place, depth: usize) -> Node {
        let Some(map) = schema.as_object() else {
            self.errors.push(FieldError::invalid(path, schema.clone(), "must be a schema object"));
            return Node::default();
        };
        if depth > MAX_DEPTH {
            let detail = format!("schemas nested more than {MAX_DEPTH} levels deep are not supported");
            self.errors.push(FieldError::forbidden(path, detail));
            return Node::default();
        }
        let mut node = Node {
            int_or_string: self.flag(map, "x-kubernetes-int-or-string", path),
            preserve_unknown: self.flag(map, "x-kubernetes-preserve-unknown-fields", path),
            embedded: self.flag(map, "x-kubernetes-embedded-resource", path),
            nullable: self.flag(map, "nullable", path),
            default: get(map, "default").cloned(),
            ..Node::default()
        };
        self.forbidden_keywords(map, path, place);
        self.ty(map, &mut node, path, place);
        node.cel = Rule::read(map, path, &mut self.expressions, &mut self.errors);
        self.object(map, &mut node, path, place, depth);
        self.array(map, &mut node, path, place, depth);
        let mut rules = self.rules(map, path, depth);
        if place != Place::Logic {
            let pattern = IntOrStringPattern::of(map);
            self.logic(&rules, (place == Place::Root).then_some(&node), path, path, pattern);
            match pattern {
                // The type already validates this.
                IntOrStringPattern::AnyOf if node.int_or_string => rules.any_of.clear(),
                IntOrStringPattern::AllOf if node.int_or_string => drop(rules.all_of.remove(0)),
                _ => {}
            }
        }
        node.rules = Some(Box::new(rules));
        node
    }

    fn flag(&mut self, map: &Map<String, Value>, key: &str, path: &str) -> bool {
        match get(map, key) {
            None => false,
            Some(Value::Bool(value)) => {
                if key == "x-kubernetes-preserve-unknown-fields" && !value {
                    self.errors.push(FieldError::invalid(
                        child_path(path, key),
                        false,
                        "must be true or undefined",
                    ));
                }
                *value
            }
            Some(other) => {
                let detail = "must be true or false";
                self.errors.push(FieldError::invalid(child_path(path, key), other.clone(), detail));
                false
            }
        }
    }

    /// Keywords that no structural schema has, and those that are not allowed in value validations.
    fn forbidden_keywords(&mut self, map: &Map<String, Value>, path: &str, place: Place) {
        for key in ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id"] {
            if get(map, key).is_some() {
                self.errors
                    .push(FieldError::forbidden(child_path(path, key), format!("{key} is not supported")));
            }
        }
        if get(map, "uniqueItems") == Some(&Value::Bool(true)) {
            self.errors.push(FieldError::forbidden(
                child_path(path, "uniqueItems"),
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ));
        }
        if place != Place::Logic {
            return;
        }
        for (key, detail) in [
            ("default", "must be undefined to be structural"),
            ("additionalProperties", "must be undefined to be structural"),
            ("nullable", "must be false to be structural"),
            ("title", "must be empty to be structural"),
            ("description", "must be empty to be structural"),
            ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
            ("x-kubernetes-embedded-resource", "must be false to be structural"),
            ("x-kubernetes-int-or-string", "must be false to be structural"),
            ("x-kubernetes-list-type", "must be undefined to be structural"),
            ("x-kubernetes-list-map-keys", "must be empty to be structural"),
            ("x-kubernetes-map-type", "must be undefined to be structural"),
        ] {
            if get(map, key).is_some_and(|v| *v != Value::Bool(false)) {
                self.errors.push(FieldError::forbidden(child_path(path, key), detail));
            }
        }
    }

    fn ty(&mut self, map: &Map<String, Value>, node: &mut Node, path: &str, place: Place) {
        let type_path = child_path(path, "type");
        let text = match get(map, "type") {
            None => "",
            Some(Value::String(text)) => text.as_str(),
            Some(other) => {
                self.errors.push(FieldError::invalid(type_path, other.clone(), "must be a string"));
                return;
            }
        };
        if !text.is_empty() {
            match Type::parse(text) {
                Some(ty) => node.ty = Some(ty),
                None => self.errors.push(FieldError::not_supported(type_path.clone(), text, TYPES)),
            }
        }
        if place == Place::Logic {
            return;
        }
        // As `validateStructuralInvariants` of the API server: a type next to x-kubernetes-int-or-string is
        // allowed, and has no effect.
        if node.embedded && text != "object" {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            self.errors.push(match text {
                "" => FieldError::required(type_path.clone(), detail),
                _ => FieldError::invalid(type_path.clone(), text, detail),
            });
        } else if text.is_empty() && !node.int_or_string && !node.preserve_unknown {
            let detail = match place {
                Place::Root => "must not be empty at the root",
                Place::Item => "must not be empty for specified array items",
                Place::Field | Place::Logic => "must not be empty for specified object fields",
            };
            self.errors.push(FieldError::required(type_path.clone(), detail));
        }
        if place == Place::Root && !text.is_empty() && text != "object" {
            self.errors.push(FieldError::invalid(type_path, text, "must be object at the root"));
        }
        for (flag, key) in [
            (node.preserve_unknown, "x-kubernetes-preserve-unknown-fields"),
            (node.embedded, "x-kubernetes-embedded-resource"),
        ] {
            if node.int_or_string && flag {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                self.errors.push(FieldError::invalid(child_path(path, key), true, detail));
            }
        }
    }

    fn object(&mut self, map: &Map<String, Value>, node: &mut Node, path: &str, place: Place, depth: usize) {
        if let Some(properties) = get(map, "properties") {
            let inner = if place == Place::Logic { Place::Logic } else { Place::Field };
            match properties.as_object() {
                Some(properties) => {
                    for (key, schema) in properties {
                        let key_path = format!("{path}.properties[{key}]");
                        if place == Place::Root || (node.embedded && place != Place::Logic) {
                            self.implicit(key, schema, &key_path, place == Place::Root);
                        }
                        let child = self.node(schema, &key_path, inner, depth + 1);
                        node.properties.insert(key.clone(), child);
                    }
                }
                None => self.errors.push(FieldError::invalid(
                    child_path(path, "properties"),
                    properties.clone(),
                    "must be an object",
                )),
            }
        }
        let additional_path = child_path(path, "additionalProperties");
        match get(map, "additionalProperties") {
            _ if place == Place::Logic => {}
            None => {}
            Some(_) if place == Place::Root => {
                self.errors.push(FieldError::forbidden(additional_path, "must not be used at the root"));
            }
            Some(_) if node.embedded => {
                let detail = "must not be used if x-kubernetes-embedded-resource is set";
                self.errors.push(FieldError::forbidden(additional_path, detail));
            }
            Some(_) if !node.properties.is_empty() => {
                let detail = "additionalProperties and properties are mutual exclusive";
                self.errors.push(FieldError::forbidden(additional_path, detail));
            }
            Some(Value::Bool(_)) => node.additional = Additional::Any,
            Some(schema) => {
                let child = self.node(schema, &additional_path, Place::Field, depth + 1);
                node.additional = Additional::Values(Box::new(child));
            }
        }
        if node.embedded && !node.preserve_unknown && node.properties.is_empty() {
            self.errors.push(FieldError::required(
                child_path(path, "properties"),
                "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            ));
        }
        let map_type = get(map, "x-kubernetes-map-type").and_then(Value::as_str);
        if map_type.is_some() && place != Place::Logic && node.ty != Some(Type::Object) {
            let (type_path, detail) =
                (child_path(path, "type"), "must be object if x-kubernetes-map-type is specified");
            self.errors.push(match node.ty {
                None => FieldError::required(type_path, detail),
                Some(ty) => FieldError::invalid(type_path, ty.name(), detail),
            });
        }
        match map_type {
            Some("atomic") => node.atomic_map = true,
            None | Some("granular") => {}
            Some(other) => self.errors.push(FieldError::not_supported(
                child_path(path, "x-kubernetes-map-type"),
                other,
                ["atomic", "granular"],
            )),
        }
    }

    /// Fields of every object: `apiVersion` and `kind` are strings, `metadata` is an object, of which a root
    /// may restrict only the names.
    fn implicit(&mut self, key: &str, schema: &Value, path: &str, is_root: bool) {
        let Some(schema) = schema.as_object() else { return };
        let text = get(schema, "type").and_then(Value::as_str).unwrap_or("");
        let expected = match key {
            "apiVersion" | "kind" => "string",
            "metadata" => "object",
            _ => return,
        };
        if text != expected {
            let detail = format!("must be {expected}");
            self.errors.push(FieldError::invalid(child_path(path, "type"), text, detail));
        }
        if key != "metadata" || !is_root {
            return;
        }
        let is_name = |key: &String| key == "name" || key == "generateName";
        let names_only =
            get(schema, "properties").and_then(Value::as_object).is_none_or(|p| p.keys().all(is_name));
        let rest = |(key, value): (&String, &Value)| {
            !value.is_null()
                && *value != Value::Bool(false)
                && !["type", "properties", "default"].contains(&key.as_str())
        };
        if !names_only || schema.iter().any(rest) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.errors.push(FieldError::forbidden(path, detail));
        }
    }

    fn array(&mut self, map: &Map<String, Value>, node: &mut Node, path: &str, place: Place, depth: usize) {
        let items_path = child_path(path, "items");
        match get(map, "items") {
            Some(Value::Array(list)) => {
                let detail = "items must be a schema object and not an array";
                self.errors.push(FieldError::forbidden(items_path, detail));
                node.items = list.first().map(|_| Box::default());
            }
            Some(schema) => {
                let inner = if place == Place::Logic { Place::Logic } else { Place::Item };
                node.items = Some(Box::new(self.node(schema, &items_path, inner, depth + 1)));
            }
            None if node.ty == Some(Type::Array) && place != Place::Logic => {
                self.errors.push(FieldError::required(items_path, "must be specified"));
            }
            None => {}
        }
        self.list_type(map, node, path);
    }

    /// Value validations carry no types, and those of the root mention only fields of the structure around
    /// them (`validateStructuralCompleteness` checks no other). `outer` is that structure, at `path`; `logic`
    /// is the path of the validations.
    fn logic(
        &mut self,
        rules: &Rules,
        outer: Option<&Node>,
        path: &str,
        logic: &str,
        pattern: IntOrStringPattern,
    ) {
        for (keyword, list) in [("allOf", &rules.all_of), ("anyOf", &rules.any_of), ("oneOf", &rules.one_of)]
        {
            if keyword == "anyOf" && pattern == IntOrStringPattern::AnyOf {
                continue;
            }
            for (index, inner) in list.iter().enumerate() {
                let below = keyword == "allOf" && index == 0 && pattern == IntOrStringPattern::AllOf;
                let pattern = if below { IntOrStringPattern::AnyOf } else { IntOrStringPattern::None };
                self.nested(inner, outer, path, &format!("{logic}.{keyword}[{index}]"), pattern);
            }
        }
        if let Some(inner) = &rules.not {
            self.nested(inner, outer, path, &child_path(logic, "not"), IntOrStringPattern::None);
        }
    }

    fn nested(
        &mut self,
        inner: &Node,
        outer: Option<&Node>,
        path: &str,
        logic: &str,
        pattern: IntOrStringPattern,
    ) {
        if inner.ty.is_some() {
            let detail = "must be empty to be structural";
            self.errors.push(FieldError::forbidden(child_path(logic, "type"), detail));
        }
        if let Some(rules) = &inner.rules {
            self.logic(rules, outer, path, logic, pattern);
        }
        let properties = inner.properties.iter().map(|(key, child)| {
            (child, outer.map(|outer| outer.properties.get(key)), format!("properties[{key}]"))
        });
        let items = inner.items.as_deref();
        let items = items.map(|child| (child, outer.map(|outer| outer.items.as_deref()), "items".to_owned()));
        for (child, outer, place) in properties.chain(items) {
            let (path, logic) = (child_path(path, &place), child_path(logic, &place));
            if matches!(outer, Some(None)) {
                let detail = format!("because it is defined in {logic}");
                self.errors.push(FieldError::required(&*path, detail));
            }
            self.nested(child, outer.flatten(), &path, &logic, IntOrStringPattern::None);
        }
    }

    /// Defaults must themselves be valid and free of unknown fields.
    fn defaults(&mut self, node: &Node, path: &str) {
        if let Some(default) = &node.default {
            let default_path = child_path(path, "default");
            let mut filled = default.clone();
            let mut unknown = Vec::new();
            walk::prune(node, &mut filled, false, "", &mut unknown);
            for field in unknown {
                let detail = format!("must not have unknown fields, but has {field}");
                self.errors.push(FieldError::invalid(&*default_path, default.clone(), detail));
            }
            walk::default(node, &mut filled);
            let rules = cel::validate(node, &filled, None, "").errors;
            for error in validate::validate(node, &filled, None, "").into_iter().chain(rules) {
                let mut error = error;
                error.path = if error.path.is_empty() {
                    default_path.clone()
                } else {
                    format!("{default_path}.{}", error.path)
                };
                self.errors.push(error);
            }
        }
        for (key, child) in &node.properties {
            self.defaults(child, &format!("{path}.properties[{key}]"));
        }
        if let Additional::Values(child) = &node.additional {
            self.defaults(child, &child_path(path, "additionalProperties"));
        }
        if let Some(items) = &node.items {
            self.defaults(items, &child_path(path, "items"));
        }
    }
}
