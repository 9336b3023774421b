//! The change that a Subscription leads to: request, snapshot, resolution, rendered objects, plan.
//!
//! The command line and the console call [`preview`], the controllers [`evaluate`], or [`choose`] and
//! [`build_outcome`]; the returned plan is what is applied. The decisions are pure ([`olm_resolver`],
//! [`olm_bundle`], [`olm_plan`], [`installed`], [`crate::targets`]).

use std::{
    collections::BTreeMap,
    future::ready,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use kube::{Client, ResourceExt};
use olm_api::{ClusterServiceVersion, OperatorGroup, Subscription, names};
use olm_bundle::{Bundle, InstallModes};
use olm_plan::{AlongRef, Fact, Plan, Policies};
use olm_resolver::{Action, ChosenBundle, Request, Resolved, resolve_one};

use crate::{
    Refusal, Snapshot, along, build,
    catalogs::{CatalogVisibility, LoadedCatalog},
    installed, policies, prepared, request,
    resources::Resources,
    site::manager_namespace,
    snapshot,
};

/// The result of evaluating a Subscription.
pub enum Outcome {
    /// Boxed because it is by far the larger variant.
    Change(Box<Change>),
    /// The installed version is the requested one.
    UpToDate(Box<Resolved>),
}

/// A change with the inputs needed to apply it.
pub struct Change {
    pub plan: Plan,
    pub resolved: Resolved,
    /// The ClusterServiceVersion that is removed.
    pub replaces: Option<String>,
    /// The operators that are installed along with it.
    pub along: Vec<AlongRef>,
    pub bundle: Bundle,
}

/// Computes what a Subscription (an existing one, or one that is about to be created) would change.
///
/// When nothing needs to change, the plan has [`olm_plan::PlanAction::None`] and no objects. Objects that the
/// caller may not read count as absent in the diff; the digest does not depend on them.
///
/// # Errors
/// [`Refusal`] when no version can be chosen or its bundle is unreadable. A plan that a finding blocks is not
/// an error: it is returned with its findings.
pub async fn preview(
    client: &Client,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
) -> Result<Plan, Refusal> {
    let policies = policies::read(client, &request::namespace(subscription)).await;
    preview_under(client, catalogs, subscription, policies).await
}

/// As [`preview`], under other InstallPolicies than those of the cluster.
pub async fn preview_under(
    client: &Client,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    policies: Fact<Policies>,
) -> Result<Plan, Refusal> {
    preview_of(client, catalogs, subscription, policies, None).await
}

/// As [`preview`], with an OperatorGroup that is created before the Subscription.
pub async fn preview_in_group(
    client: &Client,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    group: OperatorGroup,
) -> Result<Plan, Refusal> {
    let policies = policies::read(client, &request::namespace(subscription)).await;
    preview_of(client, catalogs, subscription, policies, Some(group)).await
}

async fn preview_of(
    client: &Client,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    policies: Fact<Policies>,
    new_group: Option<OperatorGroup>,
) -> Result<Plan, Refusal> {
    let resources = Resources::new(client.clone());
    let namespace = request::namespace(subscription);
    let mut snapshot = Snapshot::read(&resources, &namespace, ready(policies)).await?.for_user();
    snapshot.groups.extend(new_group.map(Arc::new));
    let visibility = CatalogVisibility::of(&namespace, manager_namespace(), &snapshot.groups);
    check_catalog_visible(subscription, &visibility)?;
    let catalogs = &visibility.among(catalogs);
    match evaluate(&resources, catalogs, subscription, &snapshot).await? {
        Outcome::Change(change) => Ok(change.plan),
        Outcome::UpToDate(resolved) => {
            // The installed bundle is rendered even without a change: its rights and its place in the catalog
            // are shown, and callers that show a plan need no second case.
            let change =
                along::build_change(&resources, catalogs, subscription, &snapshot, *resolved).await?;
            Ok(change.plan)
        }
    }
}

/// The version that a Subscription would get, without the change.
///
/// # Errors
/// [`Refusal`] when no version can be chosen.
pub async fn resolve(
    client: &Client,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
) -> Result<Resolved, Refusal> {
    let resources = Resources::new(client.clone());
    let namespace = request::namespace(subscription);
    let policies = policies::read(client, &namespace);
    let snapshot = Snapshot::read(&resources, &namespace, policies).await?;
    let visibility = CatalogVisibility::of(&namespace, manager_namespace(), &snapshot.groups);
    check_catalog_visible(subscription, &visibility)?;
    choose(&resources, &visibility.among(catalogs), subscription, &snapshot).await
}

/// The install modes of the version that a Subscription would get.
///
/// # Errors
/// [`Refusal`] when no version can be chosen or its bundle is unreadable.
pub async fn install_modes(
    client: &Client,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
) -> Result<InstallModes, Refusal> {
    let resolved = resolve(client, catalogs, subscription).await?;
    Ok(build::load(catalogs, &resolved).await?.bundle.install_modes())
}

/// Checks that the catalog which a Subscription names may be used in its namespace.
pub fn check_catalog_visible(
    subscription: &Subscription,
    visibility: &CatalogVisibility<'_>,
) -> Result<(), Refusal> {
    let spec = &subscription.spec;
    visibility
        .refuses(&spec.source_namespace, &spec.source)
        .map_or(Ok(()), |(text, fix)| Err(Refusal::CatalogOutOfSight { text, fix }))
}

/// The change of a Subscription, given a snapshot.
pub async fn evaluate(
    resources: &Resources,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    snapshot: &Snapshot,
) -> Result<Outcome, Refusal> {
    let resolved = choose(resources, catalogs, subscription, snapshot).await?;
    build_outcome(resources, catalogs, subscription, snapshot, resolved).await
}

/// The change of a choice.
pub async fn build_outcome(
    resources: &Resources,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    snapshot: &Snapshot,
    resolved: Resolved,
) -> Result<Outcome, Refusal> {
    if resolved.action == Action::None {
        return Ok(Outcome::UpToDate(Box::new(resolved)));
    }
    let change = along::build_change(resources, catalogs, subscription, snapshot, resolved).await?;
    Ok(Outcome::Change(Box::new(change)))
}

/// The change to a bundle that is already chosen: to resume an interrupted plan. `along` is what its
/// InstallPlan records of the operators that are installed along with it.
pub async fn resume_change(
    resources: &Resources,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    snapshot: &Snapshot,
    bundle: &str,
    along: Vec<AlongRef>,
) -> Result<Change, Refusal> {
    let spec = &subscription.spec;
    let source = source_of(catalogs, subscription)?;
    let missing = || Refusal::BundleGone {
        bundle: bundle.to_owned(),
        catalog: format!("{}/{}", source.reference.namespace, source.reference.name),
    };
    let package = prepared(source, &spec.name).await?.ok_or_else(missing)?;
    let entry = package.bundle(bundle).ok_or_else(missing)?;
    let chosen = ChosenBundle {
        catalog: source.reference.clone(),
        package: spec.name.clone(),
        channel: spec
            .channel
            .clone()
            .unwrap_or_else(|| policies::channel_of(&package, bundle, &source.reference, &snapshot.policies)),
        name: bundle.to_owned(),
        version: entry.version.clone(),
    };
    // The version before: the new ClusterServiceVersion may exist already.
    let installed = snapshot.installed_before(subscription, Some(&package), bundle);
    let resolved = Resolved {
        subscription: request::id(subscription),
        action: if installed.is_some() { Action::Upgrade } else { Action::Install },
        chosen,
        from: installed.map(installed::reference),
        path: Vec::new(),
        why: "continuing an approved plan".into(),
        rejected: Vec::new(),
        dependencies: Vec::new(),
        deprecations: Vec::new(),
    };
    along::build_resumed_change(resources, catalogs, subscription, snapshot, resolved, along).await
}

/// The version that a Subscription gets.
pub async fn choose(
    resources: &Resources,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    snapshot: &Snapshot,
) -> Result<Resolved, Refusal> {
    let source = source_of(catalogs, subscription)?;
    let package = prepared(source, &subscription.spec.name).await?;
    let installed = snapshot.installed(subscription, package.as_deref());
    let mut requests = vec![request::request(subscription, installed)?];
    requests.extend(others(catalogs, subscription, snapshot).await);
    let universe = request::universe(catalogs, &requests).await?;
    let facts = snapshot::facts(resources, &universe, &requests, snapshot).await?;
    resolve_one(&universe, &requests, &facts, 0)
        .map_err(|explanation| Refusal::Unresolvable(Box::new(Arc::unwrap_or_clone(explanation))))
}

/// A digest of the catalog content that a decision about a Subscription reads; `None` where it is unreadable.
/// A new edition of a catalog leaves most packages unchanged.
pub async fn catalog_content_hash(
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    snapshot: &Snapshot,
) -> Option<u64> {
    let mut requests = vec![request::request(subscription, None).ok()?];
    requests.extend(others(catalogs, subscription, snapshot).await);
    let universe = request::universe(catalogs, &requests).await.ok()?;
    let mut hasher = DefaultHasher::new();
    for catalog in catalogs {
        (&catalog.reference, catalog.priority).hash(&mut hasher);
        let content = universe.catalogs().get(&catalog.reference)?;
        for name in content.packages.keys() {
            (name, prepared::edition(catalog, name)?).hash(&mut hasher);
        }
    }
    Some(hasher.finish())
}

/// The requests of the namespace's other Subscriptions, since those with the same dependencies constrain the
/// choice. An invalid one is not an error of this Subscription; its operator then counts as one that stays.
async fn others(
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    snapshot: &Snapshot,
) -> Vec<Request> {
    let mut requests = Vec::new();
    for other in snapshot.subscriptions.iter().filter(|s| s.name_any() != subscription.name_any()) {
        let Ok(source) = source_of(catalogs, other) else { continue };
        let Ok(Some(package)) = prepared(source, &other.spec.name).await else { continue };
        let installed = snapshot.installed(other, Some(&package));
        requests.extend(request::request(other, installed));
    }
    requests
}

/// The catalog that a Subscription names, or why that name is invalid.
pub fn source_of<'a>(
    catalogs: &'a [LoadedCatalog],
    subscription: &Subscription,
) -> Result<&'a LoadedCatalog, Refusal> {
    let spec = &subscription.spec;
    let same = |c: &&LoadedCatalog| {
        c.reference.namespace == spec.source_namespace && c.reference.name == spec.source
    };
    catalogs.iter().find(same).ok_or_else(|| {
        let known: Vec<String> =
            catalogs.iter().map(|c| format!("{}/{}", c.reference.namespace, c.reference.name)).collect();
        let wanted = format!("{}/{}", spec.source_namespace, spec.source);
        let nearest = olm_version::suggest(&wanted, &known, 3);
        Refusal::UnknownCatalog { catalog: wanted, nearest }
    })
}

/// A ClusterServiceVersion of the cluster as a bundle: enough to render its workload.
pub fn bundle_of(csv: &ClusterServiceVersion) -> Bundle {
    let csv = restore_annotations(csv);
    let mut raw = serde_json::to_value(&csv).unwrap_or_default();
    // Every annotation of the ClusterServiceVersion is copied to its pods. Annotations that tools and
    // admission policies add on the cluster are not the author's and would roll the Deployment out without
    // need.
    if let Some(annotations) = raw.pointer_mut("/metadata/annotations").and_then(|a| a.as_object_mut()) {
        let recorded = [names::ANNOTATION_REQUESTED_BY, names::ANNOTATION_REQUESTED_BY_GROUPS];
        annotations
            .retain(|key, _| !key.starts_with("kubectl.kubernetes.io/") && !recorded.contains(&key.as_str()));
    }
    // Its CRDs are on the cluster already; a bundle without them counts as broken, so stubs with their names
    // are added. A CRD is listed once for each of its versions.
    let mut crds: BTreeMap<&str, serde_json::Value> = BTreeMap::new();
    for crd in csv.spec.owned_crds() {
        let stand_in = crds.entry(&crd.name).or_insert_with(|| {
            serde_json::json!({
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": { "name": crd.name },
                "spec": { "group": crd.group(), "versions": [], "names": { "kind": crd.kind } },
            })
        });
        if let Some(versions) = stand_in["spec"]["versions"].as_array_mut() {
            versions.push(serde_json::json!({ "name": crd.version }));
        }
    }
    let crds = crds.into_values().collect();
    Bundle::from_installed(csv, raw, crds)
}

/// A version with all its annotations in place, and without status.
pub fn restore_annotations(csv: &ClusterServiceVersion) -> ClusterServiceVersion {
    let (metadata, spec) = (csv.metadata.clone(), csv.spec.clone());
    let mut csv = ClusterServiceVersion { metadata, spec, status: None };
    let shared = std::mem::take(&mut csv.spec.shared_annotations);
    csv.annotations_mut().extend(shared.iter().map(|(key, value)| (key.clone(), value.clone())));
    csv
}
