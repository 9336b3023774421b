//! Deployments: one ReplicaSet per pod template, and the rollout between them.
//!
//! [`plan`] decides, this file reads and writes. Each reconciliation takes one step of a rollout; the
//! resulting change triggers the next one.

mod history;
mod plan;
mod rollout;
mod scale;
mod status;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};

use self::plan::{Change, Input, Plan};
use super::{
    cache::{Cache, Key},
    claim::{adopted, claim, controller_reference, is_controlled_by, released, selector},
    error::{During, Error, unless_gone},
    events::Recorder,
};

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) deployments: Arc<Cache<Deployment>>,
    pub(crate) replica_sets: Arc<Cache<ReplicaSet>>,
    pub(crate) pods: Arc<Cache<Pod>>,
    pub(crate) events: Recorder,
}

impl Controller {
    pub(crate) async fn reconcile(&self, key: Key) -> Result<Option<Duration>, Error> {
        let Some(deployment) = self.deployments.get(&key) else { return Ok(None) };
        let Some(selector) = selector(&deployment.spec.selector) else {
            let message = "This deployment is selecting all pods. A non-empty selector is required.";
            self.events.warning(&*deployment, "SelectingAll", message);
            return Ok(None);
        };
        let uid = deployment.uid().unwrap_or_default();
        let mut claims = claim(&uid, &selector, self.replica_sets.list(&key.namespace));
        if deployment.metadata.deletion_timestamp.is_none() {
            for set in claims.strays.drain(..) {
                self.patch_owners(&set, released(&*set, &uid)).await?;
            }
            for set in claims.orphans.drain(..) {
                let owners = adopted(&*set, &controller_reference(&*deployment));
                claims.owned.extend(self.patch_owners(&set, owners).await?.map(Arc::new));
            }
        }
        let plan = self.decide(&key, &deployment, &claims.owned);
        self.apply(&deployment, plan).await
    }

    fn decide(&self, key: &Key, deployment: &Deployment, owned: &[Arc<ReplicaSet>]) -> Plan {
        let running = |set: &ReplicaSet| {
            let uid = set.uid().unwrap_or_default();
            let pods = self.pods.list(&key.namespace);
            pods.iter().any(|pod| is_controlled_by(&**pod, &uid) && !super::pods::is_finished(pod))
        };
        let sets: Vec<&ReplicaSet> = owned.iter().map(|set| &**set).collect();
        let input =
            Input { deployment, sets: &sets, has_running_pods: &running, now: jiff::Timestamp::now() };
        plan::plan(&input)
    }

    async fn apply(&self, deployment: &Arc<Deployment>, plan: Plan) -> Result<Option<Duration>, Error> {
        for change in plan.changes {
            match change {
                Change::Create(set) => self.create(deployment, *set).await?,
                Change::Patch { set, patch, event } => {
                    self.patch_set(&set, patch).await?;
                    if let Some(text) = event {
                        self.events.normal(&**deployment, "ScalingReplicaSet", text);
                    }
                }
                Change::Delete(set) => self.delete(&set).await?,
                // By a status request: an annotation in a normal update would be a new generation of the
                // Deployment.
                Change::Annotate(annotations) => {
                    let patch = json!({ "metadata": { "annotations": annotations } });
                    self.patch_status(deployment, patch).await?;
                }
            }
        }
        if let Some(status) = plan.status {
            let old = serde_json::to_value(&deployment.status).unwrap_or_default();
            let new = serde_json::to_value(&status).unwrap_or_default();
            self.patch_status(deployment, json!({ "status": differences(&old, new) })).await?;
        }
        Ok(plan.check_after.and_then(|wait| Duration::try_from(wait).ok()))
    }

    async fn create(&self, deployment: &Arc<Deployment>, set: ReplicaSet) -> Result<(), Error> {
        let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &namespace);
        let replicas = set.spec.replicas.unwrap_or(0);
        match api.create(&PostParams::default(), &set).await {
            Ok(created) => {
                self.replica_sets.assume(created);
                if replicas > 0 {
                    let text = format!("Scaled up replica set {name} from 0 to {replicas}");
                    self.events.normal(&**deployment, "ScalingReplicaSet", text);
                }
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let action = || format!("get replica set {namespace}/{name}");
                let Some(existing) = unless_gone(api.get(&name).await.during(action))? else { return Ok(()) };
                let uid = deployment.uid().unwrap_or_default();
                if is_controlled_by(&existing, &uid) && history::same_template(&existing, deployment) {
                    // Created by this Deployment: the watch has not reported it yet.
                    self.replica_sets.assume(existing);
                    return Ok(());
                }
                // Another template has the same hash: the incremented collision count changes the name of the
                // next attempt.
                let count = deployment.status.as_ref().and_then(|s| s.collision_count).unwrap_or(0) + 1;
                self.patch_status(deployment, json!({ "status": { "collisionCount": count } })).await
            }
            Err(error) => {
                let text = format!("Failed to create new replica set {name:?}: {error}");
                self.events.warning(&**deployment, "ReplicaSetCreateError", text);
                Err(error).during(|| format!("create replica set {namespace}/{name}"))
            }
        }
    }

    /// Patches only the version that the decision is based on.
    async fn patch_set(&self, set: &Key, mut patch: Value) -> Result<(), Error> {
        if let Some(version) = self.replica_sets.get(set).and_then(|set| set.resource_version()) {
            patch["metadata"]["resourceVersion"] = version.into();
        }
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &set.namespace);
        let result = api.patch(&set.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        if let Some(patched) = unless_gone(result.during(|| format!("patch replica set {set}")))? {
            self.replica_sets.assume(patched);
        }
        Ok(())
    }

    async fn patch_owners(
        &self,
        set: &ReplicaSet,
        owners: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>,
    ) -> Result<Option<ReplicaSet>, Error> {
        let key = Key::of(set);
        let patch = json!({
            "metadata": { "uid": set.uid(), "resourceVersion": set.resource_version(), "ownerReferences": owners },
        });
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &key.namespace);
        let result = api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        unless_gone(result.during(|| format!("change the owner of replica set {key}")))
    }

    async fn delete(&self, set: &Key) -> Result<(), Error> {
        let known = self.replica_sets.get(set);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: known.as_ref().and_then(|set| set.uid()),
                resource_version: known.as_ref().and_then(|set| set.resource_version()),
            }),
            ..DeleteParams::background()
        };
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &set.namespace);
        unless_gone(api.delete(&set.name, &params).await.during(|| format!("delete replica set {set}")))?;
        Ok(())
    }

    async fn patch_status(&self, deployment: &Deployment, patch: Value) -> Result<(), Error> {
        let key = Key::of(deployment);
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &key.namespace);
        let result = api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        if let Some(patched) = unless_gone(result.during(|| format!("update status of deployment {key}")))? {
            self.deployments.assume(patched);
        }
        Ok(())
    }
}

/// The merge patch from one status to another.
fn differences(old: &Value, mut new: Value) -> Value {
    if let (Value::Object(old), Value::Object(new)) = (old, &mut new) {
        for key in old.keys() {
            new.entry(key.as_str()).or_insert(Value::Null);
        }
    }
    new
}
