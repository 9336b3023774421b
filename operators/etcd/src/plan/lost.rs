//! No quorum was proved. Membership and data stay unchanged; members with their data are restarted, and the
//! remaining options are reported.

use super::heal::of_foreign;
use super::{Action, Decision, Goal, Progress, SOON, assess, crash_loops, pod_state};
use crate::observed::{LOG_IN, Memory, Observed, Start, quorum};

/// Reason while the password is missing.
const LOGIN: &str = "AuthenticationRequired";

pub(super) fn without_quorum(goal: &Goal, memory: &Memory, observed: &Observed) -> Decision {
    let (voters, names) = known_voters(memory, observed);
    if let Some(action) = restart_member(goal, memory, observed, &names) {
        let (progress, reason, why) = match silent(observed) {
            Some(silent) => (silent.progress, LOGIN, "members require authentication"),
            None => (Progress::QuorumLost, "QuorumLost", "too few members respond"),
        };
        let text = format!("{why}; {}", describe(&action));
        return Decision { blocked: Some(reason), ..Decision::act(progress, action, text) };
    }
    if let Some(health) = assess(observed) {
        let mut text =
            "etcd serves, but the operator reaches fewer than a majority of its members".to_owned();
        if !observed.silent.is_empty() {
            text = format!("{text}; {}", of_silent(observed));
        }
        // The operator does not connect to it: with a single member of its own it cannot observe a majority.
        if let Some(member) = health.voters.iter().find(|m| m.pod.is_none()) {
            text = format!("{text}; {}", of_foreign(member));
        }
        return Decision::blocked(Progress::Stuck, "MembersUnreachable", text);
    }
    let with_data = names.iter().filter(|name| observed.holds_data(name)).count();
    let needed = quorum(voters);
    if with_data >= needed {
        if let Some(decision) = silent(observed) {
            return decision;
        }
        let answering = observed.endpoints.len();
        let silent = observed.pods.iter().filter(|pod| !observed.endpoints.contains_key(&pod.name));
        let states: Vec<String> = silent.map(|pod| pod_state(observed, pod)).collect();
        let mut text = if answering < needed {
            format!(
                "{answering} of {voters} members respond, {needed} are needed; {with_data} still have \
                 their data, so the cluster resumes when they run"
            )
        } else {
            format!(
                "{answering} of {voters} members respond, but fewer than {needed} of them follow a \
                 confirmed leader; {with_data} have their data, so the cluster resumes after a leader \
                 election"
            )
        };
        if !states.is_empty() {
            text = format!("{text}: {}", states.join("; "));
        }
        return Decision::blocked(Progress::QuorumLost, "QuorumLost", text);
    }
    let text = format!("{with_data} of {voters} members still have their data, {needed} are needed");
    Decision { again: Some(16 * SOON), ..Decision::blocked(Progress::DataLost, "DataLost", text) }
}

/// Members require a login, no user is configured or its password is rejected, and no other member reports a
/// leader. Whether a leader exists is unknown, so no action follows.
pub(super) fn silent(observed: &Observed) -> Option<Decision> {
    if observed.silent.is_empty() || assess(observed).is_some() {
        return None;
    }
    let decision = Decision::blocked(Progress::Stuck, LOGIN, of_silent(observed));
    Some(Decision { again: Some(16 * SOON), ..decision })
}

fn of_silent(observed: &Observed) -> String {
    let names: Vec<&str> = observed.silent.iter().map(String::as_str).collect();
    format!("no status from {}: {LOG_IN}", names.join(", "))
}

/// Number of voters and the names of ours: from the longest reported member list, otherwise from the record
/// of the last quorum, otherwise from the existing pods and claims.
fn known_voters(memory: &Memory, observed: &Observed) -> (usize, Vec<String>) {
    if let Some(list) = observed.endpoints.values().map(|e| &e.members).max_by_key(|list| list.len())
        && !list.is_empty()
    {
        let voters = list.iter().filter(|m| !m.is_learner);
        return (voters.clone().count(), voters.filter_map(|m| m.pod.clone()).collect());
    }
    let mut names = memory.members.clone();
    if names.is_empty() {
        names = observed
            .pods
            .iter()
            .map(|pod| &pod.name)
            .chain(observed.claims.iter().map(|c| &c.name))
            .cloned()
            .collect();
        names.sort();
        names.dedup();
    }
    (memory.voters.max(1), names)
}

/// Restarts members that have their data and do not run.
fn restart_member(goal: &Goal, memory: &Memory, observed: &Observed, voters: &[String]) -> Option<Action> {
    for name in voters {
        let claim = observed.claim(name).filter(|claim| !claim.deleting);
        match (observed.pod(name), claim) {
            (None, Some(claim)) => {
                let known = [&claim.version, &memory.version, &goal.version];
                let version = known.into_iter().find(|version| !version.is_empty())?;
                return Some(Action::CreateMember {
                    name: name.clone(),
                    id: None,
                    version: version.clone(),
                    volume: true,
                    start: Start::Refused,
                    initial_cluster: Vec::new(),
                });
            }
            (Some(pod), Some(_)) if pod.ended && !pod.deleting => {
                return Some(Action::DeletePod { name: name.clone(), uid: pod.uid.clone() });
            }
            // Half-way to a version that is no longer wanted, or crashing with one: it gets the wanted
            // version. If its data is too new for that, etcd reports it and does not start; nothing is lost.
            (Some(pod), claim)
                if !pod.deleting
                    && !pod.ended
                    && !observed.endpoints.contains_key(name)
                    && (!observed.silent.contains(name)
                        || restores_common_version(goal, memory, observed, voters))
                    && pod.version != goal.version
                    && (pod.version != memory.version || crash_loops(pod, observed.now))
                    && !memory.version.is_empty()
                    && super::version::refusal_from(&memory.version, goal).is_none() =>
            {
                return Some(Action::SetVersion {
                    name: name.clone(),
                    uid: pod.uid.clone(),
                    from: pod.version.clone(),
                    to: goal.version.clone(),
                    volume: claim.is_some(),
                });
            }
            _ => {}
        }
    }
    None
}

/// Whether a running member that requires authentication may get another version: only the last common one, and
/// only while every voter answers.
fn restores_common_version(goal: &Goal, memory: &Memory, observed: &Observed, voters: &[String]) -> bool {
    let there = |name: &String| observed.endpoints.contains_key(name) || observed.silent.contains(name);
    goal.version == memory.version && voters.iter().all(there)
}

fn describe(action: &Action) -> String {
    match action {
        Action::CreateMember { name, .. } => format!("restarting member {name} with its volume"),
        Action::DeletePod { name, .. } => format!("pod {name} terminated, recreating it with its volume"),
        Action::SetVersion { name, to, .. } => format!("updating member {name} to etcd {to}"),
        other => other.kind().to_owned(),
    }
}
