//! Pods and the client Service: a pod leaves it before its etcd is removed or restarted, and joins it again
//! when its member stays.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Action, Context, Decision, SOON, remaining};
use crate::observed::{Observed, PodView, Serving};

/// Time from a changed label until the kube-proxies of all nodes follow: the EndpointSlices change within a
/// second, and kube-proxy applies them after up to another one.
const PROPAGATION_DELAY: SignedDuration = SignedDuration::from_secs(5);

/// The pods that run or may run.
fn live(observed: &Observed) -> impl Iterator<Item = &PodView> {
    observed.pods.iter().filter(|pod| !pod.deleting && !pod.ended)
}

/// Whether every pod has the label that the client Service selects by.
pub(crate) fn labelled(observed: &Observed) -> bool {
    live(observed).all(|pod| pod.serving != Serving::Unlabelled)
}

/// Whether every pod has had its label long enough.
pub(crate) fn labels_propagated(observed: &Observed) -> bool {
    let pending =
        |pod: &PodView| pod.serving_since.and_then(|since| propagation_left(since, observed.now)).is_some();
    labelled(observed) && !live(observed).any(pending)
}

/// The rest of the time until a changed label is in effect. One that changed in the future, by another clock,
/// is not waited for.
fn propagation_left(since: Timestamp, now: Timestamp) -> Option<Duration> {
    (since <= now).then(|| remaining(since + PROPAGATION_DELAY, now)).flatten()
}

impl Context<'_> {
    /// The decision, preceded by the changes of the client Service that it needs.
    pub(super) fn with_clients_away(&self, decision: Decision) -> Decision {
        let decision = self.departure(&decision).unwrap_or(decision);
        match self.joins(&decision) {
            Some(pod) => {
                let action = Action::JoinService { name: pod.name.clone(), uid: pod.uid.clone() };
                Decision { action: Some(action), again: Some(SOON), compare: false, ..decision }
            }
            None => decision,
        }
    }

    /// What precedes a decision that removes or restarts the etcd of a pod; none when that pod is out of the
    /// client Service. Kubernetes takes out those that are not ready.
    pub(super) fn departure(&self, decision: &Decision) -> Option<Decision> {
        let pod = self.stops(decision.action.as_ref()?).filter(|pod| pod.is_endpoint())?;
        let text = &decision.message;
        let wait = |message: String, again: Duration| Decision {
            action: None,
            message,
            again: Some(again),
            leaving: Some(pod.name.clone()),
            ..decision.clone()
        };
        let left =
            pod.serving_since.filter(|since| pod.serving == Serving::Out && *since <= self.observed.now);
        if let Some(since) = left {
            let message =
                format!("{text}; its pod has left the client Service, clients are moving to other members");
            return propagation_left(since, self.observed.now).map(|rest| wait(message, rest));
        }
        let stays =
            |other: &PodView| other.name != pod.name && other.is_endpoint() && other.serving == Serving::In;
        if !self.observed.pods.iter().any(stays) {
            let message = format!("{text}, when another member is ready for clients");
            return Some(Decision {
                blocked: decision.blocked.or(Some("MembersUnhealthy")),
                ..wait(message, 2 * SOON)
            });
        }
        if !labels_propagated(self.observed) {
            let message = format!("{text}, when the client Service has all other members");
            return Some(wait(message, SOON));
        }
        let action = Action::LeaveService { name: pod.name.clone(), uid: pod.uid.clone() };
        let message = format!("{text}; its pod leaves the client Service first");
        Some(Decision { action: Some(action), ..wait(message, SOON) })
    }

    /// The pod whose etcd an action removes or restarts. Clusters of one or two members are unavailable during
    /// a restart, wherever their clients are.
    fn stops(&self, action: &Action) -> Option<&PodView> {
        match action {
            Action::RemoveMember { name, .. } => self.observed.pod(name),
            Action::SetVersion { name, .. } | Action::Restart { name, .. } if self.voters() > 2 => {
                self.observed.pod(name)
            }
            _ => None,
        }
    }

    /// A pod that joins the client Service: one without a label, or one that left and stays.
    fn joins(&self, decision: &Decision) -> Option<&PodView> {
        let leaves = |pod: &PodView| {
            let of_action = decision.action.as_ref().and_then(|action| self.stops(action));
            decision.leaving.as_ref() == Some(&pod.name)
                || of_action.is_some_and(|other| other.name == pod.name)
        };
        let comparing = decision.compare && decision.blocked.is_none();
        live(self.observed).find(|pod| match pod.serving {
            Serving::In => false,
            Serving::Unlabelled => true,
            // The comparison decides which member goes.
            Serving::Out => !(comparing || leaves(pod)) && self.serves(pod),
        })
    }

    /// Whether a member is healthy, also for Kubernetes, and not about to restart with another version.
    fn serves(&self, pod: &PodView) -> bool {
        let member = self.health.voters.iter().find(|m| m.pod.as_ref() == Some(&pod.name));
        let runs = self.observed.endpoints.get(&pod.name).is_some_and(|e| e.version == pod.version);
        let restarted = pod.started > pod.serving_since;
        pod.ready && (runs || restarted) && member.is_some_and(|m| self.health.is_healthy(m.id))
    }
}
