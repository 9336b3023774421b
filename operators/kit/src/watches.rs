//! Watches of the Kubernetes API, each a task with its own backoff: a kind that is missing or forbidden does
//! not stop the others.

use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::channel::mpsc;
use futures::{Stream, StreamExt as _};
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Error, Event};
use kube::runtime::{WatchStreamExt as _, reflector};
use kube::{Api, Client, ResourceExt as _};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::kind::Resourced;
use crate::patient;

/// HTTP status for an expired watch, which restarts, as happens regularly.
const EXPIRED: u16 = 410;
/// Time for the first list of a kind; a reconciliation waits for it.
const LISTED: Duration = Duration::from_secs(10);

/// The objects of a kind, as last seen.
pub(crate) struct Watched {
    pub(crate) kind: Resourced,
    store: Store<DynamicObject>,
    /// Of the last request, if it failed.
    error: Arc<Mutex<Option<String>>>,
}

/// A name in the way of an object.
#[derive(Debug, Clone)]
pub(crate) enum Existing {
    Absent,
    Ours(Arc<DynamicObject>),
    /// Being deleted, or of an earlier owner of the same name, whose objects the garbage collector deletes.
    Terminating,
    Foreign,
}

/// Owner of an object: a controller, as in an owner reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner<'a> {
    pub(crate) resource: &'a ApiResource,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

/// Watches a kind until `stop`. The stream has the objects that change.
pub(crate) fn watch<F>(
    client: &Client,
    kind: &Resourced,
    namespace: Option<&str>,
    strip: F,
    stop: &CancellationToken,
) -> (Watched, impl Stream<Item = Result<DynamicObject, Error>> + Send + 'static + use<F>)
where
    F: FnMut(&mut DynamicObject) + Send + 'static,
{
    let api = api(client, kind, namespace);
    let writer = Writer::new(kind.resource.clone());
    let (store, error) = (writer.as_reader(), Arc::default());
    let noted = Noted { name: kind.resource.kind.clone(), error: Arc::clone(&error) };
    let events = patient(watcher::watcher(api, watcher::Config::default())).modify(strip);
    let changes =
        reflector(writer, events.filter_map(move |event| ready(noted.note(event)))).touched_objects();
    let (sender, receiver) = mpsc::unbounded();
    // A task, because a controller does not poll its watches while it is busy, and its reconciliations wait for
    // these lists.
    tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        let mut changes = std::pin::pin!(changes);
        while let Some(Ok(object)) = changes.next().await {
            // Without a receiver the controller has ended.
            if sender.unbounded_send(object).is_err() {
                return;
            }
        }
    }));
    (Watched { kind: kind.clone(), store, error }, receiver.map(Ok))
}

/// The API of a kind. Kinds without a namespace are served without one.
pub(crate) fn api(client: &Client, kind: &Resourced, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace.filter(|_| kind.namespaced) {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource),
        None => Api::all_with(client.clone(), &kind.resource),
    }
}

/// Notes and logs errors of a watch, which is retried.
struct Noted {
    name: String,
    error: Arc<Mutex<Option<String>>>,
}

impl Noted {
    fn note<K>(&self, event: Result<Event<K>, Error>) -> Option<Result<Event<K>, Error>> {
        let mut noted = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Ok(event) => {
                *noted = None;
                Some(Ok(event))
            }
            Err(Error::WatchError(status)) if status.code == EXPIRED => {
                tracing::debug!(kind = self.name, "watch restarted");
                None
            }
            Err(error) => {
                tracing::warn!(kind = self.name, %error, "watch failed, retrying");
                *noted = Some(error.to_string());
                None
            }
        }
    }
}

/// Removes what the kit does not read: managed fields; and of objects with another owner than one of this kind
/// all but the name.
pub(crate) fn strip(owner: ApiResource) -> impl FnMut(&mut DynamicObject) + Send + 'static {
    move |object| {
        object.metadata.managed_fields = None;
        if !controlled_by(object, &owner) {
            let metadata = std::mem::take(&mut object.metadata);
            object.data = serde_json::Value::Null;
            object.metadata.name = metadata.name;
            object.metadata.namespace = metadata.namespace;
            object.metadata.uid = metadata.uid;
            object.metadata.resource_version = metadata.resource_version;
        }
    }
}

fn controlled_by(object: &DynamicObject, owner: &ApiResource) -> bool {
    controller(object).is_some_and(|of| {
        // Another version of the same kind is the same kind.
        let group = of.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        of.kind == owner.kind && group == owner.group
    })
}

fn controller(
    object: &DynamicObject,
) -> Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference> {
    object.owner_references().iter().find(|reference| reference.controller == Some(true))
}

impl Watched {
    /// Waits for the first list.
    pub(crate) async fn listed(&self) -> Result<(), Failure> {
        let listed = self.store.wait_until_ready();
        tokio::pin!(listed);
        let plural = || self.kind.resource.plural.clone();
        let deadline = tokio::time::Instant::now() + LISTED;
        loop {
            let tick = tokio::time::Instant::now() + Duration::from_millis(100);
            tokio::select! {
                biased;
                done = &mut listed => return done.map_err(|_| Failure::Unlisted(plural())),
                () = tokio::time::sleep_until(tick) => {}
            }
            if let Some(why) = self.error.lock().unwrap_or_else(PoisonError::into_inner).clone() {
                return Err(Failure::Unwatched { plural: plural(), why });
            }
            if tick > deadline {
                return Err(Failure::Unlisted(plural()));
            }
        }
    }

    /// The objects of an owner.
    pub(crate) fn owned(&self, owner: &Owner<'_>) -> Vec<Arc<DynamicObject>> {
        self.store.state_filter(|object| controller(object).is_some_and(|of| of.uid == owner.uid))
    }

    /// The object of this name, from the view of an owner.
    pub(crate) fn existing(&self, owner: &Owner<'_>, namespace: Option<&str>, name: &str) -> Existing {
        let mut key = kube::runtime::reflector::ObjectRef::new_with(name, self.kind.resource.clone());
        if let Some(namespace) = namespace {
            key = key.within(namespace);
        }
        let Some(object) = self.store.get(&key) else { return Existing::Absent };
        let of = controller(&object).filter(|_| controlled_by(&object, owner.resource));
        match of {
            Some(of) if of.uid == owner.uid && object.metadata.deletion_timestamp.is_none() => {
                Existing::Ours(Arc::clone(&object))
            }
            Some(of) if of.uid == owner.uid || of.name == owner.name => Existing::Terminating,
            _ => Existing::Foreign,
        }
    }

    pub(crate) fn reader(&self) -> Store<DynamicObject> {
        self.store.clone()
    }

    /// A kind with these objects, without a watch.
    #[cfg(test)]
    pub(crate) fn of(kind: Resourced, objects: Vec<DynamicObject>) -> Self {
        let mut writer = Writer::new(kind.resource.clone());
        writer.apply_watcher_event(&Event::Init);
        for object in objects {
            writer.apply_watcher_event(&Event::InitApply(object));
        }
        writer.apply_watcher_event(&Event::InitDone);
        Self { kind, store: writer.as_reader(), error: Arc::default() }
    }
}
