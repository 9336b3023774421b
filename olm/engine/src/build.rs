//! From a choice to its plan: reads the bundle, renders it and compares it with the live objects.

use std::{collections::BTreeSet, sync::Arc};

use kube::ResourceExt;
use olm_api::{OperatorGroup, Subscription, names};
use olm_bundle::Bundle;
use olm_catalog::Package;
use olm_plan::{CatalogRisk, ClusterFacts, Fact, ObjectRef, Phase, PlanInput, claim, make_plan, reads};
use olm_resolver::{Action, Resolved};
use serde_json::{Value, json};

use crate::{
    Change, Refusal, bundle_of,
    catalogs::LoadedCatalog,
    channel, cluster_facts, request,
    resources::Resources,
    signatures,
    snapshot::{self, Snapshot},
    targets::Targets,
};

/// A chosen bundle and its origin.
pub(super) struct Loaded<'a> {
    source: &'a LoadedCatalog,
    package: Arc<Package>,
    pub(super) bundle: Bundle,
}

pub(super) async fn load<'a>(
    catalogs: &'a [LoadedCatalog],
    resolved: &Resolved,
) -> Result<Loaded<'a>, Refusal> {
    let chosen = &resolved.chosen;
    let gone = || Refusal::BundleGone { bundle: chosen.name.clone(), catalog: chosen.catalog.to_string() };
    let source = catalogs.iter().find(|c| c.reference == chosen.catalog).ok_or_else(gone)?;
    let package = request::read(source, &chosen.package).await?.ok_or_else(gone)?;
    let entry = package.bundles.get(&chosen.name).ok_or_else(gone)?;
    let bundle =
        source.bundle(entry).await.map_err(|error| Refusal::bundle(&entry.name, &source.reference, error))?;
    Ok(Loaded { source, package, bundle })
}

pub(super) struct Destination<'a> {
    pub(super) targets: &'a Targets,
    /// The OperatorGroups of the namespace, including one that another plan makes first.
    pub(super) groups: &'a [Arc<OperatorGroup>],
    /// Whether another plan runs first and makes a missing namespace.
    pub(super) namespace_planned: bool,
}

/// The CRDs that other operators of the namespace own.
fn owned_by_others(snapshot: &Snapshot, resolved: &Resolved) -> BTreeSet<String> {
    let of_this = |name: &str| {
        resolved.chosen.name == name || resolved.from.as_ref().is_some_and(|from| from.name == name)
    };
    let others = snapshot.csvs.iter().filter(|csv| {
        csv.metadata.deletion_timestamp.is_none()
            && !csv.labels().contains_key(names::LABEL_COPIED_FROM)
            && !of_this(&csv.name_any())
    });
    others.flat_map(|csv| csv.spec.owned_crds()).map(|crd| crd.name.clone()).collect()
}

/// The change to the chosen bundle alone.
pub(super) async fn build(
    resources: &Resources,
    subscription: &Subscription,
    snapshot: &Snapshot,
    loaded: Loaded<'_>,
    destination: &Destination<'_>,
    resolved: Resolved,
) -> Result<Change, Refusal> {
    let namespace = request::namespace(subscription);
    let Loaded { source, package, bundle } = &loaded;
    let config = subscription.spec.config.as_ref();
    let mut rendered = destination.targets.render(&namespace, bundle, config);
    if let Ok(rendered) = &mut rendered {
        claim(rendered, &resolved, &namespace);
    }
    let replaced = snapshot.csv(resolved.from.as_ref().map(|from| from.name.as_str()).unwrap_or_default());
    // The installed version is rendered from the cluster's copy: the catalog may have dropped it.
    let previous = replaced
        .filter(|_| resolved.action == Action::Upgrade)
        .and_then(|csv| destination.targets.render(&namespace, &bundle_of(csv), config).ok())
        .map(|mut rendered| {
            rendered.phases.retain(|(phase, _)| *phase != Phase::Crds);
            rendered
        });

    let groups: Vec<Value> =
        destination.groups.iter().filter_map(|group| serde_json::to_value(group.as_ref()).ok()).collect();
    let facts = ClusterFacts {
        kubernetes: snapshot.kubernetes.clone(),
        from_channel: channel::before(subscription, &snapshot.subscriptions, package, &resolved),
        catalog_risk: Some(CatalogRisk::of(&source.catalog)),
        owned_crds: Fact::Known(owned_by_others(snapshot, &resolved)),
        policies: snapshot.policies.clone(),
        ..ClusterFacts::default()
    };
    let subscription_name = subscription.name_any();
    let input = PlanInput {
        namespace: &namespace,
        subscription: &subscription_name,
        approval: subscription.spec.install_plan_approval,
        resolved: &resolved,
        catalog_digest: &source.catalog.digest,
        bundle,
        rendered: rendered.as_ref(),
        previous: previous.as_ref(),
        operator_groups: &groups,
        target_namespaces: &destination.targets.namespaces,
        facts: &facts,
    };
    let verified = async {
        let entry = package.bundles.get(&resolved.chosen.name).filter(|_| resolved.action != Action::None);
        match (snapshot.policies.known(), entry, &rendered) {
            (Some(policies), Some(entry), Ok(rendered)) => {
                signatures::verify(policies, source, entry, rendered).await
            }
            _ => Vec::new(),
        }
    };
    let (seen, mut facts, verified) = tokio::join!(
        snapshot::read_live(resources, reads(&input)),
        cluster_facts::read(resources, snapshot.caller, &input),
        verified,
    );
    facts.signatures = verified;
    let (mut live, unreadable) = seen?;
    if destination.namespace_planned {
        let made = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        live.entry(ObjectRef::new("v1", "Namespace", None, &namespace)).or_insert(made);
    }
    facts.unreadable = unreadable;
    cluster_facts::complete(resources.client(), &mut facts, &input, &live).await;
    let plan = make_plan(&PlanInput { facts: &facts, ..input }, &live);
    let replaces = replaced
        .filter(|_| resolved.action == Action::Upgrade)
        .map(ResourceExt::name_any)
        .filter(|name| *name != resolved.chosen.name);
    Ok(Change { plan, resolved, replaces, along: Vec::new(), bundle: loaded.bundle })
}
