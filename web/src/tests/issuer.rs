//! An OpenID Connect provider with configurable behaviour, and a browser that signs in at it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse, Response},
    routing::{get, post as on_post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, StatusCode, header};
use olm_oidc::{Clock, Settings};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use super::{Answer, cookies, fake::Fake, hidden, send};
use crate::{
    app::App,
    openid::{OpenId, OpenIdOptions},
};

pub(super) const CLIENT: &str = "con sole";
pub(super) const SECRET: &str = "s3cret/+:";

/// The behaviour of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Well,
    Hangs,
    Fails,
    Html,
    Huge,
    Drips,
    Redirects,
}

pub(super) const BAD_MOODS: [(Mood, &str); 6] = [
    (Mood::Hangs, "no response within"),
    (Mood::Fails, "status 500"),
    (Mood::Html, "body is not JSON"),
    (Mood::Huge, "larger than 512 KiB"),
    (Mood::Drips, "no response within"),
    (Mood::Redirects, "status 302"),
];

#[derive(Clone)]
pub(super) struct Issuer {
    pub(super) url: String,
    pub(super) inner: Arc<Mutex<Inner>>,
    pub(super) discovery_requests: Arc<AtomicUsize>,
    pub(super) key_requests: Arc<AtomicUsize>,
    pub(super) token_requests: Arc<AtomicUsize>,
}

pub(super) struct Inner {
    pub(super) discovery: Mood,
    pub(super) keys: Mood,
    pub(super) tokens: Mood,
    /// Merged into the discovery document.
    pub(super) document: Value,
    pub(super) key: Key,
    /// Responses of the token endpoint by code or refresh token; each works once.
    pub(super) answers: HashMap<String, Value>,
    /// The last request to the token endpoint, and its `Authorization` header.
    pub(super) asked: HashMap<String, String>,
    pub(super) authorization: String,
    pub(super) revoked: Vec<String>,
}

pub(super) struct Key {
    pub(super) id: String,
    pair: EcdsaKeyPair,
}

impl Key {
    pub(super) fn new(id: &str) -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
        Self { id: id.to_owned(), pair }
    }

    pub(super) fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let part = |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(&point[range]);
        json!({ "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id, "x": part(1..33), "y": part(33..65) })
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        let message = message(&json!({ "alg": "ES256", "typ": "JWT", "kid": self.id }), claims);
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Header and payload.
pub(super) fn message(header: &Value, claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", encode(header), encode(claims))
}

pub(super) fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

impl Issuer {
    pub(super) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let inner = Inner {
            discovery: Mood::Well,
            keys: Mood::Well,
            tokens: Mood::Well,
            document: json!({}),
            key: Key::new("first"),
            answers: HashMap::new(),
            asked: HashMap::new(),
            authorization: String::new(),
            revoked: Vec::new(),
        };
        let issuer = Self {
            url,
            inner: Arc::new(Mutex::new(inner)),
            discovery_requests: Arc::default(),
            key_requests: Arc::default(),
            token_requests: Arc::default(),
        };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/token", on_post(token))
            .route("/revoke", on_post(revoke))
            .with_state(issuer.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        issuer
    }

    pub(super) fn set(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.inner.lock().unwrap());
    }

    /// Sets the response of the token endpoint to a code or a refresh token.
    pub(super) fn answer(&self, to: &str, answer: Value) {
        self.set(|inner| drop(inner.answers.insert(to.to_owned(), answer)));
    }

    pub(super) fn claims(&self, nonce: &str) -> Value {
        json!({ "iss": self.url, "sub": "grace", "aud": CLIENT, "exp": now() + 600, "iat": now(), "nonce": nonce })
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        self.inner.lock().unwrap().key.sign(claims)
    }

    pub(super) fn options(&self) -> OpenIdOptions {
        let secret = tempfile::NamedTempFile::new().unwrap().into_temp_path().keep().unwrap();
        std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
        OpenIdOptions {
            settings: Settings {
                issuer: self.url.clone(),
                client_id: CLIENT.into(),
                client_secret_file: Some(secret),
                scopes: vec!["email".into(), "groups".into()],
                ca_file: None,
                timeout: Duration::from_millis(700),
                clock: Clock::default(),
            },
            callback_url: None,
            username_claim: "sub".into(),
            username_prefix: Some("-".into()),
            groups_claim: Some("groups".into()),
            groups_prefix: None,
        }
    }

    /// A console that uses this provider, over a cluster that accepts its tokens.
    pub(super) fn console(&self, fake: &Fake) -> Router {
        self.console_with(fake, |_| {})
    }

    pub(super) fn console_with(&self, fake: &Fake, change: impl FnOnce(&mut App)) -> Router {
        fake.trust(Some(&self.url));
        let mut options = self.options();
        options.settings.clock = fake.clock.clone();
        super::console_with(fake, vec![], |app| {
            app.openid = Some(OpenId::new(options).unwrap());
            change(app);
        })
    }
}

async fn in_mood(mood: Mood, good: Value) -> Response {
    match mood {
        Mood::Well => axum::Json(good).into_response(),
        Mood::Hangs => std::future::pending().await,
        Mood::Fails => (StatusCode::INTERNAL_SERVER_ERROR, "internal secrets").into_response(),
        Mood::Html => axum::response::Html("<html>internal secrets</html>").into_response(),
        Mood::Huge => vec![b' '; 10 << 20].into_response(),
        Mood::Drips => {
            let drops = futures::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
            });
            Body::from_stream(drops).into_response()
        }
        Mood::Redirects => (StatusCode::FOUND, [(header::LOCATION, "/elsewhere")]).into_response(),
    }
}

async fn discovery(State(issuer): State<Issuer>) -> Response {
    issuer.discovery_requests.fetch_add(1, Ordering::Relaxed);
    let url = &issuer.url;
    let mut document = json!({
        "issuer": url, "authorization_endpoint": format!("{url}/authorize?tenant=a"), "token_endpoint": format!("{url}/token"),
        "jwks_uri": format!("{url}/keys"), "end_session_endpoint": format!("{url}/end"),
        "revocation_endpoint": format!("{url}/revoke"),
    });
    let mood = {
        let inner = issuer.inner.lock().unwrap();
        let over = inner.document.as_object().unwrap();
        document.as_object_mut().unwrap().extend(over.clone());
        inner.discovery
    };
    in_mood(mood, document).await
}

async fn keys(State(issuer): State<Issuer>) -> Response {
    issuer.key_requests.fetch_add(1, Ordering::Relaxed);
    let (mood, key) = {
        let inner = issuer.inner.lock().unwrap();
        (inner.keys, inner.key.public())
    };
    in_mood(mood, json!({ "keys": [{ "kty": "oct", "k": "AAAA" }, key] })).await
}

async fn token(State(issuer): State<Issuer>, headers: HeaderMap, body: Bytes) -> Response {
    issuer.token_requests.fetch_add(1, Ordering::Relaxed);
    let asked: HashMap<String, String> = form_urlencoded::parse(&body).into_owned().collect();
    let (mood, answer) = {
        let mut inner = issuer.inner.lock().unwrap();
        let key = asked.get("code").or(asked.get("refresh_token")).cloned().unwrap_or_default();
        let known = inner.answers.remove(&key);
        inner.asked = asked;
        inner.authorization = headers.get(header::AUTHORIZATION).unwrap().to_str().unwrap().to_owned();
        (inner.tokens, known)
    };
    if mood == Mood::Well && answer.is_none() {
        let error = json!({ "error": "invalid_grant", "error_description": "internal secrets" });
        return (StatusCode::BAD_REQUEST, axum::Json(error)).into_response();
    }
    in_mood(mood, answer.unwrap_or_default()).await
}

async fn revoke(State(issuer): State<Issuer>, body: Bytes) -> StatusCode {
    let token = form_urlencoded::parse(&body).find(|(key, _)| key == "token").unwrap().1.into_owned();
    issuer.set(|inner| inner.revoked.push(token));
    StatusCode::OK
}

/// A pending sign-in: the cookies of its browser, and the parameters sent to the provider.
pub(super) struct Begun {
    pub(super) cookie: String,
    pub(super) asked: HashMap<String, String>,
    pub(super) to: String,
}

/// Presses the button on the sign-in page.
pub(super) async fn press(router: &Router, next: &str, session: &str) -> Answer {
    // Loaded without the session: the sign-in page of a signed-in browser has no button.
    let page = send(router, super::get("/login").body(Body::empty()).unwrap()).await;
    assert!(page.text.contains("Sign in with 127.0.0.1"), "{}", page.text);
    let body = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("browser", hidden(&page.text, "browser")), ("next", next)])
        .finish();
    let cookie = format!("{}; {session}", cookies(&page)[0]);
    send(router, super::post("/oidc/login").header(header::COOKIE, cookie).body(Body::from(body)).unwrap())
        .await
}

pub(super) async fn begin(router: &Router, next: &str) -> Begun {
    begun(&press(router, next, "").await)
}

pub(super) fn begun(page: &Answer) -> Begun {
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    let to = onward(page);
    let query = to.split_once('?').unwrap().1;
    let asked = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    Begun { cookie: cookies(page).remove(0), asked, to }
}

/// Target of the client-side redirect of a page.
pub(super) fn onward(page: &Answer) -> String {
    let start = "http-equiv=\"refresh\" content=\"0;url=";
    let at = page.text.find(start).unwrap_or_else(|| panic!("it leads nowhere: {}", page.text)) + start.len();
    page.text[at..].split('"').next().unwrap().replace("&amp;", "&")
}

impl Begun {
    pub(super) fn nonce(&self) -> &str {
        &self.asked["nonce"]
    }

    /// The provider redirects the browser back.
    pub(super) async fn answer(&self, router: &Router, fields: &[(&str, &str)]) -> Answer {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("state", &self.asked["state"])
            .extend_pairs(fields)
            .finish();
        self.go(router, &query).await
    }

    pub(super) async fn go(&self, router: &Router, query: &str) -> Answer {
        let request = super::get(&format!("/oidc/callback?{query}"))
            .header("sec-fetch-site", "cross-site")
            .header(header::COOKIE, &self.cookie);
        send(router, request.body(Body::empty()).unwrap()).await
    }
}

/// A complete sign-in as grace; returns the cookie of the session.
pub(super) async fn sign_in(
    issuer: &Issuer,
    router: &Router,
    change: Value,
    refresh: Option<&str>,
) -> Answer {
    let begun = begin(router, "/installed?x=1").await;
    let mut claims = issuer.claims(begun.nonce());
    claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    issuer.answer("the-code", json!({
        "access_token": "access", "token_type": "bearer", "id_token": issuer.sign(&claims), "refresh_token": refresh,
    }));
    begun.answer(router, &[("code", "the-code")]).await
}

pub(super) fn session_of(answer: &Answer) -> Option<String> {
    cookies(answer).into_iter().find(|cookie| cookie.starts_with("olm_session="))
}
