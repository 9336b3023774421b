//! Small universes in a short notation.
#![allow(dead_code, unused_imports)] // every test binary uses its own part of this

pub mod answer;
pub mod build;
pub mod generate;
pub mod hard;
pub mod model;
pub mod plain;
pub mod problem;
pub mod rng;
pub mod sat;
pub mod shrink;

pub use build::{B, World, b, catalog_ref, gvk, installs};
