//! Dynamic admission: webhooks that are called before a request is executed.
//!
//! * [`active`]: the compiled webhooks; [`hook`]: one of them; [`matching`]: its match rules;
//!   [`conditions`]: its `matchConditions`
//! * [`request`]: a request subject to admission; [`review`]: its review by a webhook
//! * [`mutate`](mod@mutate) and [`validate`](mod@validate): the two rounds; [`update`]: both, for an update
//!   of an object; [`subresource`]: both, for a POST to a subresource
//! * [`rules`]: validation of webhook configurations

pub(crate) mod active;
pub(crate) mod conditions;
mod connect;
pub(crate) mod hook;
pub(crate) mod matching;
mod mutate;
pub(crate) mod request;
pub(crate) mod review;
pub(crate) mod rules;
mod subresource;
mod update;
mod validate;

pub(crate) use self::{
    connect::{admit_request, connect},
    mutate::mutate,
    request::{AdmissionRequest, Operation, options},
    subresource::posted,
    update::UpdateAdmission,
    validate::validate,
};
