//! Observes the state of a ClusterServiceVersion: from the cache, and by name what it does not have.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ServiceAccount},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt, api::ListParams, core::GroupVersionKind};
use olm_api::{
    ClusterServiceVersion, InstallPlan, OperatorGroup, Subscription, csv::CsvPhase,
    install_plan::InstallPlanPhase, names,
};
use olm_bundle::{Manifest, Phase, Rendered};
use olm_engine::{
    bundle_of,
    ownership::{Owner, own},
    resources::ResourceError,
    targets::{self, Targets},
};
use olm_plan::{Installed, ObjectRef, reserved};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    apis::{self, Providers},
    delayed_reports::DelayedReports,
    facts::{Account, ApiService, Desired, Needs, Observed, Refused, Successor, name_of},
    parts::CachedAccount,
    pods, rights,
    serving::{self, Known, RenderedServing, Serving},
    workload::Workload,
};
use crate::{
    cache::ClusterCache,
    context::{Ctx, Error},
};

/// The state of this controller outside the API server.
#[derive(Debug, Default)]
pub(super) struct Memory {
    providers: Mutex<Providers>,
    /// Users' roles that are up to date.
    pub(super) roles: Known,
    pub(super) delayed_reports: DelayedReports,
}

impl Memory {
    pub(super) fn providers(&self) -> MutexGuard<'_, Providers> {
        self.providers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Indexes all versions, once: the watch that keeps the index current may not have delivered all of them.
    pub(super) fn seed(&self, cache: &ClusterCache) {
        let mut providers = self.providers();
        if !std::mem::replace(&mut providers.seeded, true) {
            cache.csvs.each(|csv| drop(providers.note(csv)));
        }
    }
}

/// The observed state, and further results.
pub(super) struct Observation<'a> {
    pub(super) observed: Observed<'a>,
    /// All versions in the namespace.
    pub(super) csvs: Vec<Arc<ClusterServiceVersion>>,
    /// The package, where a Subscription has it.
    pub(super) package: Option<String>,
    pub(super) serving: Serving,
}

pub(super) async fn observe<'a>(
    csv: &'a ClusterServiceVersion,
    ctx: &Ctx,
    memory: &Memory,
) -> Result<Observation<'a>, Error> {
    let namespace = csv.namespace().unwrap_or_default();
    let name = csv.name_any();
    let cache = &ctx.cache;
    let csvs = cache.csvs.in_namespace(&namespace);
    let mut groups = cache.groups.in_namespace(&namespace);
    if groups.is_empty() {
        // It may have been created just now, with the version.
        let live = Api::<OperatorGroup>::namespaced(ctx.client.clone(), &namespace);
        let live = live.list(&ListParams::default()).await;
        let live = live.map_err(Error::kube(format!("list OperatorGroups in {namespace}")))?;
        groups = live.items.into_iter().map(Arc::new).collect();
    }
    let upgradeable = |wanted: Option<&str>| {
        let condition = wanted.and_then(|wanted| cache.conditions.get(&namespace, wanted));
        condition.map_or(Ok(()), |condition| condition.upgradeable())
    };
    let subscriptions = cache.subscriptions.in_namespace(&namespace);
    let subscription = subscription_of(csv, &subscriptions);
    let (mut desired, made, rendered_serving) = match render(csv, &groups, subscription) {
        Ok((desired, made, rendered_serving)) => (Ok(desired), made, rendered_serving),
        Err(refused) => (Err(refused), Vec::new(), RenderedServing::default()),
    };
    let targets = desired.as_ref().map(|d| d.targets.namespaces.clone()).unwrap_or_default();
    let mut owner_conflicts = apis::owned_beside(csv, &csvs);
    owner_conflicts.extend(memory.providers().owner_conflicts(csv, &targets));

    let (needs, deployments) =
        tokio::try_join!(needs(csv, &made, &targets, ctx), deployments(csv, desired.as_ref().ok(), ctx))?;
    let serving = serving::observe(csv, rendered_serving, &csvs, &needs, &memory.roles, ctx).await?;
    if let Ok(desired) = &mut desired {
        serving.stamp(&mut desired.deployments, hash);
    }
    let mut observed = Observed {
        csv,
        upgradeable: upgradeable(Some(&name)),
        predecessor_upgradeable: upgradeable(csv.spec.replaces.as_deref()),
        groups,
        successor: successor(&name, &csvs),
        predecessor: predecessor(csv, &csvs),
        owner_conflicts,
        needs,
        desired,
        deployments,
        failing: BTreeMap::new(),
        applied: memory.delayed_reports.applied(csv).unwrap_or_else(|| {
            csv.status.as_ref().map(|s| s.applied_deployments.clone()).unwrap_or_default()
        }),
        serving: serving.facts(),
        now: Timestamp::now(),
    };
    observed.failing = pods::failing(&observed, &ctx.client).await;
    let package = subscription.map(|s| s.spec.name.clone());
    Ok(Observation { observed, csvs, package, serving })
}

fn next<'a>(name: &str, csvs: &'a [impl Borrow<ClusterServiceVersion>]) -> Option<&'a ClusterServiceVersion> {
    let csvs = || csvs.iter().map(Borrow::<ClusterServiceVersion>::borrow);
    let old = csvs().find(|c| c.metadata.name.as_deref() == Some(name));
    csvs().find(|c| {
        c.spec.replaces.as_deref() == Some(name)
            && c.metadata.deletion_timestamp.is_none()
            && c.metadata.name.as_deref() != Some(name)
            && old.is_none_or(|old| supersedes(c, old))
    })
}

/// Whether a version that names another in `replaces` supersedes it. After a rollback each names the other:
/// then the one that was created later does.
fn supersedes(new: &ClusterServiceVersion, old: &ClusterServiceVersion) -> bool {
    if old.spec.replaces.is_none() || old.spec.replaces != new.metadata.name {
        return true;
    }
    // Times are whole seconds; with equal ones, a version that is being replaced is older than a running one,
    // and that is older than a new one.
    let rank = |csv: &ClusterServiceVersion| match csv.phase() {
        CsvPhase::Deleting => 0,
        CsvPhase::Replacing => 1,
        CsvPhase::Succeeded | CsvPhase::Failed | CsvPhase::Unknown => 2,
        CsvPhase::None | CsvPhase::Pending | CsvPhase::InstallReady | CsvPhase::Installing => 3,
    };
    let age = |csv: &ClusterServiceVersion| {
        (csv.metadata.creation_timestamp.as_ref().map(|t| t.0), rank(csv), csv.metadata.name.clone())
    };
    age(new) > age(old)
}

/// The version after this one, and whether the chain ends in one that runs. Pure.
pub(super) fn successor(name: &str, csvs: &[impl Borrow<ClusterServiceVersion>]) -> Option<Successor> {
    let first = next(name, csvs)?;
    let (mut last, mut seen) = (first, BTreeSet::from([name.to_owned()]));
    // A cyclic chain has no end.
    while seen.insert(last.name_any())
        && let Some(following) = next(&last.name_any(), csvs)
    {
        last = following;
    }
    let circle = next(&last.name_any(), csvs).is_some();
    Some(Successor { name: first.name_any(), runs: !circle && last.phase() == CsvPhase::Succeeded })
}

/// The version before this one; one that names itself has none. Pure.
pub(super) fn predecessor(
    csv: &ClusterServiceVersion,
    csvs: &[impl Borrow<ClusterServiceVersion>],
) -> Option<(String, CsvPhase)> {
    let name = csv.spec.replaces.as_deref().filter(|old| Some(*old) != csv.metadata.name.as_deref())?;
    let mut csvs = csvs.iter().map(Borrow::<ClusterServiceVersion>::borrow);
    let old = csvs.find(|c| c.metadata.name.as_deref() == Some(name)).filter(|old| supersedes(csv, old))?;
    Some((name.to_owned(), old.phase()))
}

/// The Deployments of the version, its rights, and the endpoints that the API server calls.
fn render(
    csv: &ClusterServiceVersion,
    groups: &[Arc<OperatorGroup>],
    subscription: Option<&Subscription>,
) -> Result<(Desired, Vec<Value>, RenderedServing), Refused> {
    let namespace = csv.namespace().unwrap_or_default();
    let bundle = bundle_of(csv);
    let targets: Targets = targets::targets(&namespace, &bundle, groups);
    if targets.namespaces.is_empty() {
        return Err(Refused::NoTargets { group: targets.group });
    }
    let config = subscription.and_then(|s| s.spec.config.as_ref());
    let rendered = targets.render(&namespace, &bundle, config).map_err(Refused::Render)?;
    if let Some((object, why)) = reserved_object(csv, &rendered, &targets) {
        return Err(Refused::Reserved { object, why });
    }
    let owner = Owner::of(csv, subscription.map(|s| s.spec.name.as_str()));
    let rendered_serving = RenderedServing::of(&rendered, &owner);
    let (mut deployments, mut made) = (Vec::new(), Vec::new());
    for (phase, manifests) in rendered.phases {
        match phase {
            Phase::Workloads => deployments.extend(manifests.into_iter().map(|manifest| {
                let mut object = manifest.into_value();
                own(&mut object, &owner);
                let hash = hash(&object["spec"]);
                object["metadata"]["labels"][names::LABEL_DEPLOYMENT_SPEC_HASH] = hash.into();
                object
            })),
            Phase::Rbac => made.extend(manifests.into_iter().map(Manifest::into_value)),
            _ => {}
        }
    }
    Ok((Desired { targets, deployments }, made, rendered_serving))
}

/// The first object of a version that belongs to olm or to Kubernetes, and why.
fn reserved_object(
    csv: &ClusterServiceVersion,
    rendered: &Rendered,
    targets: &Targets,
) -> Option<(String, String)> {
    let namespace = csv.namespace().unwrap_or_default();
    let crds: Vec<&str> = csv.spec.owned_crds().iter().map(|crd| crd.name.as_str()).collect();
    let apis = csv.spec.api_service_definitions.iter().flat_map(|apis| &apis.owned);
    let groups: Vec<&str> = apis.map(|api| api.group.as_str()).collect();
    let targets = &targets.namespaces;
    let installed = Installed { namespace: &namespace, targets, crds: &crds, groups: &groups };
    let condition = super::apply::operator_condition(csv);
    let mut objects = rendered.objects().map(|(_, object)| object).chain(&condition);
    objects.find_map(|object| {
        let why = reserved(object, None, &installed)?;
        Some((ObjectRef::of(object)?.to_string(), why))
    })
}

/// The Subscription that a version is installed for: the one that names it, or else one whose package its
/// label names, as for a version that another has replaced.
pub(super) fn subscription_of<'a>(
    csv: &ClusterServiceVersion,
    subscriptions: &'a [Arc<Subscription>],
) -> Option<&'a Subscription> {
    let name = csv.metadata.name.as_deref();
    let named = |subscription: &&Arc<Subscription>| {
        let status = subscription.status.as_ref();
        name.is_some()
            && status.is_some_and(|s| s.installed_csv.as_deref() == name || s.current_csv.as_deref() == name)
    };
    let namespace = csv.namespace().unwrap_or_default();
    let labelled = |subscription: &&Arc<Subscription>| {
        csv.labels().contains_key(&names::component_label(&subscription.spec.name, &namespace))
    };
    let mut all = subscriptions.iter();
    all.clone().find(named).or_else(|| all.find(labelled)).map(Arc::as_ref)
}

/// Short enough for a label.
pub(super) fn hash(value: &Value) -> String {
    let digest = Sha256::digest(serde_json::to_vec(value).unwrap_or_default());
    digest.iter().take(16).map(|b| format!("{b:02x}")).collect()
}

async fn needs(
    csv: &ClusterServiceVersion,
    made: &[Value],
    targets: &[String],
    ctx: &Ctx,
) -> Result<Needs, Error> {
    let kube_version = match &csv.spec.min_kube_version {
        Some(_) => Some(ctx.resources.kubernetes().await?),
        None => None,
    };
    let (crds, mut accounts, native, granted) = tokio::try_join!(
        crds(csv, ctx),
        accounts(csv, ctx),
        native(csv, ctx),
        rights::granted(made, &ctx.parts, ctx)
    )?;
    let api_services = api_services(csv, ctx);
    rights::check(csv, &granted, targets, is_coming(csv, &ctx.cache), &mut accounts, ctx).await?;
    Ok(Needs { kube_version, crds, accounts, api_services, native })
}

/// Whether a plan in progress is still making the requirements of a version without a status. A plan that
/// takes longer does not count: the version has a status by then.
fn is_coming(csv: &ClusterServiceVersion, cache: &ClusterCache) -> bool {
    let made_by = |plan: &InstallPlan| {
        let names = &plan.spec.cluster_service_version_names;
        plan.phase() == InstallPlanPhase::Installing && names.contains(&csv.name_any())
    };
    let namespace = csv.namespace().unwrap_or_default();
    csv.phase() == CsvPhase::None && cache.plans.in_namespace(&namespace).iter().any(|plan| made_by(plan))
}

async fn crds(
    csv: &ClusterServiceVersion,
    ctx: &Ctx,
) -> Result<BTreeMap<String, Option<Arc<CustomResourceDefinition>>>, Error> {
    let mut out = BTreeMap::new();
    for description in csv.spec.owned_crds().iter().chain(csv.spec.required_crds()) {
        let name = &description.name;
        if !name.is_empty() && !out.contains_key(name) {
            out.insert(name.clone(), ctx.parts.definition(name, ctx).await?);
        }
    }
    Ok(out)
}

/// ServiceAccounts that the permissions name.
async fn accounts(csv: &ClusterServiceVersion, ctx: &Ctx) -> Result<BTreeMap<String, Account>, Error> {
    let namespace = csv.namespace().unwrap_or_default();
    let api = Api::<ServiceAccount>::namespaced(ctx.client.clone(), &namespace);
    let strategy = &csv.spec.install.spec;
    let mut out = BTreeMap::new();
    for permission in strategy.permissions.iter().chain(&strategy.cluster_permissions) {
        let name = rights::account_name(permission);
        if out.contains_key(name) {
            continue;
        }
        let found = match ctx.parts.accounts.get(&namespace, name) {
            Some(known) => Some(known),
            // A manually created one has no labels.
            None => {
                let found = api.get_metadata_opt(name).await;
                found
                    .map_err(Error::kube(format!("get ServiceAccount {name}")))?
                    .as_ref()
                    .map(CachedAccount::of)
            }
        };
        let account = found.map(|found| Account {
            uid: Some(found.uid.to_string()),
            owner: other_owner(csv, &found),
            rules: Vec::new(),
        });
        out.insert(name.to_owned(), account.unwrap_or_default());
    }
    Ok(out)
}

/// A ClusterServiceVersion that owns the account while neither this one nor the one that it replaces does.
fn other_owner(csv: &ClusterServiceVersion, account: &CachedAccount) -> Option<String> {
    let (uid, before) = (csv.metadata.uid.as_deref(), csv.spec.replaces.as_deref());
    let ours = |(owner, name): &(Box<str>, Box<str>)| Some(&**owner) == uid || Some(&**name) == before;
    if account.owners.iter().any(ours) {
        None
    } else {
        account.owners.first().map(|(_, name)| name.to_string())
    }
}

fn api_services(csv: &ClusterServiceVersion, ctx: &Ctx) -> BTreeMap<String, ApiService> {
    let required = csv.spec.api_service_definitions.iter().flat_map(|d| &d.required);
    let names = required.map(|api| format!("{}.{}", api.version, api.group));
    names.map(|name| (name.clone(), ctx.parts.api_service(&name))).collect()
}

async fn native(csv: &ClusterServiceVersion, ctx: &Ctx) -> Result<Vec<bool>, Error> {
    let mut out = Vec::with_capacity(csv.spec.native_apis.len());
    for api in &csv.spec.native_apis {
        let gvk = GroupVersionKind::gvk(&api.group, &api.version, &api.kind);
        out.push(match ctx.resources.lookup(&gvk).await {
            Ok(_) => true,
            Err(ResourceError::UnknownKind { .. }) => false,
            Err(error) => return Err(error.into()),
        });
    }
    Ok(out)
}

/// Deployments with the labels of the version, and those with a desired name.
async fn deployments(
    csv: &ClusterServiceVersion,
    desired: Option<&Desired>,
    ctx: &Ctx,
) -> Result<BTreeMap<String, Workload>, Error> {
    let (namespace, own) = (csv.namespace().unwrap_or_default(), csv.name_any());
    let mut out: BTreeMap<String, Workload> = ctx.parts.deployments.within(&namespace).into_iter().collect();
    let wanted: Vec<&str> = desired.iter().flat_map(|d| &d.deployments).filter_map(name_of).collect();
    out.retain(|name, deployment| {
        wanted.contains(&name.as_str()) || deployment.is_labelled(&namespace, &own)
    });
    let api = Api::<Deployment>::namespaced(ctx.client.clone(), &namespace);
    for name in wanted {
        if out.contains_key(name) {
            continue;
        }
        // One of another creator has no labels.
        let found = api.get_opt(name).await.map_err(Error::kube(format!("get Deployment {name}")))?;
        out.extend(found.map(|found| (name.to_owned(), Workload::of(&found))));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_version_is_of_the_subscription_that_names_it_before_one_of_its_package() {
        let subscription = |name: &str, package: &str, status: Value| -> Arc<Subscription> {
            let spec = json!({ "name": package, "source": "s", "sourceNamespace": "olm" });
            let object =
                json!({ "metadata": { "name": name, "namespace": "db" }, "spec": spec, "status": status });
            Arc::new(serde_json::from_value(object).unwrap())
        };
        let of = |version: &str, all: &[Arc<Subscription>]| {
            let labels = json!({ "operators.coreos.com/etcd.db": "" });
            let metadata = json!({ "name": version, "namespace": "db", "labels": labels });
            let csv = serde_json::from_value(json!({ "metadata": metadata, "spec": {} })).unwrap();
            subscription_of(&csv, all).map(|found| found.metadata.name.clone().unwrap())
        };
        // given two Subscriptions of the package of which the later one has the versions, and one of another
        // package
        let status = json!({ "installedCSV": "etcd.v1", "currentCSV": "etcd.v2" });
        let all = [
            subscription("other", "other", Value::Null),
            subscription("first", "etcd", Value::Null),
            subscription("second", "etcd", status),
        ];
        // then installed and pending versions belong to the one that names them
        assert_eq!(of("etcd.v1", &all).as_deref(), Some("second"));
        assert_eq!(of("etcd.v2", &all).as_deref(), Some("second"));
        // and a version that none names belongs to its package's, or to none
        assert_eq!(of("etcd.v0", &all).as_deref(), Some("first"));
        assert_eq!(of("etcd.v0", &all[..1]), None);
    }
}
