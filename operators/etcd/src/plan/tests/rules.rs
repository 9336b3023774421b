//! The safety rules, each as a function of goal, memory, observation and the chosen action. Except
//! for `prove` in `versions`, and `quorum`, they share no helpers with the plan: two independent implementations
//! seldom have the same defect.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

mod service;

use crate::maintenance::Step;
use crate::observed::{Endpoint, Hash, Member, Memory, Observed, Start, quorum};

use crate::plan::{Action, Goal, Removal};

/// A voter with this many unapplied entries does not count as healthy.
const FAR_BEHIND: u64 = 5000;

pub(super) struct RuleInput<'a> {
    pub(super) goal: &'a Goal,
    pub(super) memory: &'a Memory,
    pub(super) observed: &'a Observed,
    pub(super) data: &'a DataComparison,
}

/// Findings of all comparisons of a cluster. Operators may lose them; this record does not.
#[derive(Clone, Debug, Default)]
pub(super) struct DataComparison {
    differ: bool,
    /// Pods whose data differs from a majority.
    wrong: BTreeSet<String>,
    /// Pods that held the data of a majority in the last comparison.
    right: BTreeSet<String>,
    /// Pods of the learners since then.
    learners: BTreeSet<String>,
}

impl DataComparison {
    /// The record implied by a single state without a history.
    pub(super) fn of(goal: &Goal, memory: &Memory, observed: &Observed) -> Self {
        let known = memory.corruption.clone();
        let mut data =
            Self { differ: known.is_some(), wrong: known.unwrap_or_default().wrong, ..Self::default() };
        let input = RuleInput { goal, memory, observed, data: &Self::default() };
        data.compare(input.members(), &observed.hashes);
        data.note(input.members(), false);
        data
    }

    /// Records the hashes of a comparison.
    pub(super) fn compare(&mut self, members: &[Member], sums: &BTreeMap<String, Hash>) {
        let voters: Vec<&Member> = members.iter().filter(|m| !m.is_learner).collect();
        let ours: Vec<&String> = voters.iter().filter_map(|m| m.pod.as_ref()).collect();
        let hashes: Vec<(&String, Hash)> =
            ours.iter().filter_map(|name| Some((*name, *sums.get(*name)?))).collect();
        let alike = hashes.iter().all(|(_, sum)| *sum == hashes[0].1);
        if voters.len() < 2 || (alike && !hashes.is_empty() && hashes.len() == ours.len()) {
            (self.differ, self.wrong) = (false, BTreeSet::new());
            return;
        }
        self.differ |= hashes.iter().any(|(_, a)| hashes.iter().any(|(_, b)| differ(a, b)));
        if !self.differ {
            return;
        }
        self.wrong.retain(|name| hashes.is_empty() || ours.contains(&name));
        let before = self.wrong.clone();
        self.right.clear();
        for (name, sum) in &hashes {
            let others = |wrong: bool| -> Vec<Hash> {
                let of = hashes
                    .iter()
                    .filter(|(n, h)| before.contains(*n) == wrong && (h == sum || differ(h, sum)));
                of.map(|(_, h)| *h).collect()
            };
            let sound = others(false);
            let right =
                sound.iter().find(|a| sound.iter().filter(|b| b == a).count() >= quorum(voters.len()));
            // A member already known to be wrong is no evidence, and one that agrees with it is wrong too.
            let bad = right.map_or_else(|| others(true).contains(sum), |right| right != sum);
            if right == Some(sum) {
                self.right.insert((*name).clone());
            }
            if bad {
                self.wrong.insert((*name).clone());
            } else {
                self.wrong.remove(*name);
            }
        }
    }

    /// Records what is evident without a comparison.
    pub(super) fn note(&mut self, members: &[Member], same: bool) {
        self.differ &= !same;
        let learners: BTreeSet<String> =
            members.iter().filter(|m| m.is_learner).filter_map(|m| m.pod.clone()).collect();
        self.learners.retain(|name| learners.contains(name));
        if self.differ {
            self.learners.extend(learners);
        }
    }
}

type Rule = fn(&RuleInput<'_>, &Action) -> bool;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("nothing is done while paused or while a restore works", nothing_while_held),
    ("1: membership changes, and healthy members go down, only with a quorum in this look", quorum_first),
    ("2: no member is added or moved on while another is in between", one_at_a_time),
    ("3: those who remain after a removal can decide", removal_leaves_a_quorum),
    (
        "3: a member that answers goes only when all answer and the size demands it, or when it is corrupt or renewed",
        removal_of_healthy,
    ),
    ("3: the leader and the last voter are not removed", removal_of_leader),
    ("3: the voters are compared in the look that removes one of them", removal_after_a_comparison),
    ("3: for the size one goes without which a majority still holds the same data", majority_keeps_its_data),
    (
        "3: a member is renewed only when all are healthy and two others stay",
        renewal_of_one_that_can_be_spared,
    ),
    ("3: leadership goes to a healthy voter, from the one that has it", leadership_to_a_healthy_voter),
    ("3: a member is not removed for a missing pod while its claim is there", removal_with_claim),
    ("4: members are added with all voters healthy, as the only learner", add_when_whole),
    ("5: a learner is promoted started, in sync, with all voters healthy", promote_in_sync),
    ("6: a member is restarted when a quorum of the others is healthy", restart_leaves_a_quorum),
    ("6: a healthy member is upgraded when those before it run the new version", one_upgrade_at_a_time),
    ("6: the leader is restarted last and after it moved", leader_restarts_last),
    ("7: a new cluster starts once, with nothing there", one_bootstrap),
    ("7: a member that had data never starts without", comes_back_with_data),
    ("8: a claim is deleted only when a quorum confirms that its member is gone", claims_after_members),
    ("8: the pod that holds a member's only data is not deleted", pods_with_data),
    ("9: members of others are not removed", foreign_members),
    ("10: the size is kept in its bounds", size_in_bounds),
    (
        "11: corruption is judged by a majority, and who remains can decide and holds what it holds",
        corruption_by_majority,
    ),
    (
        "11: while members differ none is added, none goes for the size, none that answers restarts, and none is looked after",
        nothing_else_while_members_differ,
    ),
    ("11: a learner of the time in which members differed gets no vote", doubtful_learners),
    (
        "11: while members differ a lost one goes only if those that agree can decide",
        lost_while_members_differ,
    ),
    ("versions: one minor up, or back while one member never ran the new one", versions),
    (
        "service: no member is removed, or restarted beside others, while clients reach its pod",
        service::clients_left,
    ),
    ("service: a pod leaves only beside another, and with labels on all", service::another_serves),
    ("maintenance: only when all are healthy, one at a time, and not the leader", maintenance_in_peace),
];

pub(super) fn broken(input: &RuleInput<'_>, action: &Action) -> Vec<&'static str> {
    RULES.iter().filter(|(_, rule)| !rule(input, action)).map(|(name, _)| *name).collect()
}

impl RuleInput<'_> {
    /// The leader with most followers among the answers.
    fn leader(&self) -> Option<&Endpoint> {
        let all = || self.observed.endpoints.values().filter(|e| e.leader != 0 && !e.is_learner);
        let followers =
            |l: &Endpoint| all().filter(|e| (e.leader, e.cluster_id) == (l.leader, l.cluster_id)).count();
        let best = all().max_by_key(|e| (followers(e), e.leader, e.cluster_id))?;
        Some(
            all()
                .find(|e| {
                    e.member_id == best.leader && (e.leader, e.cluster_id) == (best.leader, best.cluster_id)
                })
                .unwrap_or_else(|| {
                    all()
                        .filter(|e| (e.leader, e.cluster_id) == (best.leader, best.cluster_id))
                        .max_by_key(|e| e.applied)
                        .unwrap_or(best)
                }),
        )
    }

    fn leader_id(&self) -> u64 {
        self.leader().map_or(0, |e| if e.leader == 0 { e.member_id } else { e.leader })
    }

    fn members(&self) -> &[Member] {
        self.leader().map_or(&[], |e| &e.members)
    }

    fn voters(&self) -> Vec<&Member> {
        self.members().iter().filter(|m| !m.is_learner).collect()
    }

    /// It answers and follows the leader, however far behind.
    fn answers(&self, m: &Member) -> bool {
        let Some(name) = &m.pod else { return false };
        let Some(leader) = self.leader() else { return false };
        let whole = self.observed.pod(name).is_some_and(|p| !p.deleting && !p.ended);
        let follows = self.observed.endpoints.get(name).is_some_and(|e| {
            e.member_id == m.id
                && e.leader == self.leader_id()
                && e.cluster_id == leader.cluster_id
                && !e.is_learner
        });
        whole && follows
    }

    fn healthy(&self, m: &Member) -> bool {
        let applied = m.pod.as_ref().and_then(|name| self.observed.endpoints.get(name)).map(|e| e.applied);
        let newest = self.leader().map_or(0, |e| e.raft_index);
        self.answers(m) && applied.is_some_and(|applied| applied + FAR_BEHIND >= newest)
    }

    fn all_answer(&self) -> bool {
        self.voters().into_iter().all(|m| self.answers(m))
    }

    fn healthy_count(&self) -> usize {
        self.voters().into_iter().filter(|m| self.healthy(m)).count()
    }

    fn healthy_count_without(&self, name: &str) -> usize {
        self.voters().into_iter().filter(|m| self.healthy(m) && m.pod.as_deref() != Some(name)).count()
    }

    fn proved(&self) -> bool {
        let read = self.observed.endpoints.values().any(|e| e.linearizable && !e.is_learner);
        !self.voters().is_empty() && read && self.healthy_count() >= quorum(self.voters().len())
    }

    /// Number of healthy voters that satisfy the predicate.
    fn healthy_count_where(&self, counted: impl Fn(&String) -> bool) -> usize {
        let counts = |m: &&Member| self.healthy(m) && m.pod.as_ref().is_some_and(&counted);
        self.voters().into_iter().filter(counts).count()
    }

    fn sound(&self) -> usize {
        self.healthy_count_where(|name| !self.data.wrong.contains(name))
    }

    /// In this observation all voters are known to hold the same data.
    fn same_data(&self) -> bool {
        let sum = |m: &Member| self.observed.hashes.get(m.pod.as_ref()?).copied();
        let sums: Vec<Option<Hash>> =
            self.voters().into_iter().filter(|m| m.pod.is_some()).map(sum).collect();
        self.voters().len() == 1 || sums.iter().all(|sum| sum.is_some() && *sum == sums[0])
    }

    fn member(&self, name: &str) -> Option<&Member> {
        self.members().iter().find(|m| m.pod.as_deref() == Some(name))
    }
}

fn nothing_while_held(input: &RuleInput<'_>, _: &Action) -> bool {
    !input.goal.paused && input.goal.restoring.is_none()
}

fn quorum_first(input: &RuleInput<'_>, action: &Action) -> bool {
    let answers = |name: &str| input.member(name).is_some_and(|m| input.answers(m));
    let needs = match action {
        Action::SetVersion { name, .. } => answers(name),
        Action::Restart { .. } | Action::MoveLeader { .. } | Action::ReleaseClaim { .. } => true,
        other => other.changes_membership(),
    };
    !needs || input.proved()
}

fn one_at_a_time(input: &RuleInput<'_>, action: &Action) -> bool {
    let moves = matches!(action, Action::AddLearner { .. } | Action::Promote { .. })
        || matches!(action, Action::RemoveMember { why: Removal::ScaleDown | Removal::Renewed(_), .. });
    // A pod with overdue termination counts as gone, or nothing could ever be healed.
    let ends = input.observed.pods.iter().any(|p| {
        p.deleting
            && p.ends_by
                .is_none_or(|by| input.observed.now.duration_since(by) <= SignedDuration::from_secs(60))
    });
    let unnamed = input.voters().iter().any(|m| !m.started);
    !moves || (!ends && !unnamed)
}

fn removal_leaves_a_quorum(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::RemoveMember { id, .. } = action else { return true };
    let Some(member) = input.voters().into_iter().find(|m| m.id == *id) else { return true };
    let left = input.voters().len() - 1;
    left > 0 && input.healthy_count() - usize::from(input.healthy(member)) >= quorum(left)
}

fn removal_of_healthy(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::RemoveMember { id, why, .. } = action else { return true };
    let Some(member) = input.voters().into_iter().find(|m| m.id == *id) else { return true };
    let wanted = input.voters().len() <= input.goal.size;
    !input.answers(member)
        || (input.all_answer() && (!wanted || matches!(why, Removal::Corrupt(_) | Removal::Renewed(_))))
}

fn renewal_of_one_that_can_be_spared(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::RemoveMember { id, why: Removal::Renewed(_), name, .. } = action else { return true };
    let others = input.voters().into_iter().filter(|m| m.id != *id);
    input.voters().len() >= 3
        && others.clone().count() + 1 == input.voters().len()
        && others.clone().all(|m| input.healthy(m))
        && input.members().iter().all(|m| !m.is_learner)
        && input.memory.pending.is_none()
        // Where its data outlives the pod, it is restarted.
        && !(input.observed.pod(name).is_some_and(|p| p.volume) && input.observed.claim(name).is_some_and(|c| !c.deleting))
}

fn leadership_to_a_healthy_voter(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::MoveLeader { id, via, .. } = action else { return true };
    let from = input.member(via).is_some_and(|m| m.id == input.leader_id());
    from && *id != input.leader_id() && input.voters().into_iter().any(|m| m.id == *id && input.healthy(m))
}

fn maintenance_in_peace(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::Maintain(step) = action else { return true };
    let peace = input.proved()
        && input.healthy_count() == input.voters().len()
        && input.members().iter().all(|m| !m.is_learner)
        && input.observed.pods.iter().all(|p| !p.deleting || input.member(&p.name).is_none());
    if let Step::DisarmCorrupt { member, .. } = step {
        let gone = *member != 0 && input.members().iter().all(|m| m.id != *member);
        return input.proved() && gone && input.same_data();
    }
    let spared = match step {
        Step::Defragment { name } => {
            input.voters().len() == 1 || input.member(name).is_some_and(|m| m.id != input.leader_id())
        }
        _ => true,
    };
    peace && spared
}

fn removal_of_leader(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::RemoveMember { id, .. } = action else { return true };
    let voter = input.voters().iter().any(|m| m.id == *id);
    *id != input.leader_id() && !(voter && input.voters().len() < 2)
}

fn removal_after_a_comparison(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::RemoveMember { id, why, .. } = action else { return true };
    // Where members are known to differ, the rules of corruption apply (`corruption_by_majority` and the next ones).
    input.observed.compared_now
        || matches!(why, Removal::Corrupt(_))
        || input.memory.corruption.is_some()
        || input.voters().len() < 2
        || input.voters().iter().all(|m| m.id != *id)
}

fn majority_keeps_its_data(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::RemoveMember { id, why: Removal::ScaleDown, .. } = action else { return true };
    let voters = input.voters();
    let sum = |m: &Member| {
        m.pod.as_ref().and_then(|name| input.observed.hashes.get(name)).filter(|_| input.healthy(m))
    };
    let alike = |one: &Member| -> Vec<u64> {
        let same = voters.iter().filter(|other| sum(one).is_some() && sum(other) == sum(one));
        same.map(|m| m.id).collect()
    };
    let most = voters.iter().map(|m| alike(m)).max_by_key(Vec::len).unwrap_or_default();
    most.len() >= quorum(voters.len()) && (most.len() == voters.len() || !most.contains(id))
}

fn removal_with_claim(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::RemoveMember { name, why: Removal::Dead(_), .. } = action else { return true };
    input.observed.pod(name).is_some() || input.observed.claim(name).is_none()
}

fn add_when_whole(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::AddLearner { name, .. } = action else { return true };
    input.healthy_count() == input.voters().len()
        && input.members().iter().all(|m| !m.is_learner)
        && input.voters().len() < input.goal.size
        && input.memory.pending.as_ref() == Some(name)
}

fn promote_in_sync(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::Promote { id, name, .. } = action else { return true };
    let index = input.leader().map_or(0, |e| e.raft_index);
    let caught_up = input.observed.endpoints.get(name).is_some_and(|e| {
        e.is_learner
            && e.member_id == *id
            && e.applied > 0
            && e.applied + 1000 >= index
            && e.applied * 10 >= index * 9
    });
    let started = input.members().iter().any(|m| m.id == *id && m.is_learner && m.started);
    caught_up && started && input.healthy_count() == input.voters().len()
}

fn restart_leaves_a_quorum(input: &RuleInput<'_>, action: &Action) -> bool {
    let (Action::SetVersion { name, .. } | Action::Restart { name, .. }) = action else { return true };
    let voters = input.voters();
    let Some(member) = input.member(name).filter(|m| input.answers(m)) else {
        // A member that does not serve costs nothing.
        return true;
    };
    let others = voters.iter().filter(|m| m.id != member.id).all(|m| input.healthy(m));
    others && (voters.len() <= 2 || input.healthy_count_without(name) >= quorum(voters.len()))
}

fn one_upgrade_at_a_time(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::SetVersion { name, to, .. } = action else { return true };
    let answers = input.member(name).is_some_and(|m| input.answers(m));
    let updated = input.voters().into_iter().filter_map(|m| m.pod.as_ref()).filter(|other| *other != name);
    let mut updated = updated.filter(|other| input.observed.pod(other).is_some_and(|pod| pod.version == *to));
    !answers || updated.all(|other| input.observed.endpoints.get(other).is_some_and(|e| e.version == *to))
}

fn leader_restarts_last(input: &RuleInput<'_>, action: &Action) -> bool {
    let (Action::SetVersion { name, .. } | Action::Restart { name, .. }) = action else { return true };
    let leads = input.member(name).is_some_and(|m| m.id == input.leader_id() && input.answers(m));
    !leads || input.voters().len() == 1
}

fn one_bootstrap(input: &RuleInput<'_>, action: &Action) -> bool {
    match action {
        Action::CreateSeed { name, .. } => {
            input.memory.cluster_id.is_none()
                && !input.memory.taken_over
                && input.observed.pods.is_empty()
                && input.observed.claims.iter().all(|claim| claim.name == *name)
        }
        Action::Remember(memory) => {
            input.memory.cluster_id.is_none() || memory.cluster_id == input.memory.cluster_id
        }
        _ => true,
    }
}

fn comes_back_with_data(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::CreateMember { name, start, volume, initial_cluster, .. } = action else { return true };
    let started = input.member(name).is_none_or(|m| m.started);
    let fresh = *start == Start::Empty;
    input.observed.pod(name).is_none()
        && !(fresh && started)
        && (fresh || (*volume && input.observed.claim(name).is_some_and(|c| !c.deleting)))
        && fresh != initial_cluster.is_empty()
}

fn claims_after_members(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::ReleaseClaim { name, .. } = action else { return true };
    input.proved() && input.member(name).is_none() && input.observed.pod(name).is_none()
}

fn pods_with_data(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::DeletePod { name, .. } = action else {
        let Action::Restart { name, .. } = action else { return true };
        let stays = input.observed.claim(name).is_some_and(|c| !c.deleting);
        return stays && input.observed.pod(name).is_some_and(|p| p.volume);
    };
    let Some(pod) = input.observed.pod(name) else { return false };
    let on_claim = input.observed.claim(name).is_some_and(|c| !c.deleting);
    let no_member = input.proved() && input.member(name).is_none();
    // A first member that never came up, before a cluster was recorded.
    let failed_seed = input.memory.cluster_id.is_none() && (pod.ended || !pod.ever_started);
    no_member || failed_seed || (pod.ended && on_claim)
}

fn foreign_members(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::RemoveMember { id, .. } = action else { return true };
    let member = input.members().iter().find(|m| m.id == *id);
    // An unstarted or late learner with a generated name is ours; one without is not.
    member.is_some_and(|m| m.pod.is_some())
}

fn size_in_bounds(input: &RuleInput<'_>, action: &Action) -> bool {
    match action {
        Action::AddLearner { .. } => input.members().len() < input.goal.size,
        Action::RemoveMember { why: Removal::ScaleDown, .. } => input.voters().len() > input.goal.size,
        _ => true,
    }
}

fn corruption_by_majority(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::RemoveMember { name, why: Removal::Corrupt(_), .. } = action else { return true };
    input.data.wrong.contains(name) && input.sound() >= quorum(input.voters().len() - 1)
}

/// Comparable hashes that differ.
fn differ(a: &Hash, b: &Hash) -> bool {
    (a.revision, a.compacted) == (b.revision, b.compacted) && a.hash != b.hash
}

fn nothing_else_while_members_differ(input: &RuleInput<'_>, action: &Action) -> bool {
    let other = match action {
        Action::AddLearner { .. } | Action::Promote { .. } | Action::Restart { .. } | Action::Maintain(_) => {
            true
        }
        Action::RemoveMember { why, .. } => {
            !matches!(why, Removal::Corrupt(_) | Removal::Dead(_) | Removal::Learner(_))
        }
        // A member that is down may get the version that lets it start.
        Action::SetVersion { name, .. } => input.member(name).is_some_and(|m| input.answers(m)),
        _ => false,
    };
    !other || !input.data.differ
}

fn doubtful_learners(input: &RuleInput<'_>, action: &Action) -> bool {
    !matches!(action, Action::Promote { name, .. } if input.data.learners.contains(name))
}

fn lost_while_members_differ(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::RemoveMember { why: Removal::Dead(_), .. } = action else { return true };
    let enough = quorum(input.voters().len() - 1);
    let known =
        input.voters().into_iter().any(|m| m.pod.as_ref().is_some_and(|n| input.data.wrong.contains(n)));
    !input.data.differ
        || (known && input.sound() >= enough)
        || input.healthy_count_where(|name| input.data.right.contains(name)) >= enough
}

fn versions(input: &RuleInput<'_>, action: &Action) -> bool {
    let Action::SetVersion { name, to, .. } = action else { return true };
    let minor = |text: &str| semver::Version::parse(text).ok().map(|v| (v.major, v.minor));
    if *to != input.goal.version {
        return false;
    }
    if crate::plan::prove(input.observed).is_none() {
        // Only a member that was half-way, and does not answer.
        return !input.observed.endpoints.contains_key(name);
    }
    let voters = input.voters();
    let runs = voters.iter().filter_map(|m| {
        let name = m.pod.as_ref()?;
        let runs = input.observed.endpoints.get(name).map(|e| e.version.as_str());
        let target = input.observed.pod(name).map(|p| p.version.as_str());
        Some((runs.and_then(minor).max(target.and_then(minor)), runs.or(target).and_then(minor)))
    });
    let (newest, now): (Vec<_>, Vec<_>) = runs.unzip();
    let floor = newest.into_iter().flatten().min();
    let lowest = now.into_iter().flatten().min();
    let Some(to) = minor(to) else { return false };
    floor.is_none_or(|floor| to >= floor) && lowest.is_none_or(|low| to.0 == low.0 && to.1 <= low.1 + 1)
}
