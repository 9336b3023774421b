//! Waits for the CustomResourceDefinitions of this version.

use std::time::Duration;

use olm_ops::manifests::definitions::outdated;
use tokio_util::sync::CancellationToken;

use crate::context::Ctx;

/// Interval of the checks while they are outdated.
const INTERVAL: Duration = Duration::from_secs(5);
/// Retry interval after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// Waits until no CustomResourceDefinition of olm lacks a field of this version; `false` on shutdown.
///
/// The API server drops the values of missing fields: a status would differ from the computed one after every
/// write, and a plan would lose its digest. A replica that waits is not ready and does not compete for the
/// lease, so that replicas of an earlier version continue.
pub(crate) async fn wait_until_current(ctx: &Ctx, stop: &CancellationToken) -> bool {
    let mut reported = Vec::new();
    loop {
        let pause = match outdated(&ctx.client).await {
            Ok(found) if found.is_empty() => return true,
            Ok(found) => {
                if found != reported {
                    tracing::warn!(
                        "waiting for the CustomResourceDefinitions of this version: {}; apply them with `olm self \
                         upgrade`, or with `kubectl apply --server-side` from the folder crds/ of the chart",
                        found.join("; ")
                    );
                    reported = found;
                }
                INTERVAL
            }
            // Without the right to read them, which the manifests grant, the controllers start.
            Err(error) if error.is_forbidden() => {
                tracing::warn!(%error, "failed to check the CustomResourceDefinitions");
                return true;
            }
            Err(error) => {
                tracing::warn!(%error, "failed to check the CustomResourceDefinitions, retrying");
                RETRY
            }
        };
        tokio::select! {
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
