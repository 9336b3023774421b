//! Reading the catalogs that the manager serves, for those outside it: the console and the command line.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use http::{Request, StatusCode, header};
use kube::{Client, Config, client::Body};
use olm_catalog::Catalog;

use super::remote::Remote;

use super::{IndexEntry, LoadedCatalog};
use crate::manifests::{HTTP_PORT, MANAGER, home};

/// The served catalogs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The base URL is none.
    #[error("failed to read catalogs from `{url}`: {text}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        text: String,
    },
    /// Nothing answers.
    #[error("failed to read catalogs from {from}: {source}")]
    Unreachable {
        /// Where they are served.
        from: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// Something answers, but not with what was asked for.
    #[error("failed to read catalogs from {from}: HTTP {status}{text}")]
    Status {
        /// The URL.
        from: String,
        /// HTTP status.
        status: u16,
        /// The start of the body.
        text: String,
    },
    /// The answer is not what a manager of this version says.
    #[error("failed to read catalogs from {from}: {text}")]
    Malformed {
        /// The URL.
        from: String,
        /// What is wrong.
        text: String,
    },
}

/// Plain HTTP needs no certificate authority. An image from scratch has none, and making the client would fail there.
fn plain(mut config: Config) -> Config {
    if config.cluster_url.scheme_str() == Some("http") {
        config.root_cert = Some(Vec::new());
    }
    config
}

/// Reads the indexes of served catalogs, and each only once: by ETag, the second time is one small request.
pub struct Fetcher {
    server: Server,
    cache: Mutex<HashMap<String, Cached>>,
}

#[derive(Clone)]
struct Cached {
    etag: String,
    catalog: Arc<Catalog>,
    remote: Arc<Remote>,
}

/// A manager that serves catalogs.
#[derive(Clone)]
pub(super) struct Server {
    client: Client,
    prefix: String,
    from: String,
}

impl Fetcher {
    /// Straight from the manager's HTTP port, for those inside the cluster network.
    ///
    /// # Errors
    /// When the URL is malformed.
    pub fn base_url(url: &str) -> Result<Self, FetchError> {
        let failed = |text: String| FetchError::Url { url: url.to_owned(), text };
        let uri =
            url.trim_end_matches('/').parse().map_err(|e: http::uri::InvalidUri| failed(e.to_string()))?;
        let client = Client::try_from(plain(Config::new(uri))).map_err(|e| failed(e.to_string()))?;
        Ok(Self::new(client, String::new(), url.trim_end_matches('/').to_owned()))
    }

    /// Through the API server's service proxy, for those outside; needs `get` on `services/proxy` in namespace
    /// `olm`.
    #[must_use]
    pub fn service_proxy(client: Client) -> Self {
        let namespace = home();
        let prefix = format!("/api/v1/namespaces/{namespace}/services/{MANAGER}:{HTTP_PORT}/proxy");
        Self::new(client, prefix, format!("service {namespace}/{MANAGER} (by the API server's proxy)"))
    }

    fn new(client: Client, prefix: String, from: String) -> Self {
        Self { server: Server { client, prefix, from }, cache: Mutex::default() }
    }

    /// All catalogs that are being served, best first: by priority, then by name.
    ///
    /// A catalog that disappears between the index and its content is left out.
    ///
    /// # Errors
    /// [`FetchError`] when the manager cannot be reached or does not answer as it should.
    pub async fn fetch(&self) -> Result<Vec<LoadedCatalog>, FetchError> {
        let index = self.index().await?;
        let mut out = Vec::with_capacity(index.len());
        for entry in index {
            if let Some(Cached { catalog, remote, .. }) = self.content(&entry).await? {
                out.push(LoadedCatalog {
                    reference: entry.reference(),
                    display_name: entry.display_name,
                    publisher: entry.publisher,
                    priority: entry.priority,
                    catalog,
                    home: super::Home::Remote(remote),
                });
            }
        }
        super::sort(&mut out);
        Ok(out)
    }

    /// What is being served and in which state, without the content.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub async fn index(&self) -> Result<Vec<IndexEntry>, FetchError> {
        let (status, _, body) = self.server.get("/catalogs", None).await?;
        self.server.expect_ok("/catalogs", status, &body)?;
        serde_json::from_slice(&body).map_err(|e| self.server.malformed("/catalogs", &e))
    }

    async fn content(&self, entry: &IndexEntry) -> Result<Option<Cached>, FetchError> {
        let base = format!("/catalogs/{}/{}/api/v1", entry.namespace, entry.name);
        let path = format!("{base}/index");
        let cached = self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(&path).cloned();
        let (status, etag, body) = self.server.get(&path, cached.as_ref().map(|c| c.etag.as_str())).await?;
        match (status, cached) {
            (StatusCode::NOT_MODIFIED, Some(cached)) => return Ok(Some(cached)),
            (StatusCode::NOT_FOUND, _) => return Ok(None),
            _ => self.server.expect_ok(&path, status, &body)?,
        }
        let origin = format!("{}/{}", entry.namespace, entry.name);
        let catalog = Catalog::from_index(&origin, &body).map_err(|e| self.server.malformed(&path, &e))?;
        let remote = Arc::new(Remote::new(self.server.clone(), base));
        let cached = Cached { etag: etag.unwrap_or_default(), catalog: Arc::new(catalog), remote };
        if !cached.etag.is_empty() {
            self.cache.lock().unwrap_or_else(PoisonError::into_inner).insert(path, cached.clone());
        }
        Ok(Some(cached))
    }
}

impl Server {
    pub(super) async fn get(
        &self,
        path: &str,
        etag: Option<&str>,
    ) -> Result<(StatusCode, Option<String>, Vec<u8>), FetchError> {
        let mut request = Request::get(format!("{}{path}", self.prefix));
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
        // Of a Kubernetes Status only the message is for people.
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
