//! Structural schemas of custom resources.
//!
//! A CRD's `openAPIV3Schema` is compiled once into a tree of [`Node`]s; defaulting, pruning and validation walk the
//! tree and the object side by side. Anything that Kubernetes would refuse as not structural is refused here too.
//!
//! Rules in CEL (`x-kubernetes-validations`) are typed when a schema is compiled and run with the other validations.

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

/// Deeper schemas are refused: nobody writes them by hand, and walking them recursively must not exhaust the stack.
pub(crate) const MAX_DEPTH: usize = 64;

/// A compiled structural schema.
#[derive(Debug, Clone)]
pub struct Schema {
    source: Value,
    root: Node,
}

/// What is wrong with a changed object.
#[derive(Debug, Default)]
pub struct UpdateErrors {
    /// Why it is refused.
    pub errors: Vec<FieldError>,
    /// Rules that it breaks with values that it had before: nobody is stopped by what was accepted once, but told of it.
    pub known: Vec<FieldError>,
}

impl Schema {
    /// Compiles `openAPIV3Schema`; `path` is where it stands in the CRD, for error messages
    /// (`spec.versions[0].schema.openAPIV3Schema`).
    pub fn compile(schema: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        Ok(Self { source: schema.clone(), root: compile::compile(schema, path)? })
    }

    /// Fills in defaults, also below lists and maps that are present.
    pub fn default(&self, object: &mut Value) {
        walk::default(&self.root, object);
    }

    /// Removes fields that the schema does not know and returns their paths (`spec.foo`, `spec.list[0].bar`). A null where none is
    /// allowed counts as not set, and goes as well, unless a default takes its place.
    ///
    /// `apiVersion`, `kind` and `metadata` of the object and of embedded resources always stay.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        walk::prune(&self.root, object, true, "", &mut unknown);
        unknown
    }

    /// Checks an object and returns what is wrong with it. Every value must be valid; rules that compare it with what it
    /// was before do not run.
    #[must_use]
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.root, object, None, "");
        validate::lists_and_embedded(&self.root, object, "", &mut errors);
        if !stop_at(&mut errors, &self.root) {
            errors.extend(cel::validate(&self.root, object, None, "").errors);
        }
        errors
    }

    /// Checks a change of an object. Values that did not change are not held against a schema that has become stricter.
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

    /// The schema as it was written.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// The compiled tree.
    pub fn root(&self) -> &Node {
        &self.root
    }
}

/// Whether rules are not run: they rely on types and limits that the object does not keep. Then `errors` says so.
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

/// Whether there are rules in CEL anywhere.
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
