//! The Secret with an endpoint's certificate.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use olm_engine::resources::Resources;
use serde_json::{Value, json};

use super::{ANNOTATION_CA_HASH, Served};
use crate::{
    certs::Held,
    context::{Ctx, Error},
};

/// The live Secret.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) metadata: Value,
    pub(super) data: BTreeMap<String, String>,
    type_: Value,
}

/// Never prints the content.
impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

impl Live {
    pub(super) fn of(secret: Value) -> Self {
        let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let data = secret["data"].as_object().into_iter().flatten().filter_map(text).collect();
        Self { data, type_: secret["type"].clone(), metadata: secret["metadata"].clone() }
    }
}

/// Reads a Secret by a patch that changes nothing: the manager may write Secrets and has no right to read
/// them, neither all nor this one. The response of a write contains the object. Since nothing changes, the
/// manager uses its own rights even where an account limits the installation.
pub(super) async fn read(namespace: &str, name: &str, ctx: &Ctx) -> Result<Option<Live>, Error> {
    let api = Api::<Secret>::namespaced(ctx.client.clone(), namespace);
    match api.patch(name, &PatchParams::default(), &Patch::Merge(json!({}))).await {
        Ok(secret) => Ok(Some(Live::of(serde_json::to_value(secret).unwrap_or_default()))),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(Error::kube(format!("read Secret {namespace}/{name}"))(error)),
    }
}

/// Writes an endpoint's new content, conditional on the Secret that was read.
pub(super) async fn write(served: &mut Served, held: Held, resources: &Resources) -> Result<(), Error> {
    let mut manifest = served.secret.clone();
    manifest["data"] = json!(held.data());
    if let Some(hash) = held.ca_hash() {
        manifest["metadata"]["annotations"] = json!({ ANNOTATION_CA_HASH: hash });
    }
    if let Some(live) = &served.live {
        manifest["metadata"]["resourceVersion"] = live.metadata["resourceVersion"].clone();
        // The type of a Secret is immutable.
        manifest["type"] = live.type_.clone();
    }
    let applied = Live::of(resources.apply(&manifest).await?);
    served.live = Some(forget(applied, &held, served, resources).await?);
    served.held = held;
    Ok(())
}

/// Removes an invalid next certificate that another writer added: server-side apply removes only fields that
/// it owns.
async fn forget(applied: Live, held: &Held, served: &Served, resources: &Resources) -> Result<Live, Error> {
    let wanted = held.data();
    let foreign =
        applied.data.keys().filter(|key| key.starts_with("next.") && !wanted.contains_key(key.as_str()));
    let gone: serde_json::Map<String, Value> = foreign.map(|key| (key.clone(), Value::Null)).collect();
    if gone.is_empty() {
        return Ok(applied);
    }
    let api = Api::<Secret>::namespaced(resources.client().clone(), &served.endpoint.namespace);
    let name = &served.endpoint.secret;
    let patched = api
        .patch(name, &PatchParams::default(), &Patch::Merge(json!({ "data": gone })))
        .await
        .map_err(Error::kube(format!("clear Secret {}/{name}", served.endpoint.namespace)))?;
    Ok(Live::of(serde_json::to_value(patched).unwrap_or_default()))
}
