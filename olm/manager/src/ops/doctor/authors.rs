//! Whether the API server records in whose name operators are changed.

use kube::ResourceExt;
use olm_api::Subscription;

use super::{
    ailment::{Ailment, Code},
    facts::Facts,
    installation::named,
    objects::Compared,
};
use crate::authority::{self, Authority, policies};

pub(super) fn check(facts: &Facts) -> Vec<Ailment> {
    if facts.installation.is_empty() {
        // The installation was not compared, so it is not known whether requests are recorded.
        return Vec::new();
    }
    let records = |c: &Compared| {
        c.wanted["kind"] == "MutatingAdmissionPolicy" && c.wanted["metadata"]["name"] == policies::REQUESTS
    };
    if !facts.installation.iter().any(records) {
        let why = "the API server has no MutatingAdmissionPolicies: the rights of users who ask for operators are not checked, and \
                   who may change Subscriptions has the rights of the manager";
        let fix = "upgrade to Kubernetes 1.36, or let only cluster administrators change Subscriptions";
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
