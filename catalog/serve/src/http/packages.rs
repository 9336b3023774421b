//! The package list: every package in short, for lists and completion; and the whole index, for resolvers.
//!
//! The first is small enough to download whole: fields used only for search (keywords, and the APIs of older
//! versions) are left out. It still deserializes as [`Summary`], with those fields empty.

use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use olm_catalog::{Catalog, Summary, hex};
use sha2::{Digest, Sha256};

use super::conditional::{Encoding, Validators};
use super::target::Target;
use super::text;

/// An index of a catalog, compressed once and cached: for 333 packages 190 KB become 40.
pub(super) struct CompressedIndex {
    /// Of the JSON: another program version's JSON has another tag, whatever the catalog's digest.
    tag: String,
    gzip: Bytes,
}

/// The packages in a few lines each.
fn short(catalog: &Catalog) -> Result<Vec<u8>, serde_json::Error> {
    let short = |summary: &Summary| Summary { provides: Vec::new(), keywords: Vec::new(), ..summary.clone() };
    serde_json::to_vec(&catalog.summaries().map(short).collect::<Vec<_>>())
}

impl CompressedIndex {
    fn of(json: &[u8]) -> std::io::Result<Self> {
        let tag = hex(&Sha256::digest(json));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(json)?;
        Ok(Self { tag, gzip: encoder.finish()?.into() })
    }

    fn body(&self, encoding: Encoding) -> std::io::Result<Bytes> {
        match encoding {
            Encoding::Gzip => Ok(self.gzip.clone()),
            Encoding::Identity => {
                let mut json = Vec::new();
                GzDecoder::new(&*self.gzip).read_to_end(&mut json)?;
                Ok(json.into())
            }
        }
    }
}

/// The packages of a catalog by name, as a JSON array.
pub(super) async fn packages(target: Target, method: Method, headers: HeaderMap) -> Response {
    let cached = Arc::clone(&target.known.packages);
    answer(target, cached, short, method, headers).await
}

/// The complete index of the packages.
pub(super) async fn index(target: Target, method: Method, headers: HeaderMap) -> Response {
    let cached = Arc::clone(&target.known.index);
    answer(target, cached, |catalog| Ok(catalog.index()), method, headers).await
}

async fn answer(
    target: Target,
    cached: Arc<OnceLock<CompressedIndex>>,
    json: fn(&Catalog) -> Result<Vec<u8>, serde_json::Error>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let encoding = Encoding::accepted(&headers);
    let catalog = Arc::clone(&target.catalog);
    let made = tokio::task::spawn_blocking(move || {
        if cached.get().is_none() {
            // Two concurrent requests compute the same value; the first one stays.
            _ = cached.set(CompressedIndex::of(&json(&catalog)?).map_err(serde_json::Error::io)?);
        }
        let Some(index) = cached.get() else { return Ok(None) };
        let body = index.body(encoding).map_err(serde_json::Error::io)?;
        Ok::<_, serde_json::Error>(Some((index.tag.clone(), body)))
    });
    let (tag, body) = match made.await {
        Ok(Ok(Some(made))) => made,
        Ok(Ok(None)) => return failed(&target.catalog, &"not stored"),
        Ok(Err(error)) => return failed(&target.catalog, &error),
        Err(error) => return failed(&target.catalog, &error),
    };
    let validators = Validators::new(&tag, encoding, Some(target.known.modified()));
    if let Some(response) = validators.unmet(&headers) {
        return response;
    }
    let length = body.len();
    let mut response = Response::new(if method == Method::HEAD { Body::empty() } else { Body::from(body) });
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_LENGTH, length.into());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    encoding.add_to(headers);
    validators.add_to(headers);
    response
}

fn failed(catalog: &Catalog, error: &dyn std::fmt::Display) -> Response {
    tracing::error!(catalog = catalog.origin, %error, "failed to create a package index");
    text(StatusCode::INTERNAL_SERVER_ERROR, "failed to create the package index; see the server's log")
}
