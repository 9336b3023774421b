//! Sign-ins at an OpenID Connect provider: options, pending sign-ins and errors.
//!
//! The ID token is the session's bearer token for the API server, which has to accept the same issuer. The
//! console therefore gets no additional rights.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use http::StatusCode;
use olm_oidc::{Authorization, Claims, Error, Provider, Settings};
use serde_json::Value;

use crate::{client::ClientAddress, error::WebError, limits::RateLimits, links::clean, session::hash};

/// Lifetime of a pending sign-in.
pub(crate) const VALID: Duration = Duration::from_secs(10 * 60);
/// Maximum number of pending sign-ins; a further one replaces the oldest of the client with the most.
const MAX: usize = 2000;

/// Options for sign-ins at an OpenID Connect provider.
#[derive(Clone, Debug)]
pub struct OpenIdOptions {
    /// The provider, and the console as its client.
    pub settings: Settings,
    /// The redirect URI; derived from the `Host` header of the request when absent.
    pub callback_url: Option<String>,
    /// Claim for the user name on the API server.
    pub username_claim: String,
    /// Prefix of user names on the API server.
    pub username_prefix: Option<String>,
    /// Claim for the groups on the API server.
    pub groups_claim: Option<String>,
    /// Prefix of groups on the API server.
    pub groups_prefix: Option<String>,
}

/// The provider with its pending sign-ins.
pub(crate) struct OpenId {
    pub(crate) provider: Provider,
    pub(crate) begun: PendingSignIns,
    /// Started sign-ins, by client address.
    pub(crate) starts: RateLimits<ClientAddress>,
    options: OpenIdOptions,
}

/// A pending sign-in.
pub(crate) struct SignIn {
    /// Hash of the cookie of the browser that started it.
    pub(crate) browser: [u8; 32],
    pub(crate) from: ClientAddress,
    pub(crate) authorization: Authorization,
    /// Redirect target after the sign-in.
    pub(crate) next: String,
    /// The session that the sign-in replaces.
    pub(crate) replaces: Option<[u8; 32]>,
    expires: Instant,
}

/// By the hash of `state`.
#[derive(Default)]
pub(crate) struct PendingSignIns(Mutex<HashMap<[u8; 32], SignIn>>);

impl PendingSignIns {
    fn insert(&self, sign_in: SignIn, now: Instant) {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        begun.retain(|_, sign_in| sign_in.expires > now);
        if begun.len() >= MAX {
            let mut counts: HashMap<ClientAddress, usize> = HashMap::new();
            for sign_in in begun.values() {
                *counts.entry(sign_in.from).or_default() += 1;
            }
            let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(client, _)| client);
            let of_most = begun.iter().filter(|(_, sign_in)| Some(sign_in.from) == most);
            if let Some(oldest) = of_most.min_by_key(|(_, sign_in)| sign_in.expires).map(|(key, _)| *key) {
                begun.remove(&oldest);
            }
        }
        begun.insert(hash(&sign_in.authorization.state), sign_in);
    }

    /// Removes and returns a sign-in, only for the browser that started it; it works once.
    pub(crate) fn take(&self, state: &str, browser: &str) -> Option<SignIn> {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = hash(state);
        begun.get(&key).filter(|sign_in| sign_in.browser == hash(browser))?;
        begun.remove(&key).filter(|sign_in| sign_in.expires > Instant::now())
    }
}

impl OpenId {
    pub(crate) fn new(options: OpenIdOptions) -> Result<Self, Error> {
        if let Some(url) = &options.callback_url {
            let is_callback = url.parse::<http::Uri>().is_ok_and(|uri| {
                matches!(uri.scheme_str(), Some("https" | "http"))
                    && uri.path() == "/oidc/callback"
                    && uri.query().is_none()
            });
            if !is_callback {
                let why = "expected https://HOST/oidc/callback".to_owned();
                return Err(Error::Settings { option: "--oidc-callback-url", why });
            }
        }
        Ok(Self {
            provider: Provider::new(options.settings.clone())?,
            begun: PendingSignIns::default(),
            starts: RateLimits::new(30, Duration::from_secs(2)),
            options,
        })
    }

    /// Starts a sign-in; returns the URL to redirect the browser to.
    pub(crate) async fn begin(
        &self,
        origin: &str,
        browser: &str,
        from: ClientAddress,
        next: String,
        replaces: Option<[u8; 32]>,
    ) -> Result<String, WebError> {
        let own = || format!("{origin}/oidc/callback");
        let redirect_uri = self.options.callback_url.clone().unwrap_or_else(own);
        let authorization = self.provider.begin(&redirect_uri).await.map_err(|error| failed(&error))?;
        let url = authorization.url.clone();
        let now = Instant::now();
        let (browser, expires) = (hash(browser), now + VALID);
        self.begun.insert(SignIn { browser, from, authorization, next, replaces, expires }, now);
        Ok(url)
    }

    /// The error when the API server rejects an ID token that the console accepted.
    pub(crate) fn refused_by_api_server(&self, claims: &Claims) -> WebError {
        let (issuer, options) = (self.provider.issuer(), &self.options);
        let claim = options.username_claim.as_str();
        let error = |why: String| {
            WebError::new(
                StatusCode::FORBIDDEN,
                "token-not-accepted",
                "The API server rejected the sign-in",
                why,
            )
        };
        // The console tolerates clock skew; API servers do not.
        let ago = self.provider.clock().now().saturating_sub(claims.exp);
        if ago >= 0 {
            return error(format!("the ID token expired {ago} seconds ago according to the console's clock"))
                .hint("synchronize the clocks of the provider, the console and the API server");
        }
        if claim != "sub" && !claims.others.contains_key(claim) {
            return error(format!(
                "the ID token of {issuer} is missing claim `{claim}`, the API server's username claim"
            ))
            .hint("request the scope of the claim with --oidc-scopes");
        }
        if claim == "email" && claims.others.get("email_verified") == Some(&Value::Bool(false)) {
            let why = format!("the provider {issuer} has not verified your email address");
            return error(why).hint("verify your email address at the provider");
        }
        let mut flags = format!(
            "--oidc-issuer-url={issuer} --oidc-client-id={} --oidc-username-claim={claim}",
            self.provider.client_id()
        );
        let more = [
            ("--oidc-username-prefix", &options.username_prefix),
            ("--oidc-groups-claim", &options.groups_claim),
            ("--oidc-groups-prefix", &options.groups_prefix),
        ];
        for (flag, value) in more {
            if let Some(value) = value {
                flags.push_str(&format!(" {flag}={value}"));
            }
        }
        error(format!("signed in at {issuer}, but the API server does not accept tokens of this issuer"))
            .hint(format!("start kube-apiserver with `{flags}`; its log contains the cause"))
    }

    /// The user name that the API server should derive with the same options.
    pub(crate) fn expected_name(&self, claims: &Claims) -> Option<String> {
        claims.user_name(&self.options.username_claim, self.options.username_prefix.as_deref())
    }
}

/// An error of the provider, for the sign-in page.
pub(crate) fn failed(error: &Error) -> WebError {
    let status = match error {
        Error::Refused { .. } | Error::Token(_) => StatusCode::FORBIDDEN,
        _ => StatusCode::BAD_GATEWAY,
    };
    let (code, what, hint) = match error {
        Error::Unreachable { .. } => {
            ("provider-unreachable", "Provider unreachable", "retry in a few seconds")
        }
        Error::Answer { .. } => ("provider-failed", "Provider error", "retry in a few seconds"),
        Error::Discovery(_) | Error::Settings { .. } => (
            "provider-settings",
            "Invalid OpenID Connect configuration",
            "contact the administrator of the console",
        ),
        Error::Issuer { .. } => (
            "wrong-issuer",
            "Issuer mismatch",
            "compare --oidc-issuer with `issuer` in the provider's discovery document",
        ),
        Error::Refused { code, .. } => {
            let hint = match code.as_str() {
                "invalid_grant" => "sign in again; an authorization code is valid once",
                _ => "compare the client ID and the client secret with those registered at the provider",
            };
            ("sign-in-refused", "The provider rejected the sign-in", hint)
        }
        Error::Token(_) => (
            "token-not-valid",
            "Invalid ID token",
            "sign in again; if the error persists, contact the administrator of the console",
        ),
    };
    WebError::new(status, code, what, clean(&error.to_string())).hint(hint)
}
