//! Denied targets of sources, and servers that must not receive secrets.

use std::{sync::Arc, time::Duration};

use olm_catalog_sources::{Credentials, Egress, Policy, Source, SourceError, fetch};
use serde_json::json;

use crate::{
    registry::{Fault, Registry},
    scene::{Scene, login},
};

fn guarded(allow: &[&str]) -> Egress {
    let allow: Vec<String> = allow.iter().map(|text| (*text).to_owned()).collect();
    Egress::Guarded(Arc::new(Policy::new(&allow, Vec::new()).expect("a policy")))
}

async fn refused(scene: &Scene, source: Source) -> SourceError {
    let error = fetch(&source, &scene.options, None, &scene.dest).await.expect_err("refused");
    scene.nothing_is_left();
    error
}

#[tokio::test]
async fn t13_no_source_leads_to_this_machine() {
    // Given a server at a loopback address, which a catalog names in every way
    let mut scene = Scene::new().await;
    scene.registry.put_file("/file", &[], b"secret of this machine");
    scene.options.egress = guarded(&[]);
    let port = scene.registry.address.port();
    scene.options.plain_http.push(format!("localhost:{port}"));
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
        for source in [
            Source::Image { reference: format!("{host}/org/catalog:v1") },
            Source::Http { url: format!("http://{host}/file") },
            Source::Grpc { address: host.clone() },
        ] {
            // When it is read
            let error = refused(&scene, source).await;
            // Then no request is sent, and there is no retry
            assert_eq!(error.code(), "EgressRefused", "{error}");
            assert!(error.to_string().contains("egress.allow"), "{error}");
        }
    }
    assert_eq!(scene.registry.asked().len(), 0);
    // And with the administrator's exception it is read
    scene.options.egress = guarded(&["127.0.0.0/8"]);
    scene.good().await;
}

#[tokio::test]
async fn t13_no_redirect_leads_to_this_machine() {
    // Given a server that is admitted by its name, and that redirects to its address
    let mut scene = Scene::new().await;
    let port = scene.registry.address.port();
    scene.options.egress = guarded(&["localhost"]);
    let location = format!("http://127.0.0.1:{port}/secret");
    scene.registry.put_file("/secret", &[], b"secret of this machine");
    scene.registry.fault("/file", 9, Fault::Status(302, vec![("location", location)]));
    // When the catalog is read
    let error = refused(&scene, Source::Http { url: format!("http://localhost:{port}/file") }).await;
    // Then the redirect is not followed
    assert_eq!(error.code(), "EgressRefused", "{error}");
    assert_eq!(scene.asked_for("/secret"), 0);
}

#[tokio::test]
async fn t13_bodies_of_errors_are_never_shown() {
    for status in [400, 401, 403, 404, 500] {
        let scene = Scene::new().await;
        scene.registry.fault("/", 99, Fault::Status(status, Vec::new()));
        let image = refused(&scene, scene.source("org/catalog:v1")).await.to_string();
        let url = format!("http://{}/file", scene.registry.host());
        let web = refused(&scene, Source::Http { url }).await.to_string();
        for text in [image, web] {
            assert!(!text.contains("a fault") && !text.contains("TEST"), "{status}: {text}");
        }
    }
    // Codes that the specification of registries defines are shown.
    let scene = Scene::new().await;
    let text = refused(&scene, scene.source("org/catalog:v9")).await.to_string();
    assert!(text.contains("NAME_UNKNOWN") && !text.contains("no such thing"), "{text}");
}

#[tokio::test]
async fn t13_credentials_in_references_are_refused_and_not_shown() {
    let scene = Scene::new().await;
    let host = scene.registry.host();
    for source in [
        Source::Http { url: format!("http://bob:hunter2@{host}/file") },
        Source::Http { url: format!("http://hunter2@{host}/file") },
        Source::Image { reference: format!("bob:hunter2@{host}/org/catalog:v1") },
        Source::Image { reference: format!("https://bob:hunter2@{host}/org/catalog:v1") },
        Source::Grpc { address: format!("bob:hunter2@{host}") },
    ] {
        let error = refused(&scene, source).await;
        assert_eq!(error.code(), "CredentialsInReference", "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains("spec.secrets") && !text.contains("hunter2"), "{text}");
    }
    assert_eq!(scene.registry.asked().len(), 0);
}

#[tokio::test]
async fn t14_a_login_goes_to_the_registrys_own_site() {
    // Given a registry that names the token service of another host
    let mut scene = Scene::new().await;
    let port = scene.registry.address.port();
    let challenge = format!("Bearer realm=\"http://localhost:{port}/token\"");
    scene.registry.guard("Bearer good-token", &challenge);
    scene.registry.put_file("/token", &[], b"{\"token\":\"good-token\"}");
    scene.options.plain_http.push(format!("localhost:{port}"));
    scene.options.credentials = login(&scene.registry.host(), "bob", "hunter2");
    // Then it receives no credentials
    let text = scene.bad().await.to_string();
    assert!(text.contains("tokenHosts") && !text.contains("hunter2"), "{text}");
    assert_eq!(scene.asked_for("/token"), 0);
    // And an anonymous request to it is allowed
    let credentials = std::mem::take(&mut scene.options.credentials);
    scene.good().await;
    // And an administrator may allow it
    std::fs::remove_dir_all(&scene.dest).expect("removed");
    scene.options.credentials = credentials;
    scene.options.token_hosts.push("localhost".to_owned());
    scene.good().await;
}

#[tokio::test]
async fn t14_a_refresh_token_follows_no_redirect() {
    // Given a token service that redirects elsewhere
    let mut scene = Scene::new().await;
    let (host, thief) = (scene.registry.host(), Registry::start().await);
    scene.registry.guard("Bearer good-token", &format!("Bearer realm=\"http://{host}/token\""));
    let location = format!("http://{}/token", thief.host());
    scene.registry.fault("/token", 9, Fault::Status(307, vec![("location", location)]));
    let document = json!({"auths": {host: {"identitytoken": "refresh"}}}).to_string();
    scene.options.credentials = Credentials::default();
    scene.options.credentials.add("file", document.as_bytes()).expect("a config");
    // Then no request reaches that address
    scene.bad().await;
    assert_eq!(thief.asked().len(), 0);
}

#[tokio::test]
async fn t14_a_transfer_that_drips_is_ended() {
    for part in ["/manifests/", "/blobs/", "/file"] {
        // Given a server that sends a byte at a time
        let mut scene = Scene::new().await;
        scene.registry.fault(part, 99, Fault::Drip);
        scene.options.timeouts.attempts = 1;
        scene.options.timeouts.slow_for = Duration::from_millis(200);
        // Then the transfer is aborted long before the size limit
        let source = match part {
            "/file" => Source::Http { url: format!("http://{}/file", scene.registry.host()) },
            _ => scene.source("org/catalog:v1"),
        };
        let text = refused(&scene, source).await.to_string();
        assert!(text.contains("too slow") && text.contains("1024 bytes per second"), "{part}: {text}");
    }
}
