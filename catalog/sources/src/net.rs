//! HTTP as all sources need it: certificates, proxies, time-outs, bounded bodies, plain words for failures.

use std::{error::Error, io, sync::OnceLock};

use reqwest::{Client, ClientBuilder, NoProxy, Response, StatusCode, Url, redirect};

use crate::{
    error::{Exceeded, SourceError, chain},
    options::{Options, Proxy},
    retry::Failure,
    trust,
};

/// Blobs are often one redirect away; no honest server needs more than a few.
const MOST_REDIRECTS: usize = 10;
/// How much of a server's own explanation is worth showing.
const LONGEST_EXPLANATION: usize = 300;

pub(crate) struct Http<'a> {
    pub options: &'a Options,
    checked: OnceLock<Client>,
    unchecked: OnceLock<Client>,
}

impl<'a> Http<'a> {
    pub fn new(options: &'a Options) -> Self {
        Self { options, checked: OnceLock::new(), unchecked: OnceLock::new() }
    }

    /// Whether a host (with its port, if any) is spoken to without TLS.
    pub fn is_plain(&self, host: &str) -> bool {
        listed(&self.options.plain_http, host)
    }

    /// The client for a host; clients are made when they are first needed.
    pub fn client(&self, host: &str) -> Result<&Client, SourceError> {
        // Where there is no TLS there is no need for authorities either: a bare container may have none.
        let check = !self.is_plain(host) && !listed(&self.options.skip_tls_verify, host);
        let cell = if check { &self.checked } else { &self.unchecked };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let client = self.build(check)?;
        Ok(cell.get_or_init(|| client))
    }

    fn build(&self, check: bool) -> Result<Client, SourceError> {
        // One provider in the whole program; that it is installed already is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        if !check {
            let builder = self.builder()?.tls_danger_accept_invalid_certs(true);
            return builder.build().map_err(bad("no HTTP client could be made"));
        }
        if !self.options.ca_certificates.is_empty() {
            let config = trust::config(&self.options.ca_certificates)?;
            let client = self.builder()?.tls_backend_preconfigured(config).build();
            return client.map_err(bad("no HTTP client could be made"));
        }
        match self.builder()?.build() {
            Ok(client) => Ok(client),
            // A bare container has no authorities. What needs none works all the same; any server is refused, as it is
            // not known.
            Err(_) => self.builder()?.tls_certs_only([]).build().map_err(bad("no HTTP client could be made")),
        }
    }

    /// All but whom to trust.
    fn builder(&self) -> Result<ClientBuilder, SourceError> {
        let patience = &self.options.patience;
        let builder = Client::builder()
            .user_agent(concat!("olm/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(patience.connect_timeout)
            .read_timeout(patience.read_timeout)
            .redirect(redirect::Policy::custom(follow));
        Ok(match &self.options.proxy {
            Proxy::Environment => builder,
            Proxy::Direct => builder.no_proxy(),
            Proxy::Through { url, except } => builder.proxy(
                reqwest::Proxy::all(url)
                    .map_err(bad("the proxy's URL cannot be used"))?
                    .no_proxy(NoProxy::from_string(except)),
            ),
        })
    }
}

/// What an option that cannot be used means.
fn bad(what: &'static str) -> impl Fn(reqwest::Error) -> SourceError {
    move |e| SourceError::Options { reason: format!("{what}: {}", chain(&e)) }
}

fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    if attempt.previous().len() > MOST_REDIRECTS {
        return attempt.error("too many redirects");
    }
    let was_secret = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
    if was_secret && attempt.url().scheme() != "https" {
        return attempt.error("a redirect from https to http");
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

/// What a failed exchange means.
pub(crate) fn failure(what: &str, error: reqwest::Error) -> Failure {
    // URLs of blob stores carry signatures; they are nobody's business.
    let error = error.without_url();
    if let Some(tls) = cause::<rustls::Error>(&error)
        && matches!(tls, rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)
    {
        // The library's word for it is that of its own enum.
        let reason = match tls.to_string() {
            text if text.contains("CaUsedAsEndEntity") => "it is self-signed".to_owned(),
            text => text,
        };
        return Failure::Fatal(SourceError::Untrusted { what: what.to_owned(), reason });
    }
    if error.is_redirect() || error.is_builder() {
        return Failure::Fatal(SourceError::malformed(what, chain(&error)));
    }
    if error.is_timeout() {
        return Failure::transient(format!("the server did not answer in time ({})", chain(&error)));
    }
    Failure::transient(chain(&error))
}

/// The first cause of a type, also where it hides in an I/O error.
fn cause<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
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
pub(crate) async fn small_body(mut response: Response, what: &str, most: u64) -> Result<Vec<u8>, Failure> {
    let exceeded = || Failure::Fatal(Exceeded::new("the answer", "manifest_bytes", most).reading(what));
    if response.content_length().is_some_and(|length| length > most) {
        return Err(exceeded());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| failure(what, e))? {
        if (body.len() + chunk.len()) as u64 > most {
            return Err(exceeded());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The server's own words: the messages of a registry's error document, or the start of a text.
/// Starts with `: ` unless there are none.
pub(crate) async fn explanation(response: Response) -> String {
    #[derive(serde::Deserialize)]
    struct Document {
        errors: Vec<Item>,
    }
    #[derive(serde::Deserialize)]
    struct Item {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let is_html = response
        .headers()
        .get(reqwest::header::CONTENT_TYPE)
        .is_some_and(|v| v.as_bytes().starts_with(b"text/html"));
    let Ok(body) = small_body(response, "", 64 << 10).await else { return String::new() };
    let text = match serde_json::from_slice::<Document>(&body) {
        Ok(document) => {
            let one = |item: Item| match (item.code.as_str(), item.message.as_str()) {
                (code, "") => code.to_owned(),
                ("", message) => message.to_owned(),
                (code, message) => format!("{code}: {message}"),
            };
            document.errors.into_iter().map(one).collect::<Vec<_>>().join("; ")
        }
        Err(_) if is_html => String::new(),
        Err(_) => String::from_utf8_lossy(&body).into_owned(),
    };
    let text: String =
        text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_EXPLANATION).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}

/// Turns every answer that is not a success into a failure; `tried` tells of credentials.
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
    let said = explanation(response).await;
    if let Some(Failure::Transient { reason, retry_after }) = transient {
        return Err(Failure::Transient { reason: format!("{reason}{said}"), retry_after });
    }
    let what = what.to_owned();
    Err(Failure::Fatal(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            SourceError::Denied { what, status: status.as_u16(), said, tried: tried() }
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => SourceError::NotFound { what, said },
        _ => SourceError::Malformed { what, reason: format!("the server answered {status}{said}") },
    }))
}
