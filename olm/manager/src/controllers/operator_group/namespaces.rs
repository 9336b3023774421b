//! Namespaces of a group: selection, and the label by which they are found.

use std::{collections::BTreeSet, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::{PartialObjectMeta, Selector, SelectorExt},
    runtime::watcher,
};
use olm_api::{OperatorGroup, names};
use olm_client::{metadata_only, patient};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::context::{Ctx, Error};

/// Names of the namespaces that match.
pub(super) fn selected(selector: &Selector, ctx: &Ctx) -> BTreeSet<String> {
    let all = ctx.cache.namespaces.all();
    let there = all.iter().filter(|namespace| namespace.metadata.deletion_timestamp.is_none());
    there.filter(|n| selector.matches(n.labels())).map(|namespace| namespace.name_any()).collect()
}

/// The label of a group's namespaces, once the group has a UID.
pub(super) fn key(group: &OperatorGroup) -> Option<String> {
    group.metadata.uid.as_deref().map(key_of)
}

fn key_of(uid: &str) -> String {
    format!("{}{uid}", names::LABEL_OPERATOR_GROUP_PREFIX)
}

/// Labels exactly the namespaces of a group. A group of all namespaces labels none, as upstream.
pub(super) async fn label(group: &OperatorGroup, namespaces: &[String], ctx: &Ctx) -> Result<(), Error> {
    let Some(key) = key(group) else { return Ok(()) };
    let wanted: BTreeSet<&str> =
        namespaces.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let labelled: BTreeSet<String> =
        ctx.cache.namespaces.keyed(&key).iter().map(|namespace| namespace.name_any()).collect();
    for stale in labelled.iter().filter(|name| !wanted.contains(name.as_str())) {
        patch(stale, &key, Value::Null, ctx).await?;
    }
    let new: Vec<&str> = wanted.into_iter().filter(|name| !labelled.contains(*name)).collect();
    for name in &new {
        patch(name, &key, json!(""), ctx).await?;
    }
    // The group may have been deleted during this. The removal of its labels may have listed the namespaces
    // before the labels were added; checking after adding them detects that.
    if !new.is_empty() && is_gone(group, ctx).await? {
        for name in new {
            patch(name, &key, Value::Null, ctx).await?;
        }
    }
    Ok(())
}

async fn is_gone(group: &OperatorGroup, ctx: &Ctx) -> Result<bool, Error> {
    let api = Api::<OperatorGroup>::namespaced(ctx.client.clone(), &group.namespace().unwrap_or_default());
    let found = api.get_metadata_opt(&group.name_any()).await;
    let found = found.map_err(Error::kube(format!("read OperatorGroup {}", group.name_any())))?;
    Ok(found.and_then(|found| found.metadata.uid) != group.metadata.uid)
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
        // A target need not exist yet; its creation wakes the group.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Ok(labelled) => {
            ctx.cache.store_written(labelled);
            Ok(())
        }
        Err(error) => Err(Error::kube(format!("label namespace {namespace}"))(error)),
    }
}

/// Removes the labels of deleted groups from their namespaces, also of groups deleted while no watch ran.
/// Best effort: the label has no effect without its group.
pub(super) async fn forget_departed(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let api = Api::<PartialObjectMeta<OperatorGroup>>::all(metadata_only(ctx.client.clone()));
    let events = patient(watcher(api, watcher::Config::default()));
    let mut events = std::pin::pin!(events.take_until(shutdown.cancelled_owned()));
    while let Some(event) = events.next().await {
        let forgotten = match event {
            Ok(watcher::Event::Delete(group)) => match group.metadata.uid.as_deref() {
                Some(uid) => forget(&key_of(uid), &ctx).await,
                None => Ok(()),
            },
            // The existing groups are known now; groups deleted before are not.
            Ok(watcher::Event::InitDone) => forget_unknown(&ctx).await,
            Ok(_) | Err(_) => Ok(()),
        };
        if let Err(error) = forgotten {
            tracing::warn!(%error, "failed to remove the label of a deleted OperatorGroup");
        }
    }
}

async fn forget(key: &str, ctx: &Ctx) -> Result<(), Error> {
    for namespace in labelled(key, ctx).await? {
        patch(&namespace, key, Value::Null, ctx).await?;
    }
    Ok(())
}

/// Removes the labels of unknown groups. The namespaces are listed first: the group of a label is listed
/// afterwards, unless it is deleted.
async fn forget_unknown(ctx: &Ctx) -> Result<(), Error> {
    let everywhere = ListParams::default();
    let namespaces = Api::<Namespace>::all(ctx.client.clone()).list_metadata(&everywhere).await;
    let mut labels: Vec<(String, String)> = Vec::new();
    for namespace in namespaces.map_err(Error::kube("list namespaces"))? {
        let keys =
            namespace.labels().keys().filter(|key| key.starts_with(names::LABEL_OPERATOR_GROUP_PREFIX));
        labels.extend(keys.map(|key| (namespace.name_any(), key.clone())));
    }
    if labels.is_empty() {
        return Ok(());
    }
    let groups = Api::<OperatorGroup>::all(ctx.client.clone()).list_metadata(&everywhere).await;
    let groups = groups.map_err(Error::kube("list OperatorGroups"))?;
    let known: BTreeSet<String> =
        groups.iter().filter_map(|group| group.metadata.uid.as_deref().map(key_of)).collect();
    for (namespace, key) in labels.iter().filter(|(_, key)| !known.contains(key)) {
        patch(namespace, key, Value::Null, ctx).await?;
    }
    Ok(())
}
