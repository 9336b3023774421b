//! Findings of validation.

use std::fmt;

use crate::error::Place;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The bundle is invalid.
    Error,
    /// The bundle works, but its author should fix it.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// A defect of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Stable name of the rule, such as `crd-missing`.
    pub code: &'static str,
    pub severity: Severity,
    /// File, line and column; `None` for a bundle that was not read from files, or for all of it.
    pub place: Option<Place>,
    /// The affected part, such as `ClusterServiceVersion etcd.v0.9.4` or `dependencies[0]`.
    pub object: String,
    /// The field, as a path from the top of the object; empty for the object as a whole.
    pub field: String,
    pub text: String,
    pub fix: String,
}

impl fmt::Display for Finding {
    /// `manifests/csv.yaml:3:5: error csv-name-invalid: ClusterServiceVersion x: metadata.name: text; fix`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{} {}: ", self.severity, self.code)?;
        for part in [&self.object, &self.field].into_iter().filter(|part| !part.is_empty()) {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.text)?;
        if !self.fix.is_empty() {
            write!(f, "; {}", self.fix)?;
        }
        Ok(())
    }
}
