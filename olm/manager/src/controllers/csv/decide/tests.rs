use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{api::apps::v1::Deployment, apimachinery::pkg::apis::meta::v1::Time};
use olm_api::{
    ClusterServiceVersion, ClusterServiceVersionSpec, ClusterServiceVersionStatus, OperatorGroup,
    OperatorGroupSpec,
    csv::{AppliedDeployment, InstallMode, RequirementState},
};
use olm_engine::targets::Targets;
use serde_json::{Value, json};

use super::{
    super::{
        facts::{Account, Desired, Needs, OwnerConflict, RequiredRule, ServingFacts, Successor},
        workload::Workload,
    },
    *,
};

pub(in super::super) fn csv(name: &str, phase: CsvPhase, reason: &str) -> ClusterServiceVersion {
    let mut csv = ClusterServiceVersion::new(name, ClusterServiceVersionSpec::default());
    csv.metadata.uid = Some(format!("uid-of-{name}"));
    csv.metadata.namespace = Some("db".into());
    let reason = Some(reason.to_owned()).filter(|r| !r.is_empty());
    csv.status = Some(ClusterServiceVersionStatus { phase, reason, ..Default::default() });
    csv
}

/// A version whose requirements are met, without a workload yet.
pub(in super::super) fn observed(csv: &ClusterServiceVersion) -> Observed<'_> {
    let targets = Targets { group: "og".into(), namespaces: vec!["db".into()] };
    let deployment = json!({ "metadata": { "name": "operator", "labels": {} }, "spec": {} });
    Observed {
        csv,
        groups: vec![Arc::new(OperatorGroup::new("og", OperatorGroupSpec::default()))],
        successor: None,
        predecessor: None,
        upgradeable: Ok(()),
        predecessor_upgradeable: Ok(()),
        owner_conflicts: Vec::new(),
        needs: Needs::default(),
        desired: Ok(Desired { targets, deployments: vec![deployment] }),
        deployments: BTreeMap::new(),
        failing: BTreeMap::new(),
        applied: Vec::new(),
        serving: ServingFacts::default(),
        now: Timestamp::from_second(1_000_000).unwrap(),
    }
}

/// The Deployment as it was applied, with the given status.
pub(in super::super) fn running(observed: &mut Observed<'_>, status: Value) {
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {
            "name": "operator", "namespace": "db", "uid": "u", "generation": 1,
            "labels": {
                "olm.owner": observed.csv.name_any(), "olm.owner.namespace": "db",
                "olm.owner.kind": "ClusterServiceVersion",
            },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ClusterServiceVersion", "name": "x",
                "uid": observed.csv.uid().unwrap()
            }]
        },
        "spec": { "replicas": 1, "selector": {}, "template": {} },
        "status": status
    }))
    .unwrap();
    observed.applied = vec![AppliedDeployment { uid: "u".into(), generation: 1 }];
    observed.deployments.insert("operator".into(), Workload::of(&deployment));
}

pub(in super::super) fn up() -> Value {
    json!({
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
        "conditions": [{ "type": "Available", "status": "True" }]
    })
}

pub(in super::super) fn down() -> Value {
    json!({
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
        "conditions": [{ "type": "Available", "status": "False", "message": "no pod" }]
    })
}

fn verdict(observed: &Observed<'_>) -> (CsvPhase, &'static str, Act) {
    let decision = decide(observed);
    (decision.phase, decision.reason, decision.act)
}

#[test]
fn what_is_missing_keeps_it_pending_and_is_named() {
    let csv = csv("v1", CsvPhase::Pending, "");
    let mut observed = observed(&csv);
    observed.needs.accounts.insert("robot".into(), Account::default());
    let decision = decide(&observed);
    assert_eq!((decision.phase, decision.reason), (CsvPhase::Pending, "RequirementsNotMet"));
    assert!(decision.message.contains("ServiceAccount robot"), "{}", decision.message);
    assert_eq!(decision.requirements[0].status, RequirementState::NotPresent);
}

#[test]
fn a_right_that_is_missing_is_a_dependent_of_its_account() {
    let csv = csv("v1", CsvPhase::Pending, "");
    let mut observed = observed(&csv);
    let rule = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] });
    let missing = vec![(Some("db".to_owned()), olm_plan::Rule::of(&rule))];
    let has = RequiredRule { cluster: true, rule: json!({ "verbs": ["list"] }), missing: Vec::new() };
    let lacks = RequiredRule { cluster: false, rule, missing };
    let account = Account { uid: Some("a".into()), owner: None, rules: vec![has, lacks] };
    observed.needs.accounts.insert("robot".into(), account);
    let decision = decide(&observed);
    let robot = &decision.requirements[0];
    assert_eq!(robot.status, RequirementState::PresentNotSatisfied);
    assert_eq!(
        robot.message,
        "Policy rule not satisfied for service account: missing get pods in namespace db"
    );
    let states: Vec<RequirementState> = robot.dependents.iter().map(|d| d.status).collect();
    assert_eq!(states, [RequirementState::Satisfied, RequirementState::NotSatisfied]);
    assert!(robot.dependents[1].message.as_deref().unwrap().starts_with("namespaced rule:{"));
}

#[test]
fn the_version_of_the_cluster_counts_without_its_pre_release() {
    let mut csv = csv("v1", CsvPhase::Pending, "");
    csv.spec.min_kube_version = Some("1.36.0".into());
    let mut observed = observed(&csv);
    observed.needs.kube_version = Some("v1.36.0-rc.1+build".into());
    assert_eq!(decide(&observed).phase, CsvPhase::Installing);
    observed.needs.kube_version = Some("v1.35.9".into());
    let decision = decide(&observed);
    assert_eq!((decision.phase, decision.reason), (CsvPhase::Pending, "RequirementsNotMet"));
    assert!(decision.message.contains("minKubeVersion (1.36.0) greater than server version (v1.35.9)"));
}

#[test]
fn with_all_it_needs_it_is_installed_and_waits_for_its_deployments() {
    let csv = csv("v1", CsvPhase::Pending, "");
    let mut observed = observed(&csv);
    assert_eq!(verdict(&observed), (CsvPhase::Installing, "InstallSucceeded", Act::Install));
    running(&mut observed, down());
    assert_eq!(verdict(&observed), (CsvPhase::Installing, "InstallWaiting", Act::Nothing));
    running(&mut observed, up());
    assert_eq!(verdict(&observed), (CsvPhase::Succeeded, "InstallSucceeded", Act::Nothing));
}

#[test]
fn a_pod_that_fails_to_start_is_the_reason() {
    const WHY: &str = "pod operator-1: container main, image reg/x:1: ErrImagePull: denied";
    let message = |phase, reason, status: Value| {
        let csv = csv("v1", phase, reason);
        let mut observed = observed(&csv);
        observed.failing.insert("operator".into(), WHY.into());
        running(&mut observed, status);
        let decision = decide(&observed);
        (decision.reason, decision.message)
    };
    // while it waits
    let (reason, text) = message(CsvPhase::Installing, "InstallWaiting", down());
    assert_eq!(reason, "InstallWaiting");
    assert_eq!(text, format!("installing: waiting for deployment operator: {WHY}"));
    // when it takes too long
    let mut late = down();
    late["conditions"].as_array_mut().unwrap().push(json!({ "type": "Progressing", "status": "False",
        "reason": "ProgressDeadlineExceeded", "message": "ReplicaSet has timed out progressing." }));
    let (reason, text) = message(CsvPhase::Installing, "InstallWaiting", late);
    assert_eq!(reason, "InstallCheckFailed");
    assert_eq!(text, format!("deployment operator exceeded its progress deadline: {WHY}"));
    // and when an installed version stops serving
    let (reason, text) = message(CsvPhase::Failed, "ComponentUnhealthy", down());
    assert_eq!(reason, "ComponentUnhealthy");
    assert_eq!(text, format!("installing: deployment operator: {WHY}"));
    // and once its pods run, it is not
    assert_eq!(message(CsvPhase::Installing, "InstallWaiting", up()).0, "InstallSucceeded");
}

#[test]
fn after_five_minutes_it_is_reported_as_failed_and_waited_for_all_the_same() {
    let mut csv = csv("v1", CsvPhase::Installing, "InstallWaiting");
    csv.status.as_mut().unwrap().last_transition_time =
        Some(Time(Timestamp::from_second(1_000_000 - 200).unwrap()));
    let mut early = observed(&csv);
    running(&mut early, down());
    assert_eq!(verdict(&early).1, "InstallWaiting");
    let mut csv = csv.clone();
    csv.status.as_mut().unwrap().last_transition_time =
        Some(Time(Timestamp::from_second(1_000_000 - 301).unwrap()));
    let mut late = observed(&csv);
    running(&mut late, down());
    let decision = decide(&late);
    assert_eq!((decision.phase, decision.reason), (CsvPhase::Failed, "InstallCheckFailed"));
    assert!(
        decision.message.starts_with("install timeout: still waiting for deployment operator"),
        "{}",
        decision.message
    );
    // it stays so while it waits, and is healthy when its pod is
    let mut csv = csv.clone();
    csv.status = Some(ClusterServiceVersionStatus {
        phase: CsvPhase::Failed,
        reason: Some("InstallCheckFailed".into()),
        ..Default::default()
    });
    let mut later = observed(&csv);
    running(&mut later, down());
    assert_eq!(verdict(&later), (CsvPhase::Failed, "InstallCheckFailed", Act::Nothing));
    running(&mut later, up());
    assert_eq!(verdict(&later), (CsvPhase::Succeeded, "InstallSucceeded", Act::Nothing));
}

#[test]
fn a_version_whose_workload_goes_down_fails_and_is_well_again_when_it_is() {
    let well = csv("v1", CsvPhase::Succeeded, "InstallSucceeded");
    let mut observed_well = observed(&well);
    running(&mut observed_well, down());
    assert_eq!(verdict(&observed_well), (CsvPhase::Failed, "ComponentUnhealthy", Act::Nothing));
    let failed = csv("v1", CsvPhase::Failed, "ComponentUnhealthy");
    let mut observed_failed = observed(&failed);
    running(&mut observed_failed, down());
    assert_eq!(verdict(&observed_failed), (CsvPhase::Failed, "ComponentUnhealthy", Act::Nothing));
    running(&mut observed_failed, up());
    assert_eq!(verdict(&observed_failed), (CsvPhase::Succeeded, "InstallSucceeded", Act::Nothing));
}

#[test]
fn manual_changes_are_reverted_in_phase_succeeded() {
    let csv = csv("v1", CsvPhase::Succeeded, "InstallSucceeded");
    let mut observed = observed(&csv);
    running(&mut observed, up());
    let deployment = observed.deployments.get_mut("operator").unwrap();
    (deployment.generation, deployment.observed_generation) = (Some(2), 2);
    assert_eq!(verdict(&observed), (CsvPhase::Succeeded, "InstallSucceeded", Act::Install));
    // once applied it is known
    let fresh = observed.deployments["operator"].clone();
    observed.add_applied(vec![("operator".into(), fresh)]);
    assert_eq!(verdict(&observed), (CsvPhase::Succeeded, "InstallSucceeded", Act::Nothing));
}

#[test]
fn a_refused_install_stays_reported_while_it_is_tried_again() {
    for reason in INSTALL_FAILED {
        let csv = csv("v1", CsvPhase::Failed, reason);
        assert_eq!(verdict(&observed(&csv)), (CsvPhase::Failed, reason, Act::Install));
    }
}

#[test]
fn what_it_no_longer_describes_is_an_orphan() {
    let csv = csv("v1", CsvPhase::Succeeded, "");
    let mut observed = observed(&csv);
    running(&mut observed, up());
    let old = observed.deployments["operator"].clone();
    let others = Workload { labelled: Some(("db".into(), "another".into())), ..old.clone() };
    observed.deployments.extend([("old".to_owned(), old), ("others".to_owned(), others)]);
    assert_eq!(observed.orphans(), ["old"]);
}

#[test]
fn an_old_version_goes_only_when_the_new_one_runs() {
    let old = csv("v1", CsvPhase::Succeeded, "");
    let mut observed = observed(&old);
    observed.successor = Some(Successor { name: "v2".into(), runs: false });
    assert_eq!(verdict(&observed), (CsvPhase::Replacing, "BeingReplaced", Act::Nothing));
    observed.successor = Some(Successor { name: "v2".into(), runs: true });
    assert_eq!(verdict(&observed), (CsvPhase::Deleting, "Replaced", Act::Delete));
    // one that still replaces another waits for its turn
    observed.predecessor = Some(("v0".into(), CsvPhase::Replacing));
    assert_eq!(verdict(&observed), (CsvPhase::Replacing, "BeingReplaced", Act::Nothing));
}

#[test]
fn an_operator_that_asks_not_to_be_replaced_is_not() {
    let old = csv("v1", CsvPhase::Succeeded, "");
    let mut observed_old = observed(&old);
    running(&mut observed_old, up());
    observed_old.successor = Some(Successor { name: "v2".into(), runs: false });
    observed_old.upgradeable = Err("Busy: compacting".into());
    assert_eq!(decide(&observed_old).phase, CsvPhase::Succeeded);

    let new = csv("v2", CsvPhase::Pending, "");
    let mut observed_new = observed(&new);
    observed_new.predecessor = Some(("v1".into(), CsvPhase::Succeeded));
    observed_new.predecessor_upgradeable = Err("Busy: compacting".into());
    assert_eq!(verdict(&observed_new), (CsvPhase::Pending, "OperatorConditionNotUpgradeable", Act::Nothing));
}

#[test]
fn bad_input_names_object_field_and_fix() {
    let mut twice = csv("v1", CsvPhase::Pending, "");
    let mode = InstallMode { type_: InstallModeType::OwnNamespace, supported: true };
    twice.spec.install_modes = vec![mode.clone(), mode];
    let decision = decide(&observed(&twice));
    assert_eq!((decision.phase, decision.reason), (CsvPhase::Failed, "InvalidInstallModes"));
    assert_eq!(
        decision.message,
        "spec.installModes: OwnNamespace is listed more than once, expected each install mode once"
    );

    let lonely = csv("v1", CsvPhase::Pending, "");
    let mut none = observed(&lonely);
    none.desired = Err(Refused::NoTargets { group: "og".into() });
    let decision = decide(&none);
    assert_eq!((decision.phase, decision.reason), (CsvPhase::Failed, "NoTargetNamespaces"));
    assert!(decision.message.contains("OperatorGroup og") && decision.message.contains("label a namespace"));

    let broken = RenderError::Invalid {
        bundle: "v1".into(),
        field: "spec.install.spec.deployments".into(),
        text: "there is none".into(),
    };
    none.desired = Err(Refused::Render(broken));
    assert_eq!(verdict(&none), (CsvPhase::Failed, "InvalidStrategy", Act::Nothing));

    let conflict = OwnerConflict {
        api: "CustomResourceDefinition a.b".into(),
        csv: "x".into(),
        namespace: "db".into(),
        same_namespace: true,
    };
    let mut contested = observed(&lonely);
    contested.owner_conflicts = vec![conflict.clone()];
    assert_eq!(verdict(&contested), (CsvPhase::Failed, "OwnerConflict", Act::Nothing));
    contested.owner_conflicts =
        vec![OwnerConflict { same_namespace: false, namespace: "web".into(), ..conflict }];
    assert_eq!(verdict(&contested), (CsvPhase::Failed, "InterOperatorGroupOwnerConflict", Act::Stop));
}

#[test]
fn webhooks_and_api_services_come_after_the_deployments() {
    let csv = csv("v1", CsvPhase::Installing, "InstallWaiting");
    let mut observed = observed(&csv);
    running(&mut observed, up());
    observed.serving.registration_missing = Some("APIService v1.b to be registered".into());
    assert_eq!(verdict(&observed), (CsvPhase::Installing, "InstallWaiting", Act::Serve));
    observed.serving.registration_missing = None;
    observed.serving.waiting = Some("APIService v1.b to be available".into());
    assert_eq!(verdict(&observed), (CsvPhase::Installing, "InstallWaiting", Act::Nothing));
    observed.serving.waiting = None;
    assert_eq!(verdict(&observed), (CsvPhase::Succeeded, "InstallSucceeded", Act::Nothing));
}
