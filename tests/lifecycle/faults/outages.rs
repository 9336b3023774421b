//! A rejecting, failing or absent API; two managers; failures of a catalog and a disk.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use olm_manager::Options;
use olm_tests::inprocess::{Call, Fault, Faults, OLM, Snapshot, World, condition, text};
use serde_json::json;

use super::{ask, catalog, interrupted, made_once, same, settled};
use crate::run;

/// The result of an undisturbed install.
async fn undisturbed() -> Result<Snapshot> {
    let world = World::bare().await?;
    ask(&world).await?;
    let _manager = world.manager("manager-0")?;
    settled(&world, "a.v1.0.0").await
}

/// Number of failing calls in a storm. The delay doubles with each failure of one object, so that even an
/// object with all of them recovers within 15 s.
const STORM: usize = 4;

/// An install under a fault, with the same result.
fn storm(fault: Fault, times: usize, matches: impl Fn(&Call) -> bool + Send + Sync + 'static) {
    run(async move {
        let left = undisturbed().await?;
        let world = World::bare().await?;
        world.faults.add(fault, times, matches);
        ask(&world).await?;
        let _manager = world.manager("manager-0")?;
        let now = settled(&world, "a.v1.0.0").await?;
        let hit = world.faults.calls().iter().filter(|c| c.status.is_none_or(|code| code >= 400)).count();
        ensure!(hit > 0, "nothing went wrong");
        same(&left, &now, "after the storm")?;
        made_once(&world.faults.calls())
    });
}

/// Every other write.
fn some_writes(call: &Call) -> bool {
    call.is_write() && call.number.is_multiple_of(2)
}

#[test]
fn a_storm_of_conflicts() {
    storm(Fault::Status(409), STORM, some_writes);
}

#[test]
fn a_storm_of_errors() {
    storm(Fault::Status(500), STORM, some_writes);
}

#[test]
fn a_storm_of_errors_on_reads() {
    storm(Fault::Status(500), STORM, |call| {
        !call.is_write() && !call.is_watch() && call.number.is_multiple_of(3)
    });
}

#[test]
fn a_server_that_has_too_much_to_do() {
    storm(Fault::Status(429), STORM, |call| call.number.is_multiple_of(3));
}

/// For a while only errors, for every call of an upgrade in progress.
fn squall(code: u16) {
    const REFUSED: usize = 12;
    run(async move {
        let left = upgraded().await?;
        let world = World::bare().await?;
        ask(&world).await?;
        let _manager = world.manager("manager-0")?;
        settled(&world, "a.v1.0.0").await?;
        let from = world.faults.count();
        world.publish("catalog", &catalog(2)).await?;
        world
            .eventually("the upgrade to have begun", async || {
                ensure!(!world.faults.writes_since(from).is_empty());
                Ok(())
            })
            .await?;
        let from = world.faults.count();
        world.faults.add(Fault::Status(code), usize::MAX, |_| true);
        world.faults.drop_watches();
        world
            .eventually("enough refusals", async || {
                let calls = world.faults.calls();
                let refused = calls.iter().skip(from).filter(|call| call.status == Some(code)).count();
                ensure!(refused >= REFUSED, "{refused}");
                Ok(())
            })
            .await?;
        world.faults.heal();
        same(&left, &settled(&world, "a.v2.0.0").await?, "after the squall")?;
        made_once(&world.faults.calls())
    });
}

/// The result of an undisturbed upgrade.
async fn upgraded() -> Result<Snapshot> {
    let world = World::bare().await?;
    ask(&world).await?;
    let _manager = world.manager("manager-0")?;
    settled(&world, "a.v1.0.0").await?;
    world.publish("catalog", &catalog(2)).await?;
    settled(&world, "a.v2.0.0").await
}

#[test]
fn a_squall_of_conflicts_in_an_upgrade() {
    squall(409);
}

#[test]
fn a_squall_of_expired_versions_in_an_upgrade() {
    squall(410);
}

#[test]
fn a_squall_of_errors_in_an_upgrade() {
    squall(500);
}

#[test]
fn answers_that_are_lost() {
    storm(Fault::LostAnswer, STORM, some_writes);
}

#[test]
fn connections_that_break() {
    storm(Fault::Broken, STORM, |call| call.number.is_multiple_of(4));
}

#[test]
fn watches_that_are_too_old() {
    storm(Fault::Status(410), 12, Call::is_watch);
}

/// Watches that end all the time, as behind a proxy.
#[test]
fn watches_that_end() {
    run(async {
        let left = undisturbed().await?;
        let world = World::bare().await?;
        ask(&world).await?;
        let _manager = world.manager("manager-0")?;
        let ended = async {
            loop {
                tokio::time::sleep(Duration::from_millis(30)).await;
                world.faults.drop_watches();
            }
        };
        let now = tokio::select! {
            now = world.installed("ns", "a", "a.v1.0.0") => now,
            () = ended => Ok(()),
        };
        now?;
        same(&left, &settled(&world, "a.v1.0.0").await?, "after watches that ended")?;
        made_once(&world.faults.calls())
    });
}

/// The API is unavailable in the middle of an install for this long; a manager whose lease expired meanwhile
/// ends and is restarted, as the kubelet does, so that long back-offs do not delay it.
fn away(time: Duration, options: impl FnOnce(Options) -> Options + Send + 'static, gives_up: bool) {
    run(async move {
        let left = undisturbed().await?;
        let world = World::bare().await?;
        ask(&world).await?;
        let manager = world.manager_with(options(world.options("manager-0")))?;
        world
            .eventually("the plan to be at work", async || {
                let plans = world.list("InstallPlan", "ns").await?;
                ensure!(!plans.is_empty());
                Ok(())
            })
            .await?;
        let before = world.faults.count();
        world.faults.add(Fault::Broken, usize::MAX, |_| true);
        world.faults.drop_watches();
        tokio::time::sleep(time).await;
        ensure!(world.faults.count() > before, "it did not even try");
        ensure!((manager.starts() > 1) == gives_up, "it was started {} times", manager.starts());
        world.faults.heal();
        let back = tokio::time::Instant::now();
        world.installed("ns", "a", "a.v1.0.0").await?;
        println!("installed {:?} after the API was back", back.elapsed());
        same(&left, &settled(&world, "a.v1.0.0").await?, "after the API was away")?;
        made_once(&world.faults.calls())
    });
}

/// Too short for a lease to expire, and long enough for every watch and every call to fail several times.
#[test]
fn an_api_that_is_away_for_a_moment() {
    away(Duration::from_secs(2), |options| options, false);
}

/// A minute, as after a restart of a control plane (`make test-long`; the normal run takes the time for the
/// lease to expire, after which only the number of attempts grows).
#[test]
fn an_api_that_is_away_for_a_minute() {
    let time = if std::env::var_os("OLM_TEST_LONG").is_some() { 60 } else { 12 };
    away(Duration::from_secs(time), |options| Options { leader_election: true, ..options }, true);
}

/// Two managers that both lead (a stolen lease, a clock jump) do not harm each other.
#[test]
fn two_managers_at_once() {
    run(async {
        let left = undisturbed().await?;
        let world = World::bare().await?;
        ask(&world).await?;
        let one = world.manager_with(Options { cache_dir: None, ..world.options("manager-0") })?;
        let two = world.manager_with(Options { cache_dir: None, ..world.options("manager-1") })?;
        let now = settled(&world, "a.v1.0.0").await?;
        same(&left, &now, "with two managers")?;
        // and through an upgrade
        world.publish("catalog", &catalog(2)).await?;
        settled(&world, "a.v2.0.0").await?;
        ensure!(
            world.list("InstallPlan", "ns").await?.len() == 2,
            "{:?}",
            world.names("InstallPlan", "ns").await?
        );
        ensure!(one.starts() == 1 && two.starts() == 1);
        Ok(())
    });
}

/// With the lease one acts and the other waits; on shutdown, the first hands over.
#[test]
fn the_lease_is_handed_over() {
    run(async {
        let world = World::bare().await?;
        ask(&world).await?;
        let leading = |name: &str| Options { leader_election: true, cache_dir: None, ..world.options(name) };
        let one = world.manager_with(leading("manager-0"))?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let waits = Faults::new();
        let two = world.manager_behind(&waits, leading("manager-1"))?;
        world.publish("catalog", &catalog(2)).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        let acted: Vec<String> =
            waits.calls().iter().filter(|c| c.is_write() && !c.is_lease()).map(ToString::to_string).collect();
        ensure!(acted.is_empty(), "the one that waits wrote: {acted:?}");
        // when the first is stopped
        one.stop().await?;
        let asked = tokio::time::Instant::now();
        world.delete("Deployment", "ns", "a").await?;
        world.until("Deployment", "ns", "a", |d| d["status"]["availableReplicas"] == 1).await?;
        println!("handed over and at work after {:?}", asked.elapsed());
        ensure!(two.starts() == 1);
        Ok(())
    });
}

/// The catalog disappears while its plan waits: approved content is not guessed, and is applied when the
/// catalog is back.
#[test]
fn a_catalog_that_goes_in_the_middle_of_a_plan() {
    run(async {
        let (world, _manager) = World::start().await?;
        world.publish("catalog", &catalog(1)).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["installPlanApproval"] = "Manual".into()).await?;
        let plan = world.waiting_plan("ns", &[]).await?;
        world.delete("CatalogSource", OLM, "catalog").await?;
        world.condition("Subscription", "ns", "a", "CatalogSourcesUnhealthy", "").await?;
        world.approve("ns", text(&plan, "/metadata/name")).await?;
        let reported = world
            .until("InstallPlan", "ns", text(&plan, "/metadata/name"), |p| {
                condition(p, "Resolved").is_some_and(|c| c["status"] == "False")
            })
            .await?;
        let message = text(condition(&reported, "Resolved").context("a condition")?, "/message");
        println!("{message}");
        ensure!(message.contains("olm/catalog"), "{message}");
        ensure!(world.list("ClusterServiceVersion", "ns").await?.is_empty(), "something was installed");
        world.publish("catalog", &catalog(1)).await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// The same while the plan is in progress: it waits for the catalog, and completes when it is back.
#[test]
fn a_catalog_that_goes_while_its_plan_is_at_work() {
    run(async {
        let left = undisturbed().await?;
        let world = World::bare().await?;
        ask(&world).await?;
        interrupted(&world).await?;
        world.delete("CatalogSource", OLM, "catalog").await?;
        let _next = world.manager_with(Options { cache_dir: None, ..world.options("manager-1") })?;
        let plans = world.list("InstallPlan", "ns").await?;
        let plan = text(plans.first().context("a plan")?, "/metadata/name").to_owned();
        world
            .until("InstallPlan", "ns", &plan, |p| {
                condition(p, "Resolved")
                    .is_some_and(|c| c["status"] == "False" && text(c, "/message").contains("catalog"))
            })
            .await?;
        world.publish("catalog", &catalog(1)).await?;
        same(&left, &settled(&world, "a.v1.0.0").await?, "after the catalog came back")?;
        made_once(&world.faults.calls())
    });
}

/// A full disk: the existing catalog stays served, the CatalogSource reports the error, and when there is
/// space again the next poll stores the new one.
#[test]
fn a_disk_without_room_for_the_catalogs() {
    run(async {
        let world = World::bare().await?;
        let small = world.folder().join("small");
        std::fs::create_dir_all(&small)?;
        let options = "size=1m";
        let mounted = nix::mount::mount(
            Some("tmpfs"),
            &small,
            Some("tmpfs"),
            nix::mount::MsFlags::empty(),
            Some(options),
        );
        if let Err(error) = mounted {
            println!(
                "skipped: a_disk_without_room_for_the_catalogs: no file system can be mounted here: {error}"
            );
            return Ok(());
        }
        let body = async {
            let _manager = world.manager_with(Options {
                cache_dir: Some(small.join("cache")),
                ..world.options("manager-0")
            })?;
            ask(&world).await?;
            world.installed("ns", "a", "a.v1.0.0").await?;
            // when the disk is full
            let block = small.join("block");
            let _ = std::fs::write(&block, vec![0_u8; 2 << 20]);
            world.publish("catalog", &catalog(2)).await?;
            let reported = world
                .until("CatalogSource", OLM, "catalog", |s| {
                    let message = format!("{} {}", text(s, "/status/message"), s["status"]["conditions"]);
                    message.contains("No space left")
                        || message.contains("no room")
                        || message.contains("os error 28")
                })
                .await?;
            println!("{}", reported["status"]["message"]);
            // then the installed operator stays managed
            world.delete("Deployment", "ns", "a").await?;
            world.until("Deployment", "ns", "a", |d| d["status"]["availableReplicas"] == 1).await?;
            std::fs::remove_file(&block)?;
            world.publish("catalog", &catalog(2)).await?;
            world.installed("ns", "a", "a.v2.0.0").await
        };
        let result = body.await;
        let _ = nix::mount::umount2(&small, nix::mount::MntFlags::MNT_DETACH);
        result
    });
}

/// A foreign mandatory webhook without endpoints: reported before anything is changed, and retried.
#[test]
fn a_webhook_that_is_down() {
    run(async {
        let (world, _manager) = World::start().await?;
        let hook = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "gate" },
            "webhooks": [{
                "name": "gate.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
                "clientConfig": { "service": { "namespace": "default", "name": "nobody", "path": "/check" } },
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"], "scope": "*" }],
            }],
        });
        world.home("ns").await?;
        world.apply(&hook).await?;
        world.publish("catalog", &catalog(1)).await?;
        world.subscribe("ns", "a").await?;
        let reported = world
            .eventually("a condition that names the webhook", async || {
                let subscription = world.get("Subscription", "ns", "a").await?;
                let plans = world.list("InstallPlan", "ns").await?;
                let all: Vec<_> = std::iter::once(&subscription).chain(&plans).collect();
                let conditions = all
                    .iter()
                    .flat_map(|o| o["status"]["conditions"].as_array().cloned().unwrap_or_default());
                conditions
                    .into_iter()
                    .find(|c| text(c, "/message").contains("gate"))
                    .context("no condition names it")
            })
            .await?;
        println!("{reported}");
        let message = text(&reported, "/message");
        for named in ["gate.example.com", "default/nobody", "a-settings"] {
            ensure!(message.contains(named), "{named} is not named: {message}");
        }
        for (kind, namespace, name) in [
            ("ServiceAccount", "ns", "a"),
            ("CustomResourceDefinition", "", "as.a.example.com"),
            ("Deployment", "ns", "a"),
        ] {
            ensure!(
                world.find(kind, namespace, name).await?.is_none(),
                "half installed: there is {kind} {name}"
            );
        }
        world.delete("ValidatingWebhookConfiguration", "", "gate").await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// A manager without permission reports the missing right, and nothing is half done.
#[test]
fn a_manager_without_rights_names_the_missing_ones() {
    run(async {
        let world = World::bare().await?;
        ask(&world).await?;
        let role = world.get("ClusterRole", "", "olm-manager").await?;
        let rules: Vec<_> = role["rules"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|rule| rule["apiGroups"] != json!(["apiextensions.k8s.io"]))
            .cloned()
            .collect();
        world.patch("ClusterRole", "", "olm-manager", &json!({ "rules": rules })).await?;
        let _manager = world.manager("manager-0")?;
        let failed = world
            .eventually("a condition that names what is missing", async || {
                let subscription = world.get("Subscription", "ns", "a").await?;
                let conditions = subscription["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let names = |c: &serde_json::Value| {
                    text(c, "/message").to_lowercase().contains("customresourcedefinition")
                };
                conditions.into_iter().find(names).with_context(|| subscription["status"].to_string())
            })
            .await?;
        println!("{failed}");
        ensure!(
            world.list("ServiceAccount", "ns").await?.iter().all(|a| a["metadata"]["name"] != "a"),
            "half installed"
        );
        Ok(())
    });
}
