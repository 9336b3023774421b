//! A client with a new connection for each write, through the Service: to the pods that a node's kube-proxy
//! has at that moment.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use olm_tests::etcd_stage::{Endpoints, Stage, facts};

use super::{AGAIN, ANSWER, LONGEST, Row};

/// The waits and failures of such a client.
pub(super) struct Anew {
    /// The longest time between two acknowledged writes.
    longest: Duration,
    writes: usize,
    failures: usize,
}

impl Anew {
    /// `allowed`: the number of writes that may fail.
    pub(super) fn rows(&self, waits: &'static str, failures: &'static str, allowed: f64) -> [Row; 2] {
        let note = format!("{} writes through the Service, each with a connection of its own", self.writes);
        [
            Row {
                what: waits,
                measured: self.longest.as_secs_f64(),
                limit: LONGEST,
                unit: "s",
                note: note.clone(),
            },
            Row { what: failures, measured: self.failures as f64, limit: allowed, unit: "", note },
        ]
    }
}

/// Writes without a pause until `stop`.
pub(super) async fn writes(stage: &Stage, cluster: &str, stop: &AtomicBool) -> Anew {
    let endpoints = Endpoints::follow(&stage.client, &format!("{cluster}-client"));
    let mut out = Anew { longest: Duration::ZERO, writes: 0, failures: 0 };
    let (mut last, mut turn) = (None::<Instant>, 0_usize);
    while !stop.load(Ordering::Relaxed) {
        let known = endpoints.now();
        let Some(member) = known.get(turn % known.len().max(1)) else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        turn += 1;
        let attempt = async {
            let mut client = facts::client(stage.net.outside(member)).await?;
            client.put("bench-anew", "value", None).await?;
            anyhow::Ok(())
        };
        if matches!(tokio::time::timeout(ANSWER, attempt).await, Ok(Ok(()))) {
            out.writes += 1;
            // The time before the first write is not a wait of a client.
            out.longest = out.longest.max(last.map_or(Duration::ZERO, |last| last.elapsed()));
            last = Some(Instant::now());
        } else {
            out.failures += 1;
            tokio::time::sleep(AGAIN).await;
        }
    }
    out.longest = out.longest.max(last.map_or(Duration::ZERO, |last| last.elapsed()));
    out
}
