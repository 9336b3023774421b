//! PodDisruptionBudgets: computes the allowed disruptions; the API server performs evictions.

mod budget;

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::Selector,
};
use serde_json::{Value, json};

use super::{
    cache::{Cache, Key},
    claim::{controller_of, matches},
    error::{During, Error, unless_gone},
    events::Recorder,
    inventory::Inventory,
};

/// Delay of the retry when pods could not be counted.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) budgets: Arc<Cache<PodDisruptionBudget>>,
    pub(crate) pods: Arc<Cache<Pod>>,
    pub(crate) replica_sets: Arc<Cache<ReplicaSet>>,
    pub(crate) deployments: Arc<Cache<Deployment>>,
    pub(crate) inventory: Arc<Inventory>,
    pub(crate) events: Recorder,
}

/// Whether a budget selects a pod. An empty selector selects all pods of the namespace, a missing one none.
pub(crate) fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
    budget.metadata.namespace == pod.metadata.namespace
        && selector.is_some_and(|selector| matches(&selector, pod))
}

impl Controller {
    pub(crate) async fn reconcile(&self, key: Key) -> Result<Option<Duration>, Error> {
        let Some(budget) = self.budgets.get(&key) else { return Ok(None) };
        let pods = self.pods.list(&key.namespace);
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).filter(|pod| covers(&budget, pod)).collect();
        if pods.is_empty() {
            self.events.normal(&*budget, "NoPods", "No matching pods found");
        }
        let now = jiff::Timestamp::now();
        let scale = match budget::needs_scale(&budget) {
            true => self.scale(&budget, &pods).await?,
            false => Ok(0),
        };
        match scale.and_then(|scale| budget::count(&budget, pods.len(), scale)) {
            Ok(counted) => {
                let (status, again) = budget::status(&budget, &pods, counted, now);
                self.write(&budget, &status).await?;
                Ok(again.and_then(|wait| Duration::try_from(wait).ok()))
            }
            Err(why) => {
                let message = format!("Failed to calculate the number of expected pods: {why}");
                self.events.warning(&*budget, "CalculateExpectedPodCountFailed", message);
                self.write(&budget, &budget::failed(&budget, why, now)).await?;
                Ok(Some(AFTER_FAILURE))
            }
        }
    }

    /// Sum of the replicas of the controllers of these pods.
    async fn scale(&self, budget: &PodDisruptionBudget, pods: &[&Pod]) -> Result<Result<i32, String>, Error> {
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        let mut scales: HashMap<String, i32> = HashMap::new();
        let mut unmanaged = false;
        for pod in pods {
            let Some(owner) = controller_of(*pod) else {
                unmanaged = true;
                continue;
            };
            if scales.contains_key(&owner.uid) {
                continue;
            }
            match self.scale_of(namespace, owner).await? {
                Ok((uid, scale)) => scales.insert(uid, scale),
                Err(why) => return Ok(Err(why)),
            };
        }
        if unmanaged {
            let message = "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of \
                the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these \
                pods please set \".spec.minAvailable\" field of the PDB to an integer value.";
            self.events.warning(budget, "UnmanagedPods", message);
        }
        Ok(Ok(scales.values().fold(0, |sum: i32, scale| sum.saturating_add(*scale))))
    }

    /// The controller with the replica count of a pod, and its count.
    async fn scale_of(
        &self,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Result<(String, i32), String>, Error> {
        let key = Key::new(namespace, &owner.name);
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        if (group, owner.kind.as_str()) == ("apps", "ReplicaSet") {
            let set = self.replica_sets.get(&key).filter(|set| set.uid().as_deref() == Some(&owner.uid));
            let Some(set) = set else {
                return Ok(Err(format!("found no controllers for pod of replica set \"{key}\"")));
            };
            let deployment = controller_of(&*set).filter(|owner| owner.kind == "Deployment");
            let deployment =
                deployment.and_then(|owner| self.deployments.get(&Key::new(namespace, &owner.name)));
            return Ok(Ok(match deployment {
                Some(deployment) => {
                    (deployment.uid().unwrap_or_default(), deployment.spec.replicas.unwrap_or(1))
                }
                None => (owner.uid.clone(), set.spec.replicas.unwrap_or(1)),
            }));
        }
        let mut kinds = self.inventory.kinds().into_iter();
        let kind = kinds.find(|kind| kind.resource.group == group && kind.resource.kind == owner.kind);
        let Some(kind) = kind else {
            return Ok(Err(format!(
                "no matches for kind {:?} in version {:?}",
                owner.kind, owner.api_version
            )));
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &kind.resource);
        let scale = api.get_scale(&owner.name).await;
        let scale = unless_gone(scale.during(|| format!("read the scale of {} {key}", owner.kind)))?;
        Ok(match scale {
            Some(scale) => Ok((owner.uid.clone(), scale.spec.and_then(|spec| spec.replicas).unwrap_or(0))),
            None => {
                let plural = &kind.resource.plural;
                let resource = if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") };
                Err(format!("{resource} does not implement the scale subresource"))
            }
        })
    }

    async fn write(
        &self,
        budget: &PodDisruptionBudget,
        status: &PodDisruptionBudgetStatus,
    ) -> Result<(), Error> {
        // Evicted pods that are not listed any more must be set to null: a merge patch would keep them.
        let mut wanted = serde_json::to_value(status).unwrap_or_default();
        let present = serde_json::to_value(&budget.status).unwrap_or_default();
        let same = |field: &str| wanted.get(field) == present.get(field);
        let no_pods = |value: &Value| value["disruptedPods"].as_object().is_none_or(|pods| pods.is_empty());
        let fields = [
            "conditions",
            "currentHealthy",
            "desiredHealthy",
            "disruptionsAllowed",
            "expectedPods",
            "observedGeneration",
        ];
        let same_pods = (no_pods(&wanted) && no_pods(&present)) || same("disruptedPods");
        if same_pods && fields.iter().all(|field| same(field)) {
            return Ok(());
        }
        for name in present["disruptedPods"].as_object().into_iter().flatten().map(|(name, _)| name) {
            if wanted["disruptedPods"].get(name).is_none() {
                wanted["disruptedPods"][name] = Value::Null;
            }
        }
        let key = Key::of(budget);
        // A concurrent eviction must not be lost: the version is a precondition.
        let patch = Patch::Merge(json!({
            "metadata": { "uid": budget.uid(), "resourceVersion": budget.resource_version() }, "status": wanted,
        }));
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), &key.namespace);
        let result = api.patch_status(&key.name, &PatchParams::default(), &patch).await;
        let result = result.during(|| format!("update status of pod disruption budget {key}"));
        if let Some(written) = unless_gone(result)? {
            self.budgets.assume(written);
        }
        Ok(())
    }
}
