//! The next step of a restore: a pure function of what is remembered in its status and of what is seen. Every step can be
//! done twice, and what must not be forgotten is written down before it is relied on; so it can break off anywhere.
//!
//! Nothing of the cluster is touched before the snapshot was read whole and found good, fits to the cluster, and what the
//! cluster holds now is backed up, if it can be. From then on the members are this plan's (the annotation on the EtcdCluster
//! says so), until the first member of the new etcd cluster serves.

use super::claim::{self, ClaimSeen};
use crate::crd::restore::EtcdRestoreStatus;
use crate::observed::LOG_IN;

/// The seed's containers were started so often: it will not get better by itself.
pub(super) const SEED_TRIES: i32 = 5;

#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// What is remembered.
    pub(crate) status: EtcdRestoreStatus,
    /// Uid of the EtcdRestore.
    pub(crate) uid: String,
    /// Why the spec has no source.
    pub(crate) invalid: Option<String>,
    /// The claim to restore from, in place of a snapshot.
    pub(crate) claim: Option<ClaimSeen>,
    pub(crate) allow_other_cluster: bool,
    pub(crate) skip_safety_backup: bool,
    /// There is a template; the etcd version that it asks for.
    pub(crate) template: Option<String>,
    /// Our finalizer is on it: were it deleted now, the cluster would be given back first.
    pub(crate) guarded: bool,
    /// Name of the EtcdCluster.
    pub(crate) name: String,
    pub(crate) cluster: Option<ClusterSeen>,
    /// Name for a member that never was.
    pub(crate) fresh_name: String,
}

/// The EtcdCluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClusterSeen {
    pub(crate) uid: String,
    pub(crate) deleting: bool,
    /// It is to be left alone.
    pub(crate) paused: bool,
    /// What is wrong with its spec.
    pub(crate) invalid: Option<String>,
    /// Uid of the EtcdRestore that works on the members.
    pub(crate) holder: Option<String>,
    /// etcd version that is wanted.
    pub(crate) version: String,
    pub(crate) size: usize,
    /// Id of the etcd cluster, by the status.
    pub(crate) cluster_id: Option<String>,
    /// Ids that it had before other restores.
    pub(crate) former_ids: Vec<String>,
    /// Members with a vote, and those that serve, by the status.
    pub(crate) voters: usize,
    pub(crate) ready: usize,
    /// The cluster controller calls it available.
    pub(crate) available: bool,
    /// It lost its data, by the status.
    pub(crate) lost: bool,
    /// What the cluster controller says is not as it should be.
    pub(crate) trouble: Option<String>,
    /// A quorum was proved in this look.
    pub(crate) serves: bool,
    /// Members serve, and say nothing of themselves.
    pub(crate) silent: bool,
    pub(crate) pods: Vec<PodSeen>,
    /// Claims that hold the data of members: name and uid.
    pub(crate) claims: Vec<(String, String)>,
    /// Revision of a read that went through a majority, in this look.
    pub(crate) revision: Option<i64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct PodSeen {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) deleting: bool,
    /// It ended for good.
    pub(crate) ended: bool,
    /// etcd ran in it.
    pub(crate) ever_started: bool,
    /// It fetches from where this operator is.
    pub(crate) reaches_us: bool,
    /// How often its containers before etcd failed.
    pub(crate) failures: i32,
    /// Why it does not get on.
    pub(crate) trouble: Option<String>,
    /// Id of the etcd cluster that it serves, once it does.
    pub(crate) serves: Option<String>,
    /// Its newest revision.
    pub(crate) revision: Option<i64>,
    /// Its etcd runs on a copy of a claim's data, to complete it.
    pub(crate) recovers: bool,
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// It is over.
    Done,
    /// Something must happen first; `phase` and the words are for people.
    Wait(&'static str, String),
    /// It cannot be done.
    Fail(String),
    /// Read the snapshot whole.
    Verify,
    /// Make the EtcdCluster of the template, held from its first moment.
    CreateCluster,
    /// Back up what the cluster holds.
    SafetyBackup,
    /// Write this down.
    Remember(Box<EtcdRestoreStatus>),
    /// Take the members over.
    Hold,
    /// Stop a member.
    DeletePod { name: String, uid: String },
    /// Keep the data of a former member, out of the way.
    SetAside { name: String, uid: String },
    /// Run etcd on a copy of a claim's data.
    Recover { name: String },
    /// Start the first member, with the snapshot or with what the copy holds.
    CreateSeed { name: String },
    /// Tell the EtcdCluster of its new etcd cluster, and give the members back.
    HandOver,
    /// Give the members back after a failure.
    Release,
    /// Hold a cluster that was made for this and never held anything: given back, it would start empty, as if the restore had
    /// brought it. It is given back when the EtcdRestore is deleted.
    Keep,
    /// All members serve, and the data is there.
    Succeed { revision: i64 },
}

/// The next step. First match wins.
pub(crate) fn next_step(seen: &Seen) -> Step {
    let status = &seen.status;
    let held = seen.cluster.as_ref().is_some_and(|c| c.holder.as_ref() == Some(&seen.uid));
    if matches!(status.phase.as_str(), "Succeeded" | "Failed") {
        let empty = || seen.cluster.as_ref().is_some_and(|cluster| cluster.cluster_id.is_none());
        return match (held, status.phase.as_str()) {
            (false, _) => Step::Done,
            (true, "Failed") if seen.guarded && seen.template.is_some() && empty() => Step::Keep,
            (true, _) => Step::Release,
        };
    }
    if let Some(why) = &seen.invalid {
        return Step::Fail(why.clone());
    }
    if seen.claim.is_none() && status.snapshot.is_none() {
        return Step::Verify;
    }
    let name = &seen.name;
    let Some(cluster) = seen.cluster.as_ref().filter(|c| !c.deleting) else {
        if !status.cluster_uid.is_empty() {
            return Step::Fail(format!("EtcdCluster {name} was deleted during the restore"));
        }
        if seen.claim.is_some() {
            return Step::Fail(format!(
                "EtcdCluster {name} (spec.etcdCluster.name) not found, or being deleted: spec.fromClaim restores an EtcdCluster from one \
                 of its own claims; restore a backup (spec.backupStorageType with spec.clusterTemplate)"
            ));
        }
        let snapshot = status.snapshot.as_ref().filter(|_| seen.cluster.is_none());
        if let (Some(version), Some(snapshot)) = (&seen.template, snapshot) {
            // Not made first and refused then: given back, it would start as an empty cluster.
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
        return match (&seen.claim, &status.snapshot) {
            (Some(claim), _) => claim::before(seen, cluster, claim),
            (None, Some(snapshot)) => before(seen, cluster, snapshot),
            (None, None) => Step::Verify,
        };
    }
    if status.cluster_id.is_empty() {
        return seed(seen, cluster, held);
    }
    after(seen, cluster, held)
}

/// Before anything is touched.
fn before(seen: &Seen, cluster: &ClusterSeen, snapshot: &crate::crd::restore::SnapshotStatus) -> Step {
    let status = &seen.status;
    if let Some(why) = newer("the snapshot", &snapshot.etcd_version, &cluster.version) {
        return Step::Fail(why);
    }
    let known = |id: &String| cluster.cluster_id.as_ref() == Some(id) || cluster.former_ids.contains(id);
    // A cluster that never was one has nothing that could be taken for something else.
    if !seen.allow_other_cluster
        && cluster.cluster_id.is_some()
        && !snapshot.cluster_id.is_empty()
        && !known(&snapshot.cluster_id)
    {
        return Step::Fail(format!(
            "the snapshot is from etcd cluster {}, EtcdCluster {} is {}; set spec.allowOtherCluster in \
             another EtcdRestore to restore it anyway",
            snapshot.cluster_id,
            seen.name,
            cluster.cluster_id.clone().unwrap_or_default()
        ));
    }
    let remember = |change: &dyn Fn(&mut EtcdRestoreStatus)| {
        let mut new = status.clone();
        change(&mut new);
        Step::Remember(Box::new(new))
    };
    if status.safety_backup.is_empty() {
        if seen.skip_safety_backup {
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

/// From the last member that is stopped to the first one that serves.
fn seed(seen: &Seen, cluster: &ClusterSeen, held: bool) -> Step {
    let status = &seen.status;
    if !held || !seen.guarded {
        return Step::Hold;
    }
    if status.seed_member.is_empty() {
        let seed_member = seen.fresh_name.clone();
        return Step::Remember(Box::new(EtcdRestoreStatus { seed_member, ..status.clone() }));
    }
    let (own, others): (Vec<&PodSeen>, Vec<&PodSeen>) =
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
        return seen.claim.as_ref().map_or(without, |claim| claim::create(status, claim));
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
    // An operator that was started again is somewhere else. What holds data is never made anew.
    if !pod.ever_started && (pod.ended || !pod.reaches_us) {
        return Step::DeletePod { name: pod.name.clone(), uid: pod.uid.clone() };
    }
    let trouble = pod.trouble.clone().unwrap_or_else(|| "starting".into());
    if pod.failures >= SEED_TRIES {
        let kept = if seen.template.is_some() && cluster.cluster_id.is_none() {
            format!(
                "; EtcdCluster {} is held until this EtcdRestore is deleted, so that it does not start empty",
                seen.name
            )
        } else {
            String::new()
        };
        return Step::Fail(format!("pod {} failed to load the data: {trouble}{kept}", pod.name));
    }
    Step::Wait("Seeding", format!("pod {}: {trouble}", pod.name))
}

/// From the first member that serves to the last one.
fn after(seen: &Seen, cluster: &ClusterSeen, held: bool) -> Step {
    let status = &seen.status;
    // Told again until both are there: the id, and that it is held no more.
    if held || cluster.cluster_id.as_ref() != Some(&status.cluster_id) {
        return Step::HandOver;
    }
    if cluster.lost {
        return Step::Fail(format!(
            "EtcdCluster {} lost its members after the data was restored; create another EtcdRestore",
            seen.name
        ));
    }
    if cluster.ready < cluster.size || cluster.voters != cluster.size {
        let trouble = cluster.trouble.as_ref().map(|why| format!("; EtcdCluster {}: {why}", seen.name));
        let text = format!("{} of {} members serve", cluster.ready, cluster.size);
        return Step::Wait("Scaling", text + &trouble.unwrap_or_default());
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

/// Why the data of `what`, from etcd of version `from`, cannot be taken in by etcd of version `to`. What cannot be compared is
/// not refused.
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
