//! The operator and its kinds.

pub mod myapp;

use operator_kit::Operator;

/// The operator with all its kinds.
pub fn operator() -> Operator {
    Operator::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).kind(myapp::kind())
}
