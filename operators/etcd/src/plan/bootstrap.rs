//! Before the cluster id is recorded: exactly one member may bootstrap it.

use super::{Action, Decision, Goal, Progress, START_PATIENCE, is_held_up, lost, pod_state, prove, unready};
use crate::observed::{Memory, Observed};

pub(super) fn bootstrap(goal: &Goal, memory: &Memory, observed: &Observed) -> Decision {
    let creating = |message: String| Decision::wait(Progress::Creating, message);
    let mut ids: Vec<u64> = observed.endpoints.values().map(|e| e.cluster_id).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() > 1 {
        let text = format!(
            "pods of this object form {} different etcd clusters; delete the pods without data",
            ids.len()
        );
        return Decision::blocked(Progress::Stuck, "SplitBootstrap", text);
    }
    if let Some(health) = prove(observed) {
        let memory = Memory {
            cluster_id: Some(format!("{:x}", health.cluster_id)),
            pending: None,
            version: observed.endpoints.values().map(|e| e.version.clone()).next().unwrap_or_default(),
            voters: health.voters.len(),
            members: health.voters.iter().filter_map(|m| m.pod.clone()).collect(),
            ..memory.clone()
        };
        return Decision::act(
            Progress::Creating,
            Action::Remember(memory.into()),
            "the first member is running",
        );
    }
    if memory.taken_over {
        return lost::without_quorum(goal, memory, observed);
    }
    if let Some(pod) = observed.pods.iter().find(|pod| pod.deleting) {
        return creating(format!("pod {} is terminating", pod.name));
    }
    let Some(pod) = observed.pods.first() else { return first_member(goal, observed) };
    if let Some(decision) = lost::silent(observed) {
        return decision;
    }
    // A pod that never ran holds no data: it is recreated with the right version.
    let wrong_version = !pod.ever_started && pod.version != goal.version;
    if observed.pods.len() == 1 && (pod.ended || wrong_version) {
        let action = Action::DeletePod { name: pod.name.clone(), uid: pod.uid.clone() };
        return Decision::act(
            Progress::Creating,
            action,
            format!("pod {} is not usable as the first member", pod.name),
        );
    }
    let state = pod_state(observed, pod);
    // It never served, so every termination counts.
    let ends = pod.restarts > 0 && !pod.ready;
    if ends || is_held_up(pod, observed.now) || unready(pod, observed.now) > START_PATIENCE {
        let text = format!("the first member does not start: {state}");
        return Decision::blocked(Progress::Creating, "MemberNotStarting", text);
    }
    creating(format!("waiting for the first member: {state}"))
}

/// No pod exists. An existing claim belongs to an interrupted first member: it is reused, so that its data,
/// if any, is found again.
fn first_member(goal: &Goal, observed: &Observed) -> Decision {
    if let Some(claim) = observed.claims.iter().find(|claim| claim.deleting) {
        return Decision::wait(Progress::Creating, format!("claim {} is being deleted", claim.name));
    }
    let (name, volume) = match observed.claims.as_slice() {
        [] => (observed.fresh_name.clone(), observed.volumes),
        [claim] => (claim.name.clone(), true),
        several => {
            let names: Vec<&str> = several.iter().map(|claim| claim.name.as_str()).collect();
            let text = format!(
                "no pods, but several claims exist: {}; delete the claims without data",
                names.join(", ")
            );
            return Decision::blocked(Progress::Stuck, "SplitBootstrap", text);
        }
    };
    let action = Action::CreateSeed { name, version: goal.version.clone(), volume };
    Decision::act(Progress::Creating, action, "starting the first member")
}
