//! The objects of a cluster, made of what was validated. Pure.

pub(crate) mod claim;
pub(crate) mod pod;
pub(crate) mod service;
