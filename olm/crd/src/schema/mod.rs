//! Structural schemas of custom resources.
//!
//! A CRD's `openAPIV3Schema` is compiled once into a tree of [`Node`]s; defaulting, pruning and validation walk the
//! tree and the object side by side. Anything that Kubernetes would refuse as not structural is refused here too.
//!
//! CEL rules (`x-kubernetes-validations`) are stored but not evaluated: [`Schema::unenforced`] says where they are, so
//! that the API server can warn instead of pretending.

mod compile;
mod formats;
mod keywords;
mod node;
mod pattern;
mod validate;
mod walk;

use serde_json::Value;

pub(crate) use self::formats::is_checked as is_checked_format;
pub use self::keywords::unknown_keywords;
pub use self::node::{Additional, ListType, Node, Type};
pub(crate) use self::validate::compare as compare_numbers;
use crate::field_error::FieldError;

/// Deeper schemas are refused: nobody writes them by hand, and walking them recursively must not exhaust the stack.
pub(crate) const MAX_DEPTH: usize = 64;

/// A compiled structural schema.
#[derive(Debug, Clone)]
pub struct Schema {
    source: Value,
    root: Node,
    unenforced: Vec<String>,
}

impl Schema {
    /// Compiles `openAPIV3Schema`; `path` is where it stands in the CRD, for error messages
    /// (`spec.versions[0].schema.openAPIV3Schema`).
    pub fn compile(schema: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        let (root, unenforced) = compile::compile(schema, path)?;
        Ok(Self { source: schema.clone(), root, unenforced })
    }

    /// Fills in defaults, also below lists and maps that are present.
    pub fn default(&self, object: &mut Value) {
        walk::default(&self.root, object);
    }

    /// Removes fields that the schema does not know and returns their paths (`spec.foo`, `spec.list[0].bar`).
    ///
    /// `apiVersion`, `kind` and `metadata` of the object and of embedded resources always stay.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        walk::prune(&self.root, object, true, "", &mut unknown);
        unknown
    }

    /// Checks an object and returns what is wrong with it.
    ///
    /// Ratcheting (accepting an unchanged value that has become invalid) is left out: every value must be valid.
    #[must_use]
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.root, object, "");
        validate::lists_and_embedded(&self.root, object, "", &mut errors);
        errors
    }

    /// Paths below the schema at which there are rules that are stored and not enforced (CEL).
    pub fn unenforced(&self) -> &[String] {
        &self.unenforced
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

/// `path.key`, without a leading dot.
pub fn child_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests;
