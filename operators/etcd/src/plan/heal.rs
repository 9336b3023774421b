//! Lost members, and leftovers of removed ones.

use jiff::SignedDuration;

use super::{Action, Context, Decision, Progress, Removal, crash_loops};
use crate::observed::{Member, PodView, Start, quorum};

/// A member counts as lost when its pod, once ready, has not been ready for this long.
const UNREACHABLE_GRACE: SignedDuration = SignedDuration::from_secs(300);
/// A pod still terminating this long after its deadline is considered to be on a lost node.
const TERMINATION_GRACE: SignedDuration = SignedDuration::from_secs(60);

impl Context<'_> {
    fn is_member(&self, name: &str) -> bool {
        self.members().any(|m| m.pod.as_deref() == Some(name))
    }

    /// A pod whose member is not in etcd any more.
    pub(super) fn leftover_pod(&self) -> Option<Decision> {
        let pod = self.observed.pods.iter().find(|pod| !pod.deleting && !self.is_member(&pod.name))?;
        let action = Action::DeletePod { name: pod.name.clone(), uid: pod.uid.clone() };
        Some(Decision::act(self.direction(), action, format!("pod {} is no longer an etcd member", pod.name)))
    }

    /// A claim whose member is not in etcd any more: confirmed by a quorum, and its pod is gone.
    pub(super) fn leftover_claim(&self) -> Option<Decision> {
        let claim = self.observed.claims.iter().find(|claim| {
            !claim.deleting
                && !self.is_member(&claim.name)
                && self.observed.pod(&claim.name).is_none()
                && self.memory.pending.as_deref() != Some(&claim.name)
        })?;
        let action = Action::ReleaseClaim { name: claim.name.clone(), uid: claim.uid.clone() };
        Some(Decision::act(self.direction(), action, format!("claim {} no longer has a member", claim.name)))
    }

    /// A running member never starts without its data again: it would act as a member that never wrote.
    pub(super) fn seal(&self) -> Option<Decision> {
        let pod = self.health.voters.iter().filter(|m| m.started).find_map(|m| {
            let answers = self.observed.endpoints.get(m.pod.as_ref()?).is_some_and(|e| e.member_id == m.id);
            self.pod_of(m).filter(|pod| answers && pod.start == Start::Empty && !pod.deleting)
        })?;
        let action = Action::Seal { name: pod.name.clone(), uid: pod.uid.clone() };
        Some(Decision::act(self.direction(), action, format!("member {} is running", pod.name)))
    }

    /// Terminations complete before anything starts: a terminating pod may be a member that leaves.
    pub(super) fn terminating(&self) -> Option<Decision> {
        let pod = self.observed.pods.iter().find(|pod| pod.deleting && !self.overdue(pod))?;
        let progress = if self.health.unhealthy.is_empty() { self.direction() } else { Progress::Healing };
        Some(Decision::wait(progress, format!("waiting for pod {} to terminate", pod.name)))
    }

    /// The pod is lost, the data is not: the same member returns.
    pub(super) fn missing_pod(&self) -> Option<Decision> {
        self.members().filter(|m| m.started).find_map(|member| {
            let name = member.pod.clone()?;
            let claim = self.observed.claim(&name).filter(|claim| !claim.deleting)?;
            match self.pod_of(member) {
                None => {
                    let version =
                        if claim.version.is_empty() { self.running_version() } else { claim.version.clone() };
                    let text = format!("restarting member {name} with its volume");
                    let action = Action::CreateMember {
                        name,
                        id: Some(member.id),
                        version,
                        volume: true,
                        start: Start::Refused,
                        initial_cluster: Vec::new(),
                    };
                    Some(Decision::act(Progress::Healing, action, text))
                }
                Some(pod) if pod.ended && !pod.deleting => {
                    let text = format!("pod {name} terminated, recreating it with its volume");
                    let action = Action::DeletePod { name, uid: pod.uid.clone() };
                    Some(Decision::act(Progress::Healing, action, text))
                }
                Some(_) => None,
            }
        })
    }

    /// A lost voter is removed; the gap is filled later. Members with wrong data do not count when it is
    /// checked whether it can be spared.
    pub(super) fn dead_voter(&self, corrupt: &[u64]) -> Option<Decision> {
        let (member, why) = self
            .health
            .unhealthy
            .iter()
            .find_map(|m| m.pod.as_ref().and_then(|_| self.dead(m)).map(|why| (*m, why)))?;
        let name = member.label();
        // Never the last one, and never below the quorum of the remaining members.
        let sound = self.healthy_without(corrupt);
        if self.voters() < 2 || sound < quorum(self.voters() - 1) {
            let which = if corrupt.is_empty() { "" } else { " and hold the data of the majority" };
            let text = format!(
                "member {name} is lost ({why}), but only {sound} of {} members are healthy{which}: removing it could cost the quorum{}",
                self.voters(),
                self.by_hand(sound, corrupt)
            );
            return Some(Decision::blocked(Progress::Stuck, "TooFewHealthyMembers", text));
        }
        let text = format!("member {name} is lost: {why}");
        Some(self.compared_first(self.remove(Progress::Healing, member, Removal::Dead(why), text, corrupt)))
    }

    /// Manual steps when one member is lost and another is corrupt: after the removal of the lost ones the
    /// corrupt can be replaced, if the others then have the quorum.
    fn by_hand(&self, sound: usize, corrupt: &[u64]) -> String {
        let lost = self.health.unhealthy.iter().filter(|m| !corrupt.contains(&m.id));
        let commands: Vec<String> =
            lost.map(|m| format!("`etcdctl member remove {:x}` ({})", m.id, m.label())).collect();
        let left = self.voters() - commands.len();
        if corrupt.is_empty() || sound < quorum(left - 1) {
            return String::new();
        }
        format!(
            ". If it is permanently lost, remove it first: {}; the operator has recorded the corrupt \
             member and replaces it next. Do not remove other members",
            commands.join(" and ")
        )
    }

    fn dead(&self, member: &Member) -> Option<String> {
        // It answers and follows: however often its process ended before, it is catching up now.
        if self.health.is_catching_up(member.id) {
            return None;
        }
        let name = member.pod.as_deref()?;
        let claim = self.observed.claim(name);
        let Some(pod) = self.pod_of(member) else {
            // A claim in deletion disappears now that its pod is gone.
            return claim.is_none().then(|| "its pod and its data are gone".into());
        };
        if self.overdue(pod) {
            return Some("its pod does not terminate, so its node is considered lost".into());
        }
        if pod.ended && claim.is_none_or(|claim| claim.deleting) {
            return Some("its pod terminated".into());
        }
        if pod.volume && claim.is_none() && pod.started.is_none() {
            return Some("its volume is gone".into());
        }
        if pod.has_lost_data() {
            return Some("etcd found no data in its data directory".into());
        }
        // A failure caused by a new version is not the member's: the upgrade halts, and the user decides.
        if self.tries_new_version(pod) {
            return None;
        }
        if crash_loops(pod, self.observed.now) {
            return Some(format!("restarted {} times without becoming healthy", pod.restarts));
        }
        let away =
            pod.ready_since.filter(|_| !pod.ready).map(|since| self.observed.now.duration_since(since));
        (away? > UNREACHABLE_GRACE).then(|| "unreachable for more than five minutes".into())
    }

    /// Its termination is long overdue: its node is gone.
    fn overdue(&self, pod: &PodView) -> bool {
        pod.deleting && pod.ends_by.is_some_and(|by| self.observed.now.duration_since(by) > TERMINATION_GRACE)
    }

    /// A member that this operator did not add is never removed. It blocks scaling, upgrades and maintenance, but
    /// not the repair of lost and corrupt members.
    pub(super) fn foreign(&self) -> Option<Decision> {
        let member = self.members().find(|m| m.pod.is_none())?;
        Some(Decision::blocked(Progress::Stuck, "ForeignMember", of_foreign(member)))
    }
}

pub(super) fn of_foreign(member: &Member) -> String {
    format!(
        "member {} was not added by this operator; the operator neither changes it nor the size of the \
         cluster. Remove it with `etcdctl member remove {:x}`",
        member.label(),
        member.id
    )
}
