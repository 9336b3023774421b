//! Fault injection into pods of the dev cluster.
//!
//! [`Fault`] describes the effect of each fault. At most one of each kind is in force for a pod; another one
//! of the same kind replaces it. A fault ends when it is reverted, and with its pod; it also applies to
//! containers that are restarted meanwhile.
//!
//! The API server serves them at [`PATH`], for administrators only; [`Faults`] is the client.

use kube::Client;
use serde::{Deserialize, Serialize};

/// Path of faults at the API server of a dev cluster. Outside of the Kubernetes API, so that no other cluster
/// serves it.
pub const PATH: &str = "/dev/faults";
/// Longest time in milliseconds that [`Fault::Slow`] may stop or run a pod at once: longer ones are a pause.
const LONGEST: u32 = 60_000;

/// The peers that a pod is cut off from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CutFrom {
    /// All peers: its network interface has no link. The node cannot probe it either.
    Everything,
    /// All other pods, directly and through Services. Node, API server, DNS and probes still reach it, and it
    /// them.
    Pods,
    /// These pods (`name` in the same namespace, or `namespace/name`) as long as they live, directly; not
    /// through Services.
    Named(Vec<String>),
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// Packets are lost in both directions, on existing and new connections. Peers see timeouts and no
    /// immediate errors, as with an unplugged cable.
    Cut(CutFrom),
    /// All processes of the pod are stopped (SIGSTOP). The kernel still accepts connections for them.
    Pause,
    /// All processes of the pod are stopped and continued in turns, so that all their work takes longer, in
    /// jumps: responses, disk writes, timers. Neither the network nor the disk itself is slower.
    #[serde(rename_all = "camelCase")]
    Slow {
        /// Time in milliseconds that they are stopped at once.
        stop_milliseconds: u32,
        /// Time in milliseconds that they run in between.
        run_milliseconds: u32,
    },
    /// All processes of the pod are killed at once (SIGKILL); its `restartPolicy` decides what follows.
    Kill {
        /// Empty its emptyDirs and the volumes of its claims before any restart.
        wipe: bool,
    },
}

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// [`Fault::Cut`]
    Cut,
    /// [`Fault::Pause`]
    Pause,
    /// [`Fault::Slow`]
    Slow,
    /// [`Fault::Kill`], which does not stay in force.
    Kill,
}

impl Kind {
    /// The name in the API and the CLI.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Pause => "pause",
            Self::Slow => "slow",
            Self::Kill => "kill",
        }
    }
}

impl Fault {
    /// The kind of the fault.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Cut(_) => Kind::Cut,
            Self::Pause => Kind::Pause,
            Self::Slow { .. } => Kind::Slow,
            Self::Kill { .. } => Kind::Kill,
        }
    }

    /// The effect, for display.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Cut(CutFrom::Everything) => "all packets dropped".to_owned(),
            Self::Cut(CutFrom::Pods) => "packets to and from other pods dropped".to_owned(),
            Self::Cut(CutFrom::Named(pods)) => format!("packets to and from {} dropped", pods.join(", ")),
            Self::Pause => "processes stopped".to_owned(),
            Self::Slow { stop_milliseconds, run_milliseconds } => format!(
                "processes alternately stopped for {stop_milliseconds} ms and running for \
                 {run_milliseconds} ms"
            ),
            Self::Kill { wipe: false } => "processes killed".to_owned(),
            Self::Kill { wipe: true } => "processes killed and volumes emptied".to_owned(),
        }
    }

    /// Validates the parameters.
    ///
    /// # Errors
    /// The field, and the expected value.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Slow { stop_milliseconds, run_milliseconds } => {
                for (name, value) in [("stop", stop_milliseconds), ("run", run_milliseconds)] {
                    if !(1..=LONGEST).contains(value) {
                        return Err(format!(
                            "{name}: invalid value {value} ms, expected 1 ms to {LONGEST} ms"
                        ));
                    }
                }
                Ok(())
            }
            Self::Cut(CutFrom::Named(pods)) if pods.is_empty() => {
                Err("cut: missing pods, expected at least one pod, or a cut from everything".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// A fault for a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// The fault to apply.
    pub fault: Fault,
}

/// Selection of faults to revert; unset fields match all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Undo {
    /// Namespace of the pods.
    pub namespace: Option<String>,
    /// Name of the pod.
    pub pod: Option<String>,
    /// Kind of the faults.
    pub kind: Option<Kind>,
}

/// A fault that was applied to a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod: a later pod of this name does not have the fault.
    pub uid: String,
    /// The fault.
    pub fault: Fault,
    /// Time of application.
    pub since: jiff::Timestamp,
}

/// Responses of the API server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct List {
    /// The faults in force, or those that were removed.
    pub items: Vec<Done>,
}

/// Client for the faults of a dev cluster.
#[derive(Clone)]
pub struct Faults(Client);

impl Faults {
    /// With the permissions of this client; it needs those of an administrator.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// Applies a fault, which is in force on return (after a kill: the processes are gone, the volumes
    /// empty).
    ///
    /// # Errors
    /// The pod is missing or not running, the fault is not possible, or this is not a dev cluster (404).
    pub async fn put(&self, namespace: &str, pod: &str, fault: Fault) -> kube::Result<Done> {
        let order = Order { namespace: namespace.to_owned(), pod: pod.to_owned(), fault };
        self.0.request(request("POST", &order)?).await
    }

    /// The faults in force.
    ///
    /// # Errors
    /// The API server does not respond, or this is not a dev cluster (404).
    pub async fn list(&self) -> kube::Result<Vec<Done>> {
        let request = http::Request::get(PATH).body(Vec::new()).map_err(kube::Error::HttpError)?;
        Ok(self.0.request::<List>(request).await?.items)
    }

    /// Reverts faults; returns those that were in force.
    ///
    /// # Errors
    /// As [`Faults::put`].
    pub async fn undo(&self, which: &Undo) -> kube::Result<Vec<Done>> {
        Ok(self.0.request::<List>(request("DELETE", which)?).await?.items)
    }
}

fn request(method: &str, body: &impl Serialize) -> kube::Result<http::Request<Vec<u8>>> {
    let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    let request = http::Request::builder().method(method).uri(PATH);
    request.header("content-type", "application/json").body(body).map_err(kube::Error::HttpError)
}
