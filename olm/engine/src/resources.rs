//! From a manifest to its endpoint, and generic operations on objects of any kind.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    discovery::{self, Scope},
};
use olm_api::names::FIELD_MANAGER;
use serde_json::Value;

use crate::undeclared;

/// Kinds whose endpoint needs no discovery: those of most bundles. `true` is namespaced.
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

/// An object is unreachable.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// The manifest lacks its type or name.
    #[error("failed to parse a manifest: `{0}` is missing")]
    Malformed(&'static str),
    /// The cluster has no such kind.
    #[error("kind `{kind}` of `{api_version}` is not served by the cluster")]
    UnknownKind { api_version: String, kind: String },
    #[error("failed to establish CustomResourceDefinition {name}: {text}")]
    NotEstablished { name: String, text: String },
    /// There are several objects of which only one may exist.
    #[error("failed to choose between {what} in namespaces {}, expected one", namespaces.join(", "))]
    Several { what: &'static str, namespaces: Vec<String> },
    /// The API server refused the request, or did not answer.
    #[error("failed to {verb} {object}: {}", short(.source))]
    Api {
        /// The verb of the request.
        verb: &'static str,
        /// `Kind namespace/name`.
        object: String,
        source: Box<kube::Error>,
    },
}

impl ResourceError {
    /// Whether the object or its namespace does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Api { source, .. } if is_missing(source))
    }

    /// Whether the API server understood the request and rejects it: invalid, or denied by an admission
    /// plug-in. A retry fails until the object or the cluster changes.
    pub fn is_refused(&self) -> bool {
        let Self::Api { source, .. } = self else {
            return matches!(self, Self::Malformed(_) | Self::UnknownKind { .. });
        };
        matches!(&**source, kube::Error::Api(s) if matches!(s.code, 400 | 403 | 422))
    }

    /// Whether the API server refused the request for lack of a right.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api { source, .. } if matches!(&**source, kube::Error::Api(s) if s.is_forbidden()))
    }
}

/// The server's own message where there is one: the `Display` of `kube::Error` repeats the whole status.
pub fn short(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        kube::Error::Service(source) => source.to_string(),
        other => other.to_string(),
    }
}

/// Locates objects of any kind.
#[derive(Clone)]
pub struct Resources {
    client: Client,
    discovered: Arc<RwLock<HashMap<GroupVersionKind, (ApiResource, bool)>>>,
    /// Kinds that the cluster did not serve, and when discovery reported it.
    missing: Arc<RwLock<HashMap<GroupVersionKind, Instant>>>,
    /// The version of the cluster, and when it was read.
    version: Arc<tokio::sync::Mutex<Option<(Instant, String)>>>,
}

/// How long a missing kind is not looked up again. Code that makes kinds, or sees them made, calls
/// [`Resources::forget_missing`]; this covers kinds of other origin, such as an APIService.
const MISSING: Duration = Duration::from_secs(10);

/// How long the version of the cluster is cached: clusters are upgraded rarely.
const VERSION: Duration = Duration::from_secs(600);

/// How often fields that the API server does not know are removed from an object: it names those of one level
/// of nested lists at a time.
const UNDECLARED_ROUNDS: usize = 8;

/// The result of creating an object.
#[derive(Debug)]
pub enum Created {
    New(Value),
    /// An object of that name exists.
    There(Value),
}

impl Resources {
    pub fn new(client: Client) -> Self {
        Self { client, discovered: Arc::default(), missing: Arc::default(), version: Arc::default() }
    }

    /// The same cached discovery, with the rights of another client.
    pub fn acting_with(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The endpoint of a kind, and whether it is namespaced.
    pub async fn lookup(&self, gvk: &GroupVersionKind) -> Result<(ApiResource, bool), ResourceError> {
        if let Some((.., plural, namespaced)) =
            KNOWN.iter().find(|(g, k, ..)| *g == gvk.group && *k == gvk.kind)
        {
            return Ok((ApiResource::from_gvk_with_plural(gvk, plural), *namespaced));
        }
        let cached = self.discovered.read().unwrap_or_else(PoisonError::into_inner).get(gvk).cloned();
        if let Some(found) = cached {
            return Ok(found);
        }
        let asked = self.missing.read().unwrap_or_else(PoisonError::into_inner).get(gvk).copied();
        if asked.is_some_and(|asked| asked.elapsed() < MISSING) {
            return Err(unknown(gvk));
        }
        match discovery::pinned_kind(&self.client, gvk).await {
            Ok((resource, capabilities)) => {
                let found = (resource, matches!(capabilities.scope, Scope::Namespaced));
                let mut cache = self.discovered.write().unwrap_or_else(PoisonError::into_inner);
                cache.insert(gvk.clone(), found.clone());
                Ok(found)
            }
            Err(error) if is_missing(&error) => {
                let mut missing = self.missing.write().unwrap_or_else(PoisonError::into_inner);
                missing.insert(gvk.clone(), Instant::now());
                Err(unknown(gvk))
            }
            Err(source) => Err(ResourceError::Api {
                verb: "discover",
                object: format!("kind {} of {}", gvk.kind, gvk.api_version()),
                source: Box::new(source),
            }),
        }
    }

    /// The git version of the cluster: vendors write `33+` into the minor one.
    pub async fn kubernetes(&self) -> Result<String, ResourceError> {
        // Held during the request: concurrent callers share one.
        let mut kept = self.version.lock().await;
        if let Some((_, version)) = kept.as_ref().filter(|(asked, _)| asked.elapsed() < VERSION) {
            return Ok(version.clone());
        }
        let asked = self.client.apiserver_version().await;
        let version = asked.map_err(|source| ResourceError::Api {
            verb: "read",
            object: "the version of the cluster".to_owned(),
            source: Box::new(source),
        })?;
        *kept = Some((Instant::now(), version.git_version.clone()));
        Ok(version.git_version)
    }

    /// Missing kinds may be served now.
    pub fn forget_missing(&self) {
        self.missing.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn api(&self, id: &Id) -> Result<Api<DynamicObject>, ResourceError> {
        let (resource, namespaced) = self.lookup(&id.gvk).await?;
        Ok(match (namespaced, &id.namespace) {
            (true, Some(namespace)) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            (true, None) => return Err(ResourceError::Malformed("metadata.namespace")),
            (false, _) => Api::all_with(self.client.clone(), &resource),
        })
    }

    /// The live object; `None` when it, or its kind, does not exist.
    pub async fn get(&self, id: &Id) -> Result<Option<Value>, ResourceError> {
        let api = match self.api(id).await {
            Ok(api) => api,
            Err(ResourceError::UnknownKind { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let found = api.get_opt(&id.name).await.map_err(id.failed("get"))?;
        Ok(found.and_then(|object| serde_json::to_value(object).ok()))
    }

    /// Server-side apply with force: takes over the fields in `manifest`, and removes previously applied fields that
    /// are missing in it. Fields of other managers stay.
    pub async fn apply(&self, manifest: &Value) -> Result<Value, ResourceError> {
        self.apply_as(manifest, FIELD_MANAGER).await
    }

    /// As [`Self::apply`], with another field manager.
    pub async fn apply_as(&self, manifest: &Value, field_manager: &str) -> Result<Value, ResourceError> {
        let params = PatchParams::apply(field_manager).force();
        self.patch(manifest, &params).await.map(|(applied, _)| applied)
    }

    /// Whether the API server accepts [`Self::apply_as`]. Nothing is stored (dry run).
    pub async fn check_apply(&self, manifest: &Value, field_manager: &str) -> Result<(), ResourceError> {
        let params = PatchParams::apply(field_manager).force().dry_run();
        self.patch(manifest, &params).await.map(drop)
    }

    /// As [`Self::apply`], with the warnings of the API server (HTTP `Warning` headers).
    pub async fn apply_with_warnings(&self, manifest: &Value) -> Result<(Value, Vec<String>), ResourceError> {
        self.patch(manifest, &PatchParams::apply(FIELD_MANAGER).force()).await
    }

    async fn patch(
        &self,
        manifest: &Value,
        params: &PatchParams,
    ) -> Result<(Value, Vec<String>), ResourceError> {
        let id = Id::of(manifest)?;
        let mut left_out = Vec::new();
        let mut known = Cow::Borrowed(manifest);
        for _ in 0..UNDECLARED_ROUNDS {
            let answer = self.send_apply(&id, &known, params).await;
            let stripped = match &answer {
                Err(ResourceError::Api { source, .. }) => undeclared::strip(&short(source), known.to_mut()),
                _ => None,
            };
            let Some(paths) = stripped else {
                return answer.map(|(applied, warnings)| (applied, [left_out, warnings].concat()));
            };
            // In the words of the API server's warning for such an object on create.
            left_out.extend(paths.iter().map(|path| format!("unknown field \"{path}\"")));
        }
        let (applied, warnings) = self.send_apply(&id, &known, params).await?;
        Ok((applied, [left_out, warnings].concat()))
    }

    async fn send_apply(
        &self,
        id: &Id,
        manifest: &Value,
        params: &PatchParams,
    ) -> Result<(Value, Vec<String>), ResourceError> {
        let api = self.api(id).await?;
        let request = kube::core::Request::new(api.resource_url())
            .patch(&id.name, params, &Patch::Apply(manifest))
            .map_err(|error| id.failed("apply")(kube::Error::BuildRequest(error)))?;
        // The typed call does not return the headers.
        let answer =
            self.client.send(request.map(kube::client::Body::from)).await.map_err(id.failed("apply"))?;
        let (head, body) = answer.into_parts();
        let body = http_body_util::BodyExt::collect(body).await.map_err(id.failed("apply"))?.to_bytes();
        if !head.status.is_success() {
            return Err(id.failed("apply")(refused(head.status.as_u16(), &body)));
        }
        let applied = serde_json::from_slice(&body)
            .map_err(|error| id.failed("apply")(kube::Error::SerdeError(error)))?;
        let warnings = head.headers.get_all(http::header::WARNING).iter();
        let warnings = warnings.filter_map(|value| warning(value.to_str().ok()?)).collect();
        Ok((applied, warnings))
    }

    /// Merges fields into an existing object.
    pub async fn merge(
        &self,
        object: &Value,
        patch: &Value,
        field_manager: &str,
    ) -> Result<Value, ResourceError> {
        let id = Id::of(object)?;
        let params = PatchParams { field_manager: Some(field_manager.to_owned()), ..PatchParams::default() };
        let patched = self.api(&id).await?.patch(&id.name, &params, &Patch::Merge(patch)).await;
        let patched = patched.map_err(id.failed("patch"))?;
        Ok(serde_json::to_value(patched).unwrap_or_default())
    }

    /// Creates an object unless one of that name exists.
    pub async fn create(&self, manifest: &Value) -> Result<Created, ResourceError> {
        let id = Id::of(manifest)?;
        let api = self.api(&id).await?;
        let object: DynamicObject =
            serde_json::from_value(manifest.clone()).map_err(|_| ResourceError::Malformed("metadata"))?;
        let value = |object: DynamicObject| serde_json::to_value(object).unwrap_or_default();
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match api.create(&params, &object).await {
            Ok(created) => Ok(Created::New(value(created))),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                Ok(Created::There(value(api.get(&id.name).await.map_err(id.failed("get"))?)))
            }
            Err(error) => Err(id.failed("create")(error)),
        }
    }
}

/// The server's refusal as the error of the client's own calls.
fn refused(code: u16, body: &[u8]) -> kube::Error {
    let status = serde_json::from_slice::<kube::core::Status>(body).unwrap_or_else(|_| {
        let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
        kube::core::Status::failure(&text, "Failed to parse error data").with_code(code)
    });
    kube::Error::Api(Box::new(status))
}

/// The text of a `Warning` header: `299 - "text"`, optionally followed by a date.
fn warning(header: &str) -> Option<String> {
    let (_, rest) = header.split_once('"')?;
    let mut text = String::new();
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => text.extend(chars.next()),
            c => text.push(c),
        }
    }
    (!text.is_empty()).then_some(text)
}

fn is_missing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.is_not_found(),
        kube::Error::Discovery(_) => true,
        _ => false,
    }
}

fn unknown(gvk: &GroupVersionKind) -> ResourceError {
    ResourceError::UnknownKind { api_version: gvk.api_version(), kind: gvk.kind.clone() }
}

/// The object that a manifest describes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Id {
    pub gvk: GroupVersionKind,
    pub namespace: Option<String>,
    pub name: String,
}

impl Id {
    pub fn new(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            gvk: GroupVersionKind::gvk(group, version, kind),
            namespace: namespace.filter(|n| !n.is_empty()).map(str::to_owned),
            name: name.to_owned(),
        }
    }

    pub fn of(manifest: &Value) -> Result<Self, ResourceError> {
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
    fn a_warning_is_its_text() {
        let text = |header| warning(header).unwrap_or_default();
        assert_eq!(text(r#"299 - "unknown field \"spec.x\"""#), r#"unknown field "spec.x""#);
        assert_eq!(text(r#"299 - "old" "Sun, 22 Nov 2026 00:00:00 GMT""#), "old");
        assert_eq!(warning("299 - nothing"), None);
    }

    #[tokio::test]
    async fn a_kind_that_is_not_there_is_asked_for_once() {
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let body = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound" });
            let body = kube::client::Body::from(body.to_string().into_bytes());
            async move { http::Response::builder().status(404).body(body) }
        });
        let resources = Resources::new(Client::new(service, "default"));
        let gvk = GroupVersionKind::gvk("example.com", "v1", "Thing");
        let asked = || asked.load(std::sync::atomic::Ordering::SeqCst);
        for _ in 0..3 {
            assert!(matches!(resources.lookup(&gvk).await, Err(ResourceError::UnknownKind { .. })));
        }
        let once = asked();
        assert!(once > 0);
        // code that makes kinds clears the cache
        resources.forget_missing();
        assert!(resources.clone().lookup(&gvk).await.is_err());
        assert_eq!(asked(), 2 * once);
    }

    #[test]
    fn a_manifest_without_a_name_is_refused_with_the_field() {
        let manifest = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": {} });
        assert!(Id::of(&manifest).unwrap_err().to_string().contains("`metadata.name` is missing"));
    }
}
