//! Routes of the console.

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use http::StatusCode;
use olm_api::names::FIELD_MANAGER_CONSOLE;

use crate::{app::App, assets, delivery, error::WebError, icons, live, pages, posted::MAX_BODY, security};

pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    if app.components_page {
        router = router.route("/dev/components", get(pages::components::page));
    }
    router
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
        .route("/catalog/{source}/{package}/versions", get(pages::versions::page))
        .route("/catalog/{source}/{package}/graph", get(pages::versions::graph))
        .route("/install/{source}/{package}", get(pages::install::page).post(pages::install::submit))
        .route(
            "/install/{source}/{package}/preview",
            // After a sign-in the browser requests the page again, without the input.
            get(pages::install::page).post(pages::install::preview),
        )
        .route("/installed", get(pages::installed::page))
        .route("/installed/{namespace}/{name}", get(pages::operator::page))
        .route("/installed/{namespace}/{name}/{tab}", get(pages::operator::tab))
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
        .route("/updates", get(pages::updates::page).post(pages::updates::approve_all))
        .route("/catalogs", get(pages::catalogs::page))
        .route("/catalogs/new", get(pages::catalogs::add::page).post(pages::catalogs::add::submit))
        .route("/catalogs/{namespace}/{name}", get(pages::catalogs::detail::page))
        .route("/catalogs/{namespace}/{name}/refresh", post(pages::catalogs::detail::refresh))
        .route("/catalogs/{namespace}/{name}/interval", post(pages::catalogs::detail::interval))
        .route(
            "/catalogs/{namespace}/{name}/remove",
            get(pages::catalogs::remove::page).post(pages::catalogs::remove::submit),
        )
        .route("/activity", get(pages::activity::page))
        .route("/help/keyboard", get(pages::help::keyboard))
        .route("/doctor", get(pages::doctor::page).post(pages::doctor::apply_fix))
        .route("/instances", get(pages::instances::index))
        .route("/instances/new/{crd}", get(pages::create::page).post(pages::create::submit))
        .route("/instances/{crd}", get(pages::instances::all_namespaces))
        .route("/instances/{crd}/{namespace}", get(pages::instances::one_namespace))
        .route("/instances/{crd}/{namespace}/{name}", get(pages::instance::page))
        .route("/instances/{crd}/{namespace}/{name}/edit", get(pages::edit::page).post(pages::edit::submit))
        .route(
            "/instances/{crd}/{namespace}/{name}/delete",
            get(pages::delete::page).post(pages::delete::submit),
        )
        .fallback(|| async { WebError::not_found("page not found") })
        .method_not_allowed_fallback(|| async {
            WebError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "Method not allowed",
                "this URL does not support the request method",
            )
        })
        .layer(middleware::from_fn(as_console))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), security::guard))
        .layer(middleware::from_fn(delivery::deliver))
        .with_state(app)
}

/// The API server records changes as those of the console.
async fn as_console(request: Request, next: Next) -> Response {
    olm_ops::written_by(FIELD_MANAGER_CONSOLE, next.run(request)).await
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
