//! Existing objects: their owners, and their immutable fields.

use olm_plan::{FindingCode, Op, Severity};
use serde_json::{Value, json};

use crate::examples::install_mode_removed;
use crate::world::{World, config, crd};

/// A Deployment with the name of the operator's.
pub(crate) fn deployment(metadata: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "thing" } } } });
    object["metadata"]["name"] = json!("thing");
    object["metadata"]["namespace"] = json!("ns");
    object
}

pub(crate) fn other_selector(csv: &mut Value) {
    let spec = csv.pointer_mut("/spec/install/spec/deployments/0/spec").unwrap();
    spec["selector"]["matchLabels"] = json!({ "app": "other" });
    spec["template"]["metadata"]["labels"] = json!({ "app": "other" });
}

/// A bundle with a CustomResourceDefinition of a group.
pub(crate) fn owning(plural: &str, group: &str) -> World {
    let mut crd = crd();
    crd["metadata"]["name"] = json!(format!("{plural}.{group}"));
    crd["spec"]["group"] = json!(group);
    crd["spec"]["names"]["plural"] = json!(plural);
    World::install(vec![crd], |csv| {
        csv["spec"]["customresourcedefinitions"]["owned"][0]["name"] = json!(format!("{plural}.{group}"));
    })
}

fn role(name: &str, labels: Value) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": name, "labels": labels },
            "rules": [{ "verbs": ["get"], "apiGroups": ["example.com"], "resources": ["things"] }] })
}

/// A CRD of olm's groups is rejected whether it exists or not, and so is a group of Kubernetes without an
/// approval.
#[test]
fn t01_crds_of_reserved_groups_block() {
    let block = [(FindingCode::ReservedObject, Severity::Block)];
    for group in
        ["operators.coreos.com", "olm.operatorframework.io", "gateway.networking.k8s.io", "x.kubernetes.io"]
    {
        assert_eq!(owning("gates", group).codes(), block, "{group}");
    }
    // given olm's own, which has no owner but the label of its installation
    let mut world = owning("installplans", "operators.coreos.com");
    let mut live = world.bundle.crds().next().unwrap().clone();
    live["metadata"]["labels"] = json!({ "app.kubernetes.io/part-of": "olm" });
    world.insert(live);
    assert!(world.plan().is_blocked());
    assert!(world.codes().contains(&block[0]), "{:?}", world.codes());
}

/// Roles of Kubernetes and bindings of olm are never changed; the label counts, too.
#[test]
fn t07_roles_of_olm_and_of_kubernetes_block() {
    let codes = |objects: Vec<Value>| World::install(objects, |_| {}).codes();
    let block = [(FindingCode::ReservedObject, Severity::Block)];
    for name in ["view", "cluster-admin", "system:node", "olm-manager-instances"] {
        assert_eq!(codes(vec![role(name, json!({}))]), block, "{name}");
    }
    assert_eq!(codes(vec![role("thing-reader", json!({ "app.kubernetes.io/part-of": "olm" }))]), block);
    let mut world = World::install(vec![role("thing-reader", json!({}))], |_| {});
    world.insert(role("thing-reader", json!({ "kubernetes.io/bootstrapping": "rbac-defaults" })));
    assert!(world.codes().contains(&block[0]), "{:?}", world.codes());
    // and objects taken by an earlier version are not deleted with the next one
    let mut world = World::install(vec![role("view", json!({}))], |_| {}).upgrade("1.0.1", vec![], |_| {});
    let op = |world: &World| world.plan().objects.iter().find(|o| o.name == "view").map(|o| o.op);
    assert_eq!(op(&world), Some(Op::Noop));
    world.live.retain(|reference, _| reference.name != "view");
    assert_eq!(op(&world), None);
}

/// Objects of another manager are not adopted: Helm by its label, an OperatorGroup, and the owner of another
/// CRD.
#[test]
fn t07_objects_that_another_manager_owns_block() {
    let aggregated = json!({ "olm.opgroup.permissions/aggregate-to-1-view": "true" });
    let mut of_crd = role("others.example.com-v1-view", aggregated);
    of_crd["rules"][0]["resources"] = json!(["others"]);
    for (live, owner) in [
        (role("thing-reader", json!({ "app.kubernetes.io/managed-by": "Helm" })), "Helm"),
        (
            role(
                "olm.og.own.view-x",
                json!({ "olm.owner": "own", "olm.owner.kind": "OperatorGroup", "olm.owner.namespace": "x" }),
            ),
            "OperatorGroup own in namespace x",
        ),
        (of_crd, "CustomResourceDefinition others.example.com"),
    ] {
        let name = live["metadata"]["name"].as_str().unwrap().to_owned();
        let mut wanted = role(&name, json!({}));
        wanted["rules"][0]["verbs"] = json!(["*"]);
        let mut world = World::install(vec![wanted], |_| {});
        world.insert(live);
        let finding = world.only();
        assert_eq!((finding.code, finding.severity), (FindingCode::NameCollision, Severity::Block));
        assert!(finding.text.contains(owner), "{}", finding.text);
    }
    // a role without an owner is adopted, and the plan shows it
    let mut wanted = role("thing-reader", json!({}));
    wanted["rules"][0]["verbs"] = json!(["*"]);
    let mut world = World::install(vec![wanted], |_| {});
    world.insert(role("thing-reader", json!({})));
    assert_eq!(world.codes(), [(FindingCode::NameCollision, Severity::Warn)]);
    assert!(world.plan().objects.iter().any(|o| o.name == "thing-reader" && o.op == Op::Adopt));
}

#[test]
fn objects_of_others_block_and_unowned_ones_warn() {
    let mut world = World::install(vec![], |_| {});
    world.insert(deployment(json!({ "labels": { "operators.coreos.com/other.ns": "" } })));
    let finding = world.only();
    assert_eq!((finding.code, finding.severity), (FindingCode::NameCollision, Severity::Block));
    assert!(finding.text.contains("belongs to package other in namespace ns"), "{}", finding.text);
    world.insert(deployment(json!({})));
    let finding = world.only();
    assert_eq!((finding.code, finding.severity), (FindingCode::NameCollision, Severity::Warn));
    // an identical object is adopted
    let mut world = World::install(vec![config("1")], |_| {});
    let mut settings = config("1");
    settings["metadata"]["namespace"] = json!("ns");
    world.insert(settings);
    assert_eq!(world.findings(), []);
}

#[test]
fn shared_cluster_objects_are_reported_when_they_would_change() {
    let class = |value: u64| {
        json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "thing" },
                "value": 5, "description": value.to_string() })
    };
    let shared = |value: u64| {
        let mut world = World::install(vec![class(1)], |_| {});
        let mut live = class(value);
        live["metadata"]["labels"] = json!({ "operators.coreos.com/thing.elsewhere": "" });
        world.insert(live);
        world.codes()
    };
    assert_eq!(shared(1), []);
    assert_eq!(shared(2), [(FindingCode::NameCollision, Severity::Warn)]);
}

#[test]
fn a_cluster_object_is_shared_only_with_the_same_package_elsewhere() {
    // given one that belongs to a version in another namespace, by its labels
    let codes = |component: &str, value: u64| {
        let class = |value: u64| {
            json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "thing" },
                    "value": 5, "description": value.to_string() })
        };
        let mut world = World::install(vec![class(1)], |_| {});
        let mut live = class(value);
        live["metadata"]["labels"] = json!({ component: "", "olm.owner": "thing.v1.0.0",
            "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": "elsewhere" });
        world.insert(live);
        world.codes()
    };
    let (warns, blocks) =
        ((FindingCode::NameCollision, Severity::Warn), (FindingCode::NameCollision, Severity::Block));
    assert_eq!(codes("operators.coreos.com/thing.elsewhere", 1), []);
    assert_eq!(codes("operators.coreos.com/thing.elsewhere", 2), [warns]);
    assert_eq!(codes("operators.coreos.com/other.elsewhere", 1), [blocks]);
}

#[test]
fn rights_of_the_default_account_are_everybodys() {
    let world = World::install(vec![], |csv| {
        *csv.pointer_mut("/spec/install/spec/clusterPermissions/0/serviceAccountName").unwrap() =
            json!("default");
    });
    let finding = world.only();
    assert_eq!((finding.code, finding.severity), (FindingCode::NameCollision, Severity::Warn));
    assert_eq!(finding.subject, "ServiceAccount ns/default");
}

#[test]
fn a_changed_selector_is_reported_with_the_remedy() {
    let world = World::install(vec![], |_| {}).upgrade("1.0.1", vec![], other_selector);
    let finding = world.only();
    assert_eq!(finding.code, FindingCode::ImmutableField);
    assert_eq!(finding.text, "spec.selector would change and is immutable; the object must be deleted first");
    assert_eq!(finding.fix.as_deref(), Some("kubectl delete deployment.apps thing -n ns"));
}

#[test]
fn a_mode_that_goes_matters_where_it_is_used() {
    assert_eq!(install_mode_removed().codes(), [(FindingCode::InstallModeRemoved, Severity::Block)]);
    // a cluster-wide installation does not use it
    let mut world = install_mode_removed();
    world.watch(&[]);
    let codes = world.codes();
    assert!(codes.contains(&(FindingCode::InstallModeRemoved, Severity::Info)), "{codes:?}");
    // a mode that the old version did not support either was not removed
    let mut world = install_mode_removed();
    world.watch(&["a", "b"]);
    assert_eq!(world.codes(), [(FindingCode::UnsupportedInstallMode, Severity::Block)]);
}
