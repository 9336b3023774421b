//! A request to a resource, with the context of its handler.

use std::sync::{Arc, Mutex, PoisonError};

use axum::response::Response;
use http::{HeaderMap, header};
use olm_devcluster_machinery::ssa;
use serde_json::Value;

use super::{
    authn::Identity,
    convert,
    format::Format,
    request::{Info, Query},
    resource::Resource,
    state::Server,
    status::{ApiError, ApiResult, json_response},
    store::Key,
};

pub(crate) struct Call<'a> {
    pub server: &'a Arc<Server>,
    pub resource: &'a Arc<Resource>,
    pub info: &'a Info,
    pub query: &'a Query,
    pub caller: &'a Identity,
    pub headers: &'a HeaderMap,
    pub format: Format,
    pub warnings: Mutex<Vec<String>>,
}

impl Call<'_> {
    /// A warning for the user, shown by kubectl; does not change the outcome.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    pub(crate) fn dry_run(&self) -> ApiResult<bool> {
        match self.query.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => {
                let message = format!("dryRun: Unsupported value: \"{other}\": supported values: \"All\"");
                Err(ApiError::new(422, "Invalid", message))
            }
        }
    }

    pub(crate) fn key(&self) -> Key {
        self.key_of(&self.info.name)
    }

    pub(crate) fn key_of(&self, name: &str) -> Key {
        let namespace = if self.resource.namespaced { self.info.namespace.as_str() } else { "" };
        Key::new(&self.resource.stored, namespace, name)
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.resource.plural, &self.resource.group, &self.info.name)
    }

    pub(crate) fn modified(&self) -> ApiError {
        ApiError::modified(&self.resource.plural, &self.resource.group, &self.info.name)
    }

    pub(crate) fn current(&self) -> ApiResult<Arc<Value>> {
        self.server.store.get(&self.key()).ok_or_else(|| self.not_found())
    }

    /// The response with an object in the requested form.
    pub(crate) async fn show(&self, code: u16, object: &Arc<Value>) -> ApiResult<Response> {
        let shown = convert::present(self.server, self.resource, object).await?;
        Ok(json_response(code, &self.format.object(self.resource, &shown)))
    }

    pub(crate) fn manager(&self) -> String {
        let given = self.query.get("fieldManager");
        if !given.is_empty() {
            return given.to_owned();
        }
        let agent = self.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        ssa::manager_from_user_agent(agent)
    }
}
