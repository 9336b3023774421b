//! `olm catalog refresh`: requests that the manager reads catalogs again.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use olm_api::CatalogSource;
use olm_ops::catalogs::{ClusterCatalog, Reading, reading};

use super::remove::named;
use crate::{
    args::{CatalogRefreshArgs, Global},
    commands::catalogs,
    context,
    exit::{Code, Failure},
    output::Listing,
};

/// Interval of polling for the state of the catalogs.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub async fn run(global: &Global, args: CatalogRefreshArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let chosen = chosen(global, &client, args.name.as_deref()).await?;
    let now = Timestamp::now();
    let mut sources = Vec::new();
    for source in chosen {
        let patched = olm_ops::catalogs::refresh(&client, &source, now).await?;
        eprintln!("requested a refresh of CatalogSource {}", place(&patched));
        sources.push(patched);
    }
    let deadline = Instant::now() + args.wait.timeout;
    let mut rows = Vec::new();
    for source in sources {
        let source = match args.wait.wait {
            true => handled(&api_of(&client, &source), source, &now.to_string(), deadline).await?,
            false => source,
        };
        rows.push(ClusterCatalog::of(&source));
    }
    Listing {
        items: &rows,
        columns: &[
            ("NAME", |row| row.name.clone()),
            ("NAMESPACE", |row| row.namespace.clone()),
            ("PACKAGES", |row| row.packages.map(|packages| packages.to_string()).unwrap_or_default()),
            ("STATE", |row| row.state.clone()),
        ],
        wide: &[("SOURCE", |row| row.source.clone())],
        name: |row| format!("{}/{}", row.namespace, row.name),
        empty: "No catalogs found; add one with `olm catalog add`.",
    }
    .print(&args.out)
}

/// The named CatalogSource, or all.
async fn chosen(global: &Global, client: &Client, name: Option<&str>) -> Result<Vec<CatalogSource>, Failure> {
    let Some(name) = name else {
        let api: Api<CatalogSource> = match &global.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        return match api.list(&ListParams::default()).await {
            Ok(list) => Ok(list.items),
            Err(error) => Err(catalogs::failed(client, error).await),
        };
    };
    Ok(vec![named(global, client, name).await?])
}

fn api_of(client: &Client, source: &CatalogSource) -> Api<CatalogSource> {
    Api::namespaced(client.clone(), &source.namespace().unwrap_or_default())
}

fn place(source: &CatalogSource) -> String {
    format!("{}/{}", source.namespace().unwrap_or_default(), source.name_any())
}

/// Waits until the read that `requested` asks for has ended.
async fn handled(
    api: &Api<CatalogSource>,
    mut source: CatalogSource,
    requested: &str,
    deadline: Instant,
) -> Result<CatalogSource, Failure> {
    while source.status.as_ref().and_then(|status| status.last_handled_refresh.as_deref()) != Some(requested)
    {
        if Instant::now() >= deadline {
            let text = format!("timed out waiting for catalog {}", place(&source));
            return Err(Failure::new(Code::Timeout, text)
                .hint("the manager continues; `olm catalog list` shows the state")
                .hint("check the manager: olm self status"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        source = api.get(&source.name_any()).await?;
    }
    match reading(&source) {
        Reading::Failed { message, .. } => {
            let text = format!("failed to read catalog {}: {message}", place(&source));
            Err(Failure::new(Code::Unexpected, text).hint("fix the cause; the manager retries automatically"))
        }
        Reading::Ready(_) | Reading::Pending(_) => Ok(source),
    }
}
