//! A cluster with one namespace, a bundle, and the plan that installs or upgrades it.

use std::collections::BTreeSet;

use olm_api::subscription::Approval;
use olm_bundle::{Bundle, RenderError, RenderOptions, Rendered, render};
use olm_plan::{
    Access, ClusterFacts, Fact, Finding, FindingCode, Identity, Live, ObjectRef, Plan, PlanInput, Principal,
    Rule, Severity, make_plan, operator_group_of, reads,
};
use olm_resolver::{Action, CatalogRef, ChosenBundle, InstalledRef, Resolved, Version};
use serde_json::{Value, json};

pub(crate) fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced",
                  "names": { "kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing" },
                  "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                      "type": "object", "properties": { "spec": { "type": "object", "properties": {
                          "size": { "type": "integer" }, "mode": { "type": "string" } } } } } } }] }
    })
}

/// A ClusterServiceVersion whose pods satisfy every standard and whose rights are harmless.
pub(crate) fn csv(version: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": { "name": format!("thing.v{version}") },
        "spec": {
            "displayName": "Thing", "version": version,
            "installModes": [
                { "type": "OwnNamespace", "supported": true }, { "type": "SingleNamespace", "supported": true },
                { "type": "MultiNamespace", "supported": false }, { "type": "AllNamespaces", "supported": true } ],
            "customresourcedefinitions": { "owned": [
                { "name": "things.example.com", "version": "v1", "kind": "Thing" } ] },
            "install": { "strategy": "deployment", "spec": {
                "clusterPermissions": [ { "serviceAccountName": "thing", "rules": [
                    { "apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get", "list", "watch"] } ] } ],
                "deployments": [ { "name": "thing", "spec": {
                    "replicas": 1, "selector": { "matchLabels": { "app": "thing" } },
                    "template": { "metadata": { "labels": { "app": "thing" } }, "spec": {
                        "serviceAccountName": "thing",
                        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
                        "containers": [ {
                            "name": "thing", "image": format!("localhost/thing:{version}"),
                            "resources": { "requests": { "cpu": "100m", "memory": "64Mi" }, "limits": { "cpu": "1", "memory": "128Mi" } },
                            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } }
                        } ] } } } } ] } }
        }
    })
}

const POD: &str = "/spec/install/spec/deployments/0/spec/template/spec";

pub(crate) fn pod(csv: &mut Value) -> &mut Value {
    csv.pointer_mut(POD).unwrap()
}

pub(crate) fn allow(csv: &mut Value, rule: Value) {
    let rules = csv.pointer_mut("/spec/install/spec/clusterPermissions/0/rules").unwrap();
    rules.as_array_mut().unwrap().push(rule);
}

pub(crate) fn config(data: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" }, "data": { "a": data } })
}

pub(crate) fn namespace(labels: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "ns", "labels": labels } })
}

pub(crate) fn everything() -> Vec<Rule> {
    vec![Rule::of(&json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }))]
}

pub(crate) fn manager() -> Identity {
    Identity::ServiceAccount { namespace: "olm".into(), name: "olm-manager".into() }
}

/// A principal with rights in the whole cluster, and no others.
pub(crate) fn principal(who: Identity, rules: Vec<Rule>) -> Fact<Principal> {
    let access = Access::unknown().with_cluster(rules.clone()).with_namespace("ns", rules);
    Fact::Known(Principal { who, access, exact: true })
}

pub(crate) struct World {
    pub(crate) bundle: Bundle,
    pub(crate) resolved: Resolved,
    pub(crate) previous: Option<Rendered>,
    pub(crate) groups: Vec<Value>,
    pub(crate) facts: ClusterFacts,
    pub(crate) live: Live,
    /// Replaces the rendering.
    pub(crate) broken: Option<RenderError>,
}

fn group(targets: &[&str]) -> Value {
    json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": { "name": "og", "namespace": "ns" }, "spec": { "targetNamespaces": targets } })
}

impl World {
    /// An empty namespace with all rights granted, and the first version of a bundle.
    pub(crate) fn install(objects: Vec<Value>, change: impl FnOnce(&mut Value)) -> Self {
        Self::of("1.0.0", objects, change)
    }

    fn of(version: &str, mut objects: Vec<Value>, change: impl FnOnce(&mut Value)) -> Self {
        let mut csv = csv(version);
        change(&mut csv);
        if !objects.iter().any(|o| o["kind"] == "CustomResourceDefinition") {
            objects.push(crd());
        }
        objects.push(csv);
        Self::from(Bundle::from_objects(objects).unwrap())
    }

    pub(crate) fn from(bundle: Bundle) -> Self {
        let chosen = ChosenBundle {
            catalog: CatalogRef::new("olm", "catalog"),
            package: "thing".into(),
            channel: "stable".into(),
            name: bundle.name().to_owned(),
            version: bundle.version(),
        };
        let mut world = Self {
            bundle,
            resolved: Resolved {
                subscription: "ns/thing".into(),
                action: Action::Install,
                chosen,
                from: None,
                path: vec![],
                why: String::new(),
                rejected: vec![],
                dependencies: vec![],
                deprecations: vec![],
            },
            previous: None,
            groups: vec![group(&["ns"])],
            facts: ClusterFacts {
                kubernetes: Version::parse("1.34.0").ok(),
                installer: principal(manager(), everything()),
                user: principal(Identity::Caller, everything()),
                role_bindings: Fact::Known(vec![]),
                quotas: Fact::Known(vec![]),
                webhooks: Fact::Known(vec![]),
                ..ClusterFacts::default()
            },
            live: Live::new(),
            broken: None,
        };
        world.insert(namespace(json!({ "kubernetes.io/metadata.name": "ns" })));
        world
    }

    /// The cluster after the first version was installed, and another version.
    pub(crate) fn upgrade(self, to: &str, objects: Vec<Value>, change: impl FnOnce(&mut Value)) -> Self {
        self.then(Self::of(to, objects, change))
    }

    /// The cluster after this version was installed, and the next one.
    pub(crate) fn then(self, mut next: Self) -> Self {
        next.live = self.applied();
        next.groups = self.groups.clone();
        next.resolved.action = Action::Upgrade;
        next.resolved.from =
            Some(InstalledRef { name: self.bundle.name().to_owned(), version: self.bundle.version() });
        next.previous = self.rendered().ok();
        next
    }

    pub(crate) fn insert(&mut self, object: Value) {
        self.live.insert(ObjectRef::of(&object).unwrap(), object);
    }

    pub(crate) fn watch(&mut self, targets: &[&str]) {
        self.groups = vec![group(targets)];
    }

    pub(crate) fn rendered(&self) -> Result<Rendered, RenderError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let (name, targets) = operator_group_of(&self.groups, &[]);
        let options = RenderOptions {
            install_namespace: "ns".into(),
            target_namespaces: targets,
            operator_group: Some(name),
            subscription_config: None,
        };
        render(&self.bundle, &options)
    }

    pub(crate) fn with_input<T>(&self, look: impl FnOnce(&PlanInput<'_>) -> T) -> T {
        let rendered = self.rendered();
        look(&PlanInput {
            namespace: "ns",
            subscription: "thing",
            approval: Approval::Automatic,
            resolved: &self.resolved,
            catalog_digest: "sha256:c",
            bundle: &self.bundle,
            rendered: rendered.as_ref(),
            previous: self.previous.as_ref(),
            operator_groups: &self.groups,
            target_namespaces: &[],
            facts: &self.facts,
        })
    }

    pub(crate) fn plan(&self) -> Plan {
        self.with_input(|input| {
            // the snapshot has exactly the objects of `reads`
            let asked: BTreeSet<ObjectRef> = reads(input).into_iter().collect();
            let live = self.live.iter().filter(|(r, _)| asked.contains(*r));
            make_plan(input, &live.map(|(r, v)| (r.clone(), v.clone())).collect())
        })
    }

    /// The findings of the plan, but not that of new permissions, which most bundles here do not mean to test.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut findings = self.plan().findings;
        findings.retain(|finding| finding.code != FindingCode::HighRightsAdded);
        findings
    }

    pub(crate) fn codes(&self) -> Vec<(FindingCode, Severity)> {
        self.findings().iter().map(|f| (f.code, f.severity)).collect()
    }

    pub(crate) fn only(&self) -> Finding {
        let findings = self.findings();
        assert_eq!(findings.len(), 1, "{findings:#?}");
        findings.into_iter().next().unwrap()
    }

    /// The cluster after the plan.
    pub(crate) fn applied(&self) -> Live {
        let mut live = self.live.clone();
        for phase in self.plan().phases() {
            for (_, reference, mut manifest) in phase.objects {
                if reference.kind == "CustomResourceDefinition" {
                    let versions = manifest["spec"]["versions"].as_array().unwrap().clone();
                    let stored: Vec<Value> = versions.iter().map(|v| v["name"].clone()).collect();
                    manifest["status"]["storedVersions"] = json!(stored);
                }
                live.insert(reference, manifest);
            }
        }
        live
    }
}
