//! What to do for a Subscription: pure.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use olm_api::{
    ClusterServiceVersion, InstallPlan, Subscription, csv::CsvPhase, install_plan::InstallPlanPhase,
};
use olm_plan::Finding;

use crate::engine::{Change, Outcome, Refusal};

/// How long a version that is neither up nor failed holds back the next one.
const SETTLE: SignedDuration = SignedDuration::from_mins(5);
/// Finished plans that are kept for the record.
const KEEP_FINISHED: usize = 5;

/// The Subscription and what matters to it.
pub(super) struct Observed<'a> {
    pub(super) subscription: &'a Subscription,
    pub(super) catalog: Catalog,
    /// The version that the Subscription has on the cluster.
    pub(super) installed: Option<&'a ClusterServiceVersion>,
    /// All of the namespace.
    pub(super) csvs: &'a [ClusterServiceVersion],
    /// Those that the Subscription owns, oldest first.
    pub(super) plans: &'a [InstallPlan],
    pub(super) now: Timestamp,
}

/// The catalog that the Subscription names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Catalog {
    Ready,
    /// There, and not read yet.
    Loading,
    /// There, and never could be read.
    Unreadable(String),
    Missing(String),
}

/// Why the engine is not asked now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Paused,
    /// There is no catalog to ask about.
    Catalog,
    /// An approved plan is at work.
    Installing {
        plan: String,
    },
    /// The version that was installed last is still coming up.
    Settling {
        until: Timestamp,
    },
}

/// What to do.
pub(super) enum Next {
    Hold(Hold),
    /// Have this plan.
    Plan(Box<Change>),
    /// A plan for that very version is approved and about to be carried out.
    Keep {
        plan: String,
    },
    UpToDate {
        deprecations: Vec<String>,
    },
    /// There is a newer version, and the operator asks not to be replaced.
    NotUpgradeable {
        to: String,
        why: String,
    },
    Refused(Refused),
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) reason: String,
    pub(super) message: String,
}

/// Whether to leave things as they are without asking the engine.
pub(super) fn hold(observed: &Observed<'_>) -> Option<Hold> {
    if observed.subscription.spec.paused {
        return Some(Hold::Paused);
    }
    // Work that has begun is finished before anything else is considered. As long as its ClusterServiceVersion
    // does not exist, or when it does not get anywhere, a plan may still be superseded: that is the way out of a
    // plan that cannot be carried out.
    let settled = |csv: &ClusterServiceVersion| {
        let since = csv.metadata.creation_timestamp.as_ref().map(|t| t.0);
        since.and_then(|since| since.checked_add(SETTLE).ok()).unwrap_or(observed.now)
    };
    if let Some(plan) = in_flight(observed)
        && let Some(csv) = observed.csvs.iter().find(|csv| csv_of(plan) == csv.metadata.name.as_deref())
        && observed.now < settled(csv)
    {
        return Some(Hold::Installing { plan: plan.name_any() });
    }
    if observed.catalog != Catalog::Ready {
        return Some(Hold::Catalog);
    }
    let installed = observed.installed?;
    let phase = installed.status.as_ref().map(|s| s.phase).unwrap_or_default();
    let coming_up =
        matches!(phase, CsvPhase::None | CsvPhase::Pending | CsvPhase::InstallReady | CsvPhase::Installing);
    let until = settled(installed);
    // One hop at a time: the next version comes when this one runs, or when it evidently does not.
    (coming_up && observed.now < until).then_some(Hold::Settling { until })
}

/// What the engine's answer means.
pub(super) fn next(
    observed: &Observed<'_>,
    answer: Result<Outcome, Refusal>,
    upgradeable: Result<(), String>,
) -> Next {
    let change = match answer.map(super::change_of) {
        Err(refusal) => {
            let reason = super::resolution_reason(&refusal).to_owned();
            return Next::Refused(Refused { reason, message: refusal.message() });
        }
        Ok(Err(resolved)) => {
            // The plan's version is there; what remains of the plan is still to be done.
            let same = |plan: &&InstallPlan| csv_of(plan) == Some(resolved.chosen.name.as_str());
            return match in_flight(observed).filter(same) {
                Some(plan) => Next::Keep { plan: plan.name_any() },
                None => Next::UpToDate { deprecations: resolved.deprecations },
            };
        }
        Ok(Ok(change)) => change,
    };
    if change.plan.is_blocked() {
        return Next::Refused(blocked(&change.plan.findings));
    }
    if let (Some(_), Err(why)) = (&change.replaces, upgradeable) {
        return Next::NotUpgradeable { to: change.resolved.chosen.name.clone(), why };
    }
    if let Some(plan) = in_flight(observed)
        && csv_of(plan) == Some(change.resolved.chosen.name.as_str())
    {
        return Next::Keep { plan: plan.name_any() };
    }
    Next::Plan(change)
}

fn blocked(findings: &[Finding]) -> Refused {
    let blocking: Vec<&Finding> =
        findings.iter().filter(|f| f.severity == olm_plan::Severity::Block).collect();
    let reason = blocking.first().map(|f| f.code.to_string()).unwrap_or_default();
    let text = |f: &&Finding| match &f.fix {
        Some(fix) => format!("{} ({fix})", f.text),
        None => f.text.clone(),
    };
    Refused { reason, message: blocking.iter().map(text).collect::<Vec<_>>().join("; ") }
}

/// Plans to delete: unapproved ones that are not what is wanted any more, and old finished ones.
pub(super) fn obsolete<'a>(observed: &'a Observed<'_>, next: &Next) -> Vec<&'a InstallPlan> {
    let wanted = match next {
        Next::Plan(change) => Some(super::plan_object::name(&change.plan.digest)),
        Next::Keep { plan } => Some(plan.clone()),
        Next::UpToDate { .. } | Next::NotUpgradeable { .. } => None,
        // Nothing better is known: what is there stays.
        Next::Hold(_) | Next::Refused(_) => return finished_surplus(observed, None),
    };
    let mut out: Vec<&InstallPlan> = Vec::new();
    for plan in observed.plans {
        let is_wanted = wanted.as_deref() == Some(plan.name_any().as_str());
        // A finished plan of the same name stands in the way of doing the same again.
        let in_the_way = is_wanted && is_finished(plan) && matches!(next, Next::Plan(_));
        let outdated = !is_wanted && !is_finished(plan);
        if in_the_way || outdated {
            out.push(plan);
        }
    }
    out.extend(finished_surplus(observed, wanted.as_deref()));
    out
}

fn finished_surplus<'a>(observed: &'a Observed<'_>, wanted: Option<&str>) -> Vec<&'a InstallPlan> {
    let finished: Vec<&InstallPlan> =
        observed.plans.iter().filter(|p| is_finished(p) && wanted != Some(p.name_any().as_str())).collect();
    finished[..finished.len().saturating_sub(KEEP_FINISHED)].to_vec()
}

/// The approved plan that is not finished.
pub(super) fn in_flight<'a>(observed: &Observed<'a>) -> Option<&'a InstallPlan> {
    observed.plans.iter().rev().find(|plan| plan.spec.approved && !is_finished(plan))
}

pub(super) fn is_finished(plan: &InstallPlan) -> bool {
    matches!(phase(plan), InstallPlanPhase::Complete | InstallPlanPhase::Failed)
}

pub(super) fn phase(plan: &InstallPlan) -> InstallPlanPhase {
    plan.status.as_ref().map(|s| s.phase).unwrap_or_default()
}

pub(super) fn csv_of(plan: &InstallPlan) -> Option<&str> {
    plan.spec.cluster_service_version_names.first().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use olm_api::{
        ClusterServiceVersionSpec, ClusterServiceVersionStatus, InstallPlanSpec, InstallPlanStatus,
        SubscriptionSpec,
    };

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn subscription() -> Subscription {
        Subscription::new("etcd", SubscriptionSpec { name: "etcd".into(), ..SubscriptionSpec::default() })
    }

    fn csv(name: &str, phase: CsvPhase) -> ClusterServiceVersion {
        let mut csv = ClusterServiceVersion::new(name, ClusterServiceVersionSpec::default());
        csv.metadata.creation_timestamp = Some(Time(at(0)));
        csv.status = Some(ClusterServiceVersionStatus { phase, ..Default::default() });
        csv
    }

    fn plan(name: &str, csv: &str, approved: bool, phase: InstallPlanPhase) -> InstallPlan {
        let spec = InstallPlanSpec {
            cluster_service_version_names: vec![csv.into()],
            approved,
            ..InstallPlanSpec::default()
        };
        let mut plan = InstallPlan::new(name, spec);
        plan.status = Some(InstallPlanStatus { phase, ..Default::default() });
        plan
    }

    struct World {
        subscription: Subscription,
        csvs: Vec<ClusterServiceVersion>,
        plans: Vec<InstallPlan>,
        now: Timestamp,
    }

    impl World {
        fn observed(&self) -> Observed<'_> {
            Observed {
                subscription: &self.subscription,
                catalog: Catalog::Ready,
                installed: self.csvs.first(),
                csvs: &self.csvs,
                plans: &self.plans,
                now: self.now,
            }
        }
    }

    fn world() -> World {
        World { subscription: subscription(), csvs: Vec::new(), plans: Vec::new(), now: at(10) }
    }

    #[test]
    fn a_paused_subscription_changes_nothing() {
        let mut world = world();
        world.subscription.spec.paused = true;
        assert_eq!(hold(&world.observed()), Some(Hold::Paused));
    }

    #[test]
    fn work_that_has_begun_is_finished_first() {
        let mut world = world();
        world.csvs = vec![csv("etcd.v1", CsvPhase::Pending)];
        world.plans = vec![plan("install-a", "etcd.v1", true, InstallPlanPhase::Installing)];
        assert_eq!(hold(&world.observed()), Some(Hold::Installing { plan: "install-a".into() }));
    }

    #[test]
    fn a_plan_that_could_not_even_begin_does_not_hold_back_another() {
        let mut world = world();
        world.plans = vec![plan("install-a", "etcd.v1", true, InstallPlanPhase::Installing)];
        assert_eq!(hold(&world.observed()), None);
    }

    #[test]
    fn the_next_version_waits_for_the_last_to_come_up_but_not_for_ever() {
        let mut world = world();
        world.csvs = vec![csv("etcd.v1", CsvPhase::Installing)];
        assert_eq!(hold(&world.observed()), Some(Hold::Settling { until: at(300) }));
        world.now = at(301);
        assert_eq!(hold(&world.observed()), None);
    }

    #[test]
    fn a_failed_version_is_fixed_forward_at_once() {
        let mut world = world();
        world.csvs = vec![csv("etcd.v1", CsvPhase::Failed)];
        assert_eq!(hold(&world.observed()), None);
    }

    #[test]
    fn an_unapproved_plan_goes_when_nothing_is_to_be_done_any_more() {
        let mut world = world();
        world.plans = vec![
            plan("install-a", "etcd.v1", true, InstallPlanPhase::Complete),
            plan("install-b", "etcd.v2", false, InstallPlanPhase::RequiresApproval),
        ];
        let observed = world.observed();
        let names: Vec<String> = obsolete(&observed, &Next::UpToDate { deprecations: Vec::new() })
            .iter()
            .map(|plan| plan.name_any())
            .collect();
        assert_eq!(names, ["install-b"]);
    }

    #[test]
    fn an_unapproved_plan_stays_while_nothing_better_is_known() {
        let mut world = world();
        world.plans = vec![plan("install-b", "etcd.v2", false, InstallPlanPhase::RequiresApproval)];
        let observed = world.observed();
        assert!(obsolete(&observed, &Next::Hold(Hold::Catalog)).is_empty());
    }

    #[test]
    fn five_finished_plans_are_kept() {
        let mut world = world();
        world.plans = (0..8)
            .map(|n| plan(&format!("install-{n}"), "etcd.v1", true, InstallPlanPhase::Complete))
            .collect();
        let observed = world.observed();
        assert_eq!(obsolete(&observed, &Next::Hold(Hold::Paused)).len(), 3);
    }
}
