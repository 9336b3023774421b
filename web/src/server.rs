use std::{fmt, net::TcpListener, sync::Arc};

use tokio_util::sync::CancellationToken;

pub use crate::tls::TlsFiles;
use crate::{
    api_server::ApiServer,
    app::App,
    catalogs::Catalogs,
    client::AllowedHosts,
    connections::{self, Limits},
    openid::{OpenId, OpenIdOptions},
    routes, session, tls,
};

/// Options of the console.
#[derive(Debug)]
pub struct Options {
    /// Bound by the caller, which reports an address in use.
    pub listener: TcpListener,
    pub access: Access,
    /// Allowed values of `Host`, in addition to loopback and the in-cluster Service names.
    pub allowed_hosts: Vec<String>,
    /// Whether an ingress terminates TLS for it: cookies become `Secure`, and HSTS is sent.
    pub tls: bool,
    /// Certificate; without one the console serves plain HTTP.
    pub certificate: Option<TlsFiles>,
    /// Sign-in at an OpenID Connect provider.
    pub openid: Option<OpenIdOptions>,
    /// Whether a proxy in front of it overwrites `X-Forwarded-For` and `X-Forwarded-Proto`: limits count by
    /// the forwarded address, and cookies become `Secure` when the protocol is `https`. Without such a proxy,
    /// clients could forge the address.
    pub trust_proxy: bool,
    /// Whether `/dev/components` shows the components of the pages, for the development of the console.
    pub components_page: bool,
}

/// How the console reaches the API server and the manager, and as which user.
pub enum Access {
    /// As the signed-in user: each call carries the user's bearer token.
    Tokens {
        /// URL and certificate authority of the API server; credentials in it are ignored.
        api_server: Box<kube::Config>,
        /// The manager's HTTP port, for catalogs.
        catalog_base_url: String,
    },
    /// As one user, with any kind of credentials. Catalogs come through the API server's service proxy.
    Client {
        /// A client with the user's credentials, of [`olm_client::connect`].
        client: kube::Client,
        /// The only token that signs in to the console, of [`random_token`]. It is not sent anywhere.
        token: String,
    },
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tokens { .. } => "Tokens",
            Self::Client { .. } => "Client",
        })
    }
}

/// A token of 256 random bits, for [`Access::Client`].
#[must_use]
pub fn random_token() -> String {
    session::random_text()
}

/// Why the console failed to run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Invalid catalog URL.
    #[error("failed to set up the console: {0}")]
    Catalogs(#[from] olm_engine::catalogs::FetchError),
    /// Invalid OpenID Connect option.
    #[error(transparent)]
    OpenId(#[from] olm_oidc::Error),
    /// Invalid certificate.
    #[error("failed to set up TLS: {0}")]
    Tls(String),
    /// Socket error.
    #[error("failed to serve the console: {0}")]
    Listen(#[from] std::io::Error),
}

/// Serves the console until `shutdown`.
///
/// # Errors
/// Invalid options, or a socket error.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), Error> {
    let Options { listener, access, allowed_hosts, tls, trust_proxy, .. } = options;
    let certificate = options.certificate;
    let address = listener.local_addr()?;
    let mut session_name = session::COOKIE.to_owned();
    let (api_server, catalogs) = match access {
        Access::Tokens { api_server, catalog_base_url } => {
            (ApiServer::new(*api_server), Catalogs::remote(&catalog_base_url)?)
        }
        Access::Client { client, token } => {
            session_name = session::cookie_of_port(address.port());
            (ApiServer::of_client(client.clone(), token), Catalogs::service_proxy(client))
        }
    };
    let mut app = App::new(
        api_server,
        catalogs,
        AllowedHosts::new(allowed_hosts),
        tls || certificate.is_some(),
        trust_proxy,
        shutdown.clone(),
    );
    app.session_name = session_name;
    app.components_page = options.components_page;
    app.openid = options.openid.map(OpenId::new).transpose()?;
    let acceptor =
        certificate.map(|files| tls::acceptor(files, shutdown.clone())).transpose().map_err(Error::Tls)?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    tracing::info!(%address, "console is listening");
    let router = routes::router(Arc::new(app));
    // Behind a proxy all connections have the address of the proxy.
    let per_client = if trust_proxy { Limits::DEFAULT.total } else { Limits::DEFAULT.per_client };
    // Event streams end when `shutdown` is cancelled, so open tabs do not delay it.
    connections::serve(listener, acceptor, router, Limits { per_client, ..Limits::DEFAULT }, shutdown).await;
    Ok(())
}
