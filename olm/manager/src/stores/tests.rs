use std::time::Duration;

use futures::channel::mpsc;
use kube::runtime::watcher::Event;

use super::*;

/// A store's objects, as if a controller had read them.
pub(crate) fn kept<K>(objects: Vec<K>) -> Kept<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let mut writer = reflector::store::Writer::default();
    for object in objects {
        writer.apply_watcher_event(&Event::Apply(object));
    }
    Kept { store: writer.as_reader(), filled: watch::channel(true).1 }
}

#[tokio::test]
async fn a_controller_and_whoever_asks_for_readiness_are_both_told() {
    // given a controller that waits for its store, as kube's do, and a probe that waits for the same, in either order
    for controller_first in [true, false] {
        let (changes, watch) = mpsc::unbounded::<Change<Subscription>>();
        let (watched, kept) = keep(watch);
        let stores = Arc::new(Stores::default());
        let store = kept.store.clone();
        stores.set_subscriptions(kept);
        let controller = async move { store.wait_until_ready().await.is_ok() };
        let probe = async move { stores.synced().await };
        let spawn_controller = || tokio::spawn(controller);
        let (controller, probe) = if controller_first {
            let controller = spawn_controller();
            tokio::task::yield_now().await;
            (controller, tokio::spawn(probe))
        } else {
            let probe = tokio::spawn(probe);
            tokio::task::yield_now().await;
            (spawn_controller(), probe)
        };
        tokio::task::yield_now().await;
        assert!(!controller.is_finished() && !probe.is_finished());

        // when the cluster has been seen
        tokio::spawn(watched.for_each(|_| std::future::ready(())));
        changes.unbounded_send(Ok(Event::Init)).unwrap();
        changes.unbounded_send(Ok(Event::InitDone)).unwrap();

        // then both go on
        let both = async { (controller.await.unwrap(), probe.await.unwrap()) };
        let (told, ()) =
            tokio::time::timeout(Duration::from_secs(60), both).await.expect("one sleeps for ever");
        assert!(told);
    }
}
