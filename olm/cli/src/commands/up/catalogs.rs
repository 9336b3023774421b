//! Reports the catalogs of `olm up --catalog` that the manager fetches. The cluster is usable without them,
//! so a registry that does not respond is a warning.

use std::time::{Duration, Instant};

use kube::{Api, Client};
use olm_api::CatalogSource;
use olm_engine::site::manager_namespace;
use olm_ops::catalogs::{Reading, reading};

use crate::{args::UpCatalog, commands::progress::Progress, output::count, prose::printable};

/// Time for a registry to respond before the warning.
const LIMIT: Duration = Duration::from_secs(5);
/// Interval of polling for the state.
const LOOK: Duration = Duration::from_millis(200);

pub async fn report(progress: &Progress, client: &Client, catalogs: &[UpCatalog]) {
    let api = Api::<CatalogSource>::namespaced(client.clone(), manager_namespace());
    let start = Instant::now();
    let remote = |catalog: &UpCatalog| match catalog {
        UpCatalog::Remote { name, .. } => Some(name.clone()),
        UpCatalog::Directory { .. } => None,
    };
    let mut pending: Vec<String> = catalogs.iter().filter_map(remote).collect();
    while !pending.is_empty() {
        let is_late = start.elapsed() > LIMIT;
        let mut left = Vec::new();
        for name in pending {
            let seen = match api.get(&name).await {
                Ok(source) => reading(&source),
                Err(_) => Reading::Pending("the API server does not respond"),
            };
            match seen {
                Reading::Ready(packages) => {
                    progress.done(&format!("catalog {name}: {}", count(packages, "package")));
                }
                Reading::Failed { message, .. } => warn(&name, &message),
                Reading::Pending(state) if is_late => warn(&name, state),
                Reading::Pending(_) => left.push(name),
            }
        }
        pending = left;
        tokio::time::sleep(LOOK).await;
    }
}

fn warn(name: &str, state: &str) {
    let state = printable(state);
    eprintln!("warning: catalog {name} is not ready: {state}");
    eprintln!("the manager continues to read it; `olm catalog sources` shows its state");
}
