//! Requests of users other than the administrator, and their rights.

use std::sync::atomic::Ordering;

use anyhow::Result;
use kube::{
    Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{waiting::text, world::World};

impl World {
    /// Creates an object with the rights of another client.
    /// # Errors
    /// The API's rejection.
    pub async fn create_as(&self, client: &Client, object: &Value) -> Result<Value> {
        let api = Self::api_as(client, text(object, "/kind"), text(object, "/metadata/namespace"))?;
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        Ok(serde_json::to_value(api.create(&PostParams::default(), &object).await?)?)
    }

    /// Changes an object, or its status, by a merge patch with the rights of another client.
    /// # Errors
    /// The API's rejection.
    pub async fn patch_as(
        &self,
        client: &Client,
        (kind, namespace, name): (&str, &str, &str),
        patch: &Value,
    ) -> Result<Value> {
        let api = Self::api_as(client, kind, namespace)?;
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let changed = match patch {
            Patch::Merge(value) if value.get("status").is_some() => {
                api.patch_status(name, &params, &patch).await
            }
            _ => api.patch(name, &params, &patch).await,
        };
        Ok(serde_json::to_value(changed?)?)
    }

    /// The objects of a kind in a namespace, with the rights of another client.
    /// # Errors
    /// The API's rejection.
    pub async fn list_as(&self, client: &Client, kind: &str, namespace: &str) -> Result<Vec<Value>> {
        let list = Self::api_as(client, kind, namespace)?.list(&ListParams::default()).await?;
        list.items.into_iter().map(|object| serde_json::to_value(object).map_err(Into::into)).collect()
    }

    /// Deletes an object with the rights of another client.
    /// # Errors
    /// The API's rejection.
    pub async fn delete_as(
        &self,
        client: &Client,
        (kind, namespace, name): (&str, &str, &str),
    ) -> Result<()> {
        Self::api_as(client, kind, namespace)?.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Grants a user rights, in a namespace or (`""`) in the whole cluster.
    /// # Errors
    /// The API's rejection.
    pub async fn allow(&self, user: &str, namespace: &str, rules: &[Value]) -> Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let (role, binding) = match namespace {
            "" => ("ClusterRole", "ClusterRoleBinding"),
            _ => ("Role", "RoleBinding"),
        };
        let mut metadata = json!({ "name": format!("{user}-{number}") });
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        let group = "rbac.authorization.k8s.io";
        let version = format!("{group}/v1");
        self.apply(&json!({ "apiVersion": version, "kind": role, "metadata": metadata, "rules": rules }))
            .await?;
        self.apply(&json!({
            "apiVersion": version, "kind": binding, "metadata": metadata,
            "roleRef": { "apiGroup": group, "kind": role, "name": metadata["name"] },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": user }],
        }))
        .await
        .map(drop)
    }
}
