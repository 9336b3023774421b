//! The bundle that is evaluated.

use olm_version::Version;
use serde_json::Value;

use crate::Gvk;

/// A property of a bundle, as catalogs list it. It stores the text: few rules read properties, and a parsed
/// tree takes ten times the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its type, such as `olm.package`.
    pub kind: String,
    json: Box<str>,
}

impl Property {
    #[must_use]
    pub fn new(kind: impl Into<String>, value: &Value) -> Self {
        Self::from_json(kind, &value.to_string())
    }

    #[must_use]
    pub fn from_json(kind: impl Into<String>, json: &str) -> Self {
        Self { kind: kind.into(), json: json.into() }
    }

    /// `None` when the text is not JSON, or nested deeper than the JSON parser allows.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        serde_json::from_str(&self.json).ok()
    }
}

/// A bundle, or an installed operator, as constraints see it. Unknown facts are empty and satisfy nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'a> {
    pub package: Option<&'a str>,
    pub version: Option<&'a Version>,
    /// Provided APIs, in any order.
    pub provides: &'a [Gvk],
    /// Values of its `olm.label` properties.
    pub labels: &'a [String],
    /// Input of CEL rules.
    pub properties: &'a [Property],
}
