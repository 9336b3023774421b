//! Error responses of the API server that are not a `Status`.

use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Limited};
use kube::{Client, client::Body};
use serde_json::json;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Largest error body that is read; kube-apiserver's has 19 bytes, a proxy's page some kilobytes.
const LONGEST: usize = 64 << 10;

/// The same connection, with every error response as a `Status` with a reason. kube-apiserver answers in
/// plain text for a kind that no CustomResourceDefinition serves (yet), and proxies answer with pages;
/// `get_opt` and `is_not_found` of the client library look only at the reason and take such a 404 for a
/// failure.
#[must_use]
pub fn with_statuses(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move { to_status(client.send(request).await?).await }
    });
    Client::new(service, namespace)
}

async fn to_status(answer: Response<Body>) -> Result<Response<Body>, BoxError> {
    let Some(reason) = reason(answer.status()) else { return Ok(answer) };
    let is_json = |value: &HeaderValue| value.as_bytes().starts_with(b"application/json");
    if answer.headers().get(CONTENT_TYPE).is_some_and(is_json) {
        return Ok(answer);
    }
    let (mut head, body) = answer.into_parts();
    let text = match Limited::new(body, LONGEST).collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).trim().to_owned(),
        // The status code is sufficient.
        Err(_) => head.status.to_string(),
    };
    // A Status under another content type.
    let status = if text.starts_with('{') {
        text
    } else {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": text, "reason": reason, "code": head.status.as_u16(),
        })
        .to_string()
    };
    head.headers.remove(http::header::CONTENT_LENGTH);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(Response::from_parts(head, Body::from(status.into_bytes())))
}

/// Kubernetes' reason for a status code, for the codes that callers distinguish.
fn reason(code: StatusCode) -> Option<&'static str> {
    match code {
        StatusCode::UNAUTHORIZED => Some("Unauthorized"),
        StatusCode::FORBIDDEN => Some("Forbidden"),
        StatusCode::NOT_FOUND => Some("NotFound"),
        StatusCode::TOO_MANY_REQUESTS => Some("TooManyRequests"),
        StatusCode::SERVICE_UNAVAILABLE => Some("ServiceUnavailable"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kube::{Api, api::ListParams, core::DynamicObject};

    use super::*;

    /// A server with one fixed response.
    fn server(code: u16, content_type: &'static str, body: &'static str) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let answer = Response::builder().status(code).header("content-type", content_type);
            Ok::<_, BoxError>(answer.body(Body::from(body.as_bytes().to_vec()))?)
        });
        with_statuses(Client::new(service, "default"))
    }

    fn api(client: Client) -> Api<DynamicObject> {
        let gvk = kube::core::GroupVersionKind::gvk("monitoring.coreos.com", "v1", "ServiceMonitor");
        Api::namespaced_with(client, "a", &kube::core::ApiResource::from_gvk(&gvk))
    }

    async fn refusal(client: Client) -> Box<kube::core::Status> {
        match api(client).list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) => status,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn an_unserved_kind_is_not_found_as_in_kube_apiserver() {
        let server = server(404, "text/plain; charset=utf-8", "404 page not found\n");
        assert!(api(server.clone()).get_opt("b").await.unwrap().is_none());
        let status = refusal(server).await;
        assert!(status.is_not_found());
        assert_eq!((status.code, status.message.as_str()), (404, "404 page not found"));
    }

    #[tokio::test]
    async fn a_proxys_page_gets_a_reason_and_a_status_is_unchanged() {
        let status = refusal(server(403, "text/html", "<html>no</html>")).await;
        assert!(status.is_forbidden());
        assert_eq!(status.message, "<html>no</html>");
        let own = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"m","reason":"Expired","code":503}"#;
        for content_type in ["application/json", "text/plain"] {
            assert_eq!(refusal(server(503, content_type, own)).await.reason, "Expired");
        }
    }
}
