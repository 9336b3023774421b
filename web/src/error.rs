//! Errors with cause and hint. [`pages::error`](crate::pages::error) shows them.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use olm_engine::catalogs::ReadError;

use crate::links::clean;

/// A failed or refused request.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub(crate) struct WebError {
    pub(crate) status: StatusCode,
    /// The failed operation, as a heading.
    pub(crate) what: String,
    /// Cause.
    pub(crate) why: String,
    /// The next step.
    pub(crate) hint: Option<String>,
    /// Stable code for programs.
    pub(crate) code: &'static str,
}

const ASK: &str = "ask an administrator for this permission, or sign in as another user";

impl WebError {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { status, what: what.into(), why: why.into(), hint: None, code }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn not_found(why: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", why)
    }

    pub(crate) fn bad_request(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "Invalid request", why)
    }

    pub(crate) fn forbidden(why: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", why)
    }

    pub(crate) fn unauthorized(why: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "Sign-in required", why).hint(
            "run `olm token` (dev cluster) or `olm console` for a link that signs you in, or paste a token",
        )
    }

    pub(crate) fn too_many(why: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", "Too many requests", why)
            .hint("wait a few seconds and try again")
    }
}

impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<kube::Error> for WebError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(&status),
            error => {
                let mut why = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    let text = cause.to_string();
                    if !why.contains(&text) {
                        why = format!("{why}: {text}");
                    }
                    source = cause.source();
                }
                Self::new(StatusCode::BAD_GATEWAY, "api-server-unreachable", "API server unreachable", why)
                    .hint("check that the cluster is running, then reload")
            }
        }
    }
}

impl WebError {
    /// The error of an API server, with its own message.
    pub(crate) fn of_status(status: &kube::core::Status) -> Self {
        let why = if status.message.is_empty() { status.reason.clone() } else { status.message.clone() };
        match status.code {
            401 => Self::unauthorized("your token is no longer valid"),
            403 => Self::new(StatusCode::FORBIDDEN, "forbidden", "Permission denied", why).hint(ASK),
            404 => Self::not_found(why),
            409 => Self::new(StatusCode::CONFLICT, "conflict", "Conflicting change", why)
                .hint("reload and try again"),
            400 | 422 => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "invalid",
                "The API server rejected the request",
                why,
            ),
            429 => Self::too_many(why),
            _ => Self::new(StatusCode::BAD_GATEWAY, "api-server-error", "API server error", why),
        }
    }
}

impl From<olm_ops::Error> for WebError {
    fn from(error: olm_ops::Error) -> Self {
        use olm_ops::{Error, Kind, PLAN_CHANGED};
        if let Error::Kube { what, source } = &error
            && let kube::Error::Api(status) = source.as_ref()
        {
            let inner = Self::of_status(status);
            return Self { why: format!("failed to {what}: {}", inner.why), ..inner };
        }
        let kind = error.kind();
        let (code, what) = match kind {
            Kind::Unexpected => ("unexpected", "Request failed"),
            Kind::NotFound => ("not-found", "Not found"),
            Kind::Refused if error.is_plan_changed() => (PLAN_CHANGED, "The plan changed"),
            Kind::Refused => ("refused", "Refused"),
            Kind::Unresolvable => ("unresolvable", "No matching version"),
            Kind::Timeout => ("timeout", "Timed out"),
            Kind::Forbidden => ("forbidden", "Permission denied"),
            Kind::AwaitingApproval => ("awaiting-approval", "Waiting for approval"),
        };
        let status = StatusCode::from_u16(kind.http_status()).unwrap_or(StatusCode::BAD_GATEWAY);
        let mut out = Self::new(status, code, what, error.to_string());
        out.hint = error.hint();
        if kind == Kind::Forbidden && out.hint.is_none() {
            return out.hint(ASK);
        }
        out
    }
}

/// A manager or disk that fails to provide a catalog.
impl From<ReadError> for WebError {
    fn from(error: ReadError) -> Self {
        Self::new(
            StatusCode::BAD_GATEWAY,
            "catalog-unreadable",
            "Failed to read the catalog",
            clean(&error.to_string()),
        )
        .hint("retry in a few seconds; see `kubectl logs -n olm deploy/olm-manager`")
    }
}
