//! Listening.

use std::{net::TcpListener, sync::Arc};

use tokio_util::sync::CancellationToken;

pub use crate::tls::TlsFiles;
use crate::{
    api_server::ApiServer,
    app,
    app::App,
    catalogs::Catalogs,
    connections::{self, Limits},
    openid::{OpenId, OpenIdOptions},
    security::AllowedHosts,
    tls,
};

/// What the console needs to know.
#[derive(Debug)]
pub struct Options {
    /// Where it listens; the caller binds, so that a taken port is the caller's message.
    pub listener: TcpListener,
    /// The API server: URL and certificate authority. Credentials in it are ignored: each call carries the user's.
    pub api_server: kube::Config,
    /// The manager's HTTP port, for catalogs.
    pub catalog_base_url: String,
    /// Host names under which the console may be asked for, beside loopback and the in-cluster Service names.
    pub allowed_hosts: Vec<String>,
    /// Whether it is reached by TLS (by an ingress in front of it): cookies become `Secure`, and HSTS is sent.
    pub tls: bool,
    /// Its certificate; without one it speaks plain HTTP.
    pub certificate: Option<TlsFiles>,
    /// Signing in at an OpenID Connect provider.
    pub openid: Option<OpenIdOptions>,
    /// Whether a proxy in front of it overwrites `X-Forwarded-For` and `X-Forwarded-Proto`: limits count by the address that it
    /// names, and cookies become `Secure` when it says `https`. Without such a proxy, clients could name any address.
    pub trust_proxy: bool,
}

/// Why the console does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The catalog address is none.
    #[error("failed to set up the console: {0}")]
    Catalogs(#[from] olm_engine::catalogs::FetchError),
    /// An option of OpenID Connect cannot be used.
    #[error(transparent)]
    OpenId(#[from] olm_oidc::Error),
    /// The certificate cannot be used.
    #[error("failed to set up TLS: {0}")]
    Tls(String),
    /// The socket does not work.
    #[error("failed to serve the console: {0}")]
    Listen(#[from] std::io::Error),
}

/// Serves the console until `shutdown`.
///
/// # Errors
/// When the options are wrong or the socket fails.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), Error> {
    let Options { listener, api_server, catalog_base_url, allowed_hosts, tls, trust_proxy, .. } = options;
    let certificate = options.certificate;
    let mut app = App::new(
        ApiServer::new(api_server),
        Catalogs::remote(&catalog_base_url)?,
        AllowedHosts::new(allowed_hosts),
        tls || certificate.is_some(),
        trust_proxy,
        shutdown.clone(),
    );
    app.openid = options.openid.map(OpenId::new).transpose()?;
    let acceptor =
        certificate.map(|files| tls::acceptor(files, shutdown.clone())).transpose().map_err(Error::Tls)?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    tracing::info!(address = %listener.local_addr()?, "console is listening");
    let router = app::router(Arc::new(app));
    // Behind a proxy all connections are the proxy's.
    let per_client = if trust_proxy { Limits::DEFAULT.total } else { Limits::DEFAULT.per_client };
    // Event streams end when `shutdown` is cancelled, so this does not wait for open tabs.
    connections::serve(listener, acceptor, router, Limits { per_client, ..Limits::DEFAULT }, shutdown).await;
    Ok(())
}
