//! `olm console`: the web console, on a user's machine or in its pod.

mod local;

use std::{net::SocketAddr, time::Duration};

use crate::{
    args::{ConsoleArgs, Global, OidcArgs},
    context,
    exit::{Code, Failure},
    signals::on_termination,
};

pub async fn run(global: &Global, args: ConsoleArgs) -> Result<(), Failure> {
    match args.listen {
        Some(address) => serve(global, address, args).await,
        None => local::run(global, &args).await,
    }
}

/// In a pod: each user signs in with a token.
async fn serve(global: &Global, address: SocketAddr, args: ConsoleArgs) -> Result<(), Failure> {
    let listener = olm_client::listen(address)
        .await
        .and_then(tokio::net::TcpListener::into_std)
        .map_err(|e| Failure::new(Code::Unexpected, format!("failed to listen on {address}: {e}")))?;
    let certificate = args.tls_cert_file.zip(args.tls_private_key_file);
    let options = olm_web::Options {
        listener,
        access: olm_web::Access::Tokens {
            api_server: Box::new(context::config(global).await?),
            catalog_base_url: args.catalogs,
        },
        allowed_hosts: args.allowed_hosts,
        tls: args.tls,
        certificate: certificate.map(|(certificate, key)| olm_web::TlsFiles { certificate, key }),
        openid: openid(args.oidc),
        trust_proxy: args.trust_proxy,
        components_page: args.components_page,
    };
    olm_web::run(options, on_termination()).await.map_err(|e| Failure::new(Code::Unexpected, e.to_string()))
}

fn openid(args: OidcArgs) -> Option<olm_web::OpenIdOptions> {
    let (issuer, client_id) = args.issuer.zip(args.client_id)?;
    Some(olm_web::OpenIdOptions {
        settings: olm_oidc::Settings {
            issuer,
            client_id,
            client_secret_file: args.client_secret_file,
            scopes: args.scopes,
            ca_file: args.ca_file,
            timeout: Duration::from_secs(10),
            clock: olm_oidc::Clock::default(),
        },
        callback_url: args.callback_url,
        username_claim: args.username_claim,
        username_prefix: args.username_prefix,
        groups_claim: args.groups_claim,
        groups_prefix: args.groups_prefix,
    })
}
