//! `olm self uninstall`: deletes workloads first, then their dependencies, and CustomResourceDefinitions only
//! on request.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use olm_ops::manifests::installation::{self, Object};
use serde::Serialize;

use super::found::{found, namespace, not_installed};
use crate::{
    args::{Global, SelfUninstallArgs},
    commands::confirm::confirm,
    context,
    exit::{Code, Failure},
    output::{by_kind, count, print_one},
};

/// Interval of polling for deleted objects.
const LOOK: Duration = Duration::from_millis(200);

/// The objects to delete, or deleted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    namespace: String,
    /// Whether nothing is deleted.
    dry_run: bool,
    removed: Vec<Object>,
    kept: Vec<Object>,
    /// User-created objects of the API, by kind.
    users: BTreeMap<&'static str, usize>,
    /// Whether the namespace is deleted too.
    namespace_removed: bool,
    /// Objects that prevent the deletion of the namespace.
    namespace_kept: Vec<String>,
}

/// The objects of the installation, and those that the manager created for itself.
async fn objects(client: &Client, namespace: &str) -> Result<Vec<Object>, Failure> {
    let mut objects = installation::objects(client, namespace).await?;
    objects.extend(installation::created(client, namespace).await?);
    Ok(objects)
}

pub(super) async fn run(global: &Global, args: SelfUninstallArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let namespace = found(global, &client).await?.map_or_else(|| namespace(global), |found| found.namespace);
    let (crds, rest): (Vec<Object>, Vec<Object>) = objects(&client, &namespace)
        .await?
        .into_iter()
        .partition(|object| object.kind == "CustomResourceDefinition");
    let users: BTreeMap<_, _> = installation::users(&client, &namespace).await?.into_iter().collect();
    if rest.is_empty() && (crds.is_empty() || !args.delete_crds) {
        return Err(not_installed());
    }
    let operators = users["Subscription"] + users["ClusterServiceVersion"];
    if args.delete_crds && operators > 0 {
        let message = format!(
            "the cluster has {} and {}; deleting the CustomResourceDefinitions deletes them and orphans the \
                objects of their operators",
            count(users["Subscription"], "Subscription"),
            count(users["ClusterServiceVersion"], "ClusterServiceVersion"),
        );
        return Err(Failure::new(Code::Refused, message)
            .hint("list the operators with `olm list` and remove them with `olm uninstall NAME`"));
    }
    let (removed, kept) = if args.delete_crds { ([rest, crds].concat(), Vec::new()) } else { (rest, crds) };
    let exists = Api::<Namespace>::all(client.clone()).get_opt(&namespace).await?.is_some();
    let namespace_kept = others(&client, &namespace, &removed).await?;
    let mut report = Report {
        namespace_removed: exists && namespace_kept.is_empty(),
        namespace,
        dry_run: true,
        removed,
        kept,
        users,
        namespace_kept,
    };
    if !args.dry_run {
        if !args.yes {
            // The installed operators would no longer be managed, so the user has to type the namespace.
            eprint!("{}", text(&report));
            confirm(&report.namespace, "remove these objects", "the manager would be removed")?;
        }
        remove(&client, &report, args.timeout).await?;
        report.dry_run = false;
        // Objects may have been created in the meantime.
        report.namespace_kept = others(&client, &report.namespace, &report.removed).await?;
        report.namespace_removed &= report.namespace_kept.is_empty();
        if report.namespace_removed {
            installation::delete_namespace(&client, &report.namespace).await?;
        }
    }
    let name = report.namespace.clone();
    print_one(&report, &args.out.output, &name, || text(&report))
}

/// Deletes in order: APIServices and Deployments first, so that managers stop before their permissions are
/// removed.
async fn remove(client: &Client, report: &Report, limit: Duration) -> Result<(), Failure> {
    let start = Instant::now();
    let (running, rest): (Vec<&Object>, Vec<&Object>) =
        report.removed.iter().partition(|o| matches!(o.kind.as_str(), "APIService" | "Deployment"));
    for batch in [running, rest] {
        for object in &batch {
            installation::delete(client, object).await?;
        }
        loop {
            let there = objects(client, &report.namespace).await?;
            let Some(left) = batch.iter().find(|object| there.contains(object)) else { break };
            if start.elapsed() > limit {
                return Err(Failure::new(
                    Code::Timeout,
                    format!("timed out after {}s waiting for the deletion of {left}", limit.as_secs()),
                )
                .hint("run the command again to continue"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(())
}

/// Objects in the namespace that prevent its deletion.
async fn others(client: &Client, namespace: &str, removed: &[Object]) -> Result<Vec<String>, Failure> {
    let others = installation::others(client, namespace, removed).await?;
    Ok(others.iter().map(ToString::to_string).collect())
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    let verb = if report.dry_run { "would remove" } else { "removed" };
    for object in &report.removed {
        let _ = writeln!(out, "{verb}: {object}");
    }
    let users: Vec<String> =
        report.users.iter().filter(|(_, n)| **n > 0).map(|(kind, n)| count(*n, kind)).collect();
    let users = if users.is_empty() { "no custom resources".to_owned() } else { users.join(", ") };
    let namespace = report.namespace_removed.then(|| format!("Namespace {}", report.namespace));
    if let Some(namespace) = &namespace {
        let _ = writeln!(out, "{verb}: {namespace}");
    }
    let names: Vec<String> = report.removed.iter().map(ToString::to_string).chain(namespace).collect();
    let _ = writeln!(out, "{verb} {}: {}", count(names.len(), "object"), by_kind(&names));
    if !report.kept.is_empty() {
        let _ = writeln!(
            out,
            "retained: {} with {users} (--delete-crds removes them)",
            count(report.kept.len(), "CustomResourceDefinition")
        );
    }
    let operators = report.users.get("ClusterServiceVersion").copied().unwrap_or(0);
    if operators > 0 {
        let _ = writeln!(
            out,
            "{} {} running without a manager: no upgrades, and a deleted Subscription or \
                ClusterServiceVersion keeps its finalizer until olm is installed again",
            count(operators, "operator"),
            if operators == 1 { "keeps" } else { "keep" }
        );
    }
    for object in &report.namespace_kept {
        let _ = writeln!(out, "namespace {} retained: it contains {object}", report.namespace);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, namespace: Option<&str>, name: &str) -> Object {
        Object { kind: kind.into(), namespace: namespace.map(Into::into), name: name.into() }
    }

    #[test]
    fn the_counts_are_exact_and_include_retained_objects() {
        let report = Report {
            namespace: "olm".into(),
            dry_run: false,
            removed: vec![
                object("Deployment", Some("olm"), "olm-manager"),
                object("ClusterRole", None, "olm-manager"),
            ],
            kept: vec![
                object("CustomResourceDefinition", None, "a"),
                object("CustomResourceDefinition", None, "b"),
            ],
            users: [("Subscription", 1), ("ClusterServiceVersion", 2), ("InstallPlan", 0)].into(),
            namespace_removed: false,
            namespace_kept: vec!["Secret olm/mine".into()],
        };
        assert_eq!(
            text(&report),
            "removed: Deployment olm/olm-manager\n\
             removed: ClusterRole olm-manager\n\
             removed 2 objects: 1 ClusterRole, 1 Deployment\n\
             retained: 2 CustomResourceDefinitions with 2 ClusterServiceVersions, 1 Subscription (--delete-crds removes them)\n\
             2 operators keep running without a manager: no upgrades, and a deleted Subscription or ClusterServiceVersion keeps its finalizer until olm is installed again\n\
             namespace olm retained: it contains Secret olm/mine\n"
        );
        // and where no object of a user is in it, the namespace is removed and counted
        let report = Report { dry_run: true, namespace_removed: true, namespace_kept: Vec::new(), ..report };
        let text = text(&report);
        assert!(
            text.contains(
                "\nwould remove: Namespace olm\n\
                 would remove 3 objects: 1 ClusterRole, 1 Deployment, 1 Namespace\n"
            ),
            "{text}"
        );
    }
}
