//! From a manifest to the endpoint that takes it, and the few generic things done with any object.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{self, Scope},
};
use olm_api::names::FIELD_MANAGER;
use serde_json::Value;

/// Kinds whose endpoint is known without asking: what bundles usually bring. `true` is namespaced.
const KNOWN: &[(&str, &str, &str, bool)] = &[
    ("", "Namespace", "namespaces", false),
    ("", "ServiceAccount", "serviceaccounts", true),
    ("", "Service", "services", true),
    ("", "ConfigMap", "configmaps", true),
    ("", "Secret", "secrets", true),
    ("", "Pod", "pods", true),
    ("apps", "Deployment", "deployments", true),
    ("rbac.authorization.k8s.io", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
    ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", false),
    ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets", true),
    ("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
    ("scheduling.k8s.io", "PriorityClass", "priorityclasses", false),
    ("operators.coreos.com", "ClusterServiceVersion", "clusterserviceversions", true),
    ("operators.coreos.com", "Subscription", "subscriptions", true),
    ("operators.coreos.com", "InstallPlan", "installplans", true),
    ("operators.coreos.com", "OperatorGroup", "operatorgroups", true),
    ("operators.coreos.com", "OperatorCondition", "operatorconditions", true),
    ("operators.coreos.com", "CatalogSource", "catalogsources", true),
];

/// An object cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// The manifest does not say what it is.
    #[error("failed to read a manifest: `{0}` is missing")]
    Malformed(&'static str),
    /// The cluster has no such kind.
    #[error("the cluster does not know kind `{kind}` of `{api_version}`")]
    UnknownKind {
        /// `apiVersion` of the manifest.
        api_version: String,
        /// `kind` of the manifest.
        kind: String,
    },
    /// A CustomResourceDefinition is not served.
    #[error("failed to establish CustomResourceDefinition {name}: {text}")]
    NotEstablished {
        /// Its name.
        name: String,
        /// Why not.
        text: String,
    },
    /// The API server said no, or did not answer.
    #[error("failed to {verb} {object}: {}", short(.source))]
    Api {
        /// What was being done.
        verb: &'static str,
        /// `Kind namespace/name`.
        object: String,
        /// The cause.
        source: Box<kube::Error>,
    },
}

impl ResourceError {
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api { source, .. } if matches!(&**source, kube::Error::Api(s) if s.is_forbidden()))
    }
}

/// The server's own words where there are some: the `Display` of `kube::Error` repeats the whole status.
pub(crate) fn short(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Knows where objects of any kind live.
#[derive(Clone)]
pub(crate) struct Resources {
    client: Client,
    discovered: Arc<RwLock<HashMap<GroupVersionKind, (ApiResource, bool)>>>,
}

impl Resources {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, discovered: Arc::default() }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The endpoint of a kind, and whether it is namespaced.
    pub(crate) async fn lookup(&self, gvk: &GroupVersionKind) -> Result<(ApiResource, bool), ResourceError> {
        if let Some((.., plural, namespaced)) =
            KNOWN.iter().find(|(g, k, ..)| *g == gvk.group && *k == gvk.kind)
        {
            return Ok((ApiResource::from_gvk_with_plural(gvk, plural), *namespaced));
        }
        let cached = self.discovered.read().unwrap_or_else(PoisonError::into_inner).get(gvk).cloned();
        if let Some(found) = cached {
            return Ok(found);
        }
        match discovery::pinned_kind(&self.client, gvk).await {
            Ok((resource, capabilities)) => {
                let found = (resource, matches!(capabilities.scope, Scope::Namespaced));
                let mut cache = self.discovered.write().unwrap_or_else(PoisonError::into_inner);
                cache.insert(gvk.clone(), found.clone());
                Ok(found)
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Err(unknown(gvk)),
            Err(kube::Error::Discovery(_)) => Err(unknown(gvk)),
            Err(source) => Err(ResourceError::Api {
                verb: "discover",
                object: format!("kind {} of {}", gvk.kind, gvk.api_version()),
                source: Box::new(source),
            }),
        }
    }

    async fn api(&self, id: &Id) -> Result<Api<DynamicObject>, ResourceError> {
        let (resource, namespaced) = self.lookup(&id.gvk).await?;
        Ok(match (namespaced, &id.namespace) {
            (true, Some(namespace)) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            (true, None) => return Err(ResourceError::Malformed("metadata.namespace")),
            (false, _) => Api::all_with(self.client.clone(), &resource),
        })
    }

    /// The object as it is now; `None` when it, or its kind, does not exist.
    pub(crate) async fn get(&self, id: &Id) -> Result<Option<Value>, ResourceError> {
        let api = match self.api(id).await {
            Ok(api) => api,
            Err(ResourceError::UnknownKind { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let found = api.get_opt(&id.name).await.map_err(id.failed("get"))?;
        Ok(found.and_then(|object| serde_json::to_value(object).ok()))
    }

    /// Server-side apply with force: what is in `manifest` is ours, what is not there is left alone.
    pub(crate) async fn apply(&self, manifest: &Value) -> Result<Value, ResourceError> {
        self.apply_as(manifest, FIELD_MANAGER).await
    }

    /// As [`Self::apply`], under another name.
    pub(crate) async fn apply_as(
        &self,
        manifest: &Value,
        field_manager: &str,
    ) -> Result<Value, ResourceError> {
        let id = Id::of(manifest)?;
        let api = self.api(&id).await?;
        let params = PatchParams::apply(field_manager).force();
        let applied =
            api.patch(&id.name, &params, &Patch::Apply(manifest)).await.map_err(id.failed("apply"))?;
        Ok(serde_json::to_value(applied).unwrap_or_default())
    }
}

fn unknown(gvk: &GroupVersionKind) -> ResourceError {
    ResourceError::UnknownKind { api_version: gvk.api_version(), kind: gvk.kind.clone() }
}

/// Which object a manifest is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    pub(crate) gvk: GroupVersionKind,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl Id {
    pub(crate) fn new(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            gvk: GroupVersionKind::gvk(group, version, kind),
            namespace: namespace.filter(|n| !n.is_empty()).map(str::to_owned),
            name: name.to_owned(),
        }
    }

    pub(crate) fn of(manifest: &Value) -> Result<Self, ResourceError> {
        let text = |pointer, field| {
            let value = manifest.pointer(pointer).and_then(Value::as_str).filter(|v| !v.is_empty());
            value.ok_or(ResourceError::Malformed(field))
        };
        Ok(Self::new(
            text("/apiVersion", "apiVersion")?,
            text("/kind", "kind")?,
            manifest.pointer("/metadata/namespace").and_then(Value::as_str),
            text("/metadata/name", "metadata.name")?,
        ))
    }

    fn failed(&self, verb: &'static str) -> impl FnOnce(kube::Error) -> ResourceError {
        let object = self.to_string();
        move |source| ResourceError::Api { verb, object, source: Box::new(source) }
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.gvk.kind, self.name),
            None => write!(f, "{} {}", self.gvk.kind, self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_names_its_object() {
        let manifest = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "namespace": "a", "name": "b" }
        });
        let id = Id::of(&manifest).unwrap();
        assert_eq!(id.to_string(), "Deployment a/b");
        assert_eq!(id.gvk.group, "apps");
    }

    #[test]
    fn a_manifest_without_a_name_is_refused_with_the_field() {
        let manifest = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": {} });
        assert!(Id::of(&manifest).unwrap_err().to_string().contains("`metadata.name` is missing"));
    }
}
