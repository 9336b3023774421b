//! Connections between the outside of a member and its etcd, which can be cut and delayed. The first bytes of
//! a connection identify the caller: members of etcd name themselves.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Header in which a member of etcd identifies itself as a caller.
const FROM: &str = "x-server-from:";
/// Maximum length of the head of a call.
const HEAD: usize = 4096;
/// Buffer size.
const CHUNK: usize = 32 << 10;

/// Cut and delayed connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rules {
    /// Id of the calling member, name of the called one.
    cut: BTreeSet<(u64, String)>,
    /// Additional latency of a member's peer port.
    slow: BTreeMap<String, Duration>,
}

/// All wires of a stage.
pub struct Wires {
    rules: watch::Sender<Rules>,
    laid: Mutex<BTreeSet<SocketAddr>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Between members.
    Peers,
    Clients,
}

impl Default for Wires {
    fn default() -> Self {
        Self { rules: watch::Sender::new(Rules::default()), laid: Mutex::default() }
    }
}

impl Wires {
    fn laid(&self) -> MutexGuard<'_, BTreeSet<SocketAddr>> {
        self.laid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves an address; false if it is in use.
    pub(super) fn claim(&self, at: SocketAddr) -> bool {
        self.laid().insert(at)
    }

    /// Creates the wire from the outside of a member to its inside, once. It stays, whatever happens to the
    /// member.
    pub(super) async fn lay(
        self: &Arc<Self>,
        member: &str,
        what: Use,
        outside: Ipv4Addr,
        inside: Ipv4Addr,
        port: u16,
    ) -> Result<()> {
        let at = SocketAddr::from((outside, port));
        if !self.claim(at) {
            return Ok(());
        }
        let listener = TcpListener::bind(at).await.with_context(|| format!("failed to listen on {at}"))?;
        let (wires, member, to) = (Arc::clone(self), member.to_owned(), SocketAddr::from((inside, port)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (wires, member) = (Arc::clone(&wires), member.clone());
                tokio::spawn(async move {
                    // The endpoints handle connection errors.
                    let _ = wires.carry(stream, &member, what, to).await;
                });
            }
        });
        Ok(())
    }

    async fn carry(
        &self,
        mut caller: TcpStream,
        member: &str,
        what: Use,
        to: SocketAddr,
    ) -> std::io::Result<()> {
        let mut rules = self.rules.subscribe();
        let mut head = Vec::new();
        let mut from = None;
        if what == Use::Peers {
            while head.len() < HEAD && !ended(&head) && caller.read_buf(&mut head).await? > 0 {
                // With TLS the caller is unknown.
                if head.first().is_some_and(|byte| *byte == 0x16) {
                    break;
                }
            }
            from = caller_of(&head);
            if from.is_none() && ended(&head) {
                // A probe, which does not identify its caller. Its connection must not be reused.
                head = closing(&head);
            }
        }
        let is_cut = |rules: &Rules| match what {
            Use::Peers => {
                from.is_some_and(|id| rules.cut.contains(&(id, member.to_owned())))
                    || rules.cut.contains(&(0, member.to_owned()))
            }
            Use::Clients => false,
        };
        if is_cut(&rules.borrow_and_update().clone()) {
            // Like a network that loses everything: the connection stays open and nothing passes.
            let healed = rules.wait_for(|rules| !is_cut(rules)).await;
            return healed.map(drop).map_err(std::io::Error::other);
        }
        let Ok(mut called) = TcpStream::connect(to).await else {
            // Like a host without a listener.
            return caller.set_zero_linger();
        };
        caller.set_nodelay(true)?;
        called.set_nodelay(true)?;
        called.write_all(&head).await?;
        let (caller_in, caller_out) = caller.split();
        let (called_in, called_out) = called.split();
        let slow = self.rules.subscribe();
        tokio::select! {
            done = copy(caller_in, called_out, &slow, member, what) => done,
            done = copy(called_in, caller_out, &slow, member, what) => done,
            _ = rules.wait_for(is_cut) => Ok(()),
        }
    }

    /// Cuts connections from the member `from` (its id) to the member `to`.
    pub fn cut(&self, from: u64, to: &str) {
        self.rules.send_modify(|rules| {
            rules.cut.insert((from, to.to_owned()));
        });
    }

    /// Delays everything to and from the peer port of a member.
    pub fn slow(&self, member: &str, by: Duration) {
        self.rules.send_modify(|rules| {
            rules.slow.insert(member.to_owned(), by);
        });
    }

    pub fn heal(&self) {
        self.rules.send_replace(Rules::default());
    }
}

async fn copy(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
    rules: &watch::Receiver<Rules>,
    member: &str,
    what: Use,
) -> std::io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from.read(&mut chunk).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        let slow = rules.borrow().slow.get(member).copied().filter(|_| what == Use::Peers);
        if let Some(by) = slow {
            tokio::time::sleep(by).await;
        }
        to.write_all(&chunk[..length]).await?;
    }
}

/// The same call, with `Connection: close`.
fn closing(head: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(head);
    let (first, rest) = text.split_once("\r\n").unwrap_or((&text, ""));
    format!("{first}\r\nConnection: close\r\n{rest}").into_bytes()
}

fn ended(head: &[u8]) -> bool {
    head.windows(4).any(|four| four == b"\r\n\r\n")
}

/// The id of the calling member.
fn caller_of(head: &[u8]) -> Option<u64> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let id = head.lines().find_map(|line| line.strip_prefix(FROM))?;
    u64::from_str_radix(id.trim(), 16).ok()
}
