//! Upgrades of etcd.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use olm_tests::{
    etcd::next_version,
    etcd_stage::{Handle, Start, audit::Change, facts},
};
use serde_json::json;

use crate::{
    clients::Clients,
    connections::Connections,
    judge::{Guarantee, judge},
    made, scenario, spec,
};

/// Reasons for a rejected version, the second with such a version.
const SKEW: &str = "UnsupportedVersionSkew";
const BAD: (&str, &str) = ("3.5.1", "KnownBadVersion");

/// A scenario that needs a newer etcd than the initial one.
fn with_newer(id: &str, body: impl AsyncFnOnce(&olm_tests::etcd_stage::Stage, &str) -> Result<()>) {
    match next_version() {
        Ok(version) => scenario(id, async |stage| body(stage, &version).await),
        Err(why) => olm_tests::skipped(id, &why),
    }
}

/// Starts of a cluster's members with the image of a version, in their order.
fn starts(cluster: &Handle<'_>, version: &str) -> Vec<Start> {
    let of = |name: &str| name.rsplit_once('-').is_some_and(|(of, _)| of == cluster.name);
    let starts = cluster.stage.kubelet.starts();
    starts.into_iter().filter(|s| of(&s.pod) && s.image.ends_with(&format!(":v{version}"))).collect()
}

/// S17: from one minor to the next, with the leader at each place in the order of age: followers are
/// restarted first, and the leader transfers leadership before its restart.
#[test]
fn s17_an_upgrade_takes_the_leader_last() {
    with_newer("S17", async |stage, version| {
        let _operator = stage.operator()?;
        let mut clusters = Vec::new();
        for place in 0..3 {
            clusters.push(stage.create(&format!("u{place}"), spec(3)).await?);
        }
        let mut running = Vec::new();
        for (place, cluster) in clusters.iter().enumerate() {
            cluster.steady(3).await?;
            // The oldest, the one in the middle, the newest.
            let order: Vec<String> = starts_in_order(cluster);
            let wanted = order.get(place).context("three members")?.clone();
            let (leader, id) = (cluster.leader().await?, cluster.ids().await?[&wanted]);
            if leader != wanted {
                facts::client(stage.net.inside(&leader)).await?.move_leader(id).await?;
            }
            running.push((wanted, Clients::start(cluster, 2, 170 + place as u64)));
        }
        for cluster in &clusters {
            cluster.spec(json!({ "version": version })).await?;
        }
        for (cluster, (leader, clients)) in clusters.iter().zip(running) {
            let done = |object: &serde_json::Value| object["status"]["currentVersion"] == version;
            cluster.until("the new version", done).await?;
            judge(cluster, clients, Guarantee::of(3)).await?;
            let order: Vec<String> = starts(cluster, version).into_iter().map(|start| start.pod).collect();
            let each: BTreeSet<&String> = order.iter().collect();
            ensure!(
                order.len() == 3 && each.len() == 3,
                "{}: started with {version}: {order:?}",
                cluster.name
            );
            ensure!(
                order.last() == Some(&leader),
                "{}: {leader} led and was not the last of {order:?}",
                cluster.name
            );
            let facts = cluster.facts().await;
            ensure!(facts.0.values().all(|report| report.version == version), "{:?}", facts);
            let minor: Vec<&str> = version.split('.').take(2).collect();
            // The leader polls the members' versions every few seconds.
            stage
                .eventually("the members to agree on the version", async || {
                    let agreed = facts::cluster_version(stage.net.inside(&leader)).await?;
                    ensure!(agreed.starts_with(&minor.join(".")), "the cluster's version is {agreed}");
                    Ok(())
                })
                .await?;
        }
        let log = stage.audit.log();
        let moved =
            log.iter().filter(|rpc| matches!(rpc.change, Change::MoveLeader(_)) && rpc.made()).count();
        ensure!(moved >= 3, "{moved} leaders handed over");
        let after = log.iter().skip_while(|rpc| !matches!(rpc.change, Change::MoveLeader(_)));
        let changed: Vec<String> =
            after.filter(|rpc| rpc.change.is_membership()).map(|rpc| rpc.brief()).collect();
        ensure!(changed.is_empty(), "membership was changed: {changed:?}");
        Ok(())
    });
}

/// S17: clients that connect anew for each write, through the endpoints of the Service: no connection fails
/// while members are restarted with a new version.
#[test]
fn s17_new_connections_do_not_fail_during_an_upgrade() {
    with_newer("S17 connections", async |stage, version| {
        let (_operator, cluster) = made(stage, 3).await?;
        let connections = Connections::start(&cluster);
        cluster.spec(json!({ "version": version })).await?;
        let done = |object: &serde_json::Value| object["status"]["currentVersion"] == version;
        cluster.until("the new version", done).await?;
        cluster.steady(3).await?;
        connections.finish().await.map(drop)
    });
}

/// Members in the order of their first start.
fn starts_in_order(cluster: &Handle<'_>) -> Vec<String> {
    let of = |name: &str| name.rsplit_once('-').is_some_and(|(of, _)| of == cluster.name);
    let mut order: Vec<String> = Vec::new();
    for start in cluster.stage.kubelet.starts() {
        if of(&start.pod) && !order.contains(&start.pod) {
            order.push(start.pod);
        }
    }
    order
}

/// S18: unsupported versions are rejected with the reason, and no process is touched.
#[test]
fn s18_versions_that_cannot_be_reached_are_refused() {
    scenario("S18", async |stage| {
        let (_operator, cluster) = made(stage, 1).await?;
        let before = stage.kubelet.starts().len();
        let own = olm_tests::etcd::version().unwrap_or_default();
        // Another reason each time: a report about the previous version does not count.
        let refused: &[(&str, &str)] = match own.split('.').nth(1) {
            Some("4") => &[("3.6.4", SKEW), BAD],
            Some("5") => &[("3.7.0", SKEW), BAD, ("3.4.23", SKEW)],
            _ => &[("3.4.23", SKEW)],
        };
        for &(version, reason) in refused {
            cluster.spec(json!({ "version": version })).await?;
            let reported = cluster.condition("Upgrading", "False", reason).await.context(version)?;
            ensure!(reported["message"].as_str().is_some_and(|text| !text.is_empty()), "{reported}");
        }
        cluster.spec(json!({ "version": own })).await?;
        cluster.steady(1).await?;
        if own.starts_with("3.4.") {
            // A user enables authentication: its log has another form in 3.5.
            let name = cluster.leader().await?;
            let client = facts::client(stage.net.inside(&name)).await?;
            let mut auth = client.auth_client();
            auth.user_add("root", "secret", None).await?;
            auth.role_add("root").await?;
            auth.user_grant_role("root", "root").await?;
            auth.auth_enable().await?;
            cluster.spec(json!({ "version": "3.5.30" })).await?;
            cluster.condition("Upgrading", "False", "AuthEnabled").await?;
        }
        let starts = stage.kubelet.starts();
        ensure!(starts.len() == before, "processes were started: {:?}", &starts[before..]);
        Ok(())
    });
}

/// S19: the new version does not start: the upgrade stops at the first member, and can be reverted.
#[test]
fn s19_an_upgrade_that_fails_stops_at_the_first_member_and_goes_back() {
    with_newer("S19", async |stage, version| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 3, 19);
        let from = stage.audit.count();
        stage.kubelet.break_image(Some(&format!(":v{version}")));
        cluster.spec(json!({ "version": version })).await?;
        cluster.condition("Upgrading", "False", "UpgradeStalled").await?;
        let tried = || starts(&cluster, version).into_iter().map(|start| start.pod).collect::<BTreeSet<_>>();
        stage
            .eventually("a member to try the new version", async || {
                ensure!(tried().len() == 1, "{:?} were set to run {version}", tried());
                Ok(())
            })
            .await?;
        let own = olm_tests::etcd::version().unwrap_or_default();
        cluster.spec(json!({ "version": own })).await?;
        cluster.condition("Upgrading", "False", "VersionAsDesired").await?;
        judge(&cluster, clients, Guarantee::of(3)).await?;
        ensure!(tried().len() == 1, "{:?} were set to run {version}", tried());
        let changes: Vec<String> = stage.audit.membership_since(from).iter().map(|rpc| rpc.brief()).collect();
        ensure!(changes.is_empty(), "membership was changed: {changes:?}");
        Ok(())
    });
}
