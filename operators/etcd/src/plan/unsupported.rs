//! Members older than etcd 3.4, as coreos/etcd-operator may have left them: they are reported and otherwise
//! left unchanged.
//!
//! Such an etcd has no learners. Asked to add one it adds a voter, which counts before it runs: with a single
//! member that costs the quorum. And it does not start with the arguments of this operator.

use semver::Version;

use super::{Decision, Health, Progress, assess, prove, version};
use crate::observed::{Memory, Observed};

/// No action while a member runs an etcd that is too old.
pub(super) fn blocked_by_version(memory: &Memory, observed: &Observed) -> Option<Decision> {
    // No proof required: before 3.4 members may not report their applied index, and then all seem to lag far
    // behind.
    let lowest = match assess(observed) {
        Some(health) => lowest(observed, &health)?,
        None => last_known(memory, observed)?,
    };
    let (reason, text) = version::too_old(&lowest)?;
    // The cluster id is still recorded where possible: it changes nothing in etcd.
    let noted = memory.cluster_id.is_some() || prove(observed).is_none();
    noted.then(|| Decision::blocked(Progress::Stuck, reason, text))
}

/// The lowest version that a member runs.
fn lowest(observed: &Observed, health: &Health<'_>) -> Option<Version> {
    let names = health.voters.iter().chain(&health.learners).filter_map(|m| m.pod.as_deref());
    names.filter_map(|name| running(observed, name)).min()
}

/// The version reported by a member. One that does not answer may still run the version of its pod, unless
/// that has terminated.
fn running(observed: &Observed, name: &str) -> Option<Version> {
    let reported = observed.endpoints.get(name).map(|endpoint| endpoint.version.as_str());
    let made_for = || observed.pod(name).filter(|pod| !pod.ended).map(|pod| pod.version.as_str());
    Version::parse(reported.or_else(made_for)?).ok()
}

/// No member answers. The lowest version of a pod or claim: a restarted member would run it, with arguments
/// that it does not support.
fn last_known(memory: &Memory, observed: &Observed) -> Option<Version> {
    let of = |name: &str| {
        let reported = observed.endpoints.get(name).map(|endpoint| endpoint.version.as_str());
        let pod = observed.pod(name).map(|pod| pod.version.as_str());
        let claim = observed.claim(name).map(|claim| claim.version.as_str());
        // Their creator may not have recorded it.
        [reported, pod, claim, Some(&memory.version)]
            .into_iter()
            .flatten()
            .find_map(|text| Version::parse(text).ok())
    };
    let pods = observed.pods.iter().map(|pod| pod.name.as_str());
    pods.chain(observed.claims.iter().map(|claim| claim.name.as_str())).filter_map(of).min()
}
