//! Waits for an installation with progress output; maps errors of operations to exit codes.

use std::time::Duration;

use kube::Client;
use olm_ops::{Error, Installed, Kind, Progress, StepState, WaitOptions};

use crate::{
    exit::{Code, Failure},
    prose::printable,
};

/// A failure with the exit code of the error's class.
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

/// Waits until the operator runs; `csv` is the expected version, if known.
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

/// Prints one line to standard error for each change with a message.
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
