//! Webhooks that are asked about what is posted to a subresource: a binding, an eviction.

use serde_json::Value;

use super::{Asked, Operation, mutate, options, validate};
use crate::api::{server::Call, status::ApiResult};

/// Asks both kinds of webhooks, and writes into the posted object what they change of it.
pub(crate) async fn posted(
    call: &Call<'_>,
    subresource: &str,
    object: &mut Value,
    dry_run: bool,
) -> ApiResult<()> {
    let options = || options(call, "CreateOptions");
    let asked = Asked {
        server: call.server,
        resource: call.resource,
        subresource,
        who: call.who,
        operation: Operation::Create,
        namespace: &call.info.namespace,
        name: &call.info.name,
        old: None,
        dry_run,
        options: &options,
        warnings: &call.warnings,
    };
    mutate(&asked, Some(object), &mut |_| Ok(())).await?;
    validate(&asked, Some(object)).await
}
