use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn subscription(conditions: &Value) -> Subscription {
    read(json!({ "metadata": { "name": "a", "namespace": "ns" },
        "spec": { "name": "a", "source": "cat", "sourceNamespace": "olm" },
        "status": { "installedCSV": "a.v1", "conditions": conditions } }))
}

fn condition(type_: &str, status: bool, reason: &str, message: &str) -> Condition {
    Condition::new(type_, status, reason, message)
}

fn plan(reason: &str) -> InstallPlan {
    read(json!({ "metadata": { "name": "install-a", "namespace": "ns" },
        "spec": { "approved": true, "clusterServiceVersionNames": ["a.v2"] },
        "status": { "phase": "Installing", "conditions": [condition("Installed", false, reason, "because")] } }))
}

fn csv(status: &Value) -> ClusterServiceVersion {
    read(json!({ "metadata": { "name": "a.v1", "namespace": "ns" }, "spec": {}, "status": status }))
}

#[test]
fn nothing_is_reported_without_blockers() {
    let view = View {
        subscription: Some(subscription(&json!([condition(
            "CatalogSourcesUnhealthy",
            false,
            "AllHealthy",
            ""
        )]))),
        csv: Some(csv(&json!({ "phase": "Succeeded", "message": "fine" }))),
        ..View::default()
    };
    let pod = NotReady { object: "Pod ns/p".into(), why: "restarting".into(), failed: false };
    assert_eq!(blockers(&view, Some(pod), now()), []);
    // a plan that waits for approval is reported separately
    let mut waiting = plan("InstallComponentFailed");
    waiting.spec.approved = false;
    assert_eq!(blockers(&View { plan: Some(waiting), ..view }, None, now()), []);
}

#[test]
fn each_thing_that_is_waited_for_names_object_reason_and_fix() {
    let resolution = subscription(&json!([condition("ResolutionFailed", true, "NoUpgradeEdge", "no way")]));
    let catalog =
        subscription(&json!([condition("CatalogSourcesUnhealthy", true, "NoCatalogSourcesFound", "gone")]));
    let hidden = "targeted catalogsource olm/cat is not available in namespace ns: why; set \
        spec.sourceNamespace to ns";
    // earlier problems are not the current cause
    let hidden = subscription(&json!([
        condition("ResolutionFailed", true, "ConstraintsNotSatisfiable", "no way"),
        condition("CatalogSourcesUnhealthy", true, "CatalogOutOfSight", hidden),
    ]));
    let mut going = subscription(&json!([condition("DeletionHeld", true, "OperandsPresent", "3 instances")]));
    going.metadata.deletion_timestamp = read(json!("2026-01-01T00:00:00Z"));
    let asked = [condition("InstallPlanPending", true, NOT_UPGRADEABLE, "a.v2 waits: busy")];
    let cases: [(Subscription, Option<InstallPlan>, &str, &str, &str); 10] = [
        (resolution, None, "Subscription ns/a", "NoUpgradeEdge", "olm why a -n ns"),
        (catalog, None, "Subscription ns/a", "NoCatalogSourcesFound", "olm catalog sources -n olm"),
        (hidden, None, "Subscription ns/a", "CatalogOutOfSight", "set spec.sourceNamespace to ns"),
        (going, None, "Subscription ns/a", "OperandsPresent", "olm uninstall a -n ns"),
        (
            subscription(&json!(asked)),
            None,
            "Subscription ns/a",
            NOT_UPGRADEABLE,
            "operatorcondition a.v1 -n ns",
        ),
        (
            subscription(&json!([])),
            Some(plan("Paused")),
            "InstallPlan ns/install-a",
            "Paused",
            "olm resume a -n ns",
        ),
        (
            subscription(&json!([])),
            Some(plan("InstallCheckFailed")),
            "InstallPlan ns/install-a",
            "InstallCheckFailed",
            "ServiceAccount",
        ),
        (
            subscription(&json!([])),
            Some(plan("DependenciesNotReady")),
            "InstallPlan ns/install-a",
            "DependenciesNotReady",
            "olm list -n ns",
        ),
        (
            subscription(&json!([])),
            Some(plan("InstallComponentFailed")),
            "InstallPlan ns/install-a",
            "InstallComponentFailed",
            "retries automatically",
        ),
        (
            subscription(&json!([])),
            Some(plan("CrdOwnedByOther")),
            "InstallPlan ns/install-a",
            "CrdOwnedByOther",
            "olm explain CrdOwnedByOther",
        ),
    ];
    for (subscription, plan, object, reason, fix) in cases {
        let view = View { subscription: Some(subscription), plan, ..View::default() };
        let found = blockers(&view, None, now());
        assert_eq!(found.len(), 1, "{reason}: {found:?}");
        assert_eq!((found[0].object.as_str(), found[0].reason.as_str()), (object, reason));
        assert!(found[0].fix.as_ref().is_some_and(|text| text.contains(fix)), "{found:?}");
    }
}

#[test]
fn an_operator_that_blocks_upgrades_is_reported_once() {
    let asked = json!([condition("InstallPlanPending", true, NOT_UPGRADEABLE, "a.v2 waits: busy")]);
    let view = View {
        subscription: Some(subscription(&asked)),
        plan: Some(plan(NOT_UPGRADEABLE)),
        ..View::default()
    };
    let objects: Vec<String> =
        blockers(&view, None, now()).into_iter().map(|blocker| blocker.object).collect();
    assert_eq!(objects, ["InstallPlan ns/install-a"]);
}

#[test]
fn a_version_reports_unmet_requirements_else_its_pod_else_its_phase() {
    let requirements = json!([
        { "kind": "CustomResourceDefinition", "name": "b.example.com", "status": "NotPresent", "message": "CRD \
            is not present" },
        { "kind": "CustomResourceDefinition", "name": "c.example.com", "status": "Present", "message": "fine" },
        { "kind": "ServiceAccount", "name": "sa", "status": "PresentNotSatisfied", "message": "missing get \
            pods" },
    ]);
    let pending = csv(
        &json!({ "phase": "Pending", "reason": "RequirementsNotMet", "message": "m", "requirementStatus": requirements }),
    );
    let pod = || {
        let (object, why) = ("Pod ns/a-1".to_owned(), "container main ErrImagePull: no".to_owned());
        Some(NotReady { object, why, failed: true })
    };
    let found = blockers(&View { csv: Some(pending), ..View::default() }, pod(), now());
    let texts: Vec<(&str, &str)> = found.iter().map(|w| (w.object.as_str(), w.text.as_str())).collect();
    assert_eq!(
        texts,
        [
            ("CustomResourceDefinition b.example.com", "CRD is not present"),
            ("ServiceAccount ns/sa", "missing get pods")
        ]
    );
    assert_eq!(found[0].fix.as_deref(), Some("install the operator that provides it"));

    let installing =
        csv(&json!({ "phase": "Installing", "reason": "InstallWaiting", "message": "0 of 1 replicas" }));
    let view = View { csv: Some(installing), ..View::default() };
    let found = blockers(&view, pod(), now());
    assert_eq!(
        (found[0].object.as_str(), found[0].fix.as_deref()),
        ("Pod ns/a-1", Some("run `kubectl describe pod a-1 -n ns`"))
    );
    let found = blockers(&view, None, now());
    assert_eq!((found[0].reason.as_str(), found[0].text.as_str()), ("InstallWaiting", "0 of 1 replicas"));
}

#[test]
fn a_version_that_just_began_to_come_up_waits_for_nothing_yet() {
    let count = |phase: &str, since: &str| {
        let csv = csv(&json!({ "phase": phase, "reason": "R", "message": "m", "lastTransitionTime": since }));
        blockers(&View { csv: Some(csv), ..View::default() }, None, now()).len()
    };
    assert_eq!(count("Installing", "2026-01-01T11:59:55Z"), 0);
    assert_eq!(count("Installing", "2026-01-01T11:59:45Z"), 1);
    // a failure is reported at once, and so is a pod that waiting does not start
    assert_eq!(count("Failed", "2026-01-01T11:59:59Z"), 1);
    let count = |failed: bool| {
        let since = "2026-01-01T11:59:59Z";
        let csv = csv(
            &json!({ "phase": "Installing", "reason": "R", "message": "m", "lastTransitionTime": since }),
        );
        let pod = NotReady { object: "Pod ns/a-1".into(), why: "w".into(), failed };
        blockers(&View { csv: Some(csv), ..View::default() }, Some(pod), now()).len()
    };
    assert_eq!((count(false), count(true)), (0, 1));
}
