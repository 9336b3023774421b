//! Catalogs from web servers: catalogd's `/api/v1/all`, or any file of a catalog or an archive.

use std::path::{Path, PathBuf};

use reqwest::{
    StatusCode, Url,
    header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, ETAG, IF_NONE_MATCH},
};
use tokio::io::AsyncWriteExt as _;

use crate::{
    digest::{Digest, Hasher},
    error::{Exceeded, SourceError},
    net::{self, Http, Redirects, TransferRate},
    progress::Retried,
    registry,
    retry::{Attempts, Failure},
    source::{Revision, shown},
};

pub(crate) enum ConditionalResponse {
    /// Same content as before.
    Unchanged,
    File {
        path: PathBuf,
        digest: Digest,
        etag: Option<String>,
        /// With an additional transfer compression.
        wrapped: bool,
    },
}

/// Downloads a URL, unless the server reports it as unchanged.
pub(crate) async fn download(
    http: &Http<'_>,
    url: &str,
    previous: Option<&Revision>,
    scratch: &Path,
) -> Result<ConditionalResponse, SourceError> {
    let bad = |reason: String| SourceError::Reference { reference: shown(url), reason };
    let url = Url::parse(url).map_err(|e| bad(e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad("expected https:// or http:// and a host".to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(SourceError::Credentials { what: shown(url.as_str()) });
    }
    let what = shown(url.as_str());
    let (mut attempts, transfer) = (Attempts::new(&http.options.timeouts, &what), Retried::default());
    loop {
        match download_once(http, &url, &what, previous, scratch, &transfer).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => attempts.after(failure).await?,
        }
    }
}

async fn download_once(
    http: &Http<'_>,
    url: &Url,
    what: &str,
    previous: Option<&Revision>,
    scratch: &Path,
    transfer: &Retried,
) -> Result<ConditionalResponse, Failure> {
    let host = net::host_of(url);
    let client = http.client(url, &host, what, Redirects::Followed)?;
    let mut request = client.get(url.clone()).header(ACCEPT_ENCODING, "gzip");
    // A redirect to another host is sent without it.
    let login = (url.scheme() == "https" || http.is_plain(&host))
        .then(|| registry::direct(&http.options.credentials, &host, url.path()))
        .flatten();
    if let Some((_, authorization)) = &login {
        request = request.header(AUTHORIZATION, authorization);
    }
    if let Some(etag) = previous.and_then(|revision| revision.etag.as_deref()) {
        request = request.header(IF_NONE_MATCH, etag);
    }
    let response = request.send().await.map_err(|e| net::failure(what, e))?;
    let tried = || match &login {
        Some((origin, _)) => format!("tried {origin}; check its read permission"),
        None => format!(
            "no credentials for {host}, or the connection has no TLS; add a Secret of type \
             kubernetes.io/dockerconfigjson for it to spec.secrets"
        ),
    };
    let mut response = net::success(response, what, tried).await?;
    if response.status() == StatusCode::NOT_MODIFIED {
        return match previous {
            Some(_) => Ok(ConditionalResponse::Unchanged),
            None => Err(SourceError::malformed(what, "unexpected 304 Not Modified from the server").into()),
        };
    }
    let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let etag = header(ETAG);
    let wrapped = match header(CONTENT_ENCODING).as_deref() {
        None | Some("identity" | "") => false,
        Some("gzip" | "x-gzip" | "zstd") => true,
        Some(_) => {
            let reason = "the server returned an unrequested content encoding";
            return Err(SourceError::malformed(what, reason).into());
        }
    };
    let path = scratch.join("download");
    let mut file = tokio::fs::File::create(&path).await.map_err(SourceError::io("create", &path))?;
    let (mut hasher, mut size, most) = (Hasher::sha256(), 0, http.options.limits.download_bytes);
    let mut pace = TransferRate::new(&http.options.timeouts);
    transfer.begin(&http.options.observer, response.content_length().unwrap_or_default());
    while let Some(chunk) = response.chunk().await.map_err(|e| cut(net::failure(what, e), size))? {
        size += chunk.len() as u64;
        transfer.moved(chunk.len());
        pace.received(chunk.len()).map_err(|failure| cut(failure, size))?;
        if size > most {
            return Err(Exceeded::new("it", "download_bytes", most).reading(what).into());
        }
        hasher.update(&chunk);
        file.write_all(&chunk).await.map_err(SourceError::io("write", &path))?;
    }
    file.flush().await.map_err(SourceError::io("write", &path))?;
    Ok(ConditionalResponse::File { path, digest: hasher.finish(), etag, wrapped })
}

fn cut(failure: Failure, size: u64) -> Failure {
    match failure {
        Failure::Transient { reason, retry_after } => {
            Failure::Transient { reason: format!("interrupted after {size} bytes: {reason}"), retry_after }
        }
        fatal => fatal,
    }
}
