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

/// Feeds these events to a ledger.
fn tell(ledger: &Ledger<String>, events: Vec<Event<ConfigMap>>) {
    let events = stream::iter(events.into_iter().map(Ok));
    ledger.follow(events, read).now_or_never().expect("nothing to wait for");
}

fn heard(touched: &mut (impl Stream<Item = Touched> + Unpin)) -> Vec<(String, bool)> {
    let mut all = Vec::new();
    while let Some(Some(one)) = touched.next().now_or_never() {
        all.push((one.name, one.gone));
    }
    all
}

#[test]
fn only_what_matters_is_told_and_the_later_state_stays() {
    // given a list
    let ledger = Ledger::default();
    let list = vec![Event::Init, Event::InitApply(object("one", 1, "x")), Event::InitDone];
    let mut touched = Box::pin(ledger.touched());
    tell(&ledger, list);
    // then the objects of the first list are not announced
    assert_eq!((heard(&mut touched), ledger.get("ns", "one").as_deref()), (vec![], Some("x")));
    // when an irrelevant field changes, and then a relevant one
    tell(&ledger, vec![Event::Apply(object("one", 2, "x"))]);
    assert_eq!(heard(&mut touched), []);
    tell(&ledger, vec![Event::Apply(object("one", 4, "y"))]);
    assert_eq!(heard(&mut touched), [("one".to_owned(), false)]);
    // and an older state arrives late
    ledger.put(&object("one", 3, "z").metadata, "z".into());
    assert_eq!((heard(&mut touched), ledger.get("ns", "one").as_deref()), (vec![], Some("y")));
    assert_eq!(ledger.within("ns"), [("one".to_owned(), "y".to_owned())]);
    // when it is deleted, and the response of an earlier write arrives after that
    tell(&ledger, vec![Event::Delete(object("one", 6, "y"))]);
    ledger.put(&object("one", 5, "y").metadata, "y".into());
    assert_eq!((heard(&mut touched), ledger.get("ns", "one")), (vec![("one".to_owned(), true)], None));
}

#[test]
fn a_list_anew_tells_what_changed_meanwhile_and_nothing_else() {
    let ledger = Ledger::default();
    let first = ["stays", "changes", "goes"].map(|name| Event::InitApply(object(name, 1, "x")));
    tell(&ledger, [Event::Init].into_iter().chain(first).chain([Event::InitDone]).collect());
    let mut touched = Box::pin(ledger.touched());
    let again = [("stays", "x"), ("changes", "y"), ("comes", "x")];
    let again = again.map(|(name, value)| Event::InitApply(object(name, 2, value)));
    tell(&ledger, [Event::Init].into_iter().chain(again).chain([Event::InitDone]).collect());
    let mut all = heard(&mut touched);
    all.sort();
    let wanted =
        [("changes", false), ("comes", false), ("goes", true)].map(|(name, gone)| (name.to_owned(), gone));
    assert_eq!(all, wanted);
}

#[test]
fn whoever_is_told_hears_whose_it_is() {
    let ledger = Ledger::default();
    tell(&ledger, vec![Event::Init, Event::InitDone]);
    let mut touched = Box::pin(ledger.touched());
    tell(&ledger, vec![Event::Apply(object("one", 1, "x"))]);
    let one = touched.next().now_or_never().unwrap().unwrap();
    assert_eq!(one.owner, Some(OwnerKey::new("ClusterServiceVersion", "ns", "a.v1")));
    assert_eq!(one.components, ["a.ns"]);
}

#[test]
fn of_the_first_list_it_is_known_who_owns_what_is_out_of_reach() {
    let far = |name: &str, owner: &str| {
        let mut object = object(name, 1, "x");
        let labels = object.metadata.labels.as_mut().unwrap();
        labels.insert("olm.owner".into(), owner.into());
        labels.insert("olm.owner.namespace".into(), "elsewhere".into());
        object
    };
    let ledger = Ledger::default();
    let list = |objects: Vec<ConfigMap>| {
        let applied = objects.into_iter().map(Event::InitApply);
        std::iter::once(Event::Init).chain(applied).chain([Event::InitDone]).collect()
    };
    tell(
        &ledger,
        list(vec![object("beside", 1, "x"), far("one", "a.v1"), far("two", "a.v1"), far("three", "b.v1")]),
    );
    let owner = |name: &str| OwnerKey::new("ClusterServiceVersion", "elsewhere", name);
    assert_eq!(ledger.far_owners(), BTreeSet::from([owner("a.v1"), owner("b.v1")]));
    // later lists are not kept: deletions from then on are announced
    tell(&ledger, list(vec![far("one", "c.v1")]));
    assert_eq!(ledger.far_owners(), BTreeSet::new());
}
