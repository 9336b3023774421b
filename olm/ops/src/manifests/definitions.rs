//! The CustomResourceDefinitions of this version, compared with those of a cluster.
//!
//! * [`conflicts`]: why the live ones must not be replaced, before an installation is changed
//! * [`outdated`]: whether the live ones lack fields, before a manager starts

use std::collections::BTreeMap;

use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use olm_engine::resources::{Id, ResourceError, Resources};
use olm_kube_schema::{ChangeCode, LiveReport, Severity, check_objects, compare, live::ObjectReport};
use olm_version::Version;
use serde_json::Value;

use super::{PART_OF, VERSION, VERSION_LABEL};
use crate::doctor::crds::lacks;

/// Page size of the lists of objects.
const PAGE: u32 = 250;

/// Why the CustomResourceDefinitions among an installation's objects must not replace the live ones: a stored
/// version is missing in them, an existing object would lose a field, or would be rejected. One text for each
/// definition. `status` is not considered, because managers compute it.
///
/// Objects are read only where the change is not known to be safe.
///
/// # Errors
/// When a definition or its objects are unreadable.
pub async fn conflicts(client: &Client, objects: &[Value]) -> Result<Vec<String>, ResourceError> {
    let resources = Resources::new(client.clone());
    let mut out = Vec::new();
    for wanted in objects {
        if wanted["kind"] != "CustomResourceDefinition" {
            continue;
        }
        let Some(live) = resources.get(&Id::of(wanted)?).await? else { continue };
        if let Some(text) = conflict(client, &live, wanted).await? {
            let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
            out.push(format!("CustomResourceDefinition {name}: {text}"));
        }
    }
    Ok(out)
}

async fn conflict(client: &Client, live: &Value, wanted: &Value) -> Result<Option<String>, ResourceError> {
    let changes = compare(live, wanted);
    if let Some(change) = changes.iter().find(|change| change.code == ChangeCode::StoredVersionRemoved) {
        return Ok(Some(change.text.clone()));
    }
    // The definitions of OLM v0 have other schemas for the same objects.
    let ours = live["metadata"]["labels"][PART_OF.0] == PART_OF.1;
    if !ours || changes.iter().all(|change| change.severity == Severity::Safe) {
        return Ok(None);
    }
    let Some(resource) = readable(live) else { return Ok(None) };
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await.map_err(|source| ResourceError::Api {
            verb: "list",
            object: resource.plural.clone(),
            source: Box::new(source),
        })?;
        let objects: Vec<Value> = page.items.into_iter().map(|object| stored(&resource, object)).collect();
        let text = damage(&check_objects(live, &objects), &check_objects(wanted, &objects));
        let next = page.metadata.continue_.filter(|token| !token.is_empty());
        match (text, next) {
            (None, Some(token)) => params = params.continue_token(&token),
            (text, _) => return Ok(text),
        }
    }
}

/// The kind of a definition at a served version, preferably that of storage.
fn readable(crd: &Value) -> Option<ApiResource> {
    let versions = crd["spec"]["versions"].as_array()?;
    let served = || versions.iter().filter(|version| version["served"] == true);
    let version = served().find(|version| version["storage"] == true).or_else(|| served().next())?;
    let [group, kind, plural] = ["/spec/group", "/spec/names/kind", "/spec/names/plural"]
        .map(|pointer| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default());
    let gvk = GroupVersionKind::gvk(group, version["name"].as_str()?, kind);
    Some(ApiResource::from_gvk_with_plural(&gvk, plural))
}

/// An item of a list as an object of its own, without its status.
fn stored(resource: &ApiResource, object: DynamicObject) -> Value {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".into(), resource.api_version.clone().into());
        fields.insert("kind".into(), resource.kind.clone().into());
        fields.remove("status");
    }
    object
}

/// The first object that only the new definition rejects, or of which only that one drops fields.
fn damage(live: &LiveReport, new: &LiveReport) -> Option<String> {
    let first = |before: &[ObjectReport], after: &[ObjectReport]| {
        let known = |o: &&ObjectReport| before.iter().any(|b| b.name == o.name && b.namespace == o.namespace);
        let object = after.iter().find(|object| !known(object)).or_else(|| after.first())?;
        let place = match &object.namespace {
            Some(namespace) => format!("{namespace}/{}", object.name),
            None => object.name.clone(),
        };
        let field = object.fields.first()?;
        Some(format!("{} {place}: {}: {}", new.kind, field.path, field.text))
    };
    if new.losing > live.losing {
        return first(&live.losses, &new.losses);
    }
    if new.failing > live.failing {
        return first(&live.failures, &new.failures);
    }
    None
}

/// The live CustomResourceDefinitions of olm that lack fields or versions of this version, with what they lack.
/// The API server drops the values of such fields.
///
/// Definitions that this version or a newer one applied are not compared. Missing ones are not reported.
///
/// # Errors
/// When a definition is unreadable.
pub async fn outdated(client: &Client) -> Result<Vec<String>, ResourceError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let failed = |source| ResourceError::Api {
        verb: "get",
        object: "the CustomResourceDefinitions of olm".to_owned(),
        source: Box::new(source),
    };
    let reads = olm_api::crd_names().map(|name| api.get_metadata_opt(name));
    let all = try_join_all(reads).await.map_err(failed)?;
    let old: Vec<String> =
        all.iter().flatten().filter(|crd| !is_current(crd.labels())).map(|crd| crd.name_any()).collect();
    if old.is_empty() {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    for ours in olm_api::crds() {
        let name = ours.name_any();
        if !old.contains(&name) {
            continue;
        }
        let live = api.get_opt(&name).await.map_err(failed)?;
        if let Some(missing) = live.and_then(|live| lacks(&ours, &live)) {
            out.push(format!("CustomResourceDefinition {name} lacks {missing}"));
        }
    }
    Ok(out)
}

/// Whether this version or a newer one applied a definition.
fn is_current(labels: &BTreeMap<String, String>) -> bool {
    let applied = labels.get(VERSION_LABEL).and_then(|version| Version::parse(version).ok());
    applied.zip(Version::parse(VERSION).ok()).is_some_and(|(applied, own)| applied >= own)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_names_are_those_of_the_definitions() {
        let names: Vec<String> = olm_api::crds().iter().map(|crd| crd.name_any()).collect();
        assert_eq!(names, olm_api::crd_names());
    }

    #[test]
    fn a_definition_of_this_version_or_a_newer_one_is_current() {
        let applied_by = |version: &str| is_current(&[(VERSION_LABEL.to_owned(), version.to_owned())].into());
        assert!(applied_by(VERSION) && applied_by("99.0.0"));
        assert!(!applied_by("0.0.1") && !applied_by("latest") && !is_current(&BTreeMap::new()));
    }

    fn crd(fields: &Value) -> Value {
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": { "group": "x.io", "scope": "Namespaced", "names": { "kind": "A", "plural": "as" },
            "versions": [
                { "name": "v1", "served": true, "storage": false },
                { "name": "v2", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": { "type": "object", "properties": fields } },
                } } },
            ] } })
    }

    #[test]
    fn objects_are_read_at_the_version_of_storage() {
        let mut crd = crd(&json!({}));
        assert_eq!(readable(&crd).unwrap().version, "v2");
        crd["spec"]["versions"][1]["served"] = false.into();
        assert_eq!(readable(&crd).unwrap().version, "v1");
        crd["spec"]["versions"][0]["served"] = false.into();
        assert!(readable(&crd).is_none());
    }

    #[test]
    fn only_damage_by_the_new_definition_is_named() {
        let object = |name: &str, spec: Value| {
            json!({ "apiVersion": "x.io/v2", "kind": "A",
            "metadata": { "name": name, "namespace": "ns" }, "spec": spec })
        };
        let objects = [
            object("unknown", json!({ "c": 1 })),
            object("text", json!({ "a": "one" })),
            object("both", json!({ "a": "two", "b": "x" })),
        ];
        let text = json!({ "type": "string" });
        let live = check_objects(&crd(&json!({ "a": text, "b": text })), &objects);
        let damaged = |fields: Value| damage(&live, &check_objects(&crd(&fields), &objects));
        assert_eq!(damaged(json!({ "a": text, "b": text, "d": text })), None);
        let dropped = damaged(json!({ "a": text })).unwrap();
        assert!(dropped.starts_with("A ns/both: .spec.b: it is dropped"), "{dropped}");
        let rejected = damaged(json!({ "a": { "type": "string", "enum": ["one"] }, "b": text })).unwrap();
        assert!(rejected.starts_with("A ns/both: .spec.a: "), "{rejected}");
    }
}
