//! Authentication, and who receives credentials.

use serde_json::json;

use crate::{
    registry::{Fault, Registry},
    scene::{Scene, login},
};

#[tokio::test]
async fn a_bearer_token_is_fetched_with_the_matching_login() {
    // Given a registry that refers all clients to a token service
    let mut scene = Scene::new().await;
    let host = scene.registry.host();
    let challenge = format!("Bearer realm=\"http://{host}/token?old=1\",service=\"reg\"");
    scene.registry.guard("Bearer good-token", &challenge);
    scene.registry.put_file("/token", &[], b"{\"token\":\"good-token\"}");
    scene.options.credentials = login(&host, "bob", "hunter2");

    // When the catalog is pulled
    scene.good().await;

    // Then the service received the credentials and the scope once
    let asked = scene.registry.asked();
    let tokens: Vec<_> = asked.iter().filter(|a| a.path.starts_with("/token")).collect();
    assert_eq!(tokens.len(), 1);
    assert_eq!(tokens[0].path, "/token?old=1&service=reg&scope=repository%3Aorg%2Fcatalog%3Apull");
    assert_eq!(tokens[0].authorization.as_deref(), Some("Basic Ym9iOmh1bnRlcjI="));
}

#[tokio::test]
async fn an_identity_token_is_exchanged() {
    let mut scene = Scene::new().await;
    let host = scene.registry.host();
    scene.registry.guard("Bearer good-token", &format!("Bearer realm=\"http://{host}/token\""));
    scene.registry.put_file("/token", &[], b"{\"access_token\":\"good-token\"}");
    let document = json!({"auths": {host: {"identitytoken": "refresh"}}}).to_string();
    scene.options.credentials.add("file", document.as_bytes()).expect("a config");
    scene.good().await;
    assert!(scene.registry.asked().iter().any(|a| a.method == "POST" && a.path == "/token"));
}

#[tokio::test]
async fn a_token_that_expires_is_fetched_again() {
    let scene = Scene::new().await;
    let host = scene.registry.host();
    let challenge = format!("Bearer realm=\"http://{host}/token\"");
    scene.registry.guard("Bearer good-token", &challenge);
    scene.registry.put_file("/token", &[], b"{\"token\":\"good-token\"}");
    // The fault comes after the guard: a valid token that has just expired.
    scene.registry.fault(scene.layer(), 1, Fault::Status(401, vec![("www-authenticate", challenge)]));
    scene.good().await;
    assert_eq!(scene.asked_for("/token"), 2);
}

#[tokio::test]
async fn a_login_that_is_refused_is_named_and_its_secret_is_not() {
    // Given a registry that accepts no credentials
    let mut scene = Scene::new().await;
    let host = scene.registry.host();
    scene.registry.guard("Basic nobody", "Basic realm=\"x\"");
    scene.options.credentials = login(&host, "bob", "hunter2");

    // When a client pulls
    let error = scene.bad().await;

    // Then the message names the credentials, and the attempt is made once
    let text = error.to_string();
    assert_eq!(error.code(), "AccessDenied");
    assert!(text.contains(&format!("secret olm/pull, entry {host} (user bob)")), "{text}");
    assert!(text.contains("401: UNAUTHORIZED") && !text.contains("log in first"), "{text}");
    assert!(!format!("{error:?}").contains("hunter2"), "{text}");
    assert_eq!(scene.asked_for("/manifests/"), 2, "one without and one with the log-in");
}

#[tokio::test]
async fn without_a_login_the_message_suggests_a_pull_secret() {
    let scene = Scene::new().await;
    scene.registry.guard("Basic nobody", "Basic realm=\"x\"");
    let text = scene.bad().await.to_string();
    assert!(text.contains("no credentials for") && text.contains("add a pull secret"), "{text}");
}

#[tokio::test]
async fn logins_are_tried_in_order_until_one_is_right() {
    let mut scene = Scene::new().await;
    let host = scene.registry.host();
    scene.registry.guard("Basic Ym9iOmh1bnRlcjI=", "Basic realm=\"x\"");
    let document = json!({"auths": {
        format!("{host}/org/catalog"): {"username": "eve", "password": "wrong"},
        &host: {"username": "bob", "password": "hunter2"},
    }});
    scene.options.credentials.add("file", document.to_string().as_bytes()).expect("a config");
    scene.good().await;
}

#[tokio::test]
async fn a_password_does_not_travel_in_the_clear() {
    let mut scene = Scene::new().await;
    let host = scene.registry.host();
    scene.registry.guard("Bearer x", "Bearer realm=\"ftp://tokens.example.com/\"");
    scene.options.credentials = login(&host, "bob", "hunter2");
    let text = scene.bad().await.to_string();
    assert!(text.contains("sent unencrypted"), "{text}");
}

#[tokio::test]
async fn blobs_may_be_elsewhere_but_secrets_stay() {
    // Given a registry that keeps its blobs on another server
    let mut scene = Scene::new().await;
    let store = Registry::start().await;
    let path = format!("/{}", scene.layer());
    store.put_file(&path, &[], &scene.image.blobs[scene.layer()]);
    scene.options.plain_http.push(store.host());
    scene.registry.guard("Basic Ym9iOmh1bnRlcjI=", "Basic realm=\"x\"");
    scene.options.credentials = login(&scene.registry.host(), "bob", "hunter2");
    // The store is reached by another host name, as in practice.
    let location = format!("http://localhost:{}{path}", store.address.port());
    scene.registry.fault(scene.layer(), 1, Fault::Status(307, vec![("location", location)]));

    // When it is pulled
    scene.good().await;

    // Then the store received no credentials
    let asked = store.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].authorization, None);
}
