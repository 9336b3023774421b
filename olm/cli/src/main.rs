//! The command `olm`: installs, upgrades and removes operators; `olm up` starts a dev cluster.

mod args;
mod bars;
mod commands;
mod context;
mod exit;
mod names;
mod oci;
mod offline;
mod output;
mod pages;
mod plugin;
mod product;
mod prose;
mod removed;
mod signals;
mod source;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use clap_complete::CompleteEnv;

/// Returns unused memory to the system soon; see `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // The node agent starts this binary again as a pod's first process, which must run before anything else.
    #[cfg(feature = "devcluster")]
    olm_devcluster::node::maybe_run_helper();

    if completes() {
        return ExitCode::SUCCESS;
    }
    let args = match args::Args::from_arg_matches(&plugin::command().get_matches()) {
        Ok(args) => args,
        Err(error) => error.exit(),
    };

    // A user namespace can only be entered while the process has a single thread.
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
    // Blocking threads (standard input, DNS) must not delay the exit.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            bars::clear();
            failure.print(color);
            ExitCode::from(failure.code.as_u8())
        }
    }
}

/// Handles a shell's request for completion; errors are suppressed, as they would appear in the middle of the
/// command line.
fn completes() -> bool {
    let is_completer = plugin::is_completer();
    // The variable of a refresh has no effect on other commands.
    if (is_completer || std::env::var_os(args::COMPLETE).is_some()) && names::is_refresh() {
        return true;
    }
    if is_completer {
        // A closed pipe is not an error.
        _ = plugin::complete();
        return true;
    }
    let here = std::env::current_dir().ok();
    let done = CompleteEnv::with_factory(args::Args::command)
        .var(args::COMPLETE)
        .try_complete(std::env::args_os(), here.as_deref());
    done.unwrap_or(true)
}

/// Log filter. Callers report errors of the client library; its own log would contain the full unparsable
/// response, possibly a Secret.
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

/// Logs go to standard error; `OLM_LOG` sets the filter (default: warnings, and progress of servers).
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
                // target of the client library's log of unparsable responses
                assert!(!enabled!(target: "kube_client::client", Level::ERROR));
                assert!(enabled!(target: "olm_manager::run", Level::ERROR));
            });
        }
    }
}
