//! Writes the objects of endpoints that the API server calls.

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use olm_api::{ClusterServiceVersion, names};
use olm_bundle::CaPlace;
use olm_engine::resources::{Resources, short};
use serde_json::{Value, json};

use super::{DesiredObject, Known, Serving, live, secret};
use crate::{
    certs::{Authority, Pair, Step, issue},
    context::{Ctx, Error},
};

const WRITES: usize = 8;

impl Serving {
    /// Applies what must precede the Deployments: Services, rights, certificates. `resources` has the rights
    /// with which the version is installed, here and below.
    pub(in crate::controllers::csv) async fn prepare(
        &mut self,
        csv: &ClusterServiceVersion,
        resources: &Resources,
        ctx: &Ctx,
    ) -> Result<(), Error> {
        apply(self.prerequisites.iter_mut().filter(|object| !object.is_there()), resources).await?;
        self.now = Timestamp::now();
        for index in 0..self.endpoints.len() {
            self.certify(index, csv, resources, ctx).await?;
            self.publish(index, resources).await?;
        }
        Ok(())
    }

    /// Takes the due step for an endpoint's Secret.
    async fn certify(
        &mut self,
        index: usize,
        csv: &ClusterServiceVersion,
        resources: &Resources,
        ctx: &Ctx,
    ) -> Result<(), Error> {
        let (served, now) = (&self.endpoints[index], self.now);
        let names = served.endpoint.names();
        let step = self.step(served);
        let held = match &step {
            Step::Replace(_) => served.held.replaced(issued(&names, csv, now)?, &self.trusted(index), now),
            Step::Prepare => served.held.prepared(issued(&names, csv, now)?, now),
            Step::Switch => served.held.switched(),
            Step::Drop => served.held.dropped(now),
            Step::Wait(_) | Step::Publish if !self.is_owned(served) => served.held.clone(),
            Step::Wait(_) | Step::Publish => return Ok(()),
        };
        let what = format!("Secret {} of deployment {}", served.endpoint.secret, served.endpoint.deployment);
        let event = match &step {
            Step::Replace(why) if served.live.is_some() => Some((
                true,
                "CertificateReplaced",
                format!("replaced the invalid certificate of {what}: {why}"),
            )),
            Step::Switch => Some((false, "CertificateRenewed", format!("renewed the certificate of {what}"))),
            _ => None,
        };
        secret::write(&mut self.endpoints[index], held, resources).await?;
        if let Some((warning, reason, note)) = event {
            ctx.event(csv, warning, reason, &note).await;
        }
        let served = &self.endpoints[index];
        let ends = served.held.dates().map(|(.., end)| end);
        ctx.metrics.certificate_expires(&served.endpoint.namespace, &served.endpoint.deployment, ends);
        Ok(())
    }

    /// The authorities that each caller of the endpoint trusts, including webhooks of an earlier OLM.
    fn trusted(&self, index: usize) -> Vec<Vec<Authority>> {
        let served = &self.endpoints[index];
        let mut list = self.published(served);
        for stale in &self.stale {
            let webhooks = stale.live["webhooks"].as_array();
            let bundles =
                webhooks.into_iter().flatten().map(|w| live::authorities_at(w, "/clientConfig/caBundle"));
            list.extend(bundles);
        }
        list
    }

    /// Publishes the authorities to the existing callers of the endpoint. This does not wait for the
    /// Deployments: with another certificate than the trusted ones, every call would fail.
    async fn publish(&mut self, index: usize, resources: &Resources) -> Result<(), Error> {
        let (bundle, behind) = self.behind(index);
        for place in behind {
            let (group, version) = place.api_version.split_once('/').unwrap_or(("", place.api_version));
            let gvk = kube::core::GroupVersionKind::gvk(group, version, place.kind);
            let (resource, _) = resources.lookup(&gvk).await?;
            let api = Api::<kube::api::DynamicObject>::all_with(resources.client().clone(), &resource);
            let mut patch = json!({});
            if let Some(live) = self.live(&place).filter(|_| place.kind.ends_with("WebhookConfiguration")) {
                // A merge patch replaces a list, so the whole list is sent, conditional on the one that was
                // read.
                patch["webhooks"] = live["webhooks"].clone();
                patch["metadata"] = json!({ "resourceVersion": live["metadata"]["resourceVersion"] });
            }
            live::set(&mut patch, place.pointer, bundle.as_str().into());
            let patched = api.patch(&place.name, &params(), &Patch::Merge(&patch)).await;
            match patched {
                Ok(object) => {
                    self.saw(place.kind, &place.name, serde_json::to_value(object).unwrap_or_default())
                }
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => {
                    let what = format!("publish the certificate authority in {} {}", place.kind, place.name);
                    return Err(Error::kube(what)(error));
                }
            }
        }
        Ok(())
    }

    /// The endpoint's CA bundle, and the places with another one.
    fn behind(&self, index: usize) -> (String, Vec<CaPlace>) {
        let served = &self.endpoints[index];
        let bundle = served.held.ca_bundle();
        let places = self.places(served).into_iter();
        let behind = places.filter(|(place, live)| {
            live.pointer(place.pointer).and_then(Value::as_str) != Some(bundle.as_str())
        });
        let behind = behind.map(|(place, _)| place.clone()).collect();
        (bundle, behind)
    }

    fn saw(&mut self, kind: &str, name: &str, live: Value) {
        if kind == "CustomResourceDefinition" {
            for conversion in self.conversions.iter_mut().filter(|c| c.crd == name) {
                conversion.live = live.clone();
            }
        }
        let same =
            |w: &&mut DesiredObject| w.manifest["kind"] == kind && w.manifest["metadata"]["name"] == name;
        for desired in self.registrations.iter_mut().filter(same) {
            desired.live = Some(live.clone());
        }
    }

    /// Enables webhooks, APIServices and conversions, applies the users' roles, and removes what is no longer
    /// described. To be called when the Deployments are available.
    pub(in crate::controllers::csv) async fn register(
        &mut self,
        csv: &ClusterServiceVersion,
        known: &Known,
        resources: &Resources,
    ) -> Result<(), Error> {
        let mut registrations = std::mem::take(&mut self.registrations);
        for desired in &mut registrations {
            // With its CA bundle from here on.
            desired.manifest = self.complete(desired);
        }
        let applied = apply(registrations.iter_mut().filter(|desired| !desired.is_there()), resources).await;
        self.registrations = registrations;
        applied?;
        self.registrations.iter().for_each(|desired| known.note(desired));
        for index in 0..self.conversions.len() {
            self.convert(index, resources).await?;
        }
        for stale in std::mem::take(&mut self.stale) {
            let client = resources.client().clone();
            let (name, params) = (stale.name.as_str(), DeleteParams::default());
            let deleted = if stale.kind == "MutatingWebhookConfiguration" {
                Api::<MutatingWebhookConfiguration>::all(client).delete(name, &params).await.map(drop)
            } else {
                Api::<ValidatingWebhookConfiguration>::all(client).delete(name, &params).await.map(drop)
            };
            match deleted {
                Ok(()) => tracing::info!(kind = stale.kind, name, csv = csv_name(csv), "deleted a webhook"),
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => {
                    tracing::debug!(kind = stale.kind, name, error = short(&error), "failed to delete");
                    return Err(Error::kube(format!("delete {} {name}", stale.kind))(error));
                }
            }
        }
        Ok(())
    }

    async fn convert(&mut self, index: usize, resources: &Resources) -> Result<(), Error> {
        let conversion = &self.conversions[index];
        let mut patch = self.converted(conversion);
        if live::covers(&conversion.live, &patch) {
            return Ok(());
        }
        // Either a Service or a URL, and only the version's own Service.
        patch["spec"]["conversion"]["webhook"]["clientConfig"]["url"] = Value::Null;
        let name = conversion.crd.clone();
        let api = Api::<CustomResourceDefinition>::all(resources.client().clone());
        let patched = api.patch(&name, &params(), &Patch::Merge(&patch)).await;
        let crd =
            patched.map_err(Error::kube(format!("convert CustomResourceDefinition {name} by webhook")))?;
        self.conversions[index].live = json!({
            "metadata": { "resourceVersion": crd.metadata.resource_version },
            "spec": { "conversion": crd.spec.conversion },
        });
        Ok(())
    }
}

fn issued(names: &[String], csv: &ClusterServiceVersion, now: Timestamp) -> Result<(Authority, Pair), Error> {
    issue(names, now).map_err(|error| Error::Bundle { name: csv_name(csv), text: error.to_string() })
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(names::FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn csv_name(csv: &ClusterServiceVersion) -> String {
    csv.metadata.name.clone().unwrap_or_default()
}

/// Applies objects, and stores their new state.
async fn apply<'a>(
    desired: impl Iterator<Item = &'a mut DesiredObject>,
    resources: &Resources,
) -> Result<(), Error> {
    let writes: Vec<_> = desired.map(|desired| write(desired, resources).boxed()).collect();
    stream::iter(writes).buffer_unordered(WRITES).try_collect().await
}

async fn write(desired: &mut DesiredObject, resources: &Resources) -> Result<(), Error> {
    desired.live = Some(resources.apply(&desired.manifest).await?);
    Ok(())
}
