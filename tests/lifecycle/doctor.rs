//! `olm doctor`: problems of a cluster are reported at once, and unreadable objects are named.

use anyhow::{Context as _, Result, ensure};
use olm_devcluster::api::Identity;
use olm_ops::{
    doctor::{self, Code, Problem, Report, Severity},
    manifests::{self, ManifestOptions},
};
use olm_tests::inprocess::{Catalog, Manager, OLM, World};
use serde_json::json;

use super::{a_crd, op, run};

fn with(report: &Report, code: Code) -> Vec<&Problem> {
    report.problems.iter().filter(|a| a.code == code).collect()
}

fn one(report: &Report, code: Code) -> Result<&Problem> {
    match with(report, code)[..] {
        [one] => Ok(one),
        ref several => anyhow::bail!("one {code} is expected, not {several:?}: {:?}", report.problems),
    }
}

/// An image that the kubelet cannot pull.
const IMAGE: &str = "registry.example.com/missing:1";

/// A world with `a` in namespace `ns`, whose image cannot be pulled and whose kind has a status.
async fn installed() -> Result<(World, Manager)> {
    let (world, manager) = World::start().await?;
    let mut crd = a_crd(&["v1"]);
    let status = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = status;
    let operator = op("1.0.0").owns(crd).image(IMAGE);
    world.publish("catalog", &Catalog::chain(&[&operator])).await?;
    world.home("ns").await?;
    world.subscribe("ns", "a").await?;
    world
        .eventually("the pod to wait for its image", async || {
            let report = doctor::examine(&world.client, Some("ns")).await;
            ensure!(!with(&report, Code::PodNotStarting).is_empty(), "{:?}", report.problems);
            Ok(())
        })
        .await?;
    Ok((world, manager))
}

/// An image that cannot be pulled and an operand that reports a problem are errors at once, with the object
/// and the next step.
#[test]
fn an_image_and_an_operand_in_trouble_are_reported_at_once() {
    run(async {
        let (world, _manager) = installed().await?;
        let report = doctor::examine(&world.client, Some("ns")).await;
        let pod = one(&report, Code::PodNotStarting)?;
        ensure!(pod.severity == Severity::Error && report.has_errors());
        ensure!(pod.object.as_deref().is_some_and(|o| o.starts_with("Pod ns/a-")), "{pod:?}");
        ensure!(
            pod.why.starts_with("of a.v1.0.0: container ") && pod.why.contains("ErrImagePull"),
            "{pod:?}"
        );
        ensure!(pod.fix.as_deref().is_some_and(|f| f.contains(IMAGE)), "{pod:?}");

        // an operand that was available before
        let conditions = json!([
            { "type": "Available", "status": "False", "reason": "QuorumLost", "message": "1 of 3 members answer",
              "lastTransitionTime": "2026-01-01T00:00:00Z" },
            { "type": "Progressing", "status": "False", "reason": "QuorumLost" }
        ]);
        world
            .apply(&json!({ "apiVersion": "a.example.com/v1", "kind": "A",
                "metadata": { "name": "x", "namespace": "ns" }, "status": { "conditions": conditions } }))
            .await?;
        let report = doctor::examine(&world.client, None).await;
        let operand = one(&report, Code::OperandUnhealthy)?;
        ensure!(operand.object.as_deref() == Some("A ns/x"), "{operand:?}");
        ensure!(operand.why == "Available=False (QuorumLost): 1 of 3 members answer", "{operand:?}");
        ensure!(operand.fix.as_deref() == Some("kubectl describe as.a.example.com -n ns x"), "{operand:?}");
        Ok(())
    });
}

/// A replaced CustomResourceDefinition of olm is an error, as is a changed or removed policy or binding of
/// the installation; as installed, none is.
#[test]
fn what_was_installed_and_changed_is_reported() {
    run(async {
        let world = World::bare().await?;
        let options =
            ManifestOptions { console_image: None, shipped_catalog: false, ..ManifestOptions::default() };
        let objects = manifests::manifests(&options);
        let deployment = objects.iter().find(|o| o["kind"] == "Deployment").context("a manager")?;
        world.apply(deployment).await?;
        let report = doctor::examine(&world.client, None).await;
        for code in [Code::CrdDiffers, Code::CrdOutdated, Code::InstallationDiffers, Code::NotChecked] {
            ensure!(with(&report, code).is_empty(), "as installed: {:?}", report.problems);
        }
        // given a CustomResourceDefinition without validation, and a binding to another account
        let name = "subscriptions.operators.coreos.com";
        let mut crd = world.get("CustomResourceDefinition", "", name).await?;
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        let replaced = json!({ "spec": { "versions": crd["spec"]["versions"] } });
        world.patch("CustomResourceDefinition", "", name, &replaced).await?;
        let subjects = json!([{ "kind": "ServiceAccount", "name": "other", "namespace": OLM }]);
        world.patch("ClusterRoleBinding", "", "olm-manager", &json!({ "subjects": subjects })).await?;
        world.delete("Role", OLM, "olm-manager").await?;
        let report = doctor::examine(&world.client, None).await;
        let crd = one(&report, Code::CrdDiffers)?;
        ensure!(crd.object.as_deref() == Some(&*format!("CustomResourceDefinition {name}")), "{crd:?}");
        ensure!(crd.fix.as_deref().is_some_and(|fix| fix.starts_with("olm self upgrade")), "{crd:?}");
        let mut found: Vec<(&str, &str)> = with(&report, Code::InstallationDiffers)
            .iter()
            .map(|a| (a.object.as_deref().unwrap_or_default(), a.why.as_str()))
            .collect();
        found.sort_unstable();
        let expected = [
            (
                "ClusterRoleBinding olm-manager",
                "field subjects[0].name is not what `olm self install` applies",
            ),
            ("Role olm/olm-manager", "missing from the cluster"),
        ];
        ensure!(found == expected, "{found:?}");
        Ok(())
    });
}

/// With the rights of `edit` in one namespace, doctor reports the findings of that namespace and lists the
/// skipped checks; unreadable objects cause no finding.
#[test]
fn what_a_caller_may_not_read_is_named_and_not_judged() {
    run(async {
        let (world, _manager) = installed().await?;
        // The parts of `edit`, for clusters without the aggregation controller.
        for part in ["view", "edit"] {
            let role = format!("system:aggregate-to-{part}");
            world
                .apply(&json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                    "metadata": { "name": part, "namespace": "ns" },
                    "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
                    "subjects": [{ "kind": "ServiceAccount", "name": "dev", "namespace": "ns" }] }))
                .await?;
        }
        let limited = world.client_of(Identity::service_account("ns", "dev"));
        for namespace in [None, Some("ns")] {
            let report = doctor::examine(&limited, namespace).await;
            ensure!(!report.manager_checked, "{report:?}");
            let unchecked: Vec<&str> =
                with(&report, Code::NotChecked).iter().map(|a| a.why.as_str()).collect();
            ensure!(report.unchecked() == unchecked.len() && unchecked.len() > 3, "{unchecked:?}");
            let place = namespace.map_or("in all namespaces".to_owned(), |n| format!("in namespace {n}"));
            for wanted in [
                "CustomResourceDefinitions of olm: forbidden".to_owned(),
                "the manager's Deployment in all namespaces: forbidden".to_owned(),
                format!("Subscriptions {place}: forbidden"),
            ] {
                ensure!(unchecked.contains(&wanted.as_str()), "{wanted} is not among {unchecked:#?}");
            }
            // short, and without the caller's own name
            ensure!(unchecked.iter().all(|why| !why.contains("User ")), "{unchecked:#?}");
            for code in [
                Code::ManagerMissing,
                Code::CrdMissing,
                Code::LeaseStale,
                Code::NoOperatorGroup,
                Code::Unmanaged,
                Code::UnusedOperatorGroup,
            ] {
                ensure!(
                    with(&report, code).is_empty(),
                    "{code} from what was not read: {:?}",
                    report.problems
                );
            }
        }
        // it may read Deployments and pods of its namespace
        let report = doctor::examine(&limited, Some("ns")).await;
        one(&report, Code::PodNotStarting)?;
        Ok(())
    });
}
