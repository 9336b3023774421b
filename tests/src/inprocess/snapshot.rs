//! Every object of the cluster, without the parts that differ between runs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    discovery::{ApiResource, Discovery, verbs},
};
use olm_api::names;
use serde_json::{Map, Value, json};

/// Transient kinds with random names.
const PASSING: &[&str] = &[
    "Event",
    "Pod",
    "ReplicaSet",
    "Endpoints",
    "EndpointSlice",
    "IPAddress",
    "Lease",
    "Node",
    "ComponentStatus",
    "PackageManifest",
];

/// ConfigMaps with authorities that the cluster itself creates in namespaces; other content depends on the
/// implementation.
#[must_use]
pub fn of_cluster(name: &str) -> bool {
    ["kube-root-ca.crt", "openshift-service-ca.crt", "extension-apiserver-authentication"].contains(&name)
}

/// Every object of the cluster, by `Kind.group namespace/name`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    objects: BTreeMap<String, Value>,
    /// Objects whose owners are all gone, not yet garbage-collected.
    orphans: Vec<String>,
}

impl Snapshot {
    /// Reads the cluster.
    /// # Errors
    /// When a list fails.
    pub async fn read(client: &Client) -> Result<Self> {
        let found = Discovery::new(client.clone()).run().await.context("failed to discover the kinds")?;
        let mut objects = BTreeMap::new();
        let (mut uids, mut owned) = (BTreeSet::new(), Vec::new());
        let mut kinds: BTreeMap<(String, String), ApiResource> = BTreeMap::new();
        for group in found.groups() {
            for (resource, capabilities) in group.resources_by_stability() {
                let listed = capabilities.supports_operation(verbs::LIST);
                if listed && !PASSING.contains(&resource.kind.as_str()) {
                    kinds.insert((resource.group.clone(), resource.kind.clone()), resource);
                }
            }
        }
        for ((group, kind), resource) in kinds {
            let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
            let list = match api.list(&ListParams::default()).await {
                Ok(list) => list,
                // A CRD being deleted at this moment.
                Err(kube::Error::Api(status)) if status.is_not_found() => continue,
                Err(error) => return Err(error).with_context(|| format!("failed to list {kind}.{group}")),
            };
            for object in list {
                let object = serde_json::to_value(object)?;
                let metadata = &object["metadata"];
                uids.extend(metadata["uid"].as_str().map(str::to_owned));
                let place = match metadata["namespace"].as_str() {
                    Some(namespace) => format!("{namespace}/"),
                    None => String::new(),
                };
                let name = metadata["name"].as_str().unwrap_or_default();
                // The API server's own Service has the port of the run.
                if of_cluster(name) || (kind == "Service" && place == "default/" && name == "kubernetes") {
                    continue;
                }
                let key = format!("{kind}.{group} {place}{name}");
                let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
                let unknown = owners
                    .clone()
                    .any(|owner| owner["kind"].as_str().is_some_and(|kind| PASSING.contains(&kind)));
                let owners: Vec<String> =
                    owners.filter_map(|owner| Some(owner["uid"].as_str()?.to_owned())).collect();
                if !owners.is_empty() && !unknown {
                    owned.push((key.clone(), owners));
                }
                objects.insert(key, plain(&kind, object));
            }
        }
        let gone = |owners: &[String]| !owners.iter().any(|uid| uids.contains(uid));
        let orphans = owned.into_iter().filter(|(_, owners)| gone(owners)).map(|(key, _)| key).collect();
        Ok(Self { objects, orphans })
    }

    /// The objects whose owners are all gone. Kubernetes deletes them a moment later.
    #[must_use]
    pub fn orphans(&self) -> &[String] {
        &self.orphans
    }

    /// Only the objects with a matching key.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let objects = self.objects.iter().filter(|(key, _)| wanted(key));
        Self {
            objects: objects.map(|(key, value)| (key.clone(), value.clone())).collect(),
            orphans: self.orphans.iter().filter(|key| wanted(key)).cloned().collect(),
        }
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(String::as_str)
    }

    /// Additional, missing or different objects of `other`; empty when equal.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut out = Vec::new();
        for (key, value) in &self.objects {
            match other.objects.get(key) {
                None => out.push(format!("- {key}")),
                Some(now) if now != value => {
                    let mut fields = Vec::new();
                    compare("", value, now, &mut fields);
                    out.push(format!("~ {key}: {}", fields.join("; ")));
                }
                Some(_) => {}
            }
        }
        let new = other.objects.keys().filter(|key| !self.objects.contains_key(*key));
        out.extend(new.map(|key| format!("+ {key}")));
        out
    }
}

fn compare(path: &str, a: &Value, b: &Value, out: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let none = Value::Null;
                let (a, b) = (a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none));
                compare(&format!("{path}.{key}"), a, b, out);
            }
        }
        (a, b) if a != b => {
            let short = |value: &Value| value.to_string().chars().take(120).collect::<String>();
            out.push(format!("{path}: {} → {}", short(a), short(b)));
        }
        _ => {}
    }
}

/// The parts that are equal in every run.
fn plain(kind: &str, object: Value) -> Value {
    let Value::Object(mut object) = object else { return object };
    let metadata = object.remove("metadata").unwrap_or_default();
    let status = object.remove("status").unwrap_or_default();
    if kind == "CatalogSource"
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        // The run's own directory.
        spec.remove("directory");
    }
    let mut kept = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        let mut value = metadata.get(field).cloned().unwrap_or_default();
        // A group that does not provide anything any more has an empty annotation, like OLM's.
        if let Some(map) = value.as_object_mut().filter(|_| kind == "OperatorGroup") {
            map.retain(|key, value| key != names::ANNOTATION_PROVIDED_APIS || value != "");
        }
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if !empty {
            kept.insert(field.into(), value);
        }
    }
    if let Some(owners) = metadata["ownerReferences"].as_array() {
        let mut owners: Vec<String> = owners
            .iter()
            .map(|o| {
                format!(
                    "{} {}",
                    o["kind"].as_str().unwrap_or_default(),
                    o["name"].as_str().unwrap_or_default()
                )
            })
            .collect();
        owners.sort();
        kept.insert("ownerReferences".into(), json!(owners));
    }
    // Counts the changes of the content.
    kept.insert("generation".into(), metadata["generation"].clone());
    if !metadata["deletionTimestamp"].is_null() {
        kept.insert("deletionTimestamp".into(), true.into());
    }
    // Of certificates.
    if let Some(annotations) = kept.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !key.to_lowercase().contains("cahash"));
    }
    object.insert("metadata".into(), kept.into());
    if let Some(phase) = status.get("phase") {
        object.insert("phase".into(), phase.clone());
    }
    let mut object = Value::Object(object);
    match kind {
        // Addresses are assigned in the order of requests.
        "Service" => {
            if let Some(spec) = object["spec"].as_object_mut() {
                spec.retain(|field, _| !field.starts_with("clusterIP") && field != "healthCheckNodePort");
            }
        }
        "Secret" => {
            for value in object["data"].as_object_mut().into_iter().flat_map(Map::values_mut) {
                *value = "…".into();
            }
        }
        _ => {}
    }
    mask(&mut object);
    object
}

/// Label of a group's namespaces, with the UID of the group.
const GROUP_LABEL: &str = "olm.operatorgroup.uid/";

/// Certificates and UIDs differ between runs, wherever they occur.
fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let groups: Vec<String> =
                fields.keys().filter(|key| key.starts_with(GROUP_LABEL)).cloned().collect();
            for (number, key) in groups.iter().enumerate() {
                let value = fields.remove(key).unwrap_or_default();
                fields.insert(format!("{GROUP_LABEL}{number}"), value);
            }
            for (key, value) in fields {
                match key.as_str() {
                    "caBundle" | "olmcahash" => *value = "…".into(),
                    _ => mask(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) if text.starts_with(GROUP_LABEL) => *text = GROUP_LABEL.into(),
        _ => {}
    }
}
