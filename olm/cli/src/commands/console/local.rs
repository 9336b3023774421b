//! `olm console` on a user's machine: the console on 127.0.0.1, with the identity of the kubeconfig.
//!
//! The console calls the API server with a client of the kubeconfig, in this process. Thus any kind of
//! credentials works, no port gives access to the API server, and credentials reach neither the browser nor the
//! disk. Catalogs come through the API server's service proxy, as for the other commands.
//!
//! Other users of the machine can connect to the port. To sign in they need one of two secrets:
//!
//! - a token of 256 random bits, which is sent only to this port and compared in constant time;
//! - the one-time link, valid for five minutes, which is printed to standard output. `--open` passes it to the
//!   browser as an argument, which other users may see in the list of processes, and is therefore opt-in.
//!
//! Sessions have the rules of the console in a pod: a page of another site is stopped by the check of `Host` (DNS
//! rebinding), by `SameSite` cookies and by the check of the origin. Probes, which need no session, make no request
//! to the API server. Browsers share the cookies of 127.0.0.1 between ports: a server of another local user
//! receives the session cookie if this user opens it in the same browser. The name of the cookie contains the port,
//! so that several consoles work in one browser. Nothing is written to disk; sessions end with the process.

use std::{
    net::{Ipv4Addr, TcpListener},
    process::Stdio,
};

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client, api::PostParams};
use tokio_util::sync::CancellationToken;

use crate::{
    args::{ConsoleArgs, Global},
    commands::{catalogs, login},
    context,
    exit::{Code, Failure},
    output::print_line,
    prose::printable,
    signals::on_termination,
};

/// The port, if it is free and no other is given.
const PORT: u16 = 8080;

pub async fn run(global: &Global, args: &ConsoleArgs) -> Result<(), Failure> {
    if let Some(option) = args.server_option() {
        return Err(Failure::new(Code::Usage, format!("{option} requires --listen"))
            .hint(format!("remove {option}, or add --listen ADDRESS")));
    }
    let stop = on_termination();
    tokio::select! {
        result = serve(global, args, stop.clone()) => result,
        () = stop.cancelled() => Ok(()),
    }
}

async fn serve(global: &Global, args: &ConsoleArgs, stop: CancellationToken) -> Result<(), Failure> {
    let config = context::config(global).await?;
    let cluster = config.cluster_url.to_string();
    let client = olm_client::connect(config)?;
    let user = user(&client).await?;
    catalogs::check_installed(&client).await?;
    let listener = listen(args.port)?;
    let base = format!("http://{}", listener.local_addr()?);
    let token = olm_web::random_token();
    let options = olm_web::Options {
        listener,
        access: olm_web::Access::Client { client, token: token.clone() },
        allowed_hosts: Vec::new(),
        tls: false,
        certificate: None,
        openid: None,
        trust_proxy: false,
        components_page: false,
    };
    let console = async {
        olm_web::run(options, stop).await.map_err(|e| Failure::new(Code::Unexpected, e.to_string()))
    };
    let announcement = async {
        let link = login::link(&base, &token).await?;
        print_line(&format!("console: {link}   (one-time link, valid for 5 minutes)"))?;
        eprintln!("user {} on {}; Ctrl-C stops the console", printable(&user), printable(&cluster));
        if args.open {
            open(&link);
        }
        Ok::<(), Failure>(())
    };
    tokio::try_join!(console, announcement)?;
    Ok(())
}

/// The user of the kubeconfig. Fails when the API server is unreachable or rejects the credentials.
async fn user(client: &Client) -> Result<String, Failure> {
    let reviews = Api::<SelfSubjectReview>::all(client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
    Ok(review.status.and_then(|status| status.user_info?.username).unwrap_or_default())
}

fn listen(port: Option<u16>) -> Result<TcpListener, Failure> {
    let bind = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let bound = match port {
        Some(port) => bind(port),
        None => bind(PORT).or_else(|_| bind(0)),
    };
    bound.map_err(|e| {
        let port = port.unwrap_or(PORT);
        Failure::new(Code::Unexpected, format!("failed to listen on 127.0.0.1:{port}: {e}"))
            .hint("use a free port: --port 0")
    })
}

/// Opens the link in the default browser.
fn open(link: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = tokio::process::Command::new(program)
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C stops the console and not the browser.
        .process_group(0)
        .spawn();
    if let Err(error) = started {
        eprintln!("warning: failed to run {program}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_an_error_only_if_it_is_given() {
        let taken = listen(Some(0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let failure = listen(Some(port)).unwrap_err();
        assert!(failure.message.starts_with(&format!("failed to listen on 127.0.0.1:{port}: ")));
        assert_eq!(failure.hints, ["use a free port: --port 0"]);
        // whether 8080 is free or not
        let (first, second) = (listen(None).unwrap(), listen(None).unwrap());
        assert_ne!(first.local_addr().unwrap(), second.local_addr().unwrap());
        assert!(first.local_addr().unwrap().ip().is_loopback());
    }
}
