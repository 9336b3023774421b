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

fn csv(name: &str, phase: CsvPhase) -> Arc<ClusterServiceVersion> {
    let mut csv = ClusterServiceVersion::new(name, ClusterServiceVersionSpec::default());
    csv.metadata.creation_timestamp = Some(Time(at(0)));
    csv.status = Some(ClusterServiceVersionStatus { phase, ..Default::default() });
    Arc::new(csv)
}

fn plan(name: &str, csv: &str, approved: bool, phase: InstallPlanPhase) -> Arc<InstallPlan> {
    let spec = InstallPlanSpec {
        cluster_service_version_names: vec![csv.into()],
        approved,
        ..InstallPlanSpec::default()
    };
    let mut plan = InstallPlan::new(name, spec);
    plan.annotations_mut().insert(names::ANNOTATION_CONTENT_DIGEST.into(), "sha256:00".into());
    plan.status = Some(InstallPlanStatus { phase, ..Default::default() });
    Arc::new(plan)
}

struct World {
    subscription: Subscription,
    csvs: Vec<Arc<ClusterServiceVersion>>,
    plans: Vec<Arc<InstallPlan>>,
    now: Timestamp,
}

impl World {
    fn observed(&self) -> Observed<'_> {
        Observed {
            subscription: &self.subscription,
            catalog: Catalog::Ready,
            installed: self.csvs.first().map(AsRef::as_ref),
            upgradeable: Ok(()),
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
    assert_eq!(hold(&world.observed()), Some(HoldReason::Paused));
}

#[test]
fn work_that_has_begun_is_finished_first() {
    let mut world = world();
    world.csvs = vec![csv("etcd.v1", CsvPhase::Pending)];
    world.plans = vec![plan("install-a", "etcd.v1", true, InstallPlanPhase::Installing)];
    assert_eq!(hold(&world.observed()), Some(HoldReason::Installing { plan: "install-a".into() }));
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
    assert_eq!(hold(&world.observed()), Some(HoldReason::Starting { until: at(300) }));
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
    // and the status names the plan of the installed version
    let current = current_plan(&observed, &Next::UpToDate { deprecations: Vec::new() });
    assert_eq!(current.map(|plan| plan.name_any()).as_deref(), Some("install-a"));
}

#[test]
fn an_unapproved_plan_stays_while_nothing_better_is_known() {
    let mut world = world();
    world.plans = vec![plan("install-b", "etcd.v2", false, InstallPlanPhase::RequiresApproval)];
    let observed = world.observed();
    assert!(obsolete(&observed, &Next::Hold(HoldReason::Catalog)).is_empty());
}

#[test]
fn five_revisions_are_kept_however_many_plans_failed_since() {
    let mut world = world();
    let of = |phase, range: std::ops::Range<usize>| {
        range.map(move |n| plan(&format!("install-{n}"), "etcd.v1", true, phase)).collect::<Vec<_>>()
    };
    world.plans = of(InstallPlanPhase::Complete, 0..8);
    world.plans.extend(of(InstallPlanPhase::Failed, 8..16));
    let observed = world.observed();
    let gone: Vec<String> =
        obsolete(&observed, &Next::Hold(HoldReason::Paused)).iter().map(|plan| plan.name_any()).collect();
    let expected = [0, 1, 2, 8, 9, 10, 11, 12].map(|n| format!("install-{n}"));
    assert_eq!(gone, expected);
}

#[test]
fn a_rollback_is_not_held_up_by_the_pause_that_follows_it() {
    let mut world = world();
    world.subscription.spec.paused = true;
    world.subscription.annotations_mut().insert(names::ANNOTATION_ROLLBACK_TO.into(), "etcd.v1".into());
    world.csvs = vec![csv("etcd.v2", CsvPhase::Succeeded)];
    assert_eq!(hold(&world.observed()), None);
    world.csvs = vec![csv("etcd.v1", CsvPhase::Succeeded)];
    assert_eq!(hold(&world.observed()), Some(HoldReason::Paused));
}

/// A plan that has made no progress for a while.
fn stalled(plan: Arc<InstallPlan>) -> Arc<InstallPlan> {
    let mut plan = Arc::unwrap_or_clone(plan);
    let status = plan.status.as_mut().unwrap();
    status.conditions.push(Condition::new(names::CONDITION_STALLED, true, "InstallComponentFailed", "no"));
    Arc::new(plan)
}

#[test]
fn a_plan_that_does_not_get_on_does_not_hold_back_what_may_mend_it() {
    let mut world = world();
    world.csvs = vec![csv("etcd.v2", CsvPhase::Pending)];
    let in_progress = plan("install-b", "etcd.v2", true, InstallPlanPhase::Installing);
    world.plans = vec![in_progress.clone()];
    assert!(matches!(hold(&world.observed()), Some(HoldReason::Installing { .. })));
    world.plans = vec![stalled(in_progress)];
    assert_eq!(hold(&world.observed()), None);
}

#[test]
fn a_change_is_not_computed_again_while_its_plan_is_in_progress() {
    let mut world = world();
    let plan = plan("install-a", "etcd.v1", true, InstallPlanPhase::Installing);
    world.plans = vec![plan.clone()];
    let in_progress_plan = PlanInProgress { plan: "install-a".into(), csv: "etcd.v1".into() };
    assert_eq!(in_progress(&world.observed()).plan, Some(in_progress_plan));
    // unless the operator is not upgradeable now, or the plan makes no progress
    let observed = Observed { upgradeable: Err("busy".into()), ..world.observed() };
    assert_eq!(in_progress(&observed).plan, None);
    world.plans = vec![stalled(plan)];
    assert_eq!(in_progress(&world.observed()).plan, None);
}

#[test]
fn what_a_failed_or_lost_plan_left_half_done_gets_another_plan() {
    let mut world = world();
    world.csvs = vec![csv("etcd.v1", CsvPhase::Pending)];
    let of = |phase| vec![plan("install-a", "etcd.v1", true, phase)];
    let name = |world: &World| unfinished(&world.observed()).map(ResourceExt::name_any);
    // in progress, or done: nothing to repair
    for phase in
        [InstallPlanPhase::Installing, InstallPlanPhase::Complete, InstallPlanPhase::RequiresApproval]
    {
        world.plans = of(phase);
        assert_eq!(name(&world), None, "{phase}");
    }
    // it changed while being applied
    world.plans = of(InstallPlanPhase::Failed);
    assert_eq!(name(&world).as_deref(), Some("etcd.v1"));
    assert_eq!(hold(&world.observed()), None, "and that is not waited for");
    // it was deleted
    world.plans = vec![];
    assert_eq!(name(&world), None, "one that was never ours is left alone");
    world.subscription.status = Some(olm_api::SubscriptionStatus {
        install_plan_ref: Some(Default::default()),
        ..Default::default()
    });
    assert_eq!(name(&world).as_deref(), Some("etcd.v1"));
    world.csvs = vec![csv("etcd.v1", CsvPhase::Succeeded)];
    assert_eq!(name(&world), None, "what runs lacks nothing");
}
