//! ReplicaSets: maintains the requested number of pods.

mod plan;

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;

use super::{
    cache::{Cache, Key},
    claim::{adopted, claim, controller_reference, released, selector},
    error::{During, Error, unless_gone},
    events::Recorder,
    pods::is_active,
};

/// Limit of pods created or deleted per reconciliation.
const BURST: usize = 100;

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) replica_sets: Arc<Cache<ReplicaSet>>,
    pub(crate) pods: Arc<Cache<Pod>>,
    pub(crate) events: Recorder,
}

impl Controller {
    pub(crate) async fn reconcile(&self, key: Key) -> Result<Option<Duration>, Error> {
        let Some(set) = self.replica_sets.get(&key) else { return Ok(None) };
        let Some(selector) = selector(&set.spec.selector) else { return Ok(None) };
        let uid = set.uid().unwrap_or_default();
        let pods = self.pods.list(&key.namespace).into_iter().filter(|pod| is_active(pod)).collect();
        let mut claims = claim(&uid, &selector, pods);
        let is_deleting = set.metadata.deletion_timestamp.is_some();
        if !is_deleting {
            for pod in claims.strays.drain(..) {
                self.change_owners(&pod, released(&*pod, &uid)).await?;
            }
            for pod in claims.orphans.drain(..) {
                let owners = adopted(&*pod, &controller_reference(&*set));
                claims.owned.extend(self.change_owners(&pod, owners).await?.map(Arc::new));
            }
        }
        let mut pods = claims.owned;
        let mut failure = Ok(());
        if !is_deleting {
            let wanted = usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0);
            if pods.len() < wanted {
                let missing = (wanted - pods.len()).min(BURST);
                failure = self.create(&set, missing, &mut pods).await;
            } else if pods.len() > wanted {
                let excess = (pods.len() - wanted).min(BURST);
                failure = self.delete(&set, plan::to_delete(&pods, excess)).await;
                pods = self.still_active(&pods);
            }
        }
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let message = failure.as_ref().err().map(ToString::to_string);
        let (status, check_after) = plan::status(&set, &pods, message, jiff::Timestamp::now());
        if set.status.as_ref() != Some(&status) {
            let value = serde_json::to_value(&status).unwrap_or_default();
            self.write_status(&key, value).await?;
        }
        failure?;
        Ok(check_after.and_then(|wait| Duration::try_from(wait).ok()))
    }

    /// Pods without a recent deletion.
    fn still_active(&self, pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        pods.iter().filter_map(|pod| self.pods.get(&Key::of(&**pod))).filter(|pod| is_active(pod)).collect()
    }

    /// Creates pods in batches of growing size: a rejection of one usually applies to all.
    async fn create(&self, set: &ReplicaSet, missing: usize, pods: &mut Vec<Arc<Pod>>) -> Result<(), Error> {
        let key = Key::of(set);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let pod = plan::pod(set);
        let (mut left, mut batch) = (missing, 1);
        while left > 0 {
            let now = batch.min(left);
            let params = PostParams::default();
            let results = join_all((0..now).map(|_| api.create(&params, &pod))).await;
            let mut failed = None;
            for result in results {
                match result {
                    Ok(pod) => {
                        self.events.normal(
                            set,
                            "SuccessfulCreate",
                            format!("Created pod: {}", pod.name_any()),
                        );
                        self.pods.assume(pod.clone());
                        pods.push(Arc::new(pod));
                    }
                    Err(error) => failed = Some(error),
                }
            }
            if let Some(error) = failed {
                self.events.warning(set, "FailedCreate", format!("Error creating: {error}"));
                return Err(error).during(|| format!("create a pod of replica set {key}"));
            }
            left -= now;
            batch *= 2;
        }
        Ok(())
    }

    async fn delete(&self, set: &ReplicaSet, pods: Vec<Arc<Pod>>) -> Result<(), Error> {
        let deletions = pods.iter().map(|pod| async {
            let key = Key::of(&**pod);
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
            let params = DeleteParams {
                preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
                ..DeleteParams::default()
            };
            let result = api.delete(&key.name, &params).await.during(|| format!("delete pod {key}"));
            if let Some(answer) = unless_gone(result)? {
                self.events.normal(set, "SuccessfulDelete", format!("Deleted pod: {}", key.name));
                // Until the watch reports it, the pod counts as terminating.
                let leaving = answer.left().unwrap_or_else(|| {
                    let mut pod = (**pod).clone();
                    pod.metadata.deletion_timestamp =
                        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::now()));
                    pod
                });
                self.pods.assume(leaving);
            }
            Ok(())
        });
        join_all(deletions).await.into_iter().collect()
    }

    async fn change_owners(
        &self,
        pod: &Pod,
        owners: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>,
    ) -> Result<Option<Pod>, Error> {
        let key = Key::of(pod);
        let patch = json!({
            "metadata": { "uid": pod.uid(), "resourceVersion": pod.resource_version(), "ownerReferences": owners },
        });
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let result = api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        let patched = unless_gone(result.during(|| format!("change the owner of pod {key}")))?;
        if let Some(pod) = &patched {
            self.pods.assume(pod.clone());
        }
        Ok(patched)
    }

    async fn write_status(&self, key: &Key, mut status: serde_json::Value) -> Result<(), Error> {
        // A merge patch keeps fields that it does not mention, so zero is written as null.
        for field in ["readyReplicas", "availableReplicas", "fullyLabeledReplicas", "conditions"] {
            if status.get(field).is_none() {
                status[field] = serde_json::Value::Null;
            }
        }
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &key.namespace);
        let patch = Patch::Merge(json!({ "status": status }));
        let result = api.patch_status(&key.name, &PatchParams::default(), &patch).await;
        if let Some(set) = unless_gone(result.during(|| format!("update status of replica set {key}")))? {
            self.replica_sets.assume(set);
        }
        Ok(())
    }
}
