//! Progress of an installation by step, and what blocks it.

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Event, Pod},
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_api::{
    csv::CsvPhase,
    install_plan::{InstallPlanPhase, StepStatus},
    names,
};
use serde::Serialize;

use crate::{
    blockers::{Blocker, NotReady, blockers},
    error::Error,
    events::{EventLine, Related, lines},
    list::{Installed, World},
    operator_pods::{deployments_of, pods_of},
    pod_failure::PodFailure,
    status::{View, condition_of, plan_summary},
};

/// Maximum number of events that are shown.
const EVENTS: usize = 20;

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    pub installed: Installed,
    pub steps: Vec<Step>,
    /// What it waits for or fails at, causes before consequences; empty when it waits for nothing, or only
    /// for an approval.
    #[serde(rename = "waits", skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Blocker>,
    /// Recent events of its objects, oldest first.
    pub events: Vec<EventLine>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// `resolved`, `plan`, `crds`, `rbac`, `rollout`, `healthy`.
    pub id: &'static str,
    pub title: &'static str,
    pub state: StepState,
    /// When it was done, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The result, the pending condition, or the error.
    pub text: String,
    /// The blocking object, as `Kind namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepState {
    /// An earlier step is not done.
    Pending,
    Running,
    /// A user has to act.
    Waiting,
    Done,
    /// It failed; it is retried.
    Failed,
}

impl Timeline {
    /// The first step that is not done.
    #[must_use]
    pub fn current(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.state != StepState::Done)
    }
}

/// The progress of the installation of a package, Subscription or ClusterServiceVersion.
///
/// Deployments, pods and events that the caller may not read are left out.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Forbidden`].
pub async fn timeline(client: &Client, namespace: &str, target: &str) -> Result<Timeline, Error> {
    let world = World::read(client, Some(namespace)).await?;
    let view = world.find(target)?;
    Ok(timeline_of(client, &world, &view).await)
}

/// The timeline of an operator that was found already.
pub(super) async fn timeline_of(client: &Client, world: &World, view: &View) -> Timeline {
    let installed = world.describe(view);
    let workload = Workload::read(client, &installed.namespace, view).await;
    let last = world
        .plans
        .iter()
        .filter(|p| {
            let csv = view.csv.as_ref().map(ResourceExt::name_any);
            csv.is_some() && p.spec.cluster_service_version_names.first() == csv.as_ref()
        })
        .max_by_key(|p| p.spec.generation)
        .cloned();
    let steps = steps(view, last.as_ref(), &workload);
    let blockers = blockers(view, workload.blocking(), Timestamp::now());
    let mut events = lines(&workload.events, &workload.related(view));
    events.drain(..events.len().saturating_sub(EVENTS));
    Timeline { installed, steps, blockers, events }
}

/// Deployments and pods, as far as the caller may read them.
#[derive(Default)]
pub(super) struct Workload {
    deployments: Vec<Deployment>,
    pods: Vec<Pod>,
    events: Vec<Event>,
}

impl Workload {
    async fn read(client: &Client, namespace: &str, view: &View) -> Self {
        let events = Api::<Event>::namespaced(client.clone(), namespace).list(&ListParams::default()).await;
        let events = events.map(|list| list.items).unwrap_or_default();
        Self { events, ..Self::objects(client, namespace, view).await }
    }

    /// The same without events.
    pub(super) async fn objects(client: &Client, namespace: &str, view: &View) -> Self {
        let mut out = Self::default();
        let Some(csv) = &view.csv else { return out };
        out.deployments = deployments_of(client, namespace, csv).await.unwrap_or_default();
        for deployment in &out.deployments {
            out.pods.extend(pods_of(client, namespace, deployment).await.unwrap_or_default());
        }
        out
    }

    /// Ready and desired replicas.
    fn replicas(&self) -> (i32, i32) {
        let count = self.deployments.iter().map(replicas);
        count.fold((0, 0), |(ready, wanted), (r, w)| (ready + r, wanted + w))
    }

    /// The pod that blocks the rollout: one that fails before one that starts.
    fn blocking(&self) -> Option<NotReady> {
        let not_ready = |pod: &Pod| {
            let object = format!("Pod {}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
            let failure = PodFailure::of(pod).map(|failure| failure.detail());
            let failed = failure.is_some();
            failure.or_else(|| pod_problem(pod)).map(|why| NotReady { object, why, failed })
        };
        self.pods.iter().filter_map(not_ready).min_by_key(|pod| !pod.failed)
    }

    /// The objects whose events are shown.
    pub(super) fn related(&self, view: &View) -> Related {
        let mut names: Vec<String> = Vec::new();
        names.extend(view.subscription.as_ref().map(ResourceExt::name_any));
        names.extend(view.csv.as_ref().map(ResourceExt::name_any));
        names.extend(view.plan.as_ref().map(ResourceExt::name_any));
        names.extend(self.pods.iter().map(ResourceExt::name_any));
        Related { names, deployments: self.deployments.iter().map(ResourceExt::name_any).collect() }
    }
}

/// Why a pod is not ready: from its containers, else from the pod.
pub(super) fn pod_problem(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    if conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True") {
        return None;
    }
    let containers =
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    for container in containers {
        let state = container.state.as_ref();
        if let Some(waiting) = state.and_then(|s| s.waiting.as_ref()) {
            let reason = waiting.reason.as_deref().unwrap_or("waiting");
            let message = waiting.message.as_deref().map(|m| format!(": {m}")).unwrap_or_default();
            return Some(format!("container {} {reason}{message}", container.name));
        }
        if let Some(ended) = state.and_then(|s| s.terminated.as_ref()).filter(|t| t.exit_code != 0) {
            let message = ended.message.as_deref().map(|m| format!(": {m}")).unwrap_or_default();
            return Some(format!(
                "container {} exited with code {}{message}",
                container.name, ended.exit_code
            ));
        }
    }
    if let Some(c) = conditions.iter().find(|c| c.status != "True" && c.message.is_some()) {
        let reason = c.reason.as_deref().unwrap_or(&c.type_);
        return Some(format!("{reason}: {}", c.message.as_deref().unwrap_or_default()));
    }
    Some(format!("phase {}", status.phase.as_deref().unwrap_or("unknown")))
}

/// The steps. Pure. `last` is the plan that installed the current version.
fn steps(view: &View, last: Option<&olm_api::InstallPlan>, workload: &Workload) -> Vec<Step> {
    let step = |id, title, state, at: Option<Timestamp>, text: String| Step {
        id,
        title,
        state,
        at: at.map(|t| t.to_string()),
        text,
        object: None,
    };
    let plan = view.plan.as_ref().or(last);
    let plan_status = plan.and_then(|p| p.status.clone()).unwrap_or_default();
    let csv_status = view.csv.as_ref().and_then(|c| c.status.clone()).unwrap_or_default();
    // The steps of an update in progress are those of the new version: the old one is not part of them.
    let target = plan.and_then(|p| p.spec.cluster_service_version_names.first().cloned());
    let arrived = view.csv.as_ref().filter(|c| target.is_none() || Some(c.name_any()) == target);
    let by_hand = view.subscription.is_none() || plan.is_none() && arrived.is_some();

    let mut out = Vec::new();
    let created = plan.and_then(|p| p.creation_timestamp()).map(|t| t.0);
    let failed = view.subscription.as_ref().and_then(|s| {
        condition_of(s, names::CONDITION_RESOLUTION_FAILED)
            .or_else(|| condition_of(s, names::CONDITION_CATALOG_SOURCES_UNHEALTHY))
    });
    out.push(match (&target, failed) {
        (Some(csv), _) => step("resolved", "Resolved", StepState::Done, created, csv.clone()),
        (None, _) if by_hand => {
            step("resolved", "Resolved", StepState::Done, None, "installed manually or previously".into())
        }
        (None, Some((reason, message))) => {
            step("resolved", "Resolved", StepState::Failed, None, format!("{reason}: {message}"))
        }
        (None, None) => {
            step("resolved", "Resolved", StepState::Running, None, "resolving the version".into())
        }
    });
    out.push(match plan {
        None if by_hand => step("plan", "Plan", StepState::Done, None, String::new()),
        None => step("plan", "Plan", StepState::Pending, None, String::new()),
        Some(plan) if !plan.spec.approved => {
            let mut waiting = step(
                "plan",
                "Plan",
                StepState::Waiting,
                None,
                format!("waiting for approval: {}", plan_summary(plan)),
            );
            waiting.object =
                Some(format!("InstallPlan {}/{}", plan.namespace().unwrap_or_default(), plan.name_any()));
            waiting
        }
        Some(plan) => {
            let at = plan_status.start_time.as_ref().map(|t| t.0);
            step("plan", "Plan", StepState::Done, at, plan_summary(plan))
        }
    });
    let applying = plan.is_some_and(|p| p.spec.approved);
    let complete = plan_status.phase == InstallPlanPhase::Complete || by_hand;
    let csv_created = arrived.and_then(|c| c.creation_timestamp()).map(|t| t.0);
    let of_kind = |crd: bool| {
        let steps: Vec<&olm_api::install_plan::Step> = plan_status
            .plan
            .iter()
            .filter(|s| (s.resource.kind == "CustomResourceDefinition") == crd)
            .collect();
        let done =
            steps.iter().filter(|s| matches!(s.status, StepStatus::Created | StepStatus::Present)).count();
        (done, steps.len())
    };
    let problem = olm_api::condition::find(&plan_status.conditions, names::CONDITION_INSTALLED)
        .filter(|c| !c.is_true())
        .and_then(|c| c.message.clone());
    let completed = olm_api::condition::find(&plan_status.conditions, names::CONDITION_INSTALLED)
        .filter(|c| c.is_true())
        .and_then(|c| c.last_transition_time.as_ref())
        .map(|t| t.0);
    for (id, title, crd, at) in [
        ("crds", "CRDs established", true, csv_created),
        ("rbac", "Permissions and settings", false, completed),
    ] {
        let (done, all) = of_kind(crd);
        let text = if all > 0 { format!("{done} of {all}") } else { String::new() };
        out.push(if complete || (crd && arrived.is_some()) {
            step(id, title, StepState::Done, at, text)
        } else if !applying {
            step(id, title, StepState::Pending, None, String::new())
        } else if let Some(message) = problem.clone().filter(|_| crd || arrived.is_some()) {
            step(id, title, StepState::Failed, None, message)
        } else {
            step(id, title, StepState::Running, None, text)
        });
    }
    let phase = arrived.map(|_| csv_status.phase).unwrap_or_default();
    let (ready, wanted) = workload.replicas();
    let healthy_at = csv_status.last_transition_time.as_ref().map(|t| t.0);
    out.push(match phase {
        CsvPhase::Succeeded => {
            step("rollout", "Rollout", StepState::Done, healthy_at, format!("{ready}/{wanted}"))
        }
        CsvPhase::Installing | CsvPhase::Failed => {
            let state = if phase == CsvPhase::Failed { StepState::Failed } else { StepState::Running };
            let mut rollout = step("rollout", "Rollout", state, None, format!("{ready}/{wanted}"));
            if let Some(pod) = workload.blocking() {
                rollout.text = format!("{ready}/{wanted}; {}", pod.why);
                rollout.object = Some(pod.object);
            } else if let Some(message) = &csv_status.message {
                rollout.text = format!("{ready}/{wanted}; {message}");
            }
            rollout
        }
        CsvPhase::Pending if complete => step(
            "rollout",
            "Rollout",
            StepState::Waiting,
            None,
            csv_status.message.clone().unwrap_or_default(),
        ),
        _ => step("rollout", "Rollout", StepState::Pending, None, String::new()),
    });
    out.push(match phase {
        CsvPhase::Succeeded => step(
            "healthy",
            "Healthy",
            StepState::Done,
            healthy_at,
            csv_status.message.clone().unwrap_or_default(),
        ),
        _ => step("healthy", "Healthy", StepState::Pending, None, String::new()),
    });
    out
}

/// Ready and desired replicas of the newest template.
pub(super) fn replicas(deployment: &Deployment) -> (i32, i32) {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.as_ref();
    let ready = status.and_then(|s| s.ready_replicas).unwrap_or(0);
    let updated = status.and_then(|s| s.updated_replicas).unwrap_or(0);
    (ready.min(updated), wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_reports_what_it_waits_for() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p" },
            "status": {
                "phase": "Pending",
                "conditions": [{ "type": "Ready", "status": "False" }],
                "containerStatuses": [{
                    "name": "main", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
                    "state": { "waiting": { "reason": "ErrImagePull", "message": "not in the table" } }
                }]
            }
        }))
        .unwrap();
        assert_eq!(pod_problem(&pod).unwrap(), "container main ErrImagePull: not in the table");
    }

    #[test]
    fn a_new_subscription_is_being_resolved() {
        let subscription = olm_api::Subscription::new("etcd", olm_api::SubscriptionSpec::default());
        let view = View { subscription: Some(subscription), ..View::default() };
        let steps = steps(&view, None, &Workload::default());
        let states: Vec<StepState> = steps.iter().map(|s| s.state).collect();
        assert_eq!(states[0], StepState::Running);
        assert!(states[1..].iter().all(|s| *s == StepState::Pending));
    }
}
