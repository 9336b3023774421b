//! Plans over snapshots: what they show, what they apply, what stands in their way.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use olm_api::subscription::{Approval, CrdPolicy, DeletionPolicy, OperandPolicy};
use olm_bundle::{Bundle, Phase, RenderError, RenderOptions, Rendered, render};
use olm_plan::{
    ClusterFacts, FINDING_CODES, FindingCode, Level, Live, ObjectRef, Op, Operand, Plan, PlanAction,
    PlanInput, Severity, UninstallInput, make_plan, make_uninstall_plan, operator_group_of, reads,
    uninstall_reads,
};
use olm_resolver::{Action, CatalogRef, ChosenBundle, Gvk, Hop, HopVia, InstalledRef, Resolved, Version};
use serde_json::{Value, json};

fn crd(versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(i, name)| {
            json!({ "name": name, "served": true, "storage": i == 0,
                    "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced",
                  "names": { "kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing" },
                  "versions": versions }
    })
}

fn csv(version: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": { "name": format!("thing.v{version}"), "annotations": { "capabilities": "Basic Install" } },
        "spec": {
            "displayName": "Thing", "version": version,
            "installModes": [
                { "type": "OwnNamespace", "supported": true }, { "type": "SingleNamespace", "supported": true },
                { "type": "MultiNamespace", "supported": false }, { "type": "AllNamespaces", "supported": true } ],
            "customresourcedefinitions": { "owned": [
                { "name": "things.example.com", "version": "v1", "kind": "Thing" } ] },
            "install": { "strategy": "deployment", "spec": {
                "clusterPermissions": [ { "serviceAccountName": "thing", "rules": [
                    { "apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get", "list", "watch"] },
                    { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] } ] } ],
                "deployments": [ { "name": "thing", "spec": {
                    "replicas": 1, "selector": { "matchLabels": { "app": "thing" } },
                    "template": { "metadata": { "labels": { "app": "thing" } }, "spec": {
                        "serviceAccountName": "thing",
                        "containers": [ { "name": "thing", "image": format!("localhost/thing:{version}") } ] } } } } ] } }
        }
    });
    change(&mut csv);
    csv
}

fn bundle(version: &str, objects: Vec<Value>, change: impl FnOnce(&mut Value)) -> Bundle {
    let mut all = vec![csv(version, change), crd(&["v1"])];
    if objects.iter().any(|o| o["kind"] == "CustomResourceDefinition") {
        all.pop();
    }
    all.extend(objects);
    Bundle::from_objects(all).unwrap()
}

fn resolved(from: Option<&str>, to: &str) -> Resolved {
    let version = Version::parse(to).unwrap();
    Resolved {
        subscription: "ns/thing".into(),
        action: if from.is_some() { Action::Upgrade } else { Action::Install },
        chosen: ChosenBundle {
            catalog: CatalogRef::new("olm", "catalog"),
            package: "thing".into(),
            channel: "stable".into(),
            name: format!("thing.v{to}"),
            version: Some(version.clone()),
        },
        from: from.map(|v| InstalledRef { name: format!("thing.v{v}"), version: Version::parse(v).ok() }),
        path: vec![Hop {
            name: format!("thing.v{to}"),
            version: Some(version),
            channel: "stable".into(),
            via: HopVia::Install,
        }],
        why: "first in the order of channel stable".into(),
        rejected: vec![],
        dependencies: vec![],
        deprecations: vec![],
    }
}

/// A cluster with one namespace, and what a plan is made from.
struct Case {
    bundle: Bundle,
    rendered: Result<Rendered, RenderError>,
    previous: Option<Rendered>,
    resolved: Resolved,
    groups: Vec<Value>,
    targets: Vec<String>,
    facts: ClusterFacts,
    approval: Approval,
    live: Live,
}

fn group(name: &str, targets: &[&str]) -> Value {
    json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": { "name": name, "namespace": "ns" }, "spec": { "targetNamespaces": targets } })
}

fn rendered(bundle: &Bundle, groups: &[Value], targets: &[String]) -> Result<Rendered, RenderError> {
    let (name, targets) = operator_group_of(groups, targets);
    let options = RenderOptions {
        install_namespace: "ns".into(),
        target_namespaces: targets,
        operator_group: Some(name),
        subscription_config: None,
    };
    render(bundle, &options)
}

impl Case {
    fn install(version: &str) -> Self {
        Self::of(bundle(version, vec![], |_| {}), None, version)
    }

    fn of(bundle: Bundle, from: Option<&str>, to: &str) -> Self {
        let groups = vec![group("og", &["ns"])];
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "ns" } });
        let mut case = Self {
            rendered: rendered(&bundle, &groups, &[]),
            bundle,
            previous: None,
            resolved: resolved(from, to),
            groups,
            targets: vec![],
            facts: ClusterFacts::default(),
            approval: Approval::Automatic,
            live: Live::new(),
        };
        case.put(namespace);
        case
    }

    /// The cluster after this case was applied, and the next version.
    fn upgrade(self, to: &str, bundle: Bundle) -> Self {
        let from = self.resolved.chosen.version_text();
        let mut next = Self::of(bundle, Some(&from), to);
        next.live = self.applied();
        next.previous = self.rendered.ok();
        next
    }

    fn put(&mut self, object: Value) {
        self.live.insert(ObjectRef::of(&object).unwrap(), object);
    }

    fn input(&self) -> PlanInput<'_> {
        PlanInput {
            namespace: "ns",
            subscription: "thing",
            approval: self.approval,
            resolved: &self.resolved,
            catalog_digest: "sha256:c",
            bundle: &self.bundle,
            rendered: self.rendered.as_ref(),
            previous: self.previous.as_ref(),
            operator_groups: &self.groups,
            target_namespaces: &self.targets,
            facts: &self.facts,
        }
    }

    fn plan(&self) -> Plan {
        let input = self.input();
        // the snapshot holds what `reads` asks for and nothing else
        let asked: BTreeSet<ObjectRef> = reads(&input).into_iter().collect();
        let live: Live = self
            .live
            .iter()
            .filter(|(r, _)| asked.contains(*r))
            .map(|(r, v)| (r.clone(), v.clone()))
            .collect();
        make_plan(&input, &live)
    }

    /// What is on the cluster after the plan.
    fn applied(&self) -> Live {
        let mut live = self.live.clone();
        let plan = self.plan();
        for phase in plan.phases() {
            for (_, reference, mut manifest) in phase.objects {
                // what an API server adds
                manifest["metadata"]["uid"] = json!("1");
                manifest["metadata"]["resourceVersion"] = json!("1");
                if reference.kind == "CustomResourceDefinition" {
                    let stored: Vec<Value> = manifest["spec"]["versions"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|v| v["name"].clone())
                        .collect();
                    manifest["status"]["storedVersions"] = json!(stored);
                }
                live.insert(reference, manifest);
            }
        }
        for reference in plan.deletions() {
            live.remove(&reference);
        }
        live
    }
}

fn ops(plan: &Plan) -> Vec<String> {
    plan.objects.iter().map(|o| format!("{} {} {}", o.op.as_str(), o.reference.kind, o.name)).collect()
}

fn codes(plan: &Plan) -> Vec<FindingCode> {
    plan.findings.iter().map(|f| f.code).collect()
}

#[test]
fn an_install_creates_everything_in_phases_and_shows_what_it_applies() {
    let case = Case::install("1.0.0");
    let plan = case.plan();
    assert_eq!(plan.action, PlanAction::Install);
    assert!(plan.objects.iter().all(|o| o.op == Op::Create), "{:?}", ops(&plan));
    // what is shown is what is applied
    let applied: Vec<ObjectRef> =
        plan.phases().into_iter().flat_map(|p| p.objects.into_iter().map(|(_, r, _)| r)).collect();
    let shown: Vec<ObjectRef> = plan.objects.iter().map(|o| o.reference.clone()).collect();
    assert_eq!(applied, shown);
    let phases: Vec<Phase> = plan.phases().iter().map(|p| p.phase).collect();
    assert_eq!(phases, [Phase::Prerequisites, Phase::Crds, Phase::Rbac, Phase::Workloads]);
    // the ClusterServiceVersion comes first and carries what its pods inherit
    let csv = &plan.phases()[0].objects[0].2;
    assert_eq!(csv["kind"], "ClusterServiceVersion");
    assert_eq!(csv["metadata"]["namespace"], "ns");
    assert_eq!(csv["metadata"]["annotations"]["olm.targetNamespaces"], "ns");
    assert_eq!(csv["metadata"]["annotations"]["olm.operatorGroup"], "og");
    assert_eq!(csv["metadata"]["annotations"]["capabilities"], "Basic Install");
    assert_eq!(csv["metadata"]["labels"]["operators.coreos.com/thing.ns"], "");
    assert_eq!(plan.permissions.summary[&Level::Med], 1);
    assert!(plan.findings.is_empty(), "{:?}", plan.findings);
    assert!(!plan.requires_approval && !plan.is_blocked());
}

#[test]
fn applying_twice_changes_nothing() {
    let mut case = Case::install("1.0.0");
    let first = case.plan();
    case.live = case.applied();
    let second = case.plan();
    assert!(second.objects.iter().all(|o| o.op == Op::Unchanged), "{:#?}", second.objects);
    // and what was approved before is the same plan afterwards
    assert_eq!(first.digest, second.digest);
}

#[test]
fn a_change_by_hand_is_shown_and_put_back() {
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
    // then the old ConfigMap and the old version go, the CRD stays
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
    // and the one new right is all that is new
    let added: Vec<&str> = plan.permissions.added.iter().map(|r| r.rule.as_str()).collect();
    assert_eq!((added, plan.permissions.added[0].level), (vec!["patch nodes"], Level::High));
    assert!(plan.requires_approval);
    assert!(plan.reversible.possible);
    // after it nothing is left to do
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
    // nor does a namespace that is still to be made
    other.live.clear();
    assert_eq!(digest(&other), base);
    // nor who approves
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
    assert!(plan.findings.iter().all(|f| f.severity == Severity::Info));
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
fn webhooks_and_broken_bundles_block() {
    let mut case = Case::of(
        bundle("1.0.0", vec![], |csv| {
            csv["spec"]["webhookdefinitions"] = json!([{ "type": "ValidatingAdmissionWebhook", "generateName": "v.example.com",
                "deploymentName": "thing", "sideEffects": "None", "admissionReviewVersions": ["v1"] }]);
        }),
        None,
        "1.0.0",
    );
    if case.rendered.is_err() {
        assert_eq!(codes(&case.plan()), [FindingCode::WebhooksUnsupported]);
    }
    case = Case::install("1.0.0");
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
    // a vendor's suffix is no older version
    case.facts.kubernetes = Version::parse("1.40.0-rc.1").ok();
    assert_eq!(codes(&case.plan()), []);
}

#[test]
fn crds_of_others_and_stored_versions_block() {
    // nobody's CRD is taken over
    let mut case = Case::install("1.0.0");
    case.put(crd(&["v1"]));
    let plan = case.plan();
    assert_eq!(codes(&plan), []);
    assert!(plan.objects.iter().any(|o| o.op == Op::Adopt && o.reference.kind == "CustomResourceDefinition"));
    // one of a Helm release is not
    let mut helm = crd(&["v1"]);
    helm["metadata"]["annotations"] =
        json!({ "meta.helm.sh/release-name": "thing", "meta.helm.sh/release-namespace": "x" });
    case.put(helm);
    let plan = case.plan();
    assert_eq!(codes(&plan), [FindingCode::CrdOwnedByOther]);
    assert!(plan.findings[0].text.contains("Helm release thing"), "{:?}", plan.findings);
    // nor one of another package
    let mut other = crd(&["v1"]);
    other["metadata"]["labels"] = json!({ "operators.coreos.com/other.elsewhere": "" });
    case.put(other);
    assert_eq!(codes(&case.plan()), [FindingCode::CrdOwnedByOther]);
    // the same package in another namespace shares it, and keeps its label
    let mut shared = crd(&["v1"]);
    shared["metadata"]["labels"] = json!({ "operators.coreos.com/thing.elsewhere": "" });
    case.put(shared);
    let plan = case.plan();
    assert_eq!(codes(&plan), []);
    let phases = plan.phases();
    let manifest = &phases.iter().find(|p| p.phase == Phase::Crds).unwrap().objects[0].2;
    assert_eq!(
        manifest["metadata"]["labels"].as_object().unwrap().keys().filter(|k| k.contains("thing.")).count(),
        2,
        "{manifest}"
    );
    // a version that objects are stored in must stay
    let mut old = crd(&["v1alpha1"]);
    old["status"] = json!({ "storedVersions": ["v1alpha1"] });
    case.put(old);
    let plan = case.plan();
    assert_eq!(codes(&plan), [FindingCode::CrdStoredVersionRemoved]);
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
    assert_eq!(codes(&plan), [FindingCode::DeprecatedBundle, FindingCode::RequiredApiMissing]);
    assert!(!plan.is_blocked());
    case.facts.apis = vec![Gvk::new("example.org", "v1", "Cert")];
    assert_eq!(codes(&case.plan()), [FindingCode::DeprecatedBundle]);
}

#[test]
fn the_json_is_the_one_schema_and_holds_no_secret() {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "stringData": { "password": "hunter2" } });
    let mut case = Case::of(bundle("1.0.0", vec![secret], |_| {}), None, "1.0.0");
    let mut live =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": "ns" } });
    live["data"] = json!({ "password": "b2xk" });
    case.put(live);
    let plan = case.plan();
    let text = serde_json::to_string_pretty(&plan).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("b2xk") && !text.contains("aHVudGVyMg"), "{text}");
    assert!(plan.objects.iter().any(|o| o.masked));
    let value: Value = serde_json::from_str(&text).unwrap();
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    insta::assert_snapshot!(keys.join(" "), @"action apiVersion bundle catalogDigest channel dependencies digest findings namespace objects package path permissions requiresApproval reversible subscription to why");
    assert_eq!(value["apiVersion"], "plan.olm/v1");
    // it can be read back, without what is to be applied
    let back: Plan = serde_json::from_str(&text).unwrap();
    assert!(back.phases().is_empty());
    assert_eq!(back.digest, plan.digest);
}

// ---- uninstall ----

fn uninstall(case: &Case, policy: DeletionPolicy, operands: &[Operand]) -> Plan {
    let mut live = case.applied();
    let subscription = json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
                               "metadata": { "name": "thing", "namespace": "ns" } });
    live.insert(ObjectRef::of(&subscription).unwrap(), subscription);
    let csv = live.iter().find(|(r, _)| r.kind == "ClusterServiceVersion").map(|(_, v)| v.clone());
    let input = UninstallInput {
        namespace: "ns",
        subscription: "thing",
        package: "thing",
        csv: csv.as_ref(),
        rendered: case.rendered.as_ref().ok(),
        operands,
        policy,
    };
    let asked: BTreeSet<ObjectRef> = uninstall_reads(&input).into_iter().collect();
    live.retain(|r, _| asked.contains(r));
    make_uninstall_plan(&input, &live)
}

fn operand(count: Option<usize>) -> Operand {
    Operand {
        gvk: Gvk::new("example.com", "v1", "Thing"),
        crd: "things.example.com".into(),
        count,
        examples: vec![],
    }
}

#[test]
fn an_uninstall_keeps_crds_and_stops_at_operands() {
    let case = Case::install("1.0.0");
    let plan = uninstall(&case, DeletionPolicy::default(), &[operand(Some(0))]);
    let list = ops(&plan);
    assert_eq!(list[0], "delete Subscription thing");
    assert_eq!(list[1], "delete Deployment thing");
    assert_eq!(list.last().unwrap(), "noop CustomResourceDefinition things.example.com");
    assert!(list.contains(&"delete ClusterServiceVersion thing.v1.0.0".to_owned()), "{list:?}");
    assert!(!plan.is_blocked());
    assert_eq!(plan.permissions.added, vec![]);
    assert!(!plan.permissions.removed.is_empty());
    // operands stop it, unless the policy says otherwise
    let plan = uninstall(&case, DeletionPolicy::default(), &[operand(Some(3))]);
    assert!(plan.is_blocked());
    assert_eq!(codes(&plan), [FindingCode::OperandsPresent]);
    let orphan = DeletionPolicy { operands: OperandPolicy::Orphan, crds: CrdPolicy::Keep };
    assert!(!uninstall(&case, orphan, &[operand(Some(3))]).is_blocked());
}

#[test]
fn deleting_crds_takes_their_objects_and_wants_to_know_them() {
    let case = Case::install("1.0.0");
    let policy = DeletionPolicy { operands: OperandPolicy::Delete, crds: CrdPolicy::Delete };
    let plan = uninstall(&case, policy, &[operand(Some(3))]);
    assert_eq!(ops(&plan).last().unwrap(), "delete CustomResourceDefinition things.example.com");
    assert!(!plan.is_blocked() && !plan.reversible.possible);
    assert!(uninstall(&case, policy, &[operand(None)]).is_blocked());
}

// ---- pages ----

#[test]
fn every_finding_has_a_page_with_cause_and_fix() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings");
    for code in FINDING_CODES {
        let page = std::fs::read_to_string(format!("{folder}/{code}.md"))
            .unwrap_or_else(|e| panic!("{code}.md: {e}"));
        assert!(page.starts_with(&format!("# {code}\n")), "{code}.md has another title");
        assert!(page.contains("\n## Cause\n") && page.contains("\n## Fix\n"), "{code}.md lacks cause or fix");
    }
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = FINDING_CODES.iter().any(|code| name == format!("{code}.md"));
        assert!(known, "{name} is a page without a code");
    }
}

/// Every real bundle that renders: planned on an empty cluster, applied, and planned again.
#[test]
fn real_bundles_plan_to_a_fixed_point() {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let root = std::env::var("OLM_SHARED_DATA").unwrap_or_else(|_| default.to_owned());
    let root = std::path::Path::new(&root).join("bundles/operators");
    if !root.exists() {
        println!("skipped: {} is not there (OLM_SHARED_DATA names the folder)", root.display());
        return;
    }
    let mut count = 0;
    for package in std::fs::read_dir(&root).unwrap() {
        let mut versions: Vec<_> = std::fs::read_dir(package.unwrap().path())
            .unwrap()
            .map(|v| v.unwrap().path())
            .filter(|v| v.is_dir())
            .collect();
        versions.sort();
        // one of each package is enough here
        let Some(Ok(bundle)) = versions.last().map(|v| Bundle::from_dir(v)) else { continue };
        let mut case = Case::install("1.0.0");
        case.bundle = bundle;
        case.groups = vec![group("og", &[])];
        case.rendered = rendered(&case.bundle, &case.groups, &[]);
        case.resolved.chosen.name = case.bundle.name().to_owned();
        if case.rendered.is_err() {
            assert!(case.plan().is_blocked());
            continue;
        }
        let first = case.plan();
        case.live = case.applied();
        let second = case.plan();
        let changed: Vec<_> = second.objects.iter().filter(|o| o.op != Op::Unchanged).collect();
        assert!(changed.is_empty(), "{}: {changed:#?}", case.bundle.name());
        assert_eq!(first.digest, second.digest);
        count += 1;
    }
    println!("{count} real bundles planned");
    assert!(count > 5);
}
