//! The web console: server-rendered pages, and the same pages as JSON.
//!
//! It has no rights other than the user's. Every call to the API server carries the bearer token of the
//! signed-in user; catalogs come from the manager's port, which gets the same token. With [`Access::Client`] the
//! console serves one user, whose credentials are those of a client. All content of catalogs and clusters is
//! untrusted text.
//!
//! - `server`, `tls`, `connections`, `routes`, `app`: listener, routes, shared state;
//! - `security`, `session`, `codes`, `openid`, `renewal`, `validity`, `client`, `limits`, `caller`, `rights`:
//!   authentication, authorization and limits;
//! - `catalogs`, `icons`, `markdown`, `links`: sanitizing of untrusted content;
//! - `delivery`: entity tags and compression;
//! - `browse`, `inventory`: facets, filters, order and pages of the catalog and of the installed operators;
//! - `form`: forms from the schema of a CRD;
//! - `view`: components; `pages`: one page per file; `live`: server-sent events.

mod api_server;
mod app;
mod assets;
mod audit;
mod browse;
mod caller;
mod catalogs;
mod client;
mod codes;
mod connections;
mod delivery;
mod dynamic;
mod error;
mod form;
mod icons;
mod inventory;
mod limits;
mod links;
mod live;
mod markdown;
mod openid;
mod pages;
mod posted;
mod renewal;
mod rights;
mod routes;
mod security;
mod server;
mod session;
mod stalled;
#[cfg(test)]
mod tests;
mod tls;
mod validity;
mod view;

pub use openid::OpenIdOptions;
pub use server::{Access, Error, Options, TlsFiles, random_token, run};
