//! Synthetic operators for scenarios: small bundles with all features of real ones.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// A CustomResourceDefinition whose versions accept anything below `spec`; the first one is stored.
#[must_use]
pub fn crd(plural: &str, group: &str, kind: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(at, name)| {
            json!({ "name": name, "served": true, "storage": at == 0, "schema": { "openAPIV3Schema": {
                "type": "object", "properties": { "spec": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } }
            } } })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": { "group": group, "scope": "Namespaced", "versions": versions,
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List") } },
    })
}

/// An operator in one version. Initially with one Deployment, a ServiceAccount and a right, and all install
/// modes.
#[derive(Debug, Clone)]
pub struct Operator {
    pub package: String,
    /// Name of the ClusterServiceVersion.
    pub name: String,
    csv: Value,
    version: String,
    objects: Vec<Value>,
    properties: Vec<Value>,
}

impl Operator {
    /// `<package>.v<version>`.
    #[must_use]
    pub fn new(package: &str, version: &str) -> Self {
        Self::named(package, version, &format!("{package}.v{version}"))
    }

    /// With another name.
    #[must_use]
    pub fn named(package: &str, version: &str, name: &str) -> Self {
        let mode = |kind: &str| json!({ "type": kind, "supported": true });
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": { "name": name, "annotations": {} },
            "spec": {
                "displayName": package, "version": version, "provider": { "name": "tests" },
                "installModes": [mode("OwnNamespace"), mode("SingleNamespace"), mode("MultiNamespace"), mode("AllNamespaces")],
                "customresourcedefinitions": { "owned": [], "required": [] },
                "install": { "strategy": "deployment", "spec": {
                    "permissions": [{ "serviceAccountName": package,
                        "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] }] }],
                    "clusterPermissions": [],
                    "deployments": [deployment(package, &format!("example.invalid/{package}:{version}"))],
                } },
            },
        });
        Self {
            package: package.into(),
            name: name.into(),
            csv,
            version: version.into(),
            objects: Vec::new(),
            properties: Vec::new(),
        }
    }

    /// Changes the ClusterServiceVersion.
    #[must_use]
    pub fn csv(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.csv);
        self
    }

    /// The image of its first Deployment.
    #[must_use]
    pub fn image(self, image: &str) -> Self {
        self.csv(|csv| csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["image"] = image.into())
    }

    /// One more Deployment.
    #[must_use]
    pub fn deployment(self, name: &str, image: &str) -> Self {
        let mut one = deployment(name, image);
        one["spec"]["template"]["spec"]["serviceAccountName"] = self.package.as_str().into();
        self.csv(|csv| push(csv, "/spec/install/spec/deployments", one))
    }

    /// The name of its first Deployment.
    #[must_use]
    pub fn deployment_name(self, name: &str) -> Self {
        self.csv(|csv| csv["spec"]["install"]["spec"]["deployments"][0]["name"] = name.into())
    }

    /// A right in the namespaces that it watches.
    #[must_use]
    pub fn permission(self, account: &str, rule: Value) -> Self {
        let one = json!({ "serviceAccountName": account, "rules": [rule] });
        self.csv(|csv| push(csv, "/spec/install/spec/permissions", one))
    }

    /// A right in the whole cluster.
    #[must_use]
    pub fn cluster_permission(self, account: &str, rule: Value) -> Self {
        let one = json!({ "serviceAccountName": account, "rules": [rule] });
        self.csv(|csv| push(csv, "/spec/install/spec/clusterPermissions", one))
    }

    /// Adds an owned CRD.
    #[must_use]
    pub fn owns(mut self, crd: Value) -> Self {
        let (group, kind) = (crd["spec"]["group"].clone(), crd["spec"]["names"]["kind"].clone());
        for version in
            crd["spec"]["versions"].as_array().into_iter().flatten().filter(|v| v["served"] != false)
        {
            let gvk = json!({ "group": group, "kind": kind, "version": version["name"] });
            self.properties.push(json!({ "type": "olm.gvk", "value": gvk }));
            let described =
                json!({ "name": crd["metadata"]["name"], "kind": kind, "version": version["name"] });
            push(&mut self.csv, "/spec/customresourcedefinitions/owned", described);
        }
        self.objects.push(crd);
        self
    }

    /// Adds a CRD that another operator must provide.
    #[must_use]
    pub fn needs(mut self, plural: &str, group: &str, kind: &str, version: &str) -> Self {
        let gvk = json!({ "group": group, "kind": kind, "version": version });
        self.properties.push(json!({ "type": "olm.gvk.required", "value": gvk }));
        let described = json!({ "name": format!("{plural}.{group}"), "kind": kind, "version": version });
        push(&mut self.csv, "/spec/customresourcedefinitions/required", described);
        self
    }

    /// Adds a required package.
    #[must_use]
    pub fn needs_package(mut self, package: &str, range: &str) -> Self {
        let value = json!({ "packageName": package, "versionRange": range });
        self.properties.push(json!({ "type": "olm.package.required", "value": value }));
        self
    }

    /// One more object of the bundle.
    #[must_use]
    pub fn object(mut self, object: Value) -> Self {
        self.objects.push(object);
        self
    }

    /// Adds a property.
    #[must_use]
    pub fn property(mut self, kind: &str, value: Value) -> Self {
        self.properties.push(json!({ "type": kind, "value": value }));
        self
    }

    /// The install modes that it supports; the others it does not.
    #[must_use]
    pub fn modes(self, supported: &[&str]) -> Self {
        self.csv(|csv| {
            for mode in csv["spec"]["installModes"].as_array_mut().into_iter().flatten() {
                mode["supported"] = supported.contains(&mode["type"].as_str().unwrap_or_default()).into();
            }
        })
    }

    /// A webhook behind its first Deployment.
    #[must_use]
    pub fn webhook(self, kind: &str, name: &str, rules: Value) -> Self {
        let mut webhook = json!({
            "type": kind, "generateName": name, "containerPort": 443, "targetPort": 9443, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "webhookPath": "/check", "rules": rules,
        });
        self.csv(|csv| {
            webhook["deploymentName"] = csv["spec"]["install"]["spec"]["deployments"][0]["name"].clone();
            if csv["spec"]["webhookdefinitions"].is_null() {
                csv["spec"]["webhookdefinitions"] = json!([]);
            }
            push(csv, "/spec/webhookdefinitions", webhook);
        })
    }

    /// The ClusterServiceVersion for a manual installation.
    #[must_use]
    pub fn manifest(&self, namespace: &str) -> Value {
        let mut csv = self.csv.clone();
        csv["metadata"]["namespace"] = namespace.into();
        csv
    }

    /// Its objects other than the ClusterServiceVersion.
    #[must_use]
    pub fn objects(&self) -> &[Value] {
        &self.objects
    }

    /// The catalog document, with every manifest inline.
    #[must_use]
    pub fn document(&self) -> Value {
        let package = json!({ "packageName": self.package, "version": self.version });
        let mut properties = vec![json!({ "type": "olm.package", "value": package })];
        properties.extend(self.properties.iter().cloned());
        for object in std::iter::once(&self.csv).chain(&self.objects) {
            let data = STANDARD.encode(object.to_string());
            properties.push(json!({ "type": "olm.bundle.object", "value": { "data": data } }));
        }
        json!({ "schema": "olm.bundle", "package": self.package, "name": self.name, "properties": properties })
    }
}

fn push(object: &mut Value, pointer: &str, value: Value) {
    if let Some(list) = object.pointer_mut(pointer).and_then(Value::as_array_mut) {
        list.push(value);
    }
}

fn deployment(name: &str, image: &str) -> Value {
    json!({ "name": name, "spec": {
        "replicas": 1, "selector": { "matchLabels": { "app": name } },
        "template": { "metadata": { "labels": { "app": name } }, "spec": {
            "serviceAccountName": name, "containers": [{ "name": "operator", "image": image }] } },
    } })
}
