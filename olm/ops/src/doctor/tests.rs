//! Each check with facts that trigger it, and a healthy cluster.

use jiff::Timestamp;
use k8s_openapi::{
    api::{apps::v1::Deployment, coordination::v1::Lease, rbac::v1::ClusterRole},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::ResourceExt;
use olm_api::{
    CatalogSource, ClusterServiceVersion, InstallPlan, InstallPolicy, OperatorGroup, Subscription,
};
use olm_engine::{ownership::Owned, site::MANAGER};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Report,
    facts::{Facts, Manager, NoAccess},
    objects::Compared,
    operands::Operand,
    pods::Unavailable,
    problem::{Code, Severity},
    report,
};
use crate::{
    OtherOlm,
    manifests::{ManifestOptions, manifests},
};

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn established(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let condition = |type_: &str| json!({ "type": type_, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    crd.status = Some(read(json!({ "conditions": [condition("Established"), condition("NamesAccepted")] })));
    crd
}

/// A healthy cluster with one operator.
fn well() -> Facts {
    let role = manifests(&ManifestOptions::default())
        .into_iter()
        .find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == MANAGER)
        .unwrap();
    let manager = Manager {
        namespace: "olm".into(),
        version: Some(env!("CARGO_PKG_VERSION").into()),
        deployment: Some(read::<Deployment>(
            json!({ "spec": { "selector": {}, "template": {} }, "status": { "availableReplicas": 1 } }),
        )),
        lease: Some(read::<Lease>(
            json!({ "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T11:59:57.000000Z" } }),
        )),
        lease_unseen: false,
        role: Some(read::<ClusterRole>(role)),
    };
    Facts {
        kubernetes: Some("v1.36.0".into()),
        crds: olm_api::crds().into_iter().map(|c| (c.name_any(), Some(established(c)))).collect(),
        manager: Some(manager),
        catalogs: vec![catalog()],
        subscriptions: vec![subscription()],
        plans: vec![plan("Complete", "2026-01-01T10:00:00Z", true)],
        csvs: vec![csv("Succeeded")],
        groups: vec![group("own")],
        policies: vec![policy("lends", "Policy", Some("pat")), policy("restricts", "Requester", None)],
        ..Facts::default()
    }
}

fn catalog() -> CatalogSource {
    read(json!({ "metadata": { "name": "cat", "namespace": "olm" }, "spec": {},
        "status": { "connectionState": { "lastObservedState": "READY" }, "digest": "sha256:1", "lastSuccess": "2026-01-01T11:00:00Z",
                    "latestImageRegistryPoll": "2026-01-01T11:00:00Z" } }))
}

fn subscription() -> Subscription {
    let annotations = json!({ "olm.requestedBy": "jane" });
    read(
        json!({ "metadata": { "name": "thing", "namespace": "ns", "annotations": annotations }, "spec": { "name": "thing" },
        "status": { "installedCSV": "thing.v1", "conditions": [] } }),
    )
}

fn plan(phase: &str, began: &str, approved: bool) -> InstallPlan {
    read(json!({ "metadata": { "name": "install-a", "namespace": "ns" },
        "spec": { "approved": approved, "clusterServiceVersionNames": ["thing.v1"] },
        "status": { "phase": phase, "startTime": began, "message": "waiting for a CRD" } }))
}

fn csv(phase: &str) -> ClusterServiceVersion {
    read(json!({ "metadata": { "name": "thing.v1", "namespace": "ns" }, "spec": {},
        "status": { "phase": phase, "reason": "R", "message": "M", "lastTransitionTime": "2026-01-01T10:00:00Z" } }))
}

fn group(name: &str) -> OperatorGroup {
    read(json!({ "metadata": { "name": name, "namespace": "ns", "uid": "u" }, "spec": {} }))
}

fn policy(name: &str, authority: &str, author: Option<&str>) -> InstallPolicy {
    let allow = json!([{ "catalogs": [{ "namespace": "olm", "name": "cat" }], "packages": ["thing"], "authority": authority }]);
    let annotations = author.map(|author| json!({ "olm.requestedBy": author })).unwrap_or_default();
    read(json!({ "metadata": { "name": name, "annotations": annotations }, "spec": { "allow": allow } }))
}

fn condition(type_: &str) -> olm_api::Condition {
    olm_api::Condition::new(type_, true, "Because", "of something")
}

fn orphan() -> Owned {
    let labels = json!({ "olm.owner": "gone.v1", "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion" });
    let gvk = kube::core::GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "ClusterRole");
    Owned {
        resource: kube::api::ApiResource::from_gvk_with_plural(&gvk, "clusterroles"),
        metadata: read(json!({ "name": "gone-x", "uid": "u", "labels": labels })),
    }
}

fn binding() -> Value {
    json!({ "kind": "ClusterRoleBinding", "metadata": { "name": "olm-manager" } })
}

fn deployment() -> Deployment {
    read(
        json!({ "metadata": { "name": "thing", "namespace": "ns" }, "spec": { "selector": {}, "template": {} } }),
    )
}

fn pod_without_image() -> k8s_openapi::api::core::v1::Pod {
    read(json!({ "metadata": { "name": "thing-1", "namespace": "ns" }, "status": { "containerStatuses": [{
        "name": "main", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "waiting": { "reason": "ErrImagePull", "message": "not found" } } }] } }))
}

fn codes(report: &Report) -> Vec<(Code, Severity)> {
    report.problems.iter().map(|a| (a.code, a.severity)).collect()
}

#[test]
fn a_healthy_cluster_has_no_problem() {
    let report = report(&well(), now());
    assert_eq!(report.problems, []);
    assert!(!report.has_errors() && !report.has_no_access());
    assert_eq!(report.manager.as_deref(), Some(env!("CARGO_PKG_VERSION")));
}

#[test]
fn one_that_does_not_answer_is_not_called_well() {
    let unreachable = NoAccess::Unreachable("connection refused".into());
    for (why, code) in
        [(unreachable, Code::ApiUnreachable), (NoAccess::CredentialsRefused, Code::CredentialsRefused)]
    {
        let report = report(&Facts { no_access: Some(why), ..Facts::default() }, now());
        assert!(report.has_errors() && report.has_no_access() && !report.manager_checked);
        assert_eq!(codes(&report), [(code, Severity::Error)]);
        assert!(report.problems[0].fix.is_some());
    }
}

#[tokio::test]
async fn refused_credentials_are_neither_missing_rights_nor_a_missing_cluster() {
    // given an API server that refuses the credentials, also behind a proxy that serves the version to everyone
    for is_version_public in [false, true] {
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| async move {
            let version = json!({ "major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": "" });
            let refused = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "Unauthorized", "reason": "Unauthorized", "code": 401 });
            let (code, body) = match is_version_public && request.uri().path() == "/version" {
                true => (200, version),
                false => (401, refused),
            };
            let answer = http::Response::builder().status(code).header("content-type", "application/json");
            answer.body(kube::client::Body::from(body.to_string().into_bytes()))
        });
        // when the cluster is examined
        let report = super::examine(&kube::Client::new(service, "default"), None).await;
        // then the report says that alone
        assert_eq!(codes(&report), [(Code::CredentialsRefused, Severity::Error)], "{is_version_public}");
        assert!(report.has_no_access());
    }
}

type Change = fn(&mut Facts);

#[test]
fn each_problem_is_found_and_has_a_fix() {
    use Severity::{Error, Info, Warning};
    let cases: &[(&str, Change, (Code, Severity))] = &[
        (
            "another OLM",
            |f| {
                f.other_olm = Some(OtherOlm { deployments: vec!["x/olm-operator".into()], api_service: None })
            },
            (Code::OtherOlmRunning, Error),
        ),
        (
            "a kind is missing",
            |f| drop(f.crds.insert("subscriptions.operators.coreos.com".into(), None)),
            (Code::CrdMissing, Error),
        ),
        (
            "a kind is not served",
            |f| {
                let crd = f.crds.get_mut("subscriptions.operators.coreos.com").unwrap().as_mut().unwrap();
                crd.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "False".into();
            },
            (Code::CrdMissing, Error),
        ),
        (
            "a kind of OLM's",
            |f| {
                let crd = f.crds.get_mut("subscriptions.operators.coreos.com").unwrap().as_mut().unwrap();
                let schema =
                    crd.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
                let spec = schema.properties.as_mut().unwrap().get_mut("spec").unwrap();
                assert!(spec.properties.as_mut().unwrap().remove("deletionPolicy").is_some());
            },
            (Code::CrdOutdated, Warning),
        ),
        (
            "a kind that checks nothing",
            |f| {
                let crd = f.crds.get_mut("subscriptions.operators.coreos.com").unwrap().as_mut().unwrap();
                crd.spec.versions[0].schema = Some(read(json!({ "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true } })));
            },
            (Code::CrdDiffers, Error),
        ),
        (
            "a webhook that the API server cannot call",
            |f| {
                let webhook = json!({ "kind": "MutatingWebhookConfiguration", "metadata": { "name": "olm-requests" },
                    "webhooks": [{ "clientConfig": { "service": { "namespace": "olm" } } }] });
                f.installation.push(Compared { wanted: webhook.clone(), live: Some(webhook) });
            },
            (Code::RequestsRefused, Error),
        ),
        (
            "a request without an author",
            |f| f.subscriptions[0].metadata.annotations = None,
            (Code::AuthorNotRecorded, Warning),
        ),
        (
            "a policy that lends the rights of an author who is not recorded",
            |f| f.policies.push(policy("dev", "Policy", None)),
            (Code::AuthorNotRecorded, Warning),
        ),
        (
            "a role that is missing",
            |f| f.installation.push(Compared { wanted: binding(), live: None }),
            (Code::InstallationDiffers, Error),
        ),
        (
            "an image that cannot be pulled",
            |f| {
                f.unavailable =
                    vec![Unavailable { deployment: deployment(), pods: vec![pod_without_image()] }]
            },
            (Code::PodNotStarting, Error),
        ),
        (
            "an operand without quorum",
            |f| {
                f.operands = vec![Operand {
                    resource: "things.x.io".into(),
                    kind: "Thing".into(),
                    namespace: Some("ns".into()),
                    name: "a".into(),
                    created: None,
                    conditions: vec![
                        json!({ "type": "Available", "status": "False", "message": "no quorum" }),
                    ],
                }];
            },
            (Code::OperandUnhealthy, Error),
        ),
        ("no manager", |f| f.manager = None, (Code::ManagerMissing, Error)),
        (
            "none of its pods",
            |f| f.manager.as_mut().unwrap().deployment.as_mut().unwrap().status = None,
            (Code::ManagerNotReady, Error),
        ),
        (
            "an older one",
            |f| f.manager.as_mut().unwrap().version = Some("0.0.1".into()),
            (Code::ManagerVersionDiffers, Info),
        ),
        ("no leader", |f| f.manager.as_mut().unwrap().lease = None, (Code::LeaseStale, Error)),
        (
            "who led is gone",
            |f| {
                let lease = f.manager.as_mut().unwrap().lease.as_mut().unwrap();
                lease.spec.as_mut().unwrap().renew_time = Some(read(json!("2026-01-01T11:00:00.000000Z")));
            },
            (Code::LeaseStale, Error),
        ),
        (
            "a right is missing",
            |f| drop(f.manager.as_mut().unwrap().role.as_mut().unwrap().rules.as_mut().unwrap().pop()),
            (Code::ManagerLacksRights, Error),
        ),
        (
            "a catalog is broken",
            |f| {
                let status = f.catalogs[0].status.as_mut().unwrap();
                (status.digest, status.connection_state) = (None, None);
            },
            (Code::CatalogUnreadable, Error),
        ),
        (
            "and serves what it had",
            |f| f.catalogs[0].status.as_mut().unwrap().connection_state = None,
            (Code::CatalogUnreadable, Warning),
        ),
        (
            "a catalog is old",
            |f| {
                f.catalogs[0].status.as_mut().unwrap().last_success =
                    Some(read(json!("2025-12-01T00:00:00Z")))
            },
            (Code::CatalogStale, Warning),
        ),
        (
            "a catalog has problems",
            |f| f.catalogs[0].status.as_mut().unwrap().problems = vec!["a".into(), "b".into()],
            (Code::CatalogProblems, Warning),
        ),
        (
            "no version",
            |f| f.subscriptions[0].status.as_mut().unwrap().conditions = vec![condition("ResolutionFailed")],
            (Code::SubscriptionUnresolved, Error),
        ),
        (
            "held",
            |f| {
                f.subscriptions[0].status.as_mut().unwrap().conditions = vec![condition("DeletionHeld")];
                f.subscriptions[0].metadata.deletion_timestamp = Some(read(json!("2026-01-01T11:00:00Z")));
            },
            (Code::DeletionHeld, Error),
        ),
        (
            "a plan is stuck",
            |f| f.plans = vec![plan("Installing", "2026-01-01T11:00:00Z", true)],
            (Code::PlanStuck, Error),
        ),
        (
            "a plan waits",
            |f| f.plans = vec![plan("RequiresApproval", "2026-01-01T11:00:00Z", false)],
            (Code::PlanWaiting, Info),
        ),
        ("an operator failed", |f| f.csvs = vec![csv("Failed")], (Code::OperatorUnhealthy, Error)),
        (
            "an operator does not come up",
            |f| f.csvs = vec![csv("Installing")],
            (Code::OperatorUnhealthy, Error),
        ),
        (
            "certificates are late",
            |f| {
                f.csvs[0].status.as_mut().unwrap().certs_rotate_at = Some(read(json!("2026-01-01T10:00:00Z")))
            },
            (Code::CertificateNotRotated, Error),
        ),
        ("no group", |f| f.groups.clear(), (Code::NoOperatorGroup, Error)),
        ("two groups", |f| f.groups.push(group("other")), (Code::TooManyOperatorGroups, Error)),
        (
            "a webhook is dead",
            |f| {
                f.webhooks = vec![
                    json!({ "kind": "ValidatingWebhookConfiguration", "metadata": { "name": "w" }, "webhooks": [
                { "name": "a.b.c", "clientConfig": { "service": { "namespace": "ns", "name": "s" } } }] }),
                ];
                f.answers.insert(("ns".into(), "s".into()), false);
            },
            (Code::WebhookUnanswered, Error),
        ),
        (
            "one that may be",
            |f| {
                f.webhooks = vec![
                    json!({ "kind": "ValidatingWebhookConfiguration", "metadata": { "name": "w" }, "webhooks": [
                { "name": "a.b.c", "failurePolicy": "Ignore", "clientConfig": { "service": { "namespace": "ns", "name": "s" } } }] }),
                ];
                f.answers.insert(("ns".into(), "s".into()), false);
            },
            (Code::WebhookUnanswered, Warning),
        ),
        (
            "an API is dead",
            |f| {
                f.api_services = vec![
                    json!({ "metadata": { "name": "v1.x" }, "spec": { "service": { "namespace": "ns", "name": "s" } },
                "status": { "conditions": [{ "type": "Available", "status": "False", "reason": "MissingEndpoints", "message": "none" }] } }),
                ];
            },
            (Code::ApiServiceUnavailable, Error),
        ),
        ("no Subscription", |f| f.subscriptions.clear(), (Code::Unmanaged, Info)),
        (
            "a copy",
            |f| {
                let mut copy = csv("Succeeded");
                copy.metadata.namespace = Some("watched".into());
                copy.labels_mut().insert("olm.copiedFrom".into(), "ns".into());
                f.csvs.push(copy);
            },
            (Code::CopiedCsv, Warning),
        ),
        ("an orphan", |f| f.orphans = vec![orphan()], (Code::Orphan, Warning)),
        (
            "a group without operators",
            |f| {
                (f.subscriptions, f.csvs) = (Vec::new(), Vec::new());
                f.groups = vec![group(olm_plan::OPERATOR_GROUP_NAME)];
            },
            (Code::UnusedOperatorGroup, Info),
        ),
        ("something hidden", |f| f.not_seen = vec!["orphans: forbidden".into()], (Code::NotChecked, Info)),
    ];
    for (name, change, expected) in cases {
        let mut facts = well();
        change(&mut facts);
        let report = report(&facts, now());
        assert_eq!(codes(&report), [*expected], "{name}: {:?}", report.problems);
        let problem = &report.problems[0];
        assert!(!problem.why.is_empty(), "{name}");
        assert!(problem.fix.is_some() || problem.code == Code::NotChecked, "{name} has no fix");
    }
    let missing: Vec<&Code> = super::CODES
        .iter()
        .filter(|code| {
            let with_access = !matches!(code, Code::ApiUnreachable | Code::CredentialsRefused);
            with_access && !cases.iter().any(|(.., (c, _))| c == *code)
        })
        .collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

#[test]
fn a_plan_that_waited_for_its_approval_is_not_stuck() {
    let approved = |at: &str| -> InstallPlan {
        let fields = json!({ "f:spec": { "f:approved": {} } });
        read(json!({ "metadata": { "name": "install-a", "namespace": "ns",
            "creationTimestamp": "2026-01-01T10:00:00Z",
            "managedFields": [{ "manager": "olm", "operation": "Update", "time": at, "fieldsV1": fields }] },
            "spec": { "approved": true, "clusterServiceVersionNames": ["thing.v2"] },
            "status": { "phase": "RequiresApproval", "message": "approve with `olm approve`" } }))
    };
    let problems = |at: &str| report(&Facts { plans: vec![approved(at)], ..well() }, now()).problems;
    assert_eq!(problems("2026-01-01T11:59:00Z"), []);
    let stuck = problems("2026-01-01T11:00:00Z");
    assert_eq!(stuck.first().map(|problem| problem.code), Some(Code::PlanStuck));
    assert!(!format!("{stuck:?}").contains("olm approve"), "{stuck:?}");
}

#[test]
fn only_orphaned_objects_have_a_safe_fix() {
    let mut facts = well();
    facts.orphans = vec![orphan()];
    facts.csvs.push(csv("Failed"));
    let report = report(&facts, now());
    let fixed: Vec<&str> =
        report.problems.iter().filter_map(|a| a.safe_fix.as_ref()).map(|c| c.name.as_str()).collect();
    assert_eq!(fixed, ["gone-x"]);
    // a group that a user made belongs to the user
    let mut facts = Facts { subscriptions: Vec::new(), csvs: Vec::new(), ..well() };
    facts.groups = vec![group("mine")];
    assert_eq!(super::report(&facts, now()).problems, []);
}

#[test]
fn nothing_is_concluded_from_what_could_not_be_listed() {
    let unlisted = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let mut facts = well();
    facts.manager.as_mut().unwrap().lease = None;
    facts.manager.as_mut().unwrap().lease_unseen = true;
    (facts.subscriptions, facts.groups) = (Vec::new(), Vec::new());
    facts.unlisted = unlisted(&["subscriptions", "operatorgroups"]);
    assert_eq!(super::report(&facts, now()).problems, []);
    let mut facts = Facts { subscriptions: Vec::new(), csvs: Vec::new(), ..well() };
    facts.groups = vec![group(olm_plan::OPERATOR_GROUP_NAME)];
    facts.unlisted = unlisted(&["clusterserviceversions"]);
    assert_eq!(super::report(&facts, now()).problems, []);
    // an unreadable manager is not a missing one
    let facts = Facts { manager: None, manager_unseen: true, ..well() };
    let report = super::report(&facts, now());
    assert!(!report.manager_checked && report.problems.is_empty(), "{report:?}");
}
