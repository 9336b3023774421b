//! From a Subscription to what the resolver is asked.

use kube::ResourceExt;
use olm_api::{
    ClusterServiceVersion, Subscription,
    subscription::{DependencyPolicy, UpgradeConstraintPolicy},
};
use olm_plan::universe_of;
use olm_resolver::{CatalogRef, Request, Universe, UpgradePolicy, VersionWish};

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

pub(super) fn universe(catalogs: &[LoadedCatalog]) -> Universe {
    let list: Vec<_> = catalogs.iter().map(|c| (c.reference.clone(), c.catalog.as_ref())).collect();
    let mut universe = universe_of(&list);
    for catalog in catalogs {
        universe.set_priority(&catalog.reference, catalog.priority);
    }
    universe
}
