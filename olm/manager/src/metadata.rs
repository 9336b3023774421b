//! Watching and listing the metadata of objects alone: what is not asked for is neither sent nor read.

use http::{HeaderValue, Method, header::ACCEPT};
use kube::Client;

const METADATA: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
);

/// The same connection, which reads metadata: for `Api<PartialObjectMeta<_>>` in controllers, whose watches ask for whole
/// objects otherwise.
pub(crate) fn metadata_only(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        let client = client.clone();
        if request.method() == Method::GET {
            request.headers_mut().insert(ACCEPT, METADATA);
        }
        async move { client.send(request).await }
    });
    Client::new(service, namespace)
}
