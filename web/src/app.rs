//! Shared state of the console.

use std::{sync::Arc, time::Duration};

use axum::extract::FromRequestParts;
use http::{HeaderMap, StatusCode, request::Parts};
use tokio_util::sync::CancellationToken;

use crate::{
    api_server::{ApiServer, Identity, Token},
    catalogs::Catalogs,
    client::{AllowedHosts, ClientAddress, cookie, cookie_name, forwarded_tls},
    codes::LoginCodes,
    error::WebError,
    limits::{RateLimits, Streams},
    openid::OpenId,
    session::{COOKIE, Session, Sessions},
};

pub(crate) struct App {
    pub(crate) api_server: ApiServer,
    pub(crate) catalogs: Catalogs,
    pub(crate) sessions: Sessions,
    /// The name of the session cookie.
    pub(crate) session_name: String,
    pub(crate) codes: LoginCodes,
    /// Failed sign-ins by client address: tokens, in forms and in headers, and codes.
    pub(crate) failures: RateLimits<ClientAddress>,
    pub(crate) codes_of_user: RateLimits<String>,
    pub(crate) openid: Option<OpenId>,
    /// Interval after which the API server validates the token of a session again.
    pub(crate) revalidate: Duration,
    pub(crate) allowed_hosts: AllowedHosts,
    pub(crate) tls: bool,
    /// Whether a proxy in front of the console sets `X-Forwarded-For` and `X-Forwarded-Proto`.
    pub(crate) trust_proxy: bool,
    pub(crate) streams: Streams,
    /// Whether `/dev/components` exists.
    pub(crate) components_page: bool,
    pub(crate) shutdown: CancellationToken,
}

impl App {
    pub(crate) fn new(
        api_server: ApiServer,
        catalogs: Catalogs,
        allowed_hosts: AllowedHosts,
        tls: bool,
        trust_proxy: bool,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            api_server,
            catalogs,
            sessions: Sessions::default(),
            session_name: COOKIE.to_owned(),
            codes: LoginCodes::default(),
            failures: RateLimits::new(30, Duration::from_secs(2)),
            codes_of_user: RateLimits::new(20, Duration::from_secs(2)),
            openid: None,
            revalidate: Duration::from_secs(60),
            allowed_hosts,
            tls,
            trust_proxy,
            streams: Streams::default(),
            components_page: false,
            shutdown,
        }
    }

    /// Looks up the user of a token at the API server. Attempts with invalid tokens are limited by client
    /// address.
    pub(crate) async fn who_is(
        &self,
        from: ClientAddress,
        token: &Token,
    ) -> Result<(kube::Client, Identity), WebError> {
        let attempt = self.failures.begin(from).ok_or_else(too_many_failures)?;
        let result = self.api_server.who_is(token).await;
        if !result.as_ref().is_err_and(|error| error.status == StatusCode::UNAUTHORIZED) {
            attempt.forgive();
        }
        result
    }

    /// The session of a request, as of the last validation of its token by the API server.
    pub(crate) fn session(&self, headers: &HeaderMap) -> Option<Session> {
        self.sessions.find(self.session_cookie(headers)?)
    }

    pub(crate) fn session_cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        cookie(headers, &cookie_name(self.is_secure(headers), &self.session_name))
    }

    /// Whether the client reaches the console through TLS.
    pub(crate) fn is_secure(&self, headers: &HeaderMap) -> bool {
        self.tls || self.trust_proxy && forwarded_tls(headers)
    }
}

impl FromRequestParts<Arc<App>> for ClientAddress {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, WebError> {
        Ok(Self::of(parts, app.trust_proxy))
    }
}

pub(crate) fn too_many_failures() -> WebError {
    WebError::too_many("too many failed sign-in attempts from your address")
}
