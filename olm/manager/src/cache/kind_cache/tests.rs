use olm_api::{Subscription, SubscriptionSpec};

use super::*;

fn kind() -> KindCache<Subscription> {
    KindCache::new(watcher::Config::default(), |_| {}, |subscription| vec![subscription.spec.name.clone()])
}

fn subscription(name: &str, version: u64) -> Subscription {
    let spec = SubscriptionSpec { name: format!("package-of-{name}"), ..SubscriptionSpec::default() };
    let mut subscription = Subscription::new(name, spec);
    subscription.metadata.namespace = Some("ns".into());
    subscription.metadata.uid = Some(format!("uid-of-{name}"));
    subscription.metadata.resource_version = Some(version.to_string());
    subscription
}

fn list(kind: &KindCache<Subscription>, objects: &[Subscription]) {
    kind.take(Event::Init);
    for object in objects {
        kind.take(Event::InitApply(object.clone()));
    }
    kind.take(Event::InitDone);
}

fn cached(kind: &KindCache<Subscription>) -> Vec<(String, String)> {
    let one = |s: &Arc<Subscription>| (s.name_any(), s.resource_version().unwrap_or_default());
    kind.in_namespace("ns").iter().map(one).collect()
}

/// Items since the last call, without waiting.
fn waiting<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> Vec<T> {
    std::iter::from_fn(|| futures::FutureExt::now_or_never(stream.next()).flatten()).collect()
}

fn announced(changes: &mut (impl Stream<Item = Arc<Subscription>> + Unpin)) -> Vec<String> {
    let one = |object: &Arc<Subscription>| {
        format!("{}@{}", object.name_any(), object.resource_version().unwrap_or_default())
    };
    let mut announced: Vec<String> = waiting(changes).iter().map(one).collect();
    announced.sort();
    announced
}

/// The keys that a controller received.
fn enqueued(keys: &mut (impl Stream<Item = Key> + Unpin)) -> Vec<String> {
    let mut enqueued: Vec<String> = waiting(keys).iter().map(ToString::to_string).collect();
    enqueued.sort();
    enqueued
}

#[test]
fn a_controller_gets_all_objects_and_then_changed_ones() {
    let kind = kind();
    let mut keys = kind.keys();
    list(&kind, &[subscription("a", 1), subscription("b", 2)]);
    assert_eq!(enqueued(&mut keys), ["ns/a", "ns/b"]);
    // the watch breaks: b is unchanged, a is gone, c is new
    list(&kind, &[subscription("b", 2), subscription("c", 3)]);
    assert_eq!(enqueued(&mut keys), ["ns/c"]);
    // a later subscriber gets all existing objects
    assert_eq!(enqueued(&mut kind.keys()), ["ns/b", "ns/c"]);
}

#[test]
fn the_first_list_wakes_no_other_controllers() {
    let kind = kind();
    let mut news = kind.changes();
    list(&kind, &[subscription("a", 1), subscription("b", 2)]);
    assert_eq!(announced(&mut news), Vec::<String>::new());
    // the watch breaks: changes meanwhile are announced
    list(&kind, &[subscription("b", 2), subscription("c", 3)]);
    assert_eq!((announced(&mut news), kind.has("ns", "a")), (vec!["a@1".into(), "c@3".into()], false));
    assert_eq!(announced(&mut kind.changes()), Vec::<String>::new());
}

#[test]
fn our_own_writes_count_at_once_and_older_news_of_them_do_not() {
    let kind = kind();
    list(&kind, &[subscription("a", 1)]);
    let (mut changes, mut keys) = (kind.changes(), kind.keys());
    let _ = enqueued(&mut keys);
    kind.store_written(subscription("a", 5));
    assert_eq!(
        (cached(&kind), announced(&mut changes)),
        (vec![("a".into(), "5".into())], vec!["a@5".into()])
    );
    // the watch delivers the earlier state, and then the same one
    kind.take(Event::Apply(subscription("a", 3)));
    kind.take(Event::Apply(subscription("a", 5)));
    assert_eq!((cached(&kind), announced(&mut changes)), (vec![("a".into(), "5".into())], vec![]));
    kind.take(Event::Apply(subscription("a", 6)));
    assert_eq!(announced(&mut changes), ["a@6"]);
    assert_eq!(enqueued(&mut keys), ["ns/a", "ns/a"]);
}

#[test]
fn an_answer_that_comes_late_brings_nothing_back() {
    let kind = kind();
    list(&kind, &[subscription("a", 1)]);
    // it is written (2), deleted (3), and the deletion arrives before the response of the write
    kind.take(Event::Delete(subscription("a", 3)));
    kind.store_written(subscription("a", 2));
    assert_eq!(cached(&kind), []);
    // recreated, it is another object
    kind.store_written(subscription("a", 4));
    assert_eq!(cached(&kind), [("a".into(), "4".into())]);
}

#[test]
fn the_deletion_of_the_one_before_does_not_take_the_next() {
    let kind = kind();
    list(&kind, &[subscription("a", 1)]);
    let mut next = subscription("a", 4);
    next.metadata.uid = Some("another".into());
    kind.store_written(next);
    kind.take(Event::Delete(subscription("a", 3)));
    assert_eq!(cached(&kind), [("a".into(), "4".into())]);
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
fn unused_fields_are_not_stored() {
    let kind = KindCache::<Subscription>::new(
        watcher::Config::default(),
        |subscription| subscription.spec.config = None,
        |_| Vec::new(),
    );
    let mut fat = subscription("a", 1);
    fat.metadata.managed_fields = Some(vec![Default::default()]);
    fat.spec.config = Some(serde_json::json!({ "env": [] }));
    list(&kind, &[fat.clone()]);
    fat.metadata.resource_version = Some("2".into());
    kind.store_written(fat);
    let kept = kind.get("ns", "a").unwrap();
    assert_eq!((&kept.metadata.managed_fields, &kept.spec.config), (&None, &None));
    assert_eq!(kept.resource_version().as_deref(), Some("2"));
}

/// A thousand of them, of two operators.
#[test]
fn reads_return_whole_objects_and_equal_specifications_are_stored_once() {
    let whole = |n: u64| {
        let mut subscription = subscription(&format!("s-{n:04}"), n + 1);
        subscription.spec.name = format!("package-{}", n % 2);
        subscription.metadata.labels = Some([(format!("operators.coreos.com/s-{n}"), String::new())].into());
        subscription.status = serde_json::from_value(serde_json::json!({
            "state": "AtLatestKnown", "installedCSV": "a.v1", "currentCSV": "a.v1",
            "installPlanRef": { "name": format!("install-{n}"), "kind": "InstallPlan", "uid": n.to_string() },
            "conditions": [{ "type": "CatalogSourcesUnhealthy", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        }))
        .unwrap();
        subscription
    };
    let all: Vec<Subscription> = (0..1_000).map(whole).collect();
    let kind = kind();
    list(&kind, &all);
    assert_eq!(kind.table().specs(), 2);
    let named = |object: &Subscription| kind.get("ns", &object.name_any());
    assert!(all.iter().all(|object| named(object).as_deref() == Some(object)));
    // one at a time, and with all of its namespace
    assert!(kind.in_namespace("ns").iter().map(AsRef::as_ref).eq(&all));
    assert!(all.iter().all(|object| named(object).as_deref() == Some(object)));
    // a change is visible at once, even after earlier reads
    let mut other = all[7].clone();
    other.metadata.resource_version = Some("2000".into());
    other.spec.name = "package-7".into();
    kind.store_written(other.clone());
    assert_eq!(named(&other).as_deref(), Some(&other));
    assert_eq!(*kind.in_namespace("ns")[7], other);
    assert_eq!(kind.table().specs(), 3);
    // a spec without objects is removed
    list(&kind, &all[..1]);
    assert_eq!((kind.table().specs(), kind.references().len()), (1, 1));
}
