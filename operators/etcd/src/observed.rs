//! What was seen of a cluster in one look: pods, and what each etcd member says for itself. Plain data, so that
//! decisions about it need neither a cluster nor a clock.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// One look at a cluster.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub now: Timestamp,
    /// The pods that the object owns, whatever their state, ordered by name.
    pub pods: Vec<PodView>,
    /// The claims of the object, ordered by name; not those that are kept for people.
    pub claims: Vec<ClaimView>,
    /// What the etcd in a pod says, by name of the pod. Absent when it did not answer.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Pods whose etcd answers, but says nothing of itself to who has not logged in: authentication is on.
    pub silent: BTreeSet<String>,
    /// Pods whose etcd does not take the password that the Secret says.
    pub refused: BTreeSet<String>,
    /// Sums over the data of voters, by name of the pod, of the last comparison; none when others have a vote by now.
    pub hashes: BTreeMap<String, Hash>,
    /// The sums come from a comparison made for this very look, of the present voters.
    pub compared_now: bool,
    /// Voters that could not be compared with the others, several times in a row.
    pub uncompared: Vec<String>,
    /// A new member gets a volume.
    pub volumes: bool,
    /// Names of the StorageClasses; none where they are not known.
    pub storage_classes: Option<BTreeSet<String>>,
    /// What is known about backups of this cluster; none when nobody makes any.
    pub backup: Option<BackupView>,
    /// The EtcdBackups were not listed yet, or cannot be: `backup` says nothing.
    pub backups_unknown: bool,
    /// A name that no member ever had, for the case that one is needed.
    pub fresh_name: String,
}

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
    pub created: Option<Timestamp>,
    /// When the running etcd process was started.
    pub started: Option<Timestamp>,
    /// The etcd process ran at least once: the pod may hold data.
    pub ever_started: bool,
    /// How often the etcd process was restarted since its version was set.
    pub restarts: i32,
    /// How often it was before.
    pub restarts_before: i32,
    /// Why the etcd process ended last, where the end of its log or Kubernetes names the cause.
    pub last_end: Option<End>,
    /// Why it is not running, in the words of Kubernetes.
    pub waiting: Option<String>,
    /// The etcd version it was made for, or told to run since.
    pub version: String,
    /// Its data is on a volume.
    pub volume: bool,
    /// How its etcd starts when it finds no data.
    pub start: Start,
}

impl PodView {
    /// Whether etcd found its data directory empty and does not run: what the member wrote is lost.
    #[must_use]
    pub fn has_lost_data(&self) -> bool {
        self.last_end == Some(End::NoData) && self.started.is_none()
    }
}

/// Why an etcd process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ran out of memory. A replacement would, too.
    OutOfMemory,
    DiskFull,
    /// It found no data where its own should be, and was not to start without ([`Start::Refused`]).
    NoData,
}

/// How an etcd starts when it finds no data. That is right once; afterwards data that is missing was lost, and a member
/// that starts without it would answer as if nothing had ever been written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// As its arguments say, for ever: the predecessor made the pod.
    #[default]
    Fixed,
    /// As a member that never had data.
    Empty,
    /// Not at all.
    Refused,
}

/// A claim for a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimView {
    /// Name, also that of its member.
    pub name: String,
    pub uid: String,
    /// Deletion has begun: it goes when its pod is gone.
    pub deleting: bool,
    /// The etcd version that wrote to it, or may have.
    pub version: String,
    /// It goes with the object.
    pub owned: bool,
    /// It has no volume yet: the StorageClass that should provide one.
    pub pending_class: Option<String>,
    /// Bytes of its volume, where Kubernetes says.
    pub capacity: Option<u64>,
}

/// A sum over all keys and values up to a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash {
    /// The sum.
    pub hash: u32,
    /// The revision. Sums of different revisions say nothing about each other.
    pub revision: i64,
    /// The revision before which everything is forgotten; likewise.
    pub compacted: i64,
}

/// What is known about backups of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupView {
    /// When the last one was done.
    pub last_success: Option<Timestamp>,
    /// Revision that the last one holds at least.
    pub revision: Option<i64>,
    /// When the last one should have been done, if they are made by a schedule and it is overdue.
    pub overdue_since: Option<Timestamp>,
    /// Why the last try failed, if it did, with the name of the EtcdBackup.
    pub failing: Option<String>,
    /// What the spec of an EtcdRestore says to take the last one: where it is, and how to get there.
    pub source: Option<serde_json::Value>,
}

/// What is told of etcds that ask who we are.
pub(crate) const LOG_IN: &str = "authentication is enabled in etcd (by a restored backup or a client). \
 hint: set spec.auth.rootSecret to the Secret with the password of user root, or disable authentication \
 (`etcdctl auth disable`)";

/// What the members of a cluster say when they are asked, by name of the pod; fields as in [`Observed`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// What they say.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Who says nothing to who has not logged in.
    pub silent: BTreeSet<String>,
    /// Who does not take the password.
    pub refused: BTreeSet<String>,
}

/// What one etcd member says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
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
    /// Bytes of its database.
    pub db_size: u64,
    /// Bytes of it that hold something.
    pub db_in_use: u64,
    /// Its newest revision.
    pub revision: i64,
    /// It asked who we are: authentication is on.
    pub auth: bool,
    /// The members it knows, ordered by id.
    pub members: Vec<Member>,
}

impl Endpoint {
    /// Whether it can be asked for a sum over its data: learners refuse.
    #[must_use]
    pub(crate) const fn has_sum(&self) -> bool {
        !self.is_learner && self.revision > 0
    }
}

/// A member in a member list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
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
    /// The etcd version that all members ran when they last ran the same.
    pub version: String,
    /// Number of voting members when the quorum was last proved.
    pub voters: usize,
    /// Names of the voting members at that time; those of strangers are missing.
    pub members: Vec<String>,
    /// It was running before this operator saw it, so that it must not be started anew although its id was never written.
    pub taken_over: bool,
    /// The last member that was added in vain.
    pub failure: Option<Failure>,
    /// Housekeeping that is under way, or was last.
    pub maintenance: crate::maintenance::Record,
    /// Authentication was switched on by this operator.
    pub auth_enabled: bool,
    /// Members do not hold the same data.
    pub corruption: Option<Corruption>,
}

/// That members do not hold the same data. It is remembered from the comparison that finds it until one of all voters finds that they
/// do, or at most one of them is left, or the etcd cluster is another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corruption {
    /// Id of the etcd cluster that it is known of.
    pub cluster_id: String,
    /// Pods of those whose data is another than that of a majority that agreed; none while nobody knows who is right.
    pub wrong: BTreeSet<String>,
}

/// A member that was added in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When it was taken out.
    pub at: Timestamp,
    /// Generation of the spec at that time.
    pub generation: Option<i64>,
    /// What it waited for.
    pub reason: String,
}

/// A member count that can decide: more than half.
#[must_use]
pub const fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

impl Observed {
    #[must_use]
    pub fn pod(&self, name: &str) -> Option<&PodView> {
        self.pods.iter().find(|pod| pod.name == name)
    }

    /// Whether a member that says nothing of itself serves: its pod's readiness needs the quorum.
    #[must_use]
    pub fn serves_silently(&self, name: &str) -> bool {
        self.silent.contains(name) && self.pod(name).is_some_and(|pod| pod.ready && !pod.deleting)
    }

    #[must_use]
    pub fn claim(&self, name: &str) -> Option<&ClaimView> {
        self.claims.iter().find(|claim| claim.name == name)
    }

    /// Whether the data of a member goes with its pod although it is on a volume: the claim is being deleted, and Kubernetes
    /// keeps it only as long as the pod uses it.
    #[must_use]
    pub fn volume_deleting(&self, name: &str) -> bool {
        self.claim(name).is_some_and(|claim| claim.deleting)
            && self.pod(name).is_some_and(|pod| pod.volume && !pod.deleting && !pod.ended)
    }

    /// Names of the members whose claims are being deleted while their pods use them.
    #[must_use]
    pub fn deleting_volumes(&self) -> Vec<&str> {
        let names = self.claims.iter().map(|claim| claim.name.as_str());
        names.filter(|name| self.volume_deleting(name)).collect()
    }

    /// Whether what a member wrote is still there, as far as Kubernetes knows.
    #[must_use]
    pub fn holds_data(&self, name: &str) -> bool {
        if self.pod(name).is_some_and(PodView::has_lost_data) {
            return false;
        }
        self.claim(name).is_some_and(|claim| !claim.deleting)
            || self
                .pod(name)
                .is_some_and(|pod| !pod.volume && !pod.deleting && !pod.ended && pod.ever_started)
    }
}
