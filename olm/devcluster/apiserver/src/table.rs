//! Tables in kubectl's format.

use olm_devcluster_machinery::crd::{Column, json_path};
use serde_json::{Value, json};

use super::{columns, meta, resource::Resource};

/// Content of table rows besides their cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    None,
    Metadata,
    Object,
}

/// A table without rows.
pub(crate) fn empty(resource: &Resource, with_columns: bool) -> Value {
    let mut table = json!({ "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": null, "rows": [] });
    if with_columns {
        table["columnDefinitions"] = definitions(resource);
    }
    table
}

fn definition(name: &str, type_: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({ "name": name, "type": type_, "format": format, "description": description, "priority": priority })
}

fn definitions(resource: &Resource) -> Value {
    let mut all = vec![definition("Name", "string", "name", "Name must be unique within a namespace.", 0)];
    match resource.builtin() {
        Some(builtin) => {
            for column in columns::of(builtin.group, builtin.kind) {
                let type_ = if column.number { "integer" } else { "string" };
                all.push(definition(column.name, type_, "", "", i64::from(column.wide)));
            }
        }
        None if resource.columns().is_empty() => {
            all.push(definition("Age", "date", "", "Age of the object.", 0))
        }
        None => {
            for Column { name, type_, format, description, priority, .. } in resource.columns() {
                all.push(definition(name, type_, format, description, *priority));
            }
        }
    }
    all.into()
}

pub(crate) fn row(resource: &Resource, object: &Value, rows: Rows) -> Value {
    let name =
        resource.builtin().map_or_else(|| meta::name(object).to_owned(), |b| columns::name(b.group, object));
    let mut cells = vec![Value::from(name)];
    match resource.builtin() {
        Some(builtin) => {
            let columns = columns::of(builtin.group, builtin.kind);
            cells.extend(columns.iter().map(|column| column.cell(object)));
        }
        None if resource.columns().is_empty() => {
            cells.push(meta::age(meta::text(object, "/metadata/creationTimestamp")).into())
        }
        None => cells.extend(resource.columns().iter().map(|column| custom_cell(object, column))),
    }
    let mut row = json!({ "cells": cells });
    match rows {
        Rows::None => {}
        Rows::Metadata => {
            row["object"] = json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
            });
        }
        Rows::Object => row["object"] = object.clone(),
    }
    row
}

/// As `apiextensions-apiserver/pkg/registry/customresource/tableconvertor`.
fn custom_cell(object: &Value, column: &Column) -> Value {
    let found = json_path(object, &column.json_path);
    let [first, rest @ ..] = found.as_slice() else { return Value::Null };
    match column.type_.as_str() {
        "integer" => first
            .as_i64()
            .map(Value::from)
            .or_else(|| first.as_f64().map(|f| json!(f.trunc())))
            .unwrap_or(Value::Null),
        "number" => {
            if first.is_number() {
                Value::clone(first)
            } else {
                Value::Null
            }
        }
        "boolean" => {
            if first.is_boolean() {
                Value::clone(first)
            } else {
                Value::Null
            }
        }
        "date" => first.as_str().map_or(Value::Null, |time| meta::age(time).into()),
        _ if rest.is_empty() => plain(first).into(),
        _ => found.iter().map(|v| plain(v)).collect::<Vec<_>>().join(" ").into(),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
