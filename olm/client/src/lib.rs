//! Clients of a Kubernetes API server, as everything here that talks to one makes them.
//!
//! * [`connection`]: connections that end when nobody answers any more
//! * [`forward`]: the caller's token, for a Service behind the API server's proxy
//! * [`events`]: events, each with the text that was told
//! * [`lists`](mod@lists): lists page by page, without `managedFields`
//! * [`metadata`]: watches and lists of metadata
//! * [`statuses`]: errors that are a `Status`, whoever wrote them
//! * [`watch`]: watches that wait after an error, longer each time

mod connection;
pub mod events;
mod forward;
mod lists;
mod metadata;
mod statuses;
mod unanswered;
mod watch;

use kube::{Client, Config};

pub use forward::{FORWARD, FORWARDED_AUTHORIZATION};
pub use lists::lists;
pub use metadata::{is_watch, metadata_only};
pub use statuses::with_statuses;
pub use watch::patient;

/// A client for the API server that the configuration names.
///
/// A server that stops answering is noticed within 30 seconds, for requests and watches alike, and all errors are a `Status`
/// with a reason.
///
/// # Errors
/// What the configuration asks for cannot be had: a credential that cannot be read, a proxy.
pub fn connect(config: Config) -> Result<Client, kube::Error> {
    connection::open(config).map(with_statuses)
}
