//! The console for one user, with the credentials of a client.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Body};
use http::{HeaderMap, Request, Response, StatusCode, header};
use kube::Client;

use super::{
    Browser, TOKEN, cluster, console_with, cookies, fake::Fake, follow_link, get, new_code_of, paste_token,
    post, send,
};
use crate::{
    api_server::{ApiServer, Token},
    catalogs::Catalogs,
    session::cookie_of_port,
};

/// The token of the console, which the API server does not know.
const OWN: &str = "token-of-the-console";

/// A client with the credentials of user ada.
fn client(fake: &Fake) -> Client {
    let Ok(client) = fake.api_server().client(&Token::new(TOKEN)) else { panic!("a valid token") };
    client
}

fn console_of(fake: &Fake) -> Router {
    let client = client(fake);
    console_with(fake, Vec::new(), |app| app.api_server = ApiServer::of_client(client, OWN.to_owned()))
}

async fn code_status(router: &Router, token: &str) -> StatusCode {
    let request = post("/api/v1/login-codes").header(header::AUTHORIZATION, format!("Bearer {token}"));
    send(router, request.body(Body::empty()).unwrap()).await.status
}

#[tokio::test]
async fn only_its_own_token_signs_in_as_the_user_of_the_client() {
    let fake = cluster();
    let router = console_of(&fake);
    // given a token that the API server accepts, and one that differs in the last character
    for token in [TOKEN, "token-of-the-consolf", "token-of-the-consol"] {
        assert_eq!(code_status(&router, token).await, StatusCode::UNAUTHORIZED, "{token}");
        assert_eq!(paste_token(&router, token, "").await.status, StatusCode::UNAUTHORIZED, "{token}");
    }
    assert_eq!(fake.reviews(), 0, "no call was made with the credentials of the client");
    // when the console's own token is used
    let browser = Browser::of(router.clone(), OWN).await;
    // then the user is that of the client
    assert_eq!(browser.json("/me").await["name"], "ada");
    // and the credentials of the client are validated
    fake.revoke(TOKEN);
    assert_eq!(code_status(&router, OWN).await, StatusCode::UNAUTHORIZED);
}

/// Path and headers of each request.
type Requests = Arc<Mutex<Vec<(String, HeaderMap)>>>;

/// A console whose catalogs come through the service proxy, and its requests to the manager.
fn recorded(fake: &Fake) -> (Router, Requests) {
    let seen = Requests::default();
    let (record, inner) = (Arc::clone(&seen), client(fake));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (record, inner) = (Arc::clone(&record), inner.clone());
        async move {
            let path = request.uri().path().to_owned();
            if path.contains("/proxy/") {
                record.lock().unwrap().push((path, request.headers().clone()));
                return Ok(Response::new(kube::client::Body::from(b"[]".to_vec())));
            }
            inner.send(request).await
        }
    });
    let client = Client::new(service, "default");
    let router = console_with(fake, Vec::new(), |app| {
        app.api_server = ApiServer::of_client(client.clone(), OWN.to_owned());
        app.catalogs = Catalogs::service_proxy(client);
    });
    (router, seen)
}

#[tokio::test]
async fn probes_make_no_request_with_the_credentials_of_the_client() {
    let (router, seen) = recorded(&cluster());
    // given a page of another site whose name resolves to 127.0.0.1
    for path in ["/readyz", "/healthz"] {
        let probe = Request::get(path).header(header::HOST, "attacker.example:8080");
        let answer = send(&router, probe.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.text, "ok\n", "{path}");
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn sessions_of_two_ports_have_their_own_cookies() {
    let fake = cluster();
    let mut names = Vec::new();
    for port in [8080, 9090] {
        let client = client(&fake);
        let router = console_with(&fake, Vec::new(), |app| {
            app.api_server = ApiServer::of_client(client, OWN.to_owned());
            app.session_name = cookie_of_port(port);
        });
        let browser = Browser::of(router, OWN).await;
        assert_eq!(browser.json("/me").await["name"], "ada");
        names.push(browser.cookie.split('=').next().unwrap().to_owned());
    }
    assert_eq!(names, ["olm_session_8080", "olm_session_9090"]);
}

#[tokio::test]
async fn headers_of_the_browser_do_not_reach_the_api_server() {
    // given a client that records the requests to the manager
    let (router, seen) = recorded(&cluster());
    let code = new_code_of(&router, OWN).await;
    let session = cookies(&follow_link(&router, &format!("/login?code={code}")).await).remove(0);
    // when a page is requested with headers for the API server
    let request = get("/catalog")
        .header(header::COOKIE, session)
        .header("impersonate-user", "root")
        .header("x-olm-authorization", "Bearer of-the-browser");
    let answer = send(&router, request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    // then the manager is asked through the service proxy, with the credentials of the client alone
    let seen = seen.lock().unwrap();
    let (path, headers) = seen.first().expect("a request to the manager");
    assert!(path.ends_with("/services/https:olm-manager:8080/proxy/catalogs"), "{path}");
    assert_eq!(headers["x-olm-authorization"], "forward");
    assert!(!headers.contains_key("impersonate-user") && !headers.contains_key(header::AUTHORIZATION));
}
