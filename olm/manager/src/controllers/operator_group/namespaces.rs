//! Namespaces of a group: which match its selector, and the label by which they are found.

use std::{collections::BTreeSet, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::{PartialObjectMeta, Selector},
    runtime::{WatchStreamExt, watcher},
};
use olm_api::{OperatorGroup, names};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    context::{Ctx, Error},
    metadata::metadata_only,
};

/// Names of the namespaces that match.
pub(super) async fn selected(selector: &Selector, ctx: &Ctx) -> Result<BTreeSet<String>, Error> {
    let api = Api::<Namespace>::all(ctx.client.clone());
    let found = api.list_metadata(&ListParams::default().labels_from(selector)).await;
    let found = found.map_err(Error::kube("list namespaces"))?;
    let there = found.items.iter().filter(|namespace| namespace.metadata.deletion_timestamp.is_none());
    Ok(there.map(ResourceExt::name_any).collect())
}

/// The label of a group's namespaces, once the group has a UID.
pub(super) fn key(group: &OperatorGroup) -> Option<String> {
    group.metadata.uid.as_deref().map(key_of)
}

fn key_of(uid: &str) -> String {
    format!("{}{uid}", names::LABEL_OPERATOR_GROUP_PREFIX)
}

/// Labels the namespaces of a group, and no others. A group of all namespaces labels none, as upstream.
pub(super) async fn label(group: &OperatorGroup, namespaces: &[String], ctx: &Ctx) -> Result<(), Error> {
    let Some(key) = key(group) else { return Ok(()) };
    let wanted: BTreeSet<&str> =
        namespaces.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let labelled = labelled(&key, ctx).await?;
    for stale in labelled.iter().filter(|name| !wanted.contains(name.as_str())) {
        patch(stale, &key, Value::Null, ctx).await?;
    }
    for new in wanted.iter().filter(|name| !labelled.contains(**name)) {
        patch(new, &key, json!(""), ctx).await?;
    }
    Ok(())
}

async fn labelled(key: &str, ctx: &Ctx) -> Result<BTreeSet<String>, Error> {
    let api = Api::<Namespace>::all(ctx.client.clone());
    let found = api.list_metadata(&ListParams::default().labels(key)).await;
    Ok(found.map_err(Error::kube("list namespaces"))?.iter().map(ResourceExt::name_any).collect())
}

async fn patch(namespace: &str, key: &str, value: Value, ctx: &Ctx) -> Result<(), Error> {
    let patch = json!({ "metadata": { "labels": { key: value } } });
    let api = Api::<Namespace>::all(ctx.client.clone());
    match api.patch_metadata(namespace, &PatchParams::default(), &Patch::Merge(&patch)).await {
        // A target need not be there yet; when it comes, its group is woken.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Ok(_) => Ok(()),
        Err(error) => Err(Error::kube(format!("label namespace {namespace}"))(error)),
    }
}

/// Takes the label of groups that are deleted off their namespaces. Best effort: the label means nothing without its group.
pub(super) async fn forget_departed(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let api = Api::<PartialObjectMeta<OperatorGroup>>::all(metadata_only(ctx.client.clone()));
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events.take_until(shutdown.cancelled_owned()));
    while let Some(event) = events.next().await {
        let Ok(watcher::Event::Delete(group)) = event else { continue };
        let Some(uid) = group.metadata.uid.as_deref() else { continue };
        let key = key_of(uid);
        match labelled(&key, &ctx).await {
            Ok(found) => {
                for namespace in found {
                    if let Err(error) = patch(&namespace, &key, Value::Null, &ctx).await {
                        tracing::warn!(namespace, %error, "failed to take the label of a deleted OperatorGroup off");
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "failed to look for namespaces of a deleted OperatorGroup"),
        }
    }
}
