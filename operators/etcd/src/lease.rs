//! The leases of the controllers, and the work behind each.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use olm_client::lease::Elector;
use tokio_util::sync::CancellationToken;

/// Lease of the cluster controller. All three names are those of the programs of coreos/etcd-operator.
pub const NAME: &str = "etcd-operator";
/// Lease of the backup controller.
pub const BACKUP_NAME: &str = "etcd-backup-operator";
/// Lease of the restore controller.
pub const RESTORE_NAME: &str = "etcd-restore-operator";
/// Grace period for work in progress on shutdown; the next operator repeats what is lost.
const FINISH: Duration = Duration::from_secs(3);

/// Delay of a reconciliation that is skipped because the lease is not certainly held. A process that loses
/// the lease ends.
pub(crate) const UNLED: Duration = Duration::from_secs(1);

/// A candidate for a lease. It polls: the roles of coreos/etcd-operator have no permission to watch leases.
#[must_use]
pub fn elector(client: &Client, namespace: &str, name: &str, identity: &str) -> Elector {
    Elector::new(client.clone(), namespace, name, identity, Arc::default()).polling()
}

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
            tracing::warn!("reconciliations are interrupted; the next operator continues them");
            work.abort();
        }
        released.cancel();
    };
    tokio::join!(hold, finish).0
}
