//! Suggestions for an unknown name.

use crate::catalog::Catalog;
use crate::model::Package;

/// An unknown name, with the nearest known names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {name:?} {place}{}", hint(nearest, known))]
pub struct Unknown {
    /// `package`, `channel` or `version`.
    pub what: &'static str,
    pub name: String,
    /// `is not in catalog x`, `is not in package x`.
    pub place: String,
    /// Nearest names, best first.
    pub nearest: Vec<String>,
    /// All names when there are few; empty otherwise.
    pub known: Vec<String>,
}

fn hint(nearest: &[String], known: &[String]) -> String {
    match (nearest, known) {
        ([], []) => String::new(),
        ([], known) => format!("; available: {}", known.join(", ")),
        (nearest, _) => format!("; did you mean {}?", nearest.join(", ")),
    }
}

const FEW: usize = 10;

impl Unknown {
    fn new(what: &'static str, name: &str, place: String, names: Vec<String>) -> Self {
        let nearest = olm_version::suggest(name, &names, 3);
        let known = if names.len() <= FEW { names } else { Vec::new() };
        Self { what, name: name.to_owned(), place, nearest, known }
    }
}

impl Catalog {
    #[must_use]
    pub fn nearest_package(&self, name: &str) -> Unknown {
        Unknown::new(
            "package",
            name,
            "is not in the catalog".into(),
            self.summaries().map(|s| s.name.clone()).collect(),
        )
    }
}

impl Package {
    #[must_use]
    pub fn nearest_channel(&self, name: &str) -> Unknown {
        let place = format!("is not in package {}", self.name);
        Unknown::new("channel", name, place, self.channels.keys().cloned().collect())
    }

    /// The error for an unknown version; a bundle's name counts as its version.
    #[must_use]
    pub fn nearest_version(&self, version: &str) -> Unknown {
        let place = format!("is not in package {}", self.name);
        let mut versions: Vec<_> =
            self.bundles.values().filter_map(|bundle| bundle.version.as_ref()).collect();
        versions.sort_by(|a, b| olm_version::precedence(b, a));
        Unknown::new("version", version, place, versions.iter().map(ToString::to_string).collect())
    }
}
