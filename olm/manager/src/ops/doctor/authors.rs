//! Whether it is recorded in whose name operators are changed.

use kube::ResourceExt;
use olm_api::Subscription;

use super::{
    ailment::{Ailment, Code},
    facts::Facts,
    installation::named,
    objects::Compared,
};
use crate::{
    authority::{self, Authority, policies::REQUESTS},
    manifests::MANAGER,
};

/// That the policies or the webhook are there is part of the comparison of the installation's objects.
pub(super) fn check(facts: &Facts) -> Vec<Ailment> {
    let refused = facts.installation.iter().filter_map(refused);
    refused.chain(unrecorded(&facts.subscriptions)).collect()
}

/// A webhook that the API server cannot call, because it does not know whom to trust.
fn refused(compared: &Compared) -> Option<Ailment> {
    let live =
        compared.live.as_ref().filter(|_| compared.wanted["kind"] == "MutatingWebhookConfiguration")?;
    let unknown =
        |webhook: &serde_json::Value| webhook["clientConfig"]["caBundle"].as_str().is_none_or(str::is_empty);
    live["webhooks"].as_array().is_some_and(|webhooks| webhooks.iter().any(unknown)).then(|| {
        let namespace = compared.wanted["webhooks"][0]["clientConfig"]["service"]["namespace"].as_str();
        let why = "the manager has not written caBundle yet: until then the API server refuses changes of Subscriptions, OperatorGroups, \
                   ClusterServiceVersions and InstallPlans";
        let fix = format!("kubectl -n {} logs deployment/{MANAGER}", namespace.unwrap_or_default());
        Ailment::new(Code::RequestsRefused, Some(format!("MutatingWebhookConfiguration {REQUESTS}")), why).fix(fix)
    })
}

fn unrecorded(subscriptions: &[Subscription]) -> Vec<Ailment> {
    let unknown =
        |s: &&Subscription| s.metadata.deletion_timestamp.is_none() && Authority::requested(*s).is_none();
    let ailment = |subscription: &Subscription| {
        let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
        let why = "it is older than the record of authors, so its next plan waits for approval";
        Ailment::new(Code::AuthorNotRecorded, named("Subscription", subscription), why)
            .fix(authority::record("Subscription", &namespace, &name))
    };
    subscriptions.iter().filter(unknown).map(ailment).collect()
}
