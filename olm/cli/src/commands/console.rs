//! `olm console`: the web console, in its pod.

use crate::{
    args::{ConsoleArgs, Global},
    commands::manager::on_termination,
    context,
    exit::{Code, Failure},
};

pub async fn run(global: &Global, args: ConsoleArgs) -> Result<(), Failure> {
    let listener = std::net::TcpListener::bind(args.listen)
        .map_err(|e| Failure::new(Code::Unexpected, format!("failed to listen on {}: {e}", args.listen)))?;
    let options = olm_web::Options {
        listener,
        api_server: context::config(global).await?,
        catalog_base_url: args.catalogs,
        allowed_hosts: args.allowed_hosts,
        tls: args.tls,
        trust_proxy: args.trust_proxy,
    };
    olm_web::run(options, on_termination()).await.map_err(|e| Failure::new(Code::Unexpected, e.to_string()))
}
