//! Builds file-based catalogs from bundles.
//!
//! - [`from_bundle_repository`] reads a directory of bundles in the layout of the community repositories
//!   (`operators/NAME/VERSION/{manifests,metadata}`, with a `ci.yaml` per operator), and operators in the older
//!   package-manifest format or with their own catalog template;
//! - [`write_bundle_repository`] does the same from directory to directory, a package at a time;
//! - [`from_config_map`] reads the package manifests of a CatalogSource of the type `configmap`;
//! - [`load`] loads a directory of any layout, so that a checkout is a catalog without any image;
//! - [`Mode`] selects how upgrade graphs are generated; `graph/` has the rules.
//!
//! An invalid bundle or package never hides the others: it is a [`Problem`], and [`Options::strict`] makes it an
//! error.

mod ci;
mod error;
mod folder;
mod graph;
mod layout;
mod manifests;
mod native;
mod options;
mod package;
mod repository;
mod source;
mod workers;
mod write;

use std::path::Path;

use serde_json::Value;

pub use error::BuildError;
pub use graph::Mode;
pub use layout::Layout;
pub use manifests::from_config_map;
pub use options::Options;
pub use repository::{
    from_bundle_repository, load, write_bundle_repository, write_bundle_repository_with_progress,
};
pub(crate) use source::icon;
pub use workers::Progress;
pub use write::Format;

use crate::catalog::Catalog;
use crate::problem::{Place, Problem, Severity};

/// A catalog built in memory.
#[derive(Debug, Clone, Default)]
pub struct Built {
    /// Source of the build.
    pub origin: String,
    /// By directory, which is by name.
    pub packages: Vec<BuiltPackage>,
    /// All problems of the source.
    pub problems: Vec<Problem>,
}

/// One package of a built catalog.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltPackage {
    pub name: String,
    /// `olm.package`, then `olm.channel` by name, then `olm.bundle` by version.
    pub documents: Vec<Value>,
}

impl Built {
    pub fn documents(&self) -> impl Iterator<Item = &Value> {
        self.packages.iter().flat_map(|package| &package.documents)
    }

    /// Writes one directory per package.
    /// # Errors
    /// [`BuildError::Write`]
    pub fn write(&self, dir: &Path, format: Format) -> Result<(), BuildError> {
        self.packages.iter().try_for_each(|package| package.write(dir, format))
    }

    /// The loaded catalog, with the problems of the build and of its result.
    #[must_use]
    pub fn catalog(&self) -> Catalog {
        let text: String = self.packages.iter().map(|package| package.text(Format::Json)).collect();
        let mut catalog = Catalog::from_bytes(&self.origin, text.as_bytes());
        catalog.problems.splice(0..0, self.problems.iter().cloned());
        catalog
    }
}

/// A problem with its own place.
fn problem(
    severity: Severity,
    path: &str,
    package: &str,
    code: &'static str,
    text: String,
    fix: &'static str,
) -> Problem {
    let place = Place { path: path.to_owned(), ..Place::default() };
    let package = (!package.is_empty()).then(|| package.to_owned());
    Problem { package, ..Problem::new(severity, place, code, text, fix) }
}

/// Verifies that the result can be read: the loader's errors for a package.
fn check(package: &BuiltPackage, origin: &str) -> Vec<Problem> {
    let catalog = Catalog::from_bytes(origin, package.text(Format::Json).as_bytes());
    catalog.problems.into_iter().filter(|problem| problem.severity == Severity::Error).collect()
}

#[cfg(test)]
mod tests;
