//! Serves catalogs to other programs: over HTTP like catalogd, over gRPC like `opm serve`.
//!
//! - [`router`] has the HTTP API of any number of catalogs: their documents (`/api/v1/all`, `/api/v1/metas`),
//!   the package index, search and icons;
//! - [`registry`] is `api.Registry` over one catalog, with health and reflection;
//! - [`Server`] binds and runs both for one catalog, which may be replaced ([`Current`]); [`serve`] is the same in
//!   one call.

mod current;
mod grpc;
mod http;
mod names;
mod server;

#[cfg(test)]
mod fixture;

pub use current::Current;
pub use grpc::registry;
pub use http::router;
pub use server::{Addresses, ServeError, Server, serve};
