//! `olm self uninstall`: deletes workloads first, then their dependencies, and CustomResourceDefinitions only
//! on request.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{BufRead as _, IsTerminal as _},
    time::{Duration, Instant},
};

use kube::Client;
use olm_ops::manifests::installation::{self, Object};
use serde::Serialize;

use super::found::{found, namespace, not_installed};
use crate::{
    args::{Global, SelfUninstallArgs},
    context,
    exit::{Code, Failure},
    output::{count, print_one},
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
    /// Objects that prevent the deletion of the namespace; it is deleted when there are none.
    namespace_kept: Vec<String>,
}

pub(super) async fn run(global: &Global, args: SelfUninstallArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let namespace = found(global, &client).await?.map_or_else(|| namespace(global), |found| found.namespace);
    let (crds, rest): (Vec<Object>, Vec<Object>) = installation::objects(&client, &namespace)
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
    let mut report =
        Report { namespace, dry_run: args.dry_run, removed, kept, users, namespace_kept: Vec::new() };
    if !args.dry_run {
        if !args.yes {
            confirm(&report)?;
        }
        remove(&client, &report, args.timeout).await?;
    }
    report.namespace_kept = leave(&client, &report).await?;
    let name = report.namespace.clone();
    print_one(&report, args.out.output, &name, || text(&report))
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
            let there = installation::objects(client, &report.namespace).await?;
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

/// Deletes the namespace unless it contains other objects; returns those.
async fn leave(client: &Client, report: &Report) -> Result<Vec<String>, Failure> {
    let others = installation::others(client, &report.namespace, &report.removed).await?;
    if others.is_empty() && !report.dry_run {
        installation::delete_namespace(client, &report.namespace).await?;
    }
    Ok(others.iter().map(ToString::to_string).collect())
}

/// The installed operators would no longer be managed, so the user has to type the namespace.
fn confirm(report: &Report) -> Result<(), Failure> {
    eprint!(
        "{}",
        text(&Report {
            dry_run: true,
            removed: report.removed.clone(),
            kept: report.kept.clone(),
            users: report.users.clone(),
            namespace: report.namespace.clone(),
            namespace_kept: Vec::new()
        })
    );
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            Code::Refused,
            "the manager would be removed, and standard input is not a terminal",
        )
        .hint("pass --yes to confirm"));
    }
    eprint!("Type {} to remove these objects: ", report.namespace);
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    if line.trim() == report.namespace {
        Ok(())
    } else {
        Err(Failure::new(Code::Refused, "not confirmed; no changes made"))
    }
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
    let _ = writeln!(out, "{verb} {}", count(report.removed.len(), "object"));
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
    fn the_counts_are_exact_and_say_what_is_left_behind() {
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
            namespace_kept: vec!["Secret olm/mine".into()],
        };
        assert_eq!(
            text(&report),
            "removed: Deployment olm/olm-manager\n\
             removed: ClusterRole olm-manager\n\
             removed 2 objects\n\
             retained: 2 CustomResourceDefinitions with 2 ClusterServiceVersions, 1 Subscription (--delete-crds removes them)\n\
             2 operators keep running without a manager: no upgrades, and a deleted Subscription or ClusterServiceVersion keeps its finalizer until olm is installed again\n\
             namespace olm retained: it contains Secret olm/mine\n"
        );
    }
}
