//! What keeps a version's Deployments from being rolled out: pure.

use k8s_openapi::api::apps::v1::Deployment;

use super::facts::Observed;

pub(super) struct Trouble {
    pub(super) text: String,
    /// Pods serve all the same.
    pub(super) available: bool,
    /// The deadline of the rollout is over. Only reported: it is healthy again when it is.
    pub(super) stuck: bool,
}

/// What is wrong with each Deployment, if anything is.
pub(super) fn troubles(observed: &Observed<'_>) -> Vec<Trouble> {
    observed.names().into_iter().filter_map(|name| trouble(observed, name)).collect()
}

fn trouble(observed: &Observed<'_>, name: &str) -> Option<Trouble> {
    let Some(deployment) = observed.deployments.get(name) else {
        return Some(Trouble { text: format!("deployment {name} to exist"), available: false, stuck: false });
    };
    let status = deployment.status.clone().unwrap_or_default();
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let condition =
        |type_: &str| status.conditions.iter().flatten().find(|c| c.type_.as_deref() == Some(type_));
    let available =
        wanted == 0 || condition("Available").is_some_and(|c| c.status.as_deref() == Some("True"));
    let observed_generation =
        status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0);
    let updated = status.updated_replicas.unwrap_or(0);
    let stuck = observed_generation
        && condition("Progressing").is_some_and(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded"));
    let ready = observed_generation
        && updated >= wanted
        && status.replicas.unwrap_or(0) <= wanted.max(updated)
        && available;
    if ready {
        return None;
    }
    let text = if !observed_generation {
        format!("deployment {name}: spec update to be observed")
    } else if stuck {
        let why = condition("Progressing").and_then(|c| c.message.clone()).unwrap_or_default();
        format!("deployment {name} exceeded its progress deadline: {why}")
    } else if updated < wanted {
        format!("deployment {name}: {updated} of {wanted} updated replicas")
    } else {
        let why = condition("Available").and_then(|c| c.message.clone()).unwrap_or_default();
        let have = status.available_replicas.unwrap_or(0);
        format!("deployment {name} to become ready: {have} of {wanted} replicas available ({why})")
    };
    Some(Trouble { text, available, stuck })
}

/// Ready and wanted replicas of the newest template; shared with the report of an installation's progress.
pub(crate) fn replicas(deployment: &Deployment) -> (i32, i32) {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.as_ref();
    let ready = status.and_then(|s| s.ready_replicas).unwrap_or(0);
    let updated = status.and_then(|s| s.updated_replicas).unwrap_or(0);
    (ready.min(updated), wanted)
}
