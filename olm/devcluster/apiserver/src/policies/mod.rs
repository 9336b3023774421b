//! Admission policies: CEL rules, stored as objects, that change or refuse requests.
//!
//! * [`active`]: the policies in force; [`policy`]: one of them with its bindings; [`params`]: the parameter
//!   objects of bindings
//! * [`mutate`](mod@mutate) and [`validate`](mod@validate): their evaluation, before the webhooks of the same
//!   round
//! * [`rules`]: validation of policies and bindings
//!
//! As in Kubernetes, except for the `authorizer` variable, which expressions do not have, and audit
//! annotations, which are validated and not written: there is no audit log.

pub(crate) mod active;
mod mutate;
mod params;
pub(crate) mod policy;
pub(crate) mod rules;
mod validate;

pub(crate) use self::{
    mutate::{Reinvocations, mutate},
    validate::validate,
};
