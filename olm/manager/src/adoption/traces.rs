//! Finds traces of OLM v0 on Deployments. Every start reads all Deployments of versions, perhaps thousands
//! and almost all without traces, so only the names of the field managers are deserialised, not their fields.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, Resource as _, api::ObjectMeta};
use olm_api::names;
use olm_engine::ownership::{OwnerKey, each_listed};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{LEGACY_MANAGERS, fields::adopted};

/// The owner and the field managers of an object.
#[derive(Deserialize, Clone)]
struct Trace {
    metadata: TraceMetadata,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
struct TraceMetadata {
    labels: Option<BTreeMap<String, String>>,
    managed_fields: Option<Box<RawValue>>,
}

/// One entry of `managedFields`.
#[derive(Deserialize)]
struct Writer {
    manager: Option<String>,
}

impl Trace {
    fn owner(self) -> Option<OwnerKey> {
        OwnerKey::of(&ObjectMeta { labels: self.metadata.labels, ..ObjectMeta::default() })
    }

    /// Whether the adoption would change the owner of fields.
    fn is_legacy(&self) -> bool {
        let Some(fields) = &self.metadata.managed_fields else { return false };
        let writers: Vec<Writer> = serde_json::from_str(fields.get()).unwrap_or_default();
        let known =
            |writer: &Writer| writer.manager.as_deref().is_some_and(|name| LEGACY_MANAGERS.contains(&name));
        writers.iter().any(known) && {
            let entries: Vec<Value> = serde_json::from_str(fields.get()).unwrap_or_default();
            adopted(&entries, names::FIELD_MANAGER).is_some()
        }
    }
}

/// The versions whose Deployments have fields of OLM.
pub(super) async fn deployments(client: &Client) -> Result<BTreeSet<OwnerKey>, kube::Error> {
    let ours = format!("{}=ClusterServiceVersion", names::LABEL_OWNER_KIND);
    let mut out = BTreeSet::new();
    each_listed(client, &Deployment::url_path(&(), None), &ours, |item: Trace| {
        if item.is_legacy() {
            out.extend(item.owner());
        }
    })
    .await?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A Deployment of a version, with these entries of `managedFields`.
    fn deployment(name: &str, managed_fields: Value) -> Value {
        json!({ "metadata": {
            "name": name, "namespace": "db", "managedFields": managed_fields,
            "labels": { "olm.owner": format!("{name}.v1"), "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": "db" },
        } })
    }

    fn entry(manager: &str, subresource: &str) -> Value {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "fieldsV1": { "f:spec": { "f:replicas": {} } }, "subresource": subresource,
        })
    }

    #[tokio::test]
    async fn pages_are_read_to_the_end_for_what_olm_wrote() {
        // given pages of objects without managers, with other managers, with OLM's status alone and with
        // OLM's fields, and one page without items, as Kubernetes returns for an empty list
        let pages = [
            json!([deployment("none", Value::Null), deployment("ours", json!([entry("kubectl", "")]))]),
            json!([
                deployment("status", json!([entry("olm", "status")])),
                deployment("theirs", json!([entry("x", ""), entry("olm", "")])),
            ]),
            Value::Null,
        ];
        let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            assert!(query.contains("labelSelector=olm.owner.kind%3DClusterServiceVersion"), "{query}");
            let page = query.split("continue=").nth(1).map_or(0, |token| token.parse().unwrap());
            let next = if page < 2 { (page + 1).to_string() } else { String::new() };
            let list = json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": { "continue": next }, "items": pages[page] });
            async move { http::Response::builder().body(kube::client::Body::from(list.to_string().into_bytes())) }
        });

        let found = deployments(&Client::new(server, "default")).await.unwrap();

        assert_eq!(found, [OwnerKey::new("ClusterServiceVersion", "db", "theirs.v1")].into());
    }
}
