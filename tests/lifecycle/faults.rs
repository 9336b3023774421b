//! Faults of the manager, of the API and between them. After each: convergence to the objects of an undisturbed
//! run, or an exact diagnosis; nothing orphaned, nothing created twice.
//!
//! | Fault | Scenario | Result |
//! |---|---|---|
//! | kill -9 at every API call of an install and of an upgrade | `kills::killed_{before,after}_each_write_of_an_{install,upgrade}` | objects as undisturbed, none created twice, one version; `make test-long` kills at every call, reads included |
//! | kill -9, SIGTERM of a leader process | `running::processes::a_leader_that_is_killed_is_followed`, `…_told_to_stop_hands_over` | the other leads and finishes; the first writes nothing afterwards; the times are rows of the benchmark |
//! | leader frozen (SIGSTOP) during a write | `running::processes::a_leader_that_slept_writes_nothing_when_it_wakes` | it attempts no write and ends with `lost the lease`; objects as undisturbed |
//! | storms of 409, 410, 429, 500, lost answers, broken connections | `outages::a_storm_of_…`, `a_squall_of_…_in_an_upgrade`, `watches_that_…`, `answers_that_are_lost`, `connections_that_break` | objects as undisturbed, none created twice |
//! | API server unavailable for a moment, for a minute | `outages::an_api_that_is_away_for_a_{moment,minute}` | it retries and installs within the timeout after the return; objects as undisturbed; without the lease it ends and is restarted |
//! | webhook down | `outages::a_webhook_that_is_down` | condition names webhook, Service and object; nothing applied; continues when it is removed |
//! | catalog deleted during a plan | `outages::a_catalog_that_goes_{in_the_middle_of_a_plan,while_its_plan_is_at_work}` | the plan's condition names the catalog; carried out when it returns, objects as undisturbed |
//! | two managers at once | `outages::two_managers_at_once`, `the_lease_is_handed_over`, `running::leaders` | objects as undisturbed, one plan per version; with the lease only one writes |
//! | clock jump | `running::clocks::a_clock_that_jumps_stops_nothing` (a process, a day in each direction); lease: simulated time, `olm/client/src/lease/tests.rs`; certificates: `olm/manager/src/certs/tests.rs` | the same leader, upgrades continue, deadlines are only reported, a certificate not yet valid is replaced, the webhook is reached |
//! | disk full: catalogs | `outages::a_disk_without_room_for_the_catalogs` | the CatalogSource's status names file and cause; installed operators stay managed; loaded when there is space |
//! | disk full: store of the dev cluster | `e2e::bad_input::a_full_disk_refuses_writes_and_loses_nothing` | writes are refused with the cause, reads continue, no acknowledged write is lost after kill -9 |
//! | CRD that never becomes Established | `stuck::a_crd_that_is_never_established` | a condition names the CRD, no Deployment is created; continues when the names are free |
//! | Deployment that never becomes ready | `stuck::a_deployment_that_is_never_ready`, `an_upgrade_that_never_is_ready_is_superseded` | phase and message name it; installed when it is ready; the old version serves meanwhile |
//! | namespace deleted during an install | `stuck::a_namespace_that_goes_in_the_middle_of_an_install` | at each kind of object: only CRDs remain |
//! | no rights | `outages::a_manager_without_rights_names_the_missing_ones` | the missing permissions, as a command; no partial install |

mod kills;
mod outages;
mod stuck;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use olm_tests::inprocess::{Call, Catalog, Fault, Operator, Snapshot, World};
use serde_json::json;

use crate::a_crd;

/// A manager killed during a plan of [`rich`]: its ServiceAccount exists, and no later object.
pub(super) async fn interrupted(world: &World) -> Result<()> {
    world.faults.add(Fault::KillAfter, 1, |c| c.method == "PATCH" && c.path.ends_with("/serviceaccounts/a"));
    let manager = world.manager("manager-0")?;
    manager.killed().await;
    manager.kill();
    Ok(())
}

/// An operator with an object of each phase: CRD, rights in the namespace and the cluster, configuration, a
/// Deployment.
pub(super) fn rich(version: &str) -> Operator {
    let settings = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a-settings" }, "data": { "version": version } });
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a-metrics" },
        "spec": { "selector": { "app": "a" }, "ports": [{ "port": 8080 }] } });
    Operator::new("a", version)
        .owns(a_crd(&["v1"]))
        .cluster_permission(
            "a",
            json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"] }),
        )
        .object(settings)
        .object(service)
}

pub(super) fn catalog(versions: usize) -> Catalog {
    let all = [rich("1.0.0"), rich("2.0.0")];
    Catalog::chain(&all.iter().take(versions).collect::<Vec<_>>())
}

/// The requests, up to the point where the manager has to act.
pub(super) async fn ask(world: &World) -> Result<()> {
    world.publish("catalog", &catalog(1)).await?;
    world.home("ns").await?;
    world.subscribe("ns", "a").await
}

/// All objects, once everything is settled.
pub(super) async fn settled(world: &World, csv: &str) -> Result<Snapshot> {
    world.installed("ns", "a", csv).await?;
    world
        .eventually("one ClusterServiceVersion", async || {
            let names = world.names("ClusterServiceVersion", "ns").await?;
            ensure!(names == [csv], "{names:?}");
            Ok(())
        })
        .await?;
    world.quiet().await?;
    world.collected().await?;
    world.quiet().await?;
    world.snapshot().await
}

/// No object was created more than once. (Repeated changes are visible in its generation, which is in the
/// snapshot.)
pub(super) fn made_once(calls: &[Call]) -> Result<()> {
    let mut made: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.changed() && call.status == Some(201)) {
        // A POST does not name its object; one object per kind is created here.
        made.entry(call.path.clone()).or_default().push(call.to_string());
    }
    let plans = |path: &str| path.ends_with("/installplans") || path.ends_with("/clusterserviceversions");
    let twice: Vec<&Vec<String>> =
        made.iter().filter(|(path, calls)| calls.len() > 1 && !plans(path)).map(|(_, calls)| calls).collect();
    ensure!(twice.is_empty(), "made more than once: {twice:#?}");
    Ok(())
}

/// The same objects as in the undisturbed run.
pub(super) fn same(undisturbed: &Snapshot, now: &Snapshot, when: &str) -> Result<()> {
    let differences = undisturbed.differences(now);
    ensure!(
        differences.is_empty(),
        "{when}: not what an undisturbed run leaves:\n  {}",
        differences.join("\n  ")
    );
    Ok(())
}
