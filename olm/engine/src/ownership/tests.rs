mod deletions;

use kube::api::ObjectMeta;
use serde_json::json;

use super::*;

fn owner() -> Owner {
    Owner {
        name: "etcd.v1".into(),
        namespace: "db".into(),
        uid: "u".into(),
        component: Some("operators.coreos.com/etcd.db".into()),
    }
}

#[test]
fn an_object_beside_its_owner_is_garbage_collected_with_it() {
    let mut manifest = json!({ "kind": "ServiceAccount", "metadata": { "name": "a", "namespace": "db" } });
    own(&mut manifest, &owner());
    assert_eq!(manifest["metadata"]["ownerReferences"][0]["uid"], "u");
    assert_eq!(manifest["metadata"]["labels"]["olm.owner"], "etcd.v1");
    assert_eq!(manifest["metadata"]["labels"]["operators.coreos.com/etcd.db"], "");
}

#[test]
fn an_orphan_is_what_nothing_that_is_there_answers_for() {
    let metadata = |namespace: Option<&str>, labels: &[(&str, &str)]| ObjectMeta {
        namespace: namespace.map(str::to_owned),
        labels: Some(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
        ..ObjectMeta::default()
    };
    let of = |kind, name| [("olm.owner", name), ("olm.owner.namespace", "db"), ("olm.owner.kind", kind)];
    let alive = BTreeSet::from([
        OwnerKey::new("ClusterServiceVersion", "db", "etcd.v1"),
        OwnerKey::new("OperatorGroup", "db", "own"),
    ]);
    let cases = [
        ("of a version that is there", None, of("ClusterServiceVersion", "etcd.v1").to_vec(), false),
        ("of a version that is gone", None, of("ClusterServiceVersion", "etcd.v0").to_vec(), true),
        ("of one, in another namespace", Some("x"), of("ClusterServiceVersion", "etcd.v0").to_vec(), true),
        ("beside its owner", Some("db"), of("ClusterServiceVersion", "etcd.v0").to_vec(), false),
        ("of a group that is there", None, of("OperatorGroup", "own").to_vec(), false),
        ("of a group that is gone", None, of("OperatorGroup", "old").to_vec(), true),
        ("of something else", None, of("CatalogSource", "cat").to_vec(), false),
        ("with a label missing", None, of("ClusterServiceVersion", "etcd.v0")[..2].to_vec(), false),
    ];
    for (name, namespace, labels, expected) in cases {
        assert_eq!(is_orphan(&metadata(namespace, &labels), &alive), expected, "{name}");
    }
}

#[test]
fn an_object_elsewhere_is_found_by_its_labels() {
    for mut manifest in [
        json!({ "kind": "ClusterRole", "metadata": { "name": "a" } }),
        json!({ "kind": "Role", "metadata": { "name": "a", "namespace": "other" } }),
    ] {
        own(&mut manifest, &owner());
        assert!(manifest["metadata"].get("ownerReferences").is_none());
        assert_eq!(manifest["metadata"]["labels"]["olm.owner.namespace"], "db");
    }
}
