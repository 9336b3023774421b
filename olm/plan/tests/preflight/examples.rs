//! One example of each code.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use olm_api::{InstallPolicy, subscription::DeletionPolicy};
use olm_bundle::RenderError;
use olm_plan::{
    Fact, Finding, FindingCode, Identity, ImageRole, ImageSignature, Operand, Policies, SignatureVerdict,
    UninstallInput, make_uninstall_plan,
};
use olm_resolver::{ChosenBundle, Dependency, Gvk, Need, SatisfiedBy, Version};
use serde_json::{Value, json};

use crate::world::{World, allow, config, crd, manager, namespace, pod, principal};
use crate::{around, crds, objects, rights};

type Example = fn() -> Vec<Finding>;

/// An operator that may patch nodes, in a namespace with a policy.
pub(crate) fn held_to(spec: Value) -> World {
    let mut world = World::install(vec![], |csv| {
        allow(csv, json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"] }));
    });
    let policy = InstallPolicy::new("dev", serde_json::from_value(spec).unwrap());
    world.facts.policies = Fact::Known(Policies::of([Arc::new(policy)], Some(&BTreeMap::new())));
    world
}

/// The same in a namespace with a policy that requires a signature of the operator's image.
fn with_signature(verdict: SignatureVerdict) -> World {
    let mut world = held_to(json!({ "signatures": [{ "images": ["quay.io/acme"], "anyOf": [] }] }));
    world.facts.signatures = vec![ImageSignature {
        image: "quay.io/acme/thing@sha256:0000".to_owned(),
        role: ImageRole::Operator,
        policy: "dev".to_owned(),
        rule: "spec.signatures[0]".to_owned(),
        verdict,
    }];
    world
}

pub(crate) const EXAMPLES: &[(FindingCode, Example)] = &[
    (FindingCode::UnsupportedInstallMode, || {
        let mut world = World::install(vec![], |_| {});
        world.watch(&["a", "b"]);
        world.findings()
    }),
    (FindingCode::InstallModeRemoved, || install_mode_removed().findings()),
    (FindingCode::KubernetesTooOld, || {
        World::install(vec![], |csv| csv["spec"]["minKubeVersion"] = json!("1.40")).findings()
    }),
    (FindingCode::BundleNotRenderable, || {
        let mut world = World::install(vec![], |_| {});
        world.broken = Some(RenderError::Invalid {
            bundle: "thing.v1.0.0".into(),
            field: "spec.install.spec.deployments[0]".into(),
            text: "it has no spec".into(),
        });
        world.findings()
    }),
    (FindingCode::TooManyOperatorGroups, || {
        let mut world = World::install(vec![], |_| {});
        let mut second = world.groups[0].clone();
        second["metadata"]["name"] = json!("og2");
        world.groups.push(second);
        world.findings()
    }),
    (FindingCode::DependencyMissing, || {
        let mut world = World::install(vec![], |_| {});
        let bundle = ChosenBundle {
            name: "certs.v1.0.0".into(),
            package: "certs".into(),
            ..world.resolved.chosen.clone()
        };
        world.resolved.dependencies = vec![Dependency {
            need: Need::Api(Gvk::new("example.org", "v1", "Cert")),
            required_by: "thing.v1.0.0".into(),
            satisfied_by: SatisfiedBy::Install(bundle),
        }];
        world.findings()
    }),
    (FindingCode::ObjectTooLarge, || {
        let long = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "book" },
                           "data": { "text": "x".repeat(900_001) } });
        World::install(vec![long], |_| {}).findings()
    }),
    (FindingCode::UserLacksRights, || {
        let mut world = World::install(vec![], |_| {});
        world.facts.user = principal(Identity::Caller, vec![]);
        world.findings()
    }),
    (FindingCode::InstallerLacksRights, || {
        let mut world = World::install(vec![config("1")], |_| {});
        world.facts.installer = principal(manager(), rights::all_but("", "configmaps"));
        world.findings()
    }),
    (FindingCode::InstallerCannotGrant, || {
        let mut world = World::install(vec![], |csv| {
            allow(csv, json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"] }));
        });
        world.facts.installer = principal(manager(), rights::all_but_granting());
        world.findings()
    }),
    (FindingCode::ApproverLacksRights, || {
        let mut world = World::install(vec![], |csv| {
            allow(csv, json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"] }));
        });
        world.facts.user = principal(Identity::Caller, rights::all_but_granting());
        world.findings()
    }),
    (FindingCode::PolicyDenies, || {
        held_to(
            json!({ "deny": { "rights": [{ "verbs": ["*"], "apiGroups": [""], "resources": ["nodes"] }] } }),
        )
        .findings()
    }),
    (FindingCode::ImageNotSigned, || {
        let hint = Some("sign the image with `cosign sign IMAGE@DIGEST`".to_owned());
        let message = "not signed: no signature found".to_owned();
        with_signature(SignatureVerdict::NotSigned { reason: "NotSigned".to_owned(), message, hint })
            .findings()
    }),
    (FindingCode::SignatureUnknown, || {
        let message = "the registry did not respond within 15 s".to_owned();
        with_signature(SignatureVerdict::Unknown { message }).findings()
    }),
    (FindingCode::SecondApproverNeeded, || held_to(json!({ "approvals": { "high": 2 } })).findings()),
    (FindingCode::ReservedObject, || objects::owning("installplans", "operators.coreos.com").findings()),
    (FindingCode::CrdOwnedByOther, || {
        let mut world = World::install(vec![], |_| {});
        let mut helm = crd();
        helm["metadata"]["annotations"] =
            json!({ "meta.helm.sh/release-name": "thing", "meta.helm.sh/release-namespace": "x" });
        world.insert(helm);
        world.findings()
    }),
    (FindingCode::CrdStoredVersionRemoved, || {
        let mut world = World::install(vec![], |_| {});
        let mut old = crd();
        old["spec"]["versions"][0]["name"] = json!("v1alpha1");
        old["spec"]["versions"][0]["deprecated"] = json!(true);
        old["status"] = json!({ "storedVersions": ["v1alpha1"] });
        world.insert(old);
        world.findings()
    }),
    (FindingCode::CrdScopeChanged, || {
        let mut world = World::install(vec![], |_| {});
        let mut old = crd();
        old["spec"]["scope"] = json!("Cluster");
        world.insert(old);
        world.findings()
    }),
    (FindingCode::CrdBreakingChange, || {
        let mut world = crds::narrowed();
        world.facts.custom_objects = crds::things(vec![crds::thing("main", json!({ "size": 9 }))]);
        world.findings()
    }),
    (FindingCode::CrdObjectsInvalid, || {
        let mut world = crds::narrowed();
        world.facts.custom_objects = crds::things(vec![crds::thing("main", json!({ "size": 9 }))]);
        world.findings()
    }),
    (FindingCode::CrdConversionUnsupported, || {
        let mut new = crd();
        new["spec"]["conversion"] = json!({ "strategy": "Webhook" });
        World::install(vec![new], |_| {}).findings()
    }),
    (FindingCode::NameCollision, || {
        let mut world = World::install(vec![], |_| {});
        world.insert(objects::deployment(json!({ "annotations": {
            "meta.helm.sh/release-name": "metrics", "meta.helm.sh/release-namespace": "ns" } })));
        world.findings()
    }),
    (FindingCode::ImmutableField, || {
        World::install(vec![], |_| {}).upgrade("1.0.1", vec![], objects::other_selector).findings()
    }),
    (FindingCode::PodSecurityViolation, || {
        let mut world = World::install(vec![], |csv| drop(pod(csv)["securityContext"].take()));
        world.insert(namespace(json!({ "pod-security.kubernetes.io/enforce": "restricted" })));
        world.findings()
    }),
    (FindingCode::QuotaExceeded, || {
        let mut world = World::install(vec![], |_| {});
        world.facts.quotas = Fact::Known(vec![around::quota(
            json!({ "pods": "10", "limits.memory": "2Gi" }),
            json!({ "pods": "10", "limits.memory": "1984Mi" }),
        )]);
        world.findings()
    }),
    (FindingCode::PriorityClassMissing, || {
        let mut world = World::install(vec![], |csv| pod(csv)["priorityClassName"] = json!("important"));
        world.facts.priority_classes = [("important".to_owned(), Fact::Known(false))].into();
        world.findings()
    }),
    (FindingCode::WebhookUnavailable, || around::webhook(json!({})).findings()),
    (FindingCode::RollbackImpossible, || {
        let mut world = World::install(vec![], |_| {}).upgrade("0.9.0", vec![], |_| {});
        let mut newer = crd();
        newer["status"] = json!({ "storedVersions": ["v1", "v2"] });
        newer["metadata"]["labels"] = json!({ "operators.coreos.com/thing.ns": "" });
        world.insert(newer);
        world.findings()
    }),
    (FindingCode::OperandsPresent, operands_present),
    (FindingCode::CrdRemoved, || {
        let mut world = crds::given_up();
        world.facts.custom_objects =
            [("backups.example.com".to_owned(), crds::known(vec![crds::thing("daily", json!({}))]))].into();
        world.findings()
    }),
    (FindingCode::CrdFieldsPruned, || {
        let mut world = crds::without_mode();
        world.facts.custom_objects = crds::things(vec![crds::thing("main", json!({ "mode": "old" }))]);
        world.findings()
    }),
    (FindingCode::HighRightsAdded, || rights::patching_nodes().plan().findings),
    (FindingCode::NamespaceTrap, || around::trap(json!({ "kind": "Group", "name": "dev" })).findings()),
    (FindingCode::RequiredApiMissing, || {
        World::install(vec![], |csv| {
            csv["spec"]["customresourcedefinitions"]["required"] =
                json!([{ "name": "certs.example.org", "version": "v1", "kind": "Cert" }]);
        })
        .findings()
    }),
    (FindingCode::ImageNotPullable, || {
        let mut world = World::install(vec![], |_| {});
        world.facts.images_on_nodes = [("localhost/thing:1.0.0".to_owned(), Fact::Known(false))].into();
        world.findings()
    }),
    (FindingCode::DeprecatedPackage, || deprecated("olm.package/thing: not maintained any more")),
    (FindingCode::DeprecatedChannel, || deprecated("olm.channel/stable: use fast")),
    (FindingCode::DeprecatedBundle, || deprecated("olm.bundle/thing.v1.0.0: it loses data")),
    (FindingCode::NamespaceMissing, || {
        let mut world = World::install(vec![], |_| {});
        world.live.clear();
        world.findings()
    }),
    (FindingCode::NoOperatorGroup, || {
        let mut world = World::install(vec![], |_| {});
        world.groups.clear();
        world.findings()
    }),
    (FindingCode::NotChecked, || {
        let mut world = World::install(vec![], |_| {});
        world.facts.quotas = Fact::Unknown("no right to list resourcequotas in namespace ns".into());
        world.findings()
    }),
];

fn deprecated(text: &str) -> Vec<Finding> {
    let mut world = World::install(vec![], |_| {});
    world.resolved.deprecations = vec![text.to_owned()];
    world.findings()
}

/// The next version watches all namespaces or none.
pub(crate) fn install_mode_removed() -> World {
    let mut world = World::install(vec![], |_| {}).upgrade("2.0.0", vec![], |csv| {
        for mode in csv["spec"]["installModes"].as_array_mut().unwrap() {
            mode["supported"] = json!(mode["type"] == "AllNamespaces");
        }
    });
    world.watch(&["ns"]);
    world
}

fn operands_present() -> Vec<Finding> {
    let world = World::install(vec![], |_| {});
    let rendered = world.rendered().unwrap();
    let live = world.applied();
    let csv: Option<&Value> = live.iter().find(|(r, _)| r.kind == "ClusterServiceVersion").map(|(_, v)| v);
    let operand = Operand {
        gvk: Gvk::new("example.com", "v1", "Thing"),
        crd: "things.example.com".into(),
        count: Some(3),
        examples: vec!["ns/main".into()],
    };
    let input = UninstallInput {
        namespace: "ns",
        subscription: Some("thing"),
        package: "thing",
        csv,
        replaced: None,
        rendered: Some(&rendered),
        operands: &[operand],
        instances: &[],
        operator_group: None,
        dependencies: &[],
        leases: &[],
        unreadable: &BTreeSet::new(),
        policy: DeletionPolicy::default(),
    };
    make_uninstall_plan(&input, &live).findings
}

#[test]
fn an_older_kubernetes_is_detected_by_its_numbers_alone() {
    let mut world = World::install(vec![], |csv| csv["spec"]["minKubeVersion"] = json!("1.40"));
    // a vendor's suffix does not mean an older version
    world.facts.kubernetes = Version::parse("1.40.0-rc.1").ok();
    assert_eq!(world.findings(), []);
}

#[test]
fn a_rule_with_a_function_that_the_cluster_does_not_have_blocks_unless_it_is_stored() {
    let mut new = crd();
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
        json!([{ "rule": "[2, 1].sort()[0] == 1" }]);
    let mut world = World::install(vec![new.clone()], |_| {});
    let [found] = &world.findings()[..] else { panic!("{:?}", world.findings()) };
    assert_eq!(found.code, FindingCode::KubernetesTooOld);
    assert_eq!(
        found.text,
        "spec.versions[0].schema.openAPIV3Schema.x-kubernetes-validations[0].rule: sort needs Kubernetes 1.35; \
         this cluster runs 1.34.0"
    );
    world.facts.kubernetes = Version::parse("1.35.0").ok();
    assert_eq!(world.findings(), []);
    world.facts.kubernetes = Version::parse("1.34.0").ok();
    world.insert(new);
    let codes: Vec<_> = world.findings().iter().map(|finding| finding.code).collect();
    assert!(!codes.contains(&FindingCode::KubernetesTooOld), "{codes:?}");
}
