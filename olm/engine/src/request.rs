//! From a Subscription to the input of the resolver.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::ResourceExt;
use olm_api::{
    ClusterServiceVersion, Subscription,
    subscription::{DependencyPolicy, UpgradeConstraintPolicy},
};
use olm_catalog::Summary;
use olm_resolver::{
    Catalog, CatalogRef, Gvk, Health, Package, Request, Universe, UpgradePolicy, VersionRequest,
};

use crate::{catalogs::LoadedCatalog, installed, prepared::prepared, refusal::Refusal};

pub(super) fn namespace(subscription: &Subscription) -> String {
    subscription.namespace().unwrap_or_default()
}

pub(super) fn id(subscription: &Subscription) -> String {
    format!("{}/{}", namespace(subscription), subscription.name_any())
}

pub(super) fn request(
    subscription: &Subscription,
    installed: Option<&ClusterServiceVersion>,
) -> Result<Request, Refusal> {
    let spec = &subscription.spec;
    let version = spec.version.as_deref().map(VersionRequest::parse).transpose();
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

/// The candidates of the resolver: the requested packages, and all that their bundles may transitively need.
/// Other packages stay on disk, unless a bundle requires what any bundle may have.
pub(super) async fn universe(catalogs: &[LoadedCatalog], requests: &[Request]) -> Result<Universe, Refusal> {
    let mut chosen: Vec<Catalog> = catalogs
        .iter()
        .map(|catalog| Catalog { priority: catalog.priority, health: Health::Ready, ..Catalog::default() })
        .collect();
    let mut wanted: Vec<String> = requests.iter().map(|request| request.package.clone()).collect();
    let mut seen: BTreeSet<String> = wanted.iter().cloned().collect();
    let mut asked: BTreeSet<Gvk> = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        for (catalog, content) in catalogs.iter().zip(&mut chosen) {
            let Some(package) = prepared(catalog, &name).await? else { continue };
            let (names, apis, anything) = package.needs();
            let apis = apis.iter().filter(|api| asked.insert((*api).clone()));
            let providers = apis.flat_map(|api| catalogs.iter().flat_map(move |c| providers(c, api)));
            let others = catalogs.iter().filter(|_| anything).flat_map(|c| c.catalog.summaries());
            let others = others.map(|summary| summary.name.clone());
            let more = names.iter().cloned().chain(providers).chain(others);
            wanted.extend(more.filter(|name| seen.insert(name.clone())));
            content.packages.insert(name.clone(), package);
        }
    }
    // For a misspelt name, the existing names are suggested.
    for (catalog, content) in catalogs.iter().zip(&mut chosen) {
        let wrong = |request: &Request| {
            request.catalog == catalog.reference && !content.packages.contains_key(&request.package)
        };
        if requests.iter().any(wrong) {
            for Summary { name, .. } in catalog.catalog.summaries().filter(|s| !seen.contains(&s.name)) {
                let stub = Package::new(name, "", None, Vec::new(), Vec::new());
                content.packages.insert(name.clone(), Arc::new(stub));
            }
        }
    }
    Ok(Universe::new(catalogs.iter().map(|catalog| catalog.reference.clone()).zip(chosen)))
}

/// The packages of a catalog that provide an API in any of their versions.
fn providers<'a>(catalog: &'a LoadedCatalog, api: &'a Gvk) -> impl Iterator<Item = String> + 'a {
    let provides = move |summary: &&Summary| {
        summary
            .provides
            .iter()
            .any(|gvk| (&gvk.group, &gvk.version, &gvk.kind) == (&api.group, &api.version, &api.kind))
    };
    catalog.catalog.summaries().filter(provides).map(|summary| summary.name.clone())
}

pub async fn read(
    catalog: &LoadedCatalog,
    package: &str,
) -> Result<Option<Arc<olm_catalog::Package>>, Refusal> {
    catalog.package(package).await.map_err(|error| Refusal::CatalogUnreadable {
        catalog: catalog.reference.to_string(),
        text: error.to_string(),
    })
}
