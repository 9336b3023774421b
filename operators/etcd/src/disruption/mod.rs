//! The PodDisruptionBudget of a cluster: draining nodes never costs the quorum.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};

use crate::apply::ApplyError;
use crate::names;
use crate::observed::quorum;
use crate::validate::Validated;

/// How long a written budget counts as unchanged: only users change it.
const BELIEVED: Duration = Duration::from_secs(60);

/// Members that must stay available, for the numbers of voters and learners. None for a single voter: it
/// could never be drained.
/// The budget has no notion of votes and may count a learner as ready; so learners are added to the minimum.
/// That makes the budget tighter while a member joins, never looser.
#[must_use]
pub fn min_available(size: usize, voters: usize, learners: usize) -> Option<usize> {
    let members = size.max(voters);
    (members > 1).then(|| quorum(members) + learners)
}

/// The budgets of all clusters as last written.
#[derive(Default)]
pub struct Budgets {
    left: Mutex<HashMap<String, (Instant, Option<usize>)>>,
}

impl Budgets {
    /// Creates, updates or deletes the budget of a cluster.
    pub(crate) async fn keep(
        &self,
        client: &Client,
        cluster: &Validated,
        wanted: Option<usize>,
    ) -> Result<(), ApplyError> {
        let known = self.lock().get(&cluster.uid).copied();
        if known.is_some_and(|(at, was)| was == wanted && at.elapsed() < BELIEVED) {
            return Ok(());
        }
        keep(client, cluster, wanted).await?;
        self.lock().insert(cluster.uid.clone(), (Instant::now(), wanted));
        Ok(())
    }

    /// Drops the state of a deleted cluster.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Instant, Option<usize>)>> {
        // The map is consistent after every statement, also when a holder of the lock panicked.
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn keep(client: &Client, cluster: &Validated, wanted: Option<usize>) -> Result<(), ApplyError> {
    let api: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), &cluster.namespace);
    let name = &cluster.name;
    let failed = |verb: &'static str| {
        let what = format!("PodDisruptionBudget {name}");
        move |source| ApplyError::Kubernetes { verb, what, source: Box::new(source) }
    };
    let found = api.get_opt(name).await.map_err(failed("read"))?;
    let ours = found.as_ref().is_none_or(|b| b.owner_references().iter().any(|o| o.uid == cluster.uid));
    if !ours {
        // A user's own budget of this name takes precedence; two budgets would block evictions.
        return Ok(());
    }
    match (found, wanted) {
        (None, None) => Ok(()),
        (Some(found), None) => {
            let preconditions = Preconditions { uid: found.uid(), resource_version: None };
            let params = DeleteParams::default().preconditions(preconditions);
            match api.delete(name, &params).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
                Err(error) => Err(failed("delete")(error)),
            }
        }
        (found, Some(least)) => {
            let wanted = budget(cluster, least);
            if found.is_none() {
                return match api.create(&PostParams::default(), &wanted).await {
                    Ok(_) => Ok(()),
                    // Created by another client a moment ago; the next reconciliation reads it.
                    Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                    Err(error) => Err(failed("create")(error)),
                };
            }
            let as_wanted = found.and_then(|b| b.spec).is_some_and(|spec| {
                let wanted = wanted.spec.clone().unwrap_or_default();
                (spec.min_available, spec.max_unavailable, spec.selector)
                    == (wanted.min_available, wanted.max_unavailable, wanted.selector)
            });
            if as_wanted {
                return Ok(());
            }
            let params = PatchParams::apply(names::MANAGER).force();
            api.patch(name, &params, &Patch::Apply(&wanted)).await.map(drop).map_err(failed("apply"))
        }
    }
}

fn budget(cluster: &Validated, least: usize) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: ObjectMeta {
            name: Some(cluster.name.clone()),
            namespace: Some(cluster.namespace.clone()),
            labels: Some(names::cluster_labels(&cluster.name)),
            owner_references: Some(vec![cluster.owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::Int(i32::try_from(least).unwrap_or(i32::MAX))),
            selector: Some(LabelSelector {
                match_labels: Some(names::cluster_labels(&cluster.name)),
                ..LabelSelector::default()
            }),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_must_stay_as_decide_together() {
        // size, voters, learners
        assert_eq!(min_available(1, 1, 0), None);
        assert_eq!(min_available(3, 3, 0), Some(2));
        assert_eq!(min_available(5, 5, 0), Some(3));
        assert_eq!(min_available(3, 1, 0), Some(2), "on the way up the first member stays");
        assert_eq!(min_available(3, 5, 0), Some(3), "on the way down five still decide by three");
        assert_eq!(min_available(3, 2, 1), Some(3), "one that joins does not stand in for a voter");
        assert_eq!(min_available(1, 2, 0), Some(2));
    }

    #[test]
    fn the_budget_goes_with_its_cluster() {
        let object = crate::validate::tests::cluster(serde_json::json!({ "size": 3 }));
        let cluster = crate::validate::validate(&object).unwrap();
        let budget = budget(&cluster, 2);
        assert_eq!(budget.owner_references()[0].uid, "u-1");
        let spec = budget.spec.unwrap();
        assert_eq!(spec.min_available, Some(IntOrString::Int(2)));
        assert_eq!(spec.selector.unwrap().match_labels.unwrap()["etcd_cluster"], "orders");
    }
}
