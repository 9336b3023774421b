//! Builds the objects of a cluster from its validated spec. Pure.

pub(crate) mod claim;
pub(crate) mod pod;
pub(crate) mod service;
