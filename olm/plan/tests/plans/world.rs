//! A cluster with one namespace, and plans over it.

use std::collections::BTreeSet;

use olm_api::subscription::Approval;
use olm_bundle::{Bundle, RenderError, RenderOptions, Rendered, render};
use olm_plan::{
    ClusterFacts, FindingCode, Live, ObjectRef, Plan, PlanInput, claim, make_plan, operator_group_of, reads,
};
use olm_resolver::{Action, CatalogRef, ChosenBundle, Hop, HopVia, InstalledRef, Resolved, Version};
use serde_json::{Value, json};

pub fn crd(versions: &[&str]) -> Value {
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

pub fn csv(version: &str, change: impl FnOnce(&mut Value)) -> Value {
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

pub fn bundle(version: &str, objects: Vec<Value>, change: impl FnOnce(&mut Value)) -> Bundle {
    let mut all = vec![csv(version, change), crd(&["v1"])];
    if objects.iter().any(|o| o["kind"] == "CustomResourceDefinition") {
        all.pop();
    }
    all.extend(objects);
    Bundle::from_objects(all).unwrap()
}

pub fn resolved(from: Option<&str>, to: &str) -> Resolved {
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
        why: "highest installable version in channel stable".into(),
        rejected: vec![],
        dependencies: vec![],
        deprecations: vec![],
    }
}

/// A cluster with one namespace, and the input of a plan.
pub struct Case {
    pub bundle: Bundle,
    pub rendered: Result<Rendered, RenderError>,
    pub previous: Option<Rendered>,
    pub resolved: Resolved,
    pub groups: Vec<Value>,
    pub targets: Vec<String>,
    pub facts: ClusterFacts,
    pub approval: Approval,
    pub live: Live,
}

pub fn group(name: &str, targets: &[&str]) -> Value {
    json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": { "name": name, "namespace": "ns" }, "spec": { "targetNamespaces": targets } })
}

pub fn rendered(bundle: &Bundle, groups: &[Value], targets: &[String]) -> Result<Rendered, RenderError> {
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
    pub fn install(version: &str) -> Self {
        Self::of(bundle(version, vec![], |_| {}), None, version)
    }

    pub fn of(bundle: Bundle, from: Option<&str>, to: &str) -> Self {
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
        case.insert(namespace);
        case
    }

    /// The cluster after this case was applied, and the next version.
    pub fn upgrade(self, to: &str, bundle: Bundle) -> Self {
        let from = self.resolved.chosen.version_text();
        let mut next = Self::of(bundle, Some(&from), to);
        next.live = self.applied();
        next.previous = self.rendered.ok();
        next
    }

    pub fn insert(&mut self, object: Value) {
        self.live.insert(ObjectRef::of(&object).unwrap(), object);
    }

    pub fn input(&self) -> PlanInput<'_> {
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

    pub fn plan(&self) -> Plan {
        let input = self.input();
        // the snapshot has exactly the objects of `reads`
        let asked: BTreeSet<ObjectRef> = reads(&input).into_iter().collect();
        let live: Live = self
            .live
            .iter()
            .filter(|(r, _)| asked.contains(*r))
            .map(|(r, v)| (r.clone(), v.clone()))
            .collect();
        let plan = make_plan(&input, &live);
        // it is the same where the objects were claimed in advance
        let mut claimed = self.rendered.clone();
        if let Ok(rendered) = &mut claimed {
            claim(rendered, &self.resolved, "ns");
        }
        let same = make_plan(&PlanInput { rendered: claimed.as_ref(), ..input }, &live);
        assert_eq!(serde_json::to_value(&same).unwrap(), serde_json::to_value(&plan).unwrap());
        assert_eq!(same.phases(), plan.phases());
        plan
    }

    /// The cluster after the plan.
    pub fn applied(&self) -> Live {
        let mut live = self.live.clone();
        let plan = self.plan();
        for phase in plan.phases() {
            for (_, reference, mut manifest) in phase.objects {
                // fields set by an API server
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

pub fn ops(plan: &Plan) -> Vec<String> {
    plan.objects.iter().map(|o| format!("{} {} {}", o.op.as_str(), o.reference.kind, o.name)).collect()
}

/// The codes of a plan, but not that of new permissions: the bundle of these tests reads all Secrets.
pub fn codes(plan: &Plan) -> Vec<FindingCode> {
    plan.findings.iter().map(|f| f.code).filter(|code| *code != FindingCode::HighRightsAdded).collect()
}
