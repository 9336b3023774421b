//! Watching and listing the metadata of objects alone: what is not asked for is neither sent nor read. And lists without
//! `managedFields`: of small objects they are the larger half, and nobody here reads them.

use http::{
    HeaderValue, Method, Request, Response,
    header::{ACCEPT, CONTENT_LENGTH},
};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};

/// A list is a `PartialObjectMetadataList`; a watch has single objects.
const LIST: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
);
/// kube-apiserver takes the first form that it knows, whatever fits: asked for lists, it ends a watch at its first event
/// without a word, and answers a read of one object with 406.
const WATCH: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The same connection, whose lists have no `managedFields`. The API server sends them whether they are wanted or not; to take them out
/// of the text is a fraction of reading them.
pub(crate) fn without_managers(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        // Watches tell one object at a time, for ever.
        let lists = request.method() == Method::GET && !is_watch(&request);
        async move {
            let answer = client.send(request).await?;
            if lists && answer.status().is_success() { cut(answer).await } else { Ok(answer) }
        }
    });
    Client::new(service, namespace)
}

async fn cut(answer: Response<Body>) -> Result<Response<Body>, BoxError> {
    let (mut head, body) = answer.into_parts();
    let text = body.collect().await?.to_bytes();
    head.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(head, Body::from(without_managed_fields(&text))))
}

/// How deep the fields of an object's metadata are in a list: the list, its items, the object, its metadata.
const METADATA: usize = 4;

/// A list as JSON without `managedFields` in the metadata of its items. What is no JSON stays what it is: whoever reads it says so.
fn without_managed_fields(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let (mut depth, mut at, mut copied) = (0_usize, 0, 0);
    // The last key of an object of the list: it says what the next object is.
    let mut field: &[u8] = &[];
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let from = at;
                at = end_of_string(text, at);
                let is_key = text.get(at) == Some(&b':');
                let key = text.get(from..at - 1).unwrap_or_default();
                if is_key && depth == METADATA - 1 {
                    field = key;
                } else if is_key && depth == METADATA && field == b"metadata" && key == b"managedFields" {
                    // With the comma before it; where it is the first field, with the one after it.
                    let first = text.get(..from - 1).and_then(<[u8]>::last) != Some(&b',');
                    let start = if first { from - 1 } else { from - 2 };
                    let mut end = end_of_value(text, at + 1);
                    if first && text.get(end) == Some(&b',') {
                        end += 1;
                    }
                    out.extend_from_slice(text.get(copied..start).unwrap_or_default());
                    (at, copied) = (end, end);
                }
            }
            _ => {}
        }
    }
    out.extend_from_slice(text.get(copied..).unwrap_or_default());
    out
}

/// Behind the closing quote of a string that begins before `at`.
fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if text.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    text.len().max(1)
}

/// Behind the value that begins at `at`.
fn end_of_value(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            // It is no object and no list, and what it is in ends, or goes on.
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' if depth == 1 => return at + 1,
            b'}' | b']' => depth -= 1,
            b'"' => at = end_of_string(text, at + 1) - 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// The same connection, which reads metadata: for `Api<PartialObjectMeta<_>>` in controllers, whose lists and watches ask for
/// whole objects otherwise. Single objects are read by `get_metadata`.
pub(crate) fn metadata_only(client: Client) -> Client {
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
pub(crate) fn is_watch(request: &Request<Body>) -> bool {
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

    #[test]
    fn lists_lose_their_managed_fields_and_nothing_else() {
        let cut = |text: &str| String::from_utf8(without_managed_fields(text.as_bytes())).unwrap();
        let managed =
            r#""managedFields":[{"manager":"a \\\"]},","fieldsV1":{"f:metadata":{"f:managedFields":{}}}}]"#;
        let list = |first: &str, second: &str| {
            format!(
                r#"{{"kind":"List","metadata":{{"resourceVersion":"1"}},"items":[{{"metadata":{{{first}}},"spec":{{"managedFields":["mine"],"text":"\"managedFields\":[1]"}}}},{{"metadata":{{"name":"b"{second}}}}}]}}"#
            )
        };
        // in the middle, at the end, alone, and first
        let name = r#""name":"a""#;
        for (first, expected) in [
            (format!("{name},{managed},\"uid\":\"u\""), format!("{name},\"uid\":\"u\"")),
            (format!("{name},{managed}"), name.to_owned()),
            (managed.to_owned(), String::new()),
            (format!("{managed},{name}"), name.to_owned()),
            (name.to_owned(), name.to_owned()),
            (format!("{name},\"managedFields\":null"), name.to_owned()),
        ] {
            let text = list(&first, &format!(",{managed}"));
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
            assert_eq!(cut(&text), list(&expected, ""));
        }
        // what is cut off in the middle, or no JSON, is nothing to fall over
        let text = list(&format!("{name},{managed}"), "");
        for end in 0..text.len() {
            without_managed_fields(&text.as_bytes()[..end]);
        }
        for odd in ["", "\"", "\\", "]]]}}}", "{\"items\":[{\"metadata\":{\"managedFields\":"] {
            cut(odd);
        }
    }

    #[tokio::test]
    async fn a_watch_asks_for_objects_and_a_list_for_a_list() {
        // given a server that notes what it is asked for
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

        // then the first form of each is the one that fits
        let first: Vec<String> =
            accepted.lock().unwrap().iter().map(|a| a.split(';').nth(1).unwrap().to_owned()).collect();
        assert_eq!(first, ["as=PartialObjectMetadataList", "as=PartialObjectMetadata"]);
    }
}
