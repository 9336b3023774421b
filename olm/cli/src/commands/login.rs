//! One-time login links of a console.

use http::{Request, header};
use serde::Deserialize;

use crate::exit::{Code, Failure};

/// A one-time link to the console at `base` that signs in the user of the token.
pub async fn link(base: &str, token: &str) -> Result<String, Failure> {
    #[derive(Deserialize)]
    struct Answer {
        code: String,
    }
    let failed =
        |e: String| Failure::new(Code::Unexpected, format!("failed to get a login link from {base}: {e}"));
    let uri = base.parse().map_err(|e: http::uri::InvalidUri| failed(e.to_string()))?;
    let mut config = kube::Config::new(uri);
    // Plain HTTP: works without installed certificate authorities.
    config.root_cert = Some(Vec::new());
    let client = kube::Client::try_from(config).map_err(|e| failed(e.to_string()))?;
    let request = Request::post("/api/v1/login-codes")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(b"{}".to_vec())
        .map_err(|e| failed(e.to_string()))?;
    let answer: Answer = client.request(request).await.map_err(|e| failed(e.to_string()))?;
    Ok(format!("{base}/login?code={}", answer.code))
}
