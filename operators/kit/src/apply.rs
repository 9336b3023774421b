//! Applies a plan: server-side apply of the objects that differ, deletion of those that are not planned.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use crate::controller::Context;
use crate::failure::Failure;
use crate::kind::Resourced;
use crate::plan::{Decision, Desired};
use crate::watches::{self, Existing, Owner, Watched};

/// Label with the name of the operator.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The last apply of an object, by its key.
pub(crate) type Applied = HashMap<String, Application>;

/// An object as it was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Application {
    /// Hash of the applied body.
    hash: u64,
    uid: String,
    /// Version of the response.
    pub(crate) version: u64,
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) reason: &'static str,
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// The owner of a pass.
pub(crate) struct Pass<'a> {
    pub(crate) context: &'a Context,
    pub(crate) owner: Owner<'a>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) reference: OwnerReference,
}

impl Pass<'_> {
    /// Makes the owned objects as planned. Changes are added as they are made, also when a later one fails.
    pub(crate) async fn apply(
        &self,
        decision: &Decision,
        applied: &mut Applied,
        changes: &mut Vec<Change>,
    ) -> Result<(), Failure> {
        let mut planned = Vec::new();
        for desired in &decision.objects {
            let object = self.complete(desired)?;
            if planned.iter().any(|other: &Complete<'_>| other.key() == object.key()) {
                return Err(Failure::Plan(format!("{} {} is planned twice", object.kind(), object.name)));
            }
            planned.push(object);
        }
        for object in &planned {
            if let Some(change) = self.apply_one(object, applied).await? {
                changes.push(change);
            }
        }
        let keys: Vec<String> = planned.iter().map(Complete::key).collect();
        applied.retain(|key, _| keys.contains(key));
        for watched in &self.context.owned {
            if decision.kept.contains(&watched.kind.resource) {
                continue;
            }
            for object in watched.owned(&self.owner) {
                let (namespace, name) = (object.namespace(), object.name_any());
                let key = key(&watched.kind, namespace.as_deref(), &name);
                if object.metadata.deletion_timestamp.is_none() && !keys.contains(&key) {
                    applied.remove(&key);
                    changes.extend(self.delete(watched, &object).await?);
                }
            }
        }
        Ok(())
    }

    /// The object as it is applied.
    fn complete<'b>(&'b self, desired: &Desired) -> Result<Complete<'b>, Failure> {
        let kind = &desired.kind;
        let watched = self.context.owned.iter().find(|watched| watched.kind == *kind).ok_or_else(|| {
            let kind = &kind.resource.kind;
            Failure::Plan(format!("{kind} is not an owned kind. hint: register it with .owns::<{kind}>()"))
        })?;
        let mut body = desired.body.clone();
        let text = |field: &str| body["metadata"][field].as_str().map(str::to_owned);
        let Some(name) = text("name").filter(|name| !name.is_empty()) else {
            return Err(Failure::Plan(format!("a {} has no name", kind.resource.kind)));
        };
        let namespace = match (kind.namespaced, self.namespace, text("namespace")) {
            (true, Some(own), None) => Some(own.to_owned()),
            (true, Some(own), Some(other)) if other == own => Some(other),
            (true, None, Some(other)) => Some(other),
            (false, None, _) => None,
            (true, None, None) => {
                return Err(Failure::Plan(format!("{} {name} has no namespace", kind.resource.kind)));
            }
            (_, Some(own), _) => {
                let kind = &kind.resource.kind;
                return Err(Failure::Plan(format!("{kind} {name} is not in namespace {own} of its owner")));
            }
        };
        let metadata = &mut body["metadata"];
        if let Some(namespace) = &namespace {
            metadata["namespace"] = namespace.clone().into();
        }
        if metadata["labels"][MANAGED_BY].is_null() {
            metadata["labels"][MANAGED_BY] = self.context.operator.clone().into();
        }
        metadata["ownerReferences"] = json!([self.reference]);
        Ok(Complete { watched, namespace, name, body })
    }

    /// Applies an object unless it is as planned already.
    async fn apply_one(
        &self,
        object: &Complete<'_>,
        applied: &mut Applied,
    ) -> Result<Option<Change>, Failure> {
        let existing = object.watched.existing(&self.owner, object.namespace.as_deref(), &object.name);
        let (kind, name) = (object.kind().to_owned(), object.name.clone());
        let live = match existing {
            Existing::Foreign => return Err(Failure::NameTaken { kind, name }),
            Existing::Terminating => return Err(Failure::Terminating { kind, name }),
            Existing::Absent => None,
            Existing::Ours(live) => Some(live),
        };
        let (key, hash) = (object.key(), hash(&object.body));
        let last = applied.get(&key).cloned();
        if let Some(live) = &live
            && last.as_ref().is_some_and(|last| last.hash == hash && is_current(last, live, &object.body))
        {
            return Ok(None);
        }
        // Only an object that is ours is taken from other field managers. Without force, a foreign object of
        // this name that the watch does not show yet is a conflict. The uid excludes a later object of the name.
        let mut body = object.body.clone();
        let mut params = PatchParams::apply(&self.context.operator);
        if let Some(live) = &live {
            params = params.force();
            body["metadata"]["uid"] = live.metadata.uid.clone().into();
        }
        self.context.leads()?;
        let api = watches::api(&self.context.client, &object.watched.kind, object.namespace.as_deref());
        let made = api.patch(&name, &params, &Patch::Apply(&body)).await;
        let made = made.map_err(failed("apply", &kind, &name))?;
        let application =
            Application { hash, uid: made.metadata.uid.clone().unwrap_or_default(), version: version(&made) };
        let reason = match (&live, &last) {
            (None, Some(last)) if last.uid == application.uid => None,
            (None, _) => Some("Created"),
            (Some(live), last) => {
                let known = last.as_ref().map_or(0, |last| last.version).max(version(live));
                (application.version > known).then_some("Updated")
            }
        };
        applied.insert(key, application);
        Ok(reason.map(|reason| Change { reason, kind, name }))
    }

    async fn delete(&self, watched: &Watched, object: &DynamicObject) -> Result<Option<Change>, Failure> {
        self.context.leads()?;
        let (kind, name) = (watched.kind.resource.kind.clone(), object.name_any());
        let api = watches::api(&self.context.client, &watched.kind, object.namespace().as_deref());
        // Never a later object of the same name.
        let uid = object.metadata.uid.clone();
        let params = DeleteParams::background().preconditions(Preconditions { uid, resource_version: None });
        match api.delete(&name, &params).await {
            Ok(_) => Ok(Some(Change { reason: "Deleted", kind, name })),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(None),
            Err(error) => Err(failed("delete", &kind, &name)(error)),
        }
    }
}

/// An object of a plan, complete.
struct Complete<'a> {
    watched: &'a Watched,
    namespace: Option<String>,
    name: String,
    body: Value,
}

impl Complete<'_> {
    fn kind(&self) -> &str {
        &self.watched.kind.resource.kind
    }

    fn key(&self) -> String {
        key(&self.watched.kind, self.namespace.as_deref(), &self.name)
    }
}

pub(crate) fn key(kind: &Resourced, namespace: Option<&str>, name: &str) -> String {
    format!("{}.{}/{}/{name}", kind.resource.plural, kind.resource.group, namespace.unwrap_or_default())
}

fn failed(verb: &'static str, kind: &str, name: &str) -> impl FnOnce(kube::Error) -> Failure + use<> {
    let what = format!("{kind} {name}");
    move |source| Failure::Kubernetes { verb, what, source: Box::new(source) }
}

fn hash(body: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.to_string().hash(&mut hasher);
    hasher.finish()
}

/// The resourceVersion as a number; 0 if it is none.
pub(crate) fn version(object: &DynamicObject) -> u64 {
    object.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Whether a live object has all fields of the last apply. An older one than the response to it says nothing.
fn is_current(last: &Application, live: &DynamicObject, body: &Value) -> bool {
    if live.metadata.uid.as_deref() != Some(last.uid.as_str()) {
        return false;
    }
    if version(live) <= last.version {
        return true;
    }
    let live = json!({ "metadata": live.metadata, "data": live.data });
    let Some(fields) = body.as_object() else { return false };
    fields.iter().all(|(field, wanted)| match field.as_str() {
        // Objects of lists have no types.
        "apiVersion" | "kind" => true,
        "metadata" => covers(&live["metadata"], wanted),
        field => covers(&live["data"][field], wanted),
    })
}

/// Whether a value has everything that is wanted. Fields of others and defaults do not matter.
fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(field, wanted)| covers(live.get(field).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| covers(live, wanted))
        }
        // An empty object or list is often not stored.
        (Value::Null, Value::Object(wanted)) => wanted.is_empty(),
        (Value::Null, Value::Array(wanted)) => wanted.is_empty(),
        _ => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_fields_of_others_are_no_difference() {
        let live = json!({ "spec": { "replicas": 3, "paused": false, "ports": [{ "port": 80, "protocol": "TCP" }] } });
        assert!(covers(
            &live,
            &json!({ "spec": { "replicas": 3, "ports": [{ "port": 80 }], "labels": {} } })
        ));
        assert!(!covers(&live, &json!({ "spec": { "replicas": 5 } })));
        assert!(!covers(&live, &json!({ "spec": { "ports": [] } })));
        assert!(!covers(&live, &json!({ "spec": { "image": "a" } })));
    }
}
