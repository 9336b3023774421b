use std::time::Duration;

use olm_api::{Subscription, SubscriptionSpec};

use super::*;

fn kind() -> Kind<Subscription> {
    Kind::new(watcher::Config::default(), |_| {}, |subscription| vec![subscription.spec.name.clone()])
}

fn subscription(name: &str, version: u64) -> Subscription {
    let spec = SubscriptionSpec { name: format!("package-of-{name}"), ..SubscriptionSpec::default() };
    let mut subscription = Subscription::new(name, spec);
    subscription.metadata.namespace = Some("ns".into());
    subscription.metadata.uid = Some(format!("uid-of-{name}"));
    subscription.metadata.resource_version = Some(version.to_string());
    subscription
}

fn list(kind: &Kind<Subscription>, objects: &[Subscription]) {
    kind.take(Event::Init);
    for object in objects {
        kind.take(Event::InitApply(object.clone()));
    }
    kind.take(Event::InitDone);
}

fn kept(kind: &Kind<Subscription>) -> Vec<(String, String)> {
    let one = |s: &Arc<Subscription>| (s.name_any(), s.resource_version().unwrap_or_default());
    kind.in_namespace("ns").iter().map(one).collect()
}

/// What was told since the last time, without waiting.
fn told(changes: &mut (impl Stream<Item = Change<Subscription>> + Unpin)) -> Vec<String> {
    let mut out = Vec::new();
    while let Some(Some(change)) = futures::FutureExt::now_or_never(changes.next()) {
        let (name, version) =
            (change.object.name_any(), change.object.resource_version().unwrap_or_default());
        out.push(format!("{}{name}@{version}", if change.gone { "-" } else { "" }));
    }
    out
}

#[test]
fn only_what_is_different_is_news() {
    let kind = kind();
    let mut changes = kind.changes(Hears::Everything);
    list(&kind, &[subscription("a", 1), subscription("b", 2)]);
    let mut first = told(&mut changes);
    first.sort();
    assert_eq!(first, ["a@1", "b@2"]);
    // the watch breaks: b is as it was, a is gone, c is new
    list(&kind, &[subscription("b", 2), subscription("c", 3)]);
    let mut second = told(&mut changes);
    second.sort();
    assert_eq!(second, ["-a@1", "c@3"]);
    // whoever listens from now on hears of all that is there
    let mut late = told(&mut kind.changes(Hears::Everything));
    late.sort();
    assert_eq!(late, ["b@2", "c@3"]);
}

#[test]
fn others_are_not_woken_for_what_is_there_when_the_manager_starts() {
    let kind = kind();
    let mut news = kind.changes(Hears::News);
    list(&kind, &[subscription("a", 1), subscription("b", 2)]);
    assert_eq!(told(&mut news), Vec::<String>::new());
    // the watch breaks: what changed meanwhile is news
    list(&kind, &[subscription("b", 2), subscription("c", 3)]);
    let mut later = told(&mut news);
    later.sort();
    assert_eq!(later, ["-a@1", "c@3"]);
    assert_eq!(told(&mut kind.changes(Hears::News)), Vec::<String>::new());
}

#[test]
fn our_own_writes_count_at_once_and_older_news_of_them_do_not() {
    let kind = kind();
    list(&kind, &[subscription("a", 1)]);
    let mut changes = kind.changes(Hears::Everything);
    let _ = told(&mut changes);
    kind.wrote(subscription("a", 5));
    assert_eq!((kept(&kind), told(&mut changes)), (vec![("a".into(), "5".into())], vec!["a@5".into()]));
    // the watch tells what was before, and then the same
    kind.take(Event::Apply(subscription("a", 3)));
    kind.take(Event::Apply(subscription("a", 5)));
    assert_eq!((kept(&kind), told(&mut changes)), (vec![("a".into(), "5".into())], vec![]));
    kind.take(Event::Apply(subscription("a", 6)));
    assert_eq!(told(&mut changes), ["a@6"]);
}

#[test]
fn an_answer_that_comes_late_brings_nothing_back() {
    let kind = kind();
    list(&kind, &[subscription("a", 1)]);
    // it is written (2), deleted (3), and the deletion is heard of before the answer to the write
    kind.take(Event::Delete(subscription("a", 3)));
    kind.wrote(subscription("a", 2));
    assert_eq!(kept(&kind), []);
    // made anew, it is another
    kind.wrote(subscription("a", 4));
    assert_eq!(kept(&kind), [("a".into(), "4".into())]);
}

#[test]
fn the_deletion_of_the_one_before_does_not_take_the_next() {
    let kind = kind();
    list(&kind, &[subscription("a", 1)]);
    let mut next = subscription("a", 4);
    next.metadata.uid = Some("another".into());
    kind.wrote(next);
    kind.take(Event::Delete(subscription("a", 3)));
    assert_eq!(kept(&kind), [("a".into(), "4".into())]);
}

#[test]
fn objects_are_found_by_their_keys_until_they_have_others() {
    let kind = kind();
    list(&kind, &[subscription("a", 1), subscription("b", 2)]);
    let found = |key: &str| kind.keyed(key).iter().map(|s| s.name_any()).collect::<Vec<_>>();
    assert_eq!((found("package-of-a"), found("package-of-b")), (vec!["a".to_owned()], vec!["b".to_owned()]));
    let mut other = subscription("a", 3);
    other.spec.name = "package-of-b".into();
    kind.take(Event::Apply(other));
    assert_eq!((found("package-of-a"), found("package-of-b")), (vec![], vec!["a".into(), "b".into()]));
    kind.take(Event::Delete(subscription("b", 4)));
    assert_eq!(found("package-of-b"), ["a"]);
}

#[test]
fn nobody_keeps_what_nobody_reads() {
    let kind = Kind::<Subscription>::new(
        watcher::Config::default(),
        |subscription| subscription.spec.config = None,
        |_| Vec::new(),
    );
    let mut fat = subscription("a", 1);
    fat.metadata.managed_fields = Some(vec![Default::default()]);
    fat.spec.config = Some(serde_json::json!({ "env": [] }));
    list(&kind, &[fat.clone()]);
    fat.metadata.resource_version = Some("2".into());
    kind.wrote(fat);
    let kept = kind.get("ns", "a").unwrap();
    assert_eq!((&kept.metadata.managed_fields, &kept.spec.config), (&None, &None));
    assert_eq!(kept.resource_version().as_deref(), Some("2"));
}

#[tokio::test]
async fn a_controller_and_whoever_asks_for_readiness_are_both_told() {
    // given a controller that waits for its store, as kube's do, and a probe that waits for the same, in either order
    for controller_first in [true, false] {
        let kind = Arc::new(kind());
        let store = kind.store();
        let controller = async move { store.wait_until_ready().await.is_ok() };
        let asked = Arc::clone(&kind);
        let probe = async move { asked.filled().await };
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
        list(&kind, &[]);

        // then both go on
        let both = async { (controller.await.unwrap(), probe.await.unwrap()) };
        let (told, ()) =
            tokio::time::timeout(Duration::from_secs(60), both).await.expect("one sleeps for ever");
        assert!(told);
    }
}
