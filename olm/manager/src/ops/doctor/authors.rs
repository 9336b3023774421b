//! Whether it is on record in whose name operators are changed.

use kube::ResourceExt;
use olm_api::Subscription;
use olm_version::Version;

use super::{
    ailment::{Ailment, Code},
    facts::Facts,
    installation::named,
};
use crate::authority::{self, Authority};

/// The minor version of Kubernetes 1 that brought the policies by which it is recorded.
const SINCE: u64 = 36;

pub(super) fn check(facts: &Facts) -> Vec<Ailment> {
    let version =
        facts.kubernetes.as_deref().and_then(|text| Version::parse(text.trim_start_matches('v')).ok());
    let Some(version) = version else { return Vec::new() };
    if (version.major, version.minor) < (1, SINCE) {
        let why = format!(
            "Kubernetes {version} has no MutatingAdmissionPolicies: the rights of users who ask for operators are not checked, and \
             who may change Subscriptions has the rights of the manager"
        );
        let fix = format!(
            "upgrade to Kubernetes 1.{SINCE}, or let only cluster administrators change Subscriptions"
        );
        return vec![Ailment::new(Code::RequestsNotRecorded, None, why).fix(fix)];
    }
    let unknown =
        |s: &&Subscription| s.metadata.deletion_timestamp.is_none() && Authority::requested(*s).is_none();
    let ailment = |subscription: &Subscription| {
        let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
        let why = "it is older than the record of authors, so its next plan waits for approval";
        Ailment::new(Code::AuthorNotRecorded, named("Subscription", subscription), why)
            .fix(authority::record("Subscription", &namespace, &name))
    };
    facts.subscriptions.iter().filter(unknown).map(ailment).collect()
}
