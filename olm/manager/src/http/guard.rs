//! Authorization of reads: catalogs need `get` on the CatalogSource, metrics need `get` on the path.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{ConnectInfo, FromRequestParts as _, Path, Request, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use olm_client::FORWARDED_AUTHORIZATION;

use super::listener::Peer;
use crate::{
    context::Ctx,
    reviews::{Act, Refusal, User},
};

/// Middleware of everything that only authenticated users may read; adds the [`User`] to the request.
pub(super) async fn authenticated(State(ctx): State<Arc<Ctx>>, mut request: Request, next: Next) -> Response {
    let token = match token(&request) {
        Ok(token) => token.to_owned(),
        Err(refusal) => return *refusal,
    };
    match ctx.reviews.user(&token).await {
        Ok(user) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        Err(refusal) => refused(refusal),
    }
}

fn token(request: &Request) -> Result<&str, Box<Response>> {
    // Without the address of the peer, the connection counts as not private.
    let private = request.extensions().get::<ConnectInfo<Peer>>().is_some_and(|peer| peer.0.is_private());
    let token = bearer(request.headers()).ok_or_else(|| Box::new(refused(Refusal::Unauthorized)))?;
    if !private {
        let text = "a bearer token was sent without TLS and may be compromised; use https on this port and \
            revoke the token";
        return Err(Box::new((StatusCode::FORBIDDEN, format!("{text}\n")).into_response()));
    }
    Ok(token)
}

/// The API server removes `Authorization` from proxied requests; these carry the token in a header of ours.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION).or_else(|| headers.get(FORWARDED_AUTHORIZATION))?;
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Middleware of the routes of one catalog, after [`authenticated`].
pub(super) async fn catalog(State(ctx): State<Arc<Ctx>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let Some((namespace, name)) = named(&ctx, &mut parts).await else {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    };
    let request = Request::from_parts(parts, body);
    allowed(&ctx, Act::catalog(&namespace, &name), request, next).await
}

/// The catalog as the routes read it from the path: `{first}/{second}`, or `{first}` in the manager's
/// namespace.
async fn named(ctx: &Ctx, parts: &mut Parts) -> Option<(String, String)> {
    let Path(mut names) = Path::<HashMap<String, String>>::from_request_parts(parts, &()).await.ok()?;
    let first = names.remove("first")?;
    Some(match names.remove("second") {
        Some(second) => (first, second),
        None => (ctx.namespace.clone(), first),
    })
}

/// Middleware of the metrics, after [`authenticated`].
pub(super) async fn metrics(State(ctx): State<Arc<Ctx>>, request: Request, next: Next) -> Response {
    let act = Act::Path(request.uri().path().to_owned());
    allowed(&ctx, act, request, next).await
}

async fn allowed(ctx: &Ctx, act: Act, request: Request, next: Next) -> Response {
    let Some(user) = request.extensions().get::<User>().cloned() else {
        return refused(Refusal::Unauthorized);
    };
    match ctx.reviews.may(&user, &act).await {
        Ok(()) => next.run(request).await,
        Err(refusal) => refused(refusal),
    }
}

pub(super) fn refused(refusal: Refusal) -> Response {
    match refusal {
        Refusal::Unauthorized => {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            (
                StatusCode::UNAUTHORIZED,
                challenge,
                "401 Unauthorized: a bearer token of the cluster is required\n",
            )
                .into_response()
        }
        Refusal::Forbidden(why) => (StatusCode::FORBIDDEN, format!("403 Forbidden: {why}\n")).into_response(),
        Refusal::Unknown(why) => {
            tracing::warn!(error = why, "refused a request: the review of its permissions failed");
            let text = "503 Service Unavailable: the API server did not respond to the review of the \
                request\n";
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}
