//! Two manager processes: one leads, the other waits for the lease.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::time::Instant;

use super::{
    catalog::Catalog,
    faults::{Call, Faults},
    operator::Operator,
    served::Process,
    waiting::PATIENCE,
    world::{MANAGER, OLM, World},
};

/// Longer than the validity of a lease, and than the detection of a lost leader.
const TAKEN_OVER: Duration = PATIENCE;

/// A cluster with two managers; `first` leads.
pub struct Replicas {
    /// Killed before the world ends.
    pub first: Process,
    /// Waits.
    pub second: Process,
    /// API calls of the first.
    pub first_calls: Faults,
    /// API calls of the second.
    pub second_calls: Faults,
    /// Their cluster.
    pub world: World,
}

impl Replicas {
    /// Starts both; the second once the first leads, so that the leader is known.
    /// # Errors
    /// Why one of them did not start.
    pub async fn start() -> Result<Self> {
        let world = World::bare().await?;
        let (first_calls, second_calls) = (Faults::new(), Faults::new());
        let mut first = Process::start(&world.serve(&first_calls)?, "first")?;
        led_by(&world, "first").await?;
        first.ready(PATIENCE).await?;
        let mut second = Process::start(&world.serve(&second_calls)?, "second")?;
        second.ready(PATIENCE).await?;
        Ok(Self { first, second, first_calls, second_calls, world })
    }

    /// Publishes these versions of package `a`, and waits until the last of them runs.
    /// # Errors
    /// When it does not.
    pub async fn installed(&self, versions: &[&str]) -> Result<()> {
        let all: Vec<Operator> = versions.iter().map(|version| Operator::new("a", version)).collect();
        self.world.publish("catalog", &Catalog::chain(&all.iter().collect::<Vec<_>>())).await?;
        self.world.home("ns").await?;
        self.world.subscribe("ns", "a").await?;
        let last = all.last().map(|a| a.name.clone()).unwrap_or_default();
        self.world.installed("ns", "a", &last).await
    }

    /// Time without progress after the leader got a signal: until the other one leads and has changed the
    /// first object.
    /// # Errors
    /// When no manager takes over.
    pub async fn hand_over(&mut self, signal: &str) -> Result<Duration> {
        let from = self.second_calls.count();
        let sent = Instant::now();
        self.first.signal(signal)?;
        // Work for the next leader: a version to install once more.
        self.world.namespace("next").await?;
        self.world.group("next", &["next"]).await?;
        self.world.subscribe("next", "a").await?;
        led_by(&self.world, "second").await?;
        loop {
            if !self.second_calls.writes_since(from).is_empty() {
                return Ok(sent.elapsed());
            }
            ensure!(
                sent.elapsed() < TAKEN_OVER,
                "the second leads and does nothing:\n{}",
                self.second.log_tail()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// The leader; `""` without one.
/// # Errors
/// The API's rejection.
pub async fn leader(world: &World) -> Result<String> {
    let lease = Api::<Lease>::namespaced(world.client.clone(), OLM).get_opt(MANAGER).await?;
    Ok(lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default())
}

/// Waits until a manager leads.
/// # Errors
/// On time-out.
pub async fn led_by(world: &World, who: &str) -> Result<()> {
    world
        .eventually(&format!("{who} to lead"), async || {
            let leader = leader(world).await?;
            ensure!(leader == who, "`{leader}` leads");
            Ok(())
        })
        .await
}

/// Attempted writes, without the lease.
#[must_use]
pub fn attempts(calls: &Faults, from: usize) -> Vec<Call> {
    calls.calls().into_iter().skip(from).filter(|call| call.is_write() && !call.is_lease()).collect()
}
