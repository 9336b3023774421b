//! Catalogs as PackageManifests: the API `packages.operators.coreos.com/v1` of OLM v0's packageserver, for
//! tools that read catalogs by it. Off by default: an aggregated API that is down blocks the deletion of
//! namespaces.
//!
//! Nothing is cached: each response is read from the catalogs' own store, one package at a time.
//!
//! * [`manifest`]: a PackageManifest of a package; pure. [`table`]: its row for kubectl. [`selector`]:
//!   selectors of a query
//! * [`answers`]: responses to requests; [`listing`]: streams of manifests
//! * [`access`]: the user that the API server names, and its rights

mod access;
mod answers;
mod listing;
mod manifest;
mod selector;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use access::FrontProxy;
pub(crate) use answers::router;
use olm_ops::manifests::packages::{GROUP, VERSION};

const RESOURCE: &str = "packagemanifests";
const KIND: &str = "PackageManifest";

fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}
