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

use crate::{forward, unanswered::Unanswered};

/// Idle time of a connection before the first keep-alive probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
/// Interval and number of keep-alive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
/// Longest time that sent data stays unacknowledged (`TCP_USER_TIMEOUT`): the upper bound until a dead
/// connection ends.
const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// As [`Client::try_from`], with keep-alive and timeouts on the connector. A configuration with a proxy falls
/// back to that function.
pub(crate) fn open(config: Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    // A request in several small packets would otherwise wait 40 ms for the acknowledgement of the first.
    connector.set_nodelay(true);
    connector.set_keepalive(Some(KEEPALIVE_IDLE));
    connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    connector.set_tcp_user_timeout(Some(USER_TIMEOUT));
    // Around TLS too: a server that accepts and then sends nothing also runs into the timeouts.
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let unanswered = Unanswered::by(&config);
    let retry = config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retry)
        .option_layer(config.auth_layer()?)
        .map_request(forward::token)
        .layer(config.extra_headers_layer()?)
        .map_err(unanswered)
        .service(Http::builder(TokioExecutor::new()).build::<_, Body>(connector));
    Ok(Client::new(service, config.default_namespace))
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};

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
