//! Ctrl-C and SIGTERM.

use tokio_util::sync::CancellationToken;

/// Resolves on Ctrl-C or SIGTERM.
pub async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers the default action of the signals ends the process.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// A token that is cancelled by Ctrl-C or SIGTERM.
pub fn on_termination() -> CancellationToken {
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        terminated().await;
        cancel.cancel();
    });
    token
}
