//! Work that needs a lease.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Elector;

/// Grace period for work in progress on shutdown; the next leader repeats what is lost.
const FINISH: Duration = Duration::from_secs(3);

/// Works while the lease is held. On `stop` the lease is released after the work, which has three seconds
/// to finish; when the lease is lost, the work is aborted, `stop` is cancelled and the result is false.
pub async fn lead<F, W>(elector: Elector, stop: CancellationToken, work: F) -> bool
where
    F: FnOnce(CancellationToken) -> W,
    W: Future<Output = ()> + Send + 'static,
{
    let Some(held) = elector.acquire(&stop).await else { return true };
    let mut work = tokio::spawn(work(stop.child_token()));
    let (abort, released) = (work.abort_handle(), CancellationToken::new());
    let hold = async {
        let kept = elector.hold(held, &released).await;
        if !kept {
            abort.abort();
            stop.cancel();
        }
        kept
    };
    let finish = async {
        stop.cancelled().await;
        if tokio::time::timeout(FINISH, &mut work).await.is_err() {
            tracing::warn!("reconciliations are interrupted; the next leader continues them");
            work.abort();
        }
        released.cancel();
    };
    tokio::join!(hold, finish).0
}
