//! The command `olm`: installs, upgrades and removes operators; `olm up` starts a cluster to do it in.

mod args;
mod commands;
mod context;
mod exit;
mod names;
mod oci;
mod offline;
mod output;
mod pages;
mod prose;
mod removed;
mod source;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use clap_complete::CompleteEnv;

/// What a page of a list or a catalog needed for a moment goes back to the system soon; see `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // The node agent starts this very binary again as a pod's first process: that must come before anything else.
    #[cfg(feature = "devcluster")]
    olm_devcluster::node::maybe_run_helper();

    if completes() {
        return ExitCode::SUCCESS;
    }
    let args = args::Args::parse();

    // A user namespace can only be entered while the process has one thread.
    #[cfg(feature = "devcluster")]
    if matches!(args.command, args::Command::Up(_)) {
        olm_devcluster::node::enter_user_namespace_if_needed();
    }

    init_tracing(&args);
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("error: a TLS provider is already installed");
        return ExitCode::FAILURE;
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: failed to start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let color = args.global.color.enabled_on_stderr();
    let result = runtime.block_on(commands::run(args));
    // Blocking threads (standard input, DNS) must not hold up the exit.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(color);
            ExitCode::from(failure.code.as_u8())
        }
    }
}

/// Answers a shell that wants to complete a line; whatever goes wrong there, nobody wants to read in the middle of it.
fn completes() -> bool {
    let here = std::env::current_dir().ok();
    let done = CompleteEnv::with_factory(args::Args::command)
        .var(args::COMPLETE)
        .try_complete(std::env::args_os(), here.as_deref());
    done.unwrap_or(true)
}

/// What is logged. The client library's own errors are told by whoever asked; and an answer that it cannot read it would log whole, were it
/// a Secret.
const fn logged(serving: bool, verbose: u8) -> &'static str {
    match (serving, verbose) {
        (true, 0) => "info,kube=warn,hyper=warn,kube_client::client=off",
        (false, 0) => "error,kube_client::client=off,rustls_platform_verifier=off",
        (false, 1) => "info,kube=warn,kube_client::client=off,rustls_platform_verifier=off",
        _ => {
            "debug,hyper=info,h2=info,rustls=info,kube_client::client=off,kube_client::client::builder=debug"
        }
    }
}

/// Logs go to standard error; `OLM_LOG` chooses what (default: warnings, and the servers' own progress).
fn init_tracing(args: &args::Args) {
    use tracing_subscriber::{EnvFilter, fmt};
    let serving = args.command.is_server();
    let filter = EnvFilter::try_from_env("OLM_LOG")
        .unwrap_or_else(|_| EnvFilter::new(logged(serving, args.global.verbose)));
    let color = args.global.color.enabled_on_stderr();
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(color);
    if serving && args.command.log_format() == args::LogFormat::Json {
        builder.json().flatten_event(true).init();
    } else {
        builder.with_target(false).without_time().init();
    }
}

#[cfg(test)]
mod tests {
    use tracing::{Level, enabled};
    use tracing_subscriber::{EnvFilter, fmt};

    #[test]
    fn answers_of_the_api_server_are_never_logged() {
        for (serving, verbose) in [(true, 0), (true, 1), (false, 0), (false, 1), (false, 2)] {
            let filter = EnvFilter::new(super::logged(serving, verbose));
            tracing::subscriber::with_default(fmt().with_env_filter(filter).finish(), || {
                // where the client library writes answers that it cannot read
                assert!(!enabled!(target: "kube_client::client", Level::ERROR));
                assert!(enabled!(target: "olm_manager::run", Level::ERROR));
            });
        }
    }
}
