//! HTTP for all sources: certificates, proxies, time-outs, bounded bodies, readable errors.

use std::{
    error::Error,
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use reqwest::{Client, ClientBuilder, NoProxy, Response, StatusCode, Url, redirect};

use crate::{
    egress::{Egress, Refused},
    error::{Exceeded, SourceError, chain},
    options::{Options, Proxy},
    retry::Failure,
    trust,
};

/// Blobs are often one redirect away; no legitimate server needs more than a few.
const MOST_REDIRECTS: usize = 10;
/// The error codes of the OCI distribution specification, and others that registries send.
const OCI_CODES: [&str; 18] = [
    "BLOB_UNKNOWN",
    "BLOB_UPLOAD_INVALID",
    "BLOB_UPLOAD_UNKNOWN",
    "DENIED",
    "DIGEST_INVALID",
    "MANIFEST_BLOB_UNKNOWN",
    "MANIFEST_INVALID",
    "MANIFEST_UNKNOWN",
    "MANIFEST_UNVERIFIED",
    "NAME_INVALID",
    "NAME_UNKNOWN",
    "RANGE_INVALID",
    "SIZE_INVALID",
    "TAG_INVALID",
    "TOOMANYREQUESTS",
    "UNAUTHORIZED",
    "UNAVAILABLE",
    "UNSUPPORTED",
];

pub(crate) struct Http<'a> {
    pub options: &'a Options,
    /// By whether certificates are verified, and by [`Redirects`].
    clients: [[OnceLock<Client>; 3]; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redirects {
    Followed,
    /// The request contains a secret for one server.
    Refused,
    /// Refused, for a request with content: its own time-out applies, because no answer is read while the
    /// content is sent.
    RefusedWhileSending,
}

impl<'a> Http<'a> {
    pub fn new(options: &'a Options) -> Self {
        Self { options, clients: Default::default() }
    }

    /// Whether a host (with its port, if any) uses plain HTTP.
    pub fn is_plain(&self, host: &str) -> bool {
        listed(&self.options.plain_http, host)
    }

    /// The client for the server of a URL, listed in the options as `host`; clients are created on first use.
    pub fn client(
        &self,
        url: &Url,
        host: &str,
        what: &str,
        redirects: Redirects,
    ) -> Result<&Client, SourceError> {
        self.options.egress.check(url).map_err(|refused| refused.reading(what))?;
        // Without TLS no certificate authorities are needed: a minimal container may have none.
        let check = !self.is_plain(host) && !listed(&self.options.skip_tls_verify, host);
        let cell = &self.clients[usize::from(check)][redirects as usize];
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let client = self.build(check, redirects)?;
        Ok(cell.get_or_init(|| client))
    }

    fn build(&self, check: bool, redirects: Redirects) -> Result<Client, SourceError> {
        // One provider in the whole program; an installed one is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || self.builder(redirects);
        if !check {
            let builder = builder()?.tls_danger_accept_invalid_certs(true);
            return builder.build().map_err(bad("failed to create an HTTP client"));
        }
        if !self.options.ca_certificates.is_empty() {
            let config = trust::config(&self.options.ca_certificates)?;
            let client = builder()?.tls_backend_preconfigured(config).build();
            return client.map_err(bad("failed to create an HTTP client"));
        }
        match builder()?.build() {
            Ok(client) => Ok(client),
            // A minimal container has no authorities. Sources without TLS still work; TLS servers are
            // rejected as untrusted.
            Err(_) => builder()?.tls_certs_only([]).build().map_err(bad("failed to create an HTTP client")),
        }
    }

    /// All settings except the trusted authorities.
    fn builder(&self, redirects: Redirects) -> Result<ClientBuilder, SourceError> {
        let timeouts = &self.options.timeouts;
        let egress = self.options.egress.clone();
        let builder = Client::builder()
            .user_agent(concat!("olm/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(timeouts.connect_timeout)
            .redirect(match redirects {
                Redirects::Followed => redirect::Policy::custom(move |attempt| follow(attempt, &egress)),
                Redirects::Refused | Redirects::RefusedWhileSending => redirect::Policy::none(),
            });
        let builder = match redirects {
            Redirects::RefusedWhileSending => builder,
            Redirects::Followed | Redirects::Refused => builder.read_timeout(timeouts.read_timeout),
        };
        let builder = match self.options.egress.resolver() {
            Some(resolver) => builder.dns_resolver(Arc::new(resolver)),
            None => builder,
        };
        Ok(match &self.options.proxy {
            Proxy::Environment => builder,
            Proxy::Direct => builder.no_proxy(),
            Proxy::Through { url, except } => builder.proxy(
                reqwest::Proxy::all(url)
                    .map_err(bad("invalid proxy URL"))?
                    .no_proxy(NoProxy::from_string(except)),
            ),
        })
    }
}

/// The error for an invalid option.
fn bad(what: &'static str) -> impl Fn(reqwest::Error) -> SourceError {
    move |e| SourceError::Options { reason: format!("{what}: {}", chain(&e)) }
}

fn follow(attempt: redirect::Attempt<'_>, egress: &Egress) -> redirect::Action {
    if attempt.previous().len() > MOST_REDIRECTS {
        return attempt.error("too many redirects");
    }
    let was_secret = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
    if was_secret && attempt.url().scheme() != "https" {
        return attempt.error("redirect from https to http");
    }
    if let Err(refused) = egress.check(attempt.url()) {
        return attempt.error(refused);
    }
    attempt.follow()
}

fn listed(hosts: &[String], host: &str) -> bool {
    hosts.iter().any(|listed| listed.eq_ignore_ascii_case(host))
}

/// `host` or `host:port` of a URL.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The error of a failed exchange.
pub(crate) fn failure(what: &str, error: reqwest::Error) -> Failure {
    // URLs of blob stores contain signatures, which must not be shown.
    let error = error.without_url();
    if let Some(refused) = cause::<Refused>(&error) {
        return Failure::Fatal(refused.reading(what));
    }
    match cause::<rustls::Error>(&error) {
        Some(tls @ (rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)) => {
            // The library's message is the name of its enum.
            let reason = match tls.to_string() {
                text if text.contains("CaUsedAsEndEntity") => "self-signed".to_owned(),
                text => text,
            };
            return Failure::Fatal(SourceError::Untrusted { what: what.to_owned(), reason });
        }
        Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
            return Failure::Fatal(SourceError::WithoutTls { what: what.to_owned() });
        }
        _ => {}
    }
    if error.is_redirect() || error.is_builder() {
        return Failure::Fatal(SourceError::malformed(what, chain(&error)));
    }
    let text = chain(&error);
    if error.is_timeout() {
        return Failure::transient(format!("request timed out ({text})"));
    }
    // The library's error has no public type, and does not name the proxy.
    if text.contains("tunnel error") {
        return Failure::transient(format!(
            "the proxy of HTTPS_PROXY or HTTP_PROXY did not connect to the server ({text}); list servers \
             that need no proxy in NO_PROXY"
        ));
    }
    Failure::transient(text)
}

/// The first cause of a type, also within an I/O error.
pub(crate) fn cause<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// The whole body, unless it is larger than `limits.manifest_bytes`.
pub(crate) async fn small_body(
    mut response: Response,
    what: &str,
    most: u64,
    timeouts: &crate::Timeouts,
) -> Result<Vec<u8>, Failure> {
    let exceeded = || Failure::Fatal(Exceeded::new("the response", "manifest_bytes", most).reading(what));
    if response.content_length().is_some_and(|length| length > most) {
        return Err(exceeded());
    }
    let (mut body, mut pace) = (Vec::new(), TransferRate::new(timeouts));
    while let Some(chunk) = response.chunk().await.map_err(|e| failure(what, e))? {
        pace.received(chunk.len())?;
        if (body.len() + chunk.len()) as u64 > most {
            return Err(exceeded());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Aborts slow transfers: those with an average below [`Timeouts::slowest`](crate::Timeouts) over a whole
/// period.
pub(crate) struct TransferRate {
    slowest: u64,
    period: Duration,
    since: tokio::time::Instant,
    bytes: u64,
}

impl TransferRate {
    pub fn new(timeouts: &crate::Timeouts) -> Self {
        let since = tokio::time::Instant::now();
        Self { slowest: timeouts.slowest, period: timeouts.slow_for, since, bytes: 0 }
    }

    /// Counts received bytes.
    pub fn received(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes += bytes as u64;
        let elapsed = self.since.elapsed();
        if elapsed < self.period {
            return Ok(());
        }
        let (least, got) = (self.slowest as f64 * elapsed.as_secs_f64(), self.bytes);
        (self.since, self.bytes) = (tokio::time::Instant::now(), 0);
        if (got as f64) < least {
            return Err(Failure::transient(format!(
                "the transfer is too slow: {got} bytes in {} s, expected at least {} bytes per second",
                elapsed.as_secs(),
                self.slowest
            )));
        }
        Ok(())
    }
}

/// The error codes of a registry's answer that the OCI specification defines. The rest of the body is not
/// shown: it may come from a server that the author of the source must not read. Starts with `: `, or is empty
/// without codes.
pub(crate) async fn explanation(response: Response) -> String {
    #[derive(serde::Deserialize)]
    struct Document {
        errors: Vec<Item>,
    }
    #[derive(serde::Deserialize)]
    struct Item {
        #[serde(default)]
        code: String,
    }
    let Ok(body) = small_body(response, "", 64 << 10, &crate::Timeouts::default()).await else {
        return String::new();
    };
    let Ok(document) = serde_json::from_slice::<Document>(&body) else { return String::new() };
    let mut codes: Vec<&str> = Vec::new();
    for item in &document.errors {
        let known = OCI_CODES.iter().find(|code| **code == item.code);
        codes.extend(known.filter(|code| !codes.contains(*code)));
    }
    if codes.is_empty() { String::new() } else { format!(": {}", codes.join(", ")) }
}

/// Converts every unsuccessful answer into an error; `tried` describes the credentials.
pub(crate) async fn success(
    response: Response,
    what: &str,
    tried: impl FnOnce() -> String,
) -> Result<Response, Failure> {
    let status = response.status();
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return Ok(response);
    }
    let transient = crate::retry::transient_status(status, response.headers());
    let detail = explanation(response).await;
    if let Some(Failure::Transient { reason, retry_after }) = transient {
        return Err(Failure::Transient { reason: format!("{reason}{detail}"), retry_after });
    }
    let what = what.to_owned();
    Err(Failure::Fatal(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            SourceError::Denied { what, status: status.as_u16(), detail, tried: tried() }
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => SourceError::NotFound { what, detail },
        _ => SourceError::Malformed { what, reason: format!("the server returned {status}{detail}") },
    }))
}
