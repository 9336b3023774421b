//! A small model of etcd and Kubernetes: it applies the actions of `plan`, with etcd's own rejections,
//! injects faults, and checks every action against the safety rules. Members keep logs: when a quorum serves,
//! its leader must have every acknowledged write.

mod cluster;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::rules::{DataComparison, RuleInput, broken};
use crate::observed::{
    ClaimView, Endpoint, Failure, Hash, Member, Memory, Observed, PodView, Serving, quorum,
};
use crate::plan::{Action, Compared, Decision, Goal, Progress, plan};

/// Some proxies send clients to a pod for this long after it left the client Service.
const PROXIES_FOLLOW: SignedDuration = SignedDuration::from_secs(3);
/// A version whose binary exits at once.
pub(super) const BROKEN: &str = "3.5.99";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) member: u64,
    pub(super) cluster: u64,
    pub(super) index: u64,
    /// 0 for correct data. Equal wrong data has the same number.
    pub(super) corrupt: u64,
}

/// A pod with its etcd.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) view: PodView,
    /// The process runs.
    pub(super) up: bool,
    /// Runs, but does not answer.
    pub(super) stopped: bool,
    /// Received entries that are not applied yet.
    pub(super) slow: u64,
    /// It returns no hash of its data.
    pub(super) mute: bool,
    /// Its compaction differs: its hashes are not comparable with the others.
    pub(super) apart: bool,
    /// It bootstraps a new cluster when it has no data.
    pub(super) seed: bool,
    /// Its data, when stored in the pod.
    pub(super) data: Option<Data>,
}

/// A claim with its volume.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) view: ClaimView,
    pub(super) data: Option<Data>,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) goal: Goal,
    pub(super) memory: Memory,
    pub(super) now: Timestamp,
    pub(super) pods: BTreeMap<String, Pod>,
    pub(super) claims: BTreeMap<String, Claim>,
    /// New members get volumes.
    pub(super) volumes: bool,
    /// Members, by position, that require authentication without a configured password.
    pub(super) locked: u8,
    /// The member list that the quorum of the one cluster agreed on.
    pub(super) members: Vec<Member>,
    pub(super) cluster_id: u64,
    pub(super) leader: u64,
    pub(super) clusters_started: usize,
    /// Minor version of the cluster: never decreases.
    pub(super) cluster_minor: u64,
    pub(super) acknowledged: u64,
    pub(super) log: Vec<Action>,
    /// The operator's memory of comparisons, lost with its process.
    compared: Option<Compared>,
    /// Findings about the members' data that operators recorded.
    recorded: DataComparison,
    /// Findings of the running operator.
    learned: DataComparison,
    observations: usize,
    next: u64,
    connected: BTreeMap<u64, Timestamp>,
    /// When pods were last in the client Service.
    in_service: BTreeMap<String, Timestamp>,
}

fn minor(version: &str) -> u64 {
    semver::Version::parse(version).unwrap().minor
}

impl World {
    pub(super) fn new(size: usize) -> Self {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Self {
            goal: Goal { size, version: "3.4.23".into(), ..Goal::default() },
            memory: Memory::default(),
            now,
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            volumes: false,
            locked: 0,
            members: Vec::new(),
            cluster_id: 0,
            leader: 0,
            clusters_started: 0,
            cluster_minor: 0,
            acknowledged: 10,
            log: Vec::new(),
            compared: None,
            recorded: DataComparison::default(),
            learned: DataComparison::default(),
            observations: 0,
            next: 1,
            connected: BTreeMap::new(),
            in_service: BTreeMap::new(),
        }
    }

    pub(super) fn with_volumes(self, volumes: bool) -> Self {
        Self { volumes, ..self }
    }

    pub(super) fn voters(&self) -> usize {
        self.members.iter().filter(|m| !m.is_learner).count()
    }

    pub(super) fn data(&self, name: &str) -> Option<&Data> {
        let pod = self.pods.get(name);
        match pod {
            Some(pod) if !pod.view.volume => pod.data.as_ref(),
            _ => self.claims.get(name)?.data.as_ref(),
        }
    }

    pub(super) fn data_mut(&mut self, name: &str) -> Option<&mut Option<Data>> {
        match self.pods.get_mut(name) {
            Some(pod) if !pod.view.volume => Some(&mut pod.data),
            _ => self.claims.get_mut(name).map(|claim| &mut claim.data),
        }
    }

    fn serves(&self, m: &Member) -> bool {
        let Some(name) = &m.pod else { return false };
        let up = self.pods.get(name).is_some_and(|p| p.up && !p.stopped && !p.view.ended);
        up && self.data(name).is_some_and(|d| d.member == m.id && d.cluster == self.cluster_id)
    }

    pub(super) fn has_quorum(&self) -> bool {
        let up = self.members.iter().filter(|m| !m.is_learner && self.serves(m)).count();
        self.voters() > 0 && up >= quorum(self.voters())
    }

    pub(super) fn observe(&mut self) -> Observed {
        self.elect();
        self.observations += 1;
        let healthy = self.has_quorum();
        let endpoints: BTreeMap<String, Endpoint> = self
            .members
            .iter()
            .filter(|m| self.serves(m))
            .map(|member| {
                let name = member.pod.clone().unwrap();
                // An old log: a few entries matter little compared with what a slow member has to apply. A
                // new one has none.
                let index = Some(self.data(&name).unwrap().index).filter(|index| *index > 0);
                let index = index.map_or(0, |index| index + 20_000);
                let endpoint = Endpoint {
                    member_id: member.id,
                    cluster_id: self.cluster_id,
                    leader: if healthy { self.leader } else { 0 },
                    raft_index: index,
                    applied: index.saturating_sub(self.pods[&name].slow),
                    is_learner: member.is_learner,
                    version: self.pods[&name].view.version.clone(),
                    linearizable: healthy && !member.is_learner,
                    revision: 7,
                    members: if member.is_learner { Vec::new() } else { self.members.clone() },
                    ..Endpoint::default()
                };
                (name, endpoint)
            })
            .collect();
        let mut silent = BTreeSet::new();
        let endpoints: BTreeMap<String, Endpoint> = (0..)
            .zip(endpoints)
            .filter_map(|(n, (name, endpoint))| {
                let locked = self.locked.checked_shr(n).unwrap_or_default() & 1 == 1;
                if locked {
                    silent.insert(name);
                    return None;
                }
                Some((name, endpoint))
            })
            .collect();
        let mut observed = Observed {
            now: self.now,
            hashes: BTreeMap::new(),
            compared_now: false,
            uncompared: Vec::new(),
            pods: self.pods.values().map(|p| p.view.clone()).collect(),
            claims: self.claims.values().map(|c| c.view.clone()).collect(),
            endpoints,
            silent,
            refused: BTreeSet::new(),
            fresh_name: format!("c-{:010}", self.next),
            volumes: self.volumes,
            storage_classes: None,
            backup: None,
            backups_unknown: false,
        };
        self.learned.note(&self.members, self.holds_same());
        // As in `controller`, plus extra comparisons, or a history would seldom have one.
        let mut compared = Compared::of(self.compared.take(), &self.memory, self.now, 0.5);
        compared.show(&mut observed);
        let besides = self.observations.is_multiple_of(20)
            && crate::plan::proved(&self.goal, &self.memory, &observed).is_ok();
        if compared.due(&self.goal, &self.memory, &observed) || besides {
            let sums = self.sums(&observed.endpoints);
            self.learned.compare(&self.members, &sums);
            self.learned.note(&self.members, self.holds_same());
            compared = compared.after((SignedDuration::ZERO, self.now), &observed, sums);
            compared.show_new(&mut observed);
        }
        self.compared = Some(compared);
        observed
    }

    fn sums(&self, endpoints: &BTreeMap<String, Endpoint>) -> BTreeMap<String, Hash> {
        let sum = |(name, _): (&String, &Endpoint)| {
            let hash = self.data(name).unwrap().corrupt as u32;
            (name.clone(), Hash { hash, revision: 7, compacted: 1 + i64::from(self.pods[name].apart) })
        };
        let has_hash = |(name, e): &(&String, &Endpoint)| e.has_sum() && !self.pods[*name].mute;
        endpoints.iter().filter(has_hash).map(sum).collect()
    }

    pub(super) fn is_corrupt(&self, member: &Member) -> bool {
        member.pod.as_ref().and_then(|name| self.data(name)).is_some_and(|data| data.corrupt > 0)
    }

    /// Corrupts the data of a member in a unique way.
    pub(super) fn spoil(&mut self, name: &str) {
        let way = self.id();
        if let Some(data) = self.data_mut(name).and_then(Option::as_mut) {
            data.corrupt = way;
        }
    }

    /// All voters hold the same data. One without data does not differ.
    fn holds_same(&self) -> bool {
        let voters = self.members.iter().filter(|m| !m.is_learner).filter_map(|m| m.pod.as_ref());
        let mut data = voters.filter_map(|name| self.data(name)).map(|data| data.corrupt);
        let first = data.next();
        data.all(|other| Some(other) == first)
    }

    /// A user removes the members with wrong data.
    pub(super) fn dismiss_corrupt(&mut self) {
        self.members = self.members.iter().filter(|m| !self.is_corrupt(m)).cloned().collect();
    }

    /// A new operator process, with the status as its only memory.
    pub(super) fn another_operator(&mut self) {
        self.compared = None;
        self.learned = self.recorded.clone();
    }

    /// One observation and its action.
    pub(super) fn step(&mut self) -> Decision {
        let (observed, decision) = self.act(usize::MAX);
        self.note(&observed, &decision);
        self.settle();
        decision
    }

    /// Steps to a decision beyond those of the client Service.
    pub(super) fn step_past_service(&mut self) -> Decision {
        for _ in 0..50 {
            let decision = self.step();
            match decision.action {
                Some(Action::LeaveService { .. } | Action::JoinService { .. }) => {}
                None if decision.leaving.is_some() => {}
                _ => return decision,
            }
        }
        panic!("the client Service is never as needed: {:?}", self.log);
    }

    /// One observation by an operator that stops within its action, after this many calls, or before its record.
    pub(super) fn interrupted_step(&mut self, calls: usize) {
        self.act(calls);
        self.another_operator();
        self.settle();
    }

    fn act(&mut self, calls: usize) -> (Observed, Decision) {
        let observed = self.observe();
        let decision = plan(&self.goal, &self.memory, &observed);
        if let Some(action) = decision.action.clone() {
            let input = RuleInput {
                goal: &self.goal,
                memory: &self.memory,
                observed: &observed,
                data: &self.learned,
            };
            let broken = broken(&input, &action);
            assert!(broken.is_empty(), "{action:?} breaks {broken:?}");
            self.check(&action);
            self.log.push(action.clone());
            self.execute(&action, calls);
        }
        (observed, decision)
    }

    /// As in `controller` and `status`: the record after a reconciliation.
    fn note(&mut self, observed: &Observed, decision: &Decision) {
        self.recorded = self.learned.clone();
        match &decision.action {
            Some(Action::Remember(memory)) => self.memory = (**memory).clone(),
            // The record of a pending member is cleared once its pod was observed.
            _ if self.memory.pending.as_ref().is_some_and(|name| observed.pod(name).is_some()) => {
                self.memory.pending = None;
            }
            _ => {}
        }
        if let Some(health) = crate::plan::assess(observed) {
            self.memory.voters = health.voters.len();
            self.memory.members = health.voters.iter().filter_map(|m| m.pod.clone()).collect();
            let mut versions = health
                .voters
                .iter()
                .map(|m| observed.endpoints.get(m.pod.as_ref()?).map(|e| e.version.clone()));
            if let Some(Some(first)) = versions.next()
                && versions.all(|v| v.as_ref() == Some(&first))
            {
                self.memory.version = first;
            }
        }
        if let Some(Action::RemoveMember { why: crate::plan::Removal::LateLearner(reason), .. }) =
            &decision.action
        {
            let failure = Failure { at: self.now, generation: self.goal.generation, reason: reason.clone() };
            self.memory.failure = Some(failure);
        } else if self.memory.voters >= self.goal.size {
            self.memory.failure = None;
        }
    }

    /// Whether a proxy still sends clients to a ready pod whose member serves.
    fn has_clients(&self, name: &str) -> bool {
        let member = self.members.iter().find(|m| m.pod.as_deref() == Some(name));
        let pod = self.pods.get(name).is_some_and(|pod| pod.view.ready && !pod.view.deleting);
        let last = self.in_service.get(name);
        pod && member.is_some_and(|m| self.serves(m))
            && last.is_some_and(|at| self.now.duration_since(*at) < PROXIES_FOLLOW)
    }

    /// Checks against the true state, which the observer lacks.
    fn check(&self, action: &Action) {
        if let Action::RemoveMember { name, .. } = action {
            assert!(!self.has_clients(name), "removed {name} while clients are sent to it");
        }
        if let Action::SetVersion { name, .. } | Action::Restart { name, .. } = action {
            let others = self.voters() > 2 && self.has_quorum();
            assert!(!others || !self.has_clients(name), "restarted {name} while clients are sent to it");
        }
        if action.changes_membership() {
            assert!(self.has_quorum(), "changed membership without a quorum: {action:?}");
        }
        match action {
            Action::DeletePod { name, .. }
                if !self.pods[name].view.volume && self.memory.cluster_id.is_some() =>
            {
                assert!(
                    !self.members.iter().any(|m| m.pod.as_ref() == Some(name)),
                    "deleted the data of a member: {name}"
                );
            }
            Action::Restart { name, .. } => {
                assert!(
                    self.claims.get(name).is_some_and(|claim| !claim.view.deleting),
                    "restarted {name}, whose data does not outlive its pod"
                );
            }
            Action::ReleaseClaim { name, .. } => {
                assert!(
                    !self.members.iter().any(|m| m.pod.as_ref() == Some(name)),
                    "deleted the volume of a member: {name}"
                );
            }
            Action::SetVersion { to, .. } if self.has_quorum() => {
                assert!(minor(to) >= self.cluster_minor, "below the version of the cluster: {to}");
            }
            _ => {}
        }
    }

    /// Runs until nothing is left to do, for at most `observations` observations.
    pub(super) fn converge(&mut self, observations: usize) -> bool {
        (0..observations).any(|_| self.step().progress == Progress::Steady && self.is_as_desired())
    }

    pub(super) fn is_as_desired(&self) -> bool {
        let volumes = self.pods.values().filter(|pod| pod.view.volume).count();
        self.voters() == self.goal.size
            && self.members.len() == self.goal.size
            && self.pods.len() == self.goal.size
            && self.claims.len() == volumes
            && (self.goal.size < 3 || self.claims.values().all(|claim| !claim.view.deleting))
            && self.members.iter().all(|m| self.serves(m))
            && self.pods.values().all(|pod| pod.view.version == self.goal.version)
            && self.memory.version == self.goal.version
            && self.memory.pending.is_none()
            && self.pods.values().all(|pod| pod.view.serving == Serving::In)
    }

    pub(super) fn nth_pod(&self, n: usize) -> Option<String> {
        self.pods.keys().nth(n % self.pods.len().max(1)).cloned()
    }

    /// Voters with all their data that are not terminating.
    pub(super) fn whole(&self) -> Vec<String> {
        let holds = |name: &String| {
            let pod = self.pods.get(name);
            let there = pod.is_none_or(|pod| pod.view.volume || (!pod.view.ended && !pod.view.deleting));
            there && self.data(name).is_some_and(|d| d.corrupt == 0)
        };
        self.members.iter().filter(|m| !m.is_learner).filter_map(|m| m.pod.clone()).filter(holds).collect()
    }

    /// Whether a quorum of voters would still have data without this one's.
    pub(super) fn survives_loss_of(&self, name: &str) -> bool {
        let left = self.whole().iter().filter(|other| *other != name).count();
        self.cluster_id != 0 && self.memory.cluster_id.is_some() && left >= quorum(self.voters())
    }
}
