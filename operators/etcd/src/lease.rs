//! The leases of the controllers.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use olm_client::lease::Elector;

pub use olm_client::lease::lead;

/// Lease of the cluster controller. All three names are those of the programs of coreos/etcd-operator.
pub const NAME: &str = "etcd-operator";
/// Lease of the backup controller.
pub const BACKUP_NAME: &str = "etcd-backup-operator";
/// Lease of the restore controller.
pub const RESTORE_NAME: &str = "etcd-restore-operator";

/// Delay of a reconciliation that is skipped because the lease is not certainly held. A process that loses
/// the lease ends.
pub(crate) const UNLED: Duration = Duration::from_secs(1);

/// A candidate for a lease. It polls: the roles of coreos/etcd-operator have no permission to watch leases.
#[must_use]
pub fn elector(client: &Client, namespace: &str, name: &str, identity: &str) -> Elector {
    Elector::new(client.clone(), namespace, name, identity, Arc::default()).polling()
}
