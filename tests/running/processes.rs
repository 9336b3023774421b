//! Two `olm manager` processes: the leader is killed, stopped, or frozen in the middle of an install.
//!
//! The bench asserts the time of a hand-over (2 s after SIGTERM, 20 s after SIGKILL); here it is printed. The
//! assertions here hold on any machine: one writes at a time, and started work completes once.

use anyhow::{Result, ensure};
use olm_tests::inprocess::{
    Catalog, Fault, Operator, Replicas, Snapshot, World,
    replicas::{attempts, led_by},
    text,
};

use super::run;

/// One version in each namespace, each plan applied once.
async fn in_order(world: &World, csv: &str, namespaces: &[&str]) -> Result<()> {
    for namespace in namespaces {
        world.installed(namespace, "a", csv).await?;
        let csvs = world.names("ClusterServiceVersion", namespace).await?;
        ensure!(csvs == [csv], "{namespace}: {csvs:?}");
        let plans = world.list("InstallPlan", namespace).await?;
        ensure!(plans.iter().all(|plan| text(plan, "/status/phase") == "Complete"), "{plans:?}");
    }
    Ok(())
}

#[test]
fn a_terminating_leader_hands_over() {
    run(async {
        let mut replicas = Replicas::start().await?;
        replicas.installed(&["1.0.0"]).await?;
        let wrote = attempts(&replicas.second_calls, 0);
        ensure!(wrote.is_empty(), "the one that waits wrote: {wrote:?}");
        let took = replicas.hand_over("TERM").await?;
        println!("at work {took:?} after SIGTERM to the leader (bench: 2 s)");
        let until = replicas.first_calls.count();
        ensure!(replicas.first.ended().await? == Some(0), "{}", replicas.first.log_tail());
        in_order(&replicas.world, "a.v1.0.0", &["ns", "next"]).await?;
        let late = attempts(&replicas.first_calls, until);
        ensure!(late.is_empty(), "the first wrote after the other led: {late:?}");
        Ok(())
    });
}

#[test]
fn a_leader_that_is_killed_is_followed() {
    run(async {
        let mut replicas = Replicas::start().await?;
        replicas.installed(&["1.0.0"]).await?;
        let took = replicas.hand_over("KILL").await?;
        println!("at work {took:?} after SIGKILL to the leader (bench: 20 s)");
        in_order(&replicas.world, "a.v1.0.0", &["ns", "next"]).await
    });
}

/// The result of an undisturbed run.
async fn undisturbed(versions: [&Operator; 2]) -> Result<Snapshot> {
    let world = World::bare().await?;
    world.publish("catalog", &Catalog::chain(&versions[..1])).await?;
    world.home("ns").await?;
    world.subscribe("ns", "a").await?;
    let _manager = world.manager("manager-0")?;
    world.installed("ns", "a", &versions[0].name).await?;
    world.publish("catalog", &Catalog::chain(&versions)).await?;
    world.installed("ns", "a", &versions[1].name).await?;
    world.gone("ClusterServiceVersion", "ns", &versions[0].name).await?;
    world.collected().await?;
    world.quiet().await?;
    world.snapshot().await
}

/// The leader is stopped (SIGSTOP) with a write in flight, as on a suspended or overloaded machine; it
/// resumes when another one has led for long, has finished its install and made an upgrade. It writes nothing
/// any more, and ends.
#[test]
fn a_leader_that_slept_writes_nothing_when_it_wakes() {
    run(async {
        let (old, new) = (Operator::new("a", "1.0.0"), Operator::new("a", "2.0.0"));
        let left = undisturbed([&old, &new]).await?;
        let mut replicas = Replicas::start().await?;
        let world = &replicas.world;
        // given an install with a write in flight
        replicas
            .first_calls
            .add(Fault::Held, 1, |call| call.is_write() && call.path.ends_with("/serviceaccounts/a"));
        world.publish("catalog", &Catalog::chain(&[&old])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world
            .eventually("a write on its way", async || {
                let calls = attempts(&replicas.first_calls, 0);
                ensure!(calls.iter().any(|call| call.path.ends_with("/serviceaccounts/a")), "{calls:?}");
                Ok(())
            })
            .await?;
        // when the leader is frozen
        replicas.first.signal("STOP")?;
        replicas.first_calls.release();
        let asleep = tokio::time::Instant::now();
        led_by(world, "second").await?;
        println!("another leads {:?} after the leader fell asleep", asleep.elapsed());
        world.installed("ns", "a", &old.name).await?;
        world.publish("catalog", &Catalog::chain(&[&old, &new])).await?;
        world.installed("ns", "a", &new.name).await?;
        world.gone("ClusterServiceVersion", "ns", &old.name).await?;
        // and resumes
        let from = replicas.first_calls.count();
        replicas.first.signal("CONT")?;
        let code = replicas.first.ended().await?;
        // then it ends, with the reason
        ensure!(code.is_some_and(|code| code != 0), "it ended with {code:?}");
        ensure!(replicas.first.log_tail().contains("lost the lease"), "{}", replicas.first.log_tail());
        // and has not even attempted to write
        let late = attempts(&replicas.first_calls, from);
        ensure!(late.is_empty(), "it wrote when it woke: {late:?}");
        led_by(&replicas.world, "second").await?;
        in_order(&replicas.world, &new.name, &["ns"]).await?;
        replicas.world.collected().await?;
        let differences = left.differences(&replicas.world.snapshot().await?);
        ensure!(
            differences.is_empty(),
            "not what an undisturbed run leaves:\n  {}",
            differences.join("\n  ")
        );
        Ok(())
    });
}
