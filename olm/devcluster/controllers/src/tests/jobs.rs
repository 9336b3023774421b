//! Jobs, from their pods to completion.

use super::*;

fn job(name: &str, spec: Value) -> Value {
    let mut whole = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}});
    json_patch::merge(&mut whole, &spec);
    json!({"metadata": {"name": name}, "spec": whole})
}

async fn started(spec: Value) -> (Cluster, Api<Job>) {
    let cluster = Cluster::with_node().await;
    cluster.create::<Job>(job("j", spec)).await;
    let jobs = cluster.api();
    (cluster, jobs)
}

async fn end(cluster: &Cluster, name: &str, phase: &str) {
    // It stays ready: the kubelet of these tests would start it again.
    let end = json!({"status": {"phase": phase}});
    let pods: Api<Pod> = cluster.api();
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(end)).await.unwrap();
}

async fn condition(jobs: &Api<Job>, ty: &str) -> (Job, String) {
    eventually(&format!("condition {ty}"), || async {
        let job = jobs.get_opt("j").await.unwrap()?;
        let conditions = job.status.as_ref()?.conditions.clone()?;
        let found = conditions.into_iter().find(|c| c.type_ == ty && c.status == "True")?;
        Some((job, found.reason.unwrap_or_default()))
    })
    .await
}

async fn running(cluster: &Cluster, count: usize) -> Vec<String> {
    eventually(&format!("{count} running pods"), || async {
        let names: Vec<String> = cluster.running().await.iter().map(ResourceExt::name_any).collect();
        (names.len() == count).then_some(names)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_and_counts_its_pods_and_is_deleted() {
    // given a Job of three completions, two at a time
    let (cluster, jobs) = started(json!({"completions": 3, "parallelism": 2})).await;
    let made = jobs.get("j").await.unwrap();
    let selector = made.spec.as_ref().unwrap().selector.clone().unwrap().match_labels.unwrap();
    assert_eq!(selector["batch.kubernetes.io/controller-uid"], made.uid().unwrap());
    let first = running(&cluster, 2).await;
    let pod: Pod = cluster.api().get(&first[0]).await.unwrap();
    assert_eq!(pod.labels()["job-name"], "j");
    assert_eq!(pod.finalizers(), ["batch.kubernetes.io/job-tracking"]);
    // when they succeed, one of them deleted right afterwards
    end(&cluster, &first[0], "Succeeded").await;
    cluster.api::<Pod>().delete(&first[0], &DeleteParams::default()).await.unwrap();
    end(&cluster, &first[1], "Succeeded").await;
    let last = running(&cluster, 1).await;
    end(&cluster, &last[0], "Succeeded").await;
    // then the Job is complete, and every pod was counted
    let (complete, reason) = condition(&jobs, "Complete").await;
    let status = complete.status.unwrap();
    assert_eq!((status.succeeded, status.active, reason.as_str()), (Some(3), None, "CompletionsReached"));
    assert!(status.completion_time.is_some());
    // and its pods are deleted with it
    jobs.delete("j", &DeleteParams::background()).await.unwrap();
    eventually("no pods", || async { cluster.pods().await.is_empty().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_job_reports_the_reason_and_is_removed_after_its_ttl() {
    let (cluster, jobs) = started(json!({"backoffLimit": 0})).await;
    let first = running(&cluster, 1).await;
    end(&cluster, &first[0], "Failed").await;
    let (_, reason) = condition(&jobs, "Failed").await;
    assert_eq!(reason, "BackoffLimitExceeded");
    // Set only now: a Job that is removed after a second may be gone before its condition is read.
    let ttl = Patch::Merge(json!({"spec": {"ttlSecondsAfterFinished": 1}}));
    jobs.patch("j", &PatchParams::default(), &ttl).await.unwrap();
    eventually("the Job to go", || async { jobs.get_opt("j").await.unwrap().is_none().then_some(()) }).await;
    eventually("no pods", || async { cluster.pods().await.is_empty().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_has_a_deadline_and_can_be_suspended() {
    let (cluster, jobs) = started(json!({"suspend": true, "activeDeadlineSeconds": 1})).await;
    condition(&jobs, "Suspended").await;
    assert!(cluster.pods().await.is_empty());
    let resume = Patch::Merge(json!({"spec": {"suspend": false}}));
    jobs.patch("j", &PatchParams::default(), &resume).await.unwrap();
    let (failed, reason) = condition(&jobs, "Failed").await;
    assert_eq!(reason, "DeadlineExceeded");
    assert_eq!(failed.status.unwrap().active, None);
    eventually("no running pods", || async { cluster.running().await.is_empty().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsupported_fields_of_jobs_are_refused() {
    let cluster = Cluster::with_node().await;
    let jobs: Api<Job> = cluster.api();
    for (spec, why) in [
        (json!({"completionMode": "Indexed"}), "spec.completionMode: Unsupported value"),
        (json!({"backoffLimitPerIndex": 1}), "spec.backoffLimitPerIndex: Forbidden"),
        (json!({"template": {"spec": {"restartPolicy": "Always"}}}), "spec.template.spec.restartPolicy"),
        (json!({"parallelism": -1}), "must be greater than or equal to 0"),
    ] {
        let object = serde_json::from_value(job("j", spec)).unwrap();
        let refused = jobs.create(&PostParams::default(), &object).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}
