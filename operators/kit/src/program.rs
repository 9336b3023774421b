//! The command line of an operator.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use kube::{Client, Config};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::operator::{Operator, Options};

/// The log filter. Callers log errors of the client library; and the library logs an answer that it cannot
/// parse in full, even a Secret.
const LOGGED: &str = "info,kube_client::client=off";
/// Exit code of a wrong command line.
const USAGE: u8 = 2;

/// A command of an operator.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Run { listen: Option<SocketAddr> },
    Describe,
    Version,
    Help,
}

/// The program of an operator: without arguments it runs until SIGTERM, `describe` prints
/// [`Operator::describe`], `--version` its version. `--listen ADDRESS` sets the address of probes and metrics.
///
/// In a pod it logs JSON, elsewhere text; `RUST_LOG` sets the filter. [`Options::from_env`] lists the other
/// variables.
#[must_use]
pub fn main(operator: Operator) -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let listen = match parse(&arguments) {
        Ok(Command::Run { listen }) => listen,
        Ok(Command::Describe) => return print(&format!("{:#}\n", operator.describe())),
        Ok(Command::Version) => return print(&format!("{} {}\n", operator.name, operator.version)),
        Ok(Command::Help) => return print(&usage(&operator.name)),
        Err(error) => {
            eprintln!("error: {error}\n\n{}", usage(&operator.name));
            return ExitCode::from(USAGE);
        }
    };
    log();
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider is already installed");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "failed to start the runtime");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(run(operator, listen));
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(operator: Operator, listen: Option<SocketAddr>) -> Result<(), Box<dyn std::error::Error>> {
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone())
        .map_err(|error| format!("failed to register signal handlers: {error}"))?;
    let config =
        Config::infer().await.map_err(|error| format!("failed to find a Kubernetes API server: {error}"))?;
    let client = Client::try_from(config)
        .map_err(|error| format!("failed to create a client for the Kubernetes API server: {error}"))?;
    let options = Options::from_env();
    let options = Options { listen: listen.or(options.listen), ..options };
    operator.run(client, options, shutdown).await.map_err(Into::into)
}

fn parse(arguments: &[String]) -> Result<Command, String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => Ok(Command::Run { listen: None }),
        ["describe"] => Ok(Command::Describe),
        ["--version" | "-V"] => Ok(Command::Version),
        ["--help" | "-h"] => Ok(Command::Help),
        ["--listen", address] => match address.parse() {
            Ok(address) => Ok(Command::Run { listen: Some(address) }),
            Err(_) => {
                Err(format!("--listen: `{address}` is not an address, expected HOST:PORT with an IP address"))
            }
        },
        ["--listen"] => Err("--listen: the address is missing, expected HOST:PORT".to_owned()),
        [unknown, ..] => Err(format!("unexpected argument `{unknown}`")),
    }
}

fn usage(name: &str) -> String {
    format!(
        "Usage: {name} [--listen ADDRESS]   Run the operator until SIGTERM\n       \
         {name} describe             Print kinds, rights and ports as JSON\n       \
         {name} --version            Print the version\n"
    )
}

fn print(text: &str) -> ExitCode {
    // A closed pipe is the reader's choice.
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn log() {
    let mut filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOGGED));
    // It logs answers of the API server, which can contain Secrets.
    if let Ok(off) = "kube_client::client=off".parse() {
        filter = filter.add_directive(off);
    }
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Kubernetes sets it in every container.
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        logs.json().init();
    } else {
        logs.with_ansi(false).init();
    }
}

fn stop_on_signal(shutdown: CancellationToken) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::info!("stopping");
        shutdown.cancel();
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Command, String> {
        parse(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_wrong_argument_is_refused_with_its_name() {
        assert_eq!(parsed(&[]), Ok(Command::Run { listen: None }));
        assert_eq!(parsed(&["describe"]), Ok(Command::Describe));
        let listen = parsed(&["--listen", "127.0.0.1:9"]);
        assert_eq!(listen, Ok(Command::Run { listen: Some(([127, 0, 0, 1], 9).into()) }));
        assert!(parsed(&["--listen", "here"]).is_err_and(|error| error.contains("`here`")));
        assert!(parsed(&["describe", "all"]).is_err_and(|error| error.contains("`describe`")));
        assert!(parsed(&["--listen"]).is_err());
    }

    #[test]
    fn answers_of_the_api_server_are_never_logged() {
        let logs = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(LOGGED)).finish();
        tracing::subscriber::with_default(logs, || {
            // the target under which the client library logs unparsable answers
            assert!(!tracing::enabled!(target: "kube_client::client", tracing::Level::ERROR));
            assert!(tracing::enabled!(target: "operator_kit::controller", tracing::Level::INFO));
        });
    }
}
