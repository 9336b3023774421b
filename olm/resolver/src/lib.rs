//! Chooses bundles for requests, and can say why.
//!
//! [`resolve`] is a pure function: [`Universe`] (what catalogs offer) + [`Request`]s (what Subscriptions want) +
//! [`Facts`] (what the cluster has) give a [`Resolution`], or an [`Explanation`] of why there is none.

mod candidates;
mod code;
mod exclude;
mod explain;
mod facts;
mod graph;
mod need;
mod path;
mod rejected;
mod request;
mod resolution;
mod resolve;
mod solve;
mod text;
mod universe;
mod why;

pub use code::Code;
pub use explain::{Explanation, Fix, Node};
pub use facts::{ApiFact, Facts, Installed};
pub use request::{DependencyPolicy, InstalledRef, Request, UpgradePolicy, VersionWish};
pub use resolution::{
    Action, ChosenBundle, Dependency, Hop, HopVia, Need, Rejected, Resolution, Resolved, SatisfiedBy,
};
pub use resolve::resolve;
pub use universe::{
    AnyNeed, Bundle, Catalog, CatalogRef, Channel, Entry, Gvk, Health, Package, PackageNeed, Universe,
};

pub use olm_version::{Range, Version};
