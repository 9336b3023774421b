//! Observation of a cluster: pods, and the answer of each etcd member. Plain data, so that decisions about it
//! need neither a cluster nor a clock.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub now: Timestamp,
    /// The pods that the object owns, whatever their state, ordered by name.
    pub pods: Vec<PodView>,
    /// The claims of the object, ordered by name, without retained ones.
    pub claims: Vec<ClaimView>,
    /// Answers of etcd, by name of the pod. Absent when it did not answer.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Pods whose etcd requires a login for status requests: authentication is on.
    pub silent: BTreeSet<String>,
    /// Pods whose etcd rejects the password of the Secret.
    pub refused: BTreeSet<String>,
    /// Hashes over the data of voters, by name of the pod, of the last comparison; none after a change of
    /// voters.
    pub hashes: BTreeMap<String, Hash>,
    /// The hashes come from a comparison made for this observation, of the present voters.
    pub compared_now: bool,
    /// Voters that could not be compared with the others, several times in a row.
    pub uncompared: Vec<String>,
    /// New members get volumes.
    pub volumes: bool,
    /// Names of the StorageClasses; none where they are unknown.
    pub storage_classes: Option<BTreeSet<String>>,
    /// Backup state of this cluster; none without an EtcdBackup.
    pub backup: Option<BackupView>,
    /// The EtcdBackups are not listed yet, or cannot be listed: `backup` is meaningless.
    pub backups_unknown: bool,
    /// An unused member name, in case a member is created.
    pub fresh_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodView {
    /// Name, also that of its member.
    pub name: String,
    /// Uid, so that a later pod of the same name is never deleted.
    pub uid: String,
    pub ip: Option<String>,
    /// Deletion has begun.
    pub deleting: bool,
    /// Deadline of its termination.
    pub ends_by: Option<Timestamp>,
    /// Terminated permanently: phase Failed or Succeeded.
    pub ended: bool,
    pub ready: bool,
    /// Time of the last change of condition Ready.
    pub ready_since: Option<Timestamp>,
    pub created: Option<Timestamp>,
    /// Start time of the running etcd process.
    pub started: Option<Timestamp>,
    /// The etcd process ran at least once: the pod may hold data.
    pub ever_started: bool,
    /// Restarts of the etcd process since its version was set.
    pub restarts: i32,
    /// Restarts before that.
    pub restarts_before: i32,
    /// Cause of the last termination of the etcd process, where the end of its log or Kubernetes names it.
    pub last_end: Option<End>,
    /// Why it is not running, as reported by Kubernetes.
    pub waiting: Option<String>,
    /// The etcd version it was created for, or set to since.
    pub version: String,
    /// Its data is on a volume.
    pub volume: bool,
    /// How its etcd starts without data.
    pub start: Start,
    /// Whether the client Service selects it.
    pub serving: Serving,
    /// Time of the last change of that.
    pub serving_since: Option<Timestamp>,
}

impl PodView {
    /// Whether etcd found its data directory empty and does not run: the member's data is lost.
    #[must_use]
    pub fn has_lost_data(&self) -> bool {
        self.last_end == Some(End::NoData) && self.started.is_none()
    }

    /// Whether Kubernetes sends clients to it, unless its label excludes it.
    #[must_use]
    pub(crate) const fn is_endpoint(&self) -> bool {
        self.ready && !self.deleting && !self.ended
    }
}

/// Selection of a pod by the client Service, from its label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Serving {
    /// Pods are created with the label.
    #[default]
    In,
    /// It left, because its etcd is about to be removed or restarted.
    Out,
    /// Without the label: the Service selects it only while it does not require the label.
    Unlabelled,
}

/// Cause of the termination of an etcd process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A replacement would run out of memory, too.
    OutOfMemory,
    DiskFull,
    /// Its data was missing, and it must not start without ([`Start::Refused`]).
    NoData,
}

/// How an etcd starts without data. That is correct once; afterwards missing data is lost data, and a member
/// that starts without it would answer as if it had never been written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// Fixed by its arguments: a pod of coreos/etcd-operator.
    #[default]
    Fixed,
    /// As a new member.
    Empty,
    /// Does not start.
    Refused,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimView {
    /// Name, also that of its member.
    pub name: String,
    pub uid: String,
    /// Deletion has begun and completes once its pod is gone.
    pub deleting: bool,
    /// The etcd version that wrote to it, or may have.
    pub version: String,
    /// It is deleted with the object.
    pub owned: bool,
    /// Not bound yet: the StorageClass that should provision its volume; empty without one.
    pub pending_class: Option<String>,
    /// Bytes of its volume, where Kubernetes reports them.
    pub capacity: Option<u64>,
}

/// A hash over all keys and values up to a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash {
    pub hash: u32,
    /// Hashes of different revisions are not comparable.
    pub revision: i64,
    /// The compacted revision; likewise.
    pub compacted: i64,
}

/// Backup state of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupView {
    /// Time of the last successful backup.
    pub last_success: Option<Timestamp>,
    /// Minimum revision of the last successful backup.
    pub revision: Option<i64>,
    /// Scheduled time of the overdue backup, for periodic backups.
    pub overdue_since: Option<Timestamp>,
    /// Cause of the failure of the last attempt, with the name of the EtcdBackup.
    pub failing: Option<String>,
    /// Source in the spec of an EtcdRestore for the last backup: location and credentials.
    pub source: Option<serde_json::Value>,
}

/// Message for members that require authentication.
pub(crate) const LOG_IN: &str = "authentication is enabled in etcd (by a restored backup or a client). \
 hint: set spec.auth.rootSecret to the Secret with the password of user root, or disable authentication \
 (`etcdctl auth disable`)";

/// Answers of the members of a cluster, by name of the pod; fields as in [`Observed`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Members that require a login for status requests.
    pub silent: BTreeSet<String>,
    /// Members that reject the password.
    pub refused: BTreeSet<String>,
}

/// Answer of one etcd member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    pub member_id: u64,
    /// Id of the cluster as this member reports it.
    pub cluster_id: u64,
    /// The leader, 0 when it has none.
    pub leader: u64,
    /// Last entry of its log.
    pub raft_index: u64,
    /// Last applied entry.
    pub applied: u64,
    pub is_learner: bool,
    pub version: String,
    /// Errors and alarms that it reports.
    pub errors: Vec<String>,
    /// It answered a linearizable read, which needs the quorum.
    pub linearizable: bool,
    /// Size of its database in bytes.
    pub db_size: u64,
    /// Bytes of its database in use.
    pub db_in_use: u64,
    /// Its newest revision.
    pub revision: i64,
    /// It requires authentication.
    pub auth: bool,
    /// Its member list, ordered by id.
    pub members: Vec<Member>,
}

impl Endpoint {
    /// Whether it can return a hash over its data: learners reject the request.
    #[must_use]
    pub(crate) const fn has_sum(&self) -> bool {
        !self.is_learner && self.revision > 0
    }
}

/// A member in a member list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    /// Name of its pod, from its peer URL; none for a URL that the operator did not create.
    pub pod: Option<String>,
    /// Its first peer URL.
    pub peer_url: String,
    /// It started at least once and published its name.
    pub started: bool,
    pub is_learner: bool,
}

impl Member {
    /// Name of the member in messages.
    #[must_use]
    pub fn label(&self) -> String {
        self.pod.clone().unwrap_or_else(|| format!("{:x} ({})", self.id, self.peer_url))
    }
}

/// Persistent memory of the operator, stored in the status of the object and written before anything relies
/// on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Id of the etcd cluster. Once recorded, no member is ever started as a new cluster.
    pub cluster_id: Option<String>,
    /// The member being added.
    pub pending: Option<String>,
    /// The last etcd version that all members ran.
    pub version: String,
    /// Number of voters when the quorum was last proved.
    pub voters: usize,
    /// Names of the voters at that time; those not created by the operator are missing.
    pub members: Vec<String>,
    /// It ran before this operator observed it, so it must not be bootstrapped again although its id was
    /// never recorded.
    pub taken_over: bool,
    /// The last member that did not join.
    pub failure: Option<Failure>,
    /// The current or last maintenance run.
    pub maintenance: crate::maintenance::Record,
    /// This operator enabled authentication.
    pub auth_enabled: bool,
    /// Members hold different data.
    pub corruption: Option<Corruption>,
}

/// Members hold different data. It is recorded from the comparison that finds it until a comparison of all
/// voters finds them equal, at most one voter is left, or the etcd cluster is another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corruption {
    /// Id of the affected etcd cluster.
    pub cluster_id: String,
    /// Pods of members whose data differs from an agreeing majority; none without such a majority.
    pub wrong: BTreeSet<String>,
}

/// A member that did not join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Removal time.
    pub at: Timestamp,
    /// Generation of the spec at that time.
    pub generation: Option<i64>,
    /// The pending prerequisite.
    pub reason: String,
}

/// Smallest majority of the voters.
#[must_use]
pub const fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

impl Observed {
    #[must_use]
    pub fn pod(&self, name: &str) -> Option<&PodView> {
        self.pods.iter().find(|pod| pod.name == name)
    }

    /// Whether a member that requires authentication serves: the readiness of its pod needs the quorum.
    #[must_use]
    pub fn serves_silently(&self, name: &str) -> bool {
        self.silent.contains(name) && self.pod(name).is_some_and(|pod| pod.ready && !pod.deleting)
    }

    #[must_use]
    pub fn claim(&self, name: &str) -> Option<&ClaimView> {
        self.claims.iter().find(|claim| claim.name == name)
    }

    /// Whether the data of a member is lost with its pod although it is on a volume: the claim is being
    /// deleted, and Kubernetes keeps it only while the pod uses it.
    #[must_use]
    pub fn volume_deleting(&self, name: &str) -> bool {
        self.claim(name).is_some_and(|claim| claim.deleting)
            && self.pod(name).is_some_and(|pod| pod.volume && !pod.deleting && !pod.ended)
    }

    /// Names of members whose claims are being deleted while their pods use them.
    #[must_use]
    pub fn deleting_volumes(&self) -> Vec<&str> {
        let names = self.claims.iter().map(|claim| claim.name.as_str());
        names.filter(|name| self.volume_deleting(name)).collect()
    }

    /// Whether the data of a member still exists, as far as Kubernetes reports.
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
