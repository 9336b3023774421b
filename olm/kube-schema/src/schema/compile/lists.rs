//! The identity of list items.

use serde_json::{Map, Value};

use super::{Compiler, get};
use crate::{
    field_error::FieldError,
    schema::{ListType, Node, Type, child_path},
};

impl Compiler {
    pub(super) fn list_type(&mut self, map: &Map<String, Value>, node: &mut Node, path: &str) {
        let keys_path = child_path(path, "x-kubernetes-list-map-keys");
        let keys: Vec<String> = get(map, "x-kubernetes-list-map-keys")
            .and_then(Value::as_array)
            .map(|keys| keys.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        let Some(list_type) = get(map, "x-kubernetes-list-type") else {
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
        if let Some(list_type @ ("set" | "map")) = list_type.as_str()
            && item.is_some_and(|item| item.nullable)
        {
            let path = child_path(&child_path(path, "items"), "nullable");
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.errors.push(FieldError::forbidden(path, detail));
        }
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
}
