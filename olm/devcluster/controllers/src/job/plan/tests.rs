use serde_json::{Value, from_value, json};

use super::*;

fn job(spec: Value, status: Value) -> Job {
    let mut whole = json!({"template": {"spec": {"restartPolicy": "Never", "containers": []}}});
    json_patch::merge(&mut whole, &spec);
    from_value(
        json!({"metadata": {"name": "j", "namespace": "n", "uid": "u"}, "spec": whole, "status": status}),
    )
    .unwrap()
}

fn pod(name: &str, phase: &str, tracked: bool) -> Pod {
    let finalizers: &[&str] = if tracked { &[TRACKING] } else { &[] };
    from_value(json!({"metadata": {"name": name, "uid": name, "finalizers": finalizers}, "spec": {"containers": []},
        "status": {"phase": phase, "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false,
            "restartCount": 2, "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z"}}}]}}))
    .unwrap()
}

fn now() -> Timestamp {
    "2026-01-01T00:00:05Z".parse().unwrap()
}

fn decide(job: &Job, pods: &[Pod]) -> Plan {
    plan(job, &pods.iter().collect::<Vec<_>>(), now())
}

fn conditions(plan: &Plan) -> Vec<&str> {
    plan.status.conditions.iter().flatten().map(|condition| condition.type_.as_str()).collect()
}

#[test]
fn as_many_pods_run_as_are_needed_and_allowed() {
    let wanted = |spec: Value, status: Value, pods: &[Pod]| decide(&job(spec, status), pods).create;
    assert_eq!(wanted(json!({"completions": 1, "parallelism": 1}), json!({}), &[]), 1);
    assert_eq!(wanted(json!({"completions": 5, "parallelism": 2}), json!({}), &[]), 2);
    assert_eq!(wanted(json!({"completions": 5, "parallelism": 4}), json!({"succeeded": 3}), &[]), 2);
    assert_eq!(wanted(json!({"parallelism": 3}), json!({}), &[pod("a", "Running", true)]), 2);
    // a work queue that one pod has found empty
    assert_eq!(wanted(json!({"parallelism": 3}), json!({"succeeded": 1}), &[pod("a", "Running", true)]), 0);
    let less = job(json!({"completions": 5, "parallelism": 1}), json!({}));
    assert_eq!(decide(&less, &[pod("a", "Running", true), pod("b", "Running", true)]).delete, ["a"]);
}

#[test]
fn a_pod_is_counted_once_whatever_happens_to_it() {
    // given a pod that has succeeded
    let first = job(json!({"completions": 2, "parallelism": 1}), json!({}));
    let planned = decide(&first, &[pod("a", "Succeeded", true)]);
    // then its UID is stored before it is released, and no counter increases yet
    assert_eq!(planned.status.succeeded, None);
    assert_eq!(planned.status.uncounted_terminated_pods.clone().unwrap().succeeded.unwrap(), ["a"]);
    assert_eq!(planned.release, ["a"]);
    // when it is deleted meanwhile, or lost its finalizer, then it is counted
    for pods in [vec![], vec![pod("a", "Succeeded", false)]] {
        let mut second = first.clone();
        second.status = Some(planned.status.clone());
        let planned = decide(&second, &pods);
        assert_eq!((planned.status.succeeded, uncounted(&planned.status)), (Some(1), 0));
        assert_eq!(planned.create, 1);
    }
}

#[test]
fn a_job_completes_when_all_is_counted() {
    let spec = json!({"completions": 1, "parallelism": 1, "ttlSecondsAfterFinished": 10});
    let reached = decide(&job(spec.clone(), json!({})), &[pod("a", "Succeeded", true)]);
    assert_eq!(conditions(&reached), ["SuccessCriteriaMet"]);
    let mut counted = job(spec, json!({}));
    counted.status = Some(reached.status);
    let complete = decide(&counted, &[pod("a", "Succeeded", false)]);
    assert_eq!(conditions(&complete), ["SuccessCriteriaMet", "Complete"]);
    assert!(complete.status.completion_time.is_some() && complete.create == 0);
    // and is removed after its TTL
    counted.status = Some(complete.status);
    let later = |seconds| plan(&counted, &[], now() + SignedDuration::from_secs(seconds));
    assert_eq!((later(9).remove, later(9).again), (false, Some(SignedDuration::from_secs(1))));
    assert!(later(10).remove);
}

#[test]
fn a_job_fails_when_it_was_tried_often_enough_or_took_too_long() {
    let why = |spec: Value, status: Value, pods: &[Pod]| {
        let planned = decide(&job(spec, status), pods);
        let conditions = planned.status.conditions.clone().unwrap_or_default();
        (conditions.first().and_then(|c| c.reason.clone()), planned.delete)
    };
    let running = [pod("a", "Running", true)];
    let limit = json!({"completions": 1, "parallelism": 1, "backoffLimit": 1});
    assert_eq!(why(limit.clone(), json!({"failed": 1}), &running).0, None);
    let (reason, delete) = why(limit, json!({"failed": 2}), &running);
    assert_eq!((reason.as_deref(), delete), (Some("BackoffLimitExceeded"), vec!["a".to_owned()]));
    let on_failure =
        json!({"completions": 1, "backoffLimit": 2, "template": {"spec": {"restartPolicy": "OnFailure"}}});
    assert_eq!(why(on_failure, json!({}), &running).0.as_deref(), Some("BackoffLimitExceeded"));
    let deadline = json!({"completions": 1, "activeDeadlineSeconds": 5});
    let begun = json!({"startTime": "2026-01-01T00:00:00Z"});
    assert_eq!(why(deadline, begun, &running).0.as_deref(), Some("DeadlineExceeded"));
}

#[test]
fn a_failed_pod_is_replaced_after_a_while() {
    let once = job(json!({"completions": 1, "parallelism": 1, "backoffLimit": 6}), json!({"failed": 1}));
    let planned = decide(&once, &[pod("a", "Failed", false)]);
    assert_eq!((planned.create, planned.again), (0, Some(SignedDuration::from_secs(5))));
    let planned = decide(&once, &[pod("a", "Failed", false), pod("b", "Failed", false)]);
    assert_eq!(planned.again, Some(SignedDuration::from_secs(15)));
}

#[test]
fn a_suspended_job_runs_nothing() {
    let running = [pod("a", "Running", true)];
    let suspended = decide(&job(json!({"completions": 1, "suspend": true}), json!({})), &running);
    assert_eq!((conditions(&suspended), suspended.delete.clone()), (vec!["Suspended"], vec!["a".to_owned()]));
}
