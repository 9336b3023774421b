//! A small model of etcd and Kubernetes: it does what `plan` says, with etcd's own refusals, lets things break, and
//! checks that no action was ever one that the safety rules forbid.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Action, Decision, Goal, Progress, plan};
use crate::observed::{Endpoint, Member, Memory, Observed, PodView, quorum};

/// A pod with its etcd.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) view: PodView,
    /// The process runs.
    pub(super) up: bool,
    /// Runs, but does not answer.
    pub(super) stopped: bool,
    /// It was started as a new cluster with this id.
    pub(super) seed_of: Option<u64>,
}

/// The world.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) goal: Goal,
    pub(super) memory: Memory,
    pub(super) now: Timestamp,
    pub(super) pods: BTreeMap<String, Pod>,
    /// What the quorum of the one cluster agreed on.
    pub(super) members: Vec<Member>,
    pub(super) cluster_id: u64,
    pub(super) leader: u64,
    pub(super) clusters_started: usize,
    pub(super) log: Vec<Action>,
    next: u64,
    connected: BTreeMap<u64, Timestamp>,
    index: u64,
}

impl World {
    pub(super) fn new(size: usize) -> Self {
        Self {
            goal: Goal { size, paused: false, version: "3.4.23".into() },
            memory: Memory::default(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            pods: BTreeMap::new(),
            members: Vec::new(),
            cluster_id: 0,
            leader: 0,
            clusters_started: 0,
            log: Vec::new(),
            next: 1,
            connected: BTreeMap::new(),
            index: 10,
        }
    }

    pub(super) fn voters(&self) -> usize {
        self.members.iter().filter(|m| !m.is_learner).count()
    }

    fn serves(&self, m: &Member) -> bool {
        m.pod.as_ref().and_then(|name| self.pods.get(name)).is_some_and(|p| p.up && !p.stopped)
    }

    pub(super) fn has_quorum(&self) -> bool {
        let up = self.members.iter().filter(|m| !m.is_learner && self.serves(m)).count();
        self.voters() > 0 && up >= quorum(self.voters())
    }

    pub(super) fn observe(&mut self) -> Observed {
        self.elect();
        let healthy = self.has_quorum();
        let endpoints = self
            .pods
            .values()
            .filter(|p| p.up && !p.stopped)
            .filter_map(|p| {
                let member = self.members.iter().find(|m| m.pod.as_deref() == Some(&p.view.name))?;
                let endpoint = Endpoint {
                    member_id: member.id,
                    cluster_id: self.cluster_id,
                    leader: if healthy { self.leader } else { 0 },
                    raft_index: self.index,
                    applied: self.index,
                    is_learner: member.is_learner,
                    version: "3.4.23".into(),
                    errors: Vec::new(),
                    linearizable: healthy && !member.is_learner,
                    members: if member.is_learner { Vec::new() } else { self.members.clone() },
                };
                Some((p.view.name.clone(), endpoint))
            })
            .collect();
        Observed {
            now: self.now,
            pods: self.pods.values().map(|p| p.view.clone()).collect(),
            endpoints,
            fresh_name: format!("c-{:010}", self.next),
        }
    }

    /// One look and what follows. `crash` stops the operator after the action and before anything else is written.
    pub(super) fn step(&mut self) -> Decision {
        let seen = self.observe();
        let decision = plan(&self.goal, &self.memory, &seen);
        if let Some(action) = decision.action.clone() {
            self.check(&action);
            self.log.push(action.clone());
            self.execute(&action);
        }
        // As in `controller`: the note of a member is dropped once its pod was seen, the size follows the quorum.
        let remembered = matches!(decision.action, Some(Action::Remember(_)));
        if !remembered && self.memory.pending.as_ref().is_some_and(|name| seen.pod(name).is_some()) {
            self.memory.pending = None;
        }
        if let Some(health) = super::assess(&seen) {
            self.memory.voters = health.voters.len();
        }
        self.settle();
        decision
    }

    /// The safety rules, as demands on every action.
    fn check(&self, action: &Action) {
        assert!(!self.goal.paused, "acted while paused: {action:?}");
        if action.changes_membership() {
            assert!(self.has_quorum(), "changed membership without a quorum: {action:?}");
        }
        let healthy = |except: u64| {
            self.members.iter().filter(|m| !m.is_learner && m.id != except && self.serves(m)).count()
        };
        match action {
            Action::CreateSeed { .. } => {
                assert!(self.memory.cluster_id.is_none(), "started a second cluster");
                assert!(self.pods.is_empty(), "started a cluster beside pods");
            }
            Action::RemoveMember { id, .. } => {
                let member = self.members.iter().find(|m| m.id == *id).unwrap();
                if !member.is_learner {
                    let left = self.voters() - 1;
                    assert!(left > 0, "removed the last voter");
                    assert!(healthy(*id) >= quorum(left), "removed a voter and with it the quorum");
                    assert_ne!(*id, self.leader, "removed the leader");
                    let all_well = healthy(0) == self.voters();
                    assert!(
                        !self.serves(member) || all_well,
                        "removed a healthy member while another is not"
                    );
                    assert!(
                        self.voters() > self.goal.size || !self.serves(member),
                        "removed a healthy member that is wanted"
                    );
                }
            }
            Action::AddLearner { .. } => {
                assert_eq!(healthy(0), self.voters(), "added a member while one is not healthy");
                assert!(self.members.iter().all(|m| !m.is_learner), "added a second learner");
                assert!(self.voters() < self.goal.size);
            }
            Action::Promote { id, .. } => {
                let member = self.members.iter().find(|m| m.id == *id).unwrap();
                assert!(
                    member.is_learner && member.started && self.serves(member),
                    "promoted one that did not start"
                );
                assert_eq!(healthy(0), self.voters(), "promoted while one is not healthy");
            }
            Action::DeletePod { name, .. } => {
                // A first member that ended before the cluster was known cannot come back.
                let failed_seed = self.memory.cluster_id.is_none() && self.pods[name].view.ended;
                assert!(
                    failed_seed || !self.members.iter().any(|m| m.pod.as_deref() == Some(name)),
                    "deleted the pod of a member: {name}"
                );
            }
            Action::MoveLeader { id, name, via } => {
                let member = self.members.iter().find(|m| m.id == *id).unwrap();
                assert!(
                    !member.is_learner && self.serves(member),
                    "moved leadership to {name}, which cannot lead"
                );
                assert!(self.members.iter().any(|m| m.id == self.leader && m.pod.as_ref() == Some(via)));
            }
            Action::CreateMember { name, initial_cluster } => {
                assert!(!self.pods.contains_key(name));
                assert_eq!(initial_cluster.len(), self.members.len());
            }
            Action::Remember(memory) => {
                assert!(self.memory.cluster_id.is_none() || memory.cluster_id == self.memory.cluster_id);
            }
        }
    }

    fn execute(&mut self, action: &Action) {
        match action {
            Action::Remember(memory) => self.memory = memory.clone(),
            Action::CreateSeed { name } => {
                self.clusters_started += 1;
                (self.members, self.cluster_id, self.leader) = (Vec::new(), 0, 0);
                let seed = 1000 + self.next;
                self.create(name, Some(seed));
            }
            Action::CreateMember { name, .. } => self.create(name, None),
            Action::AddLearner { name, .. } => {
                let patient = SignedDuration::from_secs(5);
                let connected = self.members.iter().all(|m| {
                    m.id == self.leader
                        || self.connected.get(&m.id).is_some_and(|at| self.now.duration_since(*at) >= patient)
                });
                if connected {
                    let id = self.id();
                    self.members.push(Member {
                        id,
                        pod: Some(name.clone()),
                        peer_url: format!("http://{name}:2380"),
                        started: false,
                        is_learner: true,
                    });
                    self.index += 1;
                }
            }
            Action::Promote { id, .. } => {
                if let Some(m) = self.members.iter_mut().find(|m| m.id == *id) {
                    m.is_learner = false;
                }
            }
            Action::MoveLeader { id, .. } => self.leader = *id,
            Action::RemoveMember { id, .. } => self.members.retain(|m| m.id != *id),
            Action::DeletePod { name, .. } => drop(self.pods.remove(name)),
        }
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn create(&mut self, name: &str, seed_of: Option<u64>) {
        self.next += 1;
        let view = PodView {
            name: name.into(),
            uid: format!("uid-{}", self.next),
            ip: Some("10.0.0.1".into()),
            created: Some(self.now),
            version: self.goal.version.clone(),
            ..PodView::default()
        };
        self.pods.insert(name.into(), Pod { view, up: false, stopped: false, seed_of });
    }

    /// What happens by itself: pods start, members make themselves known, a leader is elected.
    pub(super) fn settle(&mut self) {
        let now = self.now;
        for pod in self.pods.values_mut().filter(|p| !p.up && !p.view.deleting && !p.view.ended) {
            pod.up = true;
            pod.view.started = Some(now);
            pod.view.ever_started = true;
        }
        for name in self.pods.keys().cloned().collect::<Vec<_>>() {
            if let Some(seed) = self.pods[&name].seed_of
                && self.members.is_empty()
                && self.cluster_id == 0
            {
                self.cluster_id = seed;
                let id = self.id();
                let peer_url = format!("http://{name}:2380");
                self.members.push(Member {
                    id,
                    pod: Some(name.clone()),
                    peer_url,
                    started: true,
                    is_learner: false,
                });
            }
        }
        let up: Vec<u64> = self.members.iter().filter(|m| self.serves(m)).map(|m| m.id).collect();
        self.connected.retain(|id, _| up.contains(id));
        for id in &up {
            self.connected.entry(*id).or_insert(now);
        }
        if self.has_quorum() {
            for member in &mut self.members {
                member.started |= up.contains(&member.id);
            }
        }
        self.elect();
        self.now += SignedDuration::from_millis(500);
        let ready: Vec<String> =
            self.members.iter().filter(|m| self.serves(m)).filter_map(|m| m.pod.clone()).collect();
        for pod in self.pods.values_mut() {
            let is = ready.contains(&pod.view.name);
            if pod.view.ready != is || pod.view.ready_since.is_none() {
                (pod.view.ready, pod.view.ready_since) = (is, Some(self.now));
            }
        }
    }

    /// A quorum always has a leader that serves.
    fn elect(&mut self) {
        let leads = |m: &&Member| !m.is_learner && self.serves(m);
        if self.has_quorum() && !self.members.iter().any(|m| m.id == self.leader && leads(&m)) {
            self.leader = self.members.iter().find(leads).map_or(0, |m| m.id);
        }
    }

    /// Runs until nothing is left to do, at most so many looks.
    pub(super) fn converge(&mut self, looks: usize) -> bool {
        (0..looks).any(|_| self.step().progress == Progress::Steady && self.is_as_wanted())
    }

    pub(super) fn is_as_wanted(&self) -> bool {
        self.voters() == self.goal.size
            && self.members.len() == self.goal.size
            && self.pods.len() == self.goal.size
            && self.members.iter().all(|m| self.serves(m))
            && self.memory.pending.is_none()
    }

    pub(super) fn nth_pod(&self, n: usize) -> Option<String> {
        self.pods.keys().nth(n % self.pods.len().max(1)).cloned()
    }

    /// Whether as many voters as are needed would be left with their data without this pod.
    pub(super) fn survives_loss_of(&self, name: &str) -> bool {
        let holds = |pod: &Pod| !pod.view.ended && !pod.view.deleting;
        let whole = |m: &&Member| {
            let pod = m.pod.as_deref().filter(|pod| *pod != name).and_then(|pod| self.pods.get(pod));
            !m.is_learner && pod.is_some_and(holds)
        };
        self.cluster_id != 0
            && self.memory.cluster_id.is_some()
            && self.members.iter().filter(whole).count() >= quorum(self.voters())
    }
}
