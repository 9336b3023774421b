//! Addresses: one of 127.0.0.0/8 per member, known before its pod is.
//!
//! A member has two: outside, where others find it, and inside, where its etcd listens. The [`wire`](super::wire) between the two
//! belongs to the test.

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

/// Processes of tests on one machine choose different ones of these second numbers of the address.
const PROCESSES: std::ops::Range<u8> = 100..200;
/// Stages of one process have the third number; the inside of a member is this much further.
const INSIDE: u8 = 128;
/// Port of a member at which the operator of a slot finds it.
const AUDITED: u16 = 12379;

/// The second number of this process's addresses, held by a listener as long as the process lives.
static PROCESS: LazyLock<Option<(u8, TcpListener)>> = LazyLock::new(|| {
    PROCESSES.clone().find_map(|number| {
        TcpListener::bind((Ipv4Addr::new(127, number, 0, 1), 2379)).ok().map(|held| (number, held))
    })
});
/// The number that was given to a stage last, and those that are in use.
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
        // One that was in use is used again as late as can be: what listened there takes a while to end.
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
        // More members than there are numbers: those long gone have the first ones.
        let next = u8::try_from(given.len() % 250 + 1).unwrap_or(1);
        *given.entry(member.to_owned()).or_insert(next)
    }

    /// Where others find a member; the same for as long as its name is.
    #[must_use]
    pub fn outside(&self, member: &str) -> Ipv4Addr {
        Ipv4Addr::new(127, self.process, self.stage, self.number(member))
    }

    /// Where its etcd listens.
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

    /// Everybody who has an address.
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

/// How the operator of a slot finds members.
#[derive(Clone)]
pub(super) struct View {
    pub(super) net: Arc<Net>,
    pub(super) slot: u16,
}

impl View {
    /// The same URL with the member's address for its host.
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
