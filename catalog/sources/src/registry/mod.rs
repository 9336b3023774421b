//! A client of the OCI distribution API.

mod challenge;
mod login;
mod realm;
mod upload;

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use reqwest::{
    Method, RequestBuilder, Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderValue, RANGE},
};
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};

pub(crate) use login::direct;

use crate::{
    credentials::{Login, Secret},
    digest::{Digest, Hasher},
    error::{Exceeded, SourceError},
    image::manifest::{ACCEPTED, Descriptor, Pinned},
    net::{self, Http, Redirects, TransferRate},
    options::Options,
    progress::Transfer,
    reference::{Reference, host_of},
    retry::{Attempts, Failure},
};

/// One repository in one place: the origin, or a mirror.
pub(crate) struct Repository<'a> {
    http: &'a Http<'a>,
    /// As users write it.
    pub name: String,
    /// As in the options: with its port, also where URLs omit it.
    host: String,
    base: Url,
    registry: String,
    repository: String,
    /// Whether tokens have to allow pushes too.
    pushes: bool,
    authorization: Mutex<Option<HeaderValue>>,
    /// Whether the registry has asked for credentials.
    challenged: AtomicBool,
}

/// Mirrors and origin of an image, in the order of requests.
pub(crate) fn places(reference: &Reference, options: &Options) -> Result<Vec<Reference>, SourceError> {
    let name = reference.name();
    let below = |source: &str| {
        let source = source.trim_end_matches('/');
        name.strip_prefix(source).filter(|rest| rest.is_empty() || rest.starts_with('/')).map(str::to_owned)
    };
    let best = options
        .mirrors
        .iter()
        .filter_map(|mirror| Some((below(&mirror.source)?, mirror)))
        .min_by_key(|(rest, _)| rest.len());
    let mut places = Vec::new();
    if let Some((rest, mirror)) = best {
        for place in &mirror.mirrors {
            let moved: Reference = format!("{}{rest}", place.trim_end_matches('/')).parse()?;
            places.push(Reference { tag: reference.tag.clone(), digest: reference.digest.clone(), ..moved });
        }
    }
    places.push(reference.clone());
    Ok(places)
}

/// Why an image is unavailable, place by place.
#[derive(Default)]
pub(crate) struct Failures(Vec<(String, SourceError)>);

impl Failures {
    pub fn add(&mut self, place: &Reference, error: SourceError) {
        tracing::debug!(place = place.name(), %error, "trying the next location, if any");
        self.0.push((place.name(), error));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_error(mut self, reference: &Reference) -> SourceError {
        match (self.0.pop(), self.0.is_empty()) {
            (Some((_, only)), true) => only,
            (last, _) => {
                self.0.extend(last);
                SourceError::Everywhere { what: reference.to_string(), failures: self.0 }
            }
        }
    }
}

/// The digest of the image that would be pulled now. The manifest is read, not only its digest: a registry may
/// not have what a tag names.
pub(crate) async fn digest_of(
    http: &Http<'_>,
    reference: &Reference,
    places: &[Reference],
) -> Result<Digest, SourceError> {
    let mut failures = Failures::default();
    for place in places {
        let repository = Repository::new(http, place)?;
        match repository.manifest(&place.identifier(), place.digest.as_ref()).await {
            Ok(pinned) => return Ok(pinned.digest),
            Err(error) => failures.add(place, error),
        }
    }
    Err(failures.into_error(reference))
}

impl<'a> Repository<'a> {
    pub fn new(http: &'a Http<'a>, reference: &Reference) -> Result<Self, SourceError> {
        let host = host_of(&reference.registry);
        let scheme = if http.is_plain(host) { "http" } else { "https" };
        let base = Url::parse(&format!("{scheme}://{host}/v2/{}/", reference.repository)).map_err(|e| {
            SourceError::Reference { reference: reference.to_string(), reason: e.to_string() }
        })?;
        Ok(Self {
            http,
            name: reference.name(),
            host: host.to_owned(),
            base,
            registry: reference.registry.clone(),
            repository: reference.repository.clone(),
            pushes: false,
            authorization: Mutex::new(None),
            challenged: AtomicBool::new(false),
        })
    }

    /// The same repository, to push to.
    pub fn for_push(self) -> Self {
        Self { pushes: true, ..self }
    }

    /// The current digest of a tag, without reading the manifest; `None` where the registry does not report
    /// it.
    pub async fn resolve(&self, identifier: &str) -> Result<Option<Digest>, SourceError> {
        let what = format!("the digest of {}:{identifier}", self.name);
        let mut attempts = Attempts::new(&self.http.options.timeouts, &what);
        loop {
            let answer = self.get(Method::HEAD, &format!("manifests/{identifier}"), &what, None).await;
            match answer {
                Ok(response) => return Ok(digest_header(response.headers())),
                // Some registries have no HEAD; reading the manifest gives the digest as well.
                Err(Failure::Fatal(SourceError::Malformed { .. })) => return Ok(None),
                Err(failure) => attempts.after(failure).await?,
            }
        }
    }

    /// Reads a manifest or an index, and verifies its digest.
    pub async fn manifest(&self, identifier: &str, digest: Option<&Digest>) -> Result<Pinned, SourceError> {
        let separator = if digest.is_some() { '@' } else { ':' };
        let what = format!("the manifest of {}{separator}{identifier}", self.name);
        let mut attempts = Attempts::new(&self.http.options.timeouts, &what);
        loop {
            match self.manifest_once(identifier, digest, &what).await {
                Ok(pinned) => return Ok(pinned),
                Err(failure) => attempts.after(failure).await?,
            }
        }
    }

    async fn manifest_once(
        &self,
        identifier: &str,
        digest: Option<&Digest>,
        what: &str,
    ) -> Result<Pinned, Failure> {
        let response = self.get(Method::GET, &format!("manifests/{identifier}"), what, None).await?;
        let promised = digest.cloned().or_else(|| digest_header(response.headers()));
        let media_type = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .map(|v| v.split(';').next().unwrap_or_default().trim().to_owned());
        let bytes = {
            let options = self.http.options;
            net::small_body(response, what, options.limits.manifest_bytes, &options.timeouts).await?
        };
        Ok(Pinned::new(what, bytes, media_type, promised.as_ref())?)
    }

    /// A manifest by its tag, if it exists.
    pub async fn tagged(&self, tag: &str) -> Result<Option<Pinned>, SourceError> {
        match self.manifest(tag, None).await {
            Ok(pinned) => Ok(Some(pinned)),
            Err(SourceError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The index of the referrers of a manifest, of one type; `None` where the registry has no referrers API,
    /// as all before OCI 1.1.
    pub async fn referrers(
        &self,
        digest: &Digest,
        artifact_type: &str,
    ) -> Result<Option<Pinned>, SourceError> {
        let what = format!("the referrers of {}@{digest}", self.name);
        let query: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("artifactType", artifact_type)
            .finish();
        let path = format!("referrers/{digest}?{query}");
        let mut attempts = Attempts::new(&self.http.options.timeouts, &what);
        loop {
            let answer = async {
                let response = self.get(Method::GET, &path, &what, None).await?;
                let options = self.http.options;
                let bytes =
                    net::small_body(response, &what, options.limits.manifest_bytes, &options.timeouts)
                        .await?;
                Ok(Pinned::new(&what, bytes, None, None)?)
            };
            match answer.await {
                Ok(pinned) => return Ok(Some(pinned)),
                // Older ones answer 404, and some 400 or 405.
                Err(Failure::Fatal(SourceError::NotFound { .. } | SourceError::Malformed { .. })) => {
                    return Ok(None);
                }
                Err(failure) => attempts.after(failure).await?,
            }
        }
    }

    /// Reads a blob into memory, limited by its descriptor's size, and verifies its digest.
    pub async fn small_blob(&self, blob: &Descriptor) -> Result<Vec<u8>, SourceError> {
        let what = format!("the blob {} of {}", blob.digest, self.name);
        let path = format!("blobs/{}", blob.digest);
        let mut attempts = Attempts::new(&self.http.options.timeouts, &what);
        loop {
            let answer = async {
                let response = self.get(Method::GET, &path, &what, None).await?;
                let bytes = net::small_body(response, &what, blob.size, &self.http.options.timeouts).await?;
                Ok(Pinned::new(&what, bytes, None, Some(&blob.digest))?.into_bytes())
            };
            match answer.await {
                Ok(bytes) => return Ok(bytes),
                Err(failure) => attempts.after(failure).await?,
            }
        }
    }

    /// Reads a blob into a file, and verifies its digest. An interrupted download resumes.
    pub async fn blob(&self, blob: &Descriptor, path: &Path) -> Result<(), SourceError> {
        let what = format!("the blob {} of {}", blob.digest, self.name);
        let most = self.http.options.limits.download_bytes;
        if blob.size > most {
            return Err(Exceeded::new("it", "download_bytes", most).reading(what));
        }
        let file = tokio::fs::File::create(path).await.map_err(SourceError::io("create", path))?;
        let transfer = Transfer::begin(&self.http.options.observer, blob.size);
        let hasher = blob.digest.hasher();
        let mut download = Download { blob, what: &what, path, file, hasher, written: 0, transfer };
        let mut attempts = Attempts::new(&self.http.options.timeouts, &what);
        loop {
            match self.blob_once(&mut download).await {
                Ok(()) => return Ok(()),
                Err(failure) => attempts.after(failure).await?,
            }
        }
    }

    async fn blob_once(&self, download: &mut Download<'_>) -> Result<(), Failure> {
        let resumed = download.written > 0;
        let range = resumed.then(|| format!("bytes={}-", download.written));
        let path = format!("blobs/{}", download.blob.digest);
        let response = match self.get(Method::GET, &path, download.what, range.as_deref()).await {
            // The server has fewer bytes than already received.
            Err(Failure::Fatal(SourceError::Malformed { reason, .. })) if resumed => {
                download.restart().await?;
                return Err(Failure::transient(reason));
            }
            other => other?,
        };
        if resumed && !continues(&response, download.written) {
            download.restart().await?;
            if response.status() == StatusCode::PARTIAL_CONTENT {
                return Err(Failure::transient("the server returned a different range than requested"));
            }
        }
        download.receive(response, TransferRate::new(&self.http.options.timeouts)).await?;
        download.finish(resumed).await
    }

    /// Sends a request, authenticates where required, and converts every unsuccessful answer into an error.
    async fn get(
        &self,
        method: Method,
        path: &str,
        what: &str,
        range: Option<&str>,
    ) -> Result<Response, Failure> {
        let url =
            self.base.join(path).map_err(|e| SourceError::malformed(what, format!("invalid URL: {e}")))?;
        let client = self.http.client(&url, &self.host, what, Redirects::Followed)?;
        let request = || {
            let mut request = client.request(method.clone(), url.clone());
            if path.starts_with("manifests/") {
                request = request.header(ACCEPT, ACCEPTED);
            }
            Ok(match range {
                Some(range) => request.header(RANGE, range),
                None => request,
            })
        };
        let response = self.authenticated(request, what).await?;
        net::success(response, what, || self.tried()).await
    }

    async fn authenticated(
        &self,
        request: impl Fn() -> Result<RequestBuilder, SourceError>,
        what: &str,
    ) -> Result<Response, Failure> {
        let send = async |authorization: Option<&HeaderValue>| {
            let request = request()?;
            let request = match authorization {
                Some(value) => request.header(reqwest::header::AUTHORIZATION, value),
                None => request,
            };
            request.send().await.map_err(|e| net::failure(what, e))
        };
        let known = self.lock().clone();
        let mut response = send(known.as_ref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        self.challenged.store(true, Ordering::Relaxed);
        // Either the first request, or an expired token.
        let challenges = challenge::challenges(response.headers());
        let logins = self.logins();
        let candidates: Vec<Option<&Login>> =
            if logins.is_empty() { vec![None] } else { logins.into_iter().map(Some).collect() };
        for login in candidates {
            let header = login::authorize(self.http, &self.base, self.scope(), &challenges, login).await?;
            let Some(header) = header else { continue };
            response = send(Some(&header)).await?;
            if !matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                *self.lock() = Some(header);
                break;
            }
        }
        Ok(response)
    }

    /// What a token is for, and whether it must be exactly that: the challenge of a read names no push.
    fn scope(&self) -> (String, bool) {
        let actions = if self.pushes { "pull,push" } else { "pull" };
        (format!("repository:{}:{actions}", self.repository), self.pushes)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<HeaderValue>> {
        // Nothing can panic while it is held; a poisoned one is intact.
        self.authorization.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn logins(&self) -> Vec<&Login> {
        self.http.options.credentials.matching(&self.registry, &self.repository)
    }

    /// Description of the tried credentials, for an access error.
    fn tried(&self) -> String {
        let logins = self.logins();
        if logins.is_empty() && self.pushes {
            return format!("no credentials for {}", self.name);
        }
        if logins.is_empty() {
            return format!(
                "no credentials for {}: for a private image, add a pull secret; for a public image, check \
                 the name",
                self.name
            );
        }
        if !self.challenged.load(Ordering::Relaxed) {
            return format!("{} refused the request without asking for credentials", self.host);
        }
        let list = logins.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let helper = logins.iter().any(|login| matches!(login.secret, Secret::Helper(_)));
        let hint = match helper {
            true if self.pushes => "add the credentials themselves to the file",
            true => "add the credentials themselves to a pull secret",
            false if self.pushes => "check their push permission",
            false => "check their pull permission",
        };
        format!("tried {list}; {hint}")
    }
}

fn digest_header(headers: &HeaderMap) -> Option<Digest> {
    headers.get("docker-content-digest")?.to_str().ok()?.parse().ok()
}

/// Whether an answer continues at the end of the file.
fn continues(response: &Response, written: u64) -> bool {
    let start = || {
        let range = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
        range.strip_prefix("bytes ")?.split('-').next()?.parse::<u64>().ok()
    };
    response.status() == StatusCode::PARTIAL_CONTENT && start() == Some(written)
}

/// A blob being downloaded into a file.
struct Download<'d> {
    blob: &'d Descriptor,
    what: &'d str,
    path: &'d Path,
    file: tokio::fs::File,
    hasher: Hasher,
    written: u64,
    transfer: Transfer,
}

impl Download<'_> {
    async fn receive(&mut self, mut response: Response, mut pace: TransferRate) -> Result<(), Failure> {
        loop {
            let chunk = match response.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.cut(net::failure(self.what, error))),
            };
            self.written += chunk.len() as u64;
            self.transfer.moved(chunk.len());
            pace.received(chunk.len()).map_err(|failure| self.cut(failure))?;
            if self.written > self.blob.size {
                let reason = format!("longer than the {} bytes of the manifest", self.blob.size);
                return Err(SourceError::malformed(self.what, reason).into());
            }
            self.hasher.update(&chunk);
            self.file.write_all(&chunk).await.map_err(SourceError::io("write", self.path))?;
        }
    }

    fn cut(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Transient { reason, retry_after } => Failure::Transient {
                reason: format!("interrupted after {} of {} bytes: {reason}", self.written, self.blob.size),
                retry_after,
            },
            fatal => fatal,
        }
    }

    async fn finish(&mut self, resumed: bool) -> Result<(), Failure> {
        if self.written < self.blob.size {
            return Err(self.cut(Failure::transient("the server ended the response early")));
        }
        let actual = std::mem::replace(&mut self.hasher, self.blob.digest.hasher()).finish();
        if actual != self.blob.digest {
            if resumed {
                // The parts may be of different content; the whole is downloaded once more.
                self.restart().await?;
                return Err(Failure::transient("inconsistent ranges of the download"));
            }
            return Err(Failure::Fatal(SourceError::Digest {
                what: self.what.to_owned(),
                expected: self.blob.digest.to_string(),
                actual: actual.to_string(),
            }));
        }
        // Writes to this kind of file complete in the background.
        Ok(self.file.flush().await.map_err(SourceError::io("write", self.path))?)
    }

    async fn restart(&mut self) -> Result<(), SourceError> {
        self.hasher = self.blob.digest.hasher();
        self.written = 0;
        self.transfer.restart();
        self.file.set_len(0).await.map_err(SourceError::io("truncate", self.path))?;
        self.file.rewind().await.map_err(SourceError::io("truncate", self.path))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
