//! Connections to the API server: direct, or through a proxy, as kubectl chooses it.
//!
//! The kubeconfig's `proxy-url` applies to every server. `HTTPS_PROXY` applies unless `NO_PROXY` lists the
//! server, and not to loopback addresses: the dev cluster and kind are there.

use std::{
    env,
    net::IpAddr,
    pin::Pin,
    task::{Context, Poll},
};

use futures::TryFutureExt as _;
use http::Uri;
use hyper_util::{
    client::{
        legacy::connect::{
            HttpConnector,
            proxy::{SocksV5, Tunnel},
        },
        proxy::matcher::{Intercept, Matcher},
    },
    rt::TokioIo,
};
use kube::Config;
use tokio::net::TcpStream;
use tower::{BoxError, Service};

/// The proxy variables of this process.
#[derive(Debug, Default)]
struct Environment {
    /// Of `HTTPS_PROXY`.
    proxy: Option<Uri>,
    /// Of `NO_PROXY`.
    except: String,
}

impl Environment {
    fn read() -> Self {
        let variable = |names: [&str; 2]| {
            names.into_iter().find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
        };
        Self {
            proxy: variable(["HTTPS_PROXY", "https_proxy"]).and_then(|url| url.parse().ok()),
            except: variable(["NO_PROXY", "no_proxy"]).unwrap_or_default(),
        }
    }
}

/// Opens connections to the API server.
#[derive(Clone)]
pub(crate) enum Route {
    Direct(HttpConnector),
    Http(Tunnel<HttpConnector>),
    Socks(SocksV5<HttpConnector>),
}

impl Route {
    /// The route to the server of a configuration, and the URL of the proxy.
    ///
    /// # Errors
    /// A proxy with another scheme than `http` and `socks5`.
    pub(crate) fn new(config: &Config, connector: HttpConnector) -> Result<(Self, Option<Uri>), kube::Error> {
        let Some(url) = &config.proxy_url else { return Ok((Self::Direct(connector), None)) };
        let Some(proxy) = choose(url, &Environment::read(), &config.cluster_url)? else {
            return Ok((Self::Direct(connector), None));
        };
        let address = proxy.uri().clone();
        let route = match address.scheme_str() {
            Some("http") => {
                let tunnel = Tunnel::new(address.clone(), connector);
                Self::Http(match proxy.basic_auth() {
                    Some(credentials) => tunnel.with_auth(credentials.clone()),
                    None => tunnel,
                })
            }
            Some("socks5" | "socks5h") => {
                let socks = SocksV5::new(address.clone(), connector);
                Self::Socks(match proxy.raw_auth() {
                    Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
                    None => socks,
                })
            }
            _ => return Err(unsupported(&address)),
        };
        Ok((route, Some(address)))
    }
}

/// The proxy for a server; none for a direct connection.
fn choose(url: &Uri, environment: &Environment, server: &Uri) -> Result<Option<Intercept>, kube::Error> {
    let matcher = |except: &str| Matcher::builder().all(url.to_string()).no(except).build();
    let proxy = matcher("").intercept(server).ok_or_else(|| unsupported(url))?;
    // The client library does not report the source of the URL.
    let is_of_environment = environment.proxy.as_ref() == Some(url);
    let is_excepted = is_loopback(server) || matcher(&environment.except).intercept(server).is_none();
    Ok(Some(proxy).filter(|_| !(is_of_environment && is_excepted)))
}

fn is_loopback(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The URL in the error has no credentials.
fn unsupported(proxy: &Uri) -> kube::Error {
    let (scheme, host) = (proxy.scheme_str().unwrap_or("http"), proxy.host().unwrap_or_default());
    let shown: Uri = format!("{scheme}://{host}").parse().unwrap_or_default();
    kube::Error::ProxyProtocolUnsupported { proxy_url: Box::new(shown) }
}

impl Service<Uri> for Route {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<TcpStream>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Self::Direct(direct) => Service::<Uri>::poll_ready(direct, context).map_err(Into::into),
            Self::Http(tunnel) => Service::<Uri>::poll_ready(tunnel, context).map_err(Into::into),
            Self::Socks(socks) => Service::<Uri>::poll_ready(socks, context).map_err(Into::into),
        }
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        match self {
            Self::Direct(direct) => Box::pin(direct.call(server).err_into::<BoxError>()),
            Self::Http(tunnel) => Box::pin(tunnel.call(server).err_into::<BoxError>()),
            Self::Socks(socks) => Box::pin(socks.call(server).err_into::<BoxError>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;
    use crate::connection::open;

    fn environment(proxy: &str, except: &str) -> Environment {
        Environment { proxy: proxy.parse().ok(), except: except.to_owned() }
    }

    fn chosen(url: &str, environment: &Environment, server: &str) -> Option<String> {
        let proxy = choose(&url.parse().unwrap(), environment, &server.parse().unwrap()).unwrap();
        proxy.map(|proxy| proxy.uri().to_string())
    }

    #[test]
    fn the_environments_proxy_has_exceptions_and_that_of_a_kubeconfig_has_none() {
        let url = "http://proxy.example:3128";
        let set = environment(url, "10.0.0.0/8,.internal.example");
        let through = Some("http://proxy.example:3128/".to_owned());
        assert_eq!(chosen(url, &set, "https://cluster.example:6443"), through);
        let direct = ["10.1.2.3", "api.internal.example", "127.0.0.1", "localhost", "[::1]"];
        for host in direct {
            assert_eq!(chosen(url, &set, &format!("https://{host}:6443")), None, "{host}");
        }
        // A kubeconfig's proxy is not the one of the environment.
        let other = environment("http://other.example:3128", "*");
        for host in direct {
            assert_eq!(chosen(url, &other, &format!("https://{host}:6443")), through, "{host}");
        }
        // Without a scheme it is an HTTP proxy, as in curl.
        let bare = environment("proxy.example:3128", "");
        assert_eq!(chosen("proxy.example:3128", &bare, "https://cluster.example"), through);
    }

    #[test]
    fn an_unsupported_proxy_is_an_error_without_its_password() {
        for url in ["ftp://user:secret@proxy.example:21", "https://user:secret@proxy.example:3128"] {
            let mut config = Config::new("https://cluster.example".parse().unwrap());
            config.proxy_url = Some(url.parse().unwrap());
            let error = Route::new(&config, HttpConnector::new()).err().unwrap();
            let text = format!("{error} {error:?}");
            assert!(text.contains("proxy.example") && !text.contains("secret"), "{text}");
        }
    }

    #[tokio::test]
    async fn requests_go_through_the_proxy_whose_refusal_is_reported() {
        // given a proxy that refuses to connect
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://user:secret@{}", listener.local_addr().unwrap());
        let asked = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(client.read_u8().await.unwrap());
            }
            client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await.unwrap();
            String::from_utf8(head).unwrap()
        });
        // when a server is requested through it
        let mut config = Config::new("https://cluster.example:6443".parse().unwrap());
        config.proxy_url = Some(proxy.parse().unwrap());
        let error = open(config).unwrap().apiserver_version().await.unwrap_err().to_string();
        // then it gets the server's name and the credentials, and the error names both servers
        let head = asked.await.unwrap();
        assert!(head.starts_with("CONNECT cluster.example:6443 HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"), "{head}");
        assert!(
            error.contains("no answer from https://cluster.example:6443 through proxy http://127."),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
}
