//! What catalogs offer, as PackageManifests: the API `packages.operators.coreos.com/v1` of OLM v0's packageserver, for tools that
//! read catalogs by it. Off unless an installation asks for it: an aggregated API that is down keeps namespaces from going.
//!
//! Nothing is kept: each answer is made of the catalogs' own store, one package at a time.
//!
//! * [`manifest`]: a PackageManifest of a package: pure; [`table`]: its row for kubectl; [`selector`]: which ones a query means
//! * [`answers`]: the answer to a request; [`listing`]: many manifests, as they are read
//! * [`access`]: who asks, as the API server says; and whether they may

mod access;
mod answers;
mod listing;
mod manifest;
mod selector;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use access::Front;
pub(crate) use answers::router;
use olm_ops::manifests::packages::{GROUP, VERSION};

const RESOURCE: &str = "packagemanifests";
/// Kind of its objects.
const KIND: &str = "PackageManifest";

fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}
