//! The catalogs that a command reads: the cluster's, or a directory.

use std::sync::Arc;

use olm_catalog::{Catalog, Package, Unknown};
use olm_manager::catalogs::{CatalogRef, Fetcher, LoadedCatalog};

use crate::{
    args::{CatalogArgs, Global},
    context,
    exit::{Code, Failure},
};

/// Reads them. What is wrong with a directory's catalog is told on standard error; the rest of it counts.
pub async fn read(global: &Global, args: &CatalogArgs) -> Result<Vec<LoadedCatalog>, Failure> {
    let catalogs = match &args.catalog_dir {
        Some(dir) => {
            if !dir.is_dir() {
                return Err(Failure::new(Code::NotFound, format!("{} is not a directory", dir.display())));
            }
            let catalog = Catalog::load_dir(dir);
            for problem in &catalog.problems {
                eprintln!("warning: {problem}");
            }
            vec![LoadedCatalog {
                reference: CatalogRef { namespace: String::new(), name: dir.display().to_string() },
                display_name: dir.display().to_string(),
                publisher: String::new(),
                priority: 0,
                catalog: Arc::new(catalog),
            }]
        }
        None => {
            let client = context::connect(global).await?;
            Fetcher::service_proxy(client).fetch().await.map_err(|e| {
                Failure::new(Code::Unexpected, e.to_string())
                    .hint("is the manager running? kubectl get pods -n olm")
            })?
        }
    };
    let Some(wanted) = &args.catalog else { return Ok(catalogs) };
    let chosen: Vec<_> = catalogs.iter().filter(|c| is_named(&c.reference, wanted)).cloned().collect();
    if chosen.is_empty() {
        let names: Vec<String> = catalogs.iter().map(|c| c.reference.name.clone()).collect();
        let mut failure = Failure::new(Code::NotFound, format!("catalog `{wanted}` not found"));
        let nearest = olm_version::suggest(wanted, &names, 3);
        if !nearest.is_empty() {
            failure = failure.hint(format!("did you mean {}?", nearest.join(", ")));
        }
        return Err(failure);
    }
    Ok(chosen)
}

/// `NAME` or `NAMESPACE/NAME`.
pub fn is_named(reference: &CatalogRef, wanted: &str) -> bool {
    match wanted.split_once('/') {
        Some((namespace, name)) => reference.namespace == namespace && reference.name == name,
        None => reference.name == wanted,
    }
}

/// A package in the first catalog that has it.
pub fn find<'a>(
    catalogs: &'a [LoadedCatalog],
    package: &str,
) -> Result<(&'a LoadedCatalog, &'a Package), Failure> {
    let found = catalogs.iter().find_map(|c| c.catalog.packages.get(package).map(|p| (c, p)));
    found.ok_or_else(|| {
        let names: Vec<String> = catalogs.iter().flat_map(|c| c.catalog.packages.keys().cloned()).collect();
        let failure = Failure::new(Code::NotFound, format!("package `{package}` not found"));
        match olm_version::suggest(package, &names, 3) {
            nearest if nearest.is_empty() => failure.hint("run `olm search` to see what the catalogs have"),
            nearest => failure.hint(format!("did you mean {}?", nearest.join(", "))),
        }
    })
}

/// An unknown name as a failure with exit code 3.
pub fn unknown(unknown: &Unknown) -> Failure {
    Failure::new(Code::NotFound, unknown.to_string())
}
