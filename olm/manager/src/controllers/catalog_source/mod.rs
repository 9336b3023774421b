//! CatalogSource: content into memory, its state into the status. `load → decide → update_status`.

mod load;
mod status;

use std::{collections::HashSet, pin::pin, sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    runtime::{Controller, WatchStreamExt, controller::Action, watcher},
};
use olm_api::CatalogSource;
use tokio_util::sync::CancellationToken;

use crate::{
    catalogs::{CatalogRef, Entry, LoadedCatalog, Problem},
    context::{Ctx, Error, drive},
};
use load::{Loaded, Source};

/// How often a directory is looked at when the CatalogSource does not say.
const POLL: Duration = Duration::from_secs(15);

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let api = Api::<CatalogSource>::all(ctx.client.clone());
    let controller = Controller::new(api.clone(), watcher::Config::default());
    tokio::join!(
        drive("catalog_source", controller, Arc::clone(&ctx), shutdown.clone(), reconcile),
        forget_deleted(api, ctx, shutdown)
    );
}

/// A deleted CatalogSource is not reconciled any more; its content must go all the same.
async fn forget_deleted(api: Api<CatalogSource>, ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let stream = watcher(api.clone(), watcher::Config::default()).default_backoff();
    let mut stream = pin!(stream.take_until(async move { shutdown.cancelled().await }));
    let mut seen = HashSet::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(watcher::Event::Delete(source)) => {
                ctx.catalogs.remove(&source.namespace().unwrap_or_default(), &source.name_any());
            }
            Ok(watcher::Event::Init) => seen.clear(),
            Ok(watcher::Event::InitApply(source)) => {
                seen.insert((source.namespace().unwrap_or_default(), source.name_any()));
            }
            // A deletion that happened while the watch was down is only visible as an absence.
            Ok(watcher::Event::InitDone) => {
                for (namespace, name) in ctx.catalogs.keys() {
                    if seen.contains(&(namespace.clone(), name.clone())) {
                        continue;
                    }
                    let api = Api::<CatalogSource>::namespaced(ctx.client.clone(), &namespace);
                    if let Ok(None) = api.get_opt(&name).await {
                        ctx.catalogs.remove(&namespace, &name);
                    }
                }
            }
            Ok(watcher::Event::Apply(_)) | Err(_) => {}
        }
    }
}

async fn reconcile(source: Arc<CatalogSource>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let namespace = source.namespace().unwrap_or_default();
    let name = source.name_any();
    if source.metadata.deletion_timestamp.is_some() {
        ctx.catalogs.remove(&namespace, &name);
        return Ok(Action::await_change());
    }
    let known = ctx.catalogs.get(&namespace, &name);
    let wanted = Source::of(&source.spec);
    let entry = refresh(&source, &wanted, known).await;
    ctx.catalogs.put(&namespace, &name, entry.clone());
    let status = status::status(&source, &entry, &ctx.namespace, Timestamp::now());
    let old = source.status.as_ref();
    let changed = ctx.write_status(source.as_ref(), old, &status).await?;
    if let (true, Some(reason)) = (changed, &status.reason)
        && old.and_then(|s| s.reason.as_ref()) != Some(reason)
    {
        ctx.event(source.as_ref(), true, reason, status.message.as_deref().unwrap_or_default()).await;
    }
    Ok(match wanted {
        Ok(Source::Directory(_)) => Action::requeue(interval(&source)),
        _ => Action::await_change(),
    })
}

/// Loads the content when it changed. What cannot be loaded leaves the last good content in place.
async fn refresh(source: &CatalogSource, wanted: &Result<Source, Problem>, known: Option<Entry>) -> Entry {
    let fingerprint = known.as_ref().map(|e| e.fingerprint.clone());
    let loaded = match wanted {
        Err(problem) => Loaded::Failed(problem.clone()),
        Ok(wanted) => {
            let wanted = wanted.clone();
            // Reading a folder of megabytes must not hold up everybody else.
            let load = tokio::task::spawn_blocking(move || load::load(&wanted, fingerprint.as_deref()));
            load.await.unwrap_or_else(|error| load::failed(format!("loading was cut short: {error}")))
        }
    };
    let (old, old_fingerprint) = known.map(|e| (e.loaded, e.fingerprint)).unwrap_or_default();
    let (catalog, problem, fingerprint) = match loaded {
        Loaded::New(catalog, fingerprint) => (Some(Arc::new(*catalog)), None, fingerprint),
        Loaded::Unchanged => (old.map(|l| l.catalog), None, old_fingerprint),
        Loaded::Failed(problem) => (old.map(|l| l.catalog), Some(problem), old_fingerprint),
    };
    let namespace = source.namespace().unwrap_or_default();
    let name = source.name_any();
    let loaded = catalog.map(|catalog| LoadedCatalog {
        display_name: source.spec.display_name.clone().unwrap_or_else(|| name.clone()),
        publisher: source.spec.publisher.clone().unwrap_or_default(),
        priority: source.spec.priority,
        reference: CatalogRef { namespace, name },
        catalog,
    });
    Entry { loaded, problem, fingerprint }
}

fn interval(source: &CatalogSource) -> Duration {
    let poll = source.spec.update_strategy.as_ref().and_then(|s| s.registry_poll.as_ref());
    poll.and_then(|p| p.interval.as_deref())
        .and_then(load::go_duration)
        .unwrap_or(POLL)
        .max(Duration::from_secs(1))
}
