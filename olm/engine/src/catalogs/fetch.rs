//! Reads the catalogs that the manager serves, for processes outside it: the console and the command line.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use http::{HeaderValue, Request, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, Config, api::PostParams, client::Body};
use olm_catalog::Catalog;
use olm_client::{FORWARD, FORWARDED_AUTHORIZATION};

use super::{
    IndexEntry, LoadedCatalog,
    remote::{Recent, Remote},
};
use crate::{site::HTTP_PORT, site::MANAGER, site::manager_namespace};

/// The served catalogs are unreadable.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The base URL is invalid.
    #[error("failed to read catalogs from `{url}`: {text}")]
    Url { url: String, text: String },
    /// No connection.
    #[error("failed to read catalogs from {from}: {source}")]
    Unreachable {
        /// Where the catalogs are served.
        from: String,
        source: Box<kube::Error>,
    },
    /// An unexpected status, perhaps from another server.
    #[error("failed to read catalogs from {from}: HTTP {status}{text}")]
    Status {
        from: String,
        status: u16,
        /// The start of the body.
        text: String,
    },
    /// The response does not match a manager of this version.
    #[error("failed to read catalogs from {from}: {text}")]
    Malformed { from: String, text: String },
}

impl FetchError {
    /// Whether the API server or the manager denies the request to the caller.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Status { status: 403, .. })
    }
}

/// The manager's certificate is self-signed, so TLS encrypts the traffic and does not authenticate the
/// server, as with the API server's own proxy. No certificate authority is needed then; an image from scratch
/// has none.
fn unverified(mut config: Config) -> Config {
    config.root_cert = Some(Vec::new());
    config.accept_invalid_certs = true;
    config
}

/// How long a token for the manager is valid: the minimum that the API server issues.
const TOKEN_SECONDS: i64 = 600;

/// Reads the indexes of served catalogs and caches them by ETag: a second read is one small request.
#[derive(Clone)]
pub struct Fetcher {
    server: Server,
    cache: Arc<Mutex<HashMap<String, Cached>>>,
}

#[derive(Clone)]
struct Cached {
    etag: String,
    catalog: Arc<Catalog>,
    /// Packages of this content that were read.
    recent: Recent,
}

/// A manager that serves catalogs.
#[derive(Clone)]
pub(super) struct Server {
    client: Client,
    prefix: String,
    from: String,
    credentials: Credentials,
}

/// The credentials with which catalogs are read.
#[derive(Clone)]
enum Credentials {
    None,
    Bearer(HeaderValue),
    /// The client's own token. A client without one, such as one with a certificate, gets a token of the
    /// manager's ServiceAccount that is valid at the manager alone; the API server issues it to users who may
    /// create tokens.
    Client(Arc<Mutex<Option<HeaderValue>>>),
}

impl Fetcher {
    /// Directly from the manager's HTTP port, for callers inside the cluster network.
    ///
    /// # Errors
    /// When the URL is malformed.
    pub fn base_url(url: &str) -> Result<Self, FetchError> {
        let failed = |text: String| FetchError::Url { url: url.to_owned(), text };
        let uri =
            url.trim_end_matches('/').parse().map_err(|e: http::uri::InvalidUri| failed(e.to_string()))?;
        let client = olm_client::connect(unverified(Config::new(uri))).map_err(|e| failed(e.to_string()))?;
        Ok(Self::new(client, String::new(), url.trim_end_matches('/').to_owned(), Credentials::None))
    }

    /// The same fetcher for the user of a bearer token. Content cached for other users is shared; whether
    /// this user may read it is always checked.
    ///
    /// # Errors
    /// When the token is not a valid header value.
    pub fn as_user(&self, token: &str) -> Result<Self, FetchError> {
        let mut fetcher = self.clone();
        fetcher.server.credentials = Credentials::Bearer(bearer(token, &self.server.from)?);
        Ok(fetcher)
    }

    /// Through the API server's service proxy, for callers outside the cluster; needs `get` on
    /// `services/proxy` in namespace `olm`. Catalogs are read with the client's user; the client must be one
    /// of [`olm_client::connect`].
    #[must_use]
    pub fn service_proxy(client: Client) -> Self {
        let namespace = manager_namespace();
        let prefix = format!("/api/v1/namespaces/{namespace}/services/https:{MANAGER}:{HTTP_PORT}/proxy");
        let from = format!("service {namespace}/{MANAGER} (through the API server's proxy)");
        Self::new(client, prefix, from, Credentials::Client(Arc::default()))
    }

    fn new(client: Client, prefix: String, from: String, credentials: Credentials) -> Self {
        Self { server: Server { client, prefix, from, credentials }, cache: Arc::default() }
    }

    /// All served catalogs, best first: by priority, then by name.
    ///
    /// A catalog that disappears between the index and its content is left out.
    ///
    /// # Errors
    /// [`FetchError`] when the manager is unreachable or its response is invalid.
    pub async fn fetch(&self) -> Result<Vec<LoadedCatalog>, FetchError> {
        let index = self.index().await?;
        let mut out = Vec::with_capacity(index.len());
        for entry in index {
            if let Some((catalog, remote)) = self.content(&entry).await? {
                out.push(LoadedCatalog {
                    reference: entry.reference(),
                    display_name: entry.display_name,
                    publisher: entry.publisher,
                    priority: entry.priority,
                    catalog,
                    image: entry.image,
                    backend: super::Backend::Remote(remote),
                });
            }
        }
        super::sort(&mut out);
        Ok(out)
    }

    /// The served catalogs and their state, without the content.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub async fn index(&self) -> Result<Vec<IndexEntry>, FetchError> {
        let (status, _, body) = self.server.get("/catalogs", None).await?;
        self.server.expect_ok("/catalogs", status, &body)?;
        serde_json::from_slice(&body).map_err(|e| self.server.malformed("/catalogs", &e))
    }

    /// Checks that the manager answers and has loaded its catalogs.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub async fn ready(&self) -> Result<(), FetchError> {
        let (status, _, body) = self.server.get("/readyz", None).await?;
        self.server.expect_ok("/readyz", status, &body)
    }

    async fn content(&self, entry: &IndexEntry) -> Result<Option<(Arc<Catalog>, Arc<Remote>)>, FetchError> {
        let base = format!("/catalogs/{}/{}/api/v1", entry.namespace, entry.name);
        let path = format!("{base}/index");
        let cached = self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(&path).cloned();
        let (status, etag, body) = self.server.get(&path, cached.as_ref().map(|c| c.etag.as_str())).await?;
        let read = |cached: Cached| {
            let remote = Remote::new(self.server.clone(), base.clone(), cached.recent);
            Some((cached.catalog, Arc::new(remote)))
        };
        match (status, cached) {
            (StatusCode::NOT_MODIFIED, Some(cached)) => return Ok(read(cached)),
            // Removed since the list was read, or no longer readable for this user.
            (StatusCode::NOT_FOUND | StatusCode::FORBIDDEN, _) => return Ok(None),
            _ => self.server.expect_ok(&path, status, &body)?,
        }
        let origin = format!("{}/{}", entry.namespace, entry.name);
        let catalog = Catalog::from_index(&origin, &body).map_err(|e| self.server.malformed(&path, &e))?;
        let cached =
            Cached { etag: etag.unwrap_or_default(), catalog: Arc::new(catalog), recent: Recent::default() };
        if !cached.etag.is_empty() {
            self.cache.lock().unwrap_or_else(PoisonError::into_inner).insert(path, cached.clone());
        }
        Ok(read(cached))
    }
}

/// Status, ETag and body.
type Answer = (StatusCode, Option<String>, Vec<u8>);

fn bearer(token: &str, from: &str) -> Result<HeaderValue, FetchError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| FetchError::Malformed {
        from: from.to_owned(),
        text: "the bearer token contains invalid characters".to_owned(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

impl Server {
    pub(super) async fn get(&self, path: &str, etag: Option<&str>) -> Result<Answer, FetchError> {
        let answer = self.send(path, etag).await?;
        match &self.credentials {
            Credentials::Client(token) if answer.0 == StatusCode::UNAUTHORIZED => {
                let issued = self.issued().await?;
                *token.lock().unwrap_or_else(PoisonError::into_inner) = Some(issued);
                self.send(path, etag).await
            }
            _ => Ok(answer),
        }
    }

    /// A token that is valid at the manager alone.
    async fn issued(&self) -> Result<HeaderValue, FetchError> {
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(vec![MANAGER.to_owned()]),
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), manager_namespace());
        let issued = accounts.create_token_request(MANAGER, &PostParams::default(), &request).await;
        let issued = issued.map_err(|error| FetchError::Status {
            from: self.from.clone(),
            status: if matches!(&error, kube::Error::Api(status) if status.is_forbidden()) {
                403
            } else {
                401
            },
            text: format!(
                ": the manager does not accept the kubeconfig's credentials, and the request for a token \
                    failed ({error}); use a kubeconfig with a bearer token"
            ),
        })?;
        bearer(&issued.status.and_then(|status| status.token).unwrap_or_default(), &self.from)
    }

    async fn send(&self, path: &str, etag: Option<&str>) -> Result<Answer, FetchError> {
        let mut request = Request::get(format!("{}{path}", self.prefix));
        request = match &self.credentials {
            Credentials::None => request,
            Credentials::Bearer(token) => request.header(header::AUTHORIZATION, token),
            Credentials::Client(issued) => {
                let issued = issued.lock().unwrap_or_else(PoisonError::into_inner).clone();
                request.header(FORWARDED_AUTHORIZATION, issued.unwrap_or(FORWARD))
            }
        };
        if let Some(etag) = etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        let request = request
            .body(Body::empty())
            .map_err(|e| FetchError::Malformed { from: self.from.clone(), text: e.to_string() })?;
        let unreachable =
            |source| FetchError::Unreachable { from: self.from.clone(), source: Box::new(source) };
        let response = self.client.send(request).await.map_err(unreachable)?;
        let (parts, body) = response.into_parts();
        let etag = parts.headers.get(header::ETAG).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let body = body.collect_bytes().await.map_err(unreachable)?;
        Ok((parts.status, etag, body.to_vec()))
    }

    pub(super) fn expect_ok(&self, path: &str, status: StatusCode, body: &[u8]) -> Result<(), FetchError> {
        if status.is_success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&body[..body.len().min(300)]);
        // Only the message of a Kubernetes Status is human-readable.
        let message = serde_json::from_slice::<serde_json::Value>(body)
            .ok()
            .and_then(|v| v.get("message").and_then(|m| m.as_str()).map(str::to_owned));
        let text = message.unwrap_or_else(|| text.trim().to_owned());
        Err(FetchError::Status {
            from: format!("{}{path}", self.from),
            status: status.as_u16(),
            text: if text.is_empty() { text } else { format!(": {text}") },
        })
    }

    pub(super) fn malformed(&self, path: &str, error: &impl ToString) -> FetchError {
        FetchError::Malformed { from: format!("{}{path}", self.from), text: error.to_string() }
    }
}
