//! Renders a bundle to the objects that install it.
//!
//! Generated names follow OLM v0 where operators depend on them (annotations of the pod template, the
//! variable `OPERATOR_CONDITION_NAME`, names of Deployments and ServiceAccounts) and OLM v1 for roles.

mod aggregation;
mod config;
mod deployments;
mod manifest;
mod maps;
mod names;
pub(crate) mod rbac;
mod serving;
mod strategy;
mod target;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::error::RenderError;
use crate::kinds::{Phase, phase_of};
use crate::model::{Bundle, kind, name};
pub use aggregation::{crd_of_role, group_roles, gvk_hash};
pub use manifest::Manifest;
use serving::Served;
pub use serving::{CaPlace, Endpoint, Fault, Problem, hold_conversion_back};
pub use target::RenderOptions;
pub(crate) use target::Target;

/// The objects of an installation by phase. The ClusterServiceVersion is not among them, and they have no
/// owner references: the caller that applies them sets the owner.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rendered {
    /// Every phase with objects, in order.
    pub phases: Vec<(Phase, Vec<Manifest>)>,
    /// The Deployments that the API server calls, and the fields for their CA bundles. The manifests have
    /// none.
    pub endpoints: Vec<Endpoint>,
}

impl Rendered {
    /// All manifests in the order of their phases.
    pub fn manifests(&self) -> impl Iterator<Item = (Phase, &Manifest)> {
        self.phases.iter().flat_map(|(phase, objects)| objects.iter().map(|object| (*phase, object)))
    }

    /// All objects in the order of their phases.
    pub fn objects(&self) -> impl Iterator<Item = (Phase, &Value)> {
        self.manifests().map(|(phase, manifest)| (phase, &**manifest))
    }
}

/// Renders the objects that install a bundle. Deterministic: the same input gives the same bytes.
/// # Errors
/// [`RenderError`] when the target namespaces do not match the bundle's install modes, when the bundle needs
/// an unsupported feature, or when a required part is invalid.
pub fn render(bundle: &Bundle, options: &RenderOptions) -> Result<Rendered, RenderError> {
    let target = Target::of(bundle, options)?;
    check(bundle)?;
    let served = Served::of(&target)?;
    let endpoints = served.endpoints();

    let mut objects: Vec<(Phase, Value)> = Vec::new();
    let mut own_accounts = BTreeSet::new();
    for object in &bundle.objects {
        if kind(object) == "ServiceAccount" {
            own_accounts.insert(name(object).to_owned());
        }
        let phase = phase_of(kind(object)).expect("check() refuses kinds that have no phase");
        let mut object = target.adopt(object.clone());
        if phase == Phase::Crds {
            served.convert(&mut object);
        }
        objects.push((phase, object));
    }
    for object in rbac::objects(&target, &own_accounts) {
        objects.push((Phase::Rbac, object));
    }
    objects.extend(served.endpoint_objects(&endpoints).into_iter().map(|object| (Phase::Endpoints, object)));
    for object in deployments::objects(&target, &endpoints)? {
        objects.push((Phase::Workloads, object));
    }
    let serving = served.switches().into_iter().chain(aggregation::api_roles(&target));
    objects.extend(serving.map(|object| (Phase::Serving, object)));

    // Stable: within a phase the order of the bundle's files stays.
    objects.sort_by_key(|(phase, object)| (*phase, rank(kind(object))));
    let mut phases: Vec<(Phase, Vec<Manifest>)> = Vec::new();
    for (phase, object) in objects {
        let object = object.into();
        match phases.last_mut() {
            Some((last, list)) if *last == phase => list.push(object),
            _ => phases.push((phase, vec![object])),
        }
    }
    Ok(Rendered { phases, endpoints })
}

/// The webhook configurations and APIServices of a bundle; none where their descriptions are invalid.
pub(crate) fn switches(target: &Target<'_>) -> Vec<Value> {
    Served::of(target).map(|served| served.switches()).unwrap_or_default()
}

/// Order within a phase: accounts, roles, bindings, and then the rest.
fn rank(kind: &str) -> u8 {
    match kind {
        "ServiceAccount" => 0,
        "ClusterRole" | "Role" => 1,
        "ClusterRoleBinding" | "RoleBinding" => 2,
        _ => 3,
    }
}

/// Checks the required parts of a bundle.
fn check(bundle: &Bundle) -> Result<(), RenderError> {
    let invalid = |field: &str, text: String| {
        Err(RenderError::Invalid { bundle: bundle.name().to_owned(), field: field.to_owned(), text })
    };
    if bundle.name().len() > 63 {
        let text = "it has more than 63 characters and cannot be the value of the label olm.owner".to_owned();
        return invalid("metadata.name", text);
    }
    if let Some(version) = bundle.version_text().filter(|_| bundle.version().is_none()) {
        let text = format!("`{version}` is not a semantic version; write MAJOR.MINOR.PATCH");
        return invalid("spec.version", text);
    }
    let mut seen = BTreeSet::new();
    for object in &bundle.objects {
        let (kind, name) = (kind(object), name(object));
        if phase_of(kind).is_none() {
            let text = "bundles do not support this kind; let the operator create it, and remove the manifest from the bundle";
            return invalid(&format!("{kind} {name}"), text.to_owned());
        }
        if name.is_empty() {
            return invalid(kind, "a manifest has no metadata.name".to_owned());
        }
        if !seen.insert((kind, name)) {
            return invalid(&format!("{kind} {name}"), "the bundle has it twice".to_owned());
        }
        if kind == "CustomResourceDefinition" && object["apiVersion"] != "apiextensions.k8s.io/v1" {
            let text =
                "it is of an API version that Kubernetes 1.22 removed; it must be apiextensions.k8s.io/v1";
            return invalid(&format!("{kind} {name}"), text.to_owned());
        }
    }
    for owned in bundle.owned_crds() {
        if !seen.contains(&("CustomResourceDefinition", owned.name.as_str())) {
            let text = format!("the owned CustomResourceDefinition {} is not in the bundle", owned.name);
            return invalid("spec.customresourcedefinitions.owned", text);
        }
    }
    strategy::check(bundle)
}

#[cfg(test)]
mod tests;
