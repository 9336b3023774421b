//! `olm catalog sources`: the CatalogSources of a cluster and their state.

use jiff::Timestamp;
use kube::{Api, api::ListParams};
use olm_api::CatalogSource;
use olm_ops::catalogs::ClusterCatalog;

use crate::{
    args::{CatalogSourcesArgs, Global},
    commands::catalogs,
    context,
    exit::{Code, Failure},
    output::{Listing, age},
};

pub async fn run(global: &Global, args: CatalogSourcesArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let api: Api<CatalogSource> = match &global.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list,
        Err(error) => {
            let failure = catalogs::failed(&client, error).await;
            return Err(match failure.code {
                Code::Forbidden if global.namespace.is_none() => {
                    failure.hint("list the catalogs of one namespace with -n NAMESPACE")
                }
                _ => failure,
            });
        }
    };
    let mut rows: Vec<ClusterCatalog> = list.items.iter().map(ClusterCatalog::of).collect();
    rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Listing {
        items: &rows,
        columns: &[
            ("NAME", |row| row.name.clone()),
            ("NAMESPACE", |row| row.namespace.clone()),
            ("SOURCE", |row| row.source.clone()),
            ("PACKAGES", |row| row.packages.map(|packages| packages.to_string()).unwrap_or_default()),
            ("STATE", |row| row.state.clone()),
            ("LAST READ", |row| row.last_success.map(|time| age(time, Timestamp::now())).unwrap_or_default()),
            ("MESSAGE", |row| row.message.clone().unwrap_or_default()),
        ],
        wide: &[
            ("TYPE", |row| row.source_type.clone()),
            ("REASON", |row| row.reason.clone().unwrap_or_default()),
        ],
        name: |row| format!("{}/{}", row.namespace, row.name),
        empty: "No catalogs found; add one with `olm catalog add`.",
    }
    .print(&args.out)
}
