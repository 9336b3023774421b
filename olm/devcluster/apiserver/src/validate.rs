//! Validation of metadata and built-in kinds, in Kubernetes' wording.

use std::collections::HashSet;

use olm_devcluster_machinery::field_error::FieldError;
use serde_json::Value;

use super::{
    meta::{self, list, text},
    names::{NameRule, key_problem, labels, name_problems},
    resource::Resource,
    selector::Selector,
};

const DATA_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const MAX_ANNOTATIONS: usize = 256 << 10;
const MAX_DATA: usize = 1 << 20;

type Errors = Vec<FieldError>;

/// Validates the metadata of any kind.
pub(crate) fn metadata(resource: &Resource, object: &Value, live: Option<&Value>, errors: &mut Errors) {
    let name = meta::name(object);
    if live.is_none() {
        let rule = resource.builtin().map_or(NameRule::Subdomain, |b| b.name_rule);
        for problem in name_problems(rule, name) {
            errors.push(FieldError::invalid("metadata.name", name, problem));
        }
    }
    labels("metadata.labels", object.pointer("/metadata/labels"), errors);
    let mut size = 0;
    for (key, value) in
        object.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten()
    {
        size += key.len() + value.as_str().map_or(0, str::len);
        if let Some(problem) = key_problem(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", key.as_str(), problem));
        }
    }
    if size > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long("metadata.annotations", MAX_ANNOTATIONS as u64));
    }
    for (index, owner) in list(object, "/metadata/ownerReferences").iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{field}")).is_empty() {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                errors.push(FieldError::invalid(path, "", "must not be empty"));
            }
        }
    }
    if list(object, "/metadata/ownerReferences").iter().filter(|o| o["controller"] == true).count() > 1 {
        let detail = "Only one reference can have Controller set to true";
        errors.push(FieldError::invalid("metadata.ownerReferences", Value::Null, detail));
    }
    for finalizer in meta::finalizers(object) {
        if let Some(problem) = key_problem(finalizer) {
            errors.push(FieldError::invalid("metadata.finalizers", finalizer, problem));
        }
    }
    if let Some(live) = live.filter(|l| meta::is_deleting(l)) {
        let old = meta::finalizers(live);
        let added: Vec<_> = meta::finalizers(object).into_iter().filter(|f| !old.contains(f)).collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
}

fn immutable_flag(object: &Value, live: Option<&Value>, fields: &[&str], errors: &mut Errors) {
    let Some(live) = live.filter(|l| l["immutable"] == true) else { return };
    if object["immutable"] != true {
        errors.push(FieldError::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    for field in fields {
        let empty = |v: &Value| v.is_null() || v.as_object().is_some_and(serde_json::Map::is_empty);
        if live[*field] != object[*field] && !(empty(&live[*field]) && empty(&object[*field])) {
            errors.push(FieldError::forbidden(*field, "field is immutable when `immutable` is set"));
        }
    }
}

fn data_keys(object: &Value, fields: &[&str], errors: &mut Errors) {
    let mut size = 0;
    for field in fields {
        for (key, value) in object[*field].as_object().into_iter().flatten() {
            size += value.as_str().map_or(0, str::len);
            let fits = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
            if !fits || key.len() > 253 || key == "." || key == ".." {
                errors.push(FieldError::invalid(format!("{field}[{key}]"), key.as_str(), DATA_KEY));
            }
        }
    }
    if size > MAX_DATA * 4 / 3 {
        errors.push(FieldError::too_long("", MAX_DATA as u64));
    }
}

pub(crate) fn config_map(object: &Value, live: Option<&Value>, errors: &mut Errors) {
    data_keys(object, &["data", "binaryData"], errors);
    immutable_flag(object, live, &["data", "binaryData"], errors);
}

pub(crate) fn secret(object: &Value, live: Option<&Value>, errors: &mut Errors) {
    use base64::{Engine, engine::general_purpose::STANDARD};
    data_keys(object, &["data"], errors);
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        if value.as_str().is_none_or(|v| STANDARD.decode(v).is_err()) {
            errors.push(FieldError::invalid(format!("data[{key}]"), "<redacted>", "must be base64"));
        }
    }
    if let Some(live) = live
        && live["type"] != object["type"]
    {
        errors.push(FieldError::invalid("type", object["type"].clone(), "field is immutable"));
    }
    immutable_flag(object, live, &["data"], errors);
    if object["type"] == "kubernetes.io/tls" {
        for key in ["tls.crt", "tls.key"] {
            if object["data"].get(key).is_none() {
                errors.push(FieldError::required(format!("data[{key}]"), ""));
            }
        }
    }
}

pub(crate) fn role(object: &Value, _live: Option<&Value>, errors: &mut Errors) {
    let namespaced = object["kind"] == "Role";
    for (index, rule) in list(object, "/rules").iter().enumerate() {
        let at = |field: &str| format!("rules[{index}].{field}");
        let empty = |field: &str| list(rule, &format!("/{field}")).is_empty();
        if empty("verbs") {
            errors.push(FieldError::required(at("verbs"), "verbs must contain at least one value"));
        }
        if !empty("nonResourceURLs") {
            if namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                errors.push(FieldError::invalid(
                    at("nonResourceURLs"),
                    rule["nonResourceURLs"].clone(),
                    detail,
                ));
            }
            if !empty("apiGroups") || !empty("resources") || !empty("resourceNames") {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(
                    at("nonResourceURLs"),
                    rule["nonResourceURLs"].clone(),
                    detail,
                ));
            }
            continue;
        }
        if empty("apiGroups") {
            errors.push(FieldError::required(
                at("apiGroups"),
                "resource rules must supply at least one api group",
            ));
        }
        if empty("resources") {
            errors.push(FieldError::required(
                at("resources"),
                "resource rules must supply at least one resource",
            ));
        }
    }
}

pub(crate) fn role_binding(object: &Value, live: Option<&Value>, errors: &mut Errors) {
    let cluster = object["kind"] == "ClusterRoleBinding";
    let role = &object["roleRef"];
    let kinds: &[&str] = if cluster { &["ClusterRole"] } else { &["Role", "ClusterRole"] };
    if role["apiGroup"] != "rbac.authorization.k8s.io" {
        errors.push(FieldError::not_supported(
            "roleRef.apiGroup",
            text(role, "/apiGroup"),
            ["rbac.authorization.k8s.io"],
        ));
    }
    if !kinds.contains(&text(role, "/kind")) {
        errors.push(FieldError::not_supported("roleRef.kind", text(role, "/kind"), kinds));
    }
    if text(role, "/name").is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    for (index, subject) in list(object, "/subjects").iter().enumerate() {
        let at = |field: &str| format!("subjects[{index}].{field}");
        if text(subject, "/name").is_empty() {
            errors.push(FieldError::required(at("name"), ""));
        }
        match text(subject, "/kind") {
            "ServiceAccount" if cluster && text(subject, "/namespace").is_empty() => {
                errors.push(FieldError::required(at("namespace"), ""));
            }
            "ServiceAccount" | "User" | "Group" => {}
            other => {
                errors.push(FieldError::not_supported(at("kind"), other, ["ServiceAccount", "User", "Group"]))
            }
        }
    }
    if let Some(live) = live
        && live["roleRef"] != *role
    {
        errors.push(FieldError::invalid("roleRef", role.clone(), "cannot change roleRef"));
    }
}

pub(crate) fn service(object: &Value, live: Option<&Value>, errors: &mut Errors) {
    let spec = &object["spec"];
    let type_ = text(spec, "/type");
    if !matches!(type_, "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName") {
        let all = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        errors.push(FieldError::not_supported("spec.type", type_, all));
    }
    let headless = text(spec, "/clusterIP") == "None";
    let ports = list(spec, "/ports");
    if ports.is_empty() && !headless && type_ != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    if type_ == "ExternalName" && text(spec, "/externalName").is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    }
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        let at = |field: &str| format!("spec.ports[{index}].{field}");
        let number = port["port"].as_i64().unwrap_or(0);
        if !(1..=65_535).contains(&number) {
            errors.push(FieldError::invalid(at("port"), number, "must be between 1 and 65535, inclusive"));
        }
        let name = text(port, "/name");
        if name.is_empty() && ports.len() > 1 {
            errors.push(FieldError::required(at("name"), ""));
        } else if !name.is_empty() {
            for problem in name_problems(NameRule::Label, name) {
                errors.push(FieldError::invalid(at("name"), name, problem));
            }
            if !names.insert(name) {
                errors.push(FieldError::duplicate(at("name"), name));
            }
        }
        if !numbers.insert((text(port, "/protocol"), number)) {
            errors.push(FieldError::duplicate(format!("spec.ports[{index}]"), port.clone()));
        }
        if !matches!(text(port, "/protocol"), "TCP" | "UDP" | "SCTP") {
            errors.push(FieldError::not_supported(
                at("protocol"),
                text(port, "/protocol"),
                ["SCTP", "TCP", "UDP"],
            ));
        }
    }
    labels("spec.selector", spec.get("selector"), errors);
    if let Some(live) = live {
        let (old, new) = (text(live, "/spec/clusterIP"), text(spec, "/clusterIP"));
        let keeps_type = live["spec"]["type"] != "ExternalName" && type_ != "ExternalName";
        if keeps_type && !old.is_empty() && old != new {
            errors.push(FieldError::invalid("spec.clusterIPs[0]", new, "may not change once set"));
        }
    }
}

/// Validates Deployments and ReplicaSets.
pub(crate) fn workload(object: &Value, live: Option<&Value>, errors: &mut Errors) {
    let spec = &object["spec"];
    let replicas = spec["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        errors.push(FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0"));
    }
    let selector = &spec["selector"];
    let empty = list(selector, "/matchExpressions").is_empty()
        && selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty);
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else if empty {
        let detail = "empty selector is invalid for deployment";
        errors.push(FieldError::invalid("spec.selector", selector.clone(), detail));
    } else if !Selector::from_object(selector).matches_labels(spec.pointer("/template/metadata/labels")) {
        let labels = spec.pointer("/template/metadata/labels").cloned().unwrap_or_default();
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    if let Some(live) = live
        && live["spec"]["selector"] != *selector
    {
        errors.push(FieldError::invalid("spec.selector", selector.clone(), "field is immutable"));
    }
    labels("spec.template.metadata.labels", spec.pointer("/template/metadata/labels"), errors);
    pod_spec(&spec["template"]["spec"], "spec.template.spec", errors);
    if text(spec, "/template/spec/restartPolicy") != "Always" && !spec["template"]["spec"].is_null() {
        let value = text(spec, "/template/spec/restartPolicy");
        errors.push(FieldError::not_supported("spec.template.spec.restartPolicy", value, ["Always"]));
    }
}

pub(crate) fn pod(object: &Value, live: Option<&Value>, errors: &mut Errors) {
    pod_spec(&object["spec"], "spec", errors);
    if let Some(live) = live {
        pod_update(object, live, errors);
    }
}

/// Most fields of a pod are immutable.
fn pod_update(object: &Value, live: &Value, errors: &mut Errors) {
    let fixed = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for key in ["containers", "initContainers"] {
            for container in meta::items_mut(&mut spec, key) {
                meta::as_map(container).shift_remove("image");
            }
        }
        let map = meta::as_map(&mut spec);
        for key in ["activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations"] {
            map.shift_remove(key);
        }
        // A pod without a node may be bound once.
        if text(live, "/spec/nodeName").is_empty() {
            map.shift_remove("nodeName");
        }
        spec
    };
    if fixed(object) != fixed(live) {
        errors.push(FieldError::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        ));
    }
}

pub(crate) fn pod_spec(spec: &Value, path: &str, errors: &mut Errors) {
    let containers = list(spec, "/containers");
    if containers.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut volumes = HashSet::new();
    for (index, volume) in list(spec, "/volumes").iter().enumerate() {
        let name = text(volume, "/name");
        let at = format!("{path}.volumes[{index}]");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        } else {
            for problem in name_problems(NameRule::Label, name) {
                errors.push(FieldError::invalid(format!("{at}.name"), name, problem));
            }
        }
        if !volumes.insert(name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), name));
        }
        if volume.as_object().is_some_and(|v| v.len() > 2) {
            errors.push(FieldError::forbidden(at, "may not specify more than 1 volume type"));
        }
    }
    let mut names = HashSet::new();
    for (key, all) in [("initContainers", list(spec, "/initContainers")), ("containers", containers)] {
        for (index, container) in all.iter().enumerate() {
            self::container(container, &format!("{path}.{key}[{index}]"), &volumes, errors);
            let name = text(container, "/name");
            if !name.is_empty() && !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{path}.{key}[{index}].name"), name));
            }
        }
    }
    let policy = text(spec, "/restartPolicy");
    if !matches!(policy, "Always" | "OnFailure" | "Never" | "") {
        errors.push(FieldError::not_supported(
            format!("{path}.restartPolicy"),
            policy,
            ["Always", "OnFailure", "Never"],
        ));
    }
    let dns = text(spec, "/dnsPolicy");
    if !matches!(dns, "ClusterFirstWithHostNet" | "ClusterFirst" | "Default" | "None" | "") {
        let all = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
        errors.push(FieldError::not_supported(format!("{path}.dnsPolicy"), dns, all));
    }
    for field in ["hostname", "subdomain"] {
        let name = text(spec, &format!("/{field}"));
        if !name.is_empty() {
            for problem in name_problems(NameRule::Label, name) {
                errors.push(FieldError::invalid(format!("{path}.{field}"), name, problem));
            }
        }
    }
}

fn container(container: &Value, path: &str, volumes: &HashSet<&str>, errors: &mut Errors) {
    let name = text(container, "/name");
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    } else {
        for problem in name_problems(NameRule::Label, name) {
            errors.push(FieldError::invalid(format!("{path}.name"), name, problem));
        }
    }
    let image = text(container, "/image");
    if image.is_empty() {
        errors.push(FieldError::required(format!("{path}.image"), ""));
    } else if image.trim() != image {
        errors.push(FieldError::invalid(
            format!("{path}.image"),
            image,
            "must not have leading or trailing whitespace",
        ));
    }
    let pull = text(container, "/imagePullPolicy");
    if !matches!(pull, "" | "Always" | "IfNotPresent" | "Never") {
        errors.push(FieldError::not_supported(
            format!("{path}.imagePullPolicy"),
            pull,
            ["Always", "IfNotPresent", "Never"],
        ));
    }
    for (index, port) in list(container, "/ports").iter().enumerate() {
        let number = port["containerPort"].as_i64().unwrap_or(0);
        if !(1..=65_535).contains(&number) {
            let at = format!("{path}.ports[{index}].containerPort");
            errors.push(FieldError::invalid(at, number, "must be between 1 and 65535, inclusive"));
        }
    }
    for (index, variable) in list(container, "/env").iter().enumerate() {
        let at = format!("{path}.env[{index}]");
        let name = text(variable, "/name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        } else if name.contains('=') {
            errors.push(FieldError::invalid(format!("{at}.name"), name, "must not contain '='"));
        }
        if variable["valueFrom"].is_object() && !text(variable, "/value").is_empty() {
            let detail = "may not be specified when `value` is not empty";
            errors.push(FieldError::invalid(format!("{at}.valueFrom"), "", detail));
        }
    }
    let mut paths = HashSet::new();
    for (index, mount) in list(container, "/volumeMounts").iter().enumerate() {
        let at = format!("{path}.volumeMounts[{index}]");
        let (volume, target) = (text(mount, "/name"), text(mount, "/mountPath"));
        if volume.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        } else if !volumes.contains(volume) {
            errors.push(FieldError {
                path: format!("{at}.name"),
                kind: olm_devcluster_machinery::field_error::ErrorKind::NotFound,
                bad_value: Some(volume.into()),
                detail: String::new(),
            });
        }
        if target.is_empty() {
            errors.push(FieldError::required(format!("{at}.mountPath"), ""));
        } else if !paths.insert(target) {
            errors.push(FieldError::invalid(format!("{at}.mountPath"), target, "must be unique"));
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[key];
        if probe.is_object() {
            let handlers =
                ["exec", "httpGet", "tcpSocket", "grpc"].iter().filter(|h| probe[**h].is_object()).count();
            match handlers {
                1 => {}
                0 => {
                    errors.push(FieldError::required(format!("{path}.{key}"), "must specify a handler type"))
                }
                _ => errors.push(FieldError::forbidden(
                    format!("{path}.{key}"),
                    "may not specify more than 1 handler type",
                )),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(f: fn(&Value, Option<&Value>, &mut Errors), object: Value, live: Option<Value>) -> Vec<String> {
        let mut errors = Vec::new();
        f(&object, live.as_ref(), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_needs_containers() {
        assert_eq!(texts(pod, json!({"spec": {}}), None), ["spec.containers: Required value"]);
        let bad = json!({"spec": {"containers": [{"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}});
        assert_eq!(texts(pod, bad, None), ["spec.containers[0].volumeMounts[0].name: Not found: \"v\""]);
    }

    #[test]
    fn a_selector_must_match_and_is_immutable() {
        let object = |selector: &str| {
            json!({"spec": {"selector": {"matchLabels": {"a": selector}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Always", "containers": [{"name": "a", "image": "x"}]}}}})
        };
        assert!(texts(workload, object("b"), None).is_empty());
        assert!(
            texts(workload, object("c"), None)[0].ends_with("`selector` does not match template `labels`")
        );
        assert!(texts(workload, object("b"), Some(object("c")))[0].ends_with("field is immutable"));
    }

    #[test]
    fn services() {
        assert_eq!(
            texts(service, json!({"spec": {"type": "ClusterIP"}}), None),
            ["spec.ports: Required value"]
        );
        assert!(texts(service, json!({"spec": {"type": "ClusterIP", "clusterIP": "None"}}), None).is_empty());
    }
}
