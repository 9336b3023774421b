use olm_api::{Condition, InstallPlanSpec, InstallPlanStatus, SubscriptionSpec};

use super::*;

const CATALOG: &str = "---\n{schema: olm.package, name: p, defaultChannel: c}\n---\n\
    {schema: olm.channel, package: p, name: c, entries: [{name: p.v3.0.0, replaces: p.v2.0.0}, {name: p.v2.0.0, replaces: p.v1.0.0}, {name: p.v1.0.0}]}\n---\n\
    {schema: olm.bundle, package: p, name: p.v1.0.0, image: 'localhost/p:1', properties: [{type: olm.package, value: {packageName: p, version: 1.0.0}}]}\n---\n\
    {schema: olm.bundle, package: p, name: p.v2.0.0, image: 'localhost/p:2', properties: [{type: olm.package, value: {packageName: p, version: 2.0.0+build.5}}]}\n---\n\
    {schema: olm.bundle, package: p, name: p.v3.0.0, image: 'localhost/p:3', properties: [{type: olm.package, value: {packageName: p, version: 3.0.0}}]}\n";

fn package() -> std::sync::Arc<olm_catalog::Package> {
    let catalog = olm_catalog::Catalog::from_bytes("test", CATALOG.as_bytes());
    catalog.package("p").unwrap().unwrap_or_else(|| panic!("{:?}", catalog.problems))
}

fn plan(name: &str, csv: &str, generation: i64, phase: InstallPlanPhase) -> InstallPlan {
    let spec = InstallPlanSpec {
        cluster_service_version_names: vec![csv.into()],
        generation: Some(generation),
        source: Some("cat".into()),
        source_namespace: Some("olm".into()),
        approved: true,
        ..InstallPlanSpec::default()
    };
    let mut plan = InstallPlan::new(name, spec);
    plan.metadata.namespace = Some("ns".into());
    plan.metadata.owner_references = serde_json::from_value(json!([
        { "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": "p", "uid": "u" }
    ]))
    .unwrap();
    let conditions = vec![Condition::new(names::CONDITION_INSTALLED, true, "", "")];
    plan.status = Some(InstallPlanStatus { phase, conditions, ..Default::default() });
    plan
}

fn subscription() -> Subscription {
    let mut subscription =
        Subscription::new("p", SubscriptionSpec { name: "p".into(), ..SubscriptionSpec::default() });
    subscription.metadata.namespace = Some("ns".into());
    subscription.metadata.uid = Some("u".into());
    subscription
}

#[test]
fn revisions_are_the_plans_that_were_carried_out_newest_first() {
    let plans = [
        plan("a", "p.v1.0.0", 1, InstallPlanPhase::Complete),
        plan("b", "p.v2.0.0", 2, InstallPlanPhase::Failed),
        plan("c", "p.v3.0.0", 3, InstallPlanPhase::Complete),
        plan("d", "p.v1.0.0", 4, InstallPlanPhase::Complete),
    ];
    let list = revisions(&plans, &subscription(), Some("p.v1.0.0"));
    let rows: Vec<(&str, bool)> = list.iter().map(|r| (r.plan.as_str(), r.current)).collect();
    assert_eq!(rows, [("d", true), ("c", false), ("a", false)]);
    assert!(list.iter().all(|r| !r.older), "what is newer, and what is there, is not older");
    let older: Vec<bool> =
        revisions(&plans, &subscription(), Some("p.v3.0.0")).iter().map(|r| r.older).collect();
    assert_eq!(older, [true, false, true]);
    assert_eq!((list[0].version.as_str(), list[0].catalog.as_str()), ("1.0.0", "olm/cat"));
}

#[test]
fn the_way_back_goes_to_what_ran_before_and_is_older() {
    let package = package();
    let run = |csvs: &[&str], installed: &str, to: Option<&str>| {
        let numbered = csvs.iter().zip(1..);
        let plans: Vec<InstallPlan> =
            numbered.map(|(csv, n)| plan(&format!("i{n}"), csv, n, InstallPlanPhase::Complete)).collect();
        goal(&package, &revisions(&plans, &subscription(), Some(installed)), installed, to)
    };
    assert_eq!(run(&["p.v1.0.0", "p.v3.0.0"], "p.v3.0.0", None).as_deref(), Some("p.v1.0.0"));
    // back once more: not forward again
    assert_eq!(run(&["p.v2.0.0", "p.v3.0.0", "p.v2.0.0"], "p.v2.0.0", None).as_deref(), Some("p.v1.0.0"));
    // without a record: the version before in the catalog
    assert_eq!(run(&[], "p.v3.0.0", None).as_deref(), Some("p.v2.0.0"));
    assert_eq!(run(&[], "p.v1.0.0", None), None);
    // by version or by name, whatever ran
    for to in ["2.0.0", "v2.0.0", "p.v2.0.0"] {
        assert_eq!(run(&[], "p.v3.0.0", Some(to)).as_deref(), Some("p.v2.0.0"), "{to}");
    }
    assert_eq!(run(&[], "p.v3.0.0", Some("9.0.0")), None);
    // one that ran and is no longer in any catalog is found, and reported as gone
    assert_eq!(run(&["p.v0.1.0"], "p.v3.0.0", Some("0.1.0")).as_deref(), Some("p.v0.1.0"));
}

#[test]
fn a_rollback_pins_and_pauses_the_subscription() {
    let version = package().bundles["p.v2.0.0"].version.clone().unwrap();
    let wanted = with_rollback(&subscription(), &version, "p.v2.0.0");
    let spec = serde_json::to_value(&wanted.spec).unwrap();
    assert_eq!((&spec["version"], &spec["paused"]), (&json!("=2.0.0"), &json!(true)));
    assert_eq!(spec["upgradeConstraintPolicy"], "SelfCertified");
    assert!(olm_resolver::VersionRequest::parse("=2.0.0").unwrap().allows(&version));
    assert_eq!(wanted.annotations()[names::ANNOTATION_ROLLBACK_TO], "p.v2.0.0");
}

#[test]
fn who_approved_is_what_is_on_record() {
    let mut plan = plan("a", "p.v1.0.0", 1, InstallPlanPhase::Complete);
    plan.annotations_mut().insert(names::ANNOTATION_APPROVED_BY.into(), "jane".into());
    plan.metadata.managed_fields = serde_json::from_value(json!([
        { "manager": "olm-manager", "operation": "Update", "time": "2026-11-22T03:00:00Z",
          "fieldsV1": { "f:spec": { "f:approval": {} } } },
        { "manager": "kubectl-patch", "operation": "Update", "time": "2026-11-22T03:05:00Z",
          "fieldsV1": { "f:spec": { "f:approved": {} } } },
        { "manager": "olm-manager", "operation": "Update", "subresource": "status", "time": "2026-11-22T03:06:00Z",
          "fieldsV1": { "f:status": { "f:phase": {} } } },
    ]))
    .unwrap();
    let approval = approval(&plan);
    assert_eq!((approval.by.as_deref(), approval.with.as_deref()), (Some("jane"), Some("kubectl-patch")));
    assert_eq!(approval.at.as_deref(), Some("2026-11-22T03:05:00Z"));
    assert_eq!((approval.automatic, approval.who()), (false, "jane".to_owned()));
}

#[test]
fn an_automatic_approval_names_the_author_of_the_request_and_not_the_manager() {
    let mut plan = plan("a", "p.v1.0.0", 1, InstallPlanPhase::Complete);
    plan.spec.approval = Automatic;
    let who = |plan: &InstallPlan| approval(plan).who();
    // given a plan that the manager approved, as the API server records it
    let manager = manager_user(manager_namespace());
    plan.annotations_mut().insert(names::ANNOTATION_APPROVED_BY.into(), manager);
    assert_eq!(who(&plan), "automatic");
    plan.annotations_mut().insert(names::ANNOTATION_REQUESTED_BY.into(), "jane".into());
    assert_eq!(who(&plan), "automatic, requested by jane");
    // and one that a user approved again
    plan.annotations_mut().insert(names::ANNOTATION_APPROVED_BY.into(), "joe".into());
    assert_eq!(who(&plan), "joe");
    // and one that was automatic, and whose additional rights a user approved
    plan.annotations_mut().remove(names::ANNOTATION_REQUESTED_BY);
    assert_eq!(who(&plan), "joe");
    // an account of another namespace with the manager's name is a user as any other
    let account = manager_user("tenant");
    plan.annotations_mut().insert(names::ANNOTATION_APPROVED_BY.into(), account.clone());
    assert_eq!(who(&plan), account);
}
