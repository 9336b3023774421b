//! Failed attacks on the console (T12, T15, T16 of the threat model).

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode, Uri, header};
use olm_catalog::Filter;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
};
use tokio_util::sync::CancellationToken;

use super::{
    Browser, TOKEN, cluster, console, console_with, cookies, fake::Fake, follow_link, get, hidden, loaded,
    new_code, new_code_of, post, send,
};
use crate::connections::{self, Limits};

const EVE: &str = "token-of-eve";
/// Longer than any of these tests takes; ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A console on a socket.
struct Served {
    address: SocketAddr,
    stop: CancellationToken,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn serve(router: Router, limits: Limits) -> Served {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    tokio::spawn(connections::serve(listener, None, router, limits, stop.clone()));
    Served { address, stop }
}

impl Served {
    /// A connection from the local address 127.0.0.LAST.
    async fn connect(&self, last: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends a request; returns status and body.
    async fn send(&self, last: u8, head: &str, body: &str) -> (u16, String) {
        let mut stream = self.connect(last).await;
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: same-origin\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n"
        );
        let headers = "Cookie: olm_login=b\r\n\r\n";
        stream.write_all(format!("{request}{headers}{body}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
        (status, answer)
    }
}

async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset also counts as the end.
    let _ =
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the server closes it");
}

#[tokio::test]
async fn t16_a_link_of_another_site_does_not_replace_the_session() {
    // given a signed-in victim, and a login code of the attacker
    let fake = Fake::default();
    fake.user(EVE, "eve");
    let router = console(&fake, vec![]);
    let victim = Browser::new(router.clone()).await;
    let link = format!("/login?code={}", new_code_of(&router, EVE).await);
    // when a page of another site sends the victim there
    let request = get(&link).header("sec-fetch-site", "cross-site").header(header::COOKIE, &victim.cookie);
    let page = send(&router, request.body(Body::empty()).unwrap()).await;
    // then no session starts: the page names the user of the code, and the session that would end
    assert_eq!(page.status, StatusCode::OK);
    assert!(cookies(&page).iter().all(|cookie| !cookie.starts_with("olm_session=")), "{:?}", page.headers);
    assert!(
        page.text.contains("Sign in as eve") && page.text.contains("ends the current session of"),
        "{}",
        page.text
    );
    assert!(!page.text.contains("http-equiv=\"refresh\""));
    assert_eq!(victim.json("/me").await["name"], "ada");
    // and neither the attacker's page nor the attacker's browser can press the button
    let attacker = send(&router, get(&link).body(Body::empty()).unwrap()).await;
    let body = |browser: &str| format!("browser={browser}&code={}", hidden(&page.text, "code"));
    let browser = hidden(&attacker.text, "browser").to_owned();
    let forged = [
        post("/login").header(header::COOKIE, &victim.cookie).body(body(&browser)),
        post("/login").header(header::COOKIE, &cookies(&page)[0]).body(body(&browser)),
        post("/login").header(header::COOKIE, "olm_login=").body(body("")),
        post("/login").body(body("")),
    ];
    for request in forged {
        let answer = send(&router, request.unwrap().map(Body::from)).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert!(!answer.headers.contains_key(header::SET_COOKIE));
    }
    let mut elsewhere = post("/login").header(header::COOKIE, &cookies(&page)[0]);
    elsewhere.headers_mut().unwrap().insert("sec-fetch-site", "cross-site".parse().unwrap());
    let own = body(hidden(&page.text, "browser"));
    let answer = send(&router, elsewhere.body(Body::from(own)).unwrap()).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    // while a user who opens the link needs one click
    assert_eq!(follow_link(&router, &link).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn t16_cookies_are_secure_behind_tls_and_a_proxy_is_believed_only_when_configured() {
    let forwarded = |router: Router| async move {
        let request = get("/login").header("x-forwarded-proto", "https").body(Body::empty()).unwrap();
        let answer = send(&router, request).await;
        answer.headers[header::SET_COOKIE].to_str().unwrap().to_owned()
    };
    let plain = forwarded(console(&Fake::default(), vec![])).await;
    assert!(!plain.contains("Secure") && plain.starts_with("olm_login="), "{plain}");
    let trusted = forwarded(console_with(&Fake::default(), vec![], |app| app.trust_proxy = true)).await;
    assert!(trusted.contains("; Secure") && trusted.starts_with("__Host-olm_login="), "{trusted}");
    let tls = console_with(&Fake::default(), vec![], |app| app.tls = true);
    let code = new_code(&tls).await;
    let answer = follow_link(&tls, &format!("/login?code={code}")).await;
    let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.starts_with("__Host-olm_session=") && cookie.contains("; Secure"), "{cookie}");
}

#[tokio::test]
async fn t15_failed_logins_of_one_client_do_not_lock_out_others() {
    let fake = Fake::default();
    let router = console(&fake, vec![]);
    let code = new_code(&router).await;
    let served = serve(router, Limits::DEFAULT).await;
    // when one client tries tokens, in the form and as bearer tokens, and codes
    let mut refused = 0;
    for _ in 0..60 {
        let (form, code) = tokio::join!(
            served.send(2, "POST /login", "browser=b&token=wrong"),
            served.send(2, "POST /login", "browser=b&code=wrong"),
        );
        refused += [form.0, code.0].iter().filter(|status| **status == 429).count();
    }
    // then it is limited, and causes no further requests to the API server
    assert!(refused > 60, "{refused} of 120 were refused");
    assert!(fake.reviews() < 60, "the API server was asked {} times", fake.reviews());
    // and other clients can sign in
    let (status, answer) = served.send(3, "POST /login", &format!("browser=b&token={TOKEN}")).await;
    assert_eq!(status, 303, "{answer}");
    // as can a valid code, also from that address
    let (status, answer) = served.send(2, "POST /login", &format!("browser=b&code={code}")).await;
    assert_eq!(status, 303, "{answer}");
}

#[tokio::test]
async fn t15_bearer_tokens_that_are_not_known_are_limited_by_client() {
    let fake = Fake::default();
    fake.user(EVE, "eve");
    let router = console_with(&fake, vec![], |app| app.trust_proxy = true);
    let ask = async |address: &str, token: &str| {
        let request = get("/me")
            .header("x-forwarded-for", format!("10.9.9.9, {address}"))
            .header(header::ACCEPT, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {token}"));
        send(&router, request.body(Body::empty()).unwrap()).await.status
    };
    let mut last = StatusCode::OK;
    for _ in 0..60 {
        last = ask("192.0.2.1", "wrong").await;
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
    assert!(fake.reviews() < 60, "the API server was asked {} times", fake.reviews());
    assert_eq!(ask("192.0.2.2", TOKEN).await, StatusCode::OK);
    // valid tokens do not count
    for _ in 0..60 {
        assert_eq!(ask("192.0.2.3", EVE).await, StatusCode::OK);
    }
}

#[tokio::test]
async fn t15_one_user_does_not_take_all_live_streams() {
    let fake = cluster();
    fake.user(EVE, "eve");
    let router = console(&fake, vec![loaded("community", olm_catalog::shipped())]);
    let eve = Browser::of(router.clone(), EVE).await;
    let ada = Browser::new(router.clone()).await;
    let open = async |browser: &Browser| {
        use tower::ServiceExt as _;
        let request = get("/api/v1/events?installed").header(header::COOKIE, &browser.cookie);
        router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    };
    // when one user opens more streams than the console allows
    let mut streams = Vec::new();
    let mut refused = 0;
    for _ in 0..300 {
        let answer = open(&eve).await;
        if answer.status() == StatusCode::OK { streams.push(answer) } else { refused += 1 }
    }
    // then they are limited, and another user still gets live pages
    assert!(streams.len() < 64 && refused > 200, "{} streams", streams.len());
    assert_eq!(open(&ada).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn t15_half_sent_requests_do_not_keep_others_out() {
    let limits = Limits { waiting: 50, ..Limits::DEFAULT };
    let served = serve(console(&Fake::default(), vec![]), limits).await;
    // given a client with more incomplete requests than allowed
    let mut half = Vec::new();
    for _ in 0..200 {
        let mut stream = served.connect(2).await;
        // The server may have closed it in favour of a newer one.
        let _ = stream.write_all(b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ").await;
        half.push(stream);
    }
    // when another client connects, then it gets a response, and the oldest connections of the first one are
    // closed
    assert_eq!(served.send(3, "GET /login", "").await.0, 200);
    for stream in &mut half[..100] {
        closed(stream).await;
    }
}

#[tokio::test]
async fn t15_a_request_that_does_not_arrive_is_given_up() {
    let limits = Limits { head: Duration::from_millis(200), ..Limits::DEFAULT };
    let served = serve(console(&Fake::default(), vec![]), limits).await;
    let mut silent = served.connect(2).await;
    let mut half = served.connect(2).await;
    half.write_all(b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n").await.unwrap();
    // and a connection that was used before and is idle
    let mut idle = served.connect(2).await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await.unwrap();
    for stream in [&mut silent, &mut half, &mut idle] {
        closed(stream).await;
    }
}

#[tokio::test]
async fn t15_an_answer_that_is_not_taken_is_given_up() {
    // given a response that is larger than all buffers on its path
    let large = Router::new().route("/", axum::routing::get(|| async { vec![b'x'; 64 << 20] }));
    let limits = Limits { write: Duration::from_millis(200), ..Limits::DEFAULT };
    let served = serve(large, limits).await;
    let mut stream = served.connect(2).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await.unwrap();
    // when the client does not read it, then the server closes the connection before the end of the response
    stream.readable().await.unwrap();
    let end = async {
        loop {
            // A connection that the server has closed takes no more requests.
            if stream.write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, end).await.expect("the server closes it");
}

/// A manager that serves the shipped catalog to ada only; returns its address.
async fn manager() -> String {
    async fn answer(uri: Uri, headers: HeaderMap) -> Response {
        let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let ada = token == Some(&format!("Bearer {TOKEN}"));
        let catalog = olm_catalog::shipped();
        let path = uri.path().strip_prefix("/catalogs").unwrap_or_default();
        let entries = json!([{ "namespace": "olm", "name": "community", "displayName": "Community operators", "publisher": "olm",
            "priority": 0, "digest": catalog.digest, "packages": 1, "problems": 0, "stale": "" }]);
        match path.strip_prefix("/olm/community/api/v1/") {
            None if path.is_empty() => Json(if ada { entries } else { json!([]) }).into_response(),
            Some(_) if !ada => StatusCode::FORBIDDEN.into_response(),
            Some("index") => ([(header::ETAG, "\"1\"")], catalog.index()).into_response(),
            Some("packages/etcd") => {
                let of = Filter { package: Some("etcd".to_owned()), ..Filter::default() };
                let documents: Vec<_> = catalog.documents(&of).map(Result::unwrap).collect();
                documents.join(&b'\n').into_response()
            }
            Some("icons/etcd") => {
                catalog.package("etcd").unwrap().unwrap().icon.clone().unwrap().data.into_response()
            }
            _ => StatusCode::NOT_FOUND.into_response(),
        }
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, Router::new().fallback(answer)).await });
    url
}

#[tokio::test]
async fn t12_a_catalog_is_shown_to_those_to_whom_the_manager_serves_it() {
    // given a user to whom the manager serves no catalog
    let fake = cluster();
    fake.user(EVE, "eve");
    let url = manager().await;
    let router = console_with(&fake, Vec::new(), |app| {
        app.catalogs = crate::catalogs::Catalogs::remote(&url).unwrap()
    });
    let (ada, eve) = (Browser::new(router.clone()).await, Browser::of(router.clone(), EVE).await);
    let page = "/catalog/olm.community/etcd";
    let catalog = ada.get("/catalog").await.text;
    assert!(catalog.contains(page));
    assert_eq!(ada.get(page).await.status, StatusCode::OK);
    let at = catalog.find("/icons/").expect("an icon");
    let icon = &catalog[at..at + "/icons/".len() + 64];
    assert_eq!(ada.get(icon).await.status, StatusCode::OK);
    // then that user does not see it, although the console has its content, and no URL exposes it
    let catalog = eve.get("/catalog").await.text;
    assert!(!catalog.contains(page) && !catalog.contains("Community operators"), "{catalog}");
    for path in [page, "/install/olm.community/etcd", icon] {
        let answer = eve.get(path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}: {}", answer.text);
    }
    assert!(!eve.json("/catalog").await.to_string().contains("etcd"));
    // and a bearer token does not bypass the check
    let request = get("/catalog").header(header::AUTHORIZATION, format!("Bearer {EVE}"));
    let answer = send(&router, request.body(Body::empty()).unwrap()).await;
    assert!(answer.status == StatusCode::OK && !answer.text.contains(page));
}

#[tokio::test]
async fn t12_a_session_ends_with_its_account() {
    let fake = cluster();
    let catalogs = || vec![loaded("community", olm_catalog::shipped())];
    // given a session with a recently validated token
    let browser = Browser::new(console(&fake, catalogs())).await;
    let before = fake.reviews();
    browser.get("/catalog").await;
    assert_eq!(fake.reviews(), before, "not asked again within a minute");
    // and a session that is due for validation
    let router = console_with(&fake, catalogs(), |app| {
        assert!(app.revalidate <= Duration::from_secs(60));
        app.revalidate = Duration::ZERO;
    });
    let browser = Browser::new(router).await;
    assert_eq!(browser.get("/catalog").await.status, StatusCode::OK);
    // when the account is deleted
    fake.revoke(TOKEN);
    // then the session is over
    let answer = browser.get("/catalog").await;
    assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "/login?next=%2Fcatalog"));
    fake.user(TOKEN, "ada");
    assert_eq!(browser.get("/catalog").await.status, StatusCode::SEE_OTHER, "and stays over");
}

#[tokio::test]
async fn t12_a_live_page_ends_with_its_account() {
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;
    let fake = cluster();
    let router = console_with(&fake, vec![loaded("community", olm_catalog::shipped())], |app| {
        app.revalidate = Duration::ZERO;
    });
    let browser = Browser::new(router.clone()).await;
    let request = get("/api/v1/events?installed").header(header::COOKIE, &browser.cookie);
    let answer = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    fake.revoke(TOKEN);
    let body = tokio::time::timeout(PATIENCE, answer.into_body().collect()).await.expect("the stream ends");
    let text = String::from_utf8_lossy(&body.unwrap().to_bytes()).into_owned();
    assert!(text.contains("event: refused"), "{text}");
}
