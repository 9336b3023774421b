//! Admission webhooks for connections: `pods/exec`, `pods/portforward`, `pods/proxy`, `services/proxy`.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{
    mutate::mutate,
    request::{AdmissionRequest, Operation},
    validate::validate,
};
use crate::{
    authn::Identity,
    request::{Info, Query},
    resource::Resource,
    state::Server,
    status::ApiResult,
};

pub(crate) async fn connect(
    server: &Arc<Server>,
    resource: &Arc<Resource>,
    info: &Info,
    query: &Query,
    caller: &Identity,
    warnings: &Mutex<Vec<String>>,
) -> ApiResult<()> {
    let admission = AdmissionRequest {
        server,
        resource,
        subresource: &info.subresource,
        caller,
        operation: Operation::Connect,
        namespace: &info.namespace,
        name: &info.name,
        old: None,
        dry_run: false,
        options: &|| Value::Null,
        warnings,
    };
    if !admission.matches_any() {
        return Ok(());
    }
    admit_request(&admission, Some(&options(info, query))).await
}

/// The options of a connection, as the object of the review.
fn options(info: &Info, query: &Query) -> Value {
    let kind = match (info.resource.as_str(), info.subresource.as_str()) {
        ("services", _) => "ServiceProxyOptions",
        (_, "proxy") => "PodProxyOptions",
        (_, "portforward") => "PodPortForwardOptions",
        _ => "PodExecOptions",
    };
    let mut options = json!({ "kind": kind, "apiVersion": "v1" });
    if info.subresource == "proxy" {
        options["path"] = info.tail.as_str().into();
        return options;
    }
    if info.subresource == "portforward" {
        let ports: Vec<u16> = query
            .all("ports")
            .flat_map(|list| list.split(','))
            .filter_map(|port| port.parse().ok())
            .collect();
        if !ports.is_empty() {
            options["ports"] = ports.into();
        }
        return options;
    }
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if query.flag(flag) {
            options[flag] = true.into();
        }
    }
    let container = query.get("container");
    if !container.is_empty() {
        options["container"] = container.into();
    }
    options["command"] = query.all("command").collect::<Vec<_>>().into();
    options
}

/// Calls both kinds of webhooks for a request that stores no object: a delete, a connection.
pub(crate) async fn admit_request(admission: &AdmissionRequest<'_>, object: Option<&Value>) -> ApiResult<()> {
    let mut copy = object.cloned();
    mutate(admission, copy.as_mut(), &mut |_| Ok(())).await?;
    validate(admission, copy.as_ref()).await
}
