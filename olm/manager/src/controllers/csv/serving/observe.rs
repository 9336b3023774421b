//! Reads the objects of endpoints that the API server calls.

use std::{borrow::Borrow, collections::BTreeSet};

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::{Api, ResourceExt, api::ListParams};
use olm_api::{ClusterServiceVersion, csv::CsvPhase, names};
use olm_bundle::{Endpoint, Phase, Rendered, crd_of_role};
use olm_engine::{
    ownership::{Owner, own, selector},
    resources::Id,
};
use olm_plan::{ObjectRef, is_reserved};
use serde_json::Value;

use super::{Conversion, DesiredObject, Known, Served, Serving, Stale, requirement, roles, secret};
use crate::{
    certs::Held,
    context::{Ctx, Error},
    controllers::csv::facts::Needs,
};

const READS: usize = 8;

/// The rendered objects of the endpoints of a version.
#[derive(Debug, Default)]
pub(in crate::controllers::csv) struct RenderedServing {
    endpoints: Vec<Endpoint>,
    /// Services, Secrets and rights, owned.
    prerequisites: Vec<Value>,
    /// Webhook configurations, APIServices and their roles, owned.
    registrations: Vec<Value>,
    /// Roles over kinds of CRDs.
    roles: Vec<Value>,
    /// CRDs with the version's own conversion.
    crds: Vec<Value>,
}

impl RenderedServing {
    pub(in crate::controllers::csv) fn of(rendered: &Rendered, owner: &Owner) -> Self {
        let mut serving = Self { endpoints: rendered.endpoints.clone(), ..Self::default() };
        for (phase, object) in rendered.objects() {
            let owned = || {
                let mut object = object.clone();
                own(&mut object, owner);
                object
            };
            match phase {
                Phase::Endpoints => serving.prerequisites.push(owned()),
                Phase::Serving if crd_of_role(object).is_some() => serving.roles.push(object.clone()),
                Phase::Serving => serving.registrations.push(owned()),
                Phase::Crds if object.pointer("/spec/conversion").is_some() => {
                    serving.crds.push(object.clone())
                }
                _ => {}
            }
        }
        serving
    }
}

/// Reads the live objects of a version's endpoints.
pub(in crate::controllers::csv) async fn observe(
    csv: &ClusterServiceVersion,
    rendered: RenderedServing,
    csvs: &[impl Borrow<ClusterServiceVersion>],
    needs: &Needs,
    known: &Known,
    ctx: &Ctx,
) -> Result<Serving, Error> {
    let now = Timestamp::now();
    let RenderedServing { endpoints, prerequisites, registrations, roles, crds } = rendered;
    let (secrets, prerequisites): (Vec<Value>, Vec<Value>) =
        prerequisites.into_iter().partition(|object| object["kind"] == "Secret");
    // A role that is not there yet is not read: the first installation of an operator makes many.
    let fresh = csv.status.as_ref().is_none_or(|status| status.phase != CsvPhase::Succeeded);
    let roles: Vec<Value> = roles
        .into_iter()
        .filter_map(|role| roles::own(role, needs))
        .filter(|role| !known.holds(role))
        .collect();

    let (prerequisites, mut registrations, roles, endpoints) = tokio::try_join!(
        read(prerequisites, ctx),
        read(registrations, ctx),
        async {
            if fresh {
                Ok(roles.into_iter().map(|manifest| DesiredObject { manifest, live: None }).collect())
            } else {
                read(roles, ctx).await
            }
        },
        served(endpoints, secrets, now, ctx),
    )?;
    roles.iter().for_each(|role| known.note(role));
    let conflict =
        protected(prerequisites.iter().chain(&registrations)).or_else(|| conflict(csv, csvs, &registrations));
    let requirements = registrations
        .iter()
        .filter(|desired| desired.manifest["kind"] == "APIService")
        .map(|desired| requirement(&desired.manifest, desired.live.as_ref()))
        .collect();
    let stale = if endpoints.is_empty() { Vec::new() } else { stale(csv, &registrations, ctx).await? };
    registrations.extend(roles.into_iter().filter(|role| !role.is_there()));
    let conversions = crds.into_iter().filter_map(|crd| conversion(&crd, needs)).collect();
    for served in &endpoints {
        let ends = served.held.dates().map(|(.., end)| end);
        ctx.metrics.certificate_expires(&served.endpoint.namespace, &served.endpoint.deployment, ends);
    }
    Ok(Serving { endpoints, prerequisites, registrations, conversions, stale, conflict, requirements, now })
}

/// Removes the certificate metrics. A version that adopted the Deployment sets them again at its next
/// reconciliation.
pub(in crate::controllers::csv) fn forget(csv: &ClusterServiceVersion, ctx: &Ctx) {
    let namespace = csv.namespace().unwrap_or_default();
    for deployment in &csv.spec.install.spec.deployments {
        ctx.metrics.certificate_expires(&namespace, &deployment.name, None);
    }
}

async fn read(manifests: Vec<Value>, ctx: &Ctx) -> Result<Vec<DesiredObject>, Error> {
    let reads: Vec<_> = manifests.into_iter().map(|manifest| read_one(manifest, ctx).boxed()).collect();
    stream::iter(reads).buffered(READS).try_collect().await
}

async fn read_one(manifest: Value, ctx: &Ctx) -> Result<DesiredObject, Error> {
    let live = ctx.resources.get(&Id::of(&manifest)?).await?;
    Ok(DesiredObject { manifest, live })
}

async fn served(
    endpoints: Vec<Endpoint>,
    mut secrets: Vec<Value>,
    now: Timestamp,
    ctx: &Ctx,
) -> Result<Vec<Served>, Error> {
    let mut out = Vec::with_capacity(endpoints.len());
    for endpoint in endpoints {
        let position = secrets.iter().position(|s| s["metadata"]["name"] == endpoint.secret.as_str());
        let Some(secret) = position.map(|position| secrets.swap_remove(position)) else { continue };
        let live = secret::read(&endpoint.namespace, &endpoint.secret, ctx).await?;
        let held = match &live {
            Some(live) => Held::read(&live.data, &endpoint.names(), now),
            None => Held::default(),
        };
        out.push(Served { endpoint, secret, live, held });
    }
    Ok(out)
}

/// The first existing object of the version that belongs to olm or to Kubernetes according to its labels.
/// Pure.
fn protected<'a>(mut desired: impl Iterator<Item = &'a DesiredObject>) -> Option<String> {
    let found = desired.find(|desired| {
        let reference = ObjectRef::of(&desired.manifest);
        reference.is_some_and(|reference| is_reserved(&reference, desired.live.as_ref()))
    })?;
    Some(format!("{} exists and belongs to olm or Kubernetes", super::named(&found.manifest)))
}

/// The owner of an APIService that the version declares, unless that is the version itself,
/// the one that it replaces, or one of its namespace in phase Replacing or Deleting. Pure.
pub(super) fn conflict(
    csv: &ClusterServiceVersion,
    csvs: &[impl Borrow<ClusterServiceVersion>],
    registrations: &[DesiredObject],
) -> Option<String> {
    let namespace = csv.namespace().unwrap_or_default();
    let leaving = csvs
        .iter()
        .map(Borrow::<ClusterServiceVersion>::borrow)
        .filter(|other| matches!(other.phase(), CsvPhase::Replacing | CsvPhase::Deleting));
    let mut adoptable: BTreeSet<String> = leaving.map(ResourceExt::name_any).collect();
    adoptable.insert(csv.name_any());
    adoptable.extend(csv.spec.replaces.clone());
    registrations.iter().filter(|desired| desired.manifest["kind"] == "APIService").find_map(|desired| {
        let labels = &desired.live.as_ref()?["metadata"]["labels"];
        let label = |key: &str| labels[key].as_str().unwrap_or_default();
        let (owner, home) = (label(names::LABEL_OWNER), label(names::LABEL_OWNER_NAMESPACE));
        if adoptable.contains(owner) && home == namespace {
            return None;
        }
        let whose = if owner.is_empty() {
            "an owner outside of olm".to_owned()
        } else {
            format!("ClusterServiceVersion {home}/{owner}")
        };
        Some(format!(
            "{} exists and belongs to {whose}; delete it or its owner",
            super::named(&desired.manifest)
        ))
    })
}

/// Webhook configurations that are labelled as the version's own and that it does not describe: those that
/// OLM v0 made under its own names, and those that an edited version no longer describes.
async fn stale(
    csv: &ClusterServiceVersion,
    registrations: &[DesiredObject],
    ctx: &Ctx,
) -> Result<Vec<Stale>, Error> {
    let own = ListParams::default().labels(&selector(&csv.name_any(), &csv.namespace().unwrap_or_default()));
    let validating = Api::<ValidatingWebhookConfiguration>::all(ctx.client.clone());
    let mutating = Api::<MutatingWebhookConfiguration>::all(ctx.client.clone());
    let (validating, mutating) = tokio::try_join!(validating.list(&own), mutating.list(&own))
        .map_err(Error::kube(format!("list the webhooks of {}", csv.name_any())))?;
    let validating = validating
        .into_iter()
        .map(|c| ("ValidatingWebhookConfiguration", c.name_any(), serde_json::to_value(c)));
    let mutating =
        mutating.into_iter().map(|c| ("MutatingWebhookConfiguration", c.name_any(), serde_json::to_value(c)));
    let desired = |kind: &str, name: &str| {
        registrations.iter().any(|w| w.manifest["kind"] == kind && w.manifest["metadata"]["name"] == name)
    };
    let found = validating.chain(mutating).filter(|(kind, name, _)| !desired(kind, name));
    Ok(found.map(|(kind, name, live)| Stale { kind, name, live: live.unwrap_or_default() }).collect())
}

/// The desired conversion of a CRD, where the CRD exists. Pure.
fn conversion(crd: &Value, needs: &Needs) -> Option<Conversion> {
    let name = crd["metadata"]["name"].as_str()?;
    let live = needs.crds.get(name)?.as_ref()?;
    let conversion = serde_json::to_value(&live.spec.conversion).unwrap_or_default();
    let live = serde_json::json!({
        "metadata": { "resourceVersion": live.metadata.resource_version },
        "spec": { "conversion": conversion },
    });
    Some(Conversion { crd: name.to_owned(), conversion: crd["spec"]["conversion"].clone(), live })
}
