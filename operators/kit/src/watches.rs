//! Watches of the Kubernetes API, each a task with its own backoff: a kind that is missing or forbidden does
//! not stop the others.

use std::collections::HashSet;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::channel::mpsc;
use futures::{Stream, StreamExt as _, stream};
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Error, Event};
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
    let mut follow = Follow { kind: kind.resource.clone(), writer, before: Vec::new(), listed: Vec::new() };
    let changes = events
        .filter_map(move |event| ready(noted.note(event)))
        .flat_map(move |event| stream::iter(follow.take(event)));
    let (sender, receiver) = mpsc::unbounded();
    // A task, because a controller does not poll its watches while it is busy, and its reconciliations wait for
    // these lists.
    tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        let mut changes = std::pin::pin!(changes);
        while let Some(object) = changes.next().await {
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
    fn note<K>(&self, event: Result<Event<K>, Error>) -> Option<Event<K>> {
        let mut noted = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Ok(event) => {
                *noted = None;
                Some(event)
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

/// Stores events, and reports the objects whose owners they affect.
struct Follow {
    kind: ApiResource,
    writer: Writer<DynamicObject>,
    /// What the store had before the current list or event.
    before: Vec<Arc<DynamicObject>>,
    /// What a list has so far.
    listed: Vec<DynamicObject>,
}

impl Follow {
    /// The affected objects, once the store has the event: those that are new or changed, and the earlier form
    /// of those that are gone or have another owner. After a list that follows an expired watch, no event
    /// reports what was deleted meanwhile.
    fn take(&mut self, event: Event<DynamicObject>) -> Vec<DynamicObject> {
        let store = self.writer.as_reader();
        match &event {
            Event::Init => (self.before, self.listed) = (store.state(), Vec::new()),
            Event::InitApply(object) => self.listed.push(object.clone()),
            Event::Apply(object) => {
                self.before.extend(store.get(&ObjectRef::from_obj_with(object, self.kind.clone())));
            }
            Event::InitDone | Event::Delete(_) => {}
        }
        self.writer.apply_watcher_event(&event);
        let mut changed = match event {
            Event::Init | Event::InitApply(_) => return Vec::new(),
            Event::InitDone => std::mem::take(&mut self.listed),
            Event::Apply(object) | Event::Delete(object) => vec![object],
        };
        let owned = |object: &DynamicObject| {
            (object.metadata.uid.clone(), controller(object).map(|owner| owner.uid.clone()))
        };
        let known: HashSet<_> = changed.iter().map(owned).collect();
        let gone = std::mem::take(&mut self.before).into_iter().filter(|old| !known.contains(&owned(old)));
        changed.extend(gone.map(Arc::unwrap_or_clone));
        changed
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
        let mut key = ObjectRef::new_with(name, self.kind.resource.clone());
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, owner: &str) -> DynamicObject {
        let reference = json!({"apiVersion": "example.com/v1", "kind": "Greeting", "name": "g", "uid": owner, "controller": true});
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": [reference]},
        }))
        .unwrap()
    }

    #[test]
    fn what_a_list_no_longer_has_is_reported_after_the_store_has_the_list() {
        let kind = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let writer = Writer::new(kind.clone());
        let store = writer.as_reader();
        let mut follow = Follow { kind, writer, before: Vec::new(), listed: Vec::new() };
        let mut list = |objects: Vec<DynamicObject>| {
            assert!(follow.take(Event::Init).is_empty());
            for object in objects {
                assert!(follow.take(Event::InitApply(object)).is_empty());
            }
            let changed = follow.take(Event::InitDone).into_iter();
            let of = |object: DynamicObject| {
                (object.name_any(), controller(&object).map(|owner| owner.uid.clone()).unwrap_or_default())
            };
            let mut changed: Vec<_> = changed.map(of).collect();
            changed.sort();
            changed
        };
        let pair = |name: &str, owner: &str| (name.to_owned(), owner.to_owned());
        assert_eq!(list(vec![object("a", "1"), object("b", "1")]), [pair("a", "1"), pair("b", "1")]);
        // when b was deleted and a has another owner while no watch was open, then both owners are affected
        assert_eq!(list(vec![object("a", "2")]), [pair("a", "1"), pair("a", "2"), pair("b", "1")]);
        assert_eq!(store.state().len(), 1);
        // and so they are when an event changes the owner
        let changed = follow.take(Event::Apply(object("a", "3")));
        let owners: Vec<_> = changed.iter().filter_map(controller).map(|owner| owner.uid.as_str()).collect();
        assert_eq!(owners, ["3", "2"]);
    }
}
