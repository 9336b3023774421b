//! What blocks the rollout of a version's Deployments. Pure.

use super::{facts::Observed, workload::Workload};

pub(super) struct DeploymentProblem {
    /// Name of the Deployment.
    pub(super) name: String,
    pub(super) text: String,
    /// Pods serve nevertheless.
    pub(super) available: bool,
    /// The deadline of the rollout has passed. Only reported: it is healthy again once the rollout completes.
    pub(super) stuck: bool,
}

/// The problem of each Deployment, if any.
pub(super) fn problems(observed: &Observed<'_>) -> Vec<DeploymentProblem> {
    observed.names().into_iter().filter_map(|name| problem(observed, name)).collect()
}

fn problem(observed: &Observed<'_>, name: &str) -> Option<DeploymentProblem> {
    let Some(deployment) = observed.deployments.get(name) else {
        let (name, text) = (name.to_owned(), format!("deployment {name} to exist"));
        return Some(DeploymentProblem { name, text, available: false, stuck: false });
    };
    let Workload { wanted, updated, .. } = *deployment;
    let available = wanted == 0 || deployment.available.as_ref().is_some_and(|(holds, _)| *holds);
    let is_observed = deployment.observed_generation >= deployment.generation.unwrap_or(0);
    let late = deployment.late.as_ref().filter(|_| is_observed);
    let ready = is_observed && updated >= wanted && deployment.replicas <= wanted.max(updated) && available;
    if ready {
        return None;
    }
    let failing = observed.failing.get(name);
    let text = if !is_observed {
        format!("deployment {name}: spec update to be observed")
    } else if let Some(late) = late {
        let why = failing.map_or(&**late, String::as_str);
        format!("deployment {name} exceeded its progress deadline: {why}")
    } else if let Some(why) = failing {
        format!("deployment {name}: {why}")
    } else if updated < wanted {
        format!("deployment {name}: {updated} of {wanted} updated replicas")
    } else {
        let why = deployment.available.as_ref().map(|(_, message)| &**message).unwrap_or_default();
        let have = deployment.available_replicas;
        format!("deployment {name} to become ready: {have} of {wanted} replicas available ({why})")
    };
    Some(DeploymentProblem { name: name.to_owned(), text, available, stuck: late.is_some() })
}
