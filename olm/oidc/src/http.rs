//! Requests to the provider, with limits of time and size and without redirects.

use std::time::Duration;

use reqwest::{Certificate, Client, RequestBuilder, StatusCode, Url, redirect};

use crate::error::Error;

const CONNECT: Duration = Duration::from_secs(5);
/// Largest response body that is read.
const MAX_BODY: usize = 512 * 1024;

pub(crate) struct Http {
    client: Client,
    whole: Duration,
}

/// A complete response.
pub(crate) struct Answer {
    pub(crate) host: String,
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

impl Http {
    /// With the certificate authorities of a PEM file, or those of the system. `whole` is the timeout of one
    /// exchange.
    pub(crate) fn new(authorities: Option<&[u8]>, whole: Duration) -> Result<Self, Error> {
        // One crypto provider per process; an error means that it is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            Client::builder()
                .user_agent(concat!("olm/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT)
                .redirect(redirect::Policy::none())
                .referer(false)
        };
        let wrong = |why: String| Error::Settings { option: "--oidc-ca-file", why };
        let client = match authorities {
            Some(pem) => {
                let certificates = Certificate::from_pem_bundle(pem).map_err(|error| wrong(chain(&error)))?;
                if certificates.is_empty() {
                    return Err(wrong("no PEM certificate found".into()));
                }
                builder().tls_certs_only(certificates).build().map_err(|error| wrong(chain(&error)))?
            }
            None => match builder().build() {
                Ok(client) => client,
                // A bare container has no authorities: then every server is untrusted, and the error states
                // it.
                Err(_) => builder().tls_certs_only([]).build().map_err(|error| wrong(chain(&error)))?,
            },
        };
        Ok(Self { client, whole })
    }

    pub(crate) fn get(&self, url: &Url) -> RequestBuilder {
        self.client.get(url.clone()).header("accept", "application/json")
    }

    pub(crate) fn post(&self, url: &Url) -> RequestBuilder {
        self.client.post(url.clone()).header("accept", "application/json")
    }

    pub(crate) async fn send(
        &self,
        what: &'static str,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<Answer, Error> {
        let host = url.host_str().unwrap_or_default().to_owned();
        match tokio::time::timeout(self.whole, exchange(what, &host, request)).await {
            Ok(answer) => answer,
            Err(_) => {
                let why = format!("no response within {} s", self.whole.as_secs_f32());
                Err(Error::Unreachable { what, host, why })
            }
        }
    }
}

async fn exchange(what: &'static str, host: &str, request: RequestBuilder) -> Result<Answer, Error> {
    let unreachable = |error: reqwest::Error| Error::Unreachable {
        what,
        host: host.to_owned(),
        why: chain(&error.without_url()),
    };
    let mut response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > MAX_BODY {
            let why = format!("response larger than {} KiB", MAX_BODY / 1024);
            return Err(Error::Answer { what, host: host.to_owned(), why });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { host: host.to_owned(), status, body })
}

impl Answer {
    /// The JSON of a successful response.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, what: &'static str) -> Result<T, Error> {
        if self.status != StatusCode::OK {
            return Err(self.bad(what, format!("status {}", self.status.as_u16())));
        }
        serde_json::from_slice(&self.body).map_err(|error| self.bad(what, malformed(&error)))
    }

    pub(crate) fn bad(&self, what: &'static str, why: String) -> Error {
        Error::Answer { what, host: self.host.clone(), why }
    }
}

/// The position of an error without the text there, which may be a secret.
fn malformed(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Data => {
            format!("missing field or wrong type in JSON (column {})", error.column())
        }
        _ => "body is not JSON".into(),
    }
}

/// An error and its causes, without duplicates.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = cause.source();
    }
    text
}
