//! Clients of a Kubernetes API server, as every part of this workspace creates them.
//!
//! * [`connection`]: connections that detect a dead peer
//! * [`forward`]: the caller's token, for a Service behind the API server's proxy
//! * [`events`]: events, one per text
//! * [`lease`]: leader election
//! * [`listen`](mod@listen): listening sockets of pods
//! * [`lists`](mod@lists): lists page by page, without `managedFields`
//! * [`metadata`]: watches and lists of metadata
//! * [`proxy`]: proxies of the kubeconfig and of the environment
//! * [`statuses`]: every error response as a `Status`
//! * [`watch`]: watches with backoff after an error

mod connection;
pub mod events;
mod forward;
pub mod lease;
mod listen;
mod lists;
mod metadata;
mod proxy;
mod statuses;
mod unanswered;
mod watch;

use kube::{Client, Config};

pub use forward::{FORWARD, FORWARDED_AUTHORIZATION};
pub use listen::listen;
pub use lists::lists;
pub use metadata::{is_watch, metadata_only};
pub use statuses::with_statuses;
pub use watch::patient;

/// A client for the API server of the configuration.
///
/// A server that stops responding is detected within 30 seconds, for requests and watches alike, and all
/// errors are a `Status` with a reason.
///
/// # Errors
/// The configuration is not usable: an unreadable credential, an unsupported proxy.
pub fn connect(config: Config) -> Result<Client, kube::Error> {
    connection::open(config).map(with_statuses)
}
