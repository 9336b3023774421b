//! Simulated idle members: each gives the answers of an idle single-member etcd, in its wire format. Real
//! ones would be 500 processes with 30 MB each.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
    sync::Arc,
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::StreamBody;
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{WatchStreamExt as _, watcher},
};
use tokio::net::TcpListener;

/// Client port of a member.
const PORT: u16 = 2379;
/// gRPC status for an unknown call.
const UNIMPLEMENTED: &str = "12";

struct Member {
    name: String,
    peer_url: String,
    version: String,
    id: u64,
    cluster: u64,
}

impl Member {
    /// The member of a pod; its name begins with that of its cluster.
    fn of(pod: &Pod, version: &str) -> Option<(IpAddr, Self)> {
        let address = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
        let (name, namespace) = (pod.name_any(), pod.namespace()?);
        let cluster = name.rsplit_once('-')?.0.to_owned();
        let hash = |what: &str| {
            let mut hasher = DefaultHasher::new();
            (what, &namespace, &cluster).hash(&mut hasher);
            hasher.finish() | 1
        };
        let member = Self {
            peer_url: format!("http://{name}.{cluster}.{namespace}.svc:2380"),
            id: hash("member"),
            cluster: hash("cluster"),
            version: version.to_owned(),
            name,
        };
        Some((address, member))
    }

    /// The answer to a call, by etcd's `rpc.proto`; `None` for calls that an idle member does not get.
    fn answer(&self, path: &str) -> Option<Vec<u8>> {
        let mut header = Vec::new();
        number(&mut header, 1, self.cluster);
        number(&mut header, 2, self.id);
        number(&mut header, 3, 1);
        number(&mut header, 4, 2);
        let mut out = Vec::new();
        bytes(&mut out, 1, &header);
        match path {
            "/etcdserverpb.KV/Range" | "/etcdserverpb.Maintenance/Alarm" => {}
            "/etcdserverpb.Maintenance/HashKV" => number(&mut out, 2, 1),
            "/etcdserverpb.Maintenance/Status" => {
                bytes(&mut out, 2, self.version.as_bytes());
                number(&mut out, 3, 20_480);
                number(&mut out, 4, self.id);
                number(&mut out, 5, 8);
                number(&mut out, 6, 2);
                number(&mut out, 7, 8);
                number(&mut out, 9, 16_384);
            }
            "/etcdserverpb.Cluster/MemberList" => {
                let mut member = Vec::new();
                number(&mut member, 1, self.id);
                bytes(&mut member, 2, self.name.as_bytes());
                bytes(&mut member, 3, self.peer_url.as_bytes());
                bytes(&mut member, 4, self.peer_url.replace(":2380", ":2379").as_bytes());
                bytes(&mut out, 2, &member);
            }
            _ => return None,
        }
        Some(out)
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Serves the members of all pods with an address of this machine, while it is polled.
pub(super) async fn serve(client: Client, version: String) -> Result<()> {
    let mut served = BTreeSet::new();
    let pods =
        watcher(Api::<Pod>::all(client), watcher::Config::default()).default_backoff().touched_objects();
    let mut pods = pods.boxed();
    loop {
        let Ok(pod) = pods.try_next().await else { continue };
        let Some(pod) = pod else { return Ok(()) };
        let Some((address, member)) = Member::of(&pod, &version) else { continue };
        if !address.is_loopback() || !served.insert(address) {
            continue;
        }
        let listener =
            TcpListener::bind((address, PORT)).await.with_context(|| format!("{address}:{PORT}"))?;
        tokio::spawn(listen(listener, Arc::new(member)));
    }
}

async fn listen(listener: TcpListener, member: Arc<Member>) {
    while let Ok((stream, _)) = listener.accept().await {
        let member = Arc::clone(&member);
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = member.answer(request.uri().path());
            async move { Ok::<_, Infallible>(response(answer)) }
        });
        tokio::spawn(async move {
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            // The caller handles connection errors.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

type Frames = stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>;

fn response(answer: Option<Vec<u8>>) -> Response<StreamBody<Frames>> {
    let mut trailers = HeaderMap::new();
    let status = HeaderValue::from_static(if answer.is_some() { "0" } else { UNIMPLEMENTED });
    trailers.insert("grpc-status", status);
    let mut frames = Vec::new();
    if let Some(answer) = answer {
        // Uncompressed flag and length.
        let mut message = vec![0];
        message.extend_from_slice(&u32::try_from(answer.len()).unwrap_or_default().to_be_bytes());
        message.extend_from_slice(&answer);
        frames.push(Ok(Frame::data(message.into())));
    }
    frames.push(Ok(Frame::trailers(trailers)));
    let mut response = Response::new(StreamBody::new(stream::iter(frames)));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}
