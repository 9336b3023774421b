//! Watches and lists of metadata only: other fields are neither sent nor parsed.

use http::{HeaderValue, Method, Request, header::ACCEPT};
use kube::{Client, client::Body};

/// A list is a `PartialObjectMetadataList`; a watch has single objects.
const LIST: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
);
/// kube-apiserver uses the first media type that it knows: with that of lists, it silently ends a watch at the first
/// event, and answers a read of one object with 406.
const WATCH: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");

/// A client that reads metadata: for `Api<PartialObjectMeta<_>>` in controllers, whose lists and watches request whole
/// objects otherwise. Single objects are read with `get_metadata`.
pub fn metadata_only(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let client = client.clone();
        if request.method() == Method::GET {
            let accept = if is_watch(&request) { WATCH } else { LIST };
            request.headers_mut().insert(ACCEPT, accept);
        }
        async move { client.send(request).await }
    });
    Client::new(service, namespace)
}

/// Whether a request is a watch: `?watch=true`, or `watch=1`.
pub fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use k8s_openapi::api::core::v1::Namespace;
    use kube::{
        Api,
        api::{ListParams, WatchParams},
        core::PartialObjectMeta,
    };

    use super::*;

    #[tokio::test]
    async fn a_watch_asks_for_objects_and_a_list_for_a_list() {
        // given a server that records requests
        let accepted = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&accepted);
        let server = tower::service_fn(move |request: Request<Body>| {
            seen.lock().unwrap().push(request.headers()[ACCEPT].to_str().unwrap().to_owned());
            let list = r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[]}"#;
            async move { http::Response::builder().body(Body::from(list.as_bytes().to_vec())) }
        });
        let api = Api::<PartialObjectMeta<Namespace>>::all(metadata_only(Client::new(server, "default")));

        // when a controller lists and watches
        api.list(&ListParams::default()).await.unwrap();
        let _ = api.watch(&WatchParams::default(), "0").await.unwrap();

        // then the first media type of each is the matching one
        let first: Vec<String> =
            accepted.lock().unwrap().iter().map(|a| a.split(';').nth(1).unwrap().to_owned()).collect();
        assert_eq!(first, ["as=PartialObjectMetadataList", "as=PartialObjectMetadata"]);
    }
}
