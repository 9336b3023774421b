//! The catalogs of a cluster: add, list, refresh and remove CatalogSources.

mod change;
mod cluster;
mod known;
mod poll;
mod source;

pub use change::{
    Added, CATALOG_EXISTS, add, find_source, list_sources, refresh, remove, set_poll_interval,
    subscriptions_of,
};
pub use cluster::{CatalogStatus, ClusterCatalog, Reading, reading};
pub use known::{KNOWN, Known, known, known_names};
pub use poll::{PollInterval, go_duration};
pub use source::{RequestedCatalog, SourceRefusal, SourceText, has_credentials};
