//! CRDs that no installed version of an operator has any more, found by the label of its package: those of an
//! operator whose Subscription and versions are gone, and those of earlier versions of an installed one.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_api::{csv::CrdDescription, names};
use olm_bundle::{Phase, Rendered};
use serde_json::json;

use super::owned::ByCrd;
use crate::{error::Error, instances::list_of_crd, list::Installed, status::Status};

/// The CRDs of a package without any other object in a namespace.
pub(super) struct RemainingCrds {
    namespace: String,
    crds: Vec<CustomResourceDefinition>,
}

impl RemainingCrds {
    /// In the given namespace, or in the only one with a trace of the package.
    pub(super) async fn find(
        client: &Client,
        namespace: Option<&str>,
        package: &str,
    ) -> Result<Option<Self>, Error> {
        let params = match namespace {
            Some(namespace) => ListParams::default().labels(&names::component_label(package, namespace)),
            None => ListParams::default(),
        };
        let list = list(client, &params).await?;
        let places = |crd: &CustomResourceDefinition| traces(crd, package);
        let mut namespaces: Vec<String> = match namespace {
            Some(namespace) => vec![namespace.to_owned()],
            None => list.iter().flat_map(places).collect(),
        };
        namespaces.sort();
        namespaces.dedup();
        let namespace = match namespaces.as_slice() {
            [one] => one.clone(),
            [] => return Ok(None),
            several => {
                return Err(Error::Refused {
                    code: "Ambiguous".into(),
                    text: format!(
                        "CRDs of `{package}` remain from several namespaces: {}",
                        several.join(", ")
                    ),
                    fix: Some("choose one with --namespace".into()),
                });
            }
        };
        let label = names::component_label(package, &namespace);
        let crds: Vec<_> = list.into_iter().filter(|crd| crd.labels().contains_key(&label)).collect();
        Ok((!crds.is_empty()).then_some(Self { namespace, crds }))
    }

    /// The remains of an installed operator: without the CRDs of its installed version, and without those
    /// that another package has adopted.
    pub(super) async fn beside(
        client: &Client,
        installed: &Installed,
        brought: &BTreeSet<&str>,
    ) -> Result<Self, Error> {
        let (package, namespace) = (&installed.package, installed.namespace.clone());
        if package.is_empty() {
            // A manually applied version of an unknown package.
            return Ok(Self { namespace, crds: Vec::new() });
        }
        let label = names::component_label(package, &namespace);
        let mut crds = list(client, &ListParams::default().labels(&label)).await?;
        crds.retain(|crd| !brought.contains(crd.name_any().as_str()) && !is_anothers(crd, package));
        Ok(Self { namespace, crds })
    }

    /// In the form of an installed operator.
    pub(super) fn installed(&self, package: &str) -> Installed {
        Installed {
            namespace: self.namespace.clone(),
            name: package.to_owned(),
            package: package.to_owned(),
            display_name: package.to_owned(),
            status: Status::Uninstalling,
            reason: "its CustomResourceDefinitions remain".into(),
            version: None,
            csv: None,
            next: None,
            available: None,
            channel: None,
            catalog: None,
            approval: String::new(),
            plan: None,
            plan_digest: None,
            paused: false,
            planned: None,
            review: None,
            watches: vec![String::new()],
            skip_versions: Vec::new(),
            deprecations: Vec::new(),
            created: None,
        }
    }

    pub(super) fn rendered(&self) -> Rendered {
        let crd = |crd: &CustomResourceDefinition| {
            json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                    "metadata": { "name": crd.name_any() } })
        };
        Rendered {
            phases: vec![(Phase::Crds, self.crds.iter().map(|c| crd(c).into()).collect())],
            endpoints: Vec::new(),
        }
    }

    pub(super) async fn instances(&self, client: &Client) -> Result<ByCrd, Error> {
        let mut out = Vec::new();
        for crd in &self.crds {
            let version = crd.spec.versions.iter().find(|v| v.storage).or(crd.spec.versions.first());
            let description = CrdDescription {
                name: crd.name_any(),
                version: version.map(|v| v.name.clone()).unwrap_or_default(),
                kind: crd.spec.names.kind.clone(),
                ..CrdDescription::default()
            };
            let list = list_of_crd(client, &description).await?;
            out.push((description, list));
        }
        Ok(out)
    }
}

async fn list(client: &Client, params: &ListParams) -> Result<Vec<CustomResourceDefinition>, Error> {
    let list = Api::<CustomResourceDefinition>::all(client.clone()).list(params).await;
    Ok(list.map_err(Error::kube("list CustomResourceDefinitions"))?.items)
}

/// Whether a CRD is a component of another package too.
fn is_anothers(crd: &CustomResourceDefinition, package: &str) -> bool {
    let components = crd.labels().keys().filter_map(|key| key.strip_prefix(names::LABEL_COMPONENT_PREFIX));
    // a package name may have dots, a namespace never has
    components.filter_map(|component| component.rsplit_once('.')).any(|(other, _)| other != package)
}

/// The namespaces from which a CRD was installed with the package.
fn traces(crd: &CustomResourceDefinition, package: &str) -> Vec<String> {
    let prefix = format!("{}{package}.", names::LABEL_COMPONENT_PREFIX);
    let of = |key: &String| key.strip_prefix(&prefix).filter(|ns| !ns.contains('.')).map(str::to_owned);
    crd.labels().keys().filter_map(of).collect()
}
