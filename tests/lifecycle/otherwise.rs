//! Features that upstream implements by pods, copies and ConfigMaps, and olm without them: their settings are
//! accepted, and have their effect where there is one.

use anyhow::{Result, ensure};
use olm_tests::inprocess::{Catalog, OLM, World, condition, of_cluster, text};
use serde_json::{Value, json};

use crate::{op, scenario};

fn ready(source: &Value) -> bool {
    text(source, "/status/connectionState/lastObservedState") == "READY"
}

/// CAT-6, CAT-7, CAT-14, PC-1: for any pod settings of a catalog, and in the strictest namespace, the manager
/// serves the catalog: no pod, account, Service or NetworkPolicy is created for it that could be lost or
/// changed.
#[test]
fn a_catalog_has_no_pod() {
    scenario(async |world, _manager| {
        let strict =
            json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
        world.patch("Namespace", "", OLM, &strict).await?;
        let kinds = ["Pod", "Service", "ServiceAccount", "NetworkPolicy", "Deployment", "ConfigMap"];
        let mut before = Vec::new();
        for kind in kinds {
            before.push(world.names(kind, OLM).await?);
        }
        for context in ["restricted", "legacy"] {
            let asked = json!({
                "securityContextConfig": context, "priorityClassName": "system-cluster-critical",
                "nodeSelector": { "disk": "fast" }, "tolerations": [{ "operator": "Exists" }],
            });
            let catalog = Catalog::chain(&[&op("1.0.0")]);
            world
                .publish_with("catalog", &catalog, |source| source["spec"]["grpcPodConfig"] = asked.clone())
                .await?;
            let source = world.until("CatalogSource", OLM, "catalog", ready).await?;
            ensure!(source["spec"]["grpcPodConfig"] == asked, "{}", source["spec"]);
        }
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        for (kind, before) in kinds.into_iter().zip(before) {
            let now = world.names(kind, OLM).await?;
            ensure!(now == before, "{kind}: {before:?}, and now {now:?}");
        }
        Ok(())
    });
}

async fn everywhere(world: &World) -> Result<Vec<String>> {
    let all = world.list("ClusterServiceVersion", "").await?;
    Ok(all
        .iter()
        .map(|c| format!("{}/{}", text(c, "/metadata/namespace"), text(c, "/metadata/name")))
        .collect())
}

/// CSV-3, CC-1, CC-2: an operator for all namespaces is in one, before and after a change of it, for any
/// setting of copies; and its status reports that.
#[test]
fn csvs_are_not_copied_and_olmconfig_reports_it() {
    scenario(async |world, _manager| {
        for name in ["ns", "one", "two"] {
            world.namespace(name).await?;
        }
        world.group("ns", &[]).await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        for disabled in [true, false] {
            world
                .apply(&json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": { "name": "cluster" },
                    "spec": { "features": { "disableCopiedCSVs": disabled } } }))
                .await?;
            let config = world
                .until("OLMConfig", "", "cluster", |config| {
                    condition(config, "DisabledCopiedCSVs")
                        .is_some_and(|c| c["observedGeneration"] == config["metadata"]["generation"])
                })
                .await?;
            let reported = condition(&config, "DisabledCopiedCSVs").cloned().unwrap_or_default();
            ensure!(reported["status"] == "True" && reported["reason"] == "CopiedCSVsDisabled", "{reported}");
            world.quiet().await?;
            let versions = everywhere(&world).await?;
            ensure!(versions == ["ns/a.v1.0.0"], "{versions:?}");
        }
        // there are no copies to update
        let label = json!({ "metadata": { "labels": { "example.com/team": "x" } } });
        world.patch("ClusterServiceVersion", "ns", "a.v1.0.0", &label).await?;
        world.quiet().await?;
        let versions = everywhere(&world).await?;
        ensure!(versions == ["ns/a.v1.0.0"], "{versions:?}");
        Ok(())
    });
}

/// IP-17: upstream compresses the manifests of a plan into ConfigMaps, because a plan of a large bundle is
/// too large. Here a plan only has the digest of the bundle, and no size problem.
#[test]
fn a_plan_of_a_large_bundle_is_small() {
    scenario(async |world, _manager| {
        const LARGE: usize = 700_000;
        const SMALL: usize = 50_000;
        let large = |name: &str| {
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
                "data": { "text": "x".repeat(LARGE) } })
        };
        let a = op("1.0.0").object(large("a-first")).object(large("a-second"));
        world.publish("catalog", &Catalog::chain(&[&a])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let plans = world.list("InstallPlan", "ns").await?;
        ensure!(plans.len() == 1, "{} plans", plans.len());
        let size = plans[0].to_string().len();
        ensure!(size < SMALL, "the plan has {size} bytes");
        ensure!(text(&plans[0], "/spec/planDigest").starts_with("sha256:"), "{}", plans[0]["spec"]);
        let mut made = world.names("ConfigMap", "ns").await?;
        made.retain(|name| !of_cluster(name));
        ensure!(made == ["a-first", "a-second"], "only the bundle's own: {made:?}");
        Ok(())
    });
}
