//! Lists: selectors, pages, resourceVersion.

use std::sync::Arc;

use axum::response::Response;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    call::Call,
    convert, meta,
    selector::Selector,
    status::{ApiError, ApiResult, bytes_response},
};

/// Batch size of the scan once a selector has rejected objects of a page: few further ones may match.
const SCAN_BATCH: usize = 200;

/// Parses the selectors of a request.
pub(crate) fn selector(call: &Call<'_>) -> ApiResult<Selector> {
    let (labels, fields) = (call.query.get("labelSelector"), call.query.get("fieldSelector"));
    let supported = supported_fields(call);
    let selector = Selector::parse(labels, fields, &call.resource.kind, &supported)?;
    Ok(selector)
}

fn supported_fields(call: &Call<'_>) -> Vec<String> {
    let mut fields = call.resource.fields.clone();
    if call.resource.is("events.k8s.io", "events") {
        fields.extend(
            ["reason", "regarding.kind", "regarding.name", "regarding.namespace", "regarding.uid", "type"]
                .map(str::to_owned),
        );
    }
    fields
}

/// All objects that the selectors of a request match, as stored, and the resourceVersion.
pub(crate) async fn matching(call: &Call<'_>) -> ApiResult<(Vec<Arc<Value>>, u64)> {
    let selector = selector(call)?;
    let page = call.server.store.list(&call.resource.stored, &call.info.namespace);
    if selector.is_everything() {
        return Ok((page.items, page.rv));
    }
    // Field selectors apply to the version of the request.
    let shown = convert::present_all(call.server, call.resource, page.items.clone()).await?;
    let pairs = page.items.into_iter().zip(shown);
    Ok((pairs.filter(|(_, shown)| selector.matches(shown)).map(|(item, _)| item).collect(), page.rv))
}

/// GET of a collection.
pub(crate) async fn list(call: &Call<'_>) -> ApiResult<Response> {
    let selector = selector(call)?;
    let limit = call.query.number("limit")?.filter(|l| *l > 0).and_then(|l| usize::try_from(l).ok());
    let store = &call.server.store;
    let token = call.query.get("continue");
    let after = if token.is_empty() { None } else { Some(Token::read(token)?) };
    check_version(call, after.is_some())?;
    // Pages show the current objects under the resourceVersion of the first page: a watch from there replays
    // the changes in between. So the token is valid as long as those events are in the history.
    if after.as_ref().is_some_and(|token| store.events_after(&call.resource.stored, token.rv).is_err()) {
        return Err(ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
        ));
    }
    // One more than the page shows whether further objects exist; later ones are not read.
    let mut chunk = limit.map_or(usize::MAX, |limit| limit.saturating_add(1));
    let mut last = after.as_ref().map(|token| (token.ns.clone(), token.name.clone()));
    let (mut items, mut first) = (Vec::new(), None);
    loop {
        let page = store.list_after(&call.resource.stored, &call.info.namespace, last.as_ref(), chunk);
        first.get_or_insert(page.rv);
        last = page.items.last().map(|item| (meta::namespace(item).to_owned(), meta::name(item).to_owned()));
        if selector.is_everything() {
            items = page.items;
            break;
        }
        let shown = convert::present_all(call.server, call.resource, page.items).await?;
        items.extend(shown.into_iter().filter(|item| selector.matches(item)));
        if !page.more || limit.is_some_and(|limit| items.len() > limit) {
            break;
        }
        chunk = chunk.max(SCAN_BATCH);
    }
    let rv = after.as_ref().map(|token| token.rv).or(first).unwrap_or_default();
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), rv.to_string().into());
    if let Some(limit) = limit.filter(|limit| items.len() > *limit) {
        items.truncate(limit);
        let there = || store.count(&call.resource.stored, &call.info.namespace);
        let left = selector.is_everything().then(|| {
            let before = after.and_then(|token| token.left).unwrap_or_else(there);
            before.saturating_sub(limit).max(1)
        });
        if let Some(last) = items.last() {
            metadata.insert("continue".to_owned(), Token::after(last, rv, left).write().into());
        }
        if let Some(left) = left {
            metadata.insert("remainingItemCount".to_owned(), left.into());
        }
    }
    let shown = convert::present_all(call.server, call.resource, items).await?;
    let bytes = call.format.list(call.resource, &shown, metadata, &call.server.serialized);
    Ok(bytes_response(200, "application/json", bytes))
}

/// `resourceVersion` and `resourceVersionMatch` of a list.
fn check_version(call: &Call<'_>, continued: bool) -> ApiResult<()> {
    let (wanted, how) = (call.query.get("resourceVersion"), call.query.get("resourceVersionMatch"));
    let refuse = |message: &str| {
        Err(ApiError::new(422, "Invalid", format!("ListOptions.meta.k8s.io \"\" is invalid: {message}")))
    };
    if !how.is_empty() && wanted.is_empty() {
        return refuse(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        );
    }
    if !matches!(how, "" | "Exact" | "NotOlderThan") {
        return refuse(
            "resourceVersionMatch: Unsupported value: supported values: \"Exact\", \"NotOlderThan\"",
        );
    }
    if wanted.is_empty() || wanted == "0" {
        return Ok(());
    }
    if continued {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    let wanted: u64 = wanted.parse().map_err(|_| {
        ApiError::bad_request(format!("resourceVersion: Invalid value: \"{wanted}\": must be a number"))
    })?;
    let current = call.server.store.revision();
    if wanted > current {
        return Err(too_large(wanted, current));
    }
    // Old states are not stored: an exact list is only possible for the current one.
    if how == "Exact" && wanted < current && !unchanged_since(call, wanted) {
        return Err(ApiError::expired(format!(
            "The resourceVersion for the provided list is too old: {wanted} ({current})"
        )));
    }
    Ok(())
}

fn unchanged_since(call: &Call<'_>, rv: u64) -> bool {
    call.server.store.events_after(&call.resource.stored, rv).is_ok_and(|(events, _)| events.is_empty())
}

/// A resourceVersion above the current one.
pub(crate) fn too_large(wanted: u64, current: u64) -> ApiError {
    let message = format!("Too large resource version: {wanted}, current: {current}");
    ApiError::new(504, "Timeout", message.clone()).details(json!({
        "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
        "retryAfterSeconds": 1,
    }))
}

/// Continuation token of a list.
#[derive(Serialize, Deserialize)]
struct Token {
    /// The resourceVersion of the whole list.
    rv: u64,
    ns: String,
    name: String,
    /// Remaining number of objects as of the first page, so that later pages need not count again.
    left: Option<usize>,
}

impl Token {
    fn after(last: &Value, rv: u64, left: Option<usize>) -> Self {
        Self { rv, ns: meta::namespace(last).to_owned(), name: meta::name(last).to_owned(), left }
    }

    fn write(&self) -> String {
        BASE64.encode(json!(self).to_string())
    }

    fn read(token: &str) -> ApiResult<Self> {
        let text = BASE64.decode(token).ok();
        let read = text.and_then(|text| serde_json::from_slice(&text).ok());
        read.ok_or_else(|| ApiError::bad_request("continue key is not valid"))
    }
}
