//! Chooses bundles for requests, and explains the result.
//! [`resolve`](mod@resolve) is a pure function: [`Universe`] (the catalogs' content) + [`Request`]s (of
//! Subscriptions) + [`Facts`] (about the cluster) give a [`Resolution`]: for every request the choice, or an
//! [`Explanation`] of why there is none.

mod allow;
mod bundle;
mod candidates;
mod code;
mod components;
mod context;
mod exclude;
mod explain;
mod facts;
mod failure;
mod graph;
mod group;
mod need;
mod operators;
mod outcome;
mod package;
mod path;
mod place;
mod rejected;
mod request;
mod resolution;
mod resolve;
mod selection;
mod solve;
pub mod solver;
mod text;
mod universe;
mod why;

pub use allow::{Allowed, Allowlist};
pub use bundle::{Bundle, CatalogRef, Channel, Entry};
pub use code::Code;
pub use explain::{Explanation, Fix, Node};
pub use facts::{ApiFact, Facts, Installed};
pub use group::{group_by_cause, version_span};
pub use package::Package;
pub use request::{
    DependencyPolicy, InstalledRef, Request, UpgradePolicy, VersionRequest, VersionRequestError,
};
pub use resolution::{
    Action, ChosenBundle, Dependency, Hop, HopVia, Need, Rejected, Resolution, Resolved, SatisfiedBy,
};
pub use resolve::{resolve, resolve_one};
pub use text::wrapped;
pub use universe::{Catalog, Health, Universe};

pub use olm_constraint::{Constraint, Gvk, Property, Rule, Subject};

pub use olm_version::{Range, Version};
