//! The node agent: a minimal kubelet that runs a pod's containers as processes in namespaces.
//!
//! # How it works
//! * [`Network::start`] creates the cluster network: a separate network namespace of the node, with a bridge,
//!   in which Service proxy, DNS and probes have their sockets. It is not visible on the host.
//! * [`NodeAgent::start`] watches the pods of this node. Each pod has a sandbox: an init process that runs
//!   this executable again ([`maybe_run_helper`]), in separate network, PID, UTS, IPC and mount namespaces.
//!   It dies with the agent, however that ends, and the kernel removes every process, interface and mount of
//!   the pod with it.
//! * A container is a process in the sandbox with a private root: an image below a writable layer (overlayfs in
//!   memory), generated files, the volumes. An image is pulled from an [`ImageSource`] or loaded into the
//!   [`ImageStore`]. A source can also make images of files of this machine; the node unpacks them again when
//!   the files change.
//!
//! # Without root
//! [`enter_user_namespace_if_needed`] makes the user root in a user namespace, in which everything above
//! runs. That namespace has one user and one group, so a container with another one (`runAsUser`,
//! `runAsGroup`, `runAsNonRoot`) gets a nested user namespace, in which the same user has the requested
//! number and none of root's privileges. `fsGroup` and `supplementalGroups` have no effect: every file of a
//! pod belongs to its one user. On the machine all processes and files belong to the user who started the
//! cluster. A hostPath needs that user's permissions.
//!
//! Where user namespaces are not allowed either, [`unavailable()`] replaces the agent: the Node is not ready
//! and reports the remedy, and so do the pods, which stay Pending.
//!
//! # Not supported
//! Pods with these are refused with an event: host namespaces, `hostUsers: false`, resource claims,
//! privileged containers, block volumes, sidecar init containers, ephemeral containers, volumes other than
//! emptyDir, configMap, secret, projected, downwardAPI, hostPath and persistentVolumeClaim. These have no
//! effect: resource requests and limits, seccomp, AppArmor and SELinux settings, sysctls,
//! `activeDeadlineSeconds`, `emptyDir.medium` and `sizeLimit`; set-user-ID programs of images. The containers
//! of a pod share one PID namespace, and root in a container has the permissions of the user that runs the
//! agent: this protects against accidents, not against attacks.

#![deny(missing_docs)]

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
mod in_root;
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
pub use images::{ImageSource, ImageStore, PullError, PullSecret, StoredImage, UnpackedImage};
pub use network::{NODE_IP, Network, NetworkError};
pub use unavailable::unavailable;

/// Name of the only node.
pub const NODE_NAME: &str = "olm-node";
