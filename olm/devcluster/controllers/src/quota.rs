//! Usage in a ResourceQuota's status.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use olm_devcluster_machinery::quota::{self, Amounts};
use serde_json::{Value, json};

use super::{
    cache::{Cache, Key},
    error::{During, Error, unless_gone},
    inventory::Inventory,
};

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) quotas: Arc<Cache<ResourceQuota>>,
    pub(crate) inventory: Arc<Inventory>,
}

impl Controller {
    pub(crate) async fn reconcile(&self, key: Key) -> Result<Option<Duration>, Error> {
        let Some(object) = self.quotas.get(&key) else { return Ok(None) };
        let namespace = object.namespace().unwrap_or_default();
        let value = serde_json::to_value(&*object)
            .map_err(|error| Error::Invalid(format!("failed to read a ResourceQuota: {error}")))?;
        let hard = quota::hard(&value);
        let mut used = Amounts::new();
        let mut kinds: Vec<(String, String)> = hard.keys().map(|name| quota::user_of(name)).collect();
        kinds.sort();
        kinds.dedup();
        for (group, plural) in kinds {
            let objects = self.list(&namespace, &group, &plural).await?;
            let of_kind = quota::used(&value, &group, &plural, &objects);
            used.extend(of_kind.into_iter().filter(|(name, _)| hard.contains_key(name)));
        }
        let shown: BTreeMap<&String, String> =
            hard.keys().map(|name| (name, used.get(name).copied().unwrap_or_default().to_string())).collect();
        let status = json!({ "hard": value["spec"].get("hard"), "used": shown });
        if value.get("status") == Some(&status) {
            return Ok(None);
        }
        let name = object.name_any();
        let api: Api<ResourceQuota> = Api::namespaced(self.client.clone(), &namespace);
        let patch = Patch::Merge(json!({ "metadata": { "uid": object.uid() }, "status": status }));
        let result = api.patch_status(&name, &PatchParams::default(), &patch).await;
        if let Some(patched) =
            unless_gone(result.during(|| format!("update status of quota {namespace}/{name}")))?
        {
            self.quotas.assume(patched);
        }
        Ok(None)
    }

    /// The objects of a kind; none when the kind is not served.
    async fn list(&self, namespace: &str, group: &str, plural: &str) -> Result<Vec<Value>, Error> {
        let mut kinds = self.inventory.kinds().into_iter();
        let kind = kinds.find(|kind| kind.resource.group == group && kind.resource.plural == plural);
        let Some(kind) = kind.filter(|kind| kind.namespaced) else { return Ok(Vec::new()) };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &kind.resource);
        let list = api.list(&ListParams::default()).await;
        let list = unless_gone(list.during(|| format!("list {plural} in namespace {namespace}")))?;
        let objects = list.into_iter().flat_map(|list| list.items);
        Ok(objects.filter_map(|object| serde_json::to_value(object).ok()).collect())
    }
}
