//! Objects that are there already: whose they are, and what of them may not change.

use olm_plan::{FindingCode, Severity};
use serde_json::{Value, json};

use crate::examples::install_mode_removed;
use crate::world::{World, config};

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

#[test]
fn objects_of_others_block_and_those_of_nobody_warn() {
    let mut world = World::install(vec![], |_| {});
    world.put(deployment(json!({ "labels": { "operators.coreos.com/other.ns": "" } })));
    let finding = world.only();
    assert_eq!((finding.code, finding.severity), (FindingCode::NameCollision, Severity::Block));
    assert!(finding.text.contains("belongs to package other in namespace ns"), "{}", finding.text);
    world.put(deployment(json!({})));
    let finding = world.only();
    assert_eq!((finding.code, finding.severity), (FindingCode::NameCollision, Severity::Warn));
    // what is as it should be is simply taken over
    let mut world = World::install(vec![config("1")], |_| {});
    let mut settings = config("1");
    settings["metadata"]["namespace"] = json!("ns");
    world.put(settings);
    assert_eq!(world.findings(), []);
}

#[test]
fn objects_of_the_cluster_that_two_installations_share_are_told_when_they_would_change() {
    let class = |value: u64| {
        json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "thing" },
                "value": 5, "description": value.to_string() })
    };
    let shared = |value: u64| {
        let mut world = World::install(vec![class(1)], |_| {});
        let mut live = class(value);
        live["metadata"]["labels"] = json!({ "operators.coreos.com/thing.elsewhere": "" });
        world.put(live);
        world.codes()
    };
    assert_eq!(shared(1), []);
    assert_eq!(shared(2), [(FindingCode::NameCollision, Severity::Warn)]);
}

#[test]
fn an_object_of_the_cluster_is_shared_with_the_same_package_elsewhere_and_nobody_else() {
    // given one that belongs to a version in another namespace, as its labels say
    let codes = |component: &str, value: u64| {
        let class = |value: u64| {
            json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "thing" },
                    "value": 5, "description": value.to_string() })
        };
        let mut world = World::install(vec![class(1)], |_| {});
        let mut live = class(value);
        live["metadata"]["labels"] = json!({ component: "", "olm.owner": "thing.v1.0.0",
            "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": "elsewhere" });
        world.put(live);
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
fn a_selector_that_changes_is_told_with_what_to_do() {
    let world = World::install(vec![], |_| {}).upgrade("1.0.1", vec![], other_selector);
    let finding = world.only();
    assert_eq!(finding.code, FindingCode::ImmutableField);
    assert_eq!(finding.text, "spec.selector would change and never may; the object has to be deleted first");
    assert_eq!(finding.fix.as_deref(), Some("kubectl delete deployment.apps thing -n ns"));
}

#[test]
fn a_mode_that_goes_matters_where_it_is_used() {
    assert_eq!(install_mode_removed().codes(), [(FindingCode::InstallModeRemoved, Severity::Block)]);
    // an installation that watches everything does not use it
    let mut world = install_mode_removed();
    world.watch(&[]);
    let codes = world.codes();
    assert!(codes.contains(&(FindingCode::InstallModeRemoved, Severity::Info)), "{codes:?}");
    // what the old version could not do either was not removed
    let mut world = install_mode_removed();
    world.watch(&["a", "b"]);
    assert_eq!(world.codes(), [(FindingCode::UnsupportedInstallMode, Severity::Block)]);
}
