//! What goes wrong between the manager and the API, or with either. After each: converged to the very objects of an
//! undisturbed run, or an exact diagnosis; nothing orphaned, nothing made twice.
//!
//! | Fault | Scenario | What holds afterwards |
//! |---|---|---|
//! | kill -9 at every API call of an install and of an upgrade | `kills::killed_{before,after}_each_write_of_an_{install,upgrade}` | objects as undisturbed, none created twice, one version; `make test-long` kills at every call, reads included |
//! | kill -9, SIGTERM of a leader that is a process | `running::processes::a_leader_that_is_killed_is_followed`, `…_told_to_stop_hands_over` | the other one leads and ends the work; the first writes nothing after; times are rows of the bench |
//! | leader frozen (SIGSTOP) with a write on its way | `running::processes::a_leader_that_slept_writes_nothing_when_it_wakes` | it tries no write, ends with `lost the lease`; objects as undisturbed |
//! | storms of 409, 410, 429, 500, lost answers, broken connections | `outages::a_storm_of_…`, `a_squall_of_…_in_an_upgrade`, `watches_that_…`, `answers_that_are_lost`, `connections_that_break` | objects as undisturbed, none created twice |
//! | API server away for a moment, for a minute | `outages::an_api_that_is_away_for_a_{moment,minute}` | it tried, and installed within the patience after the return; objects as undisturbed; with the lease gone it ended and was started again |
//! | webhook down | `outages::a_webhook_that_is_down` | condition names webhook, Service and object; nothing applied; goes on by itself when it is gone |
//! | catalog gone mid-plan | `outages::a_catalog_that_goes_{in_the_middle_of_a_plan,while_its_plan_is_at_work}` | the plan's condition names the catalog; carried out when it is back, objects as undisturbed |
//! | two managers at once | `outages::two_managers_at_once`, `the_lease_is_handed_over`, `running::leaders` | objects as undisturbed, one plan a version; with the lease only one writes |
//! | clock jump | `running::clocks::a_clock_that_jumps_stops_nothing` (a process, a day in each direction); lease: simulated time, `olm/manager/src/lease/tests.rs`; certificates: `olm/manager/src/certs/tests.rs` | the same leader, upgrades go on, deadlines are only reported, a certificate that has not begun is replaced, the webhook is reached |
//! | disk full: catalogs | `outages::a_disk_without_room_for_the_catalogs` | the CatalogSource's status names file and cause; what is installed is looked after; taken when there is room |
//! | disk full: store of the dev cluster | `e2e::bad_input::a_full_disk_refuses_writes_and_loses_nothing` | writes are refused with the cause, reads go on, nothing acknowledged is lost after kill -9 |
//! | CRD that never becomes Established | `stuck::a_crd_that_is_never_established` | a condition names the CRD, no Deployment is made; goes on when the names are free |
//! | Deployment that never becomes ready | `stuck::a_deployment_that_is_never_ready`, `an_upgrade_that_never_is_ready_is_superseded` | phase and message name it; installed when it is ready; the old version serves meanwhile |
//! | namespace deleted mid-install | `stuck::a_namespace_that_goes_in_the_middle_of_an_install` | at each kind of object: nothing but CRDs is left |
//! | no rights | `outages::a_manager_without_rights_says_which` | the rights that are missing, as a command; nothing half installed |

mod kills;
mod outages;
mod stuck;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use olm_tests::inprocess::{Call, Catalog, Fault, Operator, Snapshot, World};
use serde_json::json;

use crate::a_crd;

/// A manager that dies in the middle of a plan of [`rich`]: its ServiceAccount is there, and nothing after it.
pub(super) async fn interrupted(world: &World) -> Result<()> {
    world.faults.add(Fault::KillAfter, 1, |c| c.method == "PATCH" && c.path.ends_with("/serviceaccounts/a"));
    let manager = world.manager("manager-0")?;
    manager.killed().await;
    manager.kill();
    Ok(())
}

/// An operator with something of each phase: CRD, rights in the namespace and the cluster, configuration, a Deployment.
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

/// What is asked for, up to the point where the manager has to act.
pub(super) async fn ask(world: &World) -> Result<()> {
    world.publish("catalog", &catalog(1)).await?;
    world.home("ns").await?;
    world.subscribe("ns", "a").await
}

/// What is there when all is done and nobody does anything any more.
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

/// No object was made more than once. (That what is there was not changed more than once shows in its generation, which is in
/// the snapshot.)
pub(super) fn made_once(calls: &[Call]) -> Result<()> {
    let mut made: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.changed() && call.status == Some(201)) {
        // A POST does not name what it makes; each kind of them is made once here.
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
