//! What is judged.

use olm_version::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Gvk;

/// A property of a bundle, as catalogs list it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Property {
    /// Its type, such as `olm.package`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its value.
    pub value: Value,
}

/// A bundle, or an installed operator, as constraints see it. What is not known is empty, and meets nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'a> {
    /// Package.
    pub package: Option<&'a str>,
    /// Version.
    pub version: Option<&'a Version>,
    /// APIs that it provides, in any order.
    pub provides: &'a [Gvk],
    /// Values of its `olm.label` properties.
    pub labels: &'a [String],
    /// Its properties, which CEL rules see.
    pub properties: &'a [Property],
}
