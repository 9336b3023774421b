//! CatalogSource: content into the catalog cache, its state into the status.
//!
//! [`observe`] takes the state of the reads: [`source`] and [`interval`] decide what to read and when
//! (pure), [`jobs`] runs each read in a task of its own ([`fetch`]) → the content is written to the catalog
//! cache (`CacheDir`) → [`status`] derives the status (pure) and writes it.

mod fetch;
mod interval;
mod jobs;
mod observe;
mod source;
mod status;
mod template;

use std::{collections::HashSet, pin::pin, sync::Arc};

use futures::StreamExt;
use kube::{Api, ResourceExt, runtime::watcher};
use olm_api::CatalogSource;
use olm_client::patient;
use olm_engine::catalogs::{
    Access, Backend, CatalogImage, CatalogRef, CatalogState, Key, LoadedCatalog, Own,
};
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::KindCache,
    context::{Ctx, Error, SAFETY_NET, drive},
    runner::Action,
};
pub(crate) use jobs::Jobs;
use jobs::View;
use observe::Observed;

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let api = Api::<CatalogSource>::all(ctx.client.clone());
    let sources = KindCache::<CatalogSource>::new(watcher::Config::default(), |_| {}, |_| Vec::new());
    let controller = sources
        .controller()
        .reconcile_all_on(WatchStream::from_changes(ctx.refresh.wakes()).map(|_| ()))
        // A new leader writes the statuses that it did not write as a follower.
        .reconcile_all_on(ctx.fence.begins());
    let jobs = Arc::clone(&ctx.jobs);
    let work = async {
        tokio::select! {
            () = drive("catalog_source", controller, Arc::clone(&ctx), shutdown.clone(), reconcile) => {}
            () = sources.follow(api.clone()) => {}
        }
    };
    tokio::join!(work, forget_deleted(api.clone(), Arc::clone(&ctx), shutdown.clone()));
    jobs.stop();
}

/// A deleted CatalogSource is not reconciled any more; its content is removed here.
async fn forget_deleted(api: Api<CatalogSource>, ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let stream = patient(watcher(api.clone(), watcher::Config::default()));
    let mut stream = pin!(stream.take_until(async move { shutdown.cancelled().await }));
    let mut seen = HashSet::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(watcher::Event::Delete(source)) => forget(&ctx, &key(&source)).await,
            Ok(watcher::Event::Init) => seen.clear(),
            Ok(watcher::Event::InitApply(source)) => drop(seen.insert(key(&source))),
            // A deletion that happened while the watch was down is only visible as an absence.
            Ok(watcher::Event::InitDone) => {
                let mut known = ctx.jobs.keys();
                known.extend(ctx.catalogs.keys());
                for key in known.into_iter().filter(|key| !seen.contains(key)) {
                    let api = Api::<CatalogSource>::namespaced(ctx.client.clone(), &key.0);
                    if let Ok(None) = api.get_opt(&key.1).await {
                        forget(&ctx, &key).await;
                    }
                }
            }
            Ok(watcher::Event::Apply(_)) | Err(_) => {}
        }
    }
}

fn key(source: &CatalogSource) -> Key {
    (source.namespace().unwrap_or_default(), source.name_any())
}

async fn forget(ctx: &Ctx, key: &Key) {
    ctx.catalogs.remove(&key.0, &key.1);
    let (jobs, key) = (Arc::clone(&ctx.jobs), key.clone());
    // May remove thousands of files.
    let _ = tokio::task::spawn_blocking(move || jobs.forget(&key)).await;
}

async fn reconcile(source: Arc<CatalogSource>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let key = key(&source);
    if source.metadata.deletion_timestamp.is_some() {
        forget(&ctx, &key).await;
        return Ok(Action::await_change());
    }
    let Observed { access, requested, template, view, interval_problem } =
        observe::observe(&source, &ctx).await;
    ctx.catalogs.insert(&key.0, &key.1, entry(&source, &view, access, &ctx));
    let inputs = status::Inputs {
        view: &view,
        requested: requested.as_ref().ok(),
        interval: interval_problem.as_ref(),
        template: template.as_ref(),
    };
    status::report(&source, &inputs, &ctx).await?;
    Ok(Action::requeue(view.due.unwrap_or(SAFETY_NET).min(SAFETY_NET)))
}

/// The state of the source, for `LoadedCatalogs`.
fn entry(source: &CatalogSource, view: &View, access: Access, ctx: &Ctx) -> CatalogState {
    let (namespace, name) = key(source);
    let reference = CatalogRef { namespace, name: name.clone() };
    let own = Own {
        catalog: reference.clone(),
        images: Arc::clone(&ctx.images),
        signatures: Arc::clone(&ctx.signatures),
        access,
        refresh: Arc::clone(&ctx.refresh),
    };
    let loaded = view.catalog.clone().map(|catalog| LoadedCatalog {
        display_name: source.spec.display_name.clone().unwrap_or(name),
        publisher: source.spec.publisher.clone().unwrap_or_default(),
        priority: source.spec.priority,
        reference,
        catalog,
        image: view.resolved.clone().map(|reference| CatalogImage { reference, signer: view.signer.clone() }),
        backend: Backend::Own(Arc::new(own)),
    });
    CatalogState { loaded, problem: view.problem.clone(), last_success: view.last_success, bytes: view.bytes }
}
