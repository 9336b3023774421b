//! Deletes orphaned objects that garbage collection does not reach.
//!
//! A ClusterServiceVersion has a finalizer for that; this covers everything else: a finalizer that was
//! removed manually, a namespace that was force-deleted, objects written during the deletion of the version,
//! and OperatorGroups, which have no finalizer. The manager checks all objects at its start; afterwards those
//! of owners that were deleted without the finalizer, and new or changed objects whose version does not exist.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};

use futures::{StreamExt, future, stream};
use kube::{Api, Client, ResourceExt, runtime::reflector::ObjectRef};
use olm_api::{ClusterServiceVersion, OperatorGroup};
use olm_engine::ownership::{
    CSV, GROUP, OWNED_KINDS, Owned, OwnerKey, Released, is_orphan, labelled, orphans, orphans_of, release,
    selector_of,
};
use tokio_util::sync::CancellationToken;

use crate::context::{Ctx, Error};

/// The API group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Owners that are deleted together (a namespace) are handled together.
const GATHER: Duration = Duration::from_millis(500);
/// Retry interval after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// The scope of a search.
#[derive(Debug, Default)]
enum Search {
    /// All orphaned objects, after the first list of the cluster.
    #[default]
    AtStart,
    /// The remaining objects of these owners.
    After(BTreeSet<OwnerKey>),
}

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let mut gone = gone(&ctx);
    // The first search covers deletions while the manager was down.
    let seen = async { tokio::join!(ctx.cache.synced(), ctx.parts.synced()) };
    tokio::select! {
        () = shutdown.cancelled() => return,
        _ = seen => {}
    }
    let unreachable = ctx.parts.unreachable_owners();
    let mut look = Search::default();
    loop {
        match sweep(&look, &unreachable, &ctx).await {
            Ok(()) => {
                let first = tokio::select! {
                    () = shutdown.cancelled() => return,
                    Some(first) = gone.next() => first,
                };
                let more = gone.by_ref().take_until(tokio::time::sleep(GATHER)).collect::<BTreeSet<_>>();
                look = Search::After(more.await.into_iter().chain([first]).collect());
            }
            Err(error) => {
                tracing::warn!(%error, retry_in = ?RETRY, "failed to find orphaned objects");
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(RETRY) => {}
                }
            }
        }
    }
}

/// Yields deleted owners that may have left objects.
fn gone(ctx: &Ctx) -> stream::BoxStream<'static, OwnerKey> {
    let (cache, parts) = (Arc::clone(&ctx.cache), Arc::clone(&ctx.parts));
    let versions = ctx.cache.csvs.wakes(move |csv: &ClusterServiceVersion| {
        let there = cache.csvs.has(&csv.namespace().unwrap_or_default(), &csv.name_any());
        let orderly = parts.left_nothing(csv.metadata.uid.as_deref().unwrap_or_default());
        (!there && !orderly).then(|| ObjectRef::<ClusterServiceVersion>::from_obj(csv))
    });
    let cache = Arc::clone(&ctx.cache);
    let groups = ctx.cache.groups.wakes(move |group: &OperatorGroup| {
        let there = cache.groups.has(&group.namespace().unwrap_or_default(), &group.name_any());
        (!there).then(|| ObjectRef::<OperatorGroup>::from_obj(group))
    });
    let cache = Arc::clone(&ctx.cache);
    // Objects that are created or changed after the deletion of their version.
    let late = ctx.parts.owned().filter_map(move |change| {
        let owner = change.owner.filter(|owner| !change.deleted && owner.kind == CSV);
        let late = owner.filter(|owner| !cache.csvs.has(&owner.namespace, &owner.name));
        future::ready(late)
    });
    let key = |kind: &'static str| {
        move |namespace: Option<String>, name: String| {
            OwnerKey::new(kind, &namespace.unwrap_or_default(), &name)
        }
    };
    let (version, group) = (key(CSV), key(GROUP));
    stream::select_all([
        versions.map(move |gone| version(gone.namespace, gone.name)).boxed(),
        groups.map(move |gone| group(gone.namespace, gone.name)).boxed(),
        late.boxed(),
    ])
    .boxed()
}

/// Deletes orphaned objects. `unreachable` are the owners that roles and bindings named at the start: these kinds
/// have the most objects, and are not listed again for that.
async fn sweep(look: &Search, unreachable: &BTreeSet<OwnerKey>, ctx: &Ctx) -> Result<(), Error> {
    let found = match look {
        Search::AtStart if unreachable.iter().all(|owner| is_there(owner, ctx)) => {
            let few: Vec<_> = OWNED_KINDS.iter().copied().filter(|(group, ..)| *group != RBAC).collect();
            orphans_of(&few, &ctx.client, |owner| !is_there(owner, ctx)).await
        }
        Search::AtStart => orphans(&ctx.client).await,
        // One search of everything covers several owners.
        Search::After(owners) if owners.len() > 1 => orphans(&ctx.client).await,
        Search::After(owners) => match owners.first() {
            Some(owner) => left_of(owner, &ctx.client).await,
            None => Ok(Vec::new()),
        },
    };
    for orphan in found.map_err(Error::kube("list orphaned objects"))? {
        let what = format!("delete orphaned {orphan}");
        match release(&orphan, &ctx.client).await.map_err(Error::kube(what))? {
            Released::Deleted => tracing::info!(object = %orphan, "deleted an orphaned object"),
            Released::Passed(owner) => {
                tracing::info!(object = %orphan, to = %owner.name, namespace = %owner.namespace, "handed over")
            }
        }
    }
    Ok(())
}

/// Whether an owner exists according to the cache; `true` for other kinds.
fn is_there(owner: &OwnerKey, ctx: &Ctx) -> bool {
    match owner.kind.as_str() {
        CSV => ctx.cache.csvs.has(&owner.namespace, &owner.name),
        GROUP => ctx.cache.groups.has(&owner.namespace, &owner.name),
        _ => true,
    }
}

/// The remaining objects of one owner; none when it exists.
async fn left_of(owner: &OwnerKey, client: &Client) -> Result<Vec<Owned>, kube::Error> {
    let mut owned = labelled(client, &selector_of(owner)).await?;
    if owned.is_empty() {
        return Ok(owned);
    }
    let there = if owner.kind == GROUP {
        let api = Api::<OperatorGroup>::namespaced(client.clone(), &owner.namespace);
        api.get_metadata_opt(&owner.name).await?.is_some()
    } else {
        let api = Api::<ClusterServiceVersion>::namespaced(client.clone(), &owner.namespace);
        api.get_metadata_opt(&owner.name).await?.is_some()
    };
    let alive = BTreeSet::from_iter(there.then(|| owner.clone()));
    owned.retain(|object| is_orphan(&object.metadata, &alive));
    Ok(owned)
}
