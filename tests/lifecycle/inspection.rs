//! `olm versions`, `instances`, `events`, `logs`, `can-i` and `approve --all`, with a built `olm`, a registry and a
//! manager.

use anyhow::{Result, ensure};
use olm_devcluster::api::Identity;
use olm_tests::eventually;

use crate::catalog_add::{Setup, with_setup};

/// Requests package `a` in namespace `ns`, from a new catalog.
async fn request(setup: &Setup, approval: &str) -> Result<()> {
    let image = setup.push("acme")?;
    setup.admin.olm(&["catalog", "add", &image, "--wait", "--timeout", "60s"]).await?;
    setup.world.home("ns").await?;
    let install = ["install", "a", "-n", "ns", "--catalog", "acme", "--approval", approval];
    let (out, error) = setup.admin.olm(&install).await?;
    ensure!(!error.contains("error: "), "{out}{error}");
    Ok(())
}

#[test]
fn an_operator_is_inspected_with_the_rights_of_the_caller() {
    with_setup("an_operator_is_inspected_with_the_rights_of_the_caller", async |setup| {
        // given an installed operator
        request(&setup, "automatic").await?;
        setup.world.installed("ns", "a", "a.v1.0.0").await?;
        // when an administrator inspects it, then each command answers
        let (out, error) = setup.admin.olm(&["versions", "a", "-n", "ns", "--no-headers"]).await?;
        ensure!(
            out.starts_with("1.0.0 ") && out.contains("installed; head of the default channel"),
            "{out}{error}"
        );
        for command in ["instances", "events"] {
            let (out, error) = setup.admin.olm(&[command, "a", "-n", "ns"]).await?;
            ensure!(!error.contains("error: "), "{command}: {out}{error}");
        }
        let (out, error) = setup.admin.olm(&["can-i", "install", "a", "-n", "ns"]).await?;
        ensure!(out.starts_with("yes\n") && error.is_empty(), "{out}{error}");
        let (out, error) = setup.admin.olm(&["list", "--outdated", "-n", "ns"]).await?;
        ensure!(out.is_empty() && error.contains("No such operators."), "{out}{error}");
        // and a visitor gets the missing permissions
        let visitor = setup.world.serve_to(Identity::user("visitor", []), setup.manager)?;
        let (out, error) = visitor.olm(&["can-i", "install", "a", "-n", "ns"]).await?;
        let missing = "missing permission: list subscriptions.operators.coreos.com in namespace ns; create \
            subscriptions.operators.coreos.com in namespace ns";
        ensure!(out.starts_with("no\n") && error.contains(missing), "{out}{error}");
        ensure!(error.contains("hint: ask an administrator"), "{error}");
        for command in ["instances", "events", "logs"] {
            let (out, error) = visitor.olm(&[command, "a", "-n", "ns"]).await?;
            ensure!(out.is_empty() && error.contains("cannot list resource"), "{command}: {out}{error}");
        }
        let (out, error) = visitor.olm(&["list"]).await?;
        ensure!(out.is_empty() && error.contains("-n NAMESPACE"), "{out}{error}");
        Ok(())
    });
}

#[test]
fn pending_plans_that_need_no_review_are_approved_together() {
    with_setup("pending_plans_that_need_no_review_are_approved_together", async |setup| {
        // given a plan that waits for approval
        request(&setup, "manual").await?;
        eventually("a plan that waits", std::time::Duration::from_secs(30), async || {
            let (out, _) = setup.admin.olm(&["list", "-n", "ns"]).await?;
            Ok(out.contains("Needs approval").then_some(()))
        })
        .await?;
        // when upgrades are approved, then a new installation is left out
        let (out, error) = setup.admin.olm(&["upgrade", "--all", "-n", "ns"]).await?;
        ensure!(out.is_empty() && error.contains("No plan is waiting for approval."), "{out}{error}");
        // when all plans are approved, then it is installed
        let (out, error) = setup.admin.olm(&["approve", "--all", "-n", "ns"]).await?;
        ensure!(out.contains(" approved") && !error.contains("error: "), "{out}{error}");
        setup.world.installed("ns", "a", "a.v1.0.0").await
    });
}
