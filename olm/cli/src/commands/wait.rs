//! Waiting for an installation, telling each step; and the operations' errors as failures with exit codes.

use std::time::Duration;

use kube::Client;
use olm_ops::{Error, Installed, Kind, Progress, StepState, WaitOptions};

use crate::{
    exit::{Code, Failure},
    output::printable,
};

/// An operation's error, with the exit code of its class.
pub fn failure(error: Error) -> Failure {
    let code = match error.kind() {
        Kind::Unexpected => Code::Unexpected,
        Kind::NotFound => Code::NotFound,
        Kind::Refused => Code::Refused,
        Kind::Unresolvable => Code::Unresolvable,
        Kind::Timeout => Code::Timeout,
        Kind::Forbidden => Code::Forbidden,
        Kind::AwaitingApproval => Code::NeedsApproval,
    };
    let hint = error.hint();
    let failure = Failure::new(code, error.to_string());
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Waits until it runs; `csv` is the version to wait for, where that is known.
pub async fn installed(
    client: &Client,
    namespace: &str,
    target: &str,
    csv: Option<String>,
    timeout: Duration,
) -> Result<Installed, Failure> {
    let options = WaitOptions { timeout, csv };
    olm_ops::wait_installed(client, namespace, target, &options, tell).await.map_err(failure)
}

/// One line on standard error for each change that there is something to say of.
fn tell(progress: &Progress) {
    if progress.text.is_empty() {
        return;
    }
    let mark = match progress.state {
        StepState::Done => "✔",
        StepState::Failed => "✖",
        StepState::Waiting => "‖",
        StepState::Pending | StepState::Running => "…",
    };
    let seconds = progress.elapsed.as_secs_f64();
    eprintln!("{mark} {:<9} {} ({seconds:.1}s)", progress.step, printable(&progress.text));
}
