//! The next step of a restore: a pure function of status and observation.
//!
//! Every step is idempotent, and state is recorded before anything relies on it; so a restore can be
//! interrupted anywhere. The cluster stays unchanged until the whole snapshot is read and verified, matches
//! the cluster, and the current data is backed up, if possible. From then on this plan owns the members (by
//! the annotation on the EtcdCluster), until the first member of the new etcd cluster serves.

use super::claim::{self, ObservedClaim};
use crate::crd::restore::EtcdRestoreStatus;
use crate::observed::LOG_IN;

/// Restarts of the seed's containers until the restore fails.
pub(super) const SEED_TRIES: i32 = 5;

#[derive(Debug, Clone, Default)]
pub(crate) struct RestoreState {
    pub(crate) status: EtcdRestoreStatus,
    pub(crate) uid: String,
    /// Why the spec has no source.
    pub(crate) invalid: Option<String>,
    /// The claim to restore from, in place of a snapshot.
    pub(crate) claim: Option<ObservedClaim>,
    pub(crate) allow_other_cluster: bool,
    pub(crate) skip_safety_backup: bool,
    /// etcd version of the template, if there is one.
    pub(crate) template: Option<String>,
    /// The finalizer is set: deletion releases the cluster first.
    pub(crate) has_finalizer: bool,
    pub(crate) name: String,
    pub(crate) cluster: Option<ObservedCluster>,
    /// An unused member name.
    pub(crate) fresh_name: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedCluster {
    pub(crate) uid: String,
    pub(crate) deleting: bool,
    pub(crate) paused: bool,
    pub(crate) invalid: Option<String>,
    /// Uid of the EtcdRestore that holds the members.
    pub(crate) holder: Option<String>,
    pub(crate) version: String,
    pub(crate) size: usize,
    /// Id of the etcd cluster, by the status.
    pub(crate) cluster_id: Option<String>,
    /// Ids before other restores.
    pub(crate) former_ids: Vec<String>,
    /// Number of voters and of serving members, by the status.
    pub(crate) voters: usize,
    pub(crate) ready: usize,
    /// The cluster controller reports it as available.
    pub(crate) available: bool,
    /// It lost its data, by the status.
    pub(crate) lost: bool,
    /// A problem that the cluster controller reports.
    pub(crate) problem: Option<String>,
    /// A quorum was proved in this observation.
    pub(crate) serves: bool,
    /// Members serve, but require authentication.
    pub(crate) silent: bool,
    pub(crate) pods: Vec<ObservedPod>,
    /// Claims with the data of members: name and uid.
    pub(crate) claims: Vec<(String, String)>,
    /// Revision of a linearizable read in this observation.
    pub(crate) revision: Option<i64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedPod {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) deleting: bool,
    /// It terminated permanently.
    pub(crate) ended: bool,
    /// etcd ran in it.
    pub(crate) ever_started: bool,
    /// Its download address is that of this operator.
    pub(crate) reaches_us: bool,
    /// Failures of its init containers.
    pub(crate) failures: i32,
    /// Why it makes no progress.
    pub(crate) problem: Option<String>,
    /// Id of the etcd cluster that it serves, once it does.
    pub(crate) serves: Option<String>,
    pub(crate) revision: Option<i64>,
    /// Its etcd runs on a copy of a claim's data, to complete it.
    pub(crate) recovers: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Done,
    /// A prerequisite is missing; `phase` and the message are for users.
    Wait(&'static str, String),
    Fail(String),
    /// Read and verify the whole snapshot.
    Verify,
    /// Create the EtcdCluster of the template, held from the start.
    CreateCluster,
    /// Back up the current data of the cluster.
    SafetyBackup,
    Remember(Box<EtcdRestoreStatus>),
    /// Take ownership of the members.
    Hold,
    DeletePod {
        name: String,
        uid: String,
    },
    /// Retain the data of a former member, detached from the cluster.
    SetAside {
        name: String,
        uid: String,
    },
    /// Run etcd on a copy of a claim's data.
    Recover {
        name: String,
    },
    /// Start the first member, with the snapshot or with the data of the copy.
    CreateSeed {
        name: String,
    },
    /// Record the new etcd cluster in the EtcdCluster, and release the members.
    HandOver,
    /// Release the members after a failure.
    Release,
    /// Hold a cluster that was created for this restore and never had data: released, it would start empty
    /// and look restored. It is released when the EtcdRestore is deleted.
    Keep,
    /// All members serve, and the data is present.
    Succeed {
        revision: i64,
    },
}

pub(crate) fn next_step(state: &RestoreState) -> Step {
    let status = &state.status;
    let held = state.cluster.as_ref().is_some_and(|c| c.holder.as_ref() == Some(&state.uid));
    if matches!(status.phase.as_str(), "Succeeded" | "Failed") {
        let empty = || state.cluster.as_ref().is_some_and(|cluster| cluster.cluster_id.is_none());
        return match (held, status.phase.as_str()) {
            (false, _) => Step::Done,
            (true, "Failed") if state.has_finalizer && state.template.is_some() && empty() => Step::Keep,
            (true, _) => Step::Release,
        };
    }
    if let Some(why) = &state.invalid {
        return Step::Fail(why.clone());
    }
    if state.claim.is_none() && status.snapshot.is_none() {
        return Step::Verify;
    }
    let name = &state.name;
    let Some(cluster) = state.cluster.as_ref().filter(|c| !c.deleting) else {
        if !status.cluster_uid.is_empty() {
            return Step::Fail(format!("EtcdCluster {name} was deleted during the restore"));
        }
        if state.claim.is_some() {
            return Step::Fail(format!(
                "EtcdCluster {name} (spec.etcdCluster.name) not found, or being deleted: spec.fromClaim restores an EtcdCluster from one \
                 of its own claims; restore a backup (spec.backupStorageType with spec.clusterTemplate)"
            ));
        }
        let snapshot = status.snapshot.as_ref().filter(|_| state.cluster.is_none());
        if let (Some(version), Some(snapshot)) = (&state.template, snapshot) {
            // Rejected before creation: once released, it would start as an empty cluster.
            return newer("the snapshot", &snapshot.etcd_version, version)
                .map_or(Step::CreateCluster, Step::Fail);
        }
        let text = format!("EtcdCluster {name} not found; create it, or set spec.clusterTemplate");
        return Step::Wait("Verified", text);
    };
    if !status.cluster_uid.is_empty() && status.cluster_uid != cluster.uid {
        return Step::Fail(format!("EtcdCluster {name} was deleted and recreated during the restore"));
    }
    if let Some(why) = &cluster.invalid {
        return Step::Wait("Verified", format!("EtcdCluster {name} is invalid, correct it first: {why}"));
    }
    if let Some(other) = cluster.holder.as_ref().filter(|_| !held) {
        return Step::Wait(
            "Verified",
            format!("another EtcdRestore (uid {other}) is restoring EtcdCluster {name}"),
        );
    }
    if status.cluster_uid.is_empty() {
        if cluster.paused {
            let text = format!("EtcdCluster {name} is paused; set spec.paused to false");
            return Step::Wait("Verified", text);
        }
        return match (&state.claim, &status.snapshot) {
            (Some(claim), _) => claim::before(state, cluster, claim),
            (None, Some(snapshot)) => before(state, cluster, snapshot),
            (None, None) => Step::Verify,
        };
    }
    if status.cluster_id.is_empty() {
        return seed(state, cluster, held);
    }
    after(state, cluster, held)
}

/// Before any change.
fn before(
    state: &RestoreState,
    cluster: &ObservedCluster,
    snapshot: &crate::crd::restore::SnapshotStatus,
) -> Step {
    let status = &state.status;
    if let Some(why) = newer("the snapshot", &snapshot.etcd_version, &cluster.version) {
        return Step::Fail(why);
    }
    let known = |id: &String| cluster.cluster_id.as_ref() == Some(id) || cluster.former_ids.contains(id);
    // A cluster that never had an id cannot be confused with another.
    if !state.allow_other_cluster
        && cluster.cluster_id.is_some()
        && !snapshot.cluster_id.is_empty()
        && !known(&snapshot.cluster_id)
    {
        return Step::Fail(format!(
            "the snapshot is from etcd cluster {}, EtcdCluster {} is {}; set spec.allowOtherCluster in \
             another EtcdRestore to restore it anyway",
            snapshot.cluster_id,
            state.name,
            cluster.cluster_id.clone().unwrap_or_default()
        ));
    }
    let remember = |change: &dyn Fn(&mut EtcdRestoreStatus)| {
        let mut new = status.clone();
        change(&mut new);
        Step::Remember(Box::new(new))
    };
    if status.safety_backup.is_empty() {
        if state.skip_safety_backup {
            return remember(&|s| s.safety_backup = "none: spec.skipSafetyBackup is true".into());
        }
        if cluster.silent && !cluster.serves {
            let text = format!(
                "the members require authentication, so they cannot be backed up before they are \
                 stopped: {LOG_IN}; another EtcdRestore with spec.skipSafetyBackup skips the backup"
            );
            return Step::Wait("Verified", text);
        }
        if cluster.cluster_id.is_none() {
            return remember(&|s| s.safety_backup = "none: the cluster has no data yet".into());
        }
        if cluster.serves {
            return Step::SafetyBackup;
        }
        if cluster.available {
            return Step::Wait(
                "Verified",
                "the cluster is available, but does not respond; it is backed up before it is stopped".into(),
            );
        }
        return remember(&|s| s.safety_backup = "none: the cluster has no quorum for reads".into());
    }
    remember(&|s| {
        s.cluster_uid.clone_from(&cluster.uid);
        s.former_cluster_id = cluster.cluster_id.clone().unwrap_or_default();
        s.phase = "Stopping".into();
        s.reason.clear();
    })
}

/// From the last stopped member to the first one that serves.
fn seed(state: &RestoreState, cluster: &ObservedCluster, held: bool) -> Step {
    let status = &state.status;
    if !held || !state.has_finalizer {
        return Step::Hold;
    }
    if status.seed_member.is_empty() {
        let seed_member = state.fresh_name.clone();
        return Step::Remember(Box::new(EtcdRestoreStatus { seed_member, ..status.clone() }));
    }
    let (own, others): (Vec<&ObservedPod>, Vec<&ObservedPod>) =
        cluster.pods.iter().partition(|p| p.name == status.seed_member);
    if let Some(pod) = others.iter().find(|pod| !pod.deleting) {
        return Step::DeletePod { name: pod.name.clone(), uid: pod.uid.clone() };
    }
    if let Some(pod) = others.first() {
        return Step::Wait("Stopping", format!("pod {} is terminating", pod.name));
    }
    if let Some((name, uid)) = cluster.claims.iter().find(|(name, _)| *name != status.seed_member) {
        return Step::SetAside { name: name.clone(), uid: uid.clone() };
    }
    let Some(pod) = own.first() else {
        let without = Step::CreateSeed { name: status.seed_member.clone() };
        return state.claim.as_ref().map_or(without, |claim| claim::create(status, claim));
    };
    if pod.deleting {
        return Step::Wait("Seeding", format!("pod {} is terminating", pod.name));
    }
    if pod.recovers {
        return claim::recovering(status, pod);
    }
    if let Some(id) = &pod.serves {
        // Before other members copy it.
        if let Some(why) = pod.revision.and_then(|revision| incomplete(status, revision)) {
            return Step::Fail(why);
        }
        let mut new = EtcdRestoreStatus { cluster_id: id.clone(), phase: "Scaling".into(), ..status.clone() };
        new.reason.clear();
        return Step::Remember(Box::new(new));
    }
    // A restarted operator has another address. A pod with data is never recreated.
    if !pod.ever_started && (pod.ended || !pod.reaches_us) {
        return Step::DeletePod { name: pod.name.clone(), uid: pod.uid.clone() };
    }
    let problem = pod.problem.clone().unwrap_or_else(|| "starting".into());
    if pod.failures >= SEED_TRIES {
        let kept = if state.template.is_some() && cluster.cluster_id.is_none() {
            format!(
                "; EtcdCluster {} is held until this EtcdRestore is deleted, so that it does not start empty",
                state.name
            )
        } else {
            String::new()
        };
        return Step::Fail(format!("pod {} failed to load the data: {problem}{kept}", pod.name));
    }
    Step::Wait("Seeding", format!("pod {}: {problem}", pod.name))
}

/// From the first serving member to the last one.
fn after(state: &RestoreState, cluster: &ObservedCluster, held: bool) -> Step {
    let status = &state.status;
    // Repeated until both are recorded: the id, and that the cluster is not held any more.
    if held || cluster.cluster_id.as_ref() != Some(&status.cluster_id) {
        return Step::HandOver;
    }
    if cluster.lost {
        return Step::Fail(format!(
            "EtcdCluster {} lost its members after the data was restored; create another EtcdRestore",
            state.name
        ));
    }
    if cluster.ready < cluster.size || cluster.voters != cluster.size {
        let problem = cluster.problem.as_ref().map(|why| format!("; EtcdCluster {}: {why}", state.name));
        let text = format!("{} of {} members serve", cluster.ready, cluster.size);
        return Step::Wait("Scaling", text + &problem.unwrap_or_default());
    }
    let Some(revision) = cluster.revision else {
        return Step::Wait("Scaling", "all members are running; reads do not succeed yet".into());
    };
    incomplete(status, revision).map_or(Step::Succeed { revision }, Step::Fail)
}

/// Why a restored cluster at this revision lacks data.
fn incomplete(status: &EtcdRestoreStatus, revision: i64) -> Option<String> {
    let snapshot = status.snapshot.as_ref().and_then(|snapshot| snapshot.revision);
    let claim = status.claim.as_ref().and_then(|claim| claim.revision);
    let (source, wanted) = match (snapshot, claim) {
        (_, Some(wanted)) => ("claim", wanted),
        (Some(wanted), None) => ("snapshot", wanted),
        (None, None) => return None,
    };
    (wanted > revision).then(|| {
        format!(
            "the restored cluster is at revision {revision}, the {source} is at {wanted}; create another \
             EtcdRestore"
        )
    })
}

/// Why etcd of version `to` cannot read the data of `what`, written by etcd of version `from`. Unparsable
/// versions are not rejected.
pub(super) fn newer(what: &str, from: &str, to: &str) -> Option<String> {
    let minor = |text: &str| {
        let mut parts = text.trim_start_matches('v').split('.').map(str::parse::<u64>);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    };
    (minor(from)? > minor(to)?).then(|| {
        format!(
            "{what} is from etcd {from}, the cluster runs {to}: etcd does not read data of a newer \
         minor version; set spec.version of the EtcdCluster first"
        )
    })
}
