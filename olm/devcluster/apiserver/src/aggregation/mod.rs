//! API aggregation: extension API servers behind this one, registered by APIServices.
//!
//! * [`registered`]: the APIServices in force; [`local`]: APIServices for this server's own groups
//! * [`remote`]: extension API servers with their endpoints; [`availability`]: their health; [`proxy`]:
//!   requests to them
//! * [`front`]: this server's authentication at them; [`discovery`]: their discovery documents;
//!   [`rules`]: validation of APIServices

mod availability;
mod discovery;
mod front;
mod local;
mod proxy;
pub(crate) mod registered;
mod remote;
pub(crate) mod rules;

pub(crate) use self::{
    availability::start_checks,
    discovery::{fetch_openapi, merge_groups},
    front::FrontProxy,
    local::sync,
    proxy::forward,
};
