//! Target of an installation.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::maps::{map_at, merge};
use crate::csv::InstallMode;
use crate::error::RenderError;
use crate::kinds::{Scope, scope_of};
use crate::model::{Bundle, kind};

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
