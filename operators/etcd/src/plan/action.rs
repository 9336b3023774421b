//! What can be done to a cluster: one of these at a time.

use crate::observed::{Memory, Start};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write down what must not be forgotten, before relying on it.
    Remember(Box<Memory>),
    /// Start the first member as a new cluster. Happens only while no cluster id is remembered.
    CreateSeed {
        name: String,
        /// etcd version.
        version: String,
        /// Its data is on a volume.
        volume: bool,
    },
    /// Tell etcd of a new member without a vote.
    AddLearner {
        name: String,
        /// Pod of the member that is asked.
        via: String,
    },
    /// Start the pod of a member that etcd knows already: a new one, or one whose pod was lost and whose volume was not.
    CreateMember {
        name: String,
        /// Id; none when nobody answers who could tell.
        id: Option<u64>,
        /// etcd version.
        version: String,
        /// Its data is on a volume.
        volume: bool,
        /// A new one starts without data, one that comes back never.
        start: Start,
        /// Names and peer URLs of all members, itself included; empty for one that comes back, which knows them.
        initial_cluster: Vec<(String, String)>,
    },
    /// From now on the member does not start without its data.
    Seal {
        name: String,
        /// Uid of the pod.
        uid: String,
    },
    /// Give a learner its vote.
    Promote {
        id: u64,
        name: String,
        /// Pod of the member that is asked.
        via: String,
    },
    /// Hand leadership over, because the leader is to be taken out or restarted.
    MoveLeader {
        /// Id of the member that shall lead.
        id: u64,
        name: String,
        /// Pod of the leader, which alone can do it.
        via: String,
    },
    /// Take a member out of etcd.
    RemoveMember {
        id: u64,
        name: String,
        /// Pod of the member that is asked.
        via: String,
        why: Removal,
    },
    /// Let a member run another version: its container is restarted in place, with its data.
    SetVersion {
        name: String,
        /// Uid of the pod.
        uid: String,
        /// Version that it ran.
        from: String,
        /// Version that it shall run.
        to: String,
        /// Its data is on a volume, where the version is written first.
        volume: bool,
    },
    /// Restart a member: its pod is deleted and made again with its volume.
    Restart {
        name: String,
        /// Uid of the pod.
        uid: String,
        why: String,
    },
    /// Delete a pod that is no member, or that ended and whose data is on a volume.
    DeletePod { name: String, uid: String },
    /// Look after the database.
    Maintain(crate::maintenance::Step),
    /// Let go of the volume of a member that is none any more: as the policy says, it is deleted or set aside.
    ReleaseClaim { name: String, uid: String },
}

/// Why a member is taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The cluster is larger than wanted.
    ScaleDown,
    /// It is healthy and another shall come in its place, because its data would not outlive a restart: the text says why it
    /// would be restarted.
    Renewed(String),
    /// It will not come back: the text says why.
    Dead(String),
    /// Its data is not that of the others: the text says how that is known.
    Corrupt(String),
    /// A learner that is not needed any more: the text says why.
    Learner(String),
    /// A learner that made no progress in its time: the text says what it waited for.
    LateLearner(String),
}

impl Action {
    /// Whether it changes who is a member: what needs a proof of the quorum.
    #[must_use]
    pub const fn changes_membership(&self) -> bool {
        matches!(self, Self::AddLearner { .. } | Self::Promote { .. } | Self::RemoveMember { .. })
    }

    /// The member that it is done to, where it does not say the id itself: who tells of it looks that up. Not the one whose
    /// volume is let go: nobody knows it any more.
    pub(crate) fn member(&self) -> Option<&str> {
        match self {
            Self::SetVersion { name, .. }
            | Self::Restart { name, .. }
            | Self::Maintain(crate::maintenance::Step::Defragment { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// A word for logs and metrics.
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
