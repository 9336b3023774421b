//! No order of deletions with kubectl leaves objects of an operator behind: a model of a cluster with garbage
//! collection, namespace deletion, the finalizer of versions and the search for orphans, using the functions
//! by which the controllers decide.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::ObjectMeta;
use olm_api::{ClusterServiceVersion, names::FINALIZER_CSV_CLEANUP};
use olm_bundle::{Bundle, RenderOptions, crd_of_role, group_roles};
use olm_resolver::Gvk;
use serde_json::{Value, json};

use super::super::{OWNED_KINDS, Owner, OwnerKey, is_orphan, out_of_reach, own};

type Key = (String, String, String);

/// A cluster: objects by kind, namespace and name.
#[derive(Clone)]
struct Cluster {
    objects: BTreeMap<Key, Value>,
    /// Whether the manager runs.
    manager: bool,
}

fn key(object: &Value) -> Key {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    (text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

fn metadata(object: &Value) -> ObjectMeta {
    serde_json::from_value(object["metadata"].clone()).unwrap()
}

const THING: &str = "things.example.com";

fn csv() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": { "name": "thing.v1", "namespace": "db", "uid": "csv" },
        "spec": {
            "version": "1.0.0",
            "installModes": [{ "type": "MultiNamespace", "supported": true }, { "type": "OwnNamespace", "supported": true }],
            "customresourcedefinitions": { "owned": [{ "name": THING, "version": "v1", "kind": "Thing" }] },
            "install": { "strategy": "deployment", "spec": {
                "deployments": [{ "name": "thing", "spec": {
                    "selector": { "matchLabels": { "app": "thing" } },
                    "template": { "metadata": { "labels": { "app": "thing" } }, "spec": {
                        "serviceAccountName": "thing", "containers": [{ "name": "thing", "image": "thing:1" }] } } } }],
                "permissions": [{ "serviceAccountName": "thing",
                    "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] }] }],
                "clusterPermissions": [{ "serviceAccountName": "thing",
                    "rules": [{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["list"] }] }],
            } },
            "webhookdefinitions": [{ "generateName": "v.example.com", "type": "ValidatingAdmissionWebhook",
                "deploymentName": "thing", "containerPort": 443, "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "failurePolicy": "Fail", "webhookPath": "/v",
                "rules": [{ "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"] }] }],
            "apiservicedefinitions": { "owned": [{ "name": "views", "group": "views.example.com", "version": "v1", "kind": "View",
                "deploymentName": "thing", "containerPort": 5443 }] },
        }
    })
}

/// An operator with every kind of object that operators have, and the objects made for it.
fn installed() -> Cluster {
    let typed: ClusterServiceVersion = serde_json::from_value(csv()).unwrap();
    let crd = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": THING, "uid": "crd" },
        "spec": { "group": "example.com", "names": { "kind": "Thing", "plural": "things" }, "versions": [{ "name": "v1" }] } });
    let bundle = Bundle::from_installed(typed.clone(), csv(), vec![crd.clone()]);
    let options = RenderOptions {
        install_namespace: "db".into(),
        target_namespaces: vec!["db".into(), "other".into()],
        operator_group: Some("own".into()),
        ..RenderOptions::default()
    };
    let rendered = olm_bundle::render(&bundle, &options).unwrap();
    let owner = Owner::of(&typed, Some("thing"));
    let mut objects: Vec<Value> = Vec::new();
    for (_, object) in rendered.objects() {
        let mut object = object.clone();
        if object["kind"] == "CustomResourceDefinition" {
            continue;
        }
        match crd_of_role(&object) {
            Some(_) => {
                object["metadata"]["ownerReferences"] = json!([{ "apiVersion": "v1", "kind": "CustomResourceDefinition", "name": THING, "uid": "crd" }]);
            }
            None => own(&mut object, &owner),
        }
        objects.push(object);
    }
    let of_csv =
        json!([{ "apiVersion": "v1", "kind": "ClusterServiceVersion", "name": "thing.v1", "uid": "csv" }]);
    let of_subscription =
        json!([{ "apiVersion": "v1", "kind": "Subscription", "name": "thing", "uid": "sub" }]);
    let mut version = csv();
    version["metadata"]["finalizers"] = json!([FINALIZER_CSV_CLEANUP]);
    objects.extend([
        json!({ "kind": "Namespace", "metadata": { "name": "db", "uid": "ns-db" } }),
        json!({ "kind": "Namespace", "metadata": { "name": "other", "uid": "ns-other" } }),
        json!({ "kind": "Subscription", "metadata": { "name": "thing", "namespace": "db", "uid": "sub" } }),
        json!({ "kind": "InstallPlan", "metadata": { "name": "install-a", "namespace": "db", "uid": "plan", "ownerReferences": of_subscription } }),
        json!({ "kind": "OperatorGroup", "metadata": { "name": "own", "namespace": "db", "uid": "og" } }),
        json!({ "kind": "OperatorCondition", "metadata": { "name": "thing.v1", "namespace": "db", "uid": "oc", "ownerReferences": of_csv } }),
        version,
        crd,
    ]);
    objects.extend(group_roles("own", "db", &[Gvk::new("example.com", "v1", "Thing")]));
    for (at, object) in objects.iter_mut().enumerate() {
        if object["metadata"].get("uid").is_none() {
            object["metadata"]["uid"] = format!("uid-{at}").into();
        }
    }
    Cluster { objects: objects.into_iter().map(|o| (key(&o), o)).collect(), manager: true }
}

impl Cluster {
    fn delete(&mut self, key: &Key) {
        let Some(object) = self.objects.get_mut(key) else { return };
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        if !held && key.0 != "Namespace" {
            self.objects.remove(key);
        }
    }

    /// Runs every controller until nothing changes.
    fn run(&mut self) {
        loop {
            let before = self.objects.clone();
            self.collect_garbage();
            self.end_namespaces();
            if self.manager {
                self.clean_up();
                self.look_for_orphans();
            }
            if self.objects == before {
                return;
            }
        }
    }

    fn collect_garbage(&mut self) {
        let uids: BTreeSet<String> = self
            .objects
            .values()
            .map(|o| o["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
            .collect();
        let abandoned = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            !owners.is_empty() && owners.iter().all(|o| !uids.contains(o["uid"].as_str().unwrap_or_default()))
        };
        let going: Vec<Key> =
            self.objects.iter().filter(|(_, o)| abandoned(o)).map(|(k, _)| k.clone()).collect();
        going.iter().for_each(|key| self.delete(key));
    }

    fn end_namespaces(&mut self) {
        let ending = |(key, o): (&Key, &Value)| {
            (key.0 == "Namespace" && o["metadata"].get("deletionTimestamp").is_some()).then(|| key.2.clone())
        };
        let namespaces: Vec<String> = self.objects.iter().filter_map(ending).collect();
        for namespace in namespaces {
            let within: Vec<Key> = self.objects.keys().filter(|k| k.1 == namespace).cloned().collect();
            within.iter().for_each(|key| self.delete(key));
            if !self.objects.keys().any(|k| k.1 == namespace) {
                self.objects.remove(&("Namespace".into(), String::new(), namespace));
            }
        }
    }

    /// The finalizer of a version.
    fn clean_up(&mut self) {
        let going = |(key, o): (&Key, &Value)| {
            let going = key.0 == "ClusterServiceVersion" && o["metadata"].get("deletionTimestamp").is_some();
            going.then(|| (key.clone(), OwnerKey::new(&key.0, &key.1, &key.2)))
        };
        let versions: Vec<(Key, OwnerKey)> = self.objects.iter().filter_map(going).collect();
        for (version, owner) in versions {
            let mine = |(key, o): &(&Key, &Value)| {
                let metadata = metadata(o);
                looked_through(&key.0)
                    && OwnerKey::of(&metadata).as_ref() == Some(&owner)
                    && out_of_reach(&metadata, &owner)
            };
            let mine: Vec<Key> = self.objects.iter().filter(mine).map(|(k, _)| k.clone()).collect();
            mine.iter().for_each(|key| self.delete(key));
            self.objects.remove(&version);
        }
    }

    fn look_for_orphans(&mut self) {
        let owners = |(kind, namespace, name): &Key| {
            ["ClusterServiceVersion", "OperatorGroup"]
                .contains(&kind.as_str())
                .then(|| OwnerKey::new(kind, namespace, name))
        };
        let alive: BTreeSet<OwnerKey> = self.objects.keys().filter_map(owners).collect();
        let orphan = |(key, o): &(&Key, &Value)| looked_through(&key.0) && is_orphan(&metadata(o), &alive);
        let orphans: Vec<Key> = self.objects.iter().filter(orphan).map(|(k, _)| k.clone()).collect();
        orphans.iter().for_each(|key| self.delete(key));
    }

    /// The remaining objects, except namespaces, CRDs and what is deleted with a CRD.
    fn left(&self) -> Vec<String> {
        let with_crd = |o: &Value| o["metadata"]["ownerReferences"][0]["uid"] == "crd";
        let stays = |(key, o): &(&Key, &Value)| {
            !["Namespace", "CustomResourceDefinition"].contains(&key.0.as_str()) && !with_crd(o)
        };
        self.objects.iter().filter(stays).map(|((kind, ns, name), _)| format!("{kind} {ns}/{name}")).collect()
    }
}

fn looked_through(kind: &str) -> bool {
    OWNED_KINDS.iter().any(|(_, _, k, _)| *k == kind)
}

fn targets() -> Vec<Key> {
    let key =
        |kind: &str, namespace: &str, name: &str| (kind.to_owned(), namespace.to_owned(), name.to_owned());
    vec![
        key("Subscription", "db", "thing"),
        key("ClusterServiceVersion", "db", "thing.v1"),
        key("InstallPlan", "db", "install-a"),
        key("OperatorGroup", "db", "own"),
        key("Namespace", "", "db"),
    ]
}

fn orders<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut out = Vec::new();
    for at in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(at);
        out.extend(orders(&rest).into_iter().map(|mut tail| {
            tail.insert(0, first.clone());
            tail
        }));
    }
    out
}

#[test]
fn nothing_is_out_of_everybodys_reach() {
    // given an operator with rights in another namespace, webhooks and its own API
    let cluster = installed();
    let owner = OwnerKey::new("ClusterServiceVersion", "db", "thing.v1");
    // then objects out of reach of garbage collection are of a searched kind and carry their owner's labels
    let mut reached = BTreeSet::new();
    for ((kind, namespace, name), object) in &cluster.objects {
        let by_reference = object["metadata"].get("ownerReferences").is_some();
        let stands_alone = targets().contains(&(kind.clone(), namespace.clone(), name.clone()))
            || ["CustomResourceDefinition", "Namespace"].contains(&kind.as_str());
        if by_reference || stands_alone {
            continue;
        }
        assert!(looked_through(kind), "{kind} {name} is not looked through");
        assert!(OwnerKey::of(&metadata(object)).is_some(), "{kind} {name} has no owner: {object}");
        reached.insert(kind.clone());
    }
    for kind in [
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ValidatingWebhookConfiguration",
    ] {
        assert!(reached.contains(kind), "{kind} is not in the model: {reached:?}");
    }
    assert!(cluster.objects.values().any(|o| OwnerKey::of(&metadata(o)) == Some(owner.clone())));
}

#[test]
fn deletions_in_any_order_leave_nothing() {
    for order in orders(&targets()) {
        for down in [false, true] {
            let mut cluster = installed();
            // when everything is deleted one by one, with the manager running or only afterwards
            cluster.manager = !down;
            for key in &order {
                cluster.delete(key);
                cluster.run();
            }
            cluster.manager = true;
            cluster.run();
            // then
            assert_eq!(cluster.left(), Vec::<String>::new(), "{order:?}, manager away: {down}");
            assert!(
                !cluster.objects.contains_key(&("Namespace".into(), String::new(), "db".into())),
                "{order:?}"
            );
        }
    }
}

#[test]
fn a_version_whose_finalizer_was_taken_away_leaves_nothing_either() {
    for order in orders(&targets()) {
        let mut cluster = installed();
        cluster.manager = false;
        let version = targets()[1].clone();
        cluster.objects.get_mut(&version).unwrap()["metadata"]["finalizers"] = json!([]);
        for key in &order {
            cluster.delete(key);
            cluster.run();
        }
        // when the manager returns, it finds the orphaned objects
        cluster.manager = true;
        cluster.run();
        assert_eq!(cluster.left(), Vec::<String>::new(), "{order:?}");
    }
}

#[test]
fn what_is_not_deleted_stays() {
    let without = |deleted: &Key| {
        let mut cluster = installed();
        let before = cluster.left();
        cluster.delete(deleted);
        cluster.run();
        let after = cluster.left();
        before.into_iter().filter(|object| !after.contains(object)).collect::<Vec<_>>()
    };
    // a Subscription deletes its plans and no operator; a plan nothing; a group its roles
    assert_eq!(without(&targets()[0]), ["InstallPlan db/install-a", "Subscription db/thing"]);
    assert_eq!(without(&targets()[2]), ["InstallPlan db/install-a"]);
    let group = without(&targets()[3]);
    assert!(group.iter().all(|o| o.contains("olm.og.own.") || o == "OperatorGroup db/own"), "{group:?}");
    assert_eq!(group.len(), 4);
    // the CRD and the roles over it stay in every case
    let mut cluster = installed();
    targets().iter().for_each(|key| cluster.delete(key));
    cluster.run();
    let roles = cluster.objects.keys().filter(|k| k.0 == "ClusterRole").count();
    assert_eq!(roles, 4, "admin, edit, view, crdview");
}
