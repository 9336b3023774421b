//! Members older than etcd 3.4, as the predecessor may have left them: they are told of, and otherwise left alone.
//!
//! Such an etcd does not know what a learner is. Asked to add one it adds a voter, which counts before it runs: beside a
//! single member that is the quorum. And it does not start with the arguments that this operator gives.

use semver::Version;

use super::{Decision, Health, Progress, assess, prove, version};
use crate::observed::{Memory, Observed};

/// Nothing is done while a member runs an etcd that is too old.
pub(super) fn held(memory: &Memory, seen: &Observed) -> Option<Decision> {
    // No proof is asked for: before 3.4 members may not say what they have applied, and then all look as if they were far behind.
    let lowest = match assess(seen) {
        Some(health) => lowest(seen, &health)?,
        None => last_known(memory, seen)?,
    };
    let (reason, text) = version::too_old(&lowest)?;
    // The id of the cluster is still written down where that can be done: it changes nothing in etcd.
    let noted = memory.cluster_id.is_some() || prove(seen).is_none();
    noted.then(|| Decision::blocked(Progress::Stuck, reason, text))
}

/// The lowest version that a member runs.
fn lowest(seen: &Observed, health: &Health<'_>) -> Option<Version> {
    let names = health.voters.iter().chain(&health.learners).filter_map(|m| m.pod.as_deref());
    names.filter_map(|name| running(seen, name)).min()
}

/// What a member says to run. One that does not answer may still run what its pod was made for, unless that has ended.
fn running(seen: &Observed, name: &str) -> Option<Version> {
    let says = seen.endpoints.get(name).map(|endpoint| endpoint.version.as_str());
    let made_for = || seen.pod(name).filter(|pod| !pod.ended).map(|pod| pod.version.as_str());
    Version::parse(says.or_else(made_for)?).ok()
}

/// Nobody answers for all. The lowest version that a pod or a claim is of: started again it would be with that, and with arguments that it
/// does not know.
fn last_known(memory: &Memory, seen: &Observed) -> Option<Version> {
    let of = |name: &str| {
        let says = seen.endpoints.get(name).map(|endpoint| endpoint.version.as_str());
        let pod = seen.pod(name).map(|pod| pod.version.as_str());
        let claim = seen.claim(name).map(|claim| claim.version.as_str());
        // Who made them may not have said so.
        [says, pod, claim, Some(&memory.version)]
            .into_iter()
            .flatten()
            .find_map(|text| Version::parse(text).ok())
    };
    let pods = seen.pods.iter().map(|pod| pod.name.as_str());
    pods.chain(seen.claims.iter().map(|claim| claim.name.as_str())).filter_map(of).min()
}
