//! Arguments of the commands that add, list, change and remove the CatalogSources of a cluster.

use clap::Args as ClapArgs;
use olm_kube_schema::names::is_dns_label;
use olm_ops::catalogs::PollInterval;

use super::{OutputArgs, WaitArgs};

/// `olm catalog add`.
#[derive(Debug, ClapArgs)]
pub struct CatalogAddArgs {
    /// Known name, image reference, URL of catalog content, or grpc://HOST:PORT of a catalog server.
    pub source: String,
    /// Name of the CatalogSource; derived from SOURCE when absent.
    #[arg(long, value_parser = catalog_name)]
    pub name: Option<String>,
    /// Priority among catalogs with the same package; higher is preferred.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub priority: i32,
    /// Pull secret in the namespace of the CatalogSource; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub pull_secret: Vec<String>,
    /// Print the CatalogSource without creating it.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm catalog sources`.
#[derive(Debug, ClapArgs)]
pub struct CatalogSourcesArgs {
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm catalog refresh`.
#[derive(Debug, ClapArgs)]
pub struct CatalogRefreshArgs {
    /// CatalogSource, as NAME or NAMESPACE/NAME.
    #[arg(required_unless_present = "all")]
    pub name: Option<String>,
    /// Refresh all catalogs; of all namespaces without --namespace.
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// `olm catalog set-interval`.
#[derive(Debug, ClapArgs)]
pub struct CatalogIntervalArgs {
    /// CatalogSource, as NAME or NAMESPACE/NAME.
    pub name: String,
    /// Interval such as 10m or 1h30m, or `default` for that of the source type.
    #[arg(value_parser = interval)]
    pub interval: Interval,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// A poll interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interval {
    Default,
    Every(PollInterval),
}

fn interval(text: &str) -> Result<Interval, String> {
    match text {
        "default" => Ok(Interval::Default),
        text => PollInterval::parse(text).map(Interval::Every),
    }
}

/// `olm catalog remove`.
#[derive(Debug, ClapArgs)]
pub struct CatalogRemoveArgs {
    /// CatalogSource, as NAME or NAMESPACE/NAME.
    pub name: String,
    /// Skip the confirmation, which is required when Subscriptions use the catalog.
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub out: OutputArgs,
}

/// The name of a CatalogSource to create.
pub(super) fn catalog_name(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is not a valid name, expected lower-case letters, digits and `-`"))
}
