//! Phase, reason and action of a ClusterServiceVersion: pure. Phases and reasons are upstream's.
//!
//! The phase is worked out from what is there, not from the phase before: no state is terminal, and a process that
//! was killed anywhere comes to the same answer.

use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::ResourceExt;
use olm_api::csv::{CrdDescription, CsvPhase, DependentStatus, RequirementState, RequirementStatus};
use olm_bundle::RenderError;
use serde_json::Value;

use super::observe::Observed;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decision {
    pub(super) phase: CsvPhase,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) requirements: Vec<RequirementStatus>,
    pub(super) act: Act,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    /// Apply the Deployments.
    Install,
    /// Delete this version: the next one runs.
    Delete,
}

pub(super) fn decide(observed: &Observed<'_>) -> Decision {
    let requirements = requirements(observed);
    let decision = |phase, reason, message: String, act| Decision {
        phase,
        reason,
        message,
        requirements: requirements.clone(),
        act,
    };
    let before = observed.csv.status.as_ref().map(|s| s.phase).unwrap_or_default();

    // 1. A newer version takes over, unless the operator asks to be left alone.
    if let Some(successor) = &observed.successor
        && (observed.upgradeable.is_ok() || matches!(before, CsvPhase::Replacing | CsvPhase::Deleting))
    {
        let next = successor.name_any();
        let runs = successor.status.as_ref().is_some_and(|s| s.phase == CsvPhase::Succeeded);
        // Oldest first: a version goes only after the one that it replaced.
        let oldest = observed.predecessor.is_none();
        return if runs && oldest {
            let message = format!(
                "has been replaced by a newer ClusterServiceVersion that has successfully installed: {next}"
            );
            decision(CsvPhase::Deleting, "Replaced", message, Act::Delete)
        } else {
            decision(
                CsvPhase::Replacing,
                "BeingReplaced",
                format!("being replaced by csv: {next}"),
                Act::Nothing,
            )
        };
    }

    // 2. Where it may run.
    let failed = |reason, message| decision(CsvPhase::Failed, reason, message, Act::Nothing);
    match observed.groups.len() {
        0 => {
            let message =
                "csv in namespace with no operatorgroups; create one (a Subscription does it by itself)";
            return failed("NoOperatorGroup", message.into());
        }
        1 => {}
        n => {
            let mut groups: Vec<String> = observed.groups.iter().map(ResourceExt::name_any).collect();
            groups.sort();
            let message = format!(
                "csv created in namespace with {n} operatorgroups ({}), can't pick one automatically; delete all but one",
                groups.join(", ")
            );
            return failed("TooManyOperatorGroups", message);
        }
    }
    let desired = match &observed.desired {
        Ok(desired) => desired,
        Err(error @ RenderError::InstallMode { .. }) => {
            return failed("UnsupportedOperatorGroup", error.to_string());
        }
        Err(error) => return failed("InvalidStrategy", error.to_string()),
    };

    // 3. What it needs.
    let unmet: Vec<String> = requirements
        .iter()
        .filter(|r| r.status != RequirementState::Present)
        .map(|r| format!("{} {}: {}", r.kind, r.name, r.message))
        .collect();
    if !unmet.is_empty() {
        let message = format!("requirements not met: {}", unmet.join("; "));
        let phase = if matches!(before, CsvPhase::Succeeded | CsvPhase::Failed) {
            CsvPhase::Failed
        } else {
            CsvPhase::Pending
        };
        return decision(phase, "RequirementsNotMet", message, Act::Nothing);
    }

    // 4. The version before steps aside first.
    if let Some(predecessor) = &observed.predecessor {
        let phase = predecessor.status.as_ref().map(|s| s.phase).unwrap_or_default();
        if !matches!(phase, CsvPhase::Replacing | CsvPhase::Deleting) {
            let old = predecessor.name_any();
            return match &observed.predecessor_upgradeable {
                Err(why) => decision(
                    CsvPhase::Pending,
                    "OperatorConditionNotUpgradeable",
                    format!("operator {old} is not upgradeable: {why}"),
                    Act::Nothing,
                ),
                Ok(()) => decision(
                    CsvPhase::Pending,
                    "AllRequirementsMet",
                    format!("waiting for {old} to step aside"),
                    Act::Nothing,
                ),
            };
        }
    }

    // 5. What it runs.
    if desired.deployments.iter().any(|deployment| observed.drifted(deployment)) {
        // Of a version that runs only the drift is put right; it does not stop being installed.
        return if before == CsvPhase::Succeeded && all_available(observed) {
            decision(CsvPhase::Succeeded, "InstallSucceeded", SUCCEEDED.into(), Act::Install)
        } else {
            decision(
                CsvPhase::Installing,
                "InstallSucceeded",
                "waiting for install components to report healthy".into(),
                Act::Install,
            )
        };
    }
    let troubles: Vec<Trouble> = names(observed).iter().filter_map(|name| trouble(observed, name)).collect();
    let Some(first) = troubles.first() else {
        return decision(CsvPhase::Succeeded, "InstallSucceeded", SUCCEEDED.into(), Act::Nothing);
    };
    if let Some(stuck) = troubles.iter().find(|t| t.stuck) {
        return decision(CsvPhase::Failed, "InstallCheckFailed", stuck.text.clone(), Act::Nothing);
    }
    let ran = before == CsvPhase::Succeeded
        || (before == CsvPhase::Failed
            && observed.csv.status.as_ref().and_then(|s| s.reason.as_deref()) == Some("ComponentUnhealthy"));
    if !ran {
        return decision(
            CsvPhase::Installing,
            "InstallWaiting",
            format!("installing: waiting for {}", first.text),
            Act::Nothing,
        );
    }
    // A rollout under way (a changed setting, a restart) is no illness as long as a pod serves.
    if troubles.iter().all(|t| t.available) {
        return decision(CsvPhase::Succeeded, "InstallSucceeded", SUCCEEDED.into(), Act::Nothing);
    }
    decision(CsvPhase::Failed, "ComponentUnhealthy", format!("installing: {}", first.text), Act::Nothing)
}

const SUCCEEDED: &str = "install strategy completed with no errors";

fn names(observed: &Observed<'_>) -> Vec<String> {
    let desired = observed.desired.as_ref().map(|d| d.deployments.as_slice()).unwrap_or_default();
    let name = |d: &Value| d.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
    desired.iter().filter_map(name).collect()
}

fn all_available(observed: &Observed<'_>) -> bool {
    names(observed).iter().all(|name| trouble(observed, name).is_none_or(|t| t.available))
}

struct Trouble {
    text: String,
    available: bool,
    /// The deadline of the rollout is over. Only reported: it is healthy again when it is.
    stuck: bool,
}

/// What keeps a Deployment from being rolled out, if anything does.
fn trouble(observed: &Observed<'_>, name: &str) -> Option<Trouble> {
    let Some(deployment) = observed.deployments.get(name) else {
        return Some(Trouble { text: format!("deployment {name} to exist"), available: false, stuck: false });
    };
    let status = deployment.status.clone().unwrap_or_default();
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let condition =
        |type_: &str| status.conditions.iter().flatten().find(|c| c.type_.as_deref() == Some(type_));
    let available =
        wanted == 0 || condition("Available").is_some_and(|c| c.status.as_deref() == Some("True"));
    let observed_generation =
        status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0);
    let updated = status.updated_replicas.unwrap_or(0);
    let stuck = observed_generation
        && condition("Progressing").is_some_and(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded"));
    let ready = observed_generation
        && updated >= wanted
        && status.replicas.unwrap_or(0) <= wanted.max(updated)
        && available;
    if ready {
        return None;
    }
    let text = if !observed_generation {
        format!("deployment {name}: spec update to be observed")
    } else if stuck {
        let why = condition("Progressing").and_then(|c| c.message.clone()).unwrap_or_default();
        format!("deployment {name} exceeded its progress deadline: {why}")
    } else if updated < wanted {
        format!("deployment {name}: {updated} of {wanted} updated replicas")
    } else {
        let why = condition("Available").and_then(|c| c.message.clone()).unwrap_or_default();
        let have = status.available_replicas.unwrap_or(0);
        format!("deployment {name} to become ready: {have} of {wanted} replicas available ({why})")
    };
    Some(Trouble { text, available, stuck })
}

fn requirements(observed: &Observed<'_>) -> Vec<RequirementStatus> {
    let spec = &observed.csv.spec;
    let mut out = Vec::new();
    for description in spec.owned_crds().iter().chain(spec.required_crds()) {
        let crd = observed.crds.get(&description.name).and_then(Option::as_ref);
        let (status, message) = crd_state(description, crd);
        out.push(RequirementStatus {
            group: "apiextensions.k8s.io".into(),
            version: "v1".into(),
            kind: "CustomResourceDefinition".into(),
            name: description.name.clone(),
            status,
            message,
            uuid: crd.and_then(ResourceExt::uid),
            dependents: Vec::new(),
        });
    }
    let rights_missing: Vec<String> =
        observed.rights.iter().filter(|(_, present)| !present).map(|(id, _)| id.to_string()).collect();
    for (name, uid) in &observed.accounts {
        let dependents = vec![DependentStatus {
            group: "rbac.authorization.k8s.io".into(),
            version: "v1".into(),
            kind: "PolicyRule".into(),
            status: if rights_missing.is_empty() {
                RequirementState::Satisfied
            } else {
                RequirementState::NotSatisfied
            },
            message: (!rights_missing.is_empty()).then(|| format!("missing: {}", rights_missing.join(", "))),
            uuid: None,
        }];
        let (status, message) = match (uid, rights_missing.is_empty()) {
            (None, _) => (RequirementState::NotPresent, "Service account does not exist".to_owned()),
            (Some(_), false) => (
                RequirementState::PresentNotSatisfied,
                format!(
                    "Policy rule not satisfied for service account: missing {}",
                    rights_missing.join(", ")
                ),
            ),
            (Some(_), true) => (RequirementState::Present, String::new()),
        };
        out.push(RequirementStatus {
            group: String::new(),
            version: "v1".into(),
            kind: "ServiceAccount".into(),
            name: name.clone(),
            status,
            message,
            uuid: uid.clone().filter(|uid| !uid.is_empty()),
            dependents,
        });
    }
    out
}

fn crd_state(
    description: &CrdDescription,
    crd: Option<&CustomResourceDefinition>,
) -> (RequirementState, String) {
    let Some(crd) = crd else { return (RequirementState::NotPresent, "CRD is not present".into()) };
    let served = crd.spec.versions.iter().any(|v| v.name == description.version && v.served);
    if !served {
        let message = format!("CRD does not serve version {}", description.version);
        return (RequirementState::PresentNotSatisfied, message);
    }
    let conditions = crd.status.as_ref().and_then(|s| s.conditions.as_ref());
    let holds =
        |type_: &str| conditions.into_iter().flatten().any(|c| c.type_ == type_ && c.status == "True");
    if !holds("Established") || !holds("NamesAccepted") {
        return (RequirementState::PresentNotAvailable, "CRD is present but not yet established".into());
    }
    (RequirementState::Present, "CRD is present and Established condition is true".into())
}

/// Whether a live Deployment counts as rolled out; shared with the report of an installation's progress.
pub(crate) fn replicas(deployment: &Deployment) -> (i32, i32) {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.as_ref();
    let ready = status.and_then(|s| s.ready_replicas).unwrap_or(0);
    let updated = status.and_then(|s| s.updated_replicas).unwrap_or(0);
    (ready.min(updated), wanted)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use olm_api::{
        ClusterServiceVersion, ClusterServiceVersionSpec, ClusterServiceVersionStatus, OperatorGroup,
    };
    use serde_json::json;

    use super::{
        super::observe::{Desired, Observed},
        *,
    };
    use crate::engine::targets::Targets;

    fn csv(name: &str, phase: CsvPhase) -> ClusterServiceVersion {
        let mut csv = ClusterServiceVersion::new(name, ClusterServiceVersionSpec::default());
        csv.metadata.uid = Some(format!("uid-of-{name}"));
        csv.status = Some(ClusterServiceVersionStatus { phase, ..Default::default() });
        csv
    }

    /// A version with all it needs and nothing that runs yet.
    fn observed(csv: &ClusterServiceVersion) -> Observed<'_> {
        let targets = Targets { group: "og".into(), namespaces: vec!["db".into()] };
        let deployment = json!({ "metadata": { "name": "operator", "labels": {} }, "spec": {} });
        Observed {
            csv,
            groups: vec![OperatorGroup::new("og", Default::default())],
            successor: None,
            predecessor: None,
            upgradeable: Ok(()),
            predecessor_upgradeable: Ok(()),
            crds: BTreeMap::new(),
            accounts: BTreeMap::new(),
            rights: Vec::new(),
            desired: Ok(Desired { targets, deployments: vec![deployment] }),
            deployments: BTreeMap::new(),
        }
    }

    /// The Deployment as it was applied, with the given status.
    fn running(observed: &mut Observed<'_>, status: serde_json::Value) {
        let uid = format!("deployment-of-{}-{status}", observed.csv.name_any());
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {
                "name": "operator", "uid": uid, "generation": 1,
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "ClusterServiceVersion", "name": "x",
                    "uid": observed.csv.uid().unwrap()
                }]
            },
            "spec": { "replicas": 1, "selector": {}, "template": {} },
            "status": status
        }))
        .unwrap();
        super::super::APPLIED.lock().unwrap().insert(uid, 1);
        observed.deployments.insert("operator".into(), deployment);
    }

    fn up() -> serde_json::Value {
        json!({
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
            "conditions": [{ "type": "Available", "status": "True" }]
        })
    }

    fn down() -> serde_json::Value {
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
    fn without_or_with_several_groups_it_fails() {
        let csv = csv("v1", CsvPhase::Pending);
        let mut observed = observed(&csv);
        observed.groups.push(OperatorGroup::new("other", Default::default()));
        assert_eq!(verdict(&observed), (CsvPhase::Failed, "TooManyOperatorGroups", Act::Nothing));
        observed.groups.clear();
        assert_eq!(verdict(&observed), (CsvPhase::Failed, "NoOperatorGroup", Act::Nothing));
    }

    #[test]
    fn what_is_missing_keeps_it_pending_and_is_named() {
        let csv = csv("v1", CsvPhase::Pending);
        let mut observed = observed(&csv);
        observed.accounts.insert("robot".into(), None);
        let decision = decide(&observed);
        assert_eq!((decision.phase, decision.reason), (CsvPhase::Pending, "RequirementsNotMet"));
        assert!(decision.message.contains("ServiceAccount robot"), "{}", decision.message);
        assert_eq!(decision.requirements[0].status, RequirementState::NotPresent);
    }

    #[test]
    fn requirements_that_vanish_fail_a_version_that_ran() {
        let csv = csv("v1", CsvPhase::Succeeded);
        let mut observed = observed(&csv);
        observed.accounts.insert("robot".into(), None);
        assert_eq!(verdict(&observed), (CsvPhase::Failed, "RequirementsNotMet", Act::Nothing));
    }

    #[test]
    fn with_all_it_needs_it_is_installed_and_waits_for_its_deployments() {
        let csv = csv("v1", CsvPhase::Pending);
        let mut observed = observed(&csv);
        assert_eq!(verdict(&observed), (CsvPhase::Installing, "InstallSucceeded", Act::Install));
        running(&mut observed, down());
        assert_eq!(verdict(&observed), (CsvPhase::Installing, "InstallWaiting", Act::Nothing));
        running(&mut observed, up());
        assert_eq!(verdict(&observed), (CsvPhase::Succeeded, "InstallSucceeded", Act::Nothing));
    }

    #[test]
    fn a_version_whose_workload_goes_down_fails_and_is_well_again_when_it_is() {
        let csv = csv("v1", CsvPhase::Succeeded);
        let mut observed = observed(&csv);
        running(&mut observed, down());
        assert_eq!(verdict(&observed), (CsvPhase::Failed, "ComponentUnhealthy", Act::Nothing));
        running(&mut observed, up());
        assert_eq!(verdict(&observed), (CsvPhase::Succeeded, "InstallSucceeded", Act::Nothing));
    }

    #[test]
    fn drift_is_put_right_while_it_stays_succeeded() {
        let csv = csv("v1", CsvPhase::Succeeded);
        let mut observed = observed(&csv);
        running(&mut observed, up());
        observed.deployments.get_mut("operator").unwrap().metadata.generation = Some(2);
        observed.deployments.get_mut("operator").unwrap().status.as_mut().unwrap().observed_generation =
            Some(2);
        assert_eq!(verdict(&observed), (CsvPhase::Succeeded, "InstallSucceeded", Act::Install));
    }

    #[test]
    fn an_old_version_goes_only_when_the_new_one_runs() {
        let old = csv("v1", CsvPhase::Succeeded);
        let mut observed = observed(&old);
        observed.successor = Some(csv("v2", CsvPhase::Installing));
        assert_eq!(verdict(&observed), (CsvPhase::Replacing, "BeingReplaced", Act::Nothing));
        observed.successor = Some(csv("v2", CsvPhase::Succeeded));
        assert_eq!(verdict(&observed), (CsvPhase::Deleting, "Replaced", Act::Delete));
        // one that still replaces another waits for its turn
        observed.predecessor = Some(csv("v0", CsvPhase::Replacing));
        assert_eq!(verdict(&observed), (CsvPhase::Replacing, "BeingReplaced", Act::Nothing));
    }

    #[test]
    fn an_operator_that_asks_not_to_be_replaced_is_not() {
        let old = csv("v1", CsvPhase::Succeeded);
        let mut observed_old = observed(&old);
        running(&mut observed_old, up());
        observed_old.successor = Some(csv("v2", CsvPhase::Pending));
        observed_old.upgradeable = Err("Busy: compacting".into());
        assert_eq!(decide(&observed_old).phase, CsvPhase::Succeeded);

        let new = csv("v2", CsvPhase::Pending);
        let mut observed_new = observed(&new);
        observed_new.predecessor = Some(csv("v1", CsvPhase::Succeeded));
        observed_new.predecessor_upgradeable = Err("Busy: compacting".into());
        assert_eq!(
            verdict(&observed_new),
            (CsvPhase::Pending, "OperatorConditionNotUpgradeable", Act::Nothing)
        );
    }
}
