//! Admission webhooks for a POST to a subresource: a binding, an eviction.

use serde_json::Value;

use super::{
    mutate::mutate,
    request::{AdmissionRequest, Operation, options},
    validate::validate,
};
use crate::{call::Call, status::ApiResult};

/// Calls both kinds of webhooks, and applies their changes to the posted object.
pub(crate) async fn posted(
    call: &Call<'_>,
    subresource: &str,
    object: &mut Value,
    dry_run: bool,
) -> ApiResult<()> {
    let options = || options(call, "CreateOptions");
    let admission = AdmissionRequest {
        server: call.server,
        resource: call.resource,
        subresource,
        caller: call.caller,
        operation: Operation::Create,
        namespace: &call.info.namespace,
        name: &call.info.name,
        old: None,
        dry_run,
        options: &options,
        warnings: &call.warnings,
    };
    mutate(&admission, Some(object), &mut |_| Ok(())).await?;
    validate(&admission, Some(object)).await
}
