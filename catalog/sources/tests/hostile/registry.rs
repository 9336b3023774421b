//! A registry that misbehaves on request.
#![allow(dead_code)]

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header},
};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tokio::sync::Notify;

use crate::support::{Image, sha256};

/// Replacement of an answer.
#[derive(Clone)]
pub enum Fault {
    /// Answers with a status and headers.
    Status(u16, Vec<(&'static str, String)>),
    /// Sends this many bytes of the answer, and closes the connection.
    Cut(usize),
    /// Never answers.
    Hang,
    /// Sends this many bytes of the answer, and then nothing.
    Stall(usize),
    /// Sends a byte at a time.
    Drip,
    /// Sends other content.
    Replace(Vec<u8>),
    /// Sends endlessly.
    Endless,
    /// From now on the tag refers to another image.
    MoveTag(&'static str, Image),
}

#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub authorization: Option<String>,
    pub range: Option<String>,
}

#[derive(Default)]
struct Content {
    /// Manifests by tag and digest, with their type.
    manifests: BTreeMap<String, (String, Vec<u8>)>,
    blobs: BTreeMap<String, Vec<u8>>,
    /// Plain files by path.
    files: BTreeMap<String, (HeaderMap, Vec<u8>)>,
    /// Part of the path, remaining number, fault.
    faults: Vec<(String, usize, Fault)>,
    asked: Vec<Asked>,
    /// Required `Authorization`, and the challenge for requests without it.
    guard: Option<(String, String)>,
    ranges: bool,
}

/// Clones are the same server.
#[derive(Clone)]
pub struct Registry {
    pub address: SocketAddr,
    content: Arc<Mutex<Content>>,
    /// Notified when a request hangs.
    pub hanging: Arc<Notify>,
}

impl Registry {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let content = Arc::new(Mutex::new(Content { ranges: true, ..Content::default() }));
        let registry = Self { address, content, hanging: Arc::new(Notify::new()) };
        let router = Router::new().fallback(answer).with_state(registry.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        registry
    }

    /// `127.0.0.1:port`
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().expect("no test panics in here")
    }

    pub fn push(&self, tag: &str, image: &Image) {
        self.push_manifest(tag, &image.media_type, &image.manifest);
        self.content().blobs.extend(image.blobs.clone());
    }

    pub fn push_manifest(&self, tag: &str, media_type: &str, bytes: &[u8]) {
        for name in [tag.to_owned(), sha256(bytes)] {
            self.content().manifests.insert(name, (media_type.to_owned(), bytes.to_vec()));
        }
    }

    pub fn push_blob(&self, bytes: &[u8]) {
        self.content().blobs.insert(sha256(bytes), bytes.to_vec());
    }

    pub fn put_file(&self, path: &str, headers: &[(&'static str, &str)], bytes: &[u8]) {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a header")))
            .collect();
        self.content().files.insert(path.to_owned(), (headers, bytes.to_vec()));
    }

    /// The next `times` requests whose path contains `part` meet a fault.
    pub fn fault(&self, part: &str, times: usize, fault: Fault) {
        self.content().faults.push((part.to_owned(), times, fault));
    }

    pub fn without_ranges(&self) {
        self.content().ranges = false;
    }

    /// Only requests with this header may read; others get the challenge.
    pub fn guard(&self, authorization: &str, challenge: &str) {
        self.content().guard = Some((authorization.to_owned(), challenge.to_owned()));
    }

    /// Requests since the last call.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.content().asked)
    }
}

async fn answer(State(registry): State<Registry>, request: Request<Body>) -> Response<Body> {
    let (request, body) = request.into_parts();
    // The end of a connection with an unread body would reset it.
    _ = axum::body::to_bytes(body, usize::MAX).await;
    let path = request.uri.path().to_owned();
    let header = |name| {
        let value: Option<&HeaderValue> = request.headers.get(name);
        value.and_then(|v| v.to_str().ok()).map(str::to_owned)
    };
    let asked = Asked {
        method: request.method.to_string(),
        path: request.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        authorization: header(header::AUTHORIZATION),
        range: header(header::RANGE),
    };
    let known = header(header::IF_NONE_MATCH);
    registry.content().asked.push(asked.clone());
    if let Some(refusal) = registry.refusal(&path, asked.authorization.as_deref()) {
        return refusal;
    }
    let fault = registry.next_fault(&path);
    if let Some(Fault::MoveTag(tag, image)) = &fault {
        let response = registry.serve(&path, &asked, &known);
        registry.push(tag, image);
        return response;
    }
    let good = || registry.serve(&path, &asked, &known);
    match fault {
        None | Some(Fault::MoveTag(..)) => good(),
        Some(Fault::Status(status, headers)) => {
            let mut response =
                Response::new(Body::from("{\"errors\":[{\"code\":\"TEST\",\"message\":\"a fault\"}]}"));
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            for (name, value) in headers {
                response.headers_mut().insert(name, value.parse().expect("a header"));
            }
            response
        }
        Some(Fault::Hang) => {
            registry.hanging.notify_one();
            std::future::pending().await
        }
        Some(Fault::Cut(bytes)) => begin(good(), bytes, cut().boxed()).await,
        Some(Fault::Stall(bytes)) => begin(good(), bytes, stream::pending().boxed()).await,
        Some(Fault::Drip) => {
            let bytes =
                stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(b" "))).then(|byte| async {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                    byte
                });
            Response::new(Body::from_stream(bytes))
        }
        Some(Fault::Replace(bytes)) => Response::new(Body::from(bytes)),
        Some(Fault::Endless) => {
            let chunk = Bytes::from(vec![b' '; 64 << 10]);
            Response::new(Body::from_stream(stream::repeat_with(move || Ok::<_, io::Error>(chunk.clone()))))
        }
    }
}

/// The end of a connection, after the sent bytes have left.
fn cut() -> impl futures::Stream<Item = Result<Bytes, io::Error>> {
    stream::once(async {
        tokio::task::yield_now().await;
        Err(io::Error::other("cut"))
    })
}

/// The start of an answer, and then other content.
async fn begin(
    response: Response<Body>,
    bytes: usize,
    rest: stream::BoxStream<'static, Result<Bytes, io::Error>>,
) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let whole = axum::body::to_bytes(body, usize::MAX).await.expect("in memory");
    parts.headers.insert(header::CONTENT_LENGTH, whole.len().into());
    let start = stream::iter([Ok(whole.slice(..bytes.min(whole.len())))]);
    Response::from_parts(parts, Body::from_stream(start.chain(rest)))
}

impl Registry {
    fn refusal(&self, path: &str, authorization: Option<&str>) -> Option<Response<Body>> {
        let content = self.content();
        let (needed, challenge) = content.guard.as_ref()?;
        if !path.starts_with("/v2/") || authorization == Some(needed) {
            return None;
        }
        let mut response = Response::new(Body::from(
            "{\"errors\":[{\"code\":\"UNAUTHORIZED\",\"message\":\"log in first\"}]}",
        ));
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge.parse().expect("a header"));
        Some(response)
    }

    fn next_fault(&self, path: &str) -> Option<Fault> {
        let mut content = self.content();
        let (_, times, fault) =
            content.faults.iter_mut().find(|(part, times, _)| *times > 0 && path.contains(part.as_str()))?;
        *times -= 1;
        Some(fault.clone())
    }

    fn serve(&self, path: &str, asked: &Asked, known: &Option<String>) -> Response<Body> {
        let content = self.content();
        let last = path.rsplit('/').next().unwrap_or_default();
        let head = asked.method == Method::HEAD.as_str();
        if let Some((headers, bytes)) = content.files.get(path) {
            let mut response = Response::new(Body::from(bytes.clone()));
            *response.headers_mut() = headers.clone();
            let etag = headers.get(header::ETAG).and_then(|v| v.to_str().ok());
            if etag.is_some() && etag == known.as_deref() {
                *response.body_mut() = Body::empty();
                *response.status_mut() = StatusCode::NOT_MODIFIED;
            }
            return response;
        }
        let accepted = match asked.method.as_str() {
            "POST" => Some(StatusCode::ACCEPTED),
            "PUT" => Some(StatusCode::CREATED),
            _ => None,
        };
        // Pushes are accepted and not stored.
        if let Some(status) = accepted {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = status;
            response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/v2/upload/1"));
            return response;
        }
        if let Some((media_type, bytes)) =
            content.manifests.get(last).filter(|_| path.contains("/manifests/"))
        {
            let mut response = Response::new(if head { Body::empty() } else { Body::from(bytes.clone()) });
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, media_type.parse().expect("a type"));
            headers.insert("docker-content-digest", sha256(bytes).parse().expect("a digest"));
            return response;
        }
        if let Some(bytes) = content.blobs.get(last).filter(|_| path.contains("/blobs/")) {
            let from = asked
                .range
                .as_deref()
                .filter(|_| content.ranges)
                .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
            let mut response = Response::new(Body::from(bytes[from.unwrap_or(0)..].to_vec()));
            if let Some(from) = from {
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                let range = format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len());
                response.headers_mut().insert(header::CONTENT_RANGE, range.parse().expect("a range"));
            }
            return response;
        }
        let mut response = Response::new(Body::from(
            "{\"errors\":[{\"code\":\"NAME_UNKNOWN\",\"message\":\"no such thing\"}]}",
        ));
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    }
}
