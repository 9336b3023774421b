//! Lists read page by page without `managedFields`, which are the larger half of small objects and are not used here. The
//! next page is requested while the current one is parsed.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use http::{
    Method, Request, Response, Uri,
    header::{ACCEPT, CONTENT_LENGTH},
};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use tokio_util::task::AbortOnDropHandle;

use crate::is_watch;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Pages requested ahead, at most one for each list.
type Ahead = Mutex<HashMap<String, (String, AbortOnDropHandle<Result<Page, BoxError>>)>>;

/// A client whose lists have no `managedFields`. The API server always sends them; removing them from the text costs a
/// fraction of parsing them. With each page, the next one is requested.
pub fn lists(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let ahead: Arc<Ahead> = Arc::default();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, ahead) = (client.clone(), Arc::clone(&ahead));
        async move {
            // Watches are streams of single objects.
            if request.method() != Method::GET || is_watch(&request) {
                return Ok::<_, BoxError>(client.send(request).await?);
            }
            let (list, token) = list_and_token(&request);
            let known = ahead.lock().unwrap_or_else(PoisonError::into_inner).remove(&list);
            let next = without_body(&request);
            let page = match known {
                Some((of, page)) if of == token => page.await??,
                _ => Page::read(client.clone(), request).await?,
            };
            if let Some(token) = page.next {
                let next = Page::read(client, after(next, &token)?);
                let next = AbortOnDropHandle::new(tokio::spawn(next));
                ahead.lock().unwrap_or_else(PoisonError::into_inner).insert(list, (token, next));
            }
            Ok(page.answer)
        }
    });
    Client::new(service, namespace)
}

/// Response of the API server.
struct Page {
    answer: Response<Body>,
    /// Continue token of the next page.
    next: Option<String>,
}

impl Page {
    async fn read(client: Client, request: Request<Body>) -> Result<Self, BoxError> {
        let answer = client.send(request).await?;
        if !answer.status().is_success() {
            return Ok(Self { answer, next: None });
        }
        let (mut head, body) = answer.into_parts();
        let text = body.collect().await?.to_bytes();
        let Cut { text, next } = cut(&text);
        head.headers.remove(CONTENT_LENGTH);
        Ok(Self { answer: Response::from_parts(head, Body::from(text)), next })
    }
}

/// The list and media type of a request, and the continue token of its page; empty for the first page.
fn list_and_token<B>(request: &Request<B>) -> (String, String) {
    let (uri, form) = (request.uri(), request.headers().get(ACCEPT));
    let (mut list, mut token) = (format!("{form:?} {}", uri.path()), String::new());
    for (key, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        if key == "continue" {
            token = value.into_owned();
        } else {
            // Writing into a String cannot fail.
            let _ = write!(list, "&{key}={value}");
        }
    }
    (list, token)
}

fn without_body(request: &Request<Body>) -> Request<()> {
    let mut same = Request::new(());
    *same.method_mut() = request.method().clone();
    *same.uri_mut() = request.uri().clone();
    *same.headers_mut() = request.headers().clone();
    *same.extensions_mut() = request.extensions().clone();
    same
}

/// The request for another page of the same list.
fn after(request: Request<()>, token: &str) -> Result<Request<Body>, BoxError> {
    let (mut head, ()) = request.into_parts();
    let query = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
    let others = query.filter(|(key, _)| key != "continue");
    let mut query = form_urlencoded::Serializer::new(String::new());
    let query = query.extend_pairs(others).append_pair("continue", token).finish();
    let mut parts = head.uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{query}", head.uri.path()).parse()?);
    head.uri = Uri::from_parts(parts)?;
    Ok(Request::from_parts(head, Body::empty()))
}

/// Depth of the fields of the list's metadata: list, metadata.
const LIST_METADATA: usize = 2;
/// Depth of the fields of an object's metadata: list, items, object, metadata.
const METADATA: usize = 4;

struct Cut {
    text: Vec<u8>,
    /// Continue token of the next page.
    next: Option<String>,
}

/// A list in JSON without `managedFields` in the metadata of its items. Invalid JSON is returned unchanged; the parser
/// reports it.
fn cut(text: &[u8]) -> Cut {
    let mut out = Vec::with_capacity(text.len());
    let (mut depth, mut at, mut copied) = (0_usize, 0, 0);
    // The last key of the list and of its current object: they identify the next value.
    let (mut of_list, mut of_object): (&[u8], &[u8]) = (&[], &[]);
    let mut next = None;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let from = at;
                at = end_of_string(text, at);
                if text.get(at) != Some(&b':') {
                    continue;
                }
                let key = text.get(from..at - 1).unwrap_or_default();
                match depth {
                    1 => of_list = key,
                    LIST_METADATA if of_list == b"metadata" && key == b"continue" => {
                        next = token(text, at + 1)
                    }
                    3 => of_object = key,
                    METADATA if of_object == b"metadata" && key == b"managedFields" => {
                        // With the preceding comma, or the following one if it is the first field.
                        let first = text.get(..from - 1).and_then(<[u8]>::last) != Some(&b',');
                        let start = if first { from - 1 } else { from - 2 };
                        let mut end = end_of_value(text, at + 1);
                        if first && text.get(end) == Some(&b',') {
                            end += 1;
                        }
                        out.extend_from_slice(text.get(copied..start).unwrap_or_default());
                        (at, copied) = (end, end);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    out.extend_from_slice(text.get(copied..).unwrap_or_default());
    Cut { text: out, next }
}

/// The continue token at `at`. Tokens contain no escapes.
fn token(text: &[u8], at: usize) -> Option<String> {
    let value = text.get(at..end_of_value(text, at))?;
    let token = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let token = std::str::from_utf8(token).ok()?;
    (!token.is_empty() && !token.contains('\\')).then(|| token.to_owned())
}

/// Position after the closing quote of the string that `at` is in.
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

/// Position after the value at `at`.
fn end_of_value(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            // A scalar: its container ends or continues here.
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, api::ListParams};

    use super::*;

    #[test]
    fn lists_lose_their_managed_fields_and_nothing_else() {
        let shortened = |text: &str| String::from_utf8(cut(text.as_bytes()).text).unwrap();
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
            assert_eq!(shortened(&text), list(&expected, ""));
        }
        // truncated or invalid JSON does not panic
        let text = list(&format!("{name},{managed}"), "");
        for end in 0..text.len() {
            cut(&text.as_bytes()[..end]);
        }
        for odd in ["", "\"", "\\", "]]]}}}", "{\"items\":[{\"metadata\":{\"managedFields\":"] {
            cut(odd.as_bytes());
        }
    }

    #[test]
    fn the_token_of_the_next_page_is_that_of_the_list() {
        let next = |text: &str| cut(text.as_bytes()).next;
        // kube-apiserver writes the metadata of built-in lists first, and that of custom resources last
        let items =
            r#""items":[{"metadata":{"continue":"no","labels":{"continue":"no"}},"spec":{"continue":"no"}}]"#;
        let metadata = r#""metadata":{"resourceVersion":"7","continue":"ey_-9=","remainingItemCount":3}"#;
        assert_eq!(next(&format!(r#"{{"kind":"A",{metadata},{items}}}"#)).as_deref(), Some("ey_-9="));
        assert_eq!(next(&format!(r#"{{"kind":"A",{items},{metadata}}}"#)).as_deref(), Some("ey_-9="));
        for last in [
            r#""metadata":{}"#,
            r#""metadata":{"continue":""}"#,
            r#""metadata":{"continue":null}"#,
            r#""continue":"a""#,
        ] {
            assert_eq!(next(&format!(r#"{{{items},{last}}}"#)), None, "{last}");
        }
        for odd in [
            r#"{"metadata":{"continue":"a"#,
            r#"{"metadata":{"continue":"#,
            r#"{"metadata":{"continue":"a\u0041"}}"#,
        ] {
            assert_eq!(next(odd), None, "{odd}");
        }
    }

    /// A server of a paged list, and its requests.
    fn server(fails: &'static [usize]) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (list, token) = list_and_token(&request);
            let number = {
                let mut seen = seen.lock().unwrap();
                seen.push(format!("{} {token}", list.rsplit('/').next().unwrap()));
                seen.len()
            };
            async move {
                let page: usize = token.strip_prefix("to +").map_or(0, |page| page.parse().unwrap());
                let next = if page < 3 { format!("to +{}", page + 1) } else { String::new() };
                let item =
                    serde_json::json!({ "metadata": { "name": format!("a{page}"), "managedFields": [{}] } });
                let list = serde_json::json!({
                    "kind": "ConfigMapList", "apiVersion": "v1", "metadata": { "continue": next }, "items": [item],
                });
                let gone = serde_json::json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
                });
                let (status, text) = if fails.contains(&number) { (410, gone) } else { (200, list) };
                Response::builder().status(status).body(Body::from(text.to_string().into_bytes()))
            }
        });
        (lists(Client::new(service, "default")), asked)
    }

    async fn page(api: &Api<ConfigMap>, token: Option<&str>) -> kube::Result<(String, Option<String>)> {
        let params = ListParams::default().labels("a=b").limit(1);
        let params = token.map_or(params.clone(), |token| params.continue_token(token));
        let list = api.list(&params).await?;
        assert_eq!(list.items[0].metadata.managed_fields, None);
        Ok((
            list.items[0].metadata.name.clone().unwrap(),
            list.metadata.continue_.filter(|token| !token.is_empty()),
        ))
    }

    /// Lets started requests complete.
    async fn settle() {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn one_page_more_is_asked_for_and_each_of_them_once() {
        let (client, asked) = server(&[]);
        let api = Api::<ConfigMap>::all(client);
        let (mut names, mut token) = (Vec::new(), None);
        for expected in [2, 3, 4, 4] {
            let (name, next) = page(&api, token.as_deref()).await.unwrap();
            names.push(name);
            token = next;
            settle().await;
            assert_eq!(asked.lock().unwrap().len(), expected);
        }
        assert_eq!((names, token), (["a0", "a1", "a2", "a3"].map(str::to_owned).to_vec(), None));
        let list = "configmaps&labelSelector=a=b&limit=1";
        let expected = ["", "to +1", "to +2", "to +3"].map(|token| format!("{list} {token}"));
        assert_eq!(*asked.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn a_restarted_list_gets_no_page_of_the_old_one_and_failures_are_reported_and_retried() {
        // when the second page, requested ahead, has expired
        let (client, asked) = server(&[2]);
        let api = Api::<ConfigMap>::all(client);
        let (_, next) = page(&api, None).await.unwrap();
        settle().await;
        // then the reader gets the error and can retry
        let error = page(&api, next.as_deref()).await.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 410), "{error}");
        assert_eq!(page(&api, next.as_deref()).await.unwrap().0, "a1");
        settle().await;
        // and a new list has its first and second page
        assert_eq!(page(&api, None).await.unwrap().0, "a0");
        assert_eq!(page(&api, next.as_deref()).await.unwrap().0, "a1");
        settle().await;
        let tokens: Vec<String> =
            asked.lock().unwrap().iter().map(|asked| asked.split_once(' ').unwrap().1.to_owned()).collect();
        assert_eq!(tokens, ["", "to +1", "to +1", "to +2", "", "to +1", "to +2"]);
    }
}
