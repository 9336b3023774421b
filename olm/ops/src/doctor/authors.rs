//! Checks that the author of changes to operators is recorded.

use kube::ResourceExt;
use olm_api::{InstallPolicy, Subscription, install_policy::PlanAuthority};
use olm_engine::site::MANAGER;

use super::{
    facts::Facts,
    installation::named,
    objects::Compared,
    problem::{Code, Problem},
};
use crate::authority::{self, Authority, policies::REQUESTS};

/// The existence of the policies or the webhook is checked with the installation's objects.
pub(super) fn check(facts: &Facts) -> Vec<Problem> {
    let refused = facts.installation.iter().filter_map(refused);
    refused.chain(unrecorded(&facts.subscriptions)).chain(lending_nothing(&facts.policies)).collect()
}

/// A webhook without a CA bundle: the API server cannot verify the manager's certificate.
fn refused(compared: &Compared) -> Option<Problem> {
    let live =
        compared.live.as_ref().filter(|_| compared.wanted["kind"] == "MutatingWebhookConfiguration")?;
    let unknown =
        |webhook: &serde_json::Value| webhook["clientConfig"]["caBundle"].as_str().is_none_or(str::is_empty);
    live["webhooks"].as_array().is_some_and(|webhooks| webhooks.iter().any(unknown)).then(|| {
        let namespace = compared.wanted["webhooks"][0]["clientConfig"]["service"]["namespace"].as_str();
        let why = "webhooks[].clientConfig.caBundle is empty, expected the manager's CA bundle: the API \
            server refuses changes of Subscriptions, OperatorGroups, ClusterServiceVersions, InstallPlans \
            and InstallPolicies";
        let fix = format!("kubectl -n {} logs deployment/{MANAGER}", namespace.unwrap_or_default());
        Problem::new(Code::RequestsRefused, Some(format!("MutatingWebhookConfiguration {REQUESTS}")), why)
            .fix(fix)
    })
}

fn unrecorded(subscriptions: &[Subscription]) -> Vec<Problem> {
    let unknown =
        |s: &&Subscription| s.metadata.deletion_timestamp.is_none() && Authority::requested(*s).is_none();
    let problem = |subscription: &Subscription| {
        let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
        let why = "it has no recorded author, so its next plan requires approval";
        Problem::new(Code::AuthorNotRecorded, named("Subscription", subscription), why)
            .fix(authority::record("Subscription", &namespace, &name))
    };
    subscriptions.iter().filter(unknown).map(problem).collect()
}

/// Policies that were written while no author was recorded: before the installation, or while its recording
/// was down.
fn lending_nothing(policies: &[InstallPolicy]) -> Vec<Problem> {
    let lends = |policy: &InstallPolicy| {
        policy.spec.allow.iter().flatten().any(|entry| entry.authority == PlanAuthority::Policy)
    };
    let unknown = |policy: &&InstallPolicy| {
        policy.metadata.deletion_timestamp.is_none()
            && lends(policy)
            && Authority::requested(*policy).is_none()
    };
    let problem = |policy: &InstallPolicy| {
        let why = "no author is recorded, so `authority: Policy` lends no permissions (spec.allow)";
        Problem::new(Code::AuthorNotRecorded, named("InstallPolicy", policy), why).fix(authority::record(
            "InstallPolicy",
            "",
            &policy.name_any(),
        ))
    };
    policies.iter().filter(unknown).map(problem).collect()
}
