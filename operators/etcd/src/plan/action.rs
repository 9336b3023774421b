//! Actions on a cluster; one is applied at a time.

use crate::observed::{Memory, Start};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Record the memory before anything relies on it.
    Remember(Box<Memory>),
    /// Start the first member as a new cluster. Only while no cluster id is recorded.
    CreateSeed {
        name: String,
        version: String,
        /// Its data is on a volume.
        volume: bool,
    },
    /// Add a member to etcd as a learner.
    AddLearner {
        name: String,
        /// Pod of the member that receives the request.
        via: String,
    },
    /// Create the pod of a member of etcd: a new one, or one whose pod was lost and whose volume was not.
    CreateMember {
        name: String,
        /// Id; none when no member answers.
        id: Option<u64>,
        version: String,
        /// Its data is on a volume.
        volume: bool,
        /// A new member starts without data, a returning one never.
        start: Start,
        /// Names and peer URLs of all members, itself included; empty for a returning member, which has the
        /// list.
        initial_cluster: Vec<(String, String)>,
    },
    /// From now on the member does not start without its data.
    Seal { name: String, uid: String },
    /// Promote a learner.
    Promote {
        id: u64,
        name: String,
        /// Pod of the member that receives the request.
        via: String,
    },
    /// Transfer leadership, because the leader is to be removed or restarted.
    MoveLeader {
        /// Id of the next leader.
        id: u64,
        name: String,
        /// Pod of the leader, the only member that accepts the request.
        via: String,
    },
    /// Take a pod out of the client Service, because its etcd is to be removed or restarted.
    LeaveService { name: String, uid: String },
    /// Label a pod so that the client Service selects it.
    JoinService { name: String, uid: String },
    /// Remove a member from etcd.
    RemoveMember {
        id: u64,
        name: String,
        /// Pod of the member that receives the request.
        via: String,
        why: Removal,
    },
    /// Change the version of a member: its container restarts in place, with its data.
    SetVersion {
        name: String,
        uid: String,
        from: String,
        to: String,
        /// Its data is on a volume, where the version is recorded first.
        volume: bool,
    },
    /// Restart a member: its pod is deleted and recreated with its volume.
    Restart { name: String, uid: String, why: String },
    /// Delete a pod that is not a member, or that terminated and whose data is on a volume.
    DeletePod { name: String, uid: String },
    /// Maintain the database.
    Maintain(crate::maintenance::Step),
    /// Release the volume of a removed member: the retention policy deletes it or sets it aside.
    ReleaseClaim { name: String, uid: String },
}

/// Why a member is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The cluster is larger than specified.
    ScaleDown,
    /// It is healthy and is replaced, because its data would be lost with a restart: the text has the cause
    /// of the restart.
    Renewed(String),
    /// It will not return; with the cause.
    Dead(String),
    /// Its data differs from the others; with the evidence.
    Corrupt(String),
    /// An unneeded learner; with the cause.
    Learner(String),
    /// A learner without progress before the deadline; with the pending prerequisite.
    LateLearner(String),
}

impl Action {
    /// Whether it changes membership, which needs a proof of the quorum.
    #[must_use]
    pub const fn changes_membership(&self) -> bool {
        matches!(self, Self::AddLearner { .. } | Self::Promote { .. } | Self::RemoveMember { .. })
    }

    /// Name of the affected member, where the action has no id, so that the event can include it. Not for a
    /// released volume: its member is gone.
    pub(crate) fn member(&self) -> Option<&str> {
        match self {
            Self::SetVersion { name, .. }
            | Self::Restart { name, .. }
            | Self::Maintain(crate::maintenance::Step::Defragment { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// Label value for logs and metrics.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Remember(_) => "Remember",
            Self::CreateSeed { .. } => "CreateSeed",
            Self::AddLearner { .. } => "AddLearner",
            Self::CreateMember { .. } => "CreateMember",
            Self::Seal { .. } => "Seal",
            Self::Promote { .. } => "Promote",
            Self::MoveLeader { .. } => "MoveLeader",
            Self::LeaveService { .. } => "LeaveService",
            Self::JoinService { .. } => "JoinService",
            Self::RemoveMember { .. } => "RemoveMember",
            Self::SetVersion { .. } => "SetVersion",
            Self::Restart { .. } => "Restart",
            Self::DeletePod { .. } => "DeletePod",
            Self::Maintain(crate::maintenance::Step::Compact { .. }) => "Compact",
            Self::Maintain(crate::maintenance::Step::Defragment { .. }) => "Defragment",
            Self::Maintain(crate::maintenance::Step::EnableAuth { .. }) => "EnableAuth",
            Self::Maintain(crate::maintenance::Step::Disarm { .. }) => "Disarm",
            Self::Maintain(crate::maintenance::Step::DisarmCorrupt { .. }) => "DisarmCorrupt",
            Self::ReleaseClaim { .. } => "ReleaseClaim",
        }
    }
}
