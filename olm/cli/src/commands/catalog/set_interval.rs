//! `olm catalog set-interval`: changes the poll interval of a CatalogSource.

use olm_ops::catalogs::{ClusterCatalog, set_poll_interval};

use super::remove::named;
use crate::{
    args::{CatalogIntervalArgs, Global, Interval},
    context,
    exit::Failure,
    output::print_one,
};

pub async fn run(global: &Global, args: CatalogIntervalArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let source = named(global, &client, &args.name).await?;
    let interval = match args.interval {
        Interval::Default => None,
        Interval::Every(interval) => Some(interval),
    };
    set_poll_interval(&client, &source, interval.as_ref()).await?;
    let every = interval.map(|interval| interval.as_str().to_owned());
    let catalog = ClusterCatalog { poll_interval: every.clone(), ..ClusterCatalog::of(&source) };
    print_one(&catalog, &args.out.output, &catalog.name, || {
        let every = every.as_deref().unwrap_or("the default");
        format!("changed the poll interval of CatalogSource {} to {every}", catalog.reference())
    })
}
