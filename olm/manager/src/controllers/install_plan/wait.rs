//! What a plan waits for before it starts its operator. Pure.

use std::borrow::Borrow;

use kube::ResourceExt;
use olm_api::{ClusterServiceVersion, Subscription, csv::CsvPhase, names};
use olm_engine::Snapshot;
use olm_plan::AlongRef;

/// The first operator that must run before this Subscription's and does not yet: those that its own plan
/// installs along, and those that the plan which installed it along named.
pub(super) fn for_others(
    along: &[AlongRef],
    subscription: &Subscription,
    snapshot: &Snapshot,
) -> Option<String> {
    let after = subscription.annotations().get(names::ANNOTATION_INSTALL_AFTER);
    // A removed one is not awaited; whether the operator works without it is decided by the resolver.
    let exists = |name: &&str| snapshot.subscriptions.iter().any(|s| s.name_any() == *name);
    let before = after.into_iter().flat_map(|names| names.split(',')).filter(exists);
    along
        .iter()
        .map(|entry| entry.subscription.as_str())
        .chain(before)
        .find_map(|name| for_one(name, &snapshot.subscriptions, &snapshot.csvs))
}

fn for_one<S, C>(name: &str, subscriptions: &[S], csvs: &[C]) -> Option<String>
where
    S: Borrow<Subscription>,
    C: Borrow<ClusterServiceVersion>,
{
    let Some(other) = subscriptions.iter().map(Borrow::borrow).find(|s| s.name_any() == name) else {
        return Some(format!("the new Subscription {name}"));
    };
    let status = other.status.as_ref();
    let wanted = status.and_then(|s| s.installed_csv.as_ref().or(s.current_csv.as_ref()));
    let wanted = wanted.or(other.spec.starting_csv.as_ref());
    let csv = csvs.iter().map(Borrow::borrow).find(|csv| csv.metadata.name.as_ref() == wanted);
    let Some(csv) = csv else {
        let failing = status.into_iter().flat_map(|s| &s.conditions).find(|c| {
            c.is_true()
                && matches!(
                    c.type_.as_str(),
                    names::CONDITION_RESOLUTION_FAILED | names::CONDITION_INSTALL_PLAN_FAILED
                )
        });
        let why = failing.and_then(|c| c.message.as_deref()).map(|m| format!(": {m}")).unwrap_or_default();
        return Some(format!("package {} of Subscription {name} to be installed{why}", other.spec.name));
    };
    let status = csv.status.as_ref();
    match csv.phase() {
        CsvPhase::Succeeded => None,
        // The existing version is about to be replaced; the next one is checked when it runs.
        phase => {
            let why = status.and_then(|s| s.message.as_deref()).map(|m| format!(": {m}")).unwrap_or_default();
            let phase = if phase == CsvPhase::None { "new".to_owned() } else { phase.to_string() };
            Some(format!("ClusterServiceVersion {} to run ({phase}{why})", csv.name_any()))
        }
    }
}

#[cfg(test)]
mod tests {
    use olm_api::{ClusterServiceVersionSpec, ClusterServiceVersionStatus, SubscriptionSpec};

    use super::*;

    fn subscription() -> Subscription {
        let spec = SubscriptionSpec {
            name: "dns".into(),
            starting_csv: Some("dns.v1".into()),
            ..SubscriptionSpec::default()
        };
        Subscription::new("dns-stable-c-olm", spec)
    }

    fn csv(phase: CsvPhase) -> ClusterServiceVersion {
        let mut csv = ClusterServiceVersion::new("dns.v1", ClusterServiceVersionSpec::default());
        let message = Some("requirements not met: x".to_owned());
        csv.status = Some(ClusterServiceVersionStatus { phase, message, ..Default::default() });
        csv
    }

    #[test]
    fn what_is_waited_for_is_named_until_it_runs() {
        let wait = |csvs: &[ClusterServiceVersion]| for_one("dns-stable-c-olm", &[subscription()], csvs);
        assert_eq!(
            wait(&[]).as_deref(),
            Some("package dns of Subscription dns-stable-c-olm to be installed")
        );
        assert_eq!(
            wait(&[csv(CsvPhase::Pending)]).as_deref(),
            Some("ClusterServiceVersion dns.v1 to run (Pending: requirements not met: x)")
        );
        assert_eq!(wait(&[csv(CsvPhase::Succeeded)]), None);
        assert!(
            for_one::<Subscription, ClusterServiceVersion>("gone", &[], &[])
                .is_some_and(|text| text.contains("the new Subscription"))
        );
    }
}
