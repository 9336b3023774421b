//! A client that connects anew for each write, to the pods that a node's kube-proxy has at that moment. It
//! does not retry: every failure is one of its user.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use olm_tests::etcd_stage::{Endpoints, Handle, Net, facts};
use tokio::{net::TcpStream, task::JoinHandle};

use crate::clients::THINK;

/// Longer than etcd's own timeout, whose error is then reported.
const ANSWER: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct Seen {
    pub writes: usize,
    /// Refused connections.
    refused: Vec<String>,
    /// Requests that failed on an accepted connection: etcd loses some while leadership moves.
    pub failed: Vec<String>,
}

/// The running client.
pub struct Connections {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Seen>,
}

impl Connections {
    pub fn start(cluster: &Handle<'_>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let service = format!("{}-client", cluster.name);
        let endpoints = Endpoints::follow(&cluster.stage.client, &service);
        let task = tokio::spawn(write(endpoints, Arc::clone(&cluster.stage.net), Arc::clone(&stop)));
        Self { stop, task }
    }

    /// Stops it.
    /// # Errors
    /// When a connection was refused, or it hardly wrote.
    pub async fn finish(self) -> Result<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.task.await?;
        println!("{} writes, each with a connection; failed requests: {:?}", seen.writes, seen.failed);
        ensure!(seen.refused.is_empty(), "of {} connections failed: {:?}", seen.writes, seen.refused);
        ensure!(seen.writes > 100, "only {} writes", seen.writes);
        Ok(seen)
    }
}

async fn write(endpoints: Endpoints, net: Arc<Net>, stop: Arc<AtomicBool>) -> Seen {
    let (mut seen, mut turn) = (Seen::default(), 0);
    while !stop.load(Ordering::Relaxed) {
        let members = endpoints.now();
        if let Some(member) = members.get(turn % members.len().max(1)) {
            // Inside: the stage's wires accept connections also for a member that is down.
            let address = net.inside(member);
            let put = async {
                let mut client = facts::client(address).await?;
                client.put("connections", "value", None).await?;
                anyhow::Ok(())
            };
            if let Err(error) = TcpStream::connect((address, 2379)).await {
                seen.refused.push(format!("{member}: {error}"));
            } else {
                match tokio::time::timeout(ANSWER, put).await {
                    Ok(Ok(())) => seen.writes += 1,
                    Ok(Err(error)) => seen.failed.push(format!("{member}: {error:#}")),
                    Err(_) => seen.failed.push(format!("{member}: no answer")),
                }
            }
            turn += 1;
        }
        tokio::time::sleep(THINK).await;
    }
    seen
}
