use std::sync::Arc;

use olm_api::{
    ClusterServiceVersion, ClusterServiceVersionSpec, InstallPlanSpec, Subscription, SubscriptionSpec,
};

use super::{super::decide::Refused, *};
use crate::controllers::health::judges::{self, Argo, Kstatus};

fn subscription() -> Subscription {
    let spec = SubscriptionSpec {
        name: "etcd".into(),
        source: "community".into(),
        source_namespace: "olm".into(),
        ..SubscriptionSpec::default()
    };
    Subscription::new("etcd", spec)
}

fn observed<'a>(
    subscription: &'a Subscription,
    csvs: &'a [Arc<ClusterServiceVersion>],
    plans: &'a [Arc<InstallPlan>],
) -> Observed<'a> {
    Observed {
        subscription,
        catalog: Catalog::Ready,
        installed: csvs.first().map(AsRef::as_ref),
        upgradeable: Ok(()),
        csvs,
        plans,
        now: jiff::Timestamp::from_second(7).unwrap(),
    }
}

#[test]
fn a_plan_that_waits_is_upgrade_pending() {
    let subscription = subscription();
    let spec = InstallPlanSpec {
        cluster_service_version_names: vec!["etcd.v1".into()],
        ..InstallPlanSpec::default()
    };
    let plans = [Arc::new(InstallPlan::new("install-a", spec))];
    let observed = observed(&subscription, &[], &plans);
    let status =
        status(&observed, &Next::Keep { plan: "install-a".into() }, plans.first().map(AsRef::as_ref));
    assert_eq!(status.state, SubscriptionState::UpgradePending);
    assert_eq!(status.current_csv.as_deref(), Some("etcd.v1"));
    assert_eq!(status.installed_csv, None);
    let pending = condition::find(&status.conditions, names::CONDITION_INSTALL_PLAN_PENDING).unwrap();
    assert_eq!(pending.reason.as_deref(), Some("RequiresApproval"));
}

#[test]
fn a_plan_that_was_just_approved_is_starting() {
    // given a status that is older than the approval
    let subscription = subscription();
    let spec = InstallPlanSpec {
        cluster_service_version_names: vec!["etcd.v1".into()],
        approved: true,
        ..InstallPlanSpec::default()
    };
    let mut plan = InstallPlan::new("install-a", spec);
    plan.status = Some(olm_api::InstallPlanStatus {
        phase: InstallPlanPhase::RequiresApproval,
        message: Some("approve with `olm approve install-a -n ns`".into()),
        ..Default::default()
    });
    let plans = [Arc::new(plan)];
    let observed = observed(&subscription, &[], &plans);
    let status =
        status(&observed, &Next::Keep { plan: "install-a".into() }, plans.first().map(AsRef::as_ref));
    let pending = condition::find(&status.conditions, names::CONDITION_INSTALL_PLAN_PENDING).unwrap();
    assert_eq!(pending.reason.as_deref(), Some("InstallPlanNotYetReconciled"));
    assert_eq!(pending.message.as_deref(), Some("InstallPlan install-a is starting"));
}

#[test]
fn a_refusal_is_a_condition_and_goes_when_it_is_over() {
    let mut subscription = subscription();
    let refused = Next::Refused(Refused { reason: "ConstraintsNotSatisfiable".into(), message: "no".into() });
    let first = status(&observed(&subscription, &[], &[]), &refused, None);
    assert!(condition::find(&first.conditions, names::CONDITION_RESOLUTION_FAILED).unwrap().is_true());

    subscription.status = Some(first);
    let csvs = [Arc::new(ClusterServiceVersion::new("etcd.v1", ClusterServiceVersionSpec::default()))];
    let done = Next::UpToDate { deprecations: Vec::new() };
    let second = status(&observed(&subscription, &csvs, &[]), &done, None);
    assert!(condition::find(&second.conditions, names::CONDITION_RESOLUTION_FAILED).is_none());
    assert_eq!(second.state, SubscriptionState::AtLatestKnown);
    assert_eq!(second.installed_csv.as_deref(), Some("etcd.v1"));
}

#[test]
fn a_plan_in_progress_is_reported_once_and_then_its_end() {
    // given a Subscription that has reported a plan in progress
    let mut subscription = subscription();
    let spec = InstallPlanSpec {
        approved: true,
        cluster_service_version_names: vec!["etcd.v1".into()],
        ..InstallPlanSpec::default()
    };
    let mut plan = InstallPlan::new("install-a", spec);
    let begun = Some(Time(jiff::Timestamp::from_second(6).unwrap()));
    let phase = InstallPlanPhase::Installing;
    plan.status = Some(olm_api::InstallPlanStatus { phase, start_time: begun, ..Default::default() });
    let plans = [Arc::new(plan)];
    let current = plans.first().map(AsRef::as_ref);
    let in_progress = Next::Hold(HoldReason::Installing { plan: "install-a".into() });
    let reported = status(&observed(&subscription, &[], &plans), &in_progress, current);
    subscription.status = Some(reported);
    // when its version is created
    let csvs = [Arc::new(ClusterServiceVersion::new("etcd.v1", ClusterServiceVersionSpec::default()))];
    let mut observed = observed(&subscription, &csvs, &plans);
    let new = status(&observed, &in_progress, current);
    assert_eq!(new.installed_csv.as_deref(), Some("etcd.v1"));
    // then that is reported when the plan is complete, or when it takes longer
    assert!(is_passing(&observed, &in_progress, &new, current));
    observed.now = jiff::Timestamp::from_second(8).unwrap();
    assert!(!is_passing(&observed, &in_progress, &new, current));
    // and a problem at once
    observed.now = jiff::Timestamp::from_second(7).unwrap();
    let refused = Next::Refused(Refused { reason: "no".into(), message: "no".into() });
    let new = status(&observed, &refused, current);
    assert!(!is_passing(&observed, &refused, &new, current));
}

#[test]
fn nothing_new_is_an_equal_status() {
    let mut subscription = subscription();
    let done = Next::UpToDate { deprecations: Vec::new() };
    let first = status(&observed(&subscription, &[], &[]), &done, None);
    subscription.status = Some(first.clone());
    let mut later = observed(&subscription, &[], &[]);
    later.now = jiff::Timestamp::from_second(99).unwrap();
    assert_eq!(status(&later, &done, None), first);
}

/// The health that Flux and Argo CD derive from each state. Argo CD's own check reads four conditions of OLM
/// v0 and treats everything else as healthy; ours (docs/monitoring.md) reads the common ones.
#[test]
fn tools_that_know_only_the_usual_conditions_see_how_it_stands() {
    let csv = |phase: CsvPhase| {
        let mut csv = ClusterServiceVersion::new("etcd.v1", ClusterServiceVersionSpec::default());
        csv.status = Some(olm_api::ClusterServiceVersionStatus { phase, ..Default::default() });
        vec![Arc::new(csv)]
    };
    let plan = |approved: bool, phase: InstallPlanPhase| {
        let spec = InstallPlanSpec { approved, ..InstallPlanSpec::default() };
        let mut plan = InstallPlan::new("install-a", spec);
        plan.status = Some(olm_api::InstallPlanStatus { phase, ..Default::default() });
        vec![Arc::new(plan)]
    };
    let keep = || Next::Keep { plan: "install-a".into() };
    let refused =
        || Next::Refused(Refused { reason: "ConstraintsNotSatisfiable".into(), message: "no".into() });
    let done = || Next::UpToDate { deprecations: Vec::new() };
    let missing = Catalog::Missing("no CatalogSource community".into());
    type Case = (
        &'static str,
        Catalog,
        Vec<Arc<ClusterServiceVersion>>,
        Vec<Arc<InstallPlan>>,
        Next,
        (Kstatus, Argo, Argo),
    );
    let cases: Vec<Case> = vec![
        (
            "being resolved",
            Catalog::Loading,
            vec![],
            vec![],
            Next::Hold(HoldReason::Paused),
            (Kstatus::InProgress, Argo::Healthy, Argo::Progressing),
        ),
        ("no catalog", missing, vec![], vec![], refused(), (Kstatus::Failed, Argo::Degraded, Argo::Degraded)),
        (
            "nothing fits",
            Catalog::Ready,
            vec![],
            vec![],
            refused(),
            (Kstatus::Failed, Argo::Degraded, Argo::Degraded),
        ),
        (
            "is waiting for approval",
            Catalog::Ready,
            vec![],
            plan(false, InstallPlanPhase::RequiresApproval),
            keep(),
            (Kstatus::InProgress, Argo::Progressing, Argo::Progressing),
        ),
        (
            "being installed",
            Catalog::Ready,
            vec![],
            plan(true, InstallPlanPhase::Installing),
            keep(),
            (Kstatus::InProgress, Argo::Progressing, Argo::Progressing),
        ),
        (
            "is not running yet",
            Catalog::Ready,
            csv(CsvPhase::Installing),
            vec![],
            done(),
            (Kstatus::InProgress, Argo::Healthy, Argo::Progressing),
        ),
        (
            "runs",
            Catalog::Ready,
            csv(CsvPhase::Succeeded),
            vec![],
            done(),
            (Kstatus::Current, Argo::Healthy, Argo::Healthy),
        ),
        (
            "upgrade is waiting for approval",
            Catalog::Ready,
            csv(CsvPhase::Succeeded),
            plan(false, InstallPlanPhase::RequiresApproval),
            keep(),
            (Kstatus::InProgress, Argo::Progressing, Argo::Progressing),
        ),
        (
            "does not run any more",
            Catalog::Ready,
            csv(CsvPhase::Failed),
            vec![],
            done(),
            (Kstatus::Failed, Argo::Healthy, Argo::Degraded),
        ),
    ];
    for (name, catalog, csvs, plans, next, expected) in cases {
        let mut subscription = subscription();
        subscription.metadata.generation = Some(3);
        let mut observed = observed(&subscription, &csvs, &plans);
        observed.catalog = catalog;
        let new = status(&observed, &next, plans.first().map(AsRef::as_ref));
        let seen = judges::object(&subscription, &new);
        let judged = (judges::kstatus(&seen), judges::argo(&seen), judges::argo_with_our_check(&seen));
        assert_eq!(judged, expected, "{name}: {seen}");
        // A change that is not observed yet is no success.
        subscription.metadata.generation = Some(4);
        assert_eq!(judges::kstatus(&judges::object(&subscription, &new)), Kstatus::InProgress, "{name}");
    }
}
