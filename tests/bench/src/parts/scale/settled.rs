//! A settled cluster with many equal namespaces. A manager installed two of them; the others are written as
//! copies.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use http::{Method, Request, header};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    client::Body,
    discovery::{ApiResource, Discovery, Scope, verbs},
};
use olm_api::names;
use olm_tests::inprocess::World;
use serde::Deserialize;
use serde_json::{Value, json};

use super::template::{Pattern, bare};

/// Kinds that are not copied: those only used by the cluster's own controllers, and those about the past.
const LEFT_OUT: &[&str] =
    &["Event", "Pod", "ReplicaSet", "Endpoints", "EndpointSlice", "Lease", "Node", "ComponentStatus"];

/// The OperatorGroup of a namespace ([`olm_tests::inprocess::World::group`]).
const GROUP: &str = "own";

/// Objects that the cluster itself creates in every namespace.
const OF_CLUSTER: &[&str] = &["ServiceAccount/default", "ConfigMap/kube-root-ca.crt"];

/// Namespaces written concurrently.
const AT_ONCE: usize = 4;

/// An object of a cluster with its endpoint.
struct Found {
    resource: ApiResource,
    namespaced: bool,
    has_status: bool,
    object: Value,
}

impl Found {
    fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Its identity.
    fn key(&self) -> String {
        let (namespace, name) = (self.text("/metadata/namespace"), self.text("/metadata/name"));
        format!("{}.{} {namespace}/{name}", self.resource.kind, self.resource.group)
    }

    /// Its creation path.
    fn collection(&self) -> String {
        let ApiResource { group, version, plural, .. } = &self.resource;
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        match self.text("/metadata/namespace") {
            namespace if self.namespaced => format!("{root}/namespaces/{namespace}/{plural}"),
            _ => format!("{root}/{plural}"),
        }
    }

    fn is_namespace(&self) -> bool {
        self.resource.kind == "Namespace"
    }

    /// Whether its labels name an owner in the namespace.
    fn is_owned_in(&self, namespace: &str) -> bool {
        let labels = &self.object["metadata"]["labels"];
        labels["olm.owner.namespace"] == namespace
    }

    fn owners(&self) -> impl Iterator<Item = &str> {
        let owners = self.object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        owners.filter_map(|owner| owner["uid"].as_str())
    }
}

/// Every relevant object of the cluster.
async fn read(client: &Client) -> Result<Vec<Found>> {
    let discovered = Discovery::new(client.clone()).run().await.context("failed to discover the kinds")?;
    let mut kinds = BTreeMap::new();
    for group in discovered.groups() {
        for (resource, capabilities) in group.resources_by_stability() {
            if capabilities.supports_operation(verbs::LIST) && !LEFT_OUT.contains(&resource.kind.as_str()) {
                kinds.insert((resource.group.clone(), resource.kind.clone()), (resource, capabilities));
            }
        }
    }
    let mut all = Vec::new();
    for (resource, capabilities) in kinds.into_values() {
        let has_status = capabilities.subresources.iter().any(|(sub, _)| sub.plural.ends_with("status"));
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        for object in api.list(&ListParams::default()).await? {
            let mut object = serde_json::to_value(object)?;
            // Items of lists have neither.
            object["apiVersion"] = resource.api_version.clone().into();
            object["kind"] = resource.kind.clone().into();
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if OF_CLUSTER.contains(&format!("{}/{name}", resource.kind).as_str()) {
                continue;
            }
            let (resource, namespaced) = (resource.clone(), capabilities.scope == Scope::Namespaced);
            all.push(Found { resource, namespaced, has_status, object });
        }
    }
    Ok(all)
}

/// An object of every namespace.
struct Part {
    kind: String,
    collection: Pattern,
    name: Pattern,
    body: Pattern,
    /// Written after all objects exist, and its subresource.
    then: Option<(Pattern, &'static str)>,
}

/// The content of one namespace, as a pattern for others.
pub(crate) struct Settled {
    parts: Vec<Part>,
    /// Objects shared by all namespaces: path, and labels that name a namespace.
    shared: Vec<(String, Vec<Pattern>)>,
    client: Client,
    /// Only the manager may write certain fields of an InstallPlan.
    manager: Client,
}

impl Settled {
    /// From the namespace `one`; `two` has an equal installation.
    pub(crate) async fn read(world: &World, one: &str, two: &str) -> Result<Self> {
        let all = read(&world.client).await?;
        let keys: BTreeSet<String> = all.iter().map(Found::key).collect();
        let (mut words, twins) = (own_names(one), own_names(two));
        let (mine, shared): (Vec<Found>, Vec<Found>) =
            all.into_iter().partition(|found| words.iter().any(|name| found.key().contains(name)));
        // Names in a namespace may be equal in all; others must be unique per namespace.
        for found in mine.iter().filter(|found| !found.namespaced) {
            let twin = Pattern::new(&found.key(), &words).fill(&twins);
            ensure!(keys.contains(&twin), "{} has no twin in {two}", found.key());
        }
        if let Some(found) = shared.iter().find(|found| found.is_owned_in(one)) {
            bail!("{} belongs to {one}, and how its name is made is not known here", found.key());
        }
        let shared = shared.iter().filter_map(|found| labelled(found, one)).collect();
        let mine = ordered(mine)?;
        words.extend(mine.iter().map(|found| found.text("/metadata/uid").to_owned()));
        let parts = mine.iter().map(|found| part(found, |text| Pattern::new(text, &words))).collect();
        Ok(Self { parts, shared, client: world.client.clone(), manager: world.client_of_manager() })
    }

    /// Number of objects of a namespace, by kind.
    pub(crate) fn census(&self) -> String {
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for part in &self.parts {
            *count.entry(&part.kind).or_default() += 1;
        }
        count.iter().map(|(kind, n)| format!("{n} {kind}")).collect::<Vec<_>>().join(", ")
    }

    /// Number of objects of a namespace.
    pub(crate) fn objects(&self) -> usize {
        self.parts.len()
    }

    /// Writes the same for other namespaces.
    pub(crate) async fn copy_to(self, namespaces: Vec<String>) -> Result<()> {
        for (path, labels) in &self.shared {
            let filled = |namespace: &String| {
                labels.iter().map(|label| label.fill(std::slice::from_ref(namespace))).collect::<Vec<_>>()
            };
            let labels = namespaces.iter().flat_map(filled);
            let labels: serde_json::Map<String, Value> = labels.map(|label| (label, "".into())).collect();
            self.write(Method::PATCH, path, json!({ "metadata": { "labels": labels } }).to_string()).await?;
        }
        let settled = Arc::new(self);
        let copies = namespaces.into_iter().map(|namespace| {
            let settled = Arc::clone(&settled);
            // In tasks, to use all processors.
            async move { tokio::spawn(async move { settled.copy(&namespace).await }).await? }
        });
        futures::stream::iter(copies).buffer_unordered(AT_ONCE).try_collect::<()>().await
    }

    async fn copy(&self, namespace: &str) -> Result<()> {
        let mut words = own_names(namespace);
        for part in &self.parts {
            let path = part.collection.fill(&words);
            let body = part.body.fill(&words);
            words.push(self.write(Method::POST, &path, body).await?);
        }
        for part in &self.parts {
            if let Some((then, subresource)) = &part.then {
                let (collection, name) = (part.collection.fill(&words), part.name.fill(&words));
                let path = format!("{collection}/{name}{subresource}");
                self.write(Method::PATCH, &path, then.fill(&words)).await?;
            }
        }
        Ok(())
    }

    /// The uid of the written object.
    async fn write(&self, method: Method, path: &str, body: String) -> Result<String> {
        #[derive(Deserialize)]
        struct Written {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            uid: String,
        }
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request =
            Request::builder().method(&method).uri(format!("{path}?fieldManager={}", names::FIELD_MANAGER));
        let request = request.header(header::CONTENT_TYPE, kind).body(Body::from(body.into_bytes()))?;
        let client = if path.contains("/installplans") { &self.manager } else { &self.client };
        let answer = client.send(request).await?;
        let ok = answer.status().is_success();
        let bytes = http_body_util::BodyExt::collect(answer.into_body()).await?.to_bytes();
        ensure!(ok, "{method} {path}: {}", String::from_utf8_lossy(&bytes));
        Ok(serde_json::from_slice::<Written>(&bytes)?.metadata.uid)
    }
}

/// The names derived from a namespace's: its own, and those of the roles of its OperatorGroup.
fn own_names(namespace: &str) -> Vec<String> {
    let roles = olm_bundle::group_roles(GROUP, namespace, &[]);
    let role = |role: &Value| role["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    std::iter::once(namespace.to_owned()).chain(roles.iter().map(role)).collect()
}

/// Path of a shared object and its labels that name a namespace, if any.
fn labelled(found: &Found, namespace: &str) -> Option<(String, Vec<Pattern>)> {
    let labels = found.object["metadata"]["labels"].as_object()?;
    let ours = labels.keys().filter(|key| key.contains(namespace));
    let ours: Vec<Pattern> = ours.map(|key| Pattern::new(key, &[namespace.to_owned()])).collect();
    (!ours.is_empty()).then(|| (format!("{}/{}", found.collection(), found.text("/metadata/name")), ours))
}

/// Owners before their objects; the namespace first.
fn ordered(mut rest: Vec<Found>) -> Result<Vec<Found>> {
    let mut out: Vec<Found> = Vec::with_capacity(rest.len());
    let uids: BTreeSet<String> = rest.iter().map(|found| found.text("/metadata/uid").to_owned()).collect();
    let mut there = BTreeSet::new();
    rest.sort_by_key(|found| !found.is_namespace());
    while !rest.is_empty() {
        let free = |found: &Found| found.owners().all(|owner| !uids.contains(owner) || there.contains(owner));
        let next = rest.iter().position(free).context("objects own each other in a circle")?;
        let found = rest.remove(next);
        there.insert(found.text("/metadata/uid").to_owned());
        out.push(found);
    }
    Ok(out)
}

fn part(found: &Found, pattern: impl Fn(&str) -> Pattern) -> Part {
    let mut object = bare(found.object.clone());
    let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
    let then = if found.is_namespace() {
        // Its labels name its content.
        let metadata = json!({ "labels": object["metadata"]["labels"], "annotations": object["metadata"]["annotations"] });
        object["metadata"] = json!({ "name": object["metadata"]["name"] });
        Some((json!({ "metadata": metadata }), ""))
    } else {
        status.filter(|_| found.has_status).map(|status| (json!({ "status": of_first(status) }), "/status"))
    };
    Part {
        kind: found.resource.kind.clone(),
        collection: pattern(&found.collection()),
        name: pattern(found.text("/metadata/name")),
        body: pattern(&object.to_string()),
        then: then.map(|(value, subresource)| (pattern(&value.to_string()), subresource)),
    }
}

/// Copies are written once: an observed generation in a status is the first.
fn of_first(mut status: Value) -> Value {
    match &mut status {
        Value::Object(fields) => {
            for (key, value) in fields {
                let generation =
                    matches!(key.as_str(), "observedGeneration" | "generation") && value.is_number();
                *value = if generation { 1.into() } else { of_first(value.take()) };
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| *value = of_first(value.take())),
        _ => {}
    }
    status
}
