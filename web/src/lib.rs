//! The web console: server-rendered pages, and the same pages as JSON.
//!
//! It has no rights of its own. Every call to the API server carries the bearer token of the person who is signed in;
//! catalogs come from the manager's port, which gets the same token. Whatever comes out of a catalog or a cluster is untrusted text.
//!
//! - `server`, `tls`, `connections`, `app`: listening, routes, shared state;
//! - `security`, `session`, `codes`, `openid`, `client`, `limits`, `caller`, `rights`: who may ask what;
//! - `catalogs`, `icons`, `markdown`, `links`: untrusted content, made fit to show;
//! - `form`: forms from the schema of a CRD;
//! - `view`: components; `pages`: one page a file; `live`: server-sent events.

mod api_server;
mod app;
mod assets;
mod audit;
mod caller;
mod catalogs;
mod client;
mod codes;
mod connections;
mod dynamic;
mod error;
mod form;
mod icons;
mod limits;
mod links;
mod live;
mod markdown;
mod openid;
mod pages;
mod posted;
mod rights;
mod security;
mod server;
mod session;
mod stalled;
#[cfg(test)]
mod tests;
mod tls;
mod view;

pub use openid::OpenIdOptions;
pub use server::{Error, Options, TlsFiles, run};
