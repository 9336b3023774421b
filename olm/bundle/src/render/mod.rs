//! Renders a bundle to the objects that install it.
//!
//! Generated names follow OLM v0 where operators depend on them (annotations of the pod template, the
//! variable `OPERATOR_CONDITION_NAME`, names of Deployments and ServiceAccounts) and OLM v1 for roles.

mod aggregation;
mod config;
mod deployments;
mod manifest;
mod names;
pub(crate) mod rbac;
mod serving;
mod strategy;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::csv::InstallMode;
use crate::error::RenderError;
use crate::kinds::{Scope, phase_of, scope_of};
use crate::model::{Bundle, kind, name};
pub use aggregation::{crd_of_role, group_roles, gvk_hash};
pub use manifest::Manifest;
use serving::Served;
pub use serving::{CaPlace, Endpoint, Fault, Problem, hold_conversion_back};

/// The phases of an installation, in order. Each is complete before the next begins.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
pub enum Phase {
    /// PriorityClasses, NetworkPolicies, PodDisruptionBudgets.
    Prerequisites,
    /// CustomResourceDefinitions, established.
    Crds,
    /// ServiceAccounts, roles and bindings.
    Rbac,
    /// Services, ConfigMaps, Secrets and the like.
    Config,
    /// What Deployments require that serve webhooks or aggregated APIs: Services, Secrets with certificates,
    /// and roles to read them.
    Endpoints,
    /// Deployments, until rolled out.
    Workloads,
    /// What is served once the operator runs: webhooks, aggregated APIs, roles for its kinds.
    Serving,
}

/// Target of an installation.
#[derive(Debug, Clone, Default)]
pub struct RenderOptions {
    pub install_namespace: String,
    /// The watched namespaces; empty or `[""]` means all.
    pub target_namespaces: Vec<String>,
    /// The OperatorGroup's name, for the annotation `olm.operatorGroup`.
    pub operator_group: Option<String>,
    /// `Subscription.spec.config`.
    pub subscription_config: Option<Value>,
}

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

/// A bundle with its target.
pub(crate) struct Target<'a> {
    pub bundle: &'a Bundle,
    pub options: &'a RenderOptions,
    pub mode: InstallMode,
    /// Sorted, without repetition; empty for all namespaces.
    pub namespaces: Vec<String>,
}

impl<'a> Target<'a> {
    pub(crate) fn of(bundle: &'a Bundle, options: &'a RenderOptions) -> Result<Self, RenderError> {
        let targets = &options.target_namespaces;
        let modes = bundle.install_modes();
        let mode =
            modes.check(&options.install_namespace, targets).map_err(|wanted| RenderError::InstallMode {
                bundle: bundle.name().to_owned(),
                wanted: match targets.as_slice() {
                    [] => wanted.to_owned(),
                    [all] if all.is_empty() => wanted.to_owned(),
                    names => format!("{wanted} ({})", names.join(", ")),
                },
                supported: modes.to_string(),
            })?;
        let namespaces: BTreeSet<&String> = targets.iter().filter(|name| !name.is_empty()).collect();
        Ok(Self { bundle, options, mode, namespaces: namespaces.into_iter().cloned().collect() })
    }

    /// Labels of every generated object, by which tools find an operator's parts.
    pub fn owner_labels(&self) -> Map<String, Value> {
        let mut labels = Map::new();
        labels.insert("olm.managed".into(), "true".into());
        labels.insert("olm.owner".into(), self.bundle.name().into());
        labels.insert("olm.owner.kind".into(), "ClusterServiceVersion".into());
        labels.insert("olm.owner.namespace".into(), self.options.install_namespace.as_str().into());
        labels
    }

    /// Moves a manifest of the bundle to the install namespace and labels it.
    pub(crate) fn adopt(&self, mut object: Value) -> Value {
        let kind = kind(&object).to_owned();
        let labels = match kind.as_str() {
            // A CustomResourceDefinition outlives the operator: it has no owner.
            "CustomResourceDefinition" => Map::from_iter([("olm.managed".to_owned(), json!("true"))]),
            _ => self.owner_labels(),
        };
        merge(map_at(&mut object, &["metadata", "labels"]), labels);
        let metadata = map_at(&mut object, &["metadata"]);
        metadata.remove("creationTimestamp");
        match scope_of(&kind) {
            Some(Scope::Cluster) => metadata.remove("namespace"),
            _ => metadata.insert("namespace".into(), self.options.install_namespace.as_str().into()),
        };
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
        object
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
        let text = format!("`{version}` is no semantic version; write MAJOR.MINOR.PATCH");
        return invalid("spec.version", text);
    }
    let mut seen = BTreeSet::new();
    for object in &bundle.objects {
        let (kind, name) = (kind(object), name(object));
        if phase_of(kind).is_none() {
            let text = "bundles cannot hold this kind; let the operator make it, and take the manifest out of the bundle";
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

/// The map at a path, created if missing.
pub(crate) fn map_at<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut value = value;
    for key in path {
        value = as_map(value).entry(*key).or_insert(Value::Null);
    }
    as_map(value)
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made a map above")
}

/// Merges a map into another, overwriting.
pub(crate) fn merge(map: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        map.insert(key, value);
    }
}

#[cfg(test)]
mod tests;
