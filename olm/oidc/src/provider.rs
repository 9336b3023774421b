//! The provider: its discovery document and its keys, cached.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::Url;
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::{
    claims::{Claims, Expected},
    clock::Clock,
    error::{Error, TokenError},
    http::Http,
    jose::{self, KeySet, SignatureError},
};

/// Cached documents are fetched again after this time.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Longest use of a key set, so that a withdrawn key is not accepted any more.
const KEYS_USED: Duration = Duration::from_secs(60 * 60);
/// Minimum interval between two fetches, for unknown keys and after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Configuration of a client of a provider.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The issuer's URL, as in the tokens.
    pub issuer: String,
    /// The client's id at the provider, and the audience of ID tokens.
    pub client_id: String,
    /// File with the client's secret, read for each request to the token endpoint; a public client has none.
    pub client_secret_file: Option<PathBuf>,
    /// Scopes; `openid` is added.
    pub scopes: Vec<String>,
    /// PEM file with the certificate authorities of the provider; the system's when absent.
    pub ca_file: Option<PathBuf>,
    /// Timeout of one request to the provider.
    pub timeout: Duration,
    /// Source of the time for the expiry of tokens and cached documents.
    pub clock: Clock,
}

/// The used fields of the discovery document.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) authorization_endpoint: Url,
    pub(crate) token_endpoint: Url,
    jwks_uri: Url,
    pub(crate) end_session_endpoint: Option<Url>,
    pub(crate) revocation_endpoint: Option<Url>,
    pub(crate) names_itself: bool,
    pub(crate) secret_methods: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    end_session_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

pub struct Provider {
    pub(crate) settings: Settings,
    pub(crate) http: Http,
    discovery: Url,
    metadata: Mutex<Cached<Metadata>>,
    keys: Mutex<Cached<KeySet>>,
}

struct Cached<T> {
    clock: Clock,
    last: Option<(Arc<T>, Instant)>,
    tried: Option<(Instant, Error)>,
}

impl<T> Cached<T> {
    fn new(clock: &Clock) -> Mutex<Self> {
        Mutex::new(Self { clock: clock.clone(), last: None, tried: None })
    }

    fn age(&self, at: Instant) -> Duration {
        self.clock.instant().saturating_duration_since(at)
    }

    fn younger_than(&self, age: Duration) -> Option<Arc<T>> {
        let (value, at) = self.last.as_ref()?;
        (self.age(*at) < age).then(|| Arc::clone(value))
    }

    /// The error of a recent fetch, so that waiting callers do not query a hanging provider in turn.
    fn failed(&self) -> Option<Error> {
        self.tried.as_ref().filter(|(at, _)| self.age(*at) < RETRY_INTERVAL).map(|(_, error)| error.clone())
    }

    /// Stores a result; after a failure the previous document stays in use for a while.
    fn store(&mut self, fetched: Result<T, Error>, used: Duration) -> Result<Arc<T>, Error> {
        match fetched {
            Ok(value) => {
                let value = Arc::new(value);
                self.last = Some((Arc::clone(&value), self.clock.instant()));
                self.tried = None;
                Ok(value)
            }
            Err(error) => {
                self.tried = Some((self.clock.instant(), error.clone()));
                tracing::warn!(%error, "OpenID Connect provider");
                self.younger_than(used).ok_or(error)
            }
        }
    }
}

impl Provider {
    /// Checks the settings without a request to the provider.
    ///
    /// # Errors
    /// An invalid setting, or an unreadable file.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let wrong = |option, why: &str| Error::Settings { option, why: why.to_owned() };
        let issuer = Url::parse(&settings.issuer).map_err(|_| wrong("--oidc-issuer", "expected a URL"))?;
        if issuer.query().is_some() || issuer.fragment().is_some() {
            return Err(wrong("--oidc-issuer", "expected a URL without query and fragment"));
        }
        check_endpoint(&issuer, is_loopback_http(&issuer))
            .map_err(|why| Error::Settings { option: "--oidc-issuer", why })?;
        if settings.client_id.is_empty() {
            return Err(wrong("--oidc-client-id", "expected a client ID"));
        }
        let is_scope = |scope: &String| {
            !scope.is_empty() && scope.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
        };
        if !settings.scopes.iter().all(is_scope) {
            return Err(wrong("--oidc-scopes", "expected names without spaces and quotes"));
        }
        let authorities = match &settings.ca_file {
            Some(path) => Some(std::fs::read(path).map_err(|error| {
                wrong("--oidc-ca-file", &format!("failed to read {}: {error}", path.display()))
            })?),
            None => None,
        };
        let discovery = format!("{}/.well-known/openid-configuration", settings.issuer.trim_end_matches('/'));
        let discovery = Url::parse(&discovery).map_err(|_| wrong("--oidc-issuer", "expected a URL"))?;
        let provider = Self {
            http: Http::new(authorities.as_deref(), settings.timeout)?,
            discovery,
            metadata: Cached::new(&settings.clock),
            keys: Cached::new(&settings.clock),
            settings,
        };
        provider.secret()?;
        Ok(provider)
    }

    pub fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    pub fn client_id(&self) -> &str {
        &self.settings.client_id
    }

    pub fn clock(&self) -> &Clock {
        &self.settings.clock
    }

    /// The issuer's host, for display.
    pub fn host(&self) -> &str {
        self.discovery.host_str().unwrap_or_default()
    }

    /// The client's secret, read for each use because a mounted Secret changes.
    pub(crate) fn secret(&self) -> Result<Option<String>, Error> {
        let Some(path) = &self.settings.client_secret_file else { return Ok(None) };
        let option = "--oidc-client-secret-file";
        let text = std::fs::read_to_string(path).map_err(|error| Error::Settings {
            option,
            why: format!("failed to read {}: {error}", path.display()),
        })?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(Error::Settings { option, why: format!("{} is empty", path.display()) }),
            secret => Ok(Some(secret.to_owned())),
        }
    }

    pub(crate) async fn metadata(&self) -> Result<Arc<Metadata>, Error> {
        let mut cached = self.metadata.lock().await;
        if let Some(fresh) = cached.younger_than(REFRESH_INTERVAL) {
            return Ok(fresh);
        }
        if let Some(error) = cached.failed() {
            return cached.younger_than(Duration::MAX).ok_or(error);
        }
        let fetched = self.discover().await;
        cached.store(fetched, Duration::MAX)
    }

    /// The cached discovery document.
    pub(crate) async fn known_metadata(&self) -> Option<Arc<Metadata>> {
        self.metadata.lock().await.younger_than(Duration::MAX)
    }

    async fn discover(&self) -> Result<Metadata, Error> {
        let what = "the discovery document";
        let answer = self.http.send(what, &self.discovery, self.http.get(&self.discovery)).await?;
        let document: Document = answer.json(what)?;
        if document.issuer != self.settings.issuer {
            let from = document.issuer.chars().filter(|c| c.is_ascii_graphic()).take(200).collect();
            return Err(Error::Issuer { from, expected: self.settings.issuer.clone() });
        }
        let plain = is_loopback_http(&self.discovery);
        let endpoint = |name: &str, text: &str| {
            let url = Url::parse(text).map_err(|_| Error::Discovery(format!("{name} is not a URL")))?;
            check_endpoint(&url, plain).map_err(|why| Error::Discovery(format!("{name}: {why}")))?;
            Ok::<_, Error>(url)
        };
        let optional =
            |name: &str, text: &Option<String>| text.as_deref().map(|text| endpoint(name, text)).transpose();
        Ok(Metadata {
            authorization_endpoint: endpoint("authorization_endpoint", &document.authorization_endpoint)?,
            token_endpoint: endpoint("token_endpoint", &document.token_endpoint)?,
            jwks_uri: endpoint("jwks_uri", &document.jwks_uri)?,
            end_session_endpoint: optional("end_session_endpoint", &document.end_session_endpoint)?,
            revocation_endpoint: optional("revocation_endpoint", &document.revocation_endpoint)?,
            names_itself: document.authorization_response_iss_parameter_supported,
            secret_methods: document.token_endpoint_auth_methods_supported,
        })
    }

    /// The keys. With `beyond`, other keys than those of a set that lacks one; `None` then means that the
    /// provider was queried a moment ago.
    async fn keys(&self, beyond: Option<&Arc<KeySet>>) -> Result<Option<Arc<KeySet>>, Error> {
        let mut cached = self.keys.lock().await;
        match (beyond, cached.younger_than(REFRESH_INTERVAL)) {
            (None, Some(fresh)) => return Ok(Some(fresh)),
            (Some(old), Some(fresh)) if !Arc::ptr_eq(old, &fresh) => return Ok(Some(fresh)),
            (Some(_), _) if cached.younger_than(RETRY_INTERVAL).is_some() => return Ok(None),
            _ => {}
        }
        if let Some(error) = cached.failed() {
            let used = cached.younger_than(KEYS_USED).filter(|_| beyond.is_none());
            return used.map(Some).ok_or(error);
        }
        let fetched = self.fetch_keys().await;
        let kept = if beyond.is_some() { Duration::ZERO } else { KEYS_USED };
        cached.store(fetched, kept).map(Some)
    }

    async fn fetch_keys(&self) -> Result<KeySet, Error> {
        let what = "the key set";
        let url = self.metadata().await?.jwks_uri.clone();
        let answer = self.http.send(what, &url, self.http.get(&url)).await?;
        // Reports malformed JSON with the error of the response.
        let _: serde_json::Value = answer.json(what)?;
        let keys =
            KeySet::parse(&answer.body).map_err(|_| answer.bad(what, "body is not a key set".into()))?;
        if keys.is_empty() {
            return Err(answer.bad(what, "no key for RS, PS, ES or EdDSA signatures".into()));
        }
        Ok(keys)
    }

    /// Validates a token: its signature, with a refreshed key set when the key is missing, and its claims.
    ///
    /// # Errors
    /// The token is not accepted, or the keys cannot be fetched.
    pub async fn check(&self, token: &str, nonce: Option<&str>) -> Result<Claims, Error> {
        let missing =
            || Error::Token(TokenError::Signature(SignatureError::UnknownKey("(no key set)".into())));
        let keys = self.keys(None).await?.ok_or_else(missing)?;
        let mut verified = jose::verify(token, &keys);
        // A provider may rotate a key, also under an old id.
        if let Err(error @ (SignatureError::UnknownKey(_) | SignatureError::Mismatch)) = &verified {
            tracing::debug!(%error, "key set");
            if let Some(newer) = self.keys(Some(&keys)).await? {
                verified = jose::verify(token, &newer);
            }
        }
        let payload = verified.map_err(TokenError::from)?;
        let now = self.clock().now();
        let expected = Expected { issuer: self.issuer(), client_id: self.client_id(), nonce, now };
        Ok(Claims::check(&payload, &expected)?)
    }
}

/// TLS is not required on loopback, for a provider on a developer's machine.
fn is_loopback_http(url: &Url) -> bool {
    url.scheme() == "http" && matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
}

fn check_endpoint(url: &Url, may_be_plain: bool) -> Result<(), String> {
    if url.scheme() != "https" && !(may_be_plain && is_loopback_http(url)) {
        return Err("expected an https URL".into());
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("expected a URL without user and fragment".into());
    }
    Ok(())
}
