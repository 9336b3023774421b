//! `olm catalog add`: creates a CatalogSource.

use std::time::{Duration, Instant};

use kube::{Api, Client};
use olm_api::{CatalogSource, CatalogSourceSpec};
use olm_engine::site::manager_namespace;
use olm_ops::{
    Error,
    catalogs::{Added, CATALOG_EXISTS, ClusterCatalog, Reading, RequestedCatalog, add, reading},
};

use crate::{
    args::{CatalogAddArgs, Global},
    commands::catalogs,
    context,
    exit::{Code, Failure},
    output::{Format, count, print_one},
    prose::printable,
    source::requested,
};

/// Interval of polling for the state of the catalog.
const LOOK: Duration = Duration::from_millis(500);

pub async fn run(global: &Global, args: CatalogAddArgs) -> Result<(), Failure> {
    let RequestedCatalog { name, spec } = requested(&args.source)?;
    let name = args.name.or(name).ok_or_else(|| {
        Failure::new(Code::Usage, format!("failed to derive a name from {}", args.source))
            .hint("set the name of the CatalogSource with --name NAME")
    })?;
    let spec = CatalogSourceSpec { priority: args.priority, secrets: args.pull_secret, ..spec };
    let namespace = global.namespace.as_deref().unwrap_or(manager_namespace());
    let mut wanted = CatalogSource::new(&name, spec);
    wanted.metadata.namespace = Some(namespace.to_owned());
    if args.dry_run {
        let format = match args.out.output {
            Format::Table | Format::Wide => Format::Yaml,
            format => format,
        };
        return print_one(&wanted, &format, &name, String::new);
    }
    let client = context::connect(global).await?;
    let catalog = format!("{namespace}/{name}");
    let Added { source: found, is_new } = match add(&client, &wanted, false).await {
        Ok(added) => added,
        Err(error) => return Err(not_added(&client, error, &catalog).await),
    };
    let done = if is_new {
        format!("created CatalogSource {catalog}")
    } else {
        format!("CatalogSource {catalog} already exists with this source")
    };
    if !args.wait.wait {
        return print_one(&ClusterCatalog::of(&found), &args.out.output, &name, || {
            format!(
                "{done}\n`olm catalog sources` shows its state, `olm search --catalog {catalog}` its packages"
            )
        });
    }
    eprintln!("{done}");
    let api = Api::<CatalogSource>::namespaced(client, namespace);
    let (source, packages) = ready(&api, &name, &catalog, args.wait.timeout).await?;
    print_one(&ClusterCatalog::of(&source), &args.out.output, &name, || {
        let packages = count(packages, "package");
        format!("catalog {catalog} is ready: {packages}\n`olm search --catalog {catalog}` lists them")
    })
}

/// A catalog that exists with other settings is reported with the flag that resolves it.
async fn not_added(client: &Client, error: Error, catalog: &str) -> Failure {
    match error {
        Error::Refused { code, text, .. } if code == CATALOG_EXISTS => Failure::new(Code::Refused, text)
            .hint("choose another name with --name")
            .hint(format!("or remove the existing catalog with `olm catalog remove {catalog}`")),
        error => catalogs::not_done(client, error).await,
    }
}

/// Waits until the manager serves the catalog; returns the number of its packages too. A failure that a retry
/// does not resolve ends the wait.
async fn ready(
    api: &Api<CatalogSource>,
    name: &str,
    catalog: &str,
    timeout: Duration,
) -> Result<(CatalogSource, usize), Failure> {
    let start = Instant::now();
    let mut printed = String::new();
    loop {
        let seen = match api.get(name).await {
            Ok(source) => match reading(&source) {
                Reading::Ready(packages) => return Ok((source, packages)),
                Reading::Failed { message, temporary: false } => {
                    let text = format!("failed to read catalog {catalog}: {message}");
                    return Err(Failure::new(Code::Unexpected, text)
                        .hint("fix the cause; the manager retries automatically")
                        .hint(format!("or remove the catalog with `olm catalog remove {catalog}`")));
                }
                Reading::Failed { message, .. } => message,
                Reading::Pending(state) => state.to_owned(),
            },
            Err(error @ kube::Error::Api(_)) => return Err(error.into()),
            // The API server may be unreachable for a moment.
            Err(error) => error.to_string(),
        };
        if seen != printed {
            eprintln!("… catalog {catalog}: {}", printable(&seen));
            printed.clone_from(&seen);
        }
        if start.elapsed() >= timeout {
            let text =
                format!("timed out waiting for catalog {catalog} after {}s: {seen}", timeout.as_secs());
            return Err(Failure::new(Code::Timeout, text)
                .hint("the manager continues; `olm catalog sources` shows the state")
                .hint("check the manager: olm self status"));
        }
        tokio::time::sleep(LOOK).await;
    }
}
