//! A request subject to admission.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::active::GROUP;
use crate::{
    authn::Identity,
    call::Call,
    convert,
    resource::Resource,
    state::Server,
    status::{ApiError, ApiResult},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A request subject to admission.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionRequest<'a> {
    pub server: &'a Arc<Server>,
    pub resource: &'a Arc<Resource>,
    pub subresource: &'a str,
    pub caller: &'a Identity,
    pub operation: Operation,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The old object, in the version of the request.
    pub old: Option<&'a Arc<Value>>,
    pub dry_run: bool,
    /// `CreateOptions` and the like; created only when a webhook is called.
    pub options: &'a (dyn Fn() -> Value + Sync),
    pub warnings: &'a Mutex<Vec<String>>,
}

impl AdmissionRequest<'_> {
    pub(crate) fn warn(&self, text: &str) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.iter().any(|w| w == text) {
            warnings.push(text.to_owned());
        }
    }

    /// Configurations of webhooks and policies are exempt.
    pub(super) fn is_exempt(&self) -> bool {
        self.resource.group == GROUP
    }
}

/// The options of a request in the form of `meta.k8s.io/v1`.
pub(crate) fn options(call: &Call<'_>, kind: &str) -> Value {
    let mut options = serde_json::json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
    for key in ["fieldManager", "fieldValidation"] {
        let value = call.query.get(key);
        if !value.is_empty() {
            options[key] = value.into();
        }
    }
    if call.query.get("dryRun") == "All" {
        options["dryRun"] = serde_json::json!(["All"]);
    }
    options
}

/// An object in another version of its resource; a failed conversion refuses the request.
pub(crate) async fn to_version(
    admission: &AdmissionRequest<'_>,
    resource: &Resource,
    object: Option<Arc<Value>>,
) -> ApiResult<Option<Arc<Value>>> {
    match object {
        None => Ok(None),
        Some(object) => match convert::present(admission.server, resource, &object).await {
            Ok(converted) => Ok(Some(converted)),
            Err(error) => Err(ApiError::internal(error.message())),
        },
    }
}
