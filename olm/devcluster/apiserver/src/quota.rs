//! Admission by ResourceQuota and LimitRange.

use std::sync::Arc;

use olm_devcluster_machinery::{limits, quota};
use serde_json::Value;

use super::{
    call::Call,
    meta,
    resource::stored_key,
    status::{ApiError, ApiResult},
};

fn of_namespace(call: &Call<'_>, plural: &str) -> Vec<Arc<Value>> {
    if !call.resource.namespaced || call.info.namespace.is_empty() {
        return Vec::new();
    }
    call.server.store.list(&stored_key("", plural), &call.info.namespace).items
}

/// Whether writes in the namespace of the request use a quota.
pub(crate) fn concerns(call: &Call<'_>) -> bool {
    call.info.subresource.is_empty() && !of_namespace(call, "resourcequotas").is_empty()
}

/// Sets the defaults of LimitRanges for containers.
pub(crate) fn fill_in(call: &Call<'_>, object: &mut Value) {
    if call.resource.is("", "pods") {
        for range in of_namespace(call, "limitranges") {
            limits::fill_in(&range, object);
        }
    }
}

/// Checks an object against the namespace's limits and quotas. The usage of all other objects is counted now,
/// so that no write can interleave while [`super::hooks::lock_allocation`] is held.
pub(crate) fn check(call: &Call<'_>, object: &Value, live: Option<&Value>) -> ApiResult<()> {
    let resource = call.resource;
    if !call.info.subresource.is_empty() {
        return Ok(());
    }
    let refuse =
        |why: &str| Err(ApiError::forbidden(&resource.plural, &resource.group, meta::name(object), why));
    if live.is_none() && (resource.is("", "pods") || resource.is("", "persistentvolumeclaims")) {
        let ranges = of_namespace(call, "limitranges");
        let of = if resource.is("", "pods") { limits::refusals } else { limits::claim_refusals };
        let refusals: Vec<String> = ranges.iter().flat_map(|range| of(range, object)).collect();
        match refusals.as_slice() {
            [] => {}
            [one] => return refuse(one),
            many => return refuse(&format!("[{}]", many.join(", "))),
        }
    }
    let quotas = of_namespace(call, "resourcequotas");
    if quotas.is_empty() {
        return Ok(());
    }
    let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
    let all = call.server.store.list(&resource.stored, &call.info.namespace).items;
    for one in quotas {
        if quota::covers(&one, group, plural, object) {
            let used = quota::used(&one, group, plural, all.iter().map(AsRef::as_ref));
            if let Err(why) = quota::check(&one, group, plural, object, live, &used) {
                return refuse(&why);
            }
        }
    }
    Ok(())
}
