//! The node agent: a kubelet in miniature that runs a pod's containers as processes in namespaces.
//!
//! # How it works
//! * [`Network::start`] makes the cluster network: a network namespace of the node's own, with a bridge, in which Service
//!   proxy, DNS and probes have their sockets. The host sees nothing of it.
//! * [`NodeAgent::start`] watches the pods of this node. Each pod has a sandbox: a first process that is this executable
//!   again ([`maybe_run_helper`]), in network, PID, UTS, IPC and mount namespaces of its own. It dies with the agent,
//!   however that ends, and the kernel takes every process, interface and mount of the pod with it.
//! * A container is a process in the sandbox with a root of its own: the host's programs read-only, generated
//!   `/etc`, the volumes. Its image is an entry of an [`ImageTable`].
//!
//! # Without root
//! [`enter_user_namespace_if_needed`] makes the user root in a user namespace, and everything above works in there. That
//! namespace has one user and one group, so a container that asks for another one (`runAsUser`, `runAsGroup`,
//! `runAsNonRoot`) gets a user namespace of its own, in which the same user has the number asked for and none of root's
//! rights. `fsGroup` and `supplementalGroups` have no effect: every file of a pod belongs to its one user. On the
//! machine all of it is done by, and belongs to, the user who started it. A hostPath needs that user's rights.
//!
//! Where user namespaces are not allowed either, [`unavailable()`] takes the agent's place: the Node is not ready and
//! says what to do about it, and so do the pods, which stay Pending.
//!
//! # What is not there
//! Pods that ask for these are refused with an event: host namespaces, privileged containers, block volumes, sidecar
//! init containers, ephemeral containers, volumes other than emptyDir, configMap, secret, projected, downwardAPI, hostPath
//! and persistentVolumeClaim. These have no effect: resource requests and limits, `capabilities`, seccomp, AppArmor and SELinux
//! settings, sysctls, `activeDeadlineSeconds`, `emptyDir.medium` and `sizeLimit`, image pull policy and secrets. The
//! containers of a pod share one PID namespace, and root in a container has the rights of the user that runs the
//! agent: this isolates by accident, not by force.

mod agent;
mod backend;
mod capabilities;
mod capability;
mod capacity;
mod context;
mod env;
mod events;
mod helper;
mod images;
mod logs;
mod network;
mod pod;
mod pod_init;
mod registration;
mod sandbox;
mod unavailable;
mod volumes;

pub use agent::{NodeAgent, NodeConfig, NodeError};
pub use capability::{Capability, enter_user_namespace_if_needed};
pub use helper::{maybe_run_helper, tied_command};
pub use images::{Image, ImageTable, UnknownImage};
pub use network::{NODE_IP, Network, NetworkError};
pub use unavailable::unavailable;

/// Name of the only node.
pub const NODE_NAME: &str = "olm-node";
