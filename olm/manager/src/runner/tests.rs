use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use olm_api::{Subscription, SubscriptionSpec};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::*;

#[derive(Default)]
struct TestStore(Mutex<BTreeMap<String, Arc<Subscription>>>);

impl TestStore {
    fn with(names: &[&str]) -> Arc<Self> {
        let store = Self::default();
        for name in names {
            let object = Subscription::new(name, SubscriptionSpec::default());
            store.all().insert((*name).to_owned(), Arc::new(object));
        }
        Arc::new(store)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Subscription>>> {
        self.0.lock().unwrap()
    }
}

impl Objects<Subscription> for TestStore {
    fn find(&self, namespace: &str, name: &str) -> Option<Arc<Subscription>> {
        assert_eq!(namespace, "ns");
        self.all().get(name).cloned()
    }

    fn keys(&self) -> Vec<Key> {
        self.all().keys().map(|name| key("ns", name)).collect()
    }
}

fn name(object: &Subscription) -> String {
    object.metadata.name.clone().unwrap()
}

/// A controller of these objects, with triggers for one object and for all.
fn controller(
    store: &Arc<TestStore>,
) -> (Controller<Subscription>, mpsc::UnboundedSender<Key>, mpsc::UnboundedSender<()>) {
    let (one, ones) = mpsc::unbounded_channel();
    let (all, alls) = mpsc::unbounded_channel();
    let objects: Arc<dyn Objects<Subscription>> = Arc::<TestStore>::clone(store);
    let controller = Controller::new(objects, UnboundedReceiverStream::new(ones))
        .reconcile_all_on(UnboundedReceiverStream::new(alls));
    (controller, one, all)
}

#[tokio::test]
async fn no_more_than_so_many_are_looked_at_at_a_time_and_none_by_two() {
    let names: Vec<String> = (0..20).map(|n| format!("object-{n:02}")).collect();
    let store = TestStore::with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let (controller, one, all) = controller(&store);
    all.send(()).unwrap();
    one.send(key("ns", "gone")).unwrap();
    let (seen, looks) = mpsc::unbounded_channel();
    let mut looks = UnboundedReceiverStream::new(looks);
    let running = Arc::<Mutex<Vec<String>>>::default();
    let stop = CancellationToken::new();
    let look = {
        let (running, one) = (Arc::clone(&running), one.clone());
        move |object: Arc<Subscription>| {
            let (running, seen, one, name) = (Arc::clone(&running), seen.clone(), one.clone(), name(&object));
            async move {
                let many = {
                    let mut running = running.lock().unwrap();
                    assert!(!running.contains(&name), "{name} is looked at twice");
                    running.push(name.clone());
                    running.len()
                };
                // woken while it is reconciled
                one.send(key("ns", &name)).unwrap();
                tokio::task::yield_now().await;
                running.lock().unwrap().retain(|other| *other != name);
                let _ = seen.send((name, many));
                Action::await_change()
            }
        }
    };
    let run = tokio::spawn(controller.run(3, stop.clone(), look));
    // each repeatedly
    let looks: Vec<(String, usize)> = looks.by_ref().take(60).collect().await;
    stop.cancel();
    run.await.unwrap();
    assert_eq!(looks.iter().map(|(_, many)| *many).max(), Some(3));
    for name in names {
        assert!(looks.iter().filter(|(looked, _)| *looked == name).count() >= 2, "{name} in {looks:?}");
    }
}

#[tokio::test]
async fn an_object_is_looked_at_again_when_its_time_has_come() {
    let store = TestStore::with(&["a"]);
    let (controller, one, _all) = controller(&store);
    one.send(key("ns", "a")).unwrap();
    let (seen, looks) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let run = tokio::spawn(controller.run(1, stop.clone(), move |object| {
        let _ = seen.send(name(&object));
        async { Action::requeue(Duration::from_millis(1)) }
    }));
    let looks: Vec<String> = UnboundedReceiverStream::new(looks).take(3).collect().await;
    assert_eq!(looks, ["a", "a", "a"]);
    // a deleted object is not
    store.all().clear();
    stop.cancel();
    run.await.unwrap();
}

#[tokio::test]
async fn what_is_under_way_comes_to_its_end_and_nothing_new_is_begun() {
    let store = TestStore::with(&["a", "b"]);
    let (controller, one, all) = controller(&store);
    one.send(key("ns", "a")).unwrap();
    let (begun, begins) = mpsc::unbounded_channel();
    let mut begins = UnboundedReceiverStream::new(begins);
    let (go_on, gate) = tokio::sync::watch::channel(false);
    let ended = Arc::<Mutex<Vec<String>>>::default();
    let stop = CancellationToken::new();
    let look = {
        let ended = Arc::clone(&ended);
        move |object: Arc<Subscription>| {
            let (ended, begun, mut gate, name) =
                (Arc::clone(&ended), begun.clone(), gate.clone(), name(&object));
            async move {
                let _ = begun.send(name.clone());
                let _ = gate.wait_for(|open| *open).await;
                ended.lock().unwrap().push(name);
                Action::requeue(Duration::ZERO)
            }
        }
    };
    let run = tokio::spawn(controller.run(2, stop.clone(), look));
    assert_eq!(begins.next().await.as_deref(), Some("a"));
    // when it is stopped, and a trigger arrives
    stop.cancel();
    all.send(()).unwrap();
    tokio::task::yield_now().await;
    assert!(!run.is_finished());
    go_on.send(true).unwrap();
    run.await.unwrap();
    assert_eq!(*ended.lock().unwrap(), ["a"]);
}
