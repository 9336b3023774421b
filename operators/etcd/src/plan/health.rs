//! Health and leadership: the facts that the safety rules use.

use std::collections::{BTreeMap, BTreeSet};

use crate::observed::{Endpoint, Member, Observed, quorum};

/// A member further behind the leader than this many entries does not count as healthy.
const LAG_MAX: u64 = 5000;

/// Combined answers of the members.
#[derive(Clone, Debug)]
pub struct Health<'a> {
    /// Id of the cluster, as reported by the followers of the leader.
    pub cluster_id: u64,
    pub leader: u64,
    pub voters: Vec<&'a Member>,
    pub learners: Vec<&'a Member>,
    pub unhealthy: Vec<&'a Member>,
    /// Ids of unhealthy voters that only lag: they answer and follow the leader, far behind.
    pub catching_up: Vec<u64>,
    /// All followers of the leader have the same member list.
    pub agreed: bool,
    /// Pod of the member that receives changes: the leader, otherwise a healthy voter.
    pub via: String,
    /// The leader's log index, the measure for learners.
    pub leader_index: u64,
}

impl Health<'_> {
    #[must_use]
    pub fn healthy(&self) -> usize {
        self.voters.len() - self.unhealthy.len()
    }

    #[must_use]
    pub fn is_healthy(&self, id: u64) -> bool {
        self.voters.iter().any(|m| m.id == id) && !self.unhealthy.iter().any(|m| m.id == id)
    }

    /// Whether a voter is unhealthy only because it lags far behind the leader it follows.
    #[must_use]
    pub fn is_catching_up(&self, id: u64) -> bool {
        self.catching_up.contains(&id)
    }
}

/// The proof that a quorum works: a linearizable read was answered, and more than half of the voters were
/// observed healthy, following one leader. `None` means that membership must not be changed.
#[must_use]
pub fn prove(observed: &Observed) -> Option<Health<'_>> {
    let health = assess(observed)?;
    (health.healthy() >= quorum(health.voters.len())).then_some(health)
}

/// As [`prove`], without the observed majority: enough to report that clients are served.
#[must_use]
pub fn assess(observed: &Observed) -> Option<Health<'_>> {
    let (leader, cluster_id) = common_leader(observed)?;
    let follows = |e: &Endpoint| e.leader == leader && e.cluster_id == cluster_id;
    if !observed.endpoints.values().any(|e| follows(e) && e.linearizable && !e.is_learner) {
        return None;
    }
    // The leader's own list is the newest: it applies changes first. A learner has no list.
    let voting = || observed.endpoints.values().filter(|e| follows(e) && !e.is_learner);
    let list = voting().find(|e| e.member_id == leader).or_else(|| voting().max_by_key(|e| e.applied))?;
    let (learners, voters): (Vec<&Member>, Vec<&Member>) = list.members.iter().partition(|m| m.is_learner);
    // A leader that is not in the list: the last change has not reached this member yet.
    if !voters.iter().any(|m| m.id == leader) {
        return None;
    }
    let follower = |m: &Member| {
        let name = m.pod.as_ref()?;
        observed.pod(name).filter(|pod| !pod.deleting && !pod.ended)?;
        observed.endpoints.get(name).filter(|e| follows(e) && !e.is_learner && e.member_id == m.id)
    };
    let healthy =
        |m: &Member| follower(m).is_some_and(|e| list.raft_index.saturating_sub(e.applied) <= LAG_MAX);
    let unhealthy: Vec<&Member> = voters.iter().copied().filter(|m| !healthy(m)).collect();
    let catching_up = unhealthy.iter().filter(|m| follower(m).is_some()).map(|m| m.id).collect();
    let pod_of = |id: u64| voters.iter().find(|m| m.id == id).and_then(|m| m.pod.clone());
    let via = pod_of(leader)
        .filter(|name| observed.endpoints.contains_key(name))
        .or_else(|| voters.iter().find(|m| healthy(m)).and_then(|m| m.pod.clone()))?;
    // Voters apply every change; a learner may lag by design.
    let agreed = observed
        .endpoints
        .values()
        .filter(|e| follows(e) && voters.iter().any(|m| m.id == e.member_id))
        .all(|e| e.members == list.members);
    Some(Health {
        cluster_id,
        leader,
        voters,
        learners,
        unhealthy,
        catching_up,
        agreed,
        via,
        leader_index: list.raft_index,
    })
}

/// The leader and cluster id that most of the answers agree on.
fn common_leader(observed: &Observed) -> Option<(u64, u64)> {
    let mut votes: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for endpoint in observed.endpoints.values().filter(|e| e.leader != 0 && !e.is_learner) {
        *votes.entry((endpoint.leader, endpoint.cluster_id)).or_default() += 1;
    }
    votes.into_iter().max_by_key(|(_, count)| *count).map(|(key, _)| key)
}

/// Whether the cluster has an alarm. Every member reports all alarms.
#[must_use]
pub fn has_alarm(observed: &Observed, name: &str) -> bool {
    !alarms(observed, name).is_empty()
}

/// Ids of the members with an alarm; 0 for an alarm without a member. etcd writes `memberID:7 alarm:CORRUPT`.
pub(super) fn alarms(observed: &Observed, name: &str) -> BTreeSet<u64> {
    let needle = format!("alarm:{name}");
    let all = observed.endpoints.values().flat_map(|e| &e.errors).filter(|error| error.contains(&needle));
    let id = |error: &String| {
        error.split_whitespace().find_map(|word| word.strip_prefix("memberID:")?.parse().ok())
    };
    all.map(|error| id(error).unwrap_or_default()).collect()
}
