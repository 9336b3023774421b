//! An S3 server for tests, in this process: a real one over a directory, behind an injector of faults.
//!
//! The scenarios of `tests/etcd` include this file.

use std::io;
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, body::Frame, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::sync::watch;

type Body = UnsyncBoxBody<Bytes, io::Error>;
type Answer = io::Result<Response<Body>>;

pub const ACCESS_KEY: &str = "AK";
pub const SECRET_KEY: &str = "SK";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Every request is rejected.
    Denied,
    /// Parts and objects are accepted, and their requests hang until the fault is over.
    Stalled,
    /// Parts are rejected.
    Broken,
    /// Answers to reads break off in the middle.
    Cut,
    /// Reads are never answered.
    Mute,
}

/// The protocol of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Amazon's: requests are signed.
    Amazon,
    /// Google's XML API, which differs from Amazon's in this: requests have a token, and headers other names.
    /// No registry has an emulator of it.
    Google,
}

/// Bearer token of the Google dialect.
pub const TOKEN: &str = "ya29.token";

/// Observes every request.
pub trait Observer: Send + Sync {
    /// Before the request runs. Without a number the request is dropped.
    fn begins(&self, method: &str, path: &str) -> Option<usize>;
    /// After the request ran; false to drop the answer.
    fn ended(&self, number: usize, status: u16) -> bool;
}

/// The server, with the bucket `bucket`.
pub struct S3 {
    pub dir: tempfile::TempDir,
    url: String,
    fault: watch::Sender<Option<Fault>>,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[derive(Clone)]
struct Front {
    service: S3Service,
    dialect: Dialect,
    fault: watch::Receiver<Option<Fault>>,
    observer: Option<Arc<dyn Observer>>,
}

impl S3 {
    /// Starts it.
    /// # Errors
    /// When the machine has no resources for it.
    pub async fn serve(observer: Option<Arc<dyn Observer>>) -> anyhow::Result<Self> {
        Self::serve_as(Dialect::Amazon, observer).await
    }

    /// Starts it with a dialect.
    /// # Errors
    /// When the machine has no resources for it.
    pub async fn serve_as(dialect: Dialect, observer: Option<Arc<dyn Observer>>) -> anyhow::Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir()?;
        std::fs::create_dir(dir.path().join("bucket"))?;
        let files = s3s_fs::FileSystem::new(dir.path());
        let files = files.map_err(|error| anyhow::anyhow!("{error:?}")).context("a folder for S3")?;
        let mut builder = S3ServiceBuilder::new(files);
        if dialect == Dialect::Amazon {
            builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        }
        let (fault, heard) = watch::channel(None);
        let front = Front { service: builder.build(), dialect, fault: heard, observer };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let server = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let front = front.clone();
                tokio::spawn(async move {
                    let answer = hyper::service::service_fn(move |request| {
                        let front = front.clone();
                        async move { front.observed(request).await }
                    });
                    // The client handles connection errors.
                    let _ = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(socket), answer)
                        .await;
                });
            }
        });
        Ok(Self { dir, url, fault, server })
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sets the fault from now on.
    pub fn fail(&self, fault: Option<Fault>) {
        self.fault.send_replace(fault);
    }

    /// Uploads that were neither completed nor aborted.
    #[must_use]
    pub fn unfinished(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.contains("upload")).collect()
    }
}

impl Front {
    async fn observed(&self, request: Request<Incoming>) -> Answer {
        let Some(observer) = &self.observer else { return self.answer(request).await };
        let Some(number) = observer.begins(request.method().as_str(), request.uri().path()) else {
            return std::future::pending().await;
        };
        // A received request runs even if its sender is gone.
        let front = self.clone();
        let answer = tokio::spawn(async move { front.answer(request).await }).await??;
        match observer.ended(number, answer.status().as_u16()) {
            true => Ok(answer),
            false => std::future::pending().await,
        }
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Answer {
        if self.dialect == Dialect::Amazon {
            return self.carried_out(request).await;
        }
        let token = request.headers_mut().remove(AUTHORIZATION);
        if token.is_none_or(|token| token != format!("Bearer {TOKEN}")) {
            return refusal(401, "AuthenticationRequired", "Authentication required.");
        }
        renamed(request.headers_mut(), GOOGLE, AMAZON);
        let mut answer = self.carried_out(request).await?;
        renamed(answer.headers_mut(), AMAZON, GOOGLE);
        answer.headers_mut().insert("x-goog-generation", HeaderValue::from_static("1"));
        Ok(answer)
    }

    async fn carried_out(&self, request: Request<Incoming>) -> Answer {
        let mut fault = *self.fault.borrow();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let part = request.uri().query().is_some_and(|query| query.contains("partNumber"));
        let read = method == hyper::Method::GET && path.matches('/').count() > 1;
        // The inner server creates missing buckets; S3 does not.
        if path != "/bucket" && !path.starts_with("/bucket/") {
            return refusal(404, "NoSuchBucket", "The specified bucket does not exist");
        }
        if fault == Some(Fault::Stalled) && method == hyper::Method::PUT {
            let over =
                self.fault.clone().wait_for(|fault| *fault != Some(Fault::Stalled)).await.map(|now| *now);
            fault = over.map_err(io::Error::other)?;
        }
        match fault {
            Some(Fault::Denied) => refusal(403, "AccessDenied", "Not for you"),
            Some(Fault::Mute) if read => std::future::pending().await,
            Some(Fault::Broken) if part => refusal(400, "QuotaExceeded", "The bucket is full"),
            _ => {
                let answer = hyper::service::Service::call(&self.service, request).await;
                let answer = answer.map_err(|error| io::Error::other(format!("{error:?}")))?;
                if fault == Some(Fault::Cut) && read && answer.status().is_success() {
                    return cut(answer).await;
                }
                Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))
            }
        }
    }
}

/// Prefix of metadata headers.
const AMAZON: &str = "x-amz-meta-";
const GOOGLE: &str = "x-goog-meta-";

fn renamed(headers: &mut HeaderMap, from: &str, to: &str) {
    let names: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with(from)).cloned().collect();
    for name in names {
        let other = format!("{to}{}", &name.as_str()[from.len()..]);
        if let (Some(value), Ok(other)) = (headers.remove(&name), HeaderName::try_from(other)) {
            headers.insert(other, value);
        }
    }
}

fn refusal(status: u16, code: &str, message: &str) -> Answer {
    let text =
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>");
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(status).body(body).map_err(io::Error::other)
}

/// The first half of an answer; then the connection breaks.
async fn cut(answer: Response<s3s::Body>) -> Answer {
    let (head, body) = answer.into_parts();
    let whole = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let half = whole.slice(..whole.len() / 2);
    let frames = [Ok(Frame::data(half)), Err(io::ErrorKind::ConnectionReset.into())];
    Ok(Response::from_parts(head, StreamBody::new(futures::stream::iter(frames)).boxed_unsync()))
}
