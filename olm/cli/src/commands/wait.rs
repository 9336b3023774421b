//! Waits for an installation with progress output.

use std::time::Duration;

use kube::Client;
use olm_ops::{Installed, Progress, StepState, WaitOptions};

use crate::{exit::Failure, prose::printable};

/// Waits until the operator runs; `csv` is the expected version, if known.
pub async fn installed(
    client: &Client,
    namespace: &str,
    target: &str,
    csv: Option<String>,
    timeout: Duration,
) -> Result<Installed, Failure> {
    let options = WaitOptions { timeout, csv };
    olm_ops::wait_installed(client, namespace, target, &options, report_progress).await.map_err(Failure::from)
}

/// Prints one line to standard error for each change with a message.
fn report_progress(progress: &Progress) {
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
