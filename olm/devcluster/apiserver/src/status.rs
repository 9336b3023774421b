//! Errors in Kubernetes' wording: `Status` objects with code, reason, message and details.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use olm_devcluster_machinery::{
    field_error::{FieldError, invalid_status},
    patch::PatchError,
};
use serde_json::{Value, json};

/// A refused request: the response `Status`.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    status: Box<Value>,
    retry_after: Option<u32>,
    /// Sent as text: without a kind there is no `Status`.
    plain: bool,
}

/// The result of request handlers.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

/// `deployments.apps`, or `pods` in the core group.
pub(crate) fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

impl ApiError {
    pub(crate) fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self::from_status(json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message.into(), "reason": reason, "code": code,
        }))
    }

    pub(crate) fn from_status(status: Value) -> Self {
        Self { status: Box::new(status), retry_after: None, plain: false }
    }

    pub(crate) fn details(mut self, details: Value) -> Self {
        if let Some(status) = self.status.as_object_mut() {
            status.insert("details".to_owned(), details);
        }
        self
    }

    /// Causes among the details.
    pub(crate) fn causes(mut self, messages: impl IntoIterator<Item = String>) -> Self {
        let causes: Vec<Value> = messages.into_iter().map(|message| json!({ "message": message })).collect();
        self.status["details"]["causes"] = causes.into();
        self
    }

    /// Details with the object; `kind` is the plural, as in Kubernetes.
    pub(crate) fn with_object(self, plural: &str, group: &str, name: &str) -> Self {
        let mut details = json!({});
        for (key, value) in [("name", name), ("group", group), ("kind", plural)] {
            if !value.is_empty() {
                details[key] = value.into();
            }
        }
        self.details(details)
    }

    /// Sets the client's retry delay.
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.status["details"]["retryAfterSeconds"] = seconds.into();
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn status(&self) -> &Value {
        &self.status
    }

    pub(crate) fn code(&self) -> u16 {
        self.status["code"].as_u64().and_then(|c| u16::try_from(c).ok()).unwrap_or(500)
    }

    pub(crate) fn message(&self) -> &str {
        self.status["message"].as_str().unwrap_or_default()
    }

    pub(crate) fn not_found(plural: &str, group: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", qualified(plural, group)))
            .with_object(plural, group, name)
    }

    /// An unknown path outside of the built-in ones: kube-apiserver's fallback text.
    pub(crate) fn page_not_found() -> Self {
        Self { plain: true, ..Self::new(404, "NotFound", "404 page not found") }
    }

    /// An unknown path below a built-in one.
    pub(crate) fn no_route() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").details(json!({}))
    }

    pub(crate) fn already_exists(plural: &str, group: &str, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", qualified(plural, group)))
            .with_object(plural, group, name)
    }

    pub(crate) fn conflict(plural: &str, group: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(plural, group));
        Self::new(409, "Conflict", message).with_object(plural, group, name)
    }

    /// The caller's resourceVersion is not the stored one.
    pub(crate) fn modified(plural: &str, group: &str, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(plural, group, name, why)
    }

    pub(crate) fn forbidden(plural: &str, group: &str, name: &str, why: &str) -> Self {
        let resource = qualified(plural, group);
        let subject = if name.is_empty() { resource } else { format!("{resource} \"{name}\"") };
        Self::new(403, "Forbidden", format!("{subject} is forbidden: {why}")).with_object(plural, group, name)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .details(json!({}))
    }

    /// A Kubernetes feature that this dev cluster does not implement.
    pub(crate) fn not_implemented(what: &str) -> Self {
        Self::new(501, "NotImplemented", format!("{what}: not implemented by the dev cluster"))
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {message}");
        Self::new(500, "InternalError", message.clone())
            .details(json!({ "causes": [{ "message": message }] }))
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        let mut error = Self::new(503, "ServiceUnavailable", message);
        error.retry_after = Some(1);
        error
    }

    pub(crate) fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        Self::from_status(invalid_status(group, kind, name, errors))
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message())
    }
}

impl From<PatchError> for ApiError {
    fn from(error: PatchError) -> Self {
        Self::new(error.code(), error.reason(), error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = if self.plain {
            bytes_response(self.code(), "text/plain; charset=utf-8", format!("{}\n", self.message()))
        } else {
            json_response(self.code(), &self.status)
        };
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// A JSON response.
pub(crate) fn json_response(code: u16, value: &Value) -> Response {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    bytes_response(code, "application/json", bytes)
}

/// A response of serialized bytes.
pub(crate) fn bytes_response(code: u16, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-cache, private"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_in_kubernetes() {
        let cases = [
            (ApiError::not_found("deployments", "apps", "x"), 404, "deployments.apps \"x\" not found"),
            (ApiError::already_exists("pods", "", "x"), 409, "pods \"x\" already exists"),
            (ApiError::forbidden("pods", "", "", "no"), 403, "pods is forbidden: no"),
            (
                ApiError::modified("pods", "", "x"),
                409,
                "Operation cannot be fulfilled on pods \"x\": the object has been modified; please apply your \
                 changes to the latest version and try again",
            ),
        ];
        for (error, code, message) in cases {
            assert_eq!((error.code(), error.message()), (code, message));
        }
    }

    #[test]
    fn details_name_the_object() {
        let error = ApiError::not_found("deployments", "apps", "x");
        assert_eq!(error.status()["details"], json!({"name": "x", "group": "apps", "kind": "deployments"}));
    }
}
