//! Maintenance in the plan: preconditions and priority.

use super::{Cause, Due, Facts, MemberFacts, Record, Step, due};
use crate::observed::Memory;
use crate::plan::{Action, Context, Decision, Progress, has_alarm};

/// A full database comes before growth: members that join would only make it worse.
pub(crate) fn full(context: &Context<'_>) -> Option<Decision> {
    let record = &context.memory.maintenance;
    let under_way = record.started.is_some() && record.cause == Some(Cause::NoSpace);
    if !under_way && !has_alarm(context.observed, "NOSPACE") {
        return None;
    }
    run(context).filter(|decision| decision.action.is_some())
}

/// The maintenance step while nothing else is pending.
pub(crate) fn next(context: &Context<'_>) -> Option<Decision> {
    restart(context).or_else(|| enable_auth(context)).or_else(|| run(context))
}

/// Authentication is enabled once, when the cluster is complete; a user who disables it manually wants it
/// off.
fn enable_auth(context: &Context<'_>) -> Option<Decision> {
    let whole = context.health.unhealthy.is_empty() && context.health.learners.is_empty();
    (context.goal.auth && !context.memory.auth_enabled && whole).then(|| {
        let action = Action::Maintain(Step::EnableAuth { via: context.health.via.clone() });
        Decision::act(Progress::Steady, action, "enabling authentication")
    })
}

/// Restarts members that do not trust a pending certificate authority.
fn restart(context: &Context<'_>) -> Option<Decision> {
    let before = context.goal.restart_before?;
    let late = |member: &&&crate::observed::Member| {
        context.pod_of(member).is_some_and(|pod| pod.started.is_some_and(|at| at < before))
    };
    // The leader last: by then its followers can take over.
    let member =
        context.health.voters.iter().filter(late).min_by_key(|m| (m.id == context.health.leader, m.id))?;
    let why = "it does not trust the next certificate authority of the cluster yet";
    Some(context.renew(Progress::Steady, member, why))
}

fn run(context: &Context<'_>) -> Option<Decision> {
    // Defragmentation races with a member that receives a snapshot, and makes a member unavailable while it
    // runs.
    if !context.health.unhealthy.is_empty() || !context.health.learners.is_empty() {
        return None;
    }
    let record = &context.memory.maintenance;
    let act = |action, message: String| Some(Decision::act(Progress::Steady, action, message));
    let via = context.health.via.clone();
    match due(&context.goal.maintenance, record, &facts(context)) {
        Due::Nothing => None,
        Due::StillFull => {
            let text = "the database is full (alarm NOSPACE) after compaction and defragmentation: raise \
             spec.maintenance.quota, which applies to new members, or delete keys; the operator retries in \
             ten minutes";
            Some(Decision::blocked(Progress::Steady, "NoSpace", text))
        }
        Due::Note(record) => {
            let text = if record.started.is_some() { "maintenance started" } else { "maintenance finished" };
            let memory = Memory { maintenance: record, ..context.memory.clone() };
            act(Action::Remember(memory.into()), text.into())
        }
        Due::Compact(revision) => {
            let text = format!("the database is full: compacting all revisions before {revision}");
            act(Action::Maintain(Step::Compact { revision, via }), text)
        }
        Due::Defragment { name, leads } => {
            let text = format!("defragmenting member {name}");
            let leader = context.health.voters.iter().find(|m| m.id == context.health.leader);
            if let (true, Some(leader)) = (leads && context.voters() > 1, leader) {
                return Some(context.move_leader(Progress::Steady, leader, &text, |_| true));
            }
            act(Action::Maintain(Step::Defragment { name }), text)
        }
        Due::Disarm => act(
            Action::Maintain(Step::Disarm { via }),
            "the database is below its quota: disarming the alarm".into(),
        ),
    }
}

fn facts(context: &Context<'_>) -> Facts {
    let members = context.health.voters.iter().filter_map(|member| {
        let name = member.pod.clone()?;
        let endpoint = context.observed.endpoints.get(&name)?;
        let leads = member.id == context.health.leader;
        Some(MemberFacts { name, leads, size: endpoint.db_size, used: endpoint.db_in_use })
    });
    Facts {
        now: context.observed.now,
        since: context.observed.pods.iter().filter_map(|pod| pod.created).min(),
        full: has_alarm(context.observed, "NOSPACE"),
        revision: context.observed.endpoints.values().map(|e| e.revision).max().unwrap_or_default(),
        members: members.collect(),
    }
}

pub(crate) fn after(record: &Record, step: &Step) -> Record {
    let mut record = record.clone();
    match step {
        Step::Compact { revision, .. } => record.compacted = Some(*revision),
        Step::Defragment { name } => record.done.push(name.clone()),
        Step::Disarm { .. } | Step::DisarmCorrupt { .. } | Step::EnableAuth { .. } => {}
    }
    record
}

/// Records an applied step.
pub(crate) fn done(status: &mut crate::crd::EtcdClusterStatus, step: &Step) {
    let record = status.maintenance.as_ref().map(Record::from).unwrap_or_default();
    status.maintenance = after(&record, step).status();
    status.auth_enabled |= matches!(step, Step::EnableAuth { .. });
}
