//! Sign-in at an OpenID Connect provider.

use std::sync::Arc;

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderMap, StatusCode, header};

use super::login::{self, Form, leave};
use crate::{
    api_server::Token,
    app::{App, too_many_failures},
    client::{ClientAddress, cookie, cookie_name, set_cookie, set_lax_cookie},
    error::WebError,
    links::{clean, local},
    openid::{OpenId, SignIn, VALID, failed},
    posted::{Body, Fields},
    renewal::Renewal,
    session::{hash, is_random, random_text},
};

/// Cookie of the browser that started a sign-in. The provider redirects from another site, and browsers send
/// only lax cookies then.
const BROWSER_COOKIE: &str = "olm_oidc";

/// `POST /oidc/login`: starts a sign-in and redirects the browser to the provider.
pub(crate) async fn begin(
    State(app): State<Arc<App>>,
    from: ClientAddress,
    headers: HeaderMap,
    Body(fields): Body,
) -> Result<Response, WebError> {
    let openid = openid(&app)?;
    login::check_browser(&app, &headers, &fields)?;
    if openid.starts.begin(from).is_none() {
        return Err(WebError::too_many("too many sign-in attempts from your address"));
    }
    let secure = app.is_secure(&headers);
    let next = local(fields.text("next").unwrap_or("/catalog"));
    // Several sign-ins can be pending in one browser.
    let known = cookie(&headers, &cookie_name(secure, BROWSER_COOKIE)).filter(|value| is_random(value));
    let browser = known.map_or_else(random_text, str::to_owned);
    let replaces = app.session_cookie(&headers).map(hash);
    // The guard has already checked the host.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let origin = format!("{}://{host}", if secure { "https" } else { "http" });
    match openid.begin(&origin, &browser, from, next.clone(), replaces).await {
        Ok(url) => {
            let mut response = leave(&headers, "Sign in", "Continue to the provider", &url);
            let seconds = u32::try_from(VALID.as_secs()).unwrap_or(u32::MAX);
            let value = set_lax_cookie(secure, BROWSER_COOKIE, &browser, Some(seconds));
            response.headers_mut().append(header::SET_COOKIE, value);
            Ok(response)
        }
        Err(error) => {
            tracing::info!(error = %error.why, "failed to start a sign-in");
            Ok(login::open(&app, &headers, error.status, &Form::Token { problem: Some(&error) }, &next))
        }
    }
}

/// `GET /oidc/callback`: the response of the provider. Errors are shown on the sign-in page.
pub(crate) async fn callback(
    State(app): State<Arc<App>>,
    from: ClientAddress,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, WebError> {
    let openid = openid(&app)?;
    let secure = app.is_secure(&headers);
    let fields = Fields::parse(query.unwrap_or_default().as_bytes());
    let browser = cookie(&headers, &cookie_name(secure, BROWSER_COOKIE)).unwrap_or_default();
    let begun = fields.text("state").and_then(|state| openid.begun.take(state, browser));
    let Some(sign_in) = begun else {
        if app.failures.begin(from).is_none() {
            return Err(too_many_failures());
        }
        let error = WebError::new(
            StatusCode::FORBIDDEN,
            "sign-in-unknown",
            "Unknown sign-in",
            "the provider's response matches no pending sign-in of this browser, or was used before; a sign-in is valid for ten minutes",
        )
        .hint("sign in again; the console requires cookies");
        let form = Form::Token { problem: Some(&error) };
        return Ok(login::open(&app, &headers, error.status, &form, "/catalog"));
    };
    match finish(&app, openid, from, &fields, &sign_in).await {
        Ok(id) => {
            let mut response = leave(&headers, "Signed in", "Go to the console", &sign_in.next);
            let cookies = response.headers_mut();
            cookies.append(header::SET_COOKIE, set_cookie(secure, &app.session_name, &id, None));
            cookies.append(header::SET_COOKIE, set_lax_cookie(secure, BROWSER_COOKIE, "", Some(0)));
            Ok(response)
        }
        Err(error) => {
            tracing::info!(code = error.code, error = %error.why, "sign-in failed");
            let form = Form::Token { problem: Some(&error) };
            Ok(login::open(&app, &headers, error.status, &form, &sign_in.next))
        }
    }
}

/// Starts the session for a response; returns the value for the cookie.
async fn finish(
    app: &App,
    openid: &OpenId,
    from: ClientAddress,
    fields: &Fields,
    sign_in: &SignIn,
) -> Result<String, WebError> {
    openid.provider.check_issuer(fields.text("iss")).await.map_err(|error| failed(&error))?;
    if let Some(code) = fields.text("error") {
        return Err(refused(code, fields.text("error_description")));
    }
    let Some(code) = fields.text("code") else {
        return Err(refused("no authorization code", None));
    };
    let tokens =
        openid.provider.finish(code, &sign_in.authorization).await.map_err(|error| failed(&error))?;
    let (client, identity) = match app.who_is(from, &Token::new(&tokens.id_token)).await {
        Ok(known) => known,
        Err(error) if error.status == StatusCode::UNAUTHORIZED => {
            return Err(openid.refused_by_api_server(&tokens.claims));
        }
        Err(error) => return Err(error),
    };
    if let Some(expected) = openid.expected_name(&tokens.claims).filter(|name| *name != identity.name) {
        tracing::warn!(
            user = %identity.name, expected,
            "user name differs from the one expected by --oidc-username-claim and --oidc-username-prefix"
        );
    }
    if let Some(old) = &sign_in.replaces {
        app.sessions.end_key(old);
    }
    tracing::info!(user = %identity.name, issuer = openid.provider.issuer(), "signed in");
    Ok(app.sessions.start(client, identity, Some(Arc::new(Renewal::new(&tokens, openid.provider.clock())))))
}

/// An error response of the provider (RFC 6749, 4.1.2.1).
fn refused(code: &str, description: Option<&str>) -> WebError {
    let short = |text: &str| clean(text).chars().take(200).collect::<String>();
    let mut why = format!("the provider returned: {}", short(code));
    if let Some(description) = description {
        why.push_str(&format!(" ({})", short(description)));
    }
    WebError::new(StatusCode::FORBIDDEN, "sign-in-refused", "The provider rejected the sign-in", why)
        .hint("sign in again, or request access from the administrator of the provider")
}

fn openid(app: &App) -> Result<&OpenId, WebError> {
    app.openid.as_ref().ok_or_else(|| {
        WebError::not_found("no OpenID Connect provider configured")
            .hint("start the console with --oidc-issuer")
    })
}
