//! S13: monkeys.

use std::time::Duration;

use anyhow::{Context as _, Result};
use olm_tests::etcd_stage::Stage;

use crate::{
    clients::Clients,
    judge::{Guarantee, judge},
    long, made,
    random::Random,
    scenario,
};

/// Number of actions of a monkey.
fn rounds() -> u64 {
    if long() { 40 } else { 3 }
}

/// Tricks of the first monkey on one member.
const TRICKS: u64 = 4;

/// Level 1: one member at a time, by any trick, and the next one when all are healthy again.
async fn one_at_a_time(stage: &Stage, size: usize, seed: u64) -> Result<()> {
    let (_operator, cluster) = made(stage, size).await?;
    let clients = Clients::start(&cluster, 4, seed);
    let mut random = Random::new(seed);
    // Each trick has its turn, in an order of the seed.
    let first = random.below(TRICKS);
    for round in 0..rounds() {
        let names: Vec<String> = cluster.names().await?.into_iter().collect();
        let name = random.one(&names).context("a member")?.clone();
        let trick = (first + round) % TRICKS;
        println!("round {round}: trick {trick} on {name}");
        match trick {
            0 => stage.kubelet.kill(&name)?,
            1 => stage.delete("Pod", "ns", &name).await?,
            2 => {
                stage.kubelet.pause(&name)?;
                tokio::time::sleep(Duration::from_secs(2)).await;
                stage.kubelet.resume(&name)?;
            }
            _ => {
                stage.kubelet.down(&name)?;
                tokio::time::sleep(Duration::from_secs(2)).await;
                stage.kubelet.up(&name)?;
            }
        }
        cluster.steady(size).await.with_context(|| format!("round {round}: trick {trick} on {name}"))?;
    }
    judge(&cluster, clients, Guarantee::of(size).outage(15)).await.map(drop)
}

#[test]
fn s13_a_monkey_among_three() {
    scenario("S13 level 1, size 3", async |stage| one_at_a_time(stage, 3, 13).await);
}

#[test]
fn s13_a_monkey_among_five() {
    scenario("S13 level 1, size 5", async |stage| one_at_a_time(stage, 5, 14).await);
}

/// Level 2: up to all members at once, with their data, without waiting.
#[test]
fn s13_many_monkeys_among_five() {
    scenario("S13 level 2, size 5", async |stage| {
        let (_operator, cluster) = made(stage, 5).await?;
        let clients = Clients::start(&cluster, 4, 15);
        let mut random = Random::new(15);
        for _ in 0..rounds() * 2 {
            let names: Vec<String> = cluster.names().await?.into_iter().collect();
            for name in &names {
                if random.percent(60) {
                    // It may still be down.
                    let _ = stage.kubelet.kill(name);
                }
            }
            tokio::time::sleep(Duration::from_millis(300 + random.below(1500))).await;
        }
        judge(&cluster, clients, Guarantee::of(5).outage(60)).await.map(drop)
    });
}
