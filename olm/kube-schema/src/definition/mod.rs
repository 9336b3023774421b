//! CustomResourceDefinition objects: their validation, and their parsed form.

mod beta;
mod conversion;
mod json_path;
mod validation;

use serde_json::{Value, json};

pub use self::{
    json_path::json_path,
    validation::{parse, validate_update},
};
use crate::{cel, field_error::FieldError, schema::Schema};

#[derive(Debug, Clone)]
pub struct Crd {
    pub group: String,
    /// Kind of the objects.
    pub kind: String,
    pub list_kind: String,
    /// Name in URLs and RBAC rules.
    pub plural: String,
    /// Alias of kubectl for one object.
    pub singular: String,
    /// Aliases of kubectl for the plural.
    pub short_names: Vec<String>,
    /// Groups such as `all` that include it in `kubectl get`.
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// In the order written.
    pub versions: Vec<CrdVersion>,
}

#[derive(Debug, Clone)]
pub struct CrdVersion {
    /// For example `v1beta2`.
    pub name: String,
    pub served: bool,
    /// Whether it is the storage version.
    pub storage: bool,
    /// Whether requests get a warning.
    pub deprecated: bool,
    /// The text of that warning, if it is not the default.
    pub deprecation_warning: Option<String>,
    pub schema: Schema,
    /// Whether `/status` is a subresource.
    pub status: bool,
    pub scale: Option<ScalePaths>,
    /// Columns of `kubectl get`.
    pub columns: Vec<Column>,
    /// JSON paths for field selectors.
    pub selectable_fields: Vec<String>,
}

/// Paths of the scale subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// Path of the desired count, for example `.spec.replicas`.
    pub spec_replicas_path: String,
    /// Path of the actual count, for example `.status.replicas`.
    pub status_replicas_path: String,
    /// Path of the selector in its string form, for example `.status.selector`.
    pub label_selector_path: Option<String>,
}

/// A column of `kubectl get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_: String,
    /// Format of the value, for example `date-time`.
    pub format: String,
    pub description: String,
    /// Above 0 it is shown only in wide output.
    pub priority: i64,
    /// Path of its value, for example `.spec.size`.
    pub json_path: String,
}

/// All errors that an API server reports for a definition, of apiextensions.k8s.io/v1 or v1beta1.
///
/// In v1beta1 a schema must be structural only where unknown fields are dropped; the field paths are those of
/// the API that the definition is written in.
#[must_use]
pub fn check(crd: &Value) -> Vec<FieldError> {
    match crd.get("apiVersion").and_then(Value::as_str) {
        Some("apiextensions.k8s.io/v1beta1") => {
            beta::to_beta_paths(crd, parse(&beta::to_v1(crd)).err().unwrap_or_default())
        }
        _ => parse(crd).err().unwrap_or_default(),
    }
}

/// The rules of a valid definition that Kubernetes 1.`minor` refuses because they use functions that it does
/// not have. Rules that a cluster has stored already are not refused.
#[must_use]
pub fn newer_rules(crd: &Value, minor: u64) -> Vec<FieldError> {
    if cel::has_all_functions(minor) || !has_rules(crd) {
        return Vec::new();
    }
    let versions = parse(crd).map(|crd| crd.versions).unwrap_or_default();
    let of = |(index, version): (usize, &CrdVersion)| {
        version.schema.newer_rules(&format!("spec.versions[{index}].schema.openAPIV3Schema"), minor)
    };
    versions.iter().enumerate().flat_map(of).collect()
}

fn has_rules(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.contains_key("x-kubernetes-validations") || map.values().any(has_rules),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

impl Crd {
    /// Defaults of the names, as in the API server.
    fn fill_in_names(&mut self) {
        if self.kind.is_empty() {
            return;
        }
        if self.singular.is_empty() {
            self.singular = self.kind.to_lowercase();
        }
        if self.list_kind.is_empty() {
            self.list_kind = format!("{}List", self.kind);
        }
    }

    pub fn storage(&self) -> &CrdVersion {
        self.versions
            .iter()
            .find(|v| v.storage)
            .expect("parse() accepts CRDs with exactly one storage version only")
    }

    pub fn version(&self, name: &str) -> Option<&CrdVersion> {
        self.versions.iter().find(|v| v.name == name)
    }
}

/// Sets Kubernetes' defaults: the singular and list names, the conversion strategy, column priorities.
pub fn set_defaults(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut)
        && let Some(kind) = names.get("kind").and_then(Value::as_str).map(str::to_owned)
        && !kind.is_empty()
    {
        for (key, value) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
            if names.get(key).and_then(Value::as_str).is_none_or(str::is_empty) {
                names.insert(key.to_owned(), value.into());
            }
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({ "strategy": "None" }));
    }
    spec.retain(|key, value| key != "preserveUnknownFields" || *value != Value::Bool(false));
}

/// Whether the API server serves the resource.
#[must_use]
pub fn is_established(crd: &Value) -> bool {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True")
}

#[cfg(test)]
mod tests;
