//! Endpoints of an operator that the API server calls: admission webhooks, conversion webhooks and aggregated
//! APIs.
//!
//! Each serving Deployment gets a Service and a Secret with a certificate, mounted where operators expect it.
//! Names and paths are OLM v0's. Certificates are not part of a rendering: manifests have no CA bundle, and
//! [`Endpoint::trust`] has the fields to set when they are applied. So the rendering does not change when
//! certificates are renewed.

mod apis;
mod check;
mod endpoint;
mod fault;
mod mounts;
mod objects;
mod webhooks;

use std::collections::BTreeMap;

use olm_api::csv::{ApiServiceDescription, WebhookDescription};
use serde_json::Value;

use super::Target;
use crate::error::RenderError;
use crate::model::name;
use endpoint::service_name;
pub use endpoint::{CaPlace, Endpoint};
pub use fault::{Fault, Problem};
pub(super) use mounts::mount;

/// The validated descriptions of a bundle.
pub(super) struct Served<'a> {
    target: &'a Target<'a>,
    webhooks: &'a [WebhookDescription],
    apis: &'a [ApiServiceDescription],
}

impl<'a> Served<'a> {
    /// Validates all descriptions and reports all errors.
    pub(super) fn of(target: &'a Target<'a>) -> Result<Self, RenderError> {
        let spec = &target.bundle.csv.spec;
        let apis =
            spec.api_service_definitions.as_ref().map(|apis| apis.owned.as_slice()).unwrap_or_default();
        let served = Self { target, webhooks: &spec.webhook_definitions, apis };
        let faults = check::check(target, served.webhooks, served.apis);
        if faults.is_empty() {
            Ok(served)
        } else {
            Err(RenderError::Serving { bundle: target.bundle.name().to_owned(), faults })
        }
    }

    /// One for each serving Deployment, by name.
    pub(super) fn endpoints(&self) -> Vec<Endpoint> {
        let mut found: BTreeMap<&str, Endpoint> = BTreeMap::new();
        let mut add = |deployment: Option<&'a str>, aggregated: bool, places: Vec<CaPlace>| {
            let Some(deployment) = deployment else { return };
            let endpoint = found.entry(deployment).or_insert_with(|| self.endpoint(deployment));
            endpoint.aggregated |= aggregated;
            endpoint
                .trust
                .extend(places.into_iter().filter(|p| !endpoint.trust.contains(p)).collect::<Vec<_>>());
        };
        for webhook in self.webhooks {
            add(self.deployment(webhook.deployment_name.as_deref()), false, webhooks::places(self, webhook));
        }
        for api in self.apis {
            add(self.deployment(api.deployment_name.as_deref()), true, vec![apis::place(api)]);
        }
        found.into_values().collect()
    }

    fn endpoint(&self, deployment: &str) -> Endpoint {
        let service = service_name(deployment);
        Endpoint {
            deployment: deployment.to_owned(),
            namespace: self.target.options.install_namespace.clone(),
            secret: format!("{service}-cert"),
            service,
            aggregated: false,
            trust: Vec::new(),
        }
    }

    fn deployment(&self, name: Option<&str>) -> Option<&'a str> {
        let names = self.target.bundle.deployments().iter().filter_map(|d| d.get("name")?.as_str());
        names.into_iter().find(|known| Some(*known) == name)
    }

    /// Services, Secrets and the permission to read them: before the Deployments.
    pub(super) fn endpoint_objects(&self, endpoints: &[Endpoint]) -> Vec<Value> {
        endpoints.iter().flat_map(|endpoint| objects::objects(self, endpoint)).collect()
    }

    /// Webhook configurations and APIServices: after the Deployments.
    pub(super) fn switches(&self) -> Vec<Value> {
        let mut list: Vec<Value> =
            self.webhooks.iter().filter_map(|w| webhooks::configuration(self, w)).collect();
        list.extend(apis::objects(self));
        list
    }

    /// Adds the conversion by the bundle's own webhook to a CustomResourceDefinition.
    pub(super) fn convert(&self, crd: &mut Value) {
        webhooks::convert(self, crd);
    }
}

/// Removes the conversion by the bundle's own webhook from a CustomResourceDefinition's manifest. The webhook
/// does not answer yet when a CustomResourceDefinition is applied, so its conversion stays unchanged until it
/// does.
pub fn hold_conversion_back(bundle: &crate::Bundle, crd: &mut Value) {
    let mut converted =
        bundle.csv.spec.webhook_definitions.iter().flat_map(|webhook| &webhook.conversion_crds);
    let own = converted.any(|converted| converted == name(crd));
    if own && let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) {
        spec.shift_remove("conversion");
    }
}

#[cfg(test)]
mod tests;
