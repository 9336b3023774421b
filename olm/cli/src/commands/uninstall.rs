//! `olm uninstall`.

use std::fmt::Write as _;

use olm_ops::{Operands, UninstallOptions, UninstallReport};

use super::{
    confirm::confirm,
    plan::{applicable, plan_text},
};
use crate::{
    args::{Global, UninstallArgs},
    context,
    exit::{Code, Failure},
    names,
    output::{by_kind, count, print_one},
};

pub async fn run(global: &Global, args: UninstallArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let namespace = global.namespace.as_deref();
    let mut options = UninstallOptions {
        operands: args.instances.into(),
        delete_crds: args.delete_crds,
        delete_dependencies: args.delete_dependencies,
        ..UninstallOptions::default()
    };
    let planned = olm_ops::preview_uninstall(&client, namespace, &args.name, &options).await;
    let plan = planned?;
    if args.dry_run {
        print_one(&plan, &args.out.output, &plan.digest, || plan_text(&plan))?;
        return applicable(&plan);
    }
    let instances = plan.operands.iter().any(|operand| operand.count != Some(0));
    let loses_data = options.operands == Operands::Delete && instances || options.delete_crds;
    if loses_data && !args.yes {
        // Findings are not part of the digest: the same plan could be unblocked before it is applied below, and would
        // then be applied without a confirmation.
        olm_ops::Error::refuse_blocked("uninstall", &plan)?;
        // Data loss requires the user to type the name.
        eprintln!("{}", plan_text(&plan));
        confirm(&args.name, "delete these objects", "custom resources would be deleted")?;
    }
    options.digest = reviewed(&options, args.yes, plan.digest);
    let removing = olm_ops::uninstall(&client, namespace, &args.name, &options);
    let report = tokio::time::timeout(args.timeout, removing).await.map_err(|_| {
        let message =
            format!("timed out waiting for the removal of {} after {}s", args.name, args.timeout.as_secs());
        Failure::new(Code::Timeout, message).hint("run the command again to continue")
    })??;
    names::forget_installed(global);
    print_one(&report, &args.out.output, &args.name, || text(&report))
}

/// The digest of the only plan that may run. Where no data can be lost, or `--yes` accepts the loss, nothing was reviewed:
/// the removal is planned and checked again, because the cluster may still be changing after an upgrade or a rollback.
fn reviewed(options: &UninstallOptions, yes: bool, digest: String) -> Option<String> {
    let may_lose_data = options.operands == Operands::Delete || options.delete_crds;
    (may_lose_data && !yes).then_some(digest)
}

fn text(report: &UninstallReport) -> String {
    let mut out = String::new();
    for (what, list) in
        [("removed", &report.removed), ("retained", &report.kept), ("pending", &report.leftovers)]
    {
        for object in list {
            let _ = writeln!(out, "{what}: {object}");
        }
    }
    for (what, list) in
        [("removed", &report.removed), ("retained", &report.kept), ("pending", &report.leftovers)]
    {
        if !list.is_empty() {
            let _ = writeln!(out, "{what} {}: {}", count(list.len(), "object"), by_kind(list));
        }
    }
    if !report.leftovers.is_empty() {
        out.push_str("pending objects are being deleted; if they remain, run `olm doctor`\n");
    }
    if report.removed.is_empty() {
        out.push_str("nothing to remove\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plan_that_can_lose_data_must_be_the_reviewed_one() {
        let digest = |operands, delete_crds, yes| {
            let options = UninstallOptions { operands, delete_crds, ..UninstallOptions::default() };
            reviewed(&options, yes, "sha256:1".into()).is_some()
        };
        assert!(digest(Operands::Delete, false, false) && digest(Operands::Abort, true, false));
        assert!(!digest(Operands::Delete, true, true), "--yes accepts the loss");
        assert!(!digest(Operands::Abort, false, false) && !digest(Operands::Keep, false, false));
    }

    #[test]
    fn all_kinds_that_are_removed_and_that_stay_are_counted() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let report = UninstallReport {
            removed: list(&["Subscription ns/a", "Deployment ns/a", "Lease ns/a", "Lease ns/b"]),
            kept: list(&[
                "CustomResourceDefinition as.example.com (its deletion would delete all its objects)",
            ]),
            ..UninstallReport::default()
        };
        let text = text(&report);
        let end = "removed 4 objects: 1 Deployment, 2 Leases, 1 Subscription\n\
            retained 1 object: 1 CustomResourceDefinition\n";
        assert!(text.ends_with(end), "{text}");
        assert!(text.starts_with("removed: Subscription ns/a\n"), "{text}");
    }
}
