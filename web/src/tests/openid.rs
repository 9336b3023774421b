//! Sign-in at an OpenID Connect provider, and attacks on it (T12, T15, T16).

use std::sync::atomic::Ordering;

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{StatusCode, header};
use olm_oidc::SignatureError;
use ring::{digest, hmac};
use serde_json::{Value, json};

use super::{
    Browser, console, cookies,
    fake::Fake,
    get, hidden,
    issuer::{
        BAD_MOODS, CLIENT, Issuer, Key, Mood, SECRET, begin, begun, message, now, onward, press, session_of,
        sign_in,
    },
    post, send,
};
use crate::openid::OpenId;

#[tokio::test]
async fn a_sign_in_at_the_provider_starts_a_session_with_its_token() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let router = issuer.console(&fake);
    // given a signed-in user
    let ada = Browser::new(router.clone()).await;
    // when the button is pressed, then the request to the provider has state, nonce and PKCE
    let page = press(&router, "/installed?x=1", &ada.cookie).await;
    let begun = begun(&page);
    let cookie = page.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(
        cookie.starts_with("olm_oidc=") && cookie.ends_with("; HttpOnly; SameSite=Lax; Max-Age=600"),
        "{cookie}"
    );
    assert!(
        begun.to.starts_with(&format!("{}/authorize?tenant=a&response_type=code&", issuer.url)),
        "{}",
        begun.to
    );
    let asked = |name: &str| begun.asked[name].as_str();
    assert_eq!(asked("client_id"), CLIENT);
    assert_eq!(asked("redirect_uri"), "http://127.0.0.1:8080/oidc/callback");
    assert_eq!(asked("scope"), "openid email groups");
    assert_eq!(asked("code_challenge_method"), "S256");
    assert!(asked("state").len() == 43 && asked("nonce").len() == 43 && asked("state") != asked("nonce"));
    // when it answers
    let token = issuer.sign(&issuer.claims(begun.nonce()));
    issuer.answer("a-code", json!({ "token_type": "Bearer", "id_token": token }));
    let answer = begun.answer(&router, &[("code", "a-code")]).await;
    // then the code is exchanged with the verifier and the client's secret
    {
        let inner = issuer.inner.lock().unwrap();
        let hashed = digest::digest(&digest::SHA256, inner.asked["code_verifier"].as_bytes());
        let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(hashed);
        assert_eq!(challenge, asked("code_challenge"));
        assert_eq!(inner.asked["redirect_uri"], asked("redirect_uri"));
        assert!(!inner.asked.contains_key("client_secret"));
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let basic = STANDARD.encode(format!("{}:{}", encoded(CLIENT), encoded(SECRET)));
        assert_eq!(inner.authorization, format!("Basic {basic}"));
    }
    // and a session starts with the token, which no page shows
    assert_eq!((answer.status, onward(&answer).as_str()), (StatusCode::OK, "/installed?x=1"));
    let set: Vec<&str> =
        answer.headers.get_all(header::SET_COOKIE).iter().map(|value| value.to_str().unwrap()).collect();
    assert!(set[0].starts_with("olm_session=") && set[0].contains("HttpOnly; SameSite=Strict"), "{set:?}");
    assert!(set[1].starts_with("olm_oidc=;") && set[1].contains("Max-Age=0"), "{set:?}");
    assert!(!answer.text.contains(&token));
    let grace = Browser { cookie: session_of(&answer).unwrap(), csrf: String::new(), router: router.clone() };
    assert_eq!(grace.json("/me").await["name"], "grace");
    // and the previous session has ended
    assert_eq!(ada.get("/catalog").await.status, StatusCode::SEE_OTHER);
    // and the same response does not work again
    let again = begun.answer(&router, &[("code", "a-code")]).await;
    assert_eq!(again.status, StatusCode::FORBIDDEN);
    assert!(again.text.contains("Unknown sign-in") && session_of(&again).is_none());
}

#[tokio::test]
async fn t16_an_answer_of_another_browser_or_site_does_not_sign_in() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let router = issuer.console(&fake);
    // given the attacker's own sign-in, stopped before its end
    let attacker = begin(&router, "/catalog").await;
    let token = issuer.sign(&issuer.claims(attacker.nonce()));
    issuer.answer("code", json!({ "token_type": "Bearer", "id_token": token }));
    let query = format!("state={}&code=code", attacker.asked["state"]);
    // when a victim opens its callback: without a sign-in, with one of the victim, and with an empty cookie
    let victim = begin(&router, "/catalog").await;
    for cookie in ["", "olm_oidc=", victim.cookie.as_str()] {
        let request = get(&format!("/oidc/callback?{query}")).header(header::COOKIE, cookie);
        let answer = send(&router, request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{cookie}");
        assert!(session_of(&answer).is_none() && answer.text.contains("Unknown sign-in"));
    }
    // and a missing, an empty and a wrong state are rejected
    for query in ["code=code", "state=&code=code", "state=x&code=code", "", "%ff=%00", "state"] {
        assert_eq!(victim.go(&router, query).await.status, StatusCode::FORBIDDEN, "{query}");
    }
    assert_eq!(issuer.token_requests.load(Ordering::Relaxed), 0, "no code is sent before state fits");
    // while the attacker's own browser signs in
    assert_eq!(attacker.go(&router, &query).await.status, StatusCode::OK);
    // and a sign-in starts only from a form of the page that this browser opened
    let page = send(&router, get("/login").body(Body::empty()).unwrap()).await;
    let own = format!("browser={}", hidden(&page.text, "browser"));
    let bare = post("/oidc/login").body(Body::from(own.clone())).unwrap();
    let mut elsewhere = post("/oidc/login").header(header::COOKIE, &cookies(&page)[0]);
    elsewhere.headers_mut().unwrap().insert("sec-fetch-site", "cross-site".parse().unwrap());
    for request in [bare, elsewhere.body(Body::from(own)).unwrap()] {
        assert_eq!(send(&router, request).await.status, StatusCode::FORBIDDEN);
    }
    let by_link = send(&router, get("/oidc/login").body(Body::empty()).unwrap()).await;
    assert_eq!(by_link.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn t16_a_session_of_another_user_cannot_be_prepared() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let router = issuer.console(&fake);
    // The cookie of a session that does not exist is not used for the new session.
    let begun = begun(&press(&router, "/catalog", &format!("olm_session={}", "a".repeat(64))).await);
    let token = issuer.sign(&issuer.claims(begun.nonce()));
    issuer.answer("code", json!({ "token_type": "Bearer", "id_token": token }));
    let answer = begun.answer(&router, &[("code", "code")]).await;
    assert_ne!(session_of(&answer).unwrap(), format!("olm_session={}", "a".repeat(64)));
}

#[tokio::test]
async fn the_way_on_after_a_sign_in_stays_on_this_site() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let router = issuer.console(&fake);
    for next in
        ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "/a b", "/\u{9}/x"]
    {
        let begun = begin(&router, next).await;
        let token = issuer.sign(&issuer.claims(begun.nonce()));
        issuer.answer("code", json!({ "token_type": "Bearer", "id_token": token }));
        let answer = begun.answer(&router, &[("code", "code"), ("next", "https://evil.example")]).await;
        assert_eq!(onward(&answer), "/catalog", "{next}");
    }
}

#[tokio::test]
async fn t16_tokens_that_are_not_for_this_sign_in_are_refused() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let router = issuer.console(&fake);
    let ada = Browser::new(router.clone()).await;
    let public = issuer.inner.lock().unwrap().key.public();
    let forged = |header: Value, claims: &Value| {
        let message = message(&header, claims);
        let key = hmac::Key::new(hmac::HMAC_SHA256, public.to_string().as_bytes());
        let signature =
            base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(hmac::sign(&key, message.as_bytes()));
        format!("{message}.{signature}")
    };
    let with = |claims: &Value, change: Value| {
        let mut claims = claims.clone();
        claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        issuer.sign(&claims)
    };
    type Make<'a> = Box<dyn Fn(&Value) -> String + 'a>;
    let cases: Vec<(&str, Make<'_>)> = vec![
        ("a different client", Box::new(|claims| with(claims, json!({ "aud": "other" })))),
        ("a different client", Box::new(|claims| with(claims, json!({ "azp": "other" })))),
        ("no `azp`", Box::new(|claims| with(claims, json!({ "aud": [CLIENT, "other"] })))),
        (
            "Invalid ID token: issued by",
            Box::new(|claims| with(claims, json!({ "iss": "https://evil.example" }))),
        ),
        ("nonce does not match this sign-in", Box::new(|claims| with(claims, json!({ "nonce": "other" })))),
        ("nonce does not match this sign-in", Box::new(|claims| with(claims, json!({ "nonce": null })))),
        ("compare the clocks", Box::new(|claims| with(claims, json!({ "exp": now() - 120 })))),
        ("compare the clocks", Box::new(|claims| with(claims, json!({ "iat": now() + 120 })))),
        (
            "`none` is not accepted",
            Box::new(|claims| format!("{}.", message(&json!({ "alg": "none" }), claims))),
        ),
        (
            "`HS256` is not accepted",
            Box::new(|claims| forged(json!({ "alg": "HS256", "kid": "first" }), claims)),
        ),
        ("invalid signature", Box::new(|claims| forged(json!({ "alg": "ES256", "kid": "first" }), claims))),
        ("invalid signature", Box::new(|claims| Key::new("first").sign(claims))),
        ("missing from the key set", Box::new(|claims| Key::new("other").sign(claims))),
        ("malformed token", Box::new(|_| "not.a.token".into())),
        ("malformed token", Box::new(|_| "x".repeat(20_000))),
    ];
    for (why, make) in &cases {
        let begun = begin(&router, "/catalog").await;
        let token = make(&issuer.claims(begun.nonce()));
        issuer.answer("code", json!({ "token_type": "Bearer", "id_token": token }));
        let answer = begun.answer(&router, &[("code", "code")]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{why}: {}", answer.text);
        assert!(answer.text.contains(why), "{why}: {}", answer.text);
        assert!(session_of(&answer).is_none() && !answer.text.contains(&token), "{why}");
    }
    assert_eq!(ada.json("/me").await["name"], "ada", "others stay signed in");
    // The last two causes of a refetch occur within seconds: the key set is fetched at most twice.
    assert!(issuer.key_requests.load(Ordering::Relaxed) <= 2);
    assert_eq!(SignatureError::Mismatch.to_string(), "invalid signature");
}

#[tokio::test]
async fn provider_errors_are_named() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let router = issuer.console(&fake);
    let cases: [(&[(&str, &str)], &str); 6] = [
        (
            &[("error", "access_denied"), ("error_description", "<b>not\u{202e}you")],
            "access_denied (&lt;b&gt;notyou)",
        ),
        (&[("error", "server_error"), ("code", "code")], "the provider returned: server_error"),
        (&[], "the provider returned: no authorization code"),
        (&[("code", "used-before")], "invalid_grant"),
        (&[("code", "code"), ("iss", "https://evil.example")], "from issuer https://evil.example, expected"),
        (&[("error", "access_denied"), ("iss", "https://evil.example")], "from issuer https://evil.example"),
    ];
    for (fields, why) in cases {
        let begun = begin(&router, "/catalog").await;
        let before = issuer.token_requests.load(Ordering::Relaxed);
        let answer = begun.answer(&router, fields).await;
        assert!(answer.text.to_lowercase().contains(&why.to_lowercase()), "{why}: {}", answer.text);
        assert!(!answer.status.is_success() && session_of(&answer).is_none());
        assert!(!answer.text.contains("internal secrets"));
        if fields.iter().any(|(name, _)| *name == "iss") {
            let after = issuer.token_requests.load(Ordering::Relaxed);
            assert_eq!(after, before, "the code of another issuer is not sent on");
        }
    }
}

#[tokio::test]
async fn t16_a_provider_that_names_itself_does_so_in_each_answer() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    issuer.set(|inner| inner.document = json!({ "authorization_response_iss_parameter_supported": true }));
    let router = issuer.console(&fake);
    for (iss, signs_in) in
        [(None, false), (Some("http://127.0.0.1"), false), (Some(issuer.url.as_str()), true)]
    {
        let begun = begin(&router, "/catalog").await;
        let token = issuer.sign(&issuer.claims(begun.nonce()));
        issuer.answer("code", json!({ "token_type": "Bearer", "id_token": token }));
        let mut fields = vec![("code", "code")];
        fields.extend(iss.map(|iss| ("iss", iss)));
        let answer = begun.answer(&router, &fields).await;
        assert_eq!(session_of(&answer).is_some(), signs_in, "{iss:?}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_provider_in_trouble_stops_the_sign_in_and_nothing_else() {
    for (mood, why) in BAD_MOODS {
        let (fake, issuer) = (Fake::default(), Issuer::start().await);
        issuer.set(|inner| inner.discovery = mood);
        let router = issuer.console(&fake);
        let ada = Browser::new(router.clone()).await;
        // when ten users press the button at once
        let pressed = futures::future::join_all((0..10).map(|_| press(&router, "/catalog", "")));
        for answer in pressed.await {
            assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{mood:?}");
            assert!(
                answer.text.contains("discovery document") && answer.text.contains(why),
                "{}",
                answer.text
            );
            assert!(
                answer.text.contains("Sign in with a token") && !answer.text.contains("internal secrets")
            );
        }
        // then they share one request, and other users stay signed in
        assert_eq!(issuer.discovery_requests.load(Ordering::Relaxed), 1, "{mood:?}");
        assert_eq!(ada.json("/me").await["name"], "ada");
        // and the same holds for the key set and for the tokens
        type Part = fn(&mut super::issuer::Inner, Mood);
        let parts: [(&str, Part); 2] = [
            ("the key set", |inner, mood| inner.keys = mood),
            ("the tokens", |inner, mood| inner.tokens = mood),
        ];
        for (what, part) in parts {
            let issuer = Issuer::start().await;
            issuer.set(|inner| part(inner, mood));
            let answer = sign_in(&issuer, &issuer.console(&fake), json!({}), None).await;
            assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{mood:?} {what}: {}", answer.text);
            assert!(answer.text.contains(what) && answer.text.contains(why), "{}", answer.text);
            assert!(!answer.text.contains("internal secrets"));
        }
    }
}

#[tokio::test]
async fn t16_a_discovery_document_of_another_issuer_is_refused() {
    for (document, why) in [
        (json!({ "issuer": "https://evil.example" }), "is from issuer https://evil.example, expected"),
        (json!({ "issuer": null }), "missing field or wrong type"),
        (json!({ "token_endpoint": "http://evil.example/token" }), "token_endpoint: expected an https URL"),
        (json!({ "jwks_uri": "file:///etc/passwd" }), "jwks_uri: expected an https URL"),
        (
            json!({ "authorization_endpoint": "javascript:alert(1)" }),
            "authorization_endpoint: expected an https URL",
        ),
        (
            json!({ "end_session_endpoint": "https://u:p@evil.example" }),
            "end_session_endpoint: expected a URL without user",
        ),
    ] {
        let (fake, issuer) = (Fake::default(), Issuer::start().await);
        issuer.set(|inner| inner.document = document.clone());
        let answer = press(&issuer.console(&fake), "/catalog", "").await;
        assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
        assert!(answer.text.contains(why), "{document}: {}", answer.text);
    }
}

#[tokio::test]
async fn t15_keys_that_are_not_known_do_not_flood_the_provider() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let router = issuer.console(&fake);
    assert!(session_of(&sign_in(&issuer, &router, json!({}), None).await).is_some());
    for _ in 0..20 {
        let begun = begin(&router, "/catalog").await;
        let token = Key::new("unknown").sign(&issuer.claims(begun.nonce()));
        issuer.answer("code", json!({ "token_type": "Bearer", "id_token": token }));
        begun.answer(&router, &[("code", "code")]).await;
    }
    assert_eq!(issuer.key_requests.load(Ordering::Relaxed), 1, "fetched a moment ago");
}

#[tokio::test]
async fn keys_that_were_rotated_are_fetched() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let router = issuer.console(&fake);
    assert!(session_of(&sign_in(&issuer, &router, json!({}), None).await).is_some());
    // when the provider signs with a new key, with another id or the same, some time later
    fake.clock.advance(11);
    issuer.set(|inner| inner.key = Key::new("first"));
    assert!(session_of(&sign_in(&issuer, &router, json!({}), None).await).is_some());
    assert_eq!(issuer.key_requests.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn an_api_server_that_does_not_accept_the_issuer_is_named_with_its_flags() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let router = issuer.console(&fake);
    fake.trust(None);
    let answer = sign_in(&issuer, &router, json!({}), None).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(session_of(&answer).is_none());
    let flags = format!(
        "--oidc-issuer-url={} --oidc-client-id={CLIENT} --oidc-username-claim=sub --oidc-username-prefix=- --oidc-groups-claim=groups",
        issuer.url
    );
    assert!(
        answer.text.contains("does not accept tokens of this issuer") && answer.text.contains(&flags),
        "{}",
        answer.text
    );
    // and a token without the user name claim, or with an unverified address, has its own error
    let options = crate::openid::OpenIdOptions { username_claim: "email".into(), ..issuer.options() };
    let router = issuer.console_with(&fake, |app| app.openid = Some(OpenId::new(options).unwrap()));
    fake.trust(None);
    let answer = sign_in(&issuer, &router, json!({}), None).await;
    assert!(
        answer.text.contains("is missing claim") && answer.text.contains("--oidc-scopes"),
        "{}",
        answer.text
    );
    let unverified = json!({ "email": "g@b.example", "email_verified": false });
    let answer = sign_in(&issuer, &router, unverified, None).await;
    assert!(answer.text.contains("has not verified your email address"), "{}", answer.text);
    // as has one that has expired within the tolerance of the console
    let answer = sign_in(&issuer, &router, json!({ "exp": now() - 5 }), None).await;
    assert!(
        answer.text.contains("synchronize the clocks") && session_of(&answer).is_none(),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn t15_one_client_does_not_use_up_the_sign_ins_of_others() {
    let (fake, issuer) = (Fake::default(), Issuer::start().await);
    let router = issuer.console_with(&fake, |app| app.trust_proxy = true);
    let press_from = async |address: &str| {
        let page = send(&router, get("/login").body(Body::empty()).unwrap()).await;
        let body = format!("browser={}", hidden(&page.text, "browser"));
        let request = post("/oidc/login")
            .header("x-forwarded-for", address)
            .header(header::COOKIE, &cookies(&page)[0])
            .body(Body::from(body));
        send(&router, request.unwrap()).await
    };
    let mine = begun(&press_from("192.0.2.1").await);
    // when one client starts many sign-ins
    let mut refused = 0;
    for _ in 0..60 {
        refused += usize::from(press_from("192.0.2.2").await.status == StatusCode::TOO_MANY_REQUESTS);
    }
    // then it is limited, and another client's sign-in succeeds
    assert!(refused > 20, "{refused} of 60");
    let token = issuer.sign(&issuer.claims(mine.nonce()));
    issuer.answer("code", json!({ "token_type": "Bearer", "id_token": token }));
    assert!(session_of(&mine.answer(&router, &[("code", "code")]).await).is_some());
}

#[tokio::test]
async fn without_a_provider_there_is_no_such_sign_in() {
    let router = console(&Fake::default(), vec![]);
    let page = send(&router, get("/login").body(Body::empty()).unwrap()).await;
    assert!(!page.text.contains("/oidc/login"));
    let answer = send(&router, get("/oidc/callback?state=x&code=y").body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}
