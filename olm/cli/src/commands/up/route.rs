//! A route from the manager's pod to registries: an HTTP proxy of this process, which accepts CONNECT only.
//!
//! Pods of the dev cluster have no route to the network of the machine. The proxy exists when the manager
//! fetches a catalog of `olm up --catalog`. It listens in the cluster network, where pods reach it and other
//! users of the machine do not. It does not connect to this machine: pods must not reach its programs.

use std::{
    io,
    net::{IpAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use olm_catalog_sources::Policy;
use olm_devcluster::DevCluster;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::AbortHandle,
    time::timeout,
};

use super::refused;
use crate::exit::Failure;

/// Maximum size of the head of a request.
const LARGEST: usize = 8 << 10;
/// Maximum number of connections: pods must not use up the file descriptors of the cluster.
const CONNECTIONS: usize = 64;
/// Time for the head of a request, and for a connection.
const LIMIT: Duration = Duration::from_secs(10);
/// Maximum duration of a tunnel: idle ones must not use up the connections.
const TUNNEL: Duration = Duration::from_secs(3600);
/// Port of the proxy in the cluster network. It is the same at each start, because the manager's pod has it in its
/// environment; it is neither an ephemeral port nor one that users forward with `--host-port`.
const PORT: u16 = 63128;

/// The proxy; it accepts no connections after this is dropped.
pub struct Route {
    /// Port of `host.olm.internal`.
    pub port: u16,
    task: AbortHandle,
}

impl Route {
    /// Opens the proxy for the pods of the cluster; `None` where pods cannot run.
    pub async fn open(cluster: &DevCluster) -> Result<Option<Self>, Failure> {
        let Some(listener) = cluster.listen_for_pods(PORT).await.map_err(refused)? else { return Ok(None) };
        Ok(Some(Self::serve(TcpListener::from_std(listener)?)?))
    }

    fn serve(listener: TcpListener) -> io::Result<Self> {
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            let permits = Arc::new(Semaphore::new(CONNECTIONS));
            loop {
                match listener.accept().await {
                    Ok((client, _)) => {
                        // Beyond the limit, the connection is closed.
                        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else { continue };
                        tokio::spawn(async move {
                            tunnel(client).await;
                            drop(permit);
                        });
                    }
                    // Most likely out of file descriptors: wait until some are free again.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        Ok(Self { port, task: task.abort_handle() })
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn tunnel(mut client: TcpStream) {
    let Ok(Ok(head)) = timeout(LIMIT, read_head(&mut client)).await else { return };
    let refusal = match target(&head) {
        None => "405 Method Not Allowed",
        Some((host, port)) => match timeout(LIMIT, connect(&host, port)).await {
            Ok(Ok(mut server)) => {
                if client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok() {
                    // An end of one direction is forwarded to the other side.
                    let _ = timeout(TUNNEL, copy_bidirectional(&mut client, &mut server)).await;
                }
                return;
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => "403 Forbidden",
            Ok(Err(_)) => "502 Bad Gateway",
            Err(_) => "504 Gateway Timeout",
        },
    };
    let answer = format!("HTTP/1.1 {refusal}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let _ = client.write_all(answer.as_bytes()).await;
}

/// Reads up to the empty line. The bytes after it belong to the tunnel.
async fn read_head(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == LARGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.push(client.read_u8().await?);
    }
    Ok(head)
}

/// Host and port of a CONNECT request.
fn target(head: &[u8]) -> Option<(String, u16)> {
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    let (host, port) = line.strip_prefix("CONNECT ")?.split(' ').next()?.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some((host.to_owned(), port.parse().ok()?))
}

async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
    // The rules of the manager, which does not resolve names behind a proxy.
    let resolved = Policy::default().resolve(host, port).await;
    // Other errors than those of the lookup are denials.
    let addresses =
        resolved.map_err(|error| error.downcast::<io::Error>().map_or_else(|_| denied(), |error| *error))?;
    if addresses.iter().any(|address| is_own(address.ip())) {
        return Err(denied());
    }
    TcpStream::connect(addresses.as_slice()).await
}

/// Whether the address is one of this machine: others cannot be bound.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    async fn open() -> Route {
        Route::serve(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap()).unwrap()
    }

    #[test]
    fn only_connect_requests_have_a_target() {
        let parsed = |text: &str| target(text.as_bytes());
        assert_eq!(parsed("CONNECT quay.io:443 HTTP/1.1\r\n\r\n"), Some(("quay.io".into(), 443)));
        assert_eq!(parsed("CONNECT [::1]:443 HTTP/1.1\r\n\r\n"), Some(("::1".into(), 443)));
        for wrong in
            ["GET http://a/ HTTP/1.1\r\n\r\n", "CONNECT a HTTP/1.1\r\n\r\n", "CONNECT a:99999 H\r\n", ""]
        {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_are_closed() {
        let route = open().await;
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            open.push(TcpStream::connect((Ipv4Addr::LOCALHOST, route.port)).await.unwrap());
        }
        let mut one_more = TcpStream::connect((Ipv4Addr::LOCALHOST, route.port)).await.unwrap();
        let closed = timeout(LIMIT / 2, one_more.read_u8()).await.expect("closed before the limit of a head");
        assert!(closed.is_err());
    }

    #[tokio::test]
    async fn the_proxy_does_not_connect_to_this_machine() {
        let route = open().await;
        for address in ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "169.254.169.254"] {
            let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, route.port)).await.unwrap();
            let request = format!("CONNECT {address}:{} HTTP/1.1\r\nhost: a\r\n\r\n", route.port);
            client.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 403 "), "{address}: {answer}");
        }
    }
}
