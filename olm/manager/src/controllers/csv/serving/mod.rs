//! Endpoints of an operator that the API server calls: their Services, certificates and registrations.
//!
//! [`observe`](mod@observe) reads the cluster; [`Serving::facts`] lists the missing objects (pure);
//! [`Serving::prepare`] applies Services, rights and certificates before the Deployments, and
//! [`Serving::register`] webhooks, APIServices, conversions and the users' roles after them. Each writes
//! only differences, so each may be repeated at any time.

mod apply;
mod live;
mod observe;
mod roles;
mod secret;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use live::{authorities_at, covers};
use olm_api::csv::{RequirementState, RequirementStatus};
use olm_bundle::{CaPlace, Endpoint};
use serde_json::Value;

use super::facts::ServingFacts;
use crate::certs::{Authority, Certificates, Held, Step, next};
pub(super) use observe::{RenderedServing, forget, observe};
pub(super) use roles::Known;

/// Annotation on Secret and pod template with the hash of the authority of the certificate in use;
/// upstream's.
const ANNOTATION_CA_HASH: &str = "olmcahash";

/// Desired and live webhooks, aggregated APIs and roles of one version.
#[derive(Debug, Default)]
pub(super) struct Serving {
    endpoints: Vec<Served>,
    /// Services and rights, which precede the Deployments.
    prerequisites: Vec<DesiredObject>,
    /// Webhook configurations, APIServices and roles, which follow them; without CA bundles.
    registrations: Vec<DesiredObject>,
    /// Conversions of the version's own CRDs.
    conversions: Vec<Conversion>,
    /// Webhook configurations that carry the version's labels and that it no longer describes.
    stale: Vec<Stale>,
    /// An APIService that is served by another owner.
    conflict: Option<String>,
    requirements: Vec<RequirementStatus>,
    now: Timestamp,
}

#[derive(Debug, Clone)]
struct DesiredObject {
    manifest: Value,
    live: Option<Value>,
}

/// A webhook configuration that is no longer desired.
#[derive(Debug, Clone)]
struct Stale {
    kind: &'static str,
    name: String,
    live: Value,
}

/// The desired conversion of a CRD.
#[derive(Debug, Clone)]
struct Conversion {
    crd: String,
    /// `spec.conversion`, without the CA bundle.
    conversion: Value,
    /// The CRD without its versions.
    live: Value,
}

/// A Deployment that the API server calls.
#[derive(Debug, Clone)]
struct Served {
    endpoint: Endpoint,
    /// The Secret, without content.
    secret: Value,
    /// The live Secret; never logged.
    live: Option<secret::Live>,
    held: Held,
}

impl Serving {
    /// The facts that the phase depends on. Pure.
    pub(super) fn facts(&self) -> ServingFacts {
        let mut facts = ServingFacts {
            conflict: self.conflict.clone(),
            requirements: self.requirements.clone(),
            registration_missing: self.registration_missing(),
            waiting: self.waiting(),
            dates: self.dates(),
            ..ServingFacts::default()
        };
        if let Some(object) = self.prerequisites.iter().find(|object| !object.is_there()) {
            facts.endpoints_missing = Some(format!("{} to match its spec", named(&object.manifest)));
        }
        for served in &self.endpoints {
            let what = format!("the certificate of deployment {}", served.endpoint.deployment);
            match self.step(served) {
                Step::Replace(why) if served.live.is_some() => {
                    facts.broken =
                        Some(format!("{what} in Secret {} is replaced: {why}", served.endpoint.secret));
                }
                Step::Replace(_) => facts.endpoints_missing = Some(format!("{what} to be created")),
                Step::Prepare | Step::Publish | Step::Switch | Step::Drop => {
                    facts.rotate = Some(format!("{what} is being renewed"));
                }
                Step::Wait(_) if !self.is_owned(served) => {
                    facts.endpoints_missing = Some(format!("{what} to be handed over"));
                }
                Step::Wait(_) => {}
            }
        }
        facts
    }

    /// The objects to apply before the Deployments, and whether each exists. A Secret is written whenever its
    /// certificate changes.
    pub(super) fn prerequisites_to_apply(&self) -> impl Iterator<Item = (&Value, bool)> {
        let prerequisites = self
            .prerequisites
            .iter()
            .filter(|object| !object.is_there())
            .map(|object| (&object.manifest, object.live.is_some()));
        prerequisites.chain(self.endpoints.iter().map(|served| (&served.secret, served.live.is_some())))
    }

    /// The objects to apply after them.
    pub(super) fn registrations_to_apply(&self) -> Vec<(Value, bool)> {
        let registrations = self.registrations.iter().filter(|desired| !desired.is_there());
        let conversions = self.conversions.iter().filter(|c| !covers(&c.live, &self.converted(c)));
        let crd = |conversion: &Conversion| {
            serde_json::json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": { "name": conversion.crd },
            })
        };
        let registrations = registrations.map(|desired| (desired.manifest.clone(), desired.live.is_some()));
        registrations.chain(conversions.map(|conversion| (crd(conversion), true))).collect()
    }

    fn step(&self, served: &Served) -> Step {
        next(&Certificates { held: &served.held, published: &self.published(served) }, self.now)
    }

    /// Whether the Secret carries the labels and the owner of this version.
    fn is_owned(&self, served: &Served) -> bool {
        served.live.as_ref().is_some_and(|live| covers(&live.metadata, &served.secret["metadata"]))
    }

    /// The authorities that existing callers of the endpoint trust.
    fn published(&self, served: &Served) -> Vec<Vec<Authority>> {
        self.places(served).into_iter().map(|(place, live)| authorities_at(live, place.pointer)).collect()
    }

    /// The existing fields with the endpoint's CA bundle, with their objects.
    fn places<'a>(&'a self, served: &'a Served) -> Vec<(&'a CaPlace, &'a Value)> {
        let calls = |place: &&CaPlace| {
            let live = self.live(place)?;
            live::calls(live, place, &served.endpoint).then_some(live)
        };
        served.endpoint.trust.iter().filter_map(|place| Some((place, calls(&place)?))).collect()
    }

    fn live(&self, place: &CaPlace) -> Option<&Value> {
        if place.kind == "CustomResourceDefinition" {
            return self.conversions.iter().find(|c| c.crd == place.name).map(|c| &c.live);
        }
        let same = |desired: &&DesiredObject| {
            desired.manifest["kind"] == place.kind
                && desired.manifest["metadata"]["name"] == place.name.as_str()
        };
        self.registrations.iter().find(same)?.live.as_ref()
    }

    /// The CA bundle of an object, if it has one.
    fn ca_of(&self, kind: &str, name: &str) -> Option<(&CaPlace, String)> {
        self.endpoints.iter().find_map(|served| {
            let place = served.endpoint.trust.iter().find(|p| p.kind == kind && p.name == name)?;
            Some((place, served.held.ca_bundle()))
        })
    }

    /// An object that follows the Deployments, with its CA bundle.
    fn complete(&self, desired: &DesiredObject) -> Value {
        let mut manifest = desired.manifest.clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some((place, bundle)) =
            self.ca_of(&text(&manifest["kind"]), &text(&manifest["metadata"]["name"]))
        {
            live::set(&mut manifest, place.pointer, bundle.into());
        }
        manifest
    }

    /// `spec` with the conversion of a CRD and its CA bundle.
    fn converted(&self, conversion: &Conversion) -> Value {
        let mut crd = serde_json::json!({ "spec": { "conversion": conversion.conversion } });
        if let Some((place, bundle)) = self.ca_of("CustomResourceDefinition", &conversion.crd) {
            live::set(&mut crd, place.pointer, bundle.into());
        }
        crd
    }

    fn registration_missing(&self) -> Option<String> {
        let registration = self
            .registrations
            .iter()
            .find(|desired| desired.live.as_ref().is_none_or(|live| !covers(live, &self.complete(desired))));
        let conversion = || self.conversions.iter().find(|c| !covers(&c.live, &self.converted(c)));
        let stale = || self.stale.first();
        registration
            .map(|desired| format!("{} to be applied", named(&desired.manifest)))
            .or_else(|| conversion().map(|c| format!("CustomResourceDefinition {} to be converted", c.crd)))
            .or_else(|| stale().map(|s| format!("{} {} to be removed", s.kind, s.name)))
    }

    /// The first APIService that does not answer.
    fn waiting(&self) -> Option<String> {
        let services = self.registrations.iter().filter(|desired| desired.manifest["kind"] == "APIService");
        services.filter_map(|desired| Some((desired, desired.live.as_ref()?))).find_map(|(desired, live)| {
            let conditions = live["status"]["conditions"].as_array();
            let available = conditions.into_iter().flatten().find(|c| c["type"] == "Available");
            if available.is_some_and(|c| c["status"] == "True") {
                return None;
            }
            let why = available.and_then(|c| c["message"].as_str()).unwrap_or("not yet checked");
            Some(format!("{} to be available: {why}", named(&desired.manifest)))
        })
    }

    /// When the newest certificate was made, and when the first renewal is due.
    fn dates(&self) -> Option<(Time, Time)> {
        let dates = || self.endpoints.iter().filter_map(|served| served.held.dates());
        let made = dates().map(|(made, ..)| made).max()?;
        let again = dates().map(|(_, again, _)| again).min()?;
        let time = |seconds| Timestamp::from_second(seconds).ok().map(Time);
        Some((time(made)?, time(again)?))
    }

    /// Annotates the pod templates of Deployments that serve an aggregated API with the hash of the authority
    /// of their certificate, as upstream does: such servers may read their certificate only at their start.
    /// They are rolled over when it changes; old and new pods are trusted meanwhile. Webhooks are served by
    /// libraries that watch the file, and do not restart.
    pub(super) fn stamp(&self, deployments: &mut [Value], hash: impl Fn(&Value) -> String) {
        for served in self.endpoints.iter().filter(|served| served.endpoint.aggregated) {
            let Some(authority) = served.held.ca_hash() else { continue };
            let name = served.endpoint.deployment.as_str();
            for deployment in deployments.iter_mut().filter(|d| d["metadata"]["name"] == name) {
                deployment["spec"]["template"]["metadata"]["annotations"][ANNOTATION_CA_HASH] =
                    authority.as_str().into();
                deployment["metadata"]["labels"][olm_api::names::LABEL_DEPLOYMENT_SPEC_HASH] =
                    hash(&deployment["spec"]).into();
            }
        }
    }
}

impl DesiredObject {
    fn is_there(&self) -> bool {
        self.live.as_ref().is_some_and(|live| covers(live, &self.manifest))
    }
}

/// `Kind name`, for messages.
fn named(manifest: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(&manifest["kind"]), text(&manifest["metadata"]["name"]))
}

/// An APIService that the version serves, as a requirement; upstream lists it as soon as a Deployment is
/// named for it.
fn requirement(manifest: &Value, live: Option<&Value>) -> RequirementStatus {
    RequirementStatus {
        group: "apiregistration.k8s.io".into(),
        version: "v1".into(),
        kind: "APIService".into(),
        name: manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        status: RequirementState::Present,
        message: "served by a deployment of this version".into(),
        uuid: live.and_then(|live| live["metadata"]["uid"].as_str()).map(str::to_owned),
        dependents: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
