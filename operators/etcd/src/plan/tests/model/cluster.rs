//! Effects of actions, and progress without the operator.

use jiff::SignedDuration;

use super::{BROKEN, Claim, Data, Pod, World, minor};
use crate::observed::{ClaimView, End, Member, PodView, Serving, Start};
use crate::plan::Action;

impl World {
    /// `calls`: number of API calls after which the operator stops.
    pub(super) fn execute(&mut self, action: &Action, calls: usize) {
        match action {
            Action::Remember(_) => {}
            Action::CreateSeed { name, version, volume } => {
                self.clusters_started += usize::from(!self.claims.contains_key(name));
                self.create(name, version, *volume, true, Start::Empty, calls);
            }
            Action::CreateMember { name, version, volume, start, .. } => {
                self.create(name, version, *volume, false, *start, calls);
            }
            Action::Seal { name, .. } => {
                let pod = self.pods.get_mut(name).unwrap();
                (pod.view.start, pod.seed) = (Start::Refused, false);
            }
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
                }
            }
            Action::Promote { id, .. } => {
                if let Some(m) = self.members.iter_mut().find(|m| m.id == *id) {
                    m.is_learner = false;
                }
            }
            Action::MoveLeader { id, .. } => self.leader = *id,
            Action::LeaveService { name, .. } => self.label(name, Serving::Out),
            Action::JoinService { name, .. } => self.label(name, Serving::In),
            Action::RemoveMember { id, .. } => self.members.retain(|m| m.id != *id),
            Action::SetVersion { name, to, volume, .. } => {
                if *volume && let Some(claim) = self.claims.get_mut(name) {
                    claim.view.version = to.clone();
                }
                if *volume && calls < 2 {
                    return;
                }
                let pod = self.pods.get_mut(name).unwrap();
                pod.view.version = to.clone();
                (pod.up, pod.view.restarts, pod.view.waiting) = (false, 1, None);
            }
            Action::DeletePod { name, .. } | Action::Restart { name, .. } => drop(self.pods.remove(name)),
            Action::ReleaseClaim { name, .. } => drop(self.claims.remove(name)),
            Action::Maintain(_) => {}
        }
    }

    fn label(&mut self, name: &str, serving: Serving) {
        let pod = self.pods.get_mut(name).unwrap();
        (pod.view.serving, pod.view.serving_since) = (serving, Some(self.now));
    }

    pub(super) fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn create(&mut self, name: &str, version: &str, volume: bool, seed: bool, start: Start, calls: usize) {
        self.next += 1;
        let uid = format!("uid-{}", self.next);
        if volume {
            let view = ClaimView {
                name: name.into(),
                uid: uid.clone(),
                version: version.into(),
                owned: true,
                ..ClaimView::default()
            };
            self.claims.entry(name.into()).or_insert(Claim { view, data: None }).view.version =
                version.into();
            if calls < 2 {
                return;
            }
        }
        let view = PodView {
            name: name.into(),
            uid,
            ip: Some("10.0.0.1".into()),
            created: Some(self.now),
            version: version.into(),
            volume,
            start,
            serving_since: Some(self.now),
            ..PodView::default()
        };
        let pod =
            Pod { view, up: false, stopped: false, slow: 0, mute: false, apart: false, seed, data: None };
        self.pods.insert(name.into(), pod);
    }

    /// Whether the etcd of a pod starts: with its data, or without when that is correct.
    fn start(&mut self, name: &str) -> bool {
        let pod = &self.pods[name];
        let (seed, start, version) = (pod.seed, pod.view.start, pod.view.version.clone());
        if version == BROKEN || minor(&version) < self.cluster_minor {
            return false;
        }
        if pod.view.volume && !self.claims.contains_key(name) {
            return false;
        }
        if self.data(name).is_some() {
            return true;
        }
        let member = self.members.iter().find(|m| m.pod.as_deref() == Some(name)).cloned();
        let data = match (start, seed, member) {
            (Start::Empty, true, _) => {
                assert!(self.memory.cluster_id.is_none(), "{name} started a second, empty cluster");
                let member = self.id();
                self.cluster_id = 1000 + self.next;
                self.members = vec![Member {
                    id: member,
                    pod: Some(name.to_owned()),
                    peer_url: format!("http://{name}:2380"),
                    started: true,
                    is_learner: false,
                }];
                self.acknowledged = 10;
                Data { member, cluster: self.cluster_id, index: 10, corrupt: 0 }
            }
            (Start::Empty, false, Some(member)) => {
                assert!(member.is_learner || !member.started, "{name} came back without its data");
                Data { member: member.id, cluster: self.cluster_id, index: 0, corrupt: 0 }
            }
            _ => return false,
        };
        if let Some(place) = self.data_mut(name) {
            *place = Some(data);
        }
        true
    }

    /// Progress without the operator: pods start, members publish their names, a leader is elected, clients
    /// write.
    pub(in crate::plan) fn settle(&mut self) {
        let now = self.now;
        // A claim is protected while a pod uses it; a terminated pod does not.
        let uses = |name: &String| self.pods.get(name).is_some_and(|pod| !pod.view.ended);
        self.claims.retain(|name, claim| !claim.view.deleting || uses(name));
        for name in self.pods.keys().cloned().collect::<Vec<_>>() {
            let pod = &self.pods[&name];
            if pod.up || pod.view.deleting || pod.view.ended {
                continue;
            }
            let starts = self.start(&name);
            let wiped = self.data(&name).is_none() && self.pods[&name].view.start == Start::Refused;
            let pod = self.pods.get_mut(&name).unwrap();
            if starts {
                pod.up = true;
                pod.view.started = Some(now);
                pod.view.waiting = None;
                pod.view.ever_started = true;
            } else {
                pod.view.started = None;
                pod.view.last_end = wiped.then_some(End::NoData);
                pod.view.restarts += 1;
                pod.view.waiting = Some("CrashLoopBackOff".into());
            }
        }
        let up: Vec<u64> = self.members.iter().filter(|m| self.serves(m)).map(|m| m.id).collect();
        self.connected.retain(|id, _| up.contains(id));
        for id in &up {
            self.connected.entry(*id).or_insert(now);
        }
        self.elect();
        if self.has_quorum() {
            self.acknowledged += 1;
            let index = self.acknowledged;
            let leader = self.members.iter().find(|m| m.id == self.leader).and_then(|m| m.pod.clone());
            let leads = leader.and_then(|name| self.data(&name)).map_or(0, |data| data.corrupt);
            let serving: Vec<String> =
                self.members.iter().filter(|m| self.serves(m)).filter_map(|m| m.pod.clone()).collect();
            for name in &serving {
                if let Some(data) = self.data_mut(name).and_then(Option::as_mut) {
                    // A new member receives all data of the leader.
                    data.corrupt = if data.index == 0 { leads } else { data.corrupt };
                    data.index = index;
                }
            }
            for member in &mut self.members {
                member.started |= up.contains(&member.id);
            }
            let versions = self.members.iter().filter(|m| !m.is_learner).map(|m| {
                m.pod.as_ref().filter(|_| self.serves(m)).map(|name| minor(&self.pods[name].view.version))
            });
            // etcd decides its cluster version once all members report theirs.
            if let Some(Some(lowest)) = versions.min() {
                self.cluster_minor = self.cluster_minor.max(lowest);
            }
        }
        self.now += SignedDuration::from_millis(500);
        let ready: Vec<String> =
            self.members.iter().filter(|m| self.serves(m)).filter_map(|m| m.pod.clone()).collect();
        for pod in self.pods.values_mut() {
            let is = ready.contains(&pod.view.name);
            if pod.view.ready != is || pod.view.ready_since.is_none() {
                (pod.view.ready, pod.view.ready_since) = (is, Some(self.now));
            }
            if is && pod.view.serving != Serving::Out {
                self.in_service.insert(pod.view.name.clone(), self.now);
            }
        }
    }

    /// A quorum always has a serving leader, one of those with the longest log.
    pub(super) fn elect(&mut self) {
        if !self.has_quorum() {
            return;
        }
        let index = |m: &Member| m.pod.as_ref().and_then(|name| self.data(name)).map_or(0, |d| d.index);
        let serving = || self.members.iter().filter(|m| !m.is_learner && self.serves(m));
        let longest = serving().map(index).max().unwrap_or_default();
        assert!(
            longest >= self.acknowledged,
            "acknowledged writes are lost: {longest} of {}",
            self.acknowledged
        );
        if !serving().any(|m| m.id == self.leader && index(m) == longest) {
            self.leader = serving().find(|m| index(m) == longest).map_or(0, |m| m.id);
        }
    }
}
