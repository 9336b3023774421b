//! Bodies of changing requests: a form or JSON, with the CSRF token.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts as _, Request},
};
use http::header;
use serde_json::Value;

use crate::{app::App, caller::Caller, error::WebError};

/// Size limit of a body.
pub(crate) const MAX_BODY: usize = 1024 * 1024;
/// Time limit for sending a body.
const BODY_TIME: Duration = Duration::from_secs(20);

/// Fields of a form, in order; a name may occur several times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn parse(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).into_owned().collect())
    }

    /// The first value of a name, trimmed; an empty value counts as absent.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.raw(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The first value of a name, unchanged.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn of_json(body: &[u8]) -> Result<Self, WebError> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|e| WebError::bad_request(format!("failed to parse the request body as JSON: {e}")))?;
        let Value::Object(map) = value else {
            return Err(WebError::bad_request("request body: expected a JSON object"));
        };
        let fields = map.into_iter().filter_map(|(key, value)| match value {
            Value::Null | Value::Bool(false) => None,
            Value::String(text) => Some((key, text)),
            value => Some((key, value.to_string())),
        });
        Ok(Self(fields.collect()))
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Fields {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }
}

/// The fields of any request with a body, without authentication.
pub(crate) struct Body(pub(crate) Fields);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = WebError;

    async fn from_request(request: Request, state: &S) -> Result<Self, WebError> {
        let kind =
            request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let bytes = tokio::time::timeout(BODY_TIME, Bytes::from_request(request, state));
        let bytes = bytes.await.map_err(|_| {
            WebError::new(
                http::StatusCode::REQUEST_TIMEOUT,
                "timeout",
                "Invalid request",
                format!("request body not received within {} s", BODY_TIME.as_secs()),
            )
        })?;
        let bytes = bytes.map_err(|e| {
            WebError::new(e.status(), "bad-body", "Invalid request", e.body_text())
                .hint(format!("send a body of at most {MAX_BODY} bytes"))
        })?;
        match kind.as_str() {
            "application/json" => Fields::of_json(&bytes).map(Self),
            "application/x-www-form-urlencoded" => Ok(Self(Fields::parse(&bytes))),
            "" if bytes.is_empty() => Ok(Self(Fields::default())),
            other => Err(WebError::new(
                http::StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported-media-type",
                "Invalid request",
                format!(
                    "Content-Type: unsupported value `{}`, expected a form or JSON",
                    crate::links::clean(other)
                ),
            )),
        }
    }
}

/// A changing request of an authenticated caller. It is the only way to a body with a caller, so the CSRF
/// token is always checked.
pub(crate) struct Posted {
    pub(crate) caller: Caller,
    pub(crate) fields: Fields,
}

impl FromRequest<Arc<App>> for Posted {
    type Rejection = WebError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, WebError> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, app).await?;
        let headers = parts.headers.clone();
        let Body(fields) = Body::from_request(Request::from_parts(parts, body), app).await?;
        caller.check_csrf(fields.raw("_csrf"), &headers)?;
        Ok(Self { caller, fields })
    }
}
