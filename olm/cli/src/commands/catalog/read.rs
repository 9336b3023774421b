//! Reads the catalog of an argument.

use std::sync::Arc;

use olm_catalog::{Catalog, Package, Problem, Severity};
use olm_plan::shell_word;

use crate::{
    args::RegistryArgs,
    exit::{Code, Failure},
    prose::printable,
    source::{self, Named, cache},
};

/// Maximum number of errors printed as warnings; `olm catalog validate` lists all.
const MAX_REPORTED: usize = 10;

/// Reads a catalog with its content, from the cache if it is unchanged. Errors of the package, or of all
/// packages, are printed to standard error; the valid part is returned.
pub async fn load(text: &str, registry: &RegistryArgs, package: Option<&str>) -> Result<Catalog, Failure> {
    let catalog = cache::load(&Named::parse(text)?, &source::options(registry)?).await?;
    report_problems(&catalog, package);
    if catalog.is_empty() {
        return Err(Failure::new(Code::NotFound, format!("{text} contains no readable package"))
            .hint(format!("olm catalog validate {}", shell_word(text))));
    }
    Ok(catalog)
}

/// Prints the first errors.
pub fn report_problems(catalog: &Catalog, package: Option<&str>) {
    let concerns = |problem: &&Problem| {
        let of = problem.package.as_deref();
        problem.severity == Severity::Error && (package.is_none() || of.is_none() || of == package)
    };
    let errors: Vec<&Problem> = catalog.problems.iter().filter(concerns).collect();
    for problem in errors.iter().take(MAX_REPORTED) {
        eprintln!("warning: {}", printable(&problem.to_string()));
    }
    if errors.len() > MAX_REPORTED {
        eprintln!("warning: and {} more; `olm catalog validate` shows all", errors.len() - MAX_REPORTED);
    }
}

/// A package, or an error with similar names.
pub fn package(catalog: &Catalog, name: &str) -> Result<Arc<Package>, Failure> {
    let read = catalog.package(name).map_err(|error| Failure::new(Code::Unexpected, error.to_string()))?;
    read.ok_or_else(|| Failure::from(&catalog.nearest_package(name)))
}
