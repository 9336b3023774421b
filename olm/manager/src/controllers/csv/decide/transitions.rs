//! The transition table of upstream's `TestTransitionCSV` and `TestTransitionCSVFailForward`, case by case
//! under its name.
//!
//! Upstream takes one step per pass, this implementation proceeds until it has to wait; so a case holds when
//! upstream's outcome is among the conditions that the status records, or is the final one. Where the outcome
//! differs by design, the row gives the reason.

use std::sync::Arc;

use CsvPhase::{Deleting, Failed, InstallReady, Installing, None as Nothing, Pending, Replacing, Succeeded};
use olm_api::{
    ClusterServiceVersion, OperatorGroup,
    csv::{CrdDescription, CustomResourceDefinitions, RequirementState, RequirementStatus},
    names,
};

use super::{
    super::{
        facts::{ApiService, OwnerConflict, Refused, Successor},
        observe::{predecessor, successor},
        status::passed,
    },
    tests::{csv, down, observed, running, up},
    *,
};

type Outcome = (CsvPhase, &'static str);

struct Row {
    name: &'static str,
    before: Outcome,
    /// Upstream's outcome; an empty reason is any.
    upstream: Outcome,
    /// Our outcome where it differs, and the reason.
    ours: Option<(Outcome, &'static str)>,
    csv: fn(&mut ClusterServiceVersion),
    facts: fn(&mut Observed<'_>),
}

fn row(name: &'static str, before: Outcome, upstream: Outcome, facts: fn(&mut Observed<'_>)) -> Row {
    Row { name, before, upstream, ours: None, csv: owns_c1, facts }
}

impl Row {
    fn differs(mut self, ours: Outcome, why: &'static str) -> Self {
        self.ours = Some((ours, why));
        self
    }
}

fn owns_c1(csv: &mut ClusterServiceVersion) {
    let crd = CrdDescription {
        name: "c1.g1".into(),
        version: "v1".into(),
        kind: "c1".into(),
        ..Default::default()
    };
    csv.spec.custom_resource_definitions =
        Some(CustomResourceDefinitions { owned: vec![crd], required: Vec::new() }.into());
}

fn with_crd(o: &mut Observed<'_>) {
    let crd = serde_json::json!({
        "metadata": { "name": "c1.g1" },
        "spec": { "group": "g1", "scope": "Namespaced", "names": { "kind": "c1", "plural": "c1" },
                  "versions": [{ "name": "v1", "served": true, "storage": true }] },
        "status": { "conditions": [{ "type": "Established", "status": "True" }, { "type": "NamesAccepted", "status": "True" }] }
    });
    o.needs.crds.insert("c1.g1".into(), Some(Arc::new(serde_json::from_value(crd).unwrap())));
}

fn ready(o: &mut Observed<'_>) {
    with_crd(o);
    running(o, up());
}

fn no_crd(o: &mut Observed<'_>) {
    o.needs.crds.insert("c1.g1".into(), None);
}

fn required_api(o: &mut Observed<'_>, state: ApiService) {
    with_crd(o);
    o.needs.api_services.insert("v1.g1".into(), state);
}

fn changed(o: &mut Observed<'_>) {
    ready(o);
    o.deployments.get_mut("operator").unwrap().hash = Some("of another spec".into());
}

fn broken(o: &mut Observed<'_>) {
    ready(o);
    o.serving.broken = Some("Secret operator-service-cert: the certificate is not of this CA".into());
}

fn unsupported(o: &mut Observed<'_>) {
    ready(o);
    let error = RenderError::InstallMode {
        bundle: "csv1".into(),
        wanted: "OwnNamespace".into(),
        supported: "none".into(),
    };
    o.desired = Err(Refused::Render(error));
}

fn two_groups(o: &mut Observed<'_>) {
    ready(o);
    o.groups.push(Arc::new(OperatorGroup::new("other", Default::default())));
}

fn conflict(o: &mut Observed<'_>) {
    with_crd(o);
    o.owner_conflicts = vec![OwnerConflict {
        api: "c1.v1.g1".into(),
        csv: "x".into(),
        namespace: "y".into(),
        same_namespace: false,
    }];
}

fn fixed(o: &mut Observed<'_>, listed: &str) {
    with_crd(o);
    let group = Arc::make_mut(&mut o.groups[0]);
    group.spec.static_provided_apis = true;
    let annotation = (names::ANNOTATION_PROVIDED_APIS.to_owned(), listed.to_owned());
    group.metadata.annotations = Some([annotation].into());
}

fn replaced_by(o: &mut Observed<'_>, name: &str, runs: bool) {
    ready(o);
    o.successor = Some(Successor { name: name.into(), runs });
}

const FASTER: &str = "no wait is needed: this pass reports what upstream finds in its next one";

fn table() -> Vec<Row> {
    let reinstall = (Pending, "NeedsReinstall");
    vec![
        row("SingleCSVNoneToPending/CRD", (Nothing, ""), (Pending, ""), with_crd),
        row("SingleCSVNoneToPending/APIService/Required", (Nothing, ""), (Pending, ""), |o| {
            required_api(o, ApiService::Available);
        }),
        row("SingleCSVPendingToFailed/BadStrategyPermissions", (Pending, ""), (Failed, ""), |o| {
            with_crd(o);
            let field = "spec.install.spec.clusterPermissions[0].rules[0]".to_owned();
            let text = "a rule is about resources or about URLs, not both".to_owned();
            o.desired = Err(Refused::Render(RenderError::Invalid { bundle: "csv1".into(), field, text }));
        }),
        row("SingleCSVPendingToPending/CRD", (Pending, ""), (Pending, "RequirementsNotMet"), no_crd),
        row("SingleCSVPendingToPending/APIService/Required/Missing", (Pending, ""), (Pending, "RequirementsNotMet"), |o| {
            required_api(o, ApiService::Absent);
        }),
        row("SingleCSVPendingToPending/APIService/Required/Unavailable", (Pending, ""), (Pending, "RequirementsNotMet"), |o| {
            required_api(o, ApiService::Unavailable);
        }),
        row("SingleCSVPendingToPending/APIService/Required/Unknown", (Pending, ""), (Pending, "RequirementsNotMet"), |o| {
            required_api(o, ApiService::Unavailable);
        }),
        row("SingleCSVPendingToPending/APIService/Owned/DeploymentNotFound", (Pending, ""), (Pending, "RequirementsNotMet"), |o| {
            with_crd(o);
            o.serving.requirements = vec![RequirementStatus {
                kind: "APIService".into(),
                name: "v1.a1".into(),
                status: RequirementState::DeploymentNotFound,
                ..RequirementStatus::default()
            }];
        }),
        row("CSVPendingToFailed/CRDOwnerConflict", (Pending, ""), (Failed, "OwnerConflict"), |o| {
            conflict(o);
            o.owner_conflicts[0].same_namespace = true;
        }),
        row("CSVPendingToFailed/APIServiceOwnerConflict", (Pending, ""), (Failed, "OwnerConflict"), |o| {
            with_crd(o);
            o.serving.conflict = Some("APIService v1.a1 belongs to ClusterServiceVersion other/x".into());
        }),
        row("SingleCSVFailedToPending/Deployment", (Failed, ""), reinstall, with_crd),
        row("SingleCSVFailedToPending/CRD", (Failed, ""), (Pending, "RequirementsNotMet"), no_crd),
        row("SingleCSVPendingToInstallReady/CRD", (Pending, ""), (InstallReady, "AllRequirementsMet"), with_crd),
        row("SingleCSVPendingToInstallReady/APIService/Required", (Pending, ""), (InstallReady, "AllRequirementsMet"), |o| {
            required_api(o, ApiService::Available);
        }),
        row("SingleCSVInstallReadyToInstalling", (InstallReady, ""), (Installing, "InstallSucceeded"), with_crd),
        row("SingleCSVInstallReadyToInstalling/APIService/Owned", (InstallReady, ""), (Installing, "InstallSucceeded"), |o| {
            with_crd(o);
            o.serving.endpoints_missing = Some("Service operator-service is missing".into());
        }),
        row("SingleCSVSucceededToPending/APIService/Owned/CertRotation", (Succeeded, ""), (Pending, "NeedsCertRotation"), |o| {
            ready(o);
            o.serving.rotate = Some("the certificate of operator-service expires soon".into());
        })
        .differs(
            (Succeeded, "InstallSucceeded"),
            "old and new certificates overlap and pods see the new ones without a restart, so the operator never stops",
        ),
        row("SingleCSVSucceededToFailed/APIService/Owned/BadCAHash/Deployment", (Succeeded, ""), (Failed, "APIServiceResourceIssue"), broken),
        row("SingleCSVSucceededToFailed/APIService/Owned/BadCAHash/Secret", (Succeeded, ""), (Failed, "APIServiceResourceIssue"), broken),
        row(
            "SingleCSVSucceededToFailed/APIService/Owned/BadCAHash/DeploymentAndSecret",
            (Succeeded, ""),
            (Failed, "APIServiceResourceIssue"),
            broken,
        ),
        row("SingleCSVSucceededToFailed/APIService/Owned/BadCA", (Succeeded, ""), (Failed, "APIServiceResourceIssue"), broken),
        row("SingleCSVSucceededToFailed/APIService/Owned/BadServingCert", (Succeeded, ""), (Failed, "APIServiceResourceIssue"), broken),
        row("SingleCSVSucceededToFailed/APIService/Owned/ExpiredCA", (Succeeded, ""), (Failed, "APIServiceResourceIssue"), broken),
        row("SingleCSVFailedToPending/APIService/Owned/ExpiredCA", (Failed, ""), (Pending, "APIServiceResourcesNeedReinstall"), broken),
        row(
            "SingleCSVFailedToPending/InstallModes/Owned/PreviouslyUnsupported",
            (Failed, "UnsupportedOperatorGroup"),
            (Pending, "RequirementsUnknown"),
            with_crd,
        )
        .differs((Installing, "InstallSucceeded"), FASTER),
        row(
            "SingleCSVFailedToPending/InstallModes/Owned/PreviouslyNoOperatorGroups",
            (Failed, "NoOperatorGroup"),
            (Pending, "RequirementsUnknown"),
            with_crd,
        )
        .differs((Installing, "InstallSucceeded"), FASTER),
        row(
            "SingleCSVFailedToPending/InstallModes/Owned/PreviouslyTooManyOperatorGroups",
            (Failed, "TooManyOperatorGroups"),
            (Pending, "RequirementsUnknown"),
            with_crd,
        )
        .differs((Installing, "InstallSucceeded"), FASTER),
        row(
            "SingleCSVSucceededToFailed/InstallModes/Owned/Unsupported",
            (Succeeded, "InstallSucceeded"),
            (Failed, "UnsupportedOperatorGroup"),
            unsupported,
        ),
        row(
            "SingleCSVSucceededToFailed/InstallModes/Owned/NoOperatorGroups",
            (Succeeded, "InstallSucceeded"),
            (Failed, "NoOperatorGroup"),
            |o| {
                ready(o);
                o.groups.clear();
            },
        ),
        row(
            "SingleCSVSucceededToFailed/InstallModes/Owned/TooManyOperatorGroups",
            (Succeeded, "InstallSucceeded"),
            (Failed, "TooManyOperatorGroups"),
            two_groups,
        ),
        // the annotations of the pods change with the targets; the Deployment does the rollout
        row(
            "SingleCSVSucceededToSucceeded/OperatorGroupChanged",
            (Succeeded, "InstallSucceeded"),
            (Succeeded, "InstallSucceeded"),
            ready,
        ),
        row("SingleCSVInstallingToSucceeded/UnmanagedDeploymentNotAffected", (Installing, ""), (Succeeded, "InstallSucceeded"), |o| {
            ready(o);
            let mut other = o.deployments["operator"].clone();
            other.labelled = None;
            o.deployments.insert("extra-dep".into(), other);
            assert!(o.orphans().is_empty());
        }),
        row("SingleCSVInstallingToInstallReady", (Installing, ""), (InstallReady, ""), changed),
        row("SingleCSVInstallingToInstallReadyDueToAnnotations", (Installing, ""), (InstallReady, ""), changed),
        row("SingleCSVSucceededToSucceeded/UnmanagedDeploymentInNamespace", (Succeeded, ""), (Succeeded, ""), |o| {
            ready(o);
            let mut other = o.deployments["operator"].clone();
            other.labelled = None;
            o.deployments.insert("extra-dep".into(), other);
        }),
        row("SingleCSVSucceededToFailed/CRD", (Succeeded, ""), (Failed, "RequirementsNotMet"), no_crd),
        row("SingleCSVSucceededToPending/DeploymentSpecChanged", (Succeeded, ""), reinstall, changed),
        row("CSVSucceededToReplacing", (Succeeded, ""), (Replacing, ""), |o| replaced_by(o, "csv2", false)),
        row("CSVReplacingToDeleted", (Replacing, ""), (Deleting, ""), |o| replaced_by(o, "csv2", true)),
        // gone is what Act::Delete does
        row("CSVDeletedToGone", (Deleting, ""), (Deleting, ""), |o| replaced_by(o, "csv2", true)),
        row("CSVMultipleReplacingToDeleted", (Replacing, ""), (Replacing, ""), |o| {
            replaced_by(o, "csv2", true);
            o.predecessor = Some(("csv0".into(), Replacing));
        }),
        row("CSVMultipleDeletedToGone", (Replacing, ""), (Deleting, ""), |o| {
            replaced_by(o, "csv3", true);
            o.predecessor = Some(("csv1".into(), Deleting));
        })
        .differs((Replacing, "BeingReplaced"), "the older one goes first, so that a chain is never broken in the middle"),
        row("CSVMultipleDeletedToGone/AfterOneDeleted", (Replacing, ""), (Deleting, ""), |o| replaced_by(o, "csv3", true)),
        row("CSVMultipleDeletedToGone/AfterTwoDeleted", (Deleting, ""), (Deleting, ""), |o| replaced_by(o, "csv3", true)),
        row("SingleCSVNoneToFailed/InterOperatorGroupOwnerConflict", (Nothing, ""), (Failed, "InterOperatorGroupOwnerConflict"), conflict),
        // upstream waits for the annotation of the group that it has just written
        row("SingleCSVNoneToNone/AddAPIs", (Nothing, ""), (Nothing, ""), with_crd).differs((Installing, "InstallSucceeded"), FASTER),
        row("SingleCSVNoneToNone/RemoveAPIs", (Nothing, ""), (Nothing, ""), with_crd)
            .differs((Installing, "InstallSucceeded"), FASTER),
        row(
            "SingleCSVNoneToFailed/StaticOperatorGroup/AddAPIs",
            (Nothing, ""),
            (Failed, "CannotModifyStaticOperatorGroupProvidedAPIs"),
            |o| fixed(o, ""),
        ),
        // upstream fails a version here because its group lists an API that it no longer provides
        row(
            "SingleCSVNoneToFailed/StaticOperatorGroup/RemoveAPIs",
            (Nothing, ""),
            (Failed, "CannotModifyStaticOperatorGroupProvidedAPIs"),
            |o| fixed(o, "c1.v1.g1,c2.v1.g1"),
        )
        .differs(
            (Installing, "InstallSucceeded"),
            "a static group may list more than its members provide: that is what it is for (it speaks for others)",
        ),
        row("SingleCSVNoneToPending/StaticOperatorGroup/NoAPIConflict", (Nothing, ""), (Pending, ""), |o| fixed(o, "c1.v1.g1")),
        row(
            "SingleCSVFailedToPending/InterOperatorGroupOwnerConflict/NoAPIConflict",
            (Failed, "InterOperatorGroupOwnerConflict"),
            (Pending, ""),
            with_crd,
        ),
        row(
            "SingleCSVFailedToPending/StaticOperatorGroup/CannotModifyStaticOperatorGroupProvidedAPIs/NoAPIConflict",
            (Failed, "CannotModifyStaticOperatorGroupProvidedAPIs"),
            (Pending, ""),
            |o| fixed(o, "c1.v1.g1"),
        ),
        row(
            "SingleCSVFailedToFailed/InterOperatorGroupOwnerConflict/APIConflict",
            (Failed, "InterOperatorGroupOwnerConflict"),
            (Failed, "InterOperatorGroupOwnerConflict"),
            conflict,
        ),
        row(
            "SingleCSVFailedToFailed/StaticOperatorGroup/CannotModifyStaticOperatorGroupProvidedAPIs/AddAPIs",
            (Failed, "CannotModifyStaticOperatorGroupProvidedAPIs"),
            (Failed, "CannotModifyStaticOperatorGroupProvidedAPIs"),
            |o| fixed(o, "c2.v1.g1"),
        ),
        row(
            "SingleCSVFailedToFailed/StaticOperatorGroup/CannotModifyStaticOperatorGroupProvidedAPIs/RemoveAPIs",
            (Failed, "CannotModifyStaticOperatorGroupProvidedAPIs"),
            (Failed, "CannotModifyStaticOperatorGroupProvidedAPIs"),
            |o| fixed(o, "c1.v1.g1,c2.v1.g1"),
        )
        .differs((Installing, "InstallSucceeded"), "as StaticOperatorGroup/RemoveAPIs above"),
        // TestTransitionCSVFailForward
        row("FailForwardEnabled/CSV1/FailedToReplacing", (Failed, ""), (Replacing, ""), |o| replaced_by(o, "csv2", false)),
        row("FailForwardDisabled/CSV1/FailedToPending", (Failed, ""), (Pending, ""), |o| replaced_by(o, "csv2", false))
            .differs((Replacing, "BeingReplaced"), "a newer bundle supersedes a failed one without any switch"),
        row("FailForwardEnabled/ReplacementChain/CSV2/FailedToReplacing", (Failed, ""), (Replacing, ""), |o| {
            replaced_by(o, "csv3", false);
            o.predecessor = Some(("csv1".into(), Replacing));
        }),
        row("FailForwardDisabled/ReplacementChain/CSV2/FailedToPending", (Failed, ""), (Pending, ""), |o| {
            replaced_by(o, "csv3", false);
            o.predecessor = Some(("csv1".into(), Replacing));
        })
        .differs((Replacing, "BeingReplaced"), "a newer bundle supersedes a failed one without any switch"),
        // the rest of table 1.4
        row("1.4 Pending: predecessor not upgradeable", (Pending, ""), (Pending, "OperatorConditionNotUpgradeable"), |o| {
            with_crd(o);
            o.predecessor = Some(("csv0".into(), Succeeded));
            o.predecessor_upgradeable = Err("Busy".into());
        }),
        row("1.4 Pending: predecessor has not stepped aside", (Pending, ""), (Pending, ""), |o| {
            with_crd(o);
            o.predecessor = Some(("csv0".into(), Succeeded));
        }),
        row("1.4 Installing: all available", (Installing, ""), (Succeeded, "InstallSucceeded"), ready),
        row("1.4 Installing: not yet", (Installing, ""), (Installing, "InstallWaiting"), |o| {
            with_crd(o);
            running(o, down());
        }),
        row("1.4 Succeeded: component unhealthy", (Succeeded, ""), (Failed, "ComponentUnhealthy"), |o| {
            with_crd(o);
            running(o, down());
        }),
        row("1.4 Failed: healthy again", (Failed, "ComponentUnhealthy"), (Succeeded, "InstallSucceeded"), ready),
    ]
}

#[test]
fn every_case_of_upstreams_table_has_its_outcome_or_a_reason_for_another() {
    let mut wrong = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for row in table() {
        assert!(seen.insert(row.name), "{} twice", row.name);
        let mut csv = csv("csv1", row.before.0, row.before.1);
        (row.csv)(&mut csv);
        let mut observed = observed(&csv);
        (row.facts)(&mut observed);
        let decision = decide(&observed);
        let end = (decision.phase, decision.reason);
        let way: Vec<Outcome> = passed(row.before.0, end.0, end.1)
            .iter()
            .map(|(phase, reason, _)| (*phase, *reason))
            .chain([end])
            .collect();
        let met = way.iter().any(|(phase, reason)| {
            *phase == row.upstream.0 && (row.upstream.1.is_empty() || *reason == row.upstream.1)
        });
        match row.ours {
            None if !met => {
                wrong.push(format!("{}: {way:?} has no {:?}: {}", row.name, row.upstream, decision.message))
            }
            Some((ours, _)) if ours != end => wrong.push(format!("{}: {end:?} is not {ours:?}", row.name)),
            Some(_) if met => wrong.push(format!("{}: no longer differs", row.name)),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} cases", seen.len());
}

// upstream: TestUpdates: a chain of three, reconciled in any order, ends with the newest alone

#[test]
fn a_chain_of_three_ends_with_the_newest_whatever_the_order() {
    for order in ["abc", "acb", "bac", "bca", "cba", "cab"] {
        let mut csvs: Vec<ClusterServiceVersion> = [("a", ""), ("b", "a"), ("c", "b")]
            .into_iter()
            .map(|(name, replaces)| {
                let mut csv = csv(name, if name == "a" { Succeeded } else { Nothing }, "");
                csv.spec.replaces = Some(replaces.to_owned()).filter(|r| !r.is_empty());
                csv
            })
            .collect();
        let mut gone = Vec::new();
        for _ in 0..12 {
            for name in order.chars().map(String::from) {
                let Some(at) = csvs.iter().position(|c| c.metadata.name.as_ref() == Some(&name)) else {
                    continue;
                };
                let csv = csvs[at].clone();
                let mut facts = observed(&csv);
                running(&mut facts, up());
                facts.successor = successor(&name, &csvs);
                facts.predecessor = predecessor(&csv, &csvs);
                let decision = decide(&facts);
                csvs[at].status.as_mut().unwrap().phase = decision.phase;
                if decision.act == Act::Delete {
                    gone.push(csvs.remove(at).metadata.name.unwrap());
                }
            }
        }
        assert_eq!(gone, ["a", "b"], "{order}");
        assert_eq!(csvs[0].status.as_ref().unwrap().phase, Succeeded, "{order}");
    }
}

#[test]
fn a_version_that_replaces_itself_or_a_circle_of_versions_does_no_harm() {
    let mut own = csv("a", Nothing, "");
    own.spec.replaces = Some("a".into());
    let alone = [own.clone()];
    assert!(successor("a", &alone).is_none() && predecessor(&own, &alone).is_none());
    // a rollback: b was replaced by a once, and replaces it now
    let mut other = csv("b", Nothing, "");
    other.spec.replaces = Some("a".into());
    own.spec.replaces = Some("b".into());
    own.status.as_mut().unwrap().phase = Succeeded;
    let both = [own.clone(), other.clone()];
    assert_eq!(successor("a", &both).unwrap().name, "b");
    assert!(successor("b", &both).is_none() && predecessor(&own, &both).is_none());
    assert_eq!(predecessor(&other, &both).unwrap().0, "a");
    // a longer cycle has no end that runs
    let mut third = csv("c", Succeeded, "");
    third.spec.replaces = Some("b".into());
    own.spec.replaces = Some("c".into());
    assert!(!successor("a", &[own, other, third]).unwrap().runs);
}
