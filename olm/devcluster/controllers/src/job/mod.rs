//! Jobs: pods that run to completion, the requested number of times.

mod plan;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::Pod,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;

use super::{
    cache::{Cache, Key},
    claim::is_controlled_by,
    error::{During, Error, unless_gone},
    events::Recorder,
};

/// Limit of pods created per reconciliation.
const BURST: usize = 100;

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) jobs: Arc<Cache<Job>>,
    pub(crate) pods: Arc<Cache<Pod>>,
    pub(crate) events: Recorder,
}

impl Controller {
    fn pods_in(&self, key: &Key) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    pub(crate) async fn reconcile(&self, key: Key) -> Result<Option<Duration>, Error> {
        let Some(job) = self.jobs.get(&key) else {
            // Its pods are deleted with it, and must not wait to be counted.
            return self.release_orphans(&key).await.map(|()| None);
        };
        let uid = job.uid().unwrap_or_default();
        let pods = self.pods.list(&key.namespace);
        let pods: Vec<&Pod> =
            pods.iter().map(|pod| &**pod).filter(|pod| is_controlled_by(*pod, &uid)).collect();
        if job.metadata.deletion_timestamp.is_some() {
            for pod in &pods {
                self.release(pod).await?;
            }
            return Ok(None);
        }
        let planned = plan::plan(&job, &pods, jiff::Timestamp::now());
        if planned.remove {
            self.remove(&job).await?;
            return Ok(None);
        }
        if job.status.as_ref() != Some(&planned.status) {
            self.write_status(&job, &planned.status).await?;
            self.report(&job, &planned.status);
        }
        for pod in pods.iter().filter(|pod| planned.release.contains(&pod.name_any())) {
            self.release(pod).await?;
        }
        for name in &planned.delete {
            let result = self.pods_in(&key).delete(name, &DeleteParams::default()).await;
            let deleted = unless_gone(result.during(|| format!("delete pod {name} of job {key}")))?;
            if let Some(pod) = deleted.and_then(|answer| answer.left()) {
                self.pods.assume(pod);
            }
            self.events.normal(&*job, "SuccessfulDelete", format!("Deleted pod: {name}"));
        }
        self.create(&job, planned.create.min(BURST)).await?;
        Ok(planned.again.and_then(|wait| Duration::try_from(wait).ok()))
    }

    fn report(&self, job: &Job, status: &JobStatus) {
        let known = |ty: &str| {
            let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|known| known.type_ == ty && known.status == "True")
        };
        let new = status.conditions.iter().flatten();
        for condition in new.filter(|condition| condition.status == "True" && !known(&condition.type_)) {
            let message = condition.message.clone().unwrap_or_default();
            match condition.type_.as_str() {
                "Complete" => self.events.normal(job, "Completed", "Job completed"),
                "Suspended" => self.events.normal(job, "Suspended", message),
                "Failed" => {
                    self.events.warning(job, condition.reason.as_deref().unwrap_or("Failed"), message);
                }
                _ => {}
            }
        }
    }

    async fn create(&self, job: &Job, count: usize) -> Result<(), Error> {
        let key = Key::of(job);
        let pod = plan::pod(job);
        for _ in 0..count {
            match self.pods_in(&key).create(&PostParams::default(), &pod).await {
                Ok(pod) => {
                    self.events.normal(job, "SuccessfulCreate", format!("Created pod: {}", pod.name_any()));
                    self.pods.assume(pod);
                }
                Err(error) => {
                    self.events.warning(job, "FailedCreate", format!("Error creating: {error}"));
                    return Err(error).during(|| format!("create a pod of job {key}"));
                }
            }
        }
        Ok(())
    }

    /// Removes the tracking finalizer of a counted pod.
    async fn release(&self, pod: &Pod) -> Result<(), Error> {
        let all = pod.finalizers();
        let left: Vec<&String> = all.iter().filter(|finalizer| *finalizer != plan::TRACKING).collect();
        if left.len() == all.len() {
            return Ok(());
        }
        let key = Key::of(pod);
        let patch = Patch::Merge(json!({ "metadata": {
            "uid": pod.uid(), "resourceVersion": pod.resource_version(), "finalizers": left,
        } }));
        let result = self.pods_in(&key).patch(&key.name, &PatchParams::default(), &patch).await;
        let released = unless_gone(result.during(|| format!("release pod {key} of a job")))?;
        if let Some(pod) = released {
            self.pods.assume(pod);
        }
        Ok(())
    }

    async fn release_orphans(&self, job: &Key) -> Result<(), Error> {
        for pod in self.pods.list(&job.namespace) {
            let owner = super::claim::controller_of(&*pod);
            if owner.is_some_and(|owner| owner.kind == "Job" && owner.name == job.name) {
                self.release(&pod).await?;
            }
        }
        Ok(())
    }

    async fn remove(&self, job: &Job) -> Result<(), Error> {
        let key = Key::of(job);
        let api: Api<Job> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: job.uid(), resource_version: None }),
            ..DeleteParams::foreground()
        };
        let result = api.delete(&key.name, &params).await;
        unless_gone(result.during(|| format!("delete finished job {key}"))).map(drop)
    }

    async fn write_status(&self, job: &Job, status: &JobStatus) -> Result<(), Error> {
        let key = Key::of(job);
        let mut value = serde_json::to_value(status).unwrap_or_default();
        // A merge patch keeps fields that it does not mention.
        for field in ["startTime", "active", "succeeded", "failed"] {
            value.as_object_mut().map(|value| value.entry(field).or_insert(serde_json::Value::Null));
        }
        for list in ["succeeded", "failed"] {
            let lists = value["uncountedTerminatedPods"].as_object_mut();
            lists.map(|lists| lists.entry(list).or_insert(serde_json::Value::Null));
        }
        // The count is based on the previous count: a concurrent write must be a conflict.
        let patch = Patch::Merge(json!({
            "metadata": { "uid": job.uid(), "resourceVersion": job.resource_version() }, "status": value,
        }));
        let api: Api<Job> = Api::namespaced(self.client.clone(), &key.namespace);
        let result = api.patch_status(&key.name, &PatchParams::default(), &patch).await;
        if let Some(job) = unless_gone(result.during(|| format!("update status of job {key}")))? {
            self.jobs.assume(job);
        }
        Ok(())
    }
}
