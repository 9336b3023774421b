//! Installs, upgrades, rollbacks and changes of channel.

use olm_api::subscription::Approval;
use olm_bundle::{Phase, RenderError};
use olm_plan::{Cause, FindingCode, Level, ObjectRef, Op, PlanAction, Severity};
use olm_resolver::{Action, Gvk, InstalledRef, Version};
use serde_json::{Value, json};

use crate::world::*;

#[test]
fn an_install_creates_everything_in_phases_and_shows_what_it_applies() {
    let case = Case::install("1.0.0");
    let plan = case.plan();
    assert_eq!(plan.action, PlanAction::Install);
    assert!(plan.objects.iter().all(|o| o.op == Op::Create), "{:?}", ops(&plan));
    // the shown objects are the applied ones
    let applied: Vec<ObjectRef> =
        plan.phases().into_iter().flat_map(|p| p.objects.into_iter().map(|(_, r, _)| r)).collect();
    let shown: Vec<ObjectRef> = plan.objects.iter().map(|o| o.reference.clone()).collect();
    assert_eq!(applied, shown);
    let phases: Vec<Phase> = plan.phases().iter().map(|p| p.phase).collect();
    assert_eq!(phases, [Phase::Prerequisites, Phase::Crds, Phase::Rbac, Phase::Workloads, Phase::Serving]);
    // the ClusterServiceVersion comes first and has the annotations that its pods inherit
    let csv = &plan.phases()[0].objects[0].2;
    assert_eq!(csv["kind"], "ClusterServiceVersion");
    assert_eq!(csv["metadata"]["namespace"], "ns");
    assert_eq!(csv["metadata"]["annotations"]["olm.targetNamespaces"], "ns");
    assert_eq!(csv["metadata"]["annotations"]["olm.operatorGroup"], "og");
    assert_eq!(csv["metadata"]["annotations"]["capabilities"], "Basic Install");
    assert_eq!(csv["metadata"]["labels"]["operators.coreos.com/thing.ns"], "");
    assert_eq!(plan.permissions.summary[&Level::High], 1);
    let found: Vec<FindingCode> = plan.findings.iter().map(|f| f.code).collect();
    assert_eq!(found, [FindingCode::HighRightsAdded]);
    assert!(!plan.requires_approval && !plan.is_blocked());
}

#[test]
fn applying_twice_changes_nothing() {
    let mut case = Case::install("1.0.0");
    let first = case.plan();
    case.live = case.applied();
    let second = case.plan();
    assert!(second.objects.iter().all(|o| o.op == Op::Unchanged), "{:#?}", second.objects);
    // and an approved plan is the same afterwards
    assert_eq!(first.digest, second.digest);
}

#[test]
fn a_manual_change_is_shown_and_reverted() {
    let mut case = Case::install("1.0.0");
    case.live = case.applied();
    let deployment = ObjectRef::new("apps/v1", "Deployment", Some("ns"), "thing");
    case.live.get_mut(&deployment).unwrap()["spec"]["replicas"] = json!(0);
    let plan = case.plan();
    let object = plan.objects.iter().find(|o| o.reference == deployment).unwrap();
    assert_eq!(object.op, Op::Update);
    assert_eq!(
        (object.diff[0].path.as_str(), &object.diff[0].live, &object.diff[0].new),
        ("/spec/replicas", &Some(json!(0)), &Some(json!(1)))
    );
}

#[test]
fn an_upgrade_shows_the_difference_and_removes_leftovers_but_no_crd() {
    let config = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } });
    let other = {
        let mut other = crd(&["v1"]);
        other["metadata"]["name"] = json!("others.example.com");
        other["spec"]["names"] =
            json!({ "kind": "Other", "listKind": "OtherList", "plural": "others", "singular": "other" });
        other
    };
    let both = |csv: &mut Value| {
        csv["spec"]["customresourcedefinitions"]["owned"] = json!([
            { "name": "things.example.com", "version": "v1", "kind": "Thing" },
            { "name": "others.example.com", "version": "v1", "kind": "Other" } ]);
    };
    // given a version with a ConfigMap and a second CRD, and a next one without them, with one more right
    let old = Case::of(bundle("1.0.0", vec![crd(&["v1"]), config("old"), other], both), None, "1.0.0");
    assert!(old.rendered.is_ok(), "{:?}", old.rendered);
    let next = bundle("1.0.1", vec![], |csv| {
        let rules = csv.pointer_mut("/spec/install/spec/clusterPermissions/0/rules").unwrap();
        rules
            .as_array_mut()
            .unwrap()
            .push(json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"] }));
    });
    let mut case = old.upgrade("1.0.1", next);
    case.approval = Approval::Manual;
    let plan = case.plan();
    // then the old ConfigMap and the old version are deleted, the CRD stays
    assert_eq!(
        (plan.action, plan.from.as_deref(), plan.to.as_deref()),
        (PlanAction::Upgrade, Some("1.0.0"), Some("1.0.1"))
    );
    let deleted: Vec<String> = plan.deletions().iter().map(ToString::to_string).collect();
    assert!(deleted.contains(&"ConfigMap ns/old".to_owned()), "{deleted:?}");
    assert_eq!(deleted.last().unwrap(), "ClusterServiceVersion ns/thing.v1.0.0");
    assert!(!deleted.iter().any(|d| d.contains("CustomResourceDefinition")), "{deleted:?}");
    let deployment = plan.objects.iter().find(|o| o.reference.kind == "Deployment").unwrap();
    assert!(deployment.diff.iter().any(|d| d.path.ends_with("/image")), "{:?}", deployment.diff);
    // and the only new right is the added one
    let added: Vec<&str> = plan.permissions.added.iter().map(|r| r.rule.as_str()).collect();
    assert_eq!((added, plan.permissions.added[0].level), (vec!["patch nodes"], Level::High));
    assert!(plan.requires_approval);
    assert_eq!(plan.review_points(), ["new permissions of level HIGH", "1 object deleted"]);
    assert!(plan.reversible.possible);
    // afterwards nothing is left to do
    case.live = case.applied();
    let after = case.plan();
    assert!(after.objects.iter().all(|o| o.op == Op::Unchanged), "{:?}", ops(&after));
    assert_eq!(after.digest, plan.digest);
}

#[test]
fn the_digest_is_about_content_alone() {
    let digest = |case: &Case| case.plan().digest;
    let case = Case::install("1.0.0");
    let base = digest(&case);
    assert!(base.starts_with("sha256:") && base.len() == 71, "{base}");
    // the order of objects does not count
    let mut other = Case::install("1.0.0");
    if let Ok(rendered) = &mut other.rendered {
        for (_, objects) in &mut rendered.phases {
            objects.reverse();
        }
    }
    assert_eq!(digest(&other), base);
    // nor does a namespace that is still to be created
    other.live.clear();
    assert_eq!(digest(&other), base);
    // nor the approver
    other.approval = Approval::Manual;
    assert_eq!(digest(&other), base);
    // one image does
    let other = Case::of(
        bundle("1.0.0", vec![], |csv| {
            *csv.pointer_mut("/spec/install/spec/deployments/0/spec/template/spec/containers/0/image")
                .unwrap() = json!("localhost/evil:1.0.0");
        }),
        None,
        "1.0.0",
    );
    assert_ne!(digest(&other), base);
}

#[test]
fn a_missing_namespace_and_operator_group_are_made() {
    let mut case = Case::install("1.0.0");
    case.live.clear();
    case.groups.clear();
    case.targets = vec!["ns".into()];
    case.rendered = rendered(&case.bundle, &case.groups, &case.targets);
    let plan = case.plan();
    assert_eq!(codes(&plan), [FindingCode::NamespaceMissing, FindingCode::NoOperatorGroup]);
    let infos = plan.findings.iter().filter(|f| f.severity == Severity::Info).count();
    assert_eq!(infos, 2, "{:?}", plan.findings);
    let first: Vec<String> = ops(&plan).into_iter().take(3).collect();
    assert_eq!(
        first,
        [
            "create Namespace ns",
            "create OperatorGroup olm-operators",
            "create ClusterServiceVersion thing.v1.0.0"
        ]
    );
    assert_eq!(plan.phases()[0].objects[1].2["spec"]["targetNamespaces"], json!(["ns"]));
}

#[test]
fn several_operator_groups_block() {
    let mut case = Case::install("1.0.0");
    case.groups.push(group("og2", &[]));
    let plan = case.plan();
    assert_eq!(codes(&plan), [FindingCode::TooManyOperatorGroups]);
    assert!(plan.is_blocked());
}

#[test]
fn an_install_mode_that_does_not_fit_blocks() {
    let mut case = Case::install("1.0.0");
    case.groups = vec![group("og", &["a", "b"])];
    case.rendered = rendered(&case.bundle, &case.groups, &[]);
    let plan = case.plan();
    assert_eq!(codes(&plan), [FindingCode::UnsupportedInstallMode]);
    assert!(plan.is_blocked() && plan.objects.is_empty());
}

#[test]
fn webhooks_are_in_the_plan_without_certificates() {
    // given a bundle with a webhook
    let webhook = |csv: &mut Value| {
        csv["spec"]["webhookdefinitions"] = json!([{ "type": "ValidatingAdmissionWebhook", "generateName": "v.example.com",
            "deploymentName": "thing", "sideEffects": "None", "admissionReviewVersions": ["v1"] }]);
    };
    let mut case = Case::of(bundle("1.0.0", vec![], webhook), None, "1.0.0");
    // when it is planned
    let plan = case.plan();
    // then it is applied last, after the Deployment and its prerequisites
    assert!(!plan.is_blocked(), "{:?}", codes(&plan));
    let phases: Vec<Phase> = plan.phases().iter().map(|p| p.phase).collect();
    assert!(phases.ends_with(&[Phase::Endpoints, Phase::Workloads, Phase::Serving]), "{phases:?}");
    let all = format!("{:?}", plan.phases());
    assert!(!all.contains("caBundle") && !all.contains("tls.crt\": String"), "{all}");
    // and when all of it exists, with certificates, the plan is the same
    for phase in plan.phases() {
        for (_, reference, mut manifest) in phase.objects {
            if reference.kind == "ValidatingWebhookConfiguration" {
                manifest["webhooks"][0]["clientConfig"]["caBundle"] = json!("Q0E=");
            }
            if reference.kind == "Secret" {
                manifest["data"] = json!({ "tls.crt": "Q0E=", "tls.key": "Q0E=" });
            }
            case.live.insert(reference, manifest);
        }
    }
    let again = case.plan();
    assert_eq!(again.digest, plan.digest);
    let changed: Vec<&str> =
        again.objects.iter().filter(|o| o.op != Op::Unchanged).map(|o| o.name.as_str()).collect();
    assert_eq!(changed, Vec::<&str>::new());
}

#[test]
fn broken_bundles_block() {
    let mut case = Case::install("1.0.0");
    case.rendered = Err(RenderError::Invalid {
        bundle: "thing.v1.0.0".into(),
        field: "spec.x".into(),
        text: "is wrong".into(),
    });
    assert_eq!(codes(&case.plan()), [FindingCode::BundleNotRenderable]);
}

#[test]
fn an_old_cluster_blocks() {
    let mut case =
        Case::of(bundle("1.0.0", vec![], |csv| csv["spec"]["minKubeVersion"] = json!("1.40")), None, "1.0.0");
    case.facts.kubernetes = Version::parse("1.33.2+k3s1").ok();
    assert_eq!(codes(&case.plan()), [FindingCode::KubernetesTooOld]);
    // a vendor's suffix does not mean an older version
    case.facts.kubernetes = Version::parse("1.40.0-rc.1").ok();
    assert_eq!(codes(&case.plan()), []);
}

#[test]
fn crds_of_others_and_stored_versions_block() {
    // a CRD without an owner is adopted
    let mut case = Case::install("1.0.0");
    case.insert(crd(&["v1"]));
    let plan = case.plan();
    assert_eq!(codes(&plan), []);
    assert!(plan.objects.iter().any(|o| o.op == Op::Adopt && o.reference.kind == "CustomResourceDefinition"));
    // one of a Helm release is not
    let mut helm = crd(&["v1"]);
    helm["metadata"]["annotations"] =
        json!({ "meta.helm.sh/release-name": "thing", "meta.helm.sh/release-namespace": "x" });
    case.insert(helm);
    let plan = case.plan();
    assert_eq!(codes(&plan), [FindingCode::CrdOwnedByOther]);
    assert!(plan.findings[0].text.contains("Helm release thing"), "{:?}", plan.findings);
    // nor one of another package
    let mut other = crd(&["v1"]);
    other["metadata"]["labels"] = json!({ "operators.coreos.com/other.elsewhere": "" });
    case.insert(other);
    assert_eq!(codes(&case.plan()), [FindingCode::CrdOwnedByOther]);
    // the same package in another namespace shares it, and keeps its label
    let mut shared = crd(&["v1"]);
    shared["metadata"]["labels"] = json!({ "operators.coreos.com/thing.elsewhere": "" });
    case.insert(shared);
    let plan = case.plan();
    assert_eq!(codes(&plan), []);
    let phases = plan.phases();
    let manifest = &phases.iter().find(|p| p.phase == Phase::Crds).unwrap().objects[0].2;
    assert_eq!(
        manifest["metadata"]["labels"].as_object().unwrap().keys().filter(|k| k.contains("thing.")).count(),
        2,
        "{manifest}"
    );
    // a stored version must stay
    let mut old = crd(&["v1alpha1"]);
    old["status"] = json!({ "storedVersions": ["v1alpha1"] });
    case.insert(old);
    let plan = case.plan();
    assert!(codes(&plan).contains(&FindingCode::CrdStoredVersionRemoved), "{:?}", plan.findings);
    assert!(!plan.reversible.possible);
}

#[test]
fn missing_apis_and_deprecations_warn() {
    let mut case = Case::of(
        bundle("1.0.0", vec![], |csv| {
            csv["spec"]["customresourcedefinitions"]["required"] =
                json!([{ "name": "certs.example.org", "version": "v1", "kind": "Cert" }]);
        }),
        None,
        "1.0.0",
    );
    case.resolved.deprecations = vec!["olm.channel/stable: use fast".into()];
    let plan = case.plan();
    assert_eq!(codes(&plan), [FindingCode::RequiredApiMissing, FindingCode::DeprecatedChannel]);
    assert!(!plan.is_blocked());
    case.facts.apis = vec![Gvk::new("example.org", "v1", "Cert")];
    assert_eq!(codes(&case.plan()), [FindingCode::DeprecatedChannel]);
}

#[test]
fn a_rollback_is_called_one() {
    let old = Case::of(bundle("1.0.1", vec![], |_| {}), None, "1.0.1");
    let case = old.upgrade("1.0.0", bundle("1.0.0", vec![], |_| {}));
    let plan = case.plan();
    assert_eq!(
        (plan.action, plan.headline().as_str()),
        (PlanAction::Rollback, "rollback thing 1.0.1 -> 1.0.0")
    );
}

#[test]
fn a_channel_change_at_the_same_version_is_a_separate_action() {
    // given an installed version, and a Subscription that changes its channel
    let mut case = Case::install("1.0.0");
    case.live = case.applied();
    case.resolved.action = Action::None;
    case.resolved.from =
        Some(InstalledRef { name: "thing.v1.0.0".into(), version: Version::parse("1.0.0").ok() });
    assert_eq!((case.plan().action, case.plan().from_channel), (PlanAction::None, None));
    case.facts.from_channel = Some("alpha".into());
    case.approval = Approval::Manual;
    let plan = case.plan();
    // then only the channel changes, and the plan shows it: no new rights
    assert_eq!(plan.action, PlanAction::ChannelChange);
    assert_eq!((plan.permissions.added.len(), plan.permissions.removed.len()), (0, 0));
    assert_eq!(plan.headline(), "channel-change thing 1.0.0, channel alpha -> stable");
    assert!(
        plan.objects.iter().all(|o| o.op == Op::Unchanged) && !plan.requires_approval,
        "{:?}",
        ops(&plan)
    );
    // with a new version it is an upgrade, and the channels are shown
    let old = Case::install("1.0.0");
    let mut next = old.upgrade("1.1.0", bundle("1.1.0", vec![], |_| {}));
    next.facts.from_channel = Some("alpha".into());
    let plan = next.plan();
    assert_eq!(plan.action, PlanAction::Upgrade);
    assert_eq!(plan.headline(), "upgrade thing 1.0.0 -> 1.1.0, channel alpha -> stable");
    // the same channel is not a change, nor is that of a package that was not installed
    next.facts.from_channel = Some("stable".into());
    assert_eq!(next.plan().from_channel, None);
    let mut new = Case::install("1.0.0");
    new.facts.from_channel = Some("alpha".into());
    assert_eq!((new.plan().action, new.plan().from_channel), (PlanAction::Install, None));
}

#[test]
fn a_manual_change_is_distinguished_from_one_of_the_new_version() {
    // given an upgrade with another image, of a Deployment scaled down manually
    let old = Case::install("1.0.0");
    let mut case = old.upgrade("1.0.1", bundle("1.0.1", vec![], |_| {}));
    let deployment = ObjectRef::new("apps/v1", "Deployment", Some("ns"), "thing");
    case.live.get_mut(&deployment).unwrap()["spec"]["replicas"] = json!(0);
    let plan = case.plan();
    let object = plan.objects.iter().find(|o| o.reference == deployment).unwrap();
    let cause = |path: &str| object.diff.iter().find(|f| f.path == path).map(|f| f.cause);
    assert_eq!(cause("/spec/replicas"), Some(Cause::Drift), "{:?}", object.diff);
    assert_eq!(cause("/spec/template/spec/containers[name=thing]/image"), Some(Cause::Change));
    // where nothing else was changed, the object shows it
    let mut same = Case::install("1.0.0");
    same.live = same.applied();
    same.resolved.action = Action::None;
    same.live.get_mut(&deployment).unwrap()["spec"]["replicas"] = json!(0);
    let plan = same.plan();
    let object = plan.objects.iter().find(|o| o.reference == deployment).unwrap();
    assert_eq!((object.op, object.diff[0].cause), (Op::Update, Cause::Drift));
    assert_eq!(object.note.as_deref(), Some("it was changed by another client and is restored"));
    // the label of the package's components is restored, too
    let label = olm_api::names::component_label("thing", "ns");
    for without in [Some(label.as_str()), None] {
        let metadata = &mut same.live.get_mut(&deployment).unwrap()["metadata"];
        match without {
            Some(label) => drop(metadata["labels"].as_object_mut().unwrap().remove(label).unwrap()),
            None => drop(metadata.as_object_mut().unwrap().remove("labels").unwrap()),
        }
        let plan = same.plan();
        let object = plan.objects.iter().find(|o| o.reference == deployment).unwrap();
        assert!(object.diff.iter().any(|f| f.path.starts_with("/metadata/labels")), "{:?}", object.diff);
    }
}

#[test]
fn leftovers_go_with_the_old_version() {
    let config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "old" }, "data": { "a": "1" } });
    let old = Case::of(bundle("1.0.0", vec![config], |_| {}), None, "1.0.0");
    let plan = old.upgrade("1.0.1", bundle("1.0.1", vec![], |_| {})).plan();
    let of =
        |kind: &str| plan.objects.iter().find(|o| o.op == Op::Delete && o.reference.kind == kind).unwrap();
    assert_eq!(of("ConfigMap").goes_with.as_deref(), Some("ClusterServiceVersion ns/thing.v1.0.0"));
    assert_eq!(of("ClusterServiceVersion").goes_with, None);
}

#[test]
fn images_are_listed_with_where_they_come_from() {
    let bundle = bundle("1.0.0", vec![], |csv| {
        csv["spec"]["relatedImages"] = json!([
            { "name": "server", "image": "localhost/server@sha256:00" }, { "name": "thing", "image": "localhost/thing:1.0.0" } ]);
        let container =
            csv.pointer_mut("/spec/install/spec/deployments/0/spec/template/spec/containers/0").unwrap();
        container["env"] = json!([{ "name": "RELATED_IMAGE_SERVER", "value": "localhost/server@sha256:00" }]);
        let pod = csv.pointer_mut("/spec/install/spec/deployments/0/spec/template/spec").unwrap();
        pod["volumes"] = json!([{ "name": "files", "image": { "reference": "localhost/files:1" } }]);
    });
    let plan = Case::of(bundle, None, "1.0.0").plan();
    let list: Vec<(&str, bool, usize, bool)> =
        plan.images.iter().map(|i| (i.image.as_str(), i.runs, i.named_by.len(), i.note.is_some())).collect();
    assert_eq!(
        list,
        [
            ("localhost/files:1", true, 1, true),
            ("localhost/thing:1.0.0", true, 2, true),
            ("localhost/server@sha256:00", false, 2, false)
        ]
    );
    assert_eq!(plan.images[0].named_by, ["Deployment thing, volume files"]);
    assert_eq!(plan.images[1].named_by, ["Deployment thing, container thing", "relatedImages thing"]);
    assert_eq!(
        plan.images[2].named_by,
        ["Deployment thing, container thing, variable RELATED_IMAGE_SERVER", "relatedImages server"]
    );
}

#[test]
fn a_finding_about_an_object_names_it_for_programs() {
    let mut case = Case::install("1.0.0");
    let mut helm = crd(&["v1"]);
    helm["metadata"]["annotations"] =
        json!({ "meta.helm.sh/release-name": "thing", "meta.helm.sh/release-namespace": "x" });
    case.insert(helm);
    let plan = case.plan();
    let finding = plan.findings.iter().find(|f| f.code == FindingCode::CrdOwnedByOther).unwrap();
    assert_eq!(finding.object.as_deref(), Some("CustomResourceDefinition/things.example.com"));
}
