//! From a Subscription to what the resolver is asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::ResourceExt;
use olm_api::{
    ClusterServiceVersion, Subscription,
    subscription::{DependencyPolicy, UpgradeConstraintPolicy},
};
use olm_catalog::{Package, Summary};
use olm_plan::{needs_of, universe_of};
use olm_resolver::{CatalogRef, Gvk, Request, Universe, UpgradePolicy, VersionWish};

use super::{installed, refusal::Refusal};
use crate::catalogs::LoadedCatalog;

pub(super) fn namespace(subscription: &Subscription) -> String {
    subscription.namespace().unwrap_or_default()
}

/// `namespace/name` of the Subscription.
pub(super) fn id(subscription: &Subscription) -> String {
    format!("{}/{}", namespace(subscription), subscription.name_any())
}

pub(super) fn request(
    subscription: &Subscription,
    installed: Option<&ClusterServiceVersion>,
) -> Result<Request, Refusal> {
    let spec = &subscription.spec;
    let version = spec.version.as_deref().map(VersionWish::parse).transpose();
    let version = version.map_err(|error| Refusal::Field { field: "version", text: error.to_string() })?;
    Ok(Request {
        subscription: id(subscription),
        package: spec.name.clone(),
        catalog: CatalogRef::new(&spec.source_namespace, &spec.source),
        channel: spec.channel.clone(),
        starting_csv: spec.starting_csv.clone(),
        version,
        installed: installed.map(installed::reference),
        skip_versions: spec.skip_versions.clone(),
        policy: match spec.upgrade_constraint_policy.unwrap_or_default() {
            UpgradeConstraintPolicy::CatalogProvided => UpgradePolicy::CatalogProvided,
            UpgradeConstraintPolicy::SelfCertified => UpgradePolicy::SelfCertified,
        },
        dependencies: match spec.dependencies.unwrap_or_default() {
            DependencyPolicy::Install => olm_resolver::DependencyPolicy::Install,
            DependencyPolicy::RequirePresent => olm_resolver::DependencyPolicy::RequirePresent,
        },
    })
}

/// What the resolver may choose from: the wanted package, and whatever its bundles and theirs may need. All other
/// packages stay on the disk.
pub(super) async fn universe(catalogs: &[LoadedCatalog], request: &Request) -> Result<Universe, Refusal> {
    let mut chosen: Vec<(CatalogRef, Vec<Arc<Package>>)> =
        catalogs.iter().map(|catalog| (catalog.reference.clone(), Vec::new())).collect();
    let mut wanted = vec![request.package.clone()];
    let mut seen: BTreeSet<String> = wanted.iter().cloned().collect();
    let mut asked: BTreeSet<Gvk> = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        for (catalog, (_, packages)) in catalogs.iter().zip(&mut chosen) {
            let Some(package) = read(catalog, &name).await? else { continue };
            let (names, apis) = needs_of(&package);
            let apis = apis.into_iter().filter(|api| asked.insert(api.clone()));
            let providers = apis.flat_map(|api| catalogs.iter().flat_map(move |c| providers(c, api.clone())));
            wanted.extend(names.into_iter().chain(providers).filter(|name| seen.insert(name.clone())));
            packages.push(package);
        }
    }
    // For a name that is wrong, the right ones are of interest.
    for (catalog, (reference, packages)) in catalogs.iter().zip(&mut chosen) {
        if *reference == request.catalog && !packages.iter().any(|package| package.name == request.package) {
            let stub = |name: &String| Package { name: name.clone(), ..Package::default() };
            let others = catalog.catalog.summaries().map(|summary| &summary.name);
            packages.extend(others.filter(|name| !seen.contains(*name)).map(|name| Arc::new(stub(name))));
        }
    }
    let mut universe = universe_of(&chosen);
    for catalog in catalogs {
        universe.set_priority(&catalog.reference, catalog.priority);
    }
    Ok(universe)
}

/// The packages of a catalog that provide an API in any of their versions.
fn providers(catalog: &LoadedCatalog, api: Gvk) -> impl Iterator<Item = String> {
    let provides = move |summary: &&Summary| {
        summary
            .provides
            .iter()
            .any(|gvk| (&gvk.group, &gvk.version, &gvk.kind) == (&api.group, &api.version, &api.kind))
    };
    catalog.catalog.summaries().filter(provides).map(|summary| summary.name.clone())
}

/// A package of a catalog.
pub(crate) async fn read(catalog: &LoadedCatalog, package: &str) -> Result<Option<Arc<Package>>, Refusal> {
    catalog.package(package).await.map_err(|error| Refusal::CatalogUnreadable {
        catalog: catalog.reference.to_string(),
        text: error.to_string(),
    })
}
