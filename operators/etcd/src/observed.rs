//! What was seen of a cluster in one look: pods, and what each etcd member says for itself. Plain data, so that
//! decisions about it need neither a cluster nor a clock.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// One look at a cluster.
#[derive(Clone, Debug)]
pub struct Observed {
    /// When.
    pub now: Timestamp,
    /// The pods that the object owns, whatever their state, ordered by name.
    pub pods: Vec<PodView>,
    /// What the etcd in a pod says, by name of the pod. Absent when it did not answer.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// A name that no member ever had, for the case that one is needed.
    pub fresh_name: String,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodView {
    /// Name, also that of its member.
    pub name: String,
    /// Uid, so that never a later pod of the same name is deleted.
    pub uid: String,
    /// Address, once it has one.
    pub ip: Option<String>,
    /// Deletion has begun.
    pub deleting: bool,
    /// When its end is due.
    pub ends_by: Option<Timestamp>,
    /// It ended for good: phase Failed or Succeeded.
    pub ended: bool,
    /// Condition Ready.
    pub ready: bool,
    /// Since when the condition Ready is what it is.
    pub ready_since: Option<Timestamp>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When the running etcd process was started.
    pub started: Option<Timestamp>,
    /// The etcd process ran at least once: the pod may hold data.
    pub ever_started: bool,
    /// How often the etcd process was restarted.
    pub restarts: i32,
    /// The last end was for want of memory: more of the same member will not help, and replacing it neither.
    pub out_of_memory: bool,
    /// Why it is not running, in the words of Kubernetes.
    pub waiting: Option<String>,
    /// The etcd version it was made for.
    pub version: String,
}

/// What one etcd member says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Its id.
    pub member_id: u64,
    /// The id of the cluster it believes to be in.
    pub cluster_id: u64,
    /// The member that leads, 0 when it knows none.
    pub leader: u64,
    /// Last entry of its log.
    pub raft_index: u64,
    /// Last entry it applied.
    pub applied: u64,
    /// It has no vote.
    pub is_learner: bool,
    /// Its etcd version.
    pub version: String,
    /// Errors and alarms that it reports.
    pub errors: Vec<String>,
    /// It answered a read that needs the quorum.
    pub linearizable: bool,
    /// The members it knows, ordered by id.
    pub members: Vec<Member>,
}

/// A member in a member list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Id.
    pub id: u64,
    /// Name of its pod, told from its peer URL; none when that URL is not one of ours.
    pub pod: Option<String>,
    /// Its first peer URL.
    pub peer_url: String,
    /// It started at least once and made its name known.
    pub started: bool,
    /// It has no vote.
    pub is_learner: bool,
}

impl Member {
    /// How to speak of it.
    #[must_use]
    pub fn label(&self) -> String {
        self.pod.clone().unwrap_or_else(|| format!("{:x} ({})", self.id, self.peer_url))
    }
}

/// What the operator must not forget. It lives in the status of the object and is written before it is relied on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Id of the etcd cluster. Once written, no member is ever started as a new cluster.
    pub cluster_id: Option<String>,
    /// The member that is being added.
    pub pending: Option<String>,
    /// The etcd version that the members run.
    pub version: String,
    /// Number of voting members when the quorum was last proved.
    pub voters: usize,
}

/// A member count that can decide: more than half.
#[must_use]
pub const fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

impl Observed {
    /// The pod of a name.
    #[must_use]
    pub fn pod(&self, name: &str) -> Option<&PodView> {
        self.pods.iter().find(|pod| pod.name == name)
    }
}
