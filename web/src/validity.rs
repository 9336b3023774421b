//! Keeps sessions valid: the API server validates their tokens at intervals, and their provider renews them.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode};
use olm_oidc::Error;

use crate::{
    api_server::{self, is_token},
    app::App,
    error::WebError,
    openid::failed,
    renewal::Renewal,
    session::Session,
};

/// Interval between attempts to renew a session at a provider that does not answer.
const AGAIN: Duration = Duration::from_secs(10);

/// Renews the ID token of a session before it expires, and ends a session that expired for good.
pub(crate) async fn keep_valid(app: &Arc<App>, session: &Session) -> Result<(), WebError> {
    let Some(renewal) = session.renewal.as_ref().filter(|renewal| renewal.is_due()) else { return Ok(()) };
    // Pages do not wait for the renewal while the old token is valid.
    let wait = renewal.is_expired();
    if !wait && renewal.state.try_lock().is_err() {
        return Ok(());
    }
    let (app, session, renewal) = (Arc::clone(app), session.clone(), Arc::clone(renewal));
    // Spawned, so that a disconnecting client does not cancel it: the provider may already have revoked the
    // old refresh token.
    let renewed = tokio::spawn(async move { renew(&app, &session, &renewal).await });
    if !wait {
        return Ok(());
    }
    renewed.await.unwrap_or_else(|error| {
        Err(WebError::new(StatusCode::BAD_GATEWAY, "unexpected", "Session renewal failed", error.to_string()))
    })
}

async fn renew(app: &App, session: &Session, renewal: &Renewal) -> Result<(), WebError> {
    let Some(openid) = &app.openid else { return Ok(()) };
    let mut state = renewal.state.lock().await;
    // A concurrent request may have renewed it.
    if !renewal.is_due() {
        return Ok(());
    }
    let end = |why: &str| {
        tracing::info!(user = %session.identity.name, why, "session ended");
        app.sessions.end_key(&session.key);
        Err(WebError::unauthorized(why).hint("sign in again"))
    };
    let Some(refresh_token) = state.refresh_token.clone() else {
        return if renewal.is_expired() { end("your sign-in at the provider has expired") } else { Ok(()) };
    };
    if let Some((_, error)) = state.failed.as_ref().filter(|(until, _)| renewal.clock.instant() < *until) {
        return if renewal.is_expired() { Err(error.clone()) } else { Ok(()) };
    }
    match openid.provider.renew(&refresh_token, &renewal.subject).await {
        Ok(tokens) if is_token(&tokens.id_token) => {
            state.refresh_token = tokens.refresh_token;
            state.failed = None;
            session.identity.token.replace(&tokens.id_token);
            renewal.expires_at(tokens.claims.exp);
        }
        Ok(_) => return end("the renewed ID token is not a valid bearer token"),
        // A retry is useless.
        Err(error @ (Error::Refused { .. } | Error::Token(_))) => {
            tracing::info!(user = %session.identity.name, %error, "failed to renew the session");
            state.refresh_token = None;
            return if renewal.is_expired() {
                end("the provider rejected the renewal of your sign-in")
            } else {
                Ok(())
            };
        }
        Err(error) => {
            let error = failed(&error);
            state.failed = Some((renewal.clock.instant() + AGAIN, error.clone()));
            return if renewal.is_expired() { Err(error) } else { Ok(()) };
        }
    }
    match api_server::identity(&session.client, &session.identity.token).await {
        Ok(identity) if identity.name == session.identity.name => {
            app.sessions.validated(&session.key, identity);
            Ok(())
        }
        Ok(_) => end("your user name on the API server changed"),
        Err(error) if error.status == StatusCode::UNAUTHORIZED => {
            end("the API server rejected the renewed ID token")
        }
        // The next request validates again.
        Err(error) => {
            tracing::debug!(error = %error.why, "failed to validate the session");
            Ok(())
        }
    }
}

/// The session of a request, validated first when the last validation is old: the account may have been
/// deleted.
pub(crate) async fn valid_session(app: &Arc<App>, headers: &HeaderMap) -> Result<Session, WebError> {
    let mut session = app.session(headers).ok_or_else(|| WebError::unauthorized("you are not signed in"))?;
    keep_valid(app, &session).await?;
    if session.validated_ago() < app.revalidate {
        return Ok(session);
    }
    match api_server::identity(&session.client, &session.identity.token).await {
        Ok(identity) => {
            app.sessions.validated(&session.key, identity.clone());
            session.identity = identity;
            Ok(session)
        }
        Err(error) if error.status == StatusCode::UNAUTHORIZED => {
            tracing::info!(user = %session.identity.name, "session ended: token no longer accepted");
            app.sessions.end_key(&session.key);
            Err(error)
        }
        // An unreachable API server does not invalidate the account, and no request succeeds without it.
        Err(error) => {
            tracing::debug!(error = %error.why, "failed to validate the session");
            Ok(session)
        }
    }
}
