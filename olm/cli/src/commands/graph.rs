//! `olm graph`: the upgrade graph of a package, with the installed version and the upgrade path.

use olm_catalog::graph::UpgradeGraph;
use olm_engine::Refusal;
use olm_resolver::Resolved;

use super::{
    catalog,
    subject::{Query, Subject},
};
use crate::{
    args::{Global, PackageGraphArgs},
    exit::Failure,
    offline::find_by_version,
};

pub async fn run(global: &Global, args: PackageGraphArgs) -> Result<(), Failure> {
    let query = Query { package: &args.package, channel: args.channel.as_deref(), ..Query::default() };
    let mut subject = Subject::find(global, &args.offline, query).await?;
    let package = subject.package().await?;
    let channel = args.channel.as_deref();
    let graph = UpgradeGraph::of(&package, channel);
    let mut graph =
        graph.ok_or_else(|| Failure::from(&package.nearest_channel(channel.unwrap_or_default())))?;

    let from = args.from.as_ref().map(|version| find_by_version(&package, version)).transpose()?;
    if let Some(to) = &args.to {
        let to = find_by_version(&package, to)?;
        subject.subscription.spec.version = to.version.as_ref().map(ToString::to_string);
    }
    let mut path = Vec::new();
    if let (Some(from), None) = (from, &args.channel) {
        // The channel of the Subscription may not contain the bundle.
        let followed = subject.subscription.spec.channel.take();
        subject.subscription.spec.channel = package.channel_with(&from.name, followed.as_deref());
    }
    let start = from.map(|from| from.name.as_str()).or(subject.installed_csv());
    if let Some(start) = start {
        let resolved = match from {
            Some(from) => subject.resolve_from(from).await,
            None => subject.resolve().await,
        };
        let asked = args.from.is_some() || args.to.is_some();
        path = hops(start, resolved, asked).map_err(|refusal| subject.refused(refusal))?;
    }
    let installed: Vec<&str> = subject.installed_csv().into_iter().collect();
    graph.mark(&installed, &path);
    graph.mark_excluded(&subject.subscription.spec.skip_versions);
    if args.from.is_some() || args.to.is_some() {
        graph.narrow();
    }
    let followed: Vec<String> = subject.subscription.spec.channel.into_iter().collect();
    catalog::print_graph(graph, args.output, &followed)
}

/// The bundles of the upgrade path. Without an explicit start or target, a missing path is not an error: the
/// graph is shown anyway.
fn hops(from: &str, resolved: Result<Resolved, Refusal>, asked: bool) -> Result<Vec<String>, Refusal> {
    match resolved {
        Ok(resolved) => {
            let hops = resolved.path.into_iter().map(|hop| hop.name);
            Ok(std::iter::once(from.to_owned()).chain(hops).collect())
        }
        Err(refusal) if asked => Err(refusal),
        Err(_) => Ok(Vec::new()),
    }
}
