//! Recorded questions to the resolvers of OLM v0 and v1 on a real catalog, and the same answers, except for
//! the differences listed here with their reasons; and cases of their own tests that need a catalog or a
//! bundle.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

mod cases;
mod together;
mod v0;
mod v1;

use std::path::PathBuf;

use olm_plan::universe_of;
use olm_resolver::{
    CatalogRef, Explanation, Facts, Installed, InstalledRef, Request, Resolved, Universe, resolve,
};
use serde::de::DeserializeOwned;

fn shared(path: &str) -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let root = std::env::var_os("OLM_SHARED_DATA").map_or_else(|| PathBuf::from(default), PathBuf::from);
    let file = root.join(path);
    if file.exists() {
        return Some(file);
    }
    println!("skipped: {} is not there (OLM_SHARED_DATA names the folder)", file.display());
    None
}

fn catalog_of(name: &str, json: &[u8]) -> Universe {
    let catalog = olm_catalog::Catalog::from_bytes(name, json);
    let packages =
        catalog.summaries().map(|summary| catalog.package(&summary.name).unwrap().unwrap()).collect();
    universe_of(&[(id(), packages)])
}

/// The catalog of the recordings.
fn load() -> Option<Universe> {
    let universe =
        catalog_of("community-dev", &std::fs::read(shared("catalogs/community-dev.json")?).unwrap());
    assert!(universe.catalog(&id()).unwrap().packages.len() >= 40);
    Some(universe)
}

fn recorded<T: DeserializeOwned>(file: &str) -> Option<Vec<T>> {
    let text = std::fs::read_to_string(shared(file)?).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn id() -> CatalogRef {
    CatalogRef::new("test", "cat")
}

fn request(package: &str, channel: Option<&str>) -> Request {
    Request {
        subscription: format!("test/{package}"),
        package: package.to_owned(),
        catalog: id(),
        channel: channel.map(str::to_owned),
        ..Request::default()
    }
}

/// Resolves one package, with an installed bundle of the same Subscription.
fn ask(
    universe: &Universe,
    package: &str,
    channel: Option<&str>,
    installed: Option<&str>,
) -> Result<Resolved, Explanation> {
    let mut request = request(package, channel);
    let mut facts = Facts::default();
    if let Some(name) = installed {
        let bundle = universe.package(&id(), package).unwrap().bundle(name).unwrap();
        request.installed = Some(InstalledRef { name: name.to_owned(), version: bundle.version.clone() });
        facts.installed.push(Installed {
            name: name.to_owned(),
            namespace: "test".into(),
            package: Some(package.to_owned()),
            version: bundle.version.clone(),
            subscription: Some(request.subscription.clone()),
            provides: bundle.provides.clone(),
            requires: bundle.requires.clone(),
            labels: bundle.labels.clone(),
            properties: bundle.properties.clone(),
        });
    }
    let answer = resolve(universe, &[request], &facts).items.remove(0);
    answer.map_err(|why| Explanation::clone(&why))
}
