//! Images that nodes cannot pull: warned about before an install, and the reason while it waits.

use anyhow::{Context as _, Result, ensure};
use olm_ops::InstallRequest;
use olm_plan::{FindingCode, Severity};
use olm_tests::inprocess::{Catalog, Fate, OLM, text};
use serde_json::json;

use super::{op, scenario};

/// A plan with an image of `localhost/` warns, until a node has the image; the warning does not stop it.
#[test]
fn an_image_that_no_registry_serves_is_a_warning_of_the_plan() {
    scenario(async |world, _manager| {
        let catalog = Catalog::chain(&[&op("1.0.0").image("localhost/a:1.0.0")]);
        world.publish("catalog", &catalog).await?;
        world.home("ns").await?;
        let warnings = async || -> Result<Vec<String>> {
            let request = InstallRequest::new("a", "ns");
            let catalogs = [catalog.served_as(OLM, "catalog")];
            let plan = olm_ops::preview_install(&world.client, &catalogs, &request).await?;
            let found = plan.findings.into_iter().filter(|f| f.code == FindingCode::ImageNotPullable);
            Ok(found.filter(|f| f.severity == Severity::Warn).map(|f| f.text).collect())
        };
        // given a node without images
        let found = warnings().await?;
        ensure!(found.len() == 1 && found[0].contains("localhost/a:1.0.0"), "{found:?}");
        // when the image is loaded into the node
        let nodes = world.list("Node", "").await?;
        let node = text(nodes.first().context("no node")?, "/metadata/name").to_owned();
        let images = json!([{ "names": ["localhost/a:1.0.0"], "sizeBytes": 1 }]);
        world.patch_status("Node", "", &node, &json!({ "status": { "images": images } })).await?;
        // then it is no longer a warning
        let found = warnings().await?;
        ensure!(found.is_empty(), "{found:?}");
        // and without it the manager installs all the same
        world.patch_status("Node", "", &node, &json!({ "status": { "images": [] } })).await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// The version, `olm list` and `olm status` name the pod, the image and the error of the pull, long before the
/// install timeout, and the operator starts once the image can be pulled.
#[test]
fn a_failed_pull_is_the_reason_of_a_version_that_waits() {
    const IMAGE: &str = "registry.example.com/missing:1";
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").image(IMAGE)])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        let csv = world
            .until("ClusterServiceVersion", "ns", "a.v1.0.0", |csv| {
                text(csv, "/status/message").contains("ErrImagePull")
            })
            .await?;
        let message = text(&csv, "/status/message");
        ensure!(text(&csv, "/status/reason") == "InstallWaiting", "{}", csv["status"]);
        ensure!(message.contains("deployment a: pod a-") && message.contains(IMAGE), "{message}");
        // then lists have it as the reason, and the pod is what it waits for
        let listed = olm_ops::list_installed(&world.client, Some("ns")).await?;
        let listed = listed.first().context("it is not listed")?;
        ensure!(listed.reason == message, "{}", listed.reason);
        let timeline = olm_ops::timeline(&world.client, "ns", "a").await?;
        let blocker = timeline.blockers.first().context("it waits for nothing")?;
        ensure!(
            blocker.object.starts_with("Pod ns/a-") && blocker.text.contains("ErrImagePull"),
            "{blocker:?}"
        );
        // when the image can be pulled
        world.kubelet.set(|_| Fate::Ready);
        world.installed("ns", "a", "a.v1.0.0").await
    });
}
