//! What can be done to a cluster: one of these at a time.

use crate::observed::Memory;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write down what must not be forgotten, before relying on it.
    Remember(Memory),
    /// Start the first member as a new cluster. Happens only while no cluster id is remembered.
    CreateSeed {
        /// Name.
        name: String,
    },
    /// Tell etcd of a new member without a vote.
    AddLearner {
        /// Name.
        name: String,
        /// Pod of the member that is asked.
        via: String,
    },
    /// Start the pod of a member that etcd knows already.
    CreateMember {
        /// Name.
        name: String,
        /// Names and peer URLs of all members, itself included.
        initial_cluster: Vec<(String, String)>,
    },
    /// Give a learner its vote.
    Promote {
        /// Id.
        id: u64,
        /// Name.
        name: String,
        /// Pod of the member that is asked.
        via: String,
    },
    /// Hand leadership over, because the leader is to be taken out.
    MoveLeader {
        /// Id of the member that shall lead.
        id: u64,
        /// Its name.
        name: String,
        /// Pod of the leader, which alone can do it.
        via: String,
    },
    /// Take a member out of etcd.
    RemoveMember {
        /// Id.
        id: u64,
        /// Name.
        name: String,
        /// Pod of the member that is asked.
        via: String,
        /// Why.
        why: Removal,
    },
    /// Delete a pod that is no member.
    DeletePod {
        /// Name.
        name: String,
        /// Uid.
        uid: String,
    },
}

/// Why a member is taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The cluster is larger than wanted.
    ScaleDown,
    /// It will not come back: the text says why.
    Dead(String),
    /// A learner that is not needed any more or that made no progress: the text says why.
    Learner(String),
}

impl Action {
    /// Whether it changes who is a member: what needs a proof of the quorum.
    #[must_use]
    pub const fn changes_membership(&self) -> bool {
        matches!(self, Self::AddLearner { .. } | Self::Promote { .. } | Self::RemoveMember { .. })
    }

    /// A word for logs and metrics.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Remember(_) => "Remember",
            Self::CreateSeed { .. } => "CreateSeed",
            Self::AddLearner { .. } => "AddLearner",
            Self::CreateMember { .. } => "CreateMember",
            Self::Promote { .. } => "Promote",
            Self::MoveLeader { .. } => "MoveLeader",
            Self::RemoveMember { .. } => "RemoveMember",
            Self::DeletePod { .. } => "DeletePod",
        }
    }
}
