//! Shared state and routes of the console.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    middleware,
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use http::StatusCode;
use tokio_util::sync::CancellationToken;

use crate::{
    api_server::{ApiServer, Identity, Token},
    assets,
    catalogs::Catalogs,
    client::ClientAddress,
    codes::LoginCodes,
    error::WebError,
    icons,
    limits::RateLimits,
    live,
    openid::OpenId,
    pages,
    posted::MAX_BODY,
    security::{self, AllowedHosts},
    session::Sessions,
};

pub(crate) struct App {
    pub(crate) api_server: ApiServer,
    pub(crate) catalogs: Catalogs,
    pub(crate) sessions: Sessions,
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
    pub(crate) streams: live::Streams,
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
            codes: LoginCodes::default(),
            failures: RateLimits::new(30, Duration::from_secs(2)),
            codes_of_user: RateLimits::new(20, Duration::from_secs(2)),
            openid: None,
            revalidate: Duration::from_secs(60),
            allowed_hosts,
            tls,
            trust_proxy,
            streams: live::Streams::default(),
            shutdown,
        }
    }
}

impl App {
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
}

pub(crate) fn too_many_failures() -> WebError {
    WebError::too_many("too many failed sign-in attempts from your address")
}

pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(|| async { Redirect::to("/catalog") }))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/static/{file}", get(assets::file))
        .route("/icons/{hash}", get(icons::icon))
        .route("/login", get(pages::login::form).post(pages::login::submit))
        .route("/logout", post(pages::login::logout))
        .route("/oidc/login", post(pages::openid::begin))
        .route("/oidc/callback", get(pages::openid::callback))
        .route("/me", get(pages::login::me))
        .route("/theme", post(pages::login::theme))
        .route("/api/v1/login-codes", post(pages::login::issue_code))
        .route("/api/v1/events", get(live::events))
        .route("/catalog", get(pages::catalog::page))
        .route("/catalog/{source}/{package}", get(pages::package::page))
        .route("/install/{source}/{package}", get(pages::install::page).post(pages::install::submit))
        .route("/installed", get(pages::installed::page))
        .route("/installed/{namespace}/{name}", get(pages::operator::page))
        .route("/installed/{namespace}/{name}/approve", post(pages::operator::approve))
        .route("/installed/{namespace}/{name}/plan", get(pages::review::page))
        .route("/installed/{namespace}/{name}/change", get(pages::change::page).post(pages::change::submit))
        .route(
            "/installed/{namespace}/{name}/rollback",
            get(pages::rollback::page).post(pages::rollback::submit),
        )
        .route(
            "/installed/{namespace}/{name}/uninstall",
            get(pages::uninstall::page).post(pages::uninstall::submit),
        )
        .route("/doctor", get(pages::doctor::page).post(pages::doctor::cure))
        .route("/instances", get(pages::instances::index))
        .route("/instances/new/{crd}", get(pages::create::page).post(pages::create::submit))
        .route("/instances/{crd}", get(pages::instances::all_namespaces))
        .route("/instances/{crd}/{namespace}", get(pages::instances::one_namespace))
        .route("/instances/{crd}/{namespace}/{name}", get(pages::instance::page))
        .fallback(|| async { WebError::not_found("page not found") })
        .method_not_allowed_fallback(|| async {
            WebError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "Method not allowed",
                "this URL does not support the request method",
            )
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), security::guard))
        .with_state(app)
}

/// Reports whether the catalogs are readable. The API server is not checked: the console calls it only in the name
/// of a user.
async fn ready(State(app): State<Arc<App>>) -> Response {
    match app.catalogs.problem().await {
        None => "ok\n".into_response(),
        // Still ready: pages show what is missing, and an unready console would get no traffic.
        Some(why) => format!("ok, but failed to read the catalogs: {why}\n").into_response(),
    }
}
