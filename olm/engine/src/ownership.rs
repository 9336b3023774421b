//! Ownership of the objects of a plan: owner references where garbage collection applies, labels elsewhere.

mod orphans;
mod shared;

use std::collections::BTreeSet;

use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, ObjectList, ObjectMeta, Request},
    core::{GroupVersionKind, PartialObjectMeta},
};
use olm_api::{ClusterServiceVersion, names};
use olm_client::lists;
pub use orphans::{orphans, orphans_of};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
pub use shared::{Released, leave, release};

/// The ClusterServiceVersion that objects are made for.
#[derive(Debug, Clone)]
pub struct Owner {
    name: String,
    namespace: String,
    uid: String,
    component: Option<String>,
}

impl Owner {
    pub fn of(csv: &ClusterServiceVersion, package: Option<&str>) -> Self {
        let namespace = csv.namespace().unwrap_or_default();
        Self {
            name: csv.name_any(),
            uid: csv.uid().unwrap_or_default(),
            component: package.map(|package| names::component_label(package, &namespace)),
            namespace,
        }
    }
}

/// Sets the owner of a manifest.
///
/// Objects in the owner's namespace get an owner reference. Server-side apply with one field manager removes
/// the reference to an older version in the same write: an object of the same name in the next version
/// changes its owner, and the deletion of the old version does not delete it. Objects elsewhere get labels,
/// by which the finalizer of the ClusterServiceVersion finds them.
pub fn own(manifest: &mut Value, owner: &Owner) {
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        for (key, value) in names::owner_labels(&owner.name, &owner.namespace) {
            labels.insert(key.into(), value.into());
        }
        if let Some(component) = &owner.component {
            labels.insert(component.clone(), json!(""));
        }
    }
    if metadata.get("namespace").and_then(Value::as_str) == Some(&owner.namespace) {
        metadata.insert("ownerReferences".into(), json!([reference(owner)]));
    }
}

fn reference(owner: &Owner) -> Value {
    let mut reference = Map::new();
    reference.insert("apiVersion".into(), ClusterServiceVersion::api_version(&()).into());
    reference.insert("kind".into(), ClusterServiceVersion::kind(&()).into());
    reference.insert("name".into(), owner.name.clone().into());
    reference.insert("uid".into(), owner.uid.clone().into());
    reference.insert("controller".into(), false.into());
    reference.insert("blockOwnerDeletion".into(), false.into());
    reference.into()
}

/// The selector of everything that carries the labels of a version.
pub fn selector(csv: &str, namespace: &str) -> String {
    selector_of(&OwnerKey::new(CSV, namespace, csv))
}

/// The selector of everything that carries the owner's labels.
pub fn selector_of(owner: &OwnerKey) -> String {
    format!(
        "{}={},{}={},{}={}",
        names::LABEL_OWNER,
        owner.name,
        names::LABEL_OWNER_NAMESPACE,
        owner.namespace,
        names::LABEL_OWNER_KIND,
        owner.kind,
    )
}

/// Kinds of owners whose objects garbage collection may not reach.
pub const CSV: &str = "ClusterServiceVersion";
pub const GROUP: &str = "OperatorGroup";

/// Group, version, kind and plural.
pub type OwnedKind = (&'static str, &'static str, &'static str, &'static str);

/// Kinds that are searched for an owner's labels, in the order of deletion: first what the API server calls
/// on other requests, then bindings, then the roles that they bind.
pub const OWNED_KINDS: &[OwnedKind] = &[
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    ("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    ("apiregistration.k8s.io", "v1", "APIService", "apiservices"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"),
];

/// An owner out of reach of garbage collection, as labels name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerKey {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl OwnerKey {
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The owner that an object's labels name, all three of them; an object with fewer was made neither by
    /// this manager nor by OLM.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let labels = metadata.labels.as_ref()?;
        let label = |key: &str| labels.get(key).map(String::as_str).filter(|value| !value.is_empty());
        Some(Self::new(
            label(names::LABEL_OWNER_KIND)?,
            label(names::LABEL_OWNER_NAMESPACE)?,
            label(names::LABEL_OWNER)?,
        ))
    }
}

/// Whether an object is out of reach of garbage collection: it is cluster-wide, or in another namespace than
/// its owner. An object in the owner's namespace is left to its owner reference: the next version may have
/// adopted it.
pub fn out_of_reach(metadata: &ObjectMeta, owner: &OwnerKey) -> bool {
    metadata.namespace.as_ref() != Some(&owner.namespace)
}

/// Whether an object is orphaned: the owner that its labels name does not exist. Owners of other kinds are
/// ignored. Pure.
pub fn is_orphan(metadata: &ObjectMeta, alive: &BTreeSet<OwnerKey>) -> bool {
    OwnerKey::of(metadata).is_some_and(|owner| {
        [CSV, GROUP].contains(&owner.kind.as_str())
            && out_of_reach(metadata, &owner)
            && !alive.contains(&owner)
    })
}

/// An object with owner labels.
#[derive(Debug, Clone)]
pub struct Owned {
    pub resource: ApiResource,
    pub metadata: ObjectMeta,
}

impl Owned {
    pub fn api(&self, client: &Client) -> Api<PartialObjectMeta<DynamicObject>> {
        match &self.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }
}

impl std::fmt::Display for Owned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, name) = (&self.resource.kind, self.metadata.name.as_deref().unwrap_or_default());
        match &self.metadata.namespace {
            Some(namespace) => write!(f, "{kind} {namespace}/{name}"),
            None => write!(f, "{kind} {name}"),
        }
    }
}

/// Objects per page: memory of a page is released before the next one is read.
const PAGE: u32 = 500;

/// Reads the metadata of all objects at an address that a selector finds, page by page, deserialised into
/// what the caller needs; `each` is called for one after the other.
pub async fn each_listed<T: DeserializeOwned + Clone>(
    client: &Client,
    url: &str,
    selector: &str,
    mut each: impl FnMut(T),
) -> Result<(), kube::Error> {
    let objects = Request::new(url);
    let mut parameters = ListParams::default().labels(selector).limit(PAGE);
    loop {
        let request = objects.list_metadata(&parameters).map_err(kube::Error::BuildRequest)?;
        let page: ObjectList<T> = client.request(request).await?;
        page.items.into_iter().for_each(&mut each);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// The whole metadata of all objects that a selector finds.
pub async fn each_metadata<K: Resource + Clone>(
    api: &Api<K>,
    selector: &str,
    mut each: impl FnMut(ObjectMeta),
) -> Result<(), kube::Error> {
    #[derive(Deserialize, Clone)]
    struct Item {
        metadata: ObjectMeta,
    }
    let client = api.clone().into_client();
    each_listed(&client, api.resource_url(), selector, |item: Item| each(item.metadata)).await
}

/// Objects that a label selector finds, of the kinds in [`OWNED_KINDS`], in the order of deletion. A kind
/// that the cluster does not have, or that the caller may not list, yields none.
pub async fn labelled(client: &Client, selector: &str) -> Result<Vec<Owned>, kube::Error> {
    labelled_if(client, OWNED_KINDS, selector, |_| true).await
}

/// Objects of some kinds that pass a filter.
pub async fn labelled_if(
    client: &Client,
    kinds: &[OwnedKind],
    selector: &str,
    wanted: impl Fn(&ObjectMeta) -> bool,
) -> Result<Vec<Owned>, kube::Error> {
    let mut out = Vec::new();
    for (group, version, kind, plural) in kinds {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let api = Api::<DynamicObject>::all_with(lists(client.clone()), &resource);
        let listed = each_metadata(&api, selector, |metadata| {
            if wanted(&metadata) {
                out.push(Owned { resource: resource.clone(), metadata });
            }
        });
        match listed.await {
            Ok(()) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_forbidden() => {
                tracing::debug!(plural, reason = status.message, "not searched for owned objects");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
