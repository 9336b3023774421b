//! From `openAPIV3Schema` to [`Node`]s, with the rules for structural schemas.

use serde_json::{Map, Number, Value};

use super::{Additional, ListType, Node, Pattern, Rules, Type, child_path, validate, walk};
use crate::machinery::field_error::FieldError;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Deeper schemas are refused: nobody writes them by hand, and walking them recursively must not exhaust the stack.
const MAX_DEPTH: usize = 64;

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Item,
    /// Below allOf, anyOf, oneOf or not: value validations only.
    Logic,
}

struct Compiler {
    errors: Vec<FieldError>,
    unenforced: Vec<String>,
}

pub(super) fn compile(schema: &Value, path: &str) -> Result<(Node, Vec<String>), Vec<FieldError>> {
    let mut compiler = Compiler { errors: Vec::new(), unenforced: Vec::new() };
    let root = compiler.node(schema, path, Place::Root, 0);
    if compiler.errors.is_empty() {
        compiler.defaults(&root, path);
    }
    if compiler.errors.is_empty() { Ok((root, compiler.unenforced)) } else { Err(compiler.errors) }
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
            default: map.get("default").cloned(),
            ..Node::default()
        };
        self.forbidden_keywords(map, path, place);
        self.ty(map, &mut node, path, place);
        if map.get("x-kubernetes-validations").and_then(Value::as_array).is_some_and(|r| !r.is_empty()) {
            self.unenforced.push(child_path(path, "x-kubernetes-validations"));
        }
        self.object(map, &mut node, path, place, depth);
        self.array(map, &mut node, path, place, depth);
        let rules = self.rules(map, &node, path, depth);
        if place != Place::Logic {
            let logic = rules.all_of.iter().map(|n| ("allOf", n));
            let logic = logic.chain(rules.any_of.iter().map(|n| ("anyOf", n)));
            let logic = logic.chain(rules.one_of.iter().map(|n| ("oneOf", n)));
            let logic = logic.chain(rules.not.iter().map(|n| ("not", &**n)));
            let logic: Vec<_> = logic.collect();
            for (keyword, inner) in logic {
                self.complete(inner, &node, path, keyword);
            }
        }
        node.rules = Some(Box::new(rules));
        node
    }

    fn flag(&mut self, map: &Map<String, Value>, key: &str, path: &str) -> bool {
        match map.get(key) {
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

    /// Keywords that no structural schema has, and those that may not stand in value validations.
    fn forbidden_keywords(&mut self, map: &Map<String, Value>, path: &str, place: Place) {
        for key in ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id"] {
            if map.contains_key(key) {
                self.errors
                    .push(FieldError::forbidden(child_path(path, key), format!("{key} is not supported")));
            }
        }
        if map.get("uniqueItems") == Some(&Value::Bool(true)) {
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
            if map.get(key).is_some_and(|v| *v != Value::Bool(false)) {
                self.errors.push(FieldError::forbidden(child_path(path, key), detail));
            }
        }
    }

    fn ty(&mut self, map: &Map<String, Value>, node: &mut Node, path: &str, place: Place) {
        let type_path = child_path(path, "type");
        let text = match map.get("type") {
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
        match place {
            Place::Logic => return,
            Place::Root if text.is_empty() => {
                self.errors.push(FieldError::required(type_path, "must not be empty at the root"));
                return;
            }
            Place::Root if text != "object" => {
                self.errors.push(FieldError::invalid(type_path, text, "must be object at the root"));
                return;
            }
            Place::Field | Place::Item | Place::Root => {}
        }
        if node.int_or_string {
            if !text.is_empty() {
                let detail = "must be empty if x-kubernetes-int-or-string is true";
                self.errors.push(FieldError::forbidden(type_path, detail));
            }
        } else if text.is_empty() && !node.preserve_unknown {
            let what = if place == Place::Item { "array items" } else { "object fields" };
            let detail = format!("must not be empty for specified {what}");
            self.errors.push(FieldError::required(type_path, detail));
        }
        if node.embedded && node.ty != Some(Type::Object) {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            self.errors.push(FieldError::invalid(child_path(path, "type"), text, detail));
        }
    }

    fn object(&mut self, map: &Map<String, Value>, node: &mut Node, path: &str, place: Place, depth: usize) {
        if let Some(properties) = map.get("properties") {
            let inner = if place == Place::Logic { Place::Logic } else { Place::Field };
            match properties.as_object() {
                Some(properties) => {
                    for (key, schema) in properties {
                        let key_path = format!("{path}.properties[{key}]");
                        if place == Place::Root && key == "metadata" {
                            self.root_metadata(schema, &key_path);
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
        match map.get("additionalProperties") {
            _ if place == Place::Logic => {}
            None => {}
            Some(_) if !node.properties.is_empty() => {
                let detail = "additionalProperties and properties are mutual exclusive";
                self.errors.push(FieldError::forbidden(additional_path, detail));
            }
            Some(Value::Bool(false)) => {
                let detail = "additionalProperties cannot be set to false";
                self.errors.push(FieldError::forbidden(additional_path, detail));
            }
            Some(Value::Bool(true)) => node.additional = Additional::Any,
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
        match map.get("x-kubernetes-map-type").and_then(Value::as_str) {
            Some("atomic") => node.atomic_map = true,
            None | Some("granular") => {}
            Some(other) => self.errors.push(FieldError::not_supported(
                child_path(path, "x-kubernetes-map-type"),
                other,
                ["atomic", "granular"],
            )),
        }
    }

    /// Names are the only thing of the metadata that a schema may restrict.
    fn root_metadata(&mut self, schema: &Value, path: &str) {
        let properties = schema.get("properties").and_then(Value::as_object);
        if properties.is_some_and(|p| p.keys().any(|k| k != "name" && k != "generateName")) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.errors.push(FieldError::forbidden(path, detail));
        }
    }

    fn array(&mut self, map: &Map<String, Value>, node: &mut Node, path: &str, place: Place, depth: usize) {
        let items_path = child_path(path, "items");
        match map.get("items") {
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

    fn list_type(&mut self, map: &Map<String, Value>, node: &mut Node, path: &str) {
        let keys_path = child_path(path, "x-kubernetes-list-map-keys");
        let keys: Vec<String> = map
            .get("x-kubernetes-list-map-keys")
            .and_then(Value::as_array)
            .map(|keys| keys.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        let Some(list_type) = map.get("x-kubernetes-list-type") else {
            if !keys.is_empty() {
                let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
                let path = child_path(path, "x-kubernetes-list-type");
                self.errors.push(FieldError::required(path, detail));
            }
            return;
        };
        let type_path = child_path(path, "x-kubernetes-list-type");
        if node.ty != Some(Type::Array) {
            let shown = node.ty.map_or("", Type::name);
            let detail = "must be array if x-kubernetes-list-type is specified";
            self.errors.push(FieldError::invalid(child_path(path, "type"), shown, detail));
            return;
        }
        let item = node.items.as_deref();
        match list_type.as_str() {
            Some("atomic") => node.list_type = ListType::Atomic,
            Some("set") => {
                let scalar = item.is_none_or(|item| {
                    !matches!(item.ty, Some(Type::Object | Type::Array))
                        || item.atomic_map
                        || (item.ty == Some(Type::Array) && item.list_type == ListType::Atomic)
                });
                if !scalar {
                    let path = child_path(&child_path(path, "items"), "x-kubernetes-map-type");
                    let detail = "forbidden because parent x-kubernetes-list-type is set: items must be scalar or atomic";
                    self.errors.push(FieldError::forbidden(path, detail));
                }
                node.list_type = ListType::Set;
            }
            Some("map") => {
                if keys.is_empty() {
                    let detail = "must not be empty if x-kubernetes-list-type is map";
                    self.errors.push(FieldError::required(keys_path, detail));
                    return;
                }
                if let Some(item) = item {
                    if item.ty != Some(Type::Object) {
                        let detail = "must be object if parent array's x-kubernetes-list-type is map";
                        let shown = item.ty.map_or("", Type::name);
                        let path = child_path(&child_path(path, "items"), "type");
                        self.errors.push(FieldError::invalid(path, shown, detail));
                    } else {
                        self.map_keys(&keys, item, path, &keys_path);
                    }
                }
                node.list_type = ListType::Map(keys);
            }
            _ => self.errors.push(FieldError::not_supported(
                type_path,
                list_type.clone(),
                ["atomic", "map", "set"],
            )),
        }
    }

    fn map_keys(&mut self, keys: &[String], item: &Node, path: &str, keys_path: &str) {
        let required = item.rules.as_deref().map(|rules| rules.required.as_slice()).unwrap_or_default();
        for (index, key) in keys.iter().enumerate() {
            if keys[..index].contains(key) {
                self.errors.push(FieldError::duplicate(format!("{keys_path}[{index}]"), key.as_str()));
            }
            match item.properties.get(key) {
                None => {
                    let detail = "entries must all be names of item properties";
                    self.errors.push(FieldError::invalid(keys_path, key.as_str(), detail));
                }
                Some(node) => {
                    if matches!(node.ty, Some(Type::Object | Type::Array)) {
                        let path = format!("{path}.items.properties[{key}].type");
                        let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                        self.errors.push(FieldError::invalid(path, node.ty.map_or("", Type::name), detail));
                    }
                    if node.default.is_none() && !required.contains(key) {
                        let path = format!("{path}.items.properties[{key}].default");
                        let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                        self.errors.push(FieldError::required(path, detail));
                    }
                }
            }
        }
    }

    fn rules(&mut self, map: &Map<String, Value>, node: &Node, path: &str, depth: usize) -> Rules {
        let mut rules = Rules {
            enumeration: map.get("enum").and_then(Value::as_array).cloned(),
            minimum: self.number(map, "minimum", path),
            maximum: self.number(map, "maximum", path),
            multiple_of: self.number(map, "multipleOf", path),
            exclusive_minimum: map.get("exclusiveMinimum") == Some(&Value::Bool(true)),
            exclusive_maximum: map.get("exclusiveMaximum") == Some(&Value::Bool(true)),
            min_length: self.count(map, "minLength", path),
            max_length: self.count(map, "maxLength", path),
            min_items: self.count(map, "minItems", path),
            max_items: self.count(map, "maxItems", path),
            min_properties: self.count(map, "minProperties", path),
            max_properties: self.count(map, "maxProperties", path),
            format: map.get("format").and_then(Value::as_str).filter(|f| !f.is_empty()).map(str::to_owned),
            ..Rules::default()
        };
        if let Some(required) = map.get("required").and_then(Value::as_array) {
            rules.required = required.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        }
        if let Some(text) = map.get("pattern").and_then(Value::as_str).filter(|p| !p.is_empty()) {
            match Pattern::new(text) {
                Ok(pattern) => rules.pattern = Some(pattern),
                Err(error) => {
                    let reason = error.to_string();
                    let reason = reason.lines().last().unwrap_or_default().to_owned();
                    let detail = format!("must be a valid regular expression, but isn't: {reason}");
                    self.errors.push(FieldError::invalid(child_path(path, "pattern"), text, detail));
                }
            }
        }
        for (keyword, slot) in
            [("allOf", &mut rules.all_of), ("anyOf", &mut rules.any_of), ("oneOf", &mut rules.one_of)]
        {
            let Some(list) = map.get(keyword).and_then(Value::as_array) else { continue };
            let list_path = child_path(path, keyword);
            for (index, schema) in list.iter().enumerate() {
                let inner = self.node(schema, &format!("{list_path}[{index}]"), Place::Logic, depth + 1);
                slot.push(inner);
            }
        }
        if let Some(schema) = map.get("not") {
            rules.not = Some(Box::new(self.node(schema, &child_path(path, "not"), Place::Logic, depth + 1)));
        }
        if node.int_or_string {
            // `anyOf: [{type: integer}, {type: string}]` is how int-or-string is spelt for other readers.
            let spelt = |list: &[Node]| matches!(list, [a, b, ..] if a.ty == Some(Type::Integer) && b.ty == Some(Type::String));
            if spelt(&rules.any_of) {
                rules.any_of.clear();
            } else if let Some(first) = rules.all_of.first()
                && first.rules.as_deref().is_some_and(|r| spelt(&r.any_of))
            {
                rules.all_of.remove(0);
            }
        }
        rules
    }

    fn number(&mut self, map: &Map<String, Value>, key: &str, path: &str) -> Option<Number> {
        match map.get(key)? {
            Value::Number(number) => Some(number.clone()),
            other => {
                let detail = "must be a number";
                self.errors.push(FieldError::invalid(child_path(path, key), other.clone(), detail));
                None
            }
        }
    }

    fn count(&mut self, map: &Map<String, Value>, key: &str, path: &str) -> Option<u64> {
        let value = map.get(key)?;
        let count = value.as_u64();
        if count.is_none() {
            let detail = "must be a whole number of at least 0";
            self.errors.push(FieldError::invalid(child_path(path, key), value.clone(), detail));
        }
        count
    }

    /// What value validations mention must stand in the structure around them, and they may not carry types.
    fn complete(&mut self, inner: &Node, outer: &Node, path: &str, keyword: &str) {
        if inner.ty.is_some() {
            let detail = "must be empty to be structural";
            self.errors.push(FieldError::forbidden(format!("{path}.{keyword}.type"), detail));
        }
        for (key, child) in &inner.properties {
            match outer.child(key) {
                Some(outer) => self.complete(child, outer, &format!("{path}.properties[{key}]"), keyword),
                None if outer.preserve_unknown || matches!(outer.additional, Additional::Any) => {}
                None if path.ends_with("openAPIV3Schema") && is_implicit(key) => {}
                None => self.errors.push(FieldError::required(
                    format!("{path}.properties[{key}]"),
                    format!("because it is defined in {path}.{keyword}.properties[{key}]"),
                )),
            }
        }
        if let Some(items) = &inner.items {
            match &outer.items {
                Some(outer) => self.complete(items, outer, &child_path(path, "items"), keyword),
                None => self.errors.push(FieldError::required(
                    child_path(path, "items"),
                    format!("because it is defined in {path}.{keyword}.items"),
                )),
            }
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
            for error in validate::validate(node, &filled, "") {
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

fn is_implicit(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}
