//! A client with a new connection for each write, through the Service: endpoints are taken from its
//! EndpointSlices like in kube-proxy, and a removed member is still chosen until its endpoint is gone.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::TryStreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use olm_tests::etcd_stage::{Stage, facts};

use super::{AGAIN, ANSWER, LONGEST, Row};

/// Allowed failures while members are removed or replaced. A member's endpoint is removed after the member,
/// so some writes fail.
const FAILURES: f64 = 20.0;

/// The addresses behind a Service.
type Endpoints = Arc<Mutex<Vec<Ipv4Addr>>>;

/// The waits and failures of such a client.
pub(super) struct Anew {
    /// The longest time between two acknowledged writes.
    longest: Duration,
    writes: usize,
    failures: usize,
}

impl Anew {
    pub(super) fn rows(&self, waits: &'static str, failures: &'static str) -> [Row; 2] {
        let note = format!("{} writes through the Service, each with a connection of its own", self.writes);
        [
            Row {
                what: waits,
                measured: self.longest.as_secs_f64(),
                limit: LONGEST,
                unit: "s",
                note: note.clone(),
            },
            Row { what: failures, measured: self.failures as f64, limit: FAILURES, unit: "", note },
        ]
    }
}

/// Follows the EndpointSlices of a Service, forever.
async fn follow(stage: &Stage, service: &str, endpoints: &Endpoints) -> Result<(), watcher::Error> {
    let api = Api::<EndpointSlice>::namespaced(stage.client.clone(), "ns");
    let config = watcher::Config::default().labels(&format!("kubernetes.io/service-name={service}"));
    let mut events = std::pin::pin!(watcher::watcher(api, config).default_backoff());
    let mut slices = BTreeMap::new();
    while let Some(event) = events.try_next().await? {
        match event {
            Event::Init => slices.clear(),
            Event::InitApply(slice) | Event::Apply(slice) => drop(slices.insert(slice.name_any(), slice)),
            Event::Delete(slice) => drop(slices.remove(&slice.name_any())),
            Event::InitDone => {}
        }
        let ready = slices.values().flat_map(|slice: &EndpointSlice| slice.endpoints.iter().flatten());
        let ready = ready.filter(|e| e.conditions.as_ref().is_none_or(|c| c.ready != Some(false)));
        let members = ready.filter_map(|endpoint| endpoint.target_ref.as_ref()?.name.clone());
        let found = members.map(|member| stage.net.outside(&member)).collect();
        *endpoints.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }
    Ok(())
}

/// Writes without a pause until `stop`.
pub(super) async fn writes(stage: &Stage, cluster: &str, stop: &AtomicBool) -> anyhow::Result<Anew> {
    let endpoints = Endpoints::default();
    let service = format!("{cluster}-client");
    let writing = write(&endpoints, stop);
    tokio::select! {
        ended = follow(stage, &service, &endpoints) => {
            ended?;
            anyhow::bail!("the watch of Service {service} ended")
        }
        done = writing => Ok(done),
    }
}

async fn write(endpoints: &Endpoints, stop: &AtomicBool) -> Anew {
    let mut out = Anew { longest: Duration::ZERO, writes: 0, failures: 0 };
    let (mut last, mut turn) = (None::<Instant>, 0_usize);
    while !stop.load(Ordering::Relaxed) {
        let known = endpoints.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(ip) = known.get(turn % known.len().max(1)).copied() else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        turn += 1;
        let attempt = async {
            let mut client = facts::client(ip).await?;
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
