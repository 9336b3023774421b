use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    history,
    plan::{Change, Input, Limits, Plan, plan},
};

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn deployment(spec: Value, status: Value) -> Deployment {
    let mut base = json!({
        "replicas": 10,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "new"}]}},
    });
    for (key, value) in spec.as_object().unwrap() {
        base[key] = value.clone();
    }
    let deployment = json!({"metadata": {"name": "web", "namespace": "n", "uid": "d", "generation": 1,
        "annotations": {"deployment.kubernetes.io/revision": "2"}}, "spec": base, "status": status});
    serde_json::from_value(deployment).unwrap()
}

/// A ReplicaSet: image, wanted, available, revision.
fn set(deployment: &Deployment, image: &str, wanted: i32, available: i32, revision: i32) -> ReplicaSet {
    let limits = Limits::of(deployment);
    let set = json!({
        "metadata": {"name": format!("web-{image}"), "namespace": "n", "uid": image, "generation": 1,
            "creationTimestamp": format!("2026-01-01T00:00:{revision:02}Z"),
            "annotations": {
                "deployment.kubernetes.io/revision": revision.to_string(),
                "deployment.kubernetes.io/desired-replicas": limits.replicas.to_string(),
                "deployment.kubernetes.io/max-replicas": limits.max_total().to_string(),
            }},
        "spec": {"replicas": wanted, "selector": {},
            "template": {"metadata": {"labels": {"app": "web", "pod-template-hash": "x"}},
                         "spec": {"containers": [{"name": "c", "image": image}]}}},
        "status": {"replicas": wanted, "readyReplicas": available, "availableReplicas": available, "observedGeneration": 1},
    });
    serde_json::from_value(set).unwrap()
}

fn decide(deployment: &Deployment, sets: &[ReplicaSet]) -> Plan {
    decide_at(deployment, sets, now(), false)
}

fn decide_at(deployment: &Deployment, sets: &[ReplicaSet], now: Timestamp, running: bool) -> Plan {
    let sets: Vec<&ReplicaSet> = sets.iter().collect();
    plan(&Input { deployment, sets: &sets, has_running_pods: &|_| running, now })
}

/// Resizes of the plan: name and new size.
fn sizes(plan: &Plan) -> Vec<(String, i64)> {
    let size = |change: &Change| match change {
        Change::Create(set) => Some(("create".to_owned(), i64::from(set.spec.replicas.unwrap_or(0)))),
        Change::Patch { set, patch, .. } => Some((set.name.clone(), patch["spec"]["replicas"].as_i64()?)),
        Change::Delete(set) => Some((format!("delete {}", set.name), 0)),
        Change::Annotate(_) => None,
    };
    plan.changes.iter().filter_map(size).collect()
}

fn condition(plan: &Plan, ty: &str) -> (String, String) {
    let conditions = plan.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let condition = conditions.into_iter().find(|c| c.type_.as_deref() == Some(ty)).unwrap();
    (condition.status.unwrap(), condition.reason.unwrap())
}

#[test]
fn limits_round_surge_up_and_unavailable_down() {
    let rolling = |surge: Value, unavailable: Value, replicas: i32| {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        let limits = Limits::of(&deployment(json!({"replicas": replicas, "strategy": strategy}), json!({})));
        (limits.surge, limits.unavailable)
    };
    assert_eq!(rolling(json!("25%"), json!("25%"), 10), (3, 2));
    assert_eq!(rolling(json!("25%"), json!("25%"), 1), (1, 0));
    assert_eq!(rolling(json!(0), json!("10%"), 3), (0, 1), "both zero would stand still");
    assert_eq!(rolling(json!(2), json!(5), 3), (2, 3));
    assert_eq!(rolling(json!("x%"), json!(-1), 3), (0, 1), "nonsense does not panic");
}

#[test]
fn the_first_replica_set_has_full_size() {
    let d = deployment(json!({}), json!({}));
    let plan = decide(&d, &[]);
    let Change::Create(set) = &plan.changes[0] else { panic!("{plan:?}") };
    assert_eq!(set.spec.replicas, Some(10));
    let hash = set.labels()["pod-template-hash"].clone();
    assert_eq!(set.name_any(), format!("web-{hash}"));
    assert_eq!(set.spec.selector.match_labels.as_ref().unwrap()["pod-template-hash"], hash);
    assert_eq!(set.annotations()["deployment.kubernetes.io/revision"], "1");
    assert_eq!(condition(&plan, "Progressing"), ("True".into(), "NewReplicaSetCreated".into()));
    assert!(history::same_template(set, &d), "the next round finds it again");
}

#[test]
fn the_hash_depends_on_the_template_and_on_collisions() {
    let hash = |spec: Value, status: Value| history::template_hash(&deployment(spec, status));
    let plain = hash(json!({}), json!({}));
    assert_eq!(plain, hash(json!({"replicas": 3}), json!({})));
    assert_ne!(plain, hash(json!({}), json!({"collisionCount": 1})));
    let other = json!({"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}});
    assert_ne!(plain, hash(other, json!({})));
}

#[test]
fn a_rolling_update_proceeds_step_by_step() {
    let d = deployment(json!({}), json!({}));
    // maxSurge 3, maxUnavailable 2.
    let create = decide(&d, &[set(&d, "old", 10, 10, 1)]);
    assert_eq!(sizes(&create), [("create".into(), 3)]);
    let old = |wanted, available| set(&d, "old", wanted, available, 1);
    let new = |wanted, available| set(&d, "new", wanted, available, 2);
    assert_eq!(sizes(&decide(&d, &[old(10, 10), new(3, 0)])), [("web-old".into(), 8)]);
    assert_eq!(sizes(&decide(&d, &[old(8, 8), new(3, 0)])), [("web-new".into(), 5)]);
    assert_eq!(sizes(&decide(&d, &[old(8, 8), new(5, 0)])), [], "nothing is spare");
    assert_eq!(sizes(&decide(&d, &[old(8, 8), new(5, 2)])), [("web-old".into(), 6)]);
    assert_eq!(sizes(&decide(&d, &[old(0, 0), new(10, 10)])), []);
}

#[test]
fn broken_old_pods_go_first() {
    let d = deployment(json!({}), json!({}));
    let old = set(&d, "old", 10, 4, 1);
    assert_eq!(sizes(&decide(&d, &[old, set(&d, "new", 3, 0, 2)])), [("web-old".into(), 8)]);
}

#[test]
fn recreate_empties_before_it_fills() {
    let d = deployment(json!({"strategy": {"type": "Recreate"}, "replicas": 2}), json!({}));
    assert_eq!(sizes(&decide(&d, &[set(&d, "old", 2, 2, 1)])), [("web-old".into(), 0)]);
    assert_eq!(sizes(&decide_at(&d, &[set(&d, "old", 0, 0, 1)], now(), true)), [], "an old pod still runs");
    assert_eq!(sizes(&decide(&d, &[set(&d, "old", 0, 0, 1)])), [("create".into(), 2)]);
}

#[test]
fn scaling_in_the_middle_is_proportional() {
    let before = deployment(json!({}), json!({}));
    let sets = [set(&before, "old", 8, 8, 1), set(&before, "new", 5, 0, 2)];
    // 10 -> 20: 13 pods become 25 (20 + 25%), eight thirteenths of them old.
    let d = deployment(json!({"replicas": 20}), json!({}));
    let mut sizes = sizes(&decide(&d, &sets));
    sizes.sort();
    assert_eq!(sizes, [("web-new".into(), 10), ("web-old".into(), 15)]);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let d = deployment(json!({"paused": true}), json!({}));
    let plan = decide(&d, &[set(&d, "old", 10, 10, 1)]);
    assert_eq!(sizes(&plan), []);
    assert_eq!(condition(&plan, "Progressing"), ("Unknown".into(), "DeploymentPaused".into()));
    let d = deployment(json!({"paused": true, "replicas": 4}), json!({}));
    let old = deployment(json!({}), json!({}));
    assert_eq!(sizes(&decide(&d, &[set(&old, "old", 10, 10, 1)])), [("web-old".into(), 4)]);
}

#[test]
fn rolling_back_gives_the_old_set_a_new_revision() {
    let d = deployment(json!({}), json!({}));
    let plan = decide(&d, &[set(&d, "other", 10, 10, 2), set(&d, "new", 0, 0, 1)]);
    let Change::Patch { set, patch, .. } = &plan.changes[0] else { panic!("{plan:?}") };
    assert_eq!(set.name, "web-new");
    assert_eq!(patch["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    assert_eq!(patch["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
    assert!(plan.changes.iter().any(|c| matches!(c, Change::Annotate(a) if a.values().any(|v| v == "3"))));
}

#[test]
fn old_sets_are_cleaned_up_when_the_rollout_is_done() {
    let d = deployment(json!({"revisionHistoryLimit": 1, "replicas": 1}), json!({}));
    let sets = [set(&d, "a", 0, 0, 1), set(&d, "b", 0, 0, 2), set(&d, "c", 0, 0, 3), set(&d, "new", 1, 1, 4)];
    let mut d = d;
    d.annotations_mut().insert("deployment.kubernetes.io/revision".into(), "4".into());
    assert_eq!(sizes(&decide(&d, &sets)), [("delete web-a".into(), 0), ("delete web-b".into(), 0)]);
}

#[test]
fn status_is_written_once() {
    let d = deployment(json!({"replicas": 1}), json!({}));
    let sets = [set(&d, "new", 1, 1, 2)];
    let plan = decide(&d, &sets);
    let status = plan.status.clone().unwrap();
    assert_eq!(
        (status.replicas, status.available_replicas, status.unavailable_replicas),
        (Some(1), Some(1), None)
    );
    assert_eq!(condition(&plan, "Available"), ("True".into(), "MinimumReplicasAvailable".into()));
    assert_eq!(condition(&plan, "Progressing"), ("True".into(), "NewReplicaSetAvailable".into()));
    let mut d = d;
    d.status = Some(status);
    let again = decide_at(&d, &sets, now() + SignedDuration::from_hours(1), false);
    assert!(again.status.is_none(), "{again:?}");
    assert!(again.check_after.is_none());
}

#[test]
fn a_rollout_without_progress_exceeds_its_deadline() {
    let mut d = deployment(json!({"replicas": 2, "progressDeadlineSeconds": 60}), json!({}));
    let sets = [set(&d, "new", 2, 0, 2)];
    let first = decide(&d, &sets);
    assert_eq!(condition(&first, "Progressing"), ("True".into(), "ReplicaSetUpdated".into()));
    assert_eq!(condition(&first, "Available"), ("False".into(), "MinimumReplicasUnavailable".into()));
    d.status = first.status.clone();
    let waiting = decide_at(&d, &sets, now() + SignedDuration::from_secs(30), false);
    assert!(waiting.status.is_none());
    assert_eq!(waiting.check_after, Some(SignedDuration::from_secs(31)));
    let late = decide_at(&d, &sets, now() + SignedDuration::from_secs(61), false);
    assert_eq!(condition(&late, "Progressing"), ("False".into(), "ProgressDeadlineExceeded".into()));
    // It recovers when a pod becomes available.
    d.status = late.status.clone();
    let better = decide_at(&d, &[set(&d, "new", 2, 1, 2)], now() + SignedDuration::from_secs(90), false);
    assert_eq!(condition(&better, "Progressing"), ("True".into(), "ReplicaSetUpdated".into()));
}
