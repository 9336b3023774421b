use futures::{FutureExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;

fn object(name: &str, version: u64, value: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "ns", "resourceVersion": version.to_string(), "labels": {
            "olm.owner": "a.v1", "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion",
            "operators.coreos.com/a.ns": "",
        } },
        "data": { "value": value },
    }))
    .unwrap()
}

fn read(object: &ConfigMap) -> String {
    object.data.as_ref().unwrap()["value"].clone()
}

/// Feeds these events to a cache.
fn feed(fields: &FieldCache<String>, events: Vec<Event<ConfigMap>>) {
    let events = stream::iter(events.into_iter().map(Ok));
    fields.follow(events, read).now_or_never().expect("nothing to wait for");
}

fn received(changes: &mut (impl Stream<Item = ObjectChange> + Unpin)) -> Vec<(String, bool)> {
    let mut all = Vec::new();
    while let Some(Some(one)) = changes.next().now_or_never() {
        all.push((one.name, one.deleted));
    }
    all
}

#[test]
fn only_relevant_changes_are_announced_and_the_later_state_stays() {
    // given a list
    let fields = FieldCache::default();
    let list = vec![Event::Init, Event::InitApply(object("one", 1, "x")), Event::InitDone];
    let mut changes = Box::pin(fields.changes());
    feed(&fields, list);
    // then the objects of the first list are not announced
    assert_eq!((received(&mut changes), fields.get("ns", "one").as_deref()), (vec![], Some("x")));
    // when an irrelevant field changes, and then a relevant one
    feed(&fields, vec![Event::Apply(object("one", 2, "x"))]);
    assert_eq!(received(&mut changes), []);
    feed(&fields, vec![Event::Apply(object("one", 4, "y"))]);
    assert_eq!(received(&mut changes), [("one".to_owned(), false)]);
    // and an older state arrives late
    fields.insert(&object("one", 3, "z").metadata, "z".into());
    assert_eq!((received(&mut changes), fields.get("ns", "one").as_deref()), (vec![], Some("y")));
    assert_eq!(fields.within("ns"), [("one".to_owned(), "y".to_owned())]);
    // when it is deleted, and the response of an earlier write arrives after that
    feed(&fields, vec![Event::Delete(object("one", 6, "y"))]);
    fields.insert(&object("one", 5, "y").metadata, "y".into());
    assert_eq!((received(&mut changes), fields.get("ns", "one")), (vec![("one".to_owned(), true)], None));
}

#[test]
fn a_new_list_announces_only_what_changed_meanwhile() {
    let fields = FieldCache::default();
    let first = ["stays", "changes", "goes"].map(|name| Event::InitApply(object(name, 1, "x")));
    feed(&fields, [Event::Init].into_iter().chain(first).chain([Event::InitDone]).collect());
    let mut changes = Box::pin(fields.changes());
    let again = [("stays", "x"), ("changes", "y"), ("comes", "x")];
    let again = again.map(|(name, value)| Event::InitApply(object(name, 2, value)));
    feed(&fields, [Event::Init].into_iter().chain(again).chain([Event::InitDone]).collect());
    let mut all = received(&mut changes);
    all.sort();
    let wanted =
        [("changes", false), ("comes", false), ("goes", true)].map(|(name, gone)| (name.to_owned(), gone));
    assert_eq!(all, wanted);
}

#[test]
fn a_change_names_its_owner() {
    let fields = FieldCache::default();
    feed(&fields, vec![Event::Init, Event::InitDone]);
    let mut changes = Box::pin(fields.changes());
    feed(&fields, vec![Event::Apply(object("one", 1, "x"))]);
    let one = changes.next().now_or_never().unwrap().unwrap();
    assert_eq!(one.owner, Some(OwnerKey::new("ClusterServiceVersion", "ns", "a.v1")));
    assert_eq!(one.components, ["a.ns"]);
}

#[test]
fn the_first_list_yields_the_owners_out_of_reach() {
    let labelled = |name: &str, owner: &str| {
        let mut object = object(name, 1, "x");
        let labels = object.metadata.labels.as_mut().unwrap();
        labels.insert("olm.owner".into(), owner.into());
        labels.insert("olm.owner.namespace".into(), "elsewhere".into());
        object
    };
    let fields = FieldCache::default();
    let list = |objects: Vec<ConfigMap>| {
        let applied = objects.into_iter().map(Event::InitApply);
        std::iter::once(Event::Init).chain(applied).chain([Event::InitDone]).collect()
    };
    feed(
        &fields,
        list(vec![
            object("beside", 1, "x"),
            labelled("one", "a.v1"),
            labelled("two", "a.v1"),
            labelled("three", "b.v1"),
        ]),
    );
    let owner = |name: &str| OwnerKey::new("ClusterServiceVersion", "elsewhere", name);
    assert_eq!(fields.unreachable_owners(), BTreeSet::from([owner("a.v1"), owner("b.v1")]));
    // later lists are not kept: deletions from then on are announced
    feed(&fields, list(vec![labelled("one", "c.v1")]));
    assert_eq!(fields.unreachable_owners(), BTreeSet::new());
}
