//! Sessions of a provider: renewal, expiry and sign-out.

use std::{sync::atomic::Ordering, time::Duration};

use http::StatusCode;
use serde_json::{Value, json};

use super::{
    Browser,
    fake::Fake,
    issuer::{Issuer, Mood, onward, session_of, sign_in},
};

/// A response with a token that is valid for ten minutes longer than the first one.
fn tokens(issuer: &Issuer, fake: &Fake, change: Value, refresh: Option<&str>) -> Value {
    let mut claims = issuer.claims("");
    claims["exp"] = (fake.clock.now() + 2 * i64::from(VALID)).into();
    claims.as_object_mut().unwrap().shift_remove("nonce");
    claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    json!({ "token_type": "Bearer", "id_token": issuer.sign(&claims), "refresh_token": refresh })
}

/// Lifetime of the first ID token of a session, in seconds.
const VALID: u16 = 600;
/// Time from sign-in to renewal of the token, in seconds.
const DUE: u16 = VALID - 60;

async fn session(issuer: &Issuer, fake: &Fake, refresh: Option<&str>) -> Browser {
    let router = issuer.console_with(fake, |app| app.revalidate = Duration::ZERO);
    let answer =
        sign_in(issuer, &router, json!({ "exp": fake.clock.now() + i64::from(VALID) }), refresh).await;
    Browser { cookie: session_of(&answer).expect("a session"), csrf: String::new(), router }
}

/// Polls for an effect of the console's background tasks.
async fn until(condition: impl Fn() -> bool) {
    let met = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), met).await.expect("the condition is met");
}

#[tokio::test]
async fn a_session_outlives_its_token_where_there_is_a_refresh_token() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let browser = session(&issuer, &fake, Some("refresh-1")).await;
    issuer.answer("refresh-1", tokens(&issuer, &fake, json!({}), Some("refresh-2")));
    assert_eq!(browser.json("/me").await["name"], "grace");
    assert_eq!(issuer.token_requests.load(Ordering::Relaxed), 1, "not before it is due");
    fake.clock.advance(VALID);
    // when many pages are loaded at once, then the refresh token, which works once, is used once
    let pages = futures::future::join_all((0..20).map(|_| browser.get("/installed"))).await;
    assert!(pages.iter().all(|page| page.status == StatusCode::OK), "{}", pages[0].text);
    assert_eq!(issuer.token_requests.load(Ordering::Relaxed), 2);
    assert_eq!(issuer.inner.lock().unwrap().asked["grant_type"], "refresh_token");
    // and the session is valid on the API server, which no longer accepts the old token
    assert_eq!(browser.json("/me").await["name"], "grace");
}

#[tokio::test]
async fn a_session_ends_with_its_token_where_nothing_renews_it() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    for refresh in [None, Some("unknown-to-the-provider")] {
        let browser = session(&issuer, &fake, refresh).await;
        assert_eq!(browser.get("/installed").await.status, StatusCode::OK);
        // when it is due but still valid
        fake.clock.advance(DUE);
        assert_eq!(browser.get("/installed").await.status, StatusCode::OK, "{refresh:?}");
        fake.clock.advance(VALID - DUE);
        let answer = browser.get("/installed").await;
        assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "/login?next=%2Finstalled"));
        // and the sign-in page does not redirect back
        assert_eq!(browser.get("/login").await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn t16_a_new_token_of_another_account_is_not_taken() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    for change in
        [json!({ "sub": "mallory" }), json!({ "aud": "other" }), json!({ "iss": "https://evil.example" })]
    {
        let browser = session(&issuer, &fake, Some("refresh")).await;
        issuer.answer("refresh", tokens(&issuer, &fake, change.clone(), None));
        fake.clock.advance(VALID);
        assert_eq!(browser.get("/installed").await.status, StatusCode::SEE_OTHER, "{change}");
        assert_eq!(browser.get("/me").await.status, StatusCode::SEE_OTHER, "{change}");
    }
}

#[tokio::test]
async fn a_provider_that_is_away_ends_no_session() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let browser = session(&issuer, &fake, Some("refresh")).await;
    let ada = Browser::new(browser.router.clone()).await;
    issuer.answer("refresh", tokens(&issuer, &fake, json!({}), None));
    issuer.set(|inner| inner.tokens = Mood::Fails);
    // when it fails while the token is valid
    fake.clock.advance(DUE);
    assert_eq!(browser.get("/installed").await.status, StatusCode::OK);
    until(|| issuer.token_requests.load(Ordering::Relaxed) == 2).await;
    // and when it has expired, then the page reports the error immediately
    fake.clock.advance(VALID - DUE);
    let away = async || {
        let answer = browser.get("/installed").await;
        assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
        assert!(answer.text.contains("status 500"), "{}", answer.text);
        issuer.token_requests.load(Ordering::Relaxed)
    };
    let asked = away().await;
    for _ in 0..4 {
        assert_eq!(away().await, asked, "it is not asked again within seconds");
    }
    assert_eq!(ada.json("/me").await["name"], "ada", "others stay signed in");
    // and when the provider is reachable again, then the session continues
    issuer.set(|inner| inner.tokens = Mood::Well);
    issuer.answer("refresh", tokens(&issuer, &fake, json!({}), None));
    fake.clock.advance(11);
    assert_eq!(browser.json("/me").await["name"], "grace");
}

#[tokio::test]
async fn t12_a_session_ends_when_the_api_server_does_not_accept_the_issuer_any_more() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let router = issuer.console_with(&fake, |app| app.revalidate = Duration::ZERO);
    let answer = sign_in(&issuer, &router, json!({}), Some("refresh")).await;
    let browser = Browser { cookie: session_of(&answer).unwrap(), csrf: String::new(), router };
    assert_eq!(browser.json("/me").await["name"], "grace");
    fake.trust(None);
    assert_eq!(browser.get("/installed").await.status, StatusCode::SEE_OTHER);
    fake.trust(Some(&issuer.url));
    assert_eq!(browser.get("/installed").await.status, StatusCode::SEE_OTHER, "and stays over");
}

#[tokio::test]
async fn signing_out_ends_the_session_here_and_at_the_provider() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let router = issuer.console(&fake);
    let answer = sign_in(&issuer, &router, json!({}), Some("refresh")).await;
    let mut browser = Browser { cookie: session_of(&answer).unwrap(), csrf: String::new(), router };
    let page = browser.get("/installed").await;
    browser.csrf = super::hidden(&page.text, "_csrf").to_owned();
    let answer = browser.post("/logout", &[]).await;
    let to = onward(&answer);
    assert!(to.starts_with(&format!("{}/end?client_id=", issuer.url)), "{to}");
    assert!(to.contains("post_logout_redirect_uri=http%3A%2F%2F127.0.0.1%3A8080%2Flogin"), "{to}");
    assert!(!to.contains("id_token"), "a token is never in a URL");
    assert_eq!(browser.get("/installed").await.status, StatusCode::SEE_OTHER);
    until(|| issuer.inner.lock().unwrap().revoked == ["refresh"]).await;
}
