//! Kubernetes' defaults of built-in kinds.

use serde_json::{Value, json};

use super::meta::{self, default, items_mut};

const SCOPE_NAME: &str = "kubernetes.io/metadata.name";

pub(crate) fn namespace(object: &mut Value) {
    let name = meta::name(object).to_owned();
    let labels = meta::metadata(object).entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(SCOPE_NAME.to_owned(), name.into());
    }
}

pub(crate) fn secret(object: &mut Value) {
    default(object, "type", "Opaque");
}

pub(crate) fn priority_class(object: &mut Value) {
    default(object, "preemptionPolicy", "PreemptLowerPriority");
}

pub(crate) fn persistent_volume_claim(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec") {
        default(spec, "volumeMode", "Filesystem");
    }
}

pub(crate) fn binding(object: &mut Value) {
    for subject in items_mut(object, "subjects") {
        let group = if subject["kind"] == "ServiceAccount" { "" } else { "rbac.authorization.k8s.io" };
        if !group.is_empty() {
            default(subject, "apiGroup", group);
        }
    }
    if let Some(role) = object.get_mut("roleRef") {
        default(role, "apiGroup", "rbac.authorization.k8s.io");
    }
}

pub(crate) fn service(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|s| s.is_object()) else { return };
    default(spec, "type", "ClusterIP");
    default(spec, "sessionAffinity", "None");
    let type_ = spec["type"].as_str().unwrap_or_default().to_owned();
    if type_ != "ExternalName" {
        default(spec, "internalTrafficPolicy", "Cluster");
        default(spec, "ipFamilies", json!(["IPv4"]));
        default(spec, "ipFamilyPolicy", "SingleStack");
    }
    if matches!(type_.as_str(), "NodePort" | "LoadBalancer") {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if type_ == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
    for port in items_mut(spec, "ports") {
        default(port, "protocol", "TCP");
        let number = port["port"].clone();
        if port["targetPort"] == "" || port["targetPort"] == 0 {
            port["targetPort"] = Value::Null;
        }
        if !number.is_null() {
            default(port, "targetPort", number);
        }
    }
}

pub(crate) fn deployment(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|s| s.is_object()) else { return };
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    default(spec, "strategy", json!({}));
    if let Some(strategy) = spec.get_mut("strategy").filter(|s| s.is_object()) {
        default(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            default(strategy, "rollingUpdate", json!({}));
            if let Some(rolling) = strategy.get_mut("rollingUpdate") {
                default(rolling, "maxUnavailable", "25%");
                default(rolling, "maxSurge", "25%");
            }
        }
    }
    template(spec);
}

pub(crate) fn replica_set(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|s| s.is_object()) else { return };
    default(spec, "replicas", 1);
    template(spec);
}

fn template(spec: &mut Value) {
    if let Some(pod) = spec.get_mut("template").and_then(|t| t.get_mut("spec")) {
        pod_spec(pod);
    }
    if let Some(template) = spec.get_mut("template").filter(|t| t.is_object()) {
        default(template, "metadata", json!({ "creationTimestamp": null }));
    }
}

pub(crate) fn pod(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec").filter(|s| s.is_object()) {
        pod_spec(spec);
        default(spec, "enableServiceLinks", true);
    }
}

/// The pod spec, of a pod or in a template.
pub(crate) fn pod_spec(spec: &mut Value) {
    default(spec, "restartPolicy", "Always");
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "securityContext", json!({}));
    // The deprecated name of the same field.
    let (new, old) = (spec["serviceAccountName"].clone(), spec["serviceAccount"].clone());
    let text = |v: &Value| v.as_str().is_some_and(|s| !s.is_empty());
    if text(&new) {
        spec["serviceAccount"] = new;
    } else if text(&old) {
        spec["serviceAccountName"] = old;
    }
    for key in ["initContainers", "containers"] {
        for container in items_mut(spec, key) {
            self::container(container);
        }
    }
    for volume in items_mut(spec, "volumes") {
        self::volume(volume);
    }
}

fn container(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    default(container, "resources", json!({}));
    let image = container["image"].as_str().unwrap_or_default();
    let tag = image.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    let latest = !image.contains('@') && tag.is_none_or(|tag| tag == "latest");
    default(container, "imagePullPolicy", if latest { "Always" } else { "IfNotPresent" });
    for port in items_mut(container, "ports") {
        default(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        if let Some(field) = variable.get_mut("valueFrom").and_then(|f| f.get_mut("fieldRef")) {
            default(field, "apiVersion", "v1");
        }
    }
    // Requests default to limits.
    if let Some(resources) = container.get_mut("resources")
        && let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned()
    {
        let requests = meta::child(resources, "requests");
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(key).filter(|p| p.is_object()) {
            default(probe, "timeoutSeconds", 1);
            default(probe, "periodSeconds", 10);
            default(probe, "successThreshold", 1);
            default(probe, "failureThreshold", 3);
            handler(probe);
        }
    }
    if let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) {
        for (_, hook) in lifecycle.iter_mut() {
            handler(hook);
        }
    }
}

fn handler(probe: &mut Value) {
    if let Some(http) = probe.get_mut("httpGet").filter(|h| h.is_object()) {
        default(http, "path", "/");
        default(http, "scheme", "HTTP");
    }
    if let Some(grpc) = probe.get_mut("grpc").filter(|g| g.is_object()) {
        default(grpc, "service", "");
    }
}

fn volume(volume: &mut Value) {
    for key in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(key).filter(|s| s.is_object()) {
            default(source, "defaultMode", 420);
        }
    }
    for key in ["downwardAPI", "projected"] {
        let Some(source) = volume.get_mut(key) else { continue };
        for item in items_mut(source, "items") {
            field_version(item);
        }
        for part in items_mut(source, "sources") {
            if let Some(token) = part.get_mut("serviceAccountToken") {
                default(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = part.get_mut("downwardAPI") {
                for item in items_mut(downward, "items") {
                    field_version(item);
                }
            }
        }
    }
    if let Some(host) = volume.get_mut("hostPath").filter(|h| h.is_object()) {
        default(host, "type", "");
    }
    if let Some(map) = volume.as_object_mut()
        && map.len() == 1
        && map.contains_key("name")
    {
        map.insert("emptyDir".to_owned(), json!({}));
    }
}

fn field_version(item: &mut Value) {
    if let Some(field) = item.get_mut("fieldRef") {
        default(field, "apiVersion", "v1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_gets_the_defaults_of_kubernetes() {
        let mut pod = json!({"spec": {"containers": [
            {"name": "a", "image": "r/x", "ports": [{"containerPort": 80}], "readinessProbe": {"httpGet": {"port": 80}},
             "resources": {"limits": {"cpu": "1"}}},
            {"name": "b", "image": "r:5000/x:1"},
        ], "volumes": [{"name": "v"}]}});
        super::pod(&mut pod);
        let spec = &pod["spec"];
        assert_eq!(spec["restartPolicy"], "Always");
        assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
        assert_eq!(spec["containers"][1]["imagePullPolicy"], "IfNotPresent");
        assert_eq!(spec["containers"][0]["ports"][0]["protocol"], "TCP");
        assert_eq!(spec["containers"][0]["readinessProbe"]["httpGet"]["path"], "/");
        assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "1");
        assert_eq!(spec["volumes"][0]["emptyDir"], json!({}));
    }

    #[test]
    fn nothing_panics_on_odd_shapes() {
        for odd in [
            json!({"spec": "x"}),
            json!({"spec": {"containers": "x", "volumes": [1], "template": []}}),
            json!([]),
        ] {
            for f in [pod, deployment, replica_set, service, binding, super::secret] {
                f(&mut odd.clone());
            }
        }
    }
}
