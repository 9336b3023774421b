//! What is judged.

use olm_version::Version;
use serde_json::Value;

use crate::Gvk;

/// A property of a bundle, as catalogs list it. Few rules ever look at one, and a tree of values takes ten times the memory
/// of its text, so the text is kept.
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

    /// A property whose value is at hand as JSON.
    #[must_use]
    pub fn from_json(kind: impl Into<String>, json: &str) -> Self {
        Self { kind: kind.into(), json: json.into() }
    }

    /// Its value; nothing when it is no JSON, or nested deeper than JSON is read.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        serde_json::from_str(&self.json).ok()
    }
}

/// A bundle, or an installed operator, as constraints see it. What is not known is empty, and meets nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'a> {
    pub package: Option<&'a str>,
    pub version: Option<&'a Version>,
    /// APIs that it provides, in any order.
    pub provides: &'a [Gvk],
    /// Values of its `olm.label` properties.
    pub labels: &'a [String],
    /// Its properties, which CEL rules see.
    pub properties: &'a [Property],
}
