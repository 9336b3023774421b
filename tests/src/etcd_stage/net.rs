//! Addresses: one of 127.0.0.0/8 per member, known before its pod is.
//!
//! A member has two: outside, for others, and inside, where its etcd listens. The test controls the
//! [`wire`](super::wire) between the two.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, TcpListener},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result, bail};
use etcd_operator::{
    addressing::{Addressing, InCluster},
    observed::PodView,
    validate::Validated,
};

/// Concurrent test processes use different second bytes of the address.
const PROCESSES: std::ops::Range<u8> = 100..200;
/// Stages of one process use the third byte; the inside of a member has this offset.
const INSIDE: u8 = 128;
/// Port of a member for the operator of a slot.
const AUDITED: u16 = 12379;

/// The second byte of this process's addresses, reserved by a listener while the process lives.
static PROCESS: LazyLock<Option<(u8, TcpListener)>> = LazyLock::new(|| {
    PROCESSES.clone().find_map(|number| {
        TcpListener::bind((Ipv4Addr::new(127, number, 0, 1), 2379)).ok().map(|held| (number, held))
    })
});
/// The last assigned number of a stage, and those in use.
static STAGES: Mutex<(u8, BTreeSet<u8>)> = Mutex::new((0, BTreeSet::new()));

fn stages() -> MutexGuard<'static, (u8, BTreeSet<u8>)> {
    STAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The addresses of one stage.
pub struct Net {
    process: u8,
    stage: u8,
    given: Mutex<BTreeMap<String, u8>>,
}

impl Drop for Net {
    fn drop(&mut self) {
        stages().1.remove(&self.stage);
    }
}

impl Net {
    /// A stage's own addresses.
    ///
    /// # Errors
    /// When all are in use.
    pub fn claim() -> Result<Arc<Self>> {
        let (process, _) = PROCESS.as_ref().context("no addresses 127.100.0.0 to 127.199.0.0 are free")?;
        let mut stages = stages();
        // Numbers are reused as late as possible: former listeners take a while to end.
        let (last, used) = &mut *stages;
        let free =
            (1..INSIDE).map(|next| (*last + next - 1) % (INSIDE - 1) + 1).find(|stage| !used.contains(stage));
        let Some(stage) = free else { bail!("{INSIDE} stages at a time are too many in one process") };
        used.insert(stage);
        *last = stage;
        Ok(Arc::new(Self { process: *process, stage, given: Mutex::default() }))
    }

    fn given(&self) -> MutexGuard<'_, BTreeMap<String, u8>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self, member: &str) -> u8 {
        let mut given = self.given();
        // More members than numbers: former ones have the first ones.
        let next = u8::try_from(given.len() % 250 + 1).unwrap_or(1);
        *given.entry(member.to_owned()).or_insert(next)
    }

    /// The address of a member for others; constant for its name.
    #[must_use]
    pub fn outside(&self, member: &str) -> Ipv4Addr {
        Ipv4Addr::new(127, self.process, self.stage, self.number(member))
    }

    /// The address where its etcd listens.
    #[must_use]
    pub fn inside(&self, member: &str) -> Ipv4Addr {
        Ipv4Addr::new(127, self.process, self.stage + INSIDE, self.number(member))
    }

    /// The member that has an outside address.
    #[must_use]
    pub fn member_at(&self, host: &str) -> Option<String> {
        let given: Vec<String> = self.given().keys().cloned().collect();
        given.into_iter().rev().find(|name| self.outside(name).to_string() == host)
    }

    /// All members with an address.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.given().keys().cloned().collect()
    }

    /// The port of an operator's slot at every member.
    #[must_use]
    pub const fn audited(slot: u16) -> u16 {
        AUDITED + slot
    }
}

/// Addressing for the operator of a slot.
#[derive(Clone)]
pub(super) struct View {
    pub(super) net: Arc<Net>,
    pub(super) slot: u16,
}

impl View {
    /// The same URL with the member's address as host.
    fn at(&self, url: &str, member: &str) -> String {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let port = rest.rsplit_once(':').map_or("2380", |(_, port)| port);
        format!("{scheme}://{}:{port}", self.net.outside(member))
    }
}

impl Addressing for View {
    fn peer_url(&self, cluster: &Validated, member: &str) -> String {
        self.at(&InCluster.peer_url(cluster, member), member)
    }

    fn client_url(&self, cluster: &Validated, member: &str) -> String {
        self.at(&InCluster.client_url(cluster, member), member)
    }

    fn member(&self, cluster: &Validated, peer_url: &str) -> Option<String> {
        let host = peer_url.split_once("://")?.1.rsplit_once(':')?.0;
        let name = self.net.member_at(host)?;
        InCluster.member(cluster, &InCluster.peer_url(cluster, &name))
    }

    fn endpoint(&self, pod: &PodView) -> Option<String> {
        Some(format!("{}:{}", pod.ip.as_deref()?, Net::audited(self.slot)))
    }
}
