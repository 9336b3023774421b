//! Structural schemas of custom resources.
//!
//! A CRD's `openAPIV3Schema` is compiled once into a tree of [`Node`]s; defaulting, pruning and validation
//! walk the tree and the object together. Schemas that Kubernetes refuses as not structural are refused here
//! too.
//!
//! CEL rules (`x-kubernetes-validations`) are typed when a schema is compiled and run with the other
//! validations.

mod compile;
mod formats;
mod keywords;
mod node;
mod pattern;
mod validate;
mod walk;

use serde_json::Value;

pub(crate) use self::formats::{is_checked as is_checked_format, matches as matches_format};
pub use self::keywords::unknown_keywords;
pub use self::node::{Additional, ListType, Node, Type};
pub(crate) use self::pattern::compile as compile_pattern;
pub(crate) use self::validate::compare as compare_numbers;
use crate::cel;
use crate::field_error::{ErrorKind, FieldError};

/// Limit of nesting, so that recursive walks do not exhaust the stack; schemas written by hand stay below it.
pub(crate) const MAX_DEPTH: usize = 64;

/// A compiled structural schema.
#[derive(Debug, Clone)]
pub struct Schema {
    source: Value,
    root: Node,
}

/// Errors of a changed object.
#[derive(Debug, Default)]
pub struct UpdateErrors {
    /// Errors that reject the update.
    pub errors: Vec<FieldError>,
    /// Rules violated by values that were stored before: they produce warnings and do not reject the update.
    pub known: Vec<FieldError>,
}

impl Schema {
    /// Compiles `openAPIV3Schema`; `path` is its path in the CRD, for error messages
    /// (`spec.versions[0].schema.openAPIV3Schema`).
    pub fn compile(schema: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        Ok(Self { source: schema.clone(), root: compile::compile(schema, path)? })
    }

    /// The rules that use what Kubernetes 1.`minor` does not have.
    pub(crate) fn newer_rules(&self, path: &str, minor: u64) -> Vec<FieldError> {
        cel::check_rules(&self.root, path, Some(minor))
    }

    /// Sets defaults, also below lists and maps that are present.
    pub fn default(&self, object: &mut Value) {
        walk::default(&self.root, object);
    }

    /// Removes fields that the schema does not declare and returns their paths (`spec.foo`,
    /// `spec.list[0].bar`). A null where none is allowed counts as unset and is removed as well, unless a
    /// default replaces it.
    ///
    /// `apiVersion`, `kind` and `metadata` of the object and of embedded resources are preserved.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        walk::prune(&self.root, object, true, "", &mut unknown);
        unknown
    }

    /// Validates an object. Every value must be valid; rules that compare it with its old version do not run.
    #[must_use]
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.root, object, None, "");
        validate::lists_and_embedded(&self.root, object, "", &mut errors);
        if !stop_at(&mut errors, &self.root) {
            errors.extend(cel::validate(&self.root, object, None, "").errors);
        }
        errors
    }

    /// Validates an update. Unchanged values are not validated against a schema that has become stricter.
    #[must_use]
    pub fn validate_update(&self, object: &Value, old: &Value) -> UpdateErrors {
        let mut errors = validate::validate(&self.root, object, Some(old), "");
        let mut before = Vec::new();
        validate::lists_and_embedded(&self.root, old, "", &mut before);
        if before.is_empty() {
            validate::lists_and_embedded(&self.root, object, "", &mut errors);
        }
        if stop_at(&mut errors, &self.root) {
            return UpdateErrors { errors, known: Vec::new() };
        }
        let verdict = cel::validate(&self.root, object, Some(old), "");
        errors.extend(verdict.errors);
        UpdateErrors { errors, known: verdict.known }
    }

    pub fn source(&self) -> &Value {
        &self.source
    }

    pub fn root(&self) -> &Node {
        &self.root
    }
}

/// Whether CEL rules are skipped: they rely on types and limits that the object violates. `errors` reports
/// it.
fn stop_at(errors: &mut Vec<FieldError>, root: &Node) -> bool {
    let blocks = |error: &FieldError| {
        matches!(
            error.kind,
            ErrorKind::Required | ErrorKind::TooLong | ErrorKind::TooMany | ErrorKind::TypeInvalid
        )
    };
    if !errors.iter().any(blocks) {
        return false;
    }
    if has_rules(root) {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.push(FieldError::invalid("", Value::Null, detail));
    }
    true
}

/// Whether the schema has CEL rules at any depth.
fn has_rules(node: &Node) -> bool {
    let all_of = node.rules.iter().flat_map(|rules| &rules.all_of);
    let values = match &node.additional {
        Additional::Values(values) => Some(&**values),
        Additional::Unspecified | Additional::Any => None,
    };
    !node.cel.is_empty()
        || node.properties.values().chain(all_of).chain(values).chain(node.items.as_deref()).any(has_rules)
}

/// `path.key`, without a leading dot.
pub fn child_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests;
