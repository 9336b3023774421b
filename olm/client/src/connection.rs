//! Connections with a bounded time until a dead peer is detected.
//!
//! A node that loses power, a load balancer that drops a connection and a Service that moves to another
//! address send no FIN or RST. The client library waits 295 seconds for the next line of a watch, and a
//! request on such a connection fails only when the kernel gives up, a quarter of an hour later; Kubernetes'
//! own clients notice within 45 seconds, by HTTP/2 pings. Here TCP keep-alive of the kernel detects it, which
//! costs the API server nothing.

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client as Http, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _, retry::RetryPolicy},
};
use tower::{ServiceBuilder, retry::RetryLayer};

use crate::{forward, proxy::Route, unanswered::Unanswered};

/// Idle time of a connection before the first keep-alive probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
/// Interval and number of keep-alive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
/// Longest time that sent data stays unacknowledged (`TCP_USER_TIMEOUT`): the upper bound until a dead
/// connection ends.
const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// Retries of a request that the server refuses for the moment (429, 503, 504), as many as in client-go. The
/// delay doubles, or is the one that the server asks for.
const RETRIES: u32 = 10;
/// The first and the longest delay: without one from the server, a request fails after some three seconds. The
/// 15 retries of [`RetryPolicy::server_retry`] last for minutes: a Service without endpoints, which the API
/// server's proxy answers with 503, would look like a command that hangs.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// As [`Client::try_from`], with keep-alive and timeouts on the connector, and with proxies.
pub(crate) fn open(config: Config) -> Result<Client, kube::Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    // A request in several small packets would otherwise wait 40 ms for the acknowledgement of the first.
    connector.set_nodelay(true);
    connector.set_keepalive(Some(KEEPALIVE_IDLE));
    connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    connector.set_tcp_user_timeout(Some(USER_TIMEOUT));
    let (connector, proxy) = Route::new(&config, connector)?;
    // Around TLS too: a server that accepts and then sends nothing also runs into the timeouts.
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let unanswered = Unanswered::by(&config, proxy.as_ref());
    let (first, longest) = RETRY_DELAYS;
    let retry = RetryPolicy::new(first, longest, RETRIES, true).ok().filter(|_| config.default_retry);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retry.map(RetryLayer::new))
        .option_layer(config.auth_layer()?)
        .map_request(forward::token)
        .layer(config.extra_headers_layer()?)
        .map_err(unanswered)
        .service(Http::builder(TokioExecutor::new()).build::<_, Body>(connector));
    Ok(Client::new(service, config.default_namespace))
}

#[cfg(test)]
mod tests {
    use std::{
        net::{SocketAddr, TcpListener},
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
    };

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Kind of the active kernel timer of the connection from a port (2 is keep-alive).
    fn timer(from: SocketAddr, to: SocketAddr) -> Option<u8> {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let end = |address: SocketAddr| format!(":{:04X}", address.port());
        let line = table.lines().find(|line| {
            let mut fields = line.split_whitespace().skip(1);
            fields.next().is_some_and(|local| local.ends_with(&end(from)))
                && fields.next().is_some_and(|remote| remote.ends_with(&end(to)))
        })?;
        line.split_whitespace().nth(5)?.split(':').next()?.parse().ok()
    }

    #[tokio::test]
    async fn idle_connections_are_probed_by_keep_alive() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let config = Config::new(format!("http://{server}").parse().unwrap());
        // given a request that stays unanswered
        let client = open(config).unwrap();
        let response = tokio::spawn(async move { client.apiserver_version().await });
        let (stream, peer) = tokio::task::spawn_blocking(move || listener.accept().unwrap()).await.unwrap();
        // when the server's kernel has acknowledged what was sent, then the keep-alive timer of the client's
        // end runs
        let mut kind = None;
        for _ in 0..500 {
            kind = timer(peer, server);
            if kind == Some(2) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(kind, Some(2));
        drop(stream);
        assert!(response.await.unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stays_unavailable_is_given_up_within_seconds() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        // given a server that answers 503 to every request
        let requests = Arc::new(AtomicU32::new(0));
        let counted = requests.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let counted = counted.clone();
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    while stream.read(&mut request).await.is_ok_and(|n| n > 0) {
                        counted.fetch_add(1, Ordering::Relaxed);
                        let answer = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
                        if stream.write_all(answer).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        // when a request is made, on a clock that passes as soon as nothing else is to be done
        let begun = tokio::time::Instant::now();
        let client = open(Config::new(format!("http://{server}").parse().unwrap())).unwrap();
        assert!(client.apiserver_version().await.is_err());
        // then it is repeated for seconds and not for minutes
        assert_eq!(requests.load(Ordering::Relaxed), RETRIES + 1);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_server_that_accepts_without_a_handshake_times_out() {
        // given a listener whose kernel accepts and that has no process behind it
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let mut config = Config::new(url.parse().unwrap());
        config.connect_timeout = Some(Duration::from_millis(100));
        config.default_retry = false;
        // then the handshake ends
        let client = open(config).unwrap();
        let response = tokio::time::timeout(Duration::from_secs(60), client.apiserver_version()).await;
        assert!(response.expect("it is given up").is_err());
    }

    #[tokio::test]
    async fn an_error_names_the_server_and_the_cause() {
        // given a port without a listener
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let client = open(Config::new(url.parse().unwrap())).unwrap();
        let error = client.apiserver_version().await.unwrap_err().to_string();
        assert!(error.contains(&format!("no answer from {url}: Connection refused")), "{error}");
    }
}
