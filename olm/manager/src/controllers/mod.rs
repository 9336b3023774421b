//! The controllers, each a pipeline observe → decide (pure) → apply → status, and [`health`], the conditions
//! for generic tools.

pub(crate) mod catalog_source;
pub(crate) mod csv;
pub(crate) mod health;
pub(crate) mod install_plan;
pub(crate) mod olm_config;
pub(crate) mod operator;
pub(crate) mod operator_condition;
pub(crate) mod operator_group;
pub(crate) mod orphans;
pub(crate) mod subscription;
