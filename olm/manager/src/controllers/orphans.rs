//! What is left of an owner that is gone and that garbage collection does not reach.
//!
//! A ClusterServiceVersion has a finalizer for that; this is for everything that gets around it: a finalizer that was taken away by hand,
//! a namespace that was removed by force, and OperatorGroups, which have none. The manager looks when it starts and whenever one of them
//! is gone, so that nothing is lost between two looks.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, future};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Preconditions},
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use olm_api::{ClusterServiceVersion, OperatorGroup, names};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::{
    context::{Ctx, Error},
    ownership::{Owned, OwnerKey, is_orphan, labelled},
};

/// Owners that go together (a namespace) are looked after together.
const GATHER: Duration = Duration::from_millis(500);
/// When to try again what failed.
const RETRY: Duration = Duration::from_secs(5);

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let mut gone = futures::stream::select(
        gone::<ClusterServiceVersion>(&ctx.client),
        gone::<OperatorGroup>(&ctx.client),
    );
    loop {
        // The first look is at the start, for what went while nobody watched.
        let pause = match sweep(&ctx).await {
            Ok(()) => None,
            Err(error) => {
                tracing::warn!(%error, retry_in = ?RETRY, "failed to look for what has lost its owner");
                Some(RETRY)
            }
        };
        let again = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = again => {}
            Some(()) = gone.next() => tokio::time::sleep(GATHER).await,
        }
    }
}

/// Tells whenever an object of the kind is gone, or may have gone unseen.
fn gone<K>(client: &Client) -> impl Stream<Item = ()> + Unpin + use<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let events = watcher(Api::<PartialObjectMeta<K>>::all(client.clone()), watcher::Config::default());
    let mut first = true;
    Box::pin(events.default_backoff().filter_map(move |event| {
        let tells = match event {
            Ok(watcher::Event::Delete(_)) => true,
            // A list anew: what went in between was not told.
            Ok(watcher::Event::InitDone) => !std::mem::take(&mut first),
            _ => false,
        };
        future::ready(tells.then_some(()))
    }))
}

/// Deletes what nobody answers for any more.
async fn sweep(ctx: &Ctx) -> Result<(), Error> {
    for orphan in orphans(&ctx.client).await.map_err(Error::kube("look for what has lost its owner"))? {
        remove(&orphan, &ctx.client).await?;
        tracing::info!(object = %orphan, "deleted: its owner is gone");
    }
    Ok(())
}

/// Everything that labels say is owned by what is not there. The objects are listed before their owners: an owner that
/// was made in between counts.
pub(crate) async fn orphans(client: &Client) -> Result<Vec<Owned>, kube::Error> {
    let mut owned = labelled(client, &format!("{},{}", names::LABEL_OWNER, names::LABEL_OWNER_KIND)).await?;
    if owned.is_empty() {
        return Ok(owned);
    }
    let mut alive = keys::<ClusterServiceVersion>(client, "ClusterServiceVersion").await?;
    alive.extend(keys::<OperatorGroup>(client, "OperatorGroup").await?);
    owned.retain(|object| is_orphan(&object.metadata, &alive));
    Ok(owned)
}

pub(crate) async fn remove(orphan: &Owned, client: &Client) -> Result<(), Error> {
    let name = orphan.metadata.name.clone().unwrap_or_default();
    // The very object that was looked at: one that was made anew in the meantime has an owner.
    let preconditions = Preconditions {
        uid: orphan.metadata.uid.clone(),
        resource_version: orphan.metadata.resource_version.clone(),
    };
    let params = DeleteParams::default().preconditions(preconditions);
    match orphan.api(client).delete(&name, &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(Error::kube(format!("delete {orphan}, which has lost its owner"))(error)),
    }
}

async fn keys<K>(client: &Client, kind: &str) -> Result<BTreeSet<OwnerKey>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let list = Api::<K>::all(client.clone()).list_metadata(&ListParams::default()).await?;
    let key = |object: &PartialObjectMeta<K>| {
        OwnerKey::new(kind, &object.namespace().unwrap_or_default(), &object.name_any())
    };
    Ok(list.items.iter().map(key).collect())
}
