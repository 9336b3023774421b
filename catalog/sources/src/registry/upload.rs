//! Pushes: blobs in one piece, then manifests.

use std::{fs::File, path::Path, time::Duration};

use futures::TryStreamExt as _;
use reqwest::{
    Body, Method, RequestBuilder, Response, StatusCode, Url,
    header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION},
};
use tokio_util::io::ReaderStream;

use super::{Repository, digest_header};
use crate::{
    digest::Digest,
    error::SourceError,
    image::{Pinned, manifest::Descriptor},
    net::{self, Redirects},
    progress::Retried,
    retry::{Attempts, Failure},
};

/// Minimum average of an upload, in bytes per second.
const SLOWEST: u64 = 32 << 10;
/// Bytes that are read from a file at once.
const PIECE: usize = 64 << 10;

impl Repository<'_> {
    /// Uploads a blob that the registry does not have. Returns whether it was uploaded.
    pub async fn upload(&self, blob: &Descriptor, path: &Path) -> Result<bool, SourceError> {
        let what = format!("the blob {} to {}", blob.digest, self.name);
        let (mut attempts, transfer) =
            (Attempts::new(&self.http.options.timeouts, &what), Retried::default());
        loop {
            match self.upload_once(blob, path, &what, &transfer).await {
                Ok(uploaded) => return Ok(uploaded),
                Err(failure) => attempts.after(failure).await?,
            }
        }
    }

    async fn upload_once(
        &self,
        blob: &Descriptor,
        path: &Path,
        what: &str,
        transfer: &Retried,
    ) -> Result<bool, Failure> {
        match self.get(Method::HEAD, &format!("blobs/{}", blob.digest), what, None).await {
            Ok(_) => return Ok(false),
            // A registry without HEAD gets the blob again.
            Err(Failure::Fatal(SourceError::NotFound { .. } | SourceError::Malformed { .. })) => {}
            Err(failure) => return Err(failure),
        }
        let start = self.url("blobs/uploads/", what)?;
        let client = self.http.client(&start, &self.host, what, Redirects::Refused)?;
        let request = || Ok(client.post(start.clone()).header(CONTENT_LENGTH, 0));
        let response = self.authenticated(request, what).await?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            let reason = "the registry is read-only (405), such as a pull-through cache; push to the registry \
                          behind it";
            return Err(SourceError::malformed(what, reason).into());
        }
        let response = net::success(response, what, || self.tried()).await?;
        let mut target = location(&response, &start)
            .ok_or_else(|| SourceError::malformed(what, "the server named no valid URL for the upload"))?;
        target.query_pairs_mut().append_pair("digest", &blob.digest.to_string());
        self.put(&target, what, blob.size, |request| {
            let file = File::open(path).map_err(SourceError::io("open", path))?;
            let transfer = transfer.clone();
            transfer.begin(&self.http.options.observer, blob.size);
            let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(file), PIECE)
                .inspect_ok(move |piece| transfer.moved(piece.len()));
            Ok(request.header(CONTENT_TYPE, "application/octet-stream").body(Body::wrap_stream(pieces)))
        })
        .await?;
        Ok(true)
    }

    /// Writes a manifest or an index, under a tag or its digest; what it lists must be in the registry.
    pub async fn put_manifest(&self, identifier: &str, manifest: &Pinned) -> Result<(), SourceError> {
        let what = format!("the manifest of {}:{identifier}", self.name);
        let media_type = manifest.media_type()?;
        let url = self.url(&format!("manifests/{identifier}"), &what)?;
        let size = manifest.bytes().len() as u64;
        let mut attempts = Attempts::new(&self.http.options.timeouts, &what);
        loop {
            let answer = self.put(&url, &what, size, |request| {
                Ok(request.header(CONTENT_TYPE, &media_type).body(manifest.bytes().to_vec()))
            });
            match answer.await {
                Ok(response) => return same(&what, &manifest.digest, digest_header(response.headers())),
                Err(failure) => attempts.after(failure).await?,
            }
        }
    }

    /// Sends content. An upload may be to another host, which does not get this registry's credentials.
    async fn put(
        &self,
        url: &Url,
        what: &str,
        size: u64,
        fill: impl Fn(RequestBuilder) -> Result<RequestBuilder, SourceError>,
    ) -> Result<Response, Failure> {
        let own = url.origin() == self.base.origin();
        let host = if own { self.host.clone() } else { net::host_of(url) };
        if !own && url.scheme() != "https" && !self.http.is_plain(&host) {
            let reason = format!("the server sends the upload to {host}, which has no TLS");
            return Err(SourceError::malformed(what, reason).into());
        }
        let client = self.http.client(url, &host, what, Redirects::RefusedWhileSending)?;
        let limit = self.http.options.timeouts.read_timeout + Duration::from_secs(size / SLOWEST);
        let request = || {
            let request = client.put(url.clone()).header(CONTENT_LENGTH, size).timeout(limit);
            fill(request)
        };
        let response = match own {
            true => self.authenticated(request, what).await?,
            false => request()?.send().await.map_err(|e| net::failure(what, e))?,
        };
        net::success(response, what, || self.tried()).await
    }

    fn url(&self, path: &str, what: &str) -> Result<Url, SourceError> {
        self.base.join(path).map_err(|e| SourceError::malformed(what, format!("invalid URL: {e}")))
    }
}

/// The URL of a started upload, which may be relative.
fn location(response: &Response, base: &Url) -> Option<Url> {
    let url = base.join(response.headers().get(LOCATION)?.to_str().ok()?).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.username().is_empty()).then_some(url)
}

/// Whether the registry stored the same bytes: all references to them are by digest.
fn same(what: &str, wanted: &Digest, stored: Option<Digest>) -> Result<(), SourceError> {
    match stored {
        Some(actual) if actual != *wanted => Err(SourceError::malformed(
            what,
            format!("the registry stored it as {actual} instead of {wanted}"),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(location: &str) -> Option<String> {
        let response = http::Response::builder().header(LOCATION, location).body("").expect("a response");
        let base = Url::parse("https://registry.example/v2/a/blobs/uploads/").expect("a URL");
        super::location(&Response::from(response), &base).map(String::from)
    }

    #[test]
    fn an_upload_continues_at_the_location_that_the_server_names() {
        assert_eq!(
            started("/v2/a/blobs/uploads/1?state=x").as_deref(),
            Some("https://registry.example/v2/a/blobs/uploads/1?state=x")
        );
        assert_eq!(started("https://up.example/1").as_deref(), Some("https://up.example/1"));
        for wrong in ["file:///etc/passwd", "https://user@up.example/", "http://[", "ftp://up.example/"] {
            assert_eq!(started(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn another_digest_than_the_pushed_one_is_an_error() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        assert!(same("x", &a, None).is_ok());
        assert!(same("x", &a, Some(a.clone())).is_ok());
        assert!(same("x", &a, Some(b)).is_err());
    }
}
