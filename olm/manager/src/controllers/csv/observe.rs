//! What matters to a ClusterServiceVersion, read by name.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ServiceAccount},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt, api::ListParams};
use olm_api::{ClusterServiceVersion, OperatorCondition, OperatorGroup, Subscription, names};
use olm_bundle::{Phase, RenderError, RenderOptions};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::APPLIED;
use crate::{
    context::{Ctx, Error},
    engine::{
        bundle_of,
        targets::{self, Targets},
    },
    ownership::{Owner, own},
    resources::Id,
};

pub(super) struct Observed<'a> {
    pub(super) csv: &'a ClusterServiceVersion,
    pub(super) groups: Vec<OperatorGroup>,
    /// The version that replaces this one.
    pub(super) successor: Option<ClusterServiceVersion>,
    /// The version that this one replaces.
    pub(super) predecessor: Option<ClusterServiceVersion>,
    /// What the operator says about being replaced.
    pub(super) upgradeable: Result<(), String>,
    /// What the predecessor says about being replaced.
    pub(super) predecessor_upgradeable: Result<(), String>,
    pub(super) crds: BTreeMap<String, Option<CustomResourceDefinition>>,
    pub(super) accounts: BTreeMap<String, Option<String>>,
    /// Roles and bindings that the permissions become, and whether they are there.
    pub(super) rights: Vec<(Id, bool)>,
    pub(super) desired: Result<Desired, RenderError>,
    pub(super) deployments: BTreeMap<String, Deployment>,
}

/// What the version runs.
#[derive(Clone)]
pub(super) struct Desired {
    pub(super) targets: Targets,
    /// Deployments with owner and hash, ready to be applied.
    pub(super) deployments: Vec<Value>,
}

impl Observed<'_> {
    pub(super) fn targets(&self) -> Option<&Targets> {
        if self.groups.len() == 1 { self.desired.as_ref().ok().map(|d| &d.targets) } else { None }
    }

    pub(super) fn with_deployments(self, fresh: BTreeMap<String, Deployment>) -> Self {
        Self { deployments: fresh, ..self }
    }

    /// Whether somebody else changed a Deployment since it was applied, or it was never applied like this.
    pub(super) fn drifted(&self, desired: &Value) -> bool {
        let name = desired.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let Some(live) = self.deployments.get(name) else { return true };
        let hash = desired["metadata"]["labels"][names::LABEL_DEPLOYMENT_SPEC_HASH].as_str();
        let same_hash = live.labels().get(names::LABEL_DEPLOYMENT_SPEC_HASH).map(String::as_str) == hash;
        let uid = self.csv.uid().unwrap_or_default();
        let owned = live.owner_references().iter().any(|owner| owner.uid == uid);
        let applied = APPLIED
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(&live.uid().unwrap_or_default())
            .copied();
        !same_hash || !owned || applied != live.metadata.generation
    }
}

pub(super) async fn observe<'a>(csv: &'a ClusterServiceVersion, ctx: &Ctx) -> Result<Observed<'a>, Error> {
    let namespace = csv.namespace().unwrap_or_default();
    let name = csv.name_any();
    let client = &ctx.client;
    let everything = ListParams::default();
    let groups_api = Api::<OperatorGroup>::namespaced(client.clone(), &namespace);
    let csvs_api = Api::<ClusterServiceVersion>::namespaced(client.clone(), &namespace);
    let subscriptions_api = Api::<Subscription>::namespaced(client.clone(), &namespace);
    let conditions_api = Api::<OperatorCondition>::namespaced(client.clone(), &namespace);
    let (groups, csvs, subscriptions, conditions) = tokio::try_join!(
        groups_api.list(&everything),
        csvs_api.list(&everything),
        subscriptions_api.list(&everything),
        conditions_api.list(&everything),
    )
    .map_err(Error::kube(format!("read namespace {namespace}")))?;

    let find = |wanted: &str| csvs.items.iter().find(|c| c.metadata.name.as_deref() == Some(wanted)).cloned();
    let predecessor = csv.spec.replaces.as_deref().and_then(find);
    let successor = csvs
        .items
        .iter()
        .find(|c| {
            c.spec.replaces.as_deref() == Some(&name)
                && c.metadata.deletion_timestamp.is_none()
                && c.metadata.name.as_deref() != Some(&name)
        })
        .cloned();
    let upgradeable = |wanted: Option<&str>| {
        let condition = conditions.items.iter().find(|c| c.metadata.name.as_deref() == wanted);
        condition.map_or(Ok(()), OperatorCondition::upgradeable)
    };

    let subscription = subscriptions.items.iter().find(|s| {
        let status = s.status.as_ref();
        let bound = status.is_some_and(|s| {
            s.installed_csv.as_deref() == Some(&name) || s.current_csv.as_deref() == Some(&name)
        });
        bound || csv.labels().contains_key(&names::component_label(&s.spec.name, &namespace))
    });
    let rendered = render(csv, &groups.items, subscription);
    let (desired, wanted_rights) = match rendered {
        Ok((desired, rights)) => (Ok(desired), rights),
        Err(error) => (Err(error), Vec::new()),
    };

    let (crds, accounts, rights, deployments) = tokio::try_join!(
        crds(csv, ctx),
        accounts(csv, ctx),
        rights(wanted_rights, ctx),
        deployments(csv, desired.as_ref().ok(), ctx)
    )?;
    Ok(Observed {
        csv,
        upgradeable: upgradeable(Some(&name)),
        predecessor_upgradeable: upgradeable(csv.spec.replaces.as_deref()),
        groups: groups.items,
        successor,
        predecessor,
        crds,
        accounts,
        rights,
        desired,
        deployments,
    })
}

/// The Deployments of the version, and the names of what its permissions become.
fn render(
    csv: &ClusterServiceVersion,
    groups: &[OperatorGroup],
    subscription: Option<&Subscription>,
) -> Result<(Desired, Vec<Id>), RenderError> {
    let namespace = csv.namespace().unwrap_or_default();
    let bundle = bundle_of(csv);
    let targets = targets::targets(&namespace, &bundle, groups);
    let options = RenderOptions {
        install_namespace: namespace,
        target_namespaces: targets.namespaces.clone(),
        operator_group: Some(targets.group.clone()),
        subscription_config: subscription.and_then(|s| s.spec.config.clone()),
    };
    let rendered = olm_bundle::render(&bundle, &options)?;
    let owner = Owner::of(csv, subscription.map(|s| s.spec.name.as_str()));
    let (mut deployments, mut rights) = (Vec::new(), Vec::new());
    for (phase, object) in rendered.objects() {
        match phase {
            Phase::Workloads => {
                let mut object = object.clone();
                own(&mut object, &owner);
                let hash = hash(&object["spec"]);
                object["metadata"]["labels"][names::LABEL_DEPLOYMENT_SPEC_HASH] = hash.into();
                deployments.push(object);
            }
            Phase::Rbac if object["kind"] != "ServiceAccount" => rights.extend(Id::of(object).ok()),
            _ => {}
        }
    }
    Ok((Desired { targets, deployments }, rights))
}

/// Short enough for a label.
fn hash(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string());
    digest.iter().take(16).map(|b| format!("{b:02x}")).collect()
}

async fn crds(
    csv: &ClusterServiceVersion,
    ctx: &Ctx,
) -> Result<BTreeMap<String, Option<CustomResourceDefinition>>, Error> {
    let api = Api::<CustomResourceDefinition>::all(ctx.client.clone());
    let mut out = BTreeMap::new();
    for description in csv.spec.owned_crds().iter().chain(csv.spec.required_crds()) {
        let name = &description.name;
        if name.is_empty() || out.contains_key(name) {
            continue;
        }
        let found =
            api.get_opt(name).await.map_err(Error::kube(format!("get CustomResourceDefinition {name}")))?;
        out.insert(name.clone(), found);
    }
    Ok(out)
}

/// ServiceAccounts that the permissions name, with their UIDs.
async fn accounts(csv: &ClusterServiceVersion, ctx: &Ctx) -> Result<BTreeMap<String, Option<String>>, Error> {
    let api = Api::<ServiceAccount>::namespaced(ctx.client.clone(), &csv.namespace().unwrap_or_default());
    let strategy = &csv.spec.install.spec;
    let mut out = BTreeMap::new();
    for permission in strategy.permissions.iter().chain(&strategy.cluster_permissions) {
        let name = &permission.service_account_name;
        if name.is_empty() || out.contains_key(name) {
            continue;
        }
        let found = api.get_opt(name).await.map_err(Error::kube(format!("get ServiceAccount {name}")))?;
        out.insert(name.clone(), found.map(|account| account.uid().unwrap_or_default()));
    }
    Ok(out)
}

async fn rights(wanted: Vec<Id>, ctx: &Ctx) -> Result<Vec<(Id, bool)>, Error> {
    let mut out = Vec::with_capacity(wanted.len());
    for id in wanted {
        let present = ctx.resources.get(&id).await?.is_some();
        out.push((id, present));
    }
    Ok(out)
}

async fn deployments(
    csv: &ClusterServiceVersion,
    desired: Option<&Desired>,
    ctx: &Ctx,
) -> Result<BTreeMap<String, Deployment>, Error> {
    let api = Api::<Deployment>::namespaced(ctx.client.clone(), &csv.namespace().unwrap_or_default());
    let mut out = BTreeMap::new();
    for deployment in desired.map(|d| d.deployments.as_slice()).unwrap_or_default() {
        let Some(name) = deployment.pointer("/metadata/name").and_then(Value::as_str) else { continue };
        let found = api.get_opt(name).await.map_err(Error::kube(format!("get Deployment {name}")))?;
        if let Some(found) = found {
            out.insert(name.to_owned(), found);
        }
    }
    Ok(out)
}
