//! A container's environment: values, references and `$(VAR)`. Pure; the caller supplies the referenced
//! objects.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, ObjectFieldSelector, Pod, ResourceFieldSelector},
    apimachinery::pkg::api::resource::Quantity,
};

use super::network::zone::{Key, Zone};

/// Default `PATH` of a container.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Values of ConfigMaps and Secrets by name.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) config_maps: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) secrets: BTreeMap<String, BTreeMap<String, String>>,
}

/// Facts about the pod beyond its object.
#[derive(Debug, Clone)]
pub(crate) struct PodFacts {
    pub(crate) pod_ip: String,
    pub(crate) host_ip: String,
}

/// Variables that the pod does not define.
#[derive(Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) hostname: String,
    /// The home directory of the image's user.
    pub(crate) home: Option<String>,
    pub(crate) image: Vec<(String, String)>,
    pub(crate) services: Vec<(String, String)>,
}

/// Builds the environment, in order: the node's, the image's, those of Services, the container's; later entries
/// win.
pub(crate) fn build(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
    sources: &Sources,
    defaults: Defaults,
) -> Result<Vec<(String, String)>, String> {
    let Defaults { hostname, home, image, services } = defaults;
    let mut env: Vec<(String, String)> = Vec::new();
    let set = |env: &mut Vec<(String, String)>, name: String, value: String| {
        env.retain(|(other, _)| *other != name);
        env.push((name, value));
    };
    set(&mut env, "PATH".to_owned(), PATH.to_owned());
    set(&mut env, "HOSTNAME".to_owned(), hostname);
    set(&mut env, "HOME".to_owned(), home.unwrap_or_else(|| "/root".to_owned()));
    for (name, value) in image.into_iter().chain(services) {
        set(&mut env, name, value);
    }
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.clone().unwrap_or_default();
        let (kind, name, optional, all) = match (&from.config_map_ref, &from.secret_ref) {
            (Some(reference), _) => ("configmap", &reference.name, reference.optional, &sources.config_maps),
            (None, Some(reference)) => ("secret", &reference.name, reference.optional, &sources.secrets),
            (None, None) => continue,
        };
        match all.get(name) {
            Some(values) => {
                for (key, value) in values {
                    set(&mut env, format!("{prefix}{key}"), value.clone());
                }
            }
            None if optional == Some(true) => {}
            None => return Err(format!("{kind} {name:?} not found")),
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value_from, &variable.value) {
            (Some(from), _) => {
                if let Some(field) = &from.field_ref {
                    Some(field_value(pod, field, facts)?)
                } else if let Some(resource) = &from.resource_field_ref {
                    Some(resource_value(pod, container, resource)?)
                } else if let Some(key) = &from.config_map_key_ref {
                    lookup("configmap", &sources.config_maps, &key.name, &key.key, key.optional)?
                } else if let Some(key) = &from.secret_key_ref {
                    lookup("secret", &sources.secrets, &key.name, &key.key, key.optional)?
                } else {
                    return Err(format!("env {}: this kind of valueFrom is not supported", variable.name));
                }
            }
            (None, value) => Some(expand(value.as_deref().unwrap_or_default(), &env)),
        };
        if let Some(value) = value {
            set(&mut env, variable.name.clone(), value);
        }
    }
    Ok(env)
}

fn lookup(
    kind: &str,
    all: &BTreeMap<String, BTreeMap<String, String>>,
    name: &str,
    key: &str,
    optional: Option<bool>,
) -> Result<Option<String>, String> {
    match all.get(name) {
        None if optional == Some(true) => Ok(None),
        None => Err(format!("{kind} {name:?} not found")),
        Some(values) => match values.get(key) {
            Some(value) => Ok(Some(value.clone())),
            None if optional == Some(true) => Ok(None),
            None => Err(format!("couldn't find key {key} in {kind} {name:?}")),
        },
    }
}

/// Names of the ConfigMaps and Secrets that a container's environment refers to.
pub(crate) fn references(container: &Container) -> (Vec<String>, Vec<String>) {
    let (mut maps, mut secrets) = (Vec::new(), Vec::new());
    for from in container.env_from.iter().flatten() {
        maps.extend(from.config_map_ref.iter().map(|reference| reference.name.clone()));
        secrets.extend(from.secret_ref.iter().map(|reference| reference.name.clone()));
    }
    for from in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
        maps.extend(from.config_map_key_ref.iter().map(|reference| reference.name.clone()));
        secrets.extend(from.secret_key_ref.iter().map(|reference| reference.name.clone()));
    }
    for names in [&mut maps, &mut secrets] {
        names.sort();
        names.dedup();
    }
    (maps, secrets)
}

/// Replaces `$(NAME)`; `$$` is a dollar sign, and unknown names stay unchanged.
pub(crate) fn expand(text: &str, env: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        if let Some(after) = tail.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        match tail.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            Some((name, after)) => {
                match env.iter().rev().find(|(other, _)| other == name) {
                    Some((_, value)) => out.push_str(value),
                    None => {
                        out.push_str("$(");
                        out.push_str(name);
                        out.push(')');
                    }
                }
                rest = after;
            }
            None => {
                out.push('$');
                rest = tail;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The value of a downward API field.
pub(crate) fn field_value(
    pod: &Pod,
    field: &ObjectFieldSelector,
    facts: &PodFacts,
) -> Result<String, String> {
    let metadata = &pod.metadata;
    let spec = pod.spec.as_ref();
    let path = field.field_path.as_str();
    let entry = |prefix: &str| path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']");
    if let Some(key) = entry("metadata.labels") {
        return Ok(metadata.labels.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    if let Some(key) = entry("metadata.annotations") {
        return Ok(metadata.annotations.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    let all = |map: &Option<BTreeMap<String, String>>| {
        let lines: Vec<String> =
            map.iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect();
        lines.join("\n")
    };
    Ok(match path {
        "metadata.name" => metadata.name.clone().unwrap_or_default(),
        "metadata.namespace" => metadata.namespace.clone().unwrap_or_default(),
        "metadata.uid" => metadata.uid.clone().unwrap_or_default(),
        "metadata.labels" => all(&metadata.labels),
        "metadata.annotations" => all(&metadata.annotations),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => {
            spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()
        }
        "status.podIP" | "status.podIPs" => facts.pod_ip.clone(),
        "status.hostIP" | "status.hostIPs" => facts.host_ip.clone(),
        other => return Err(format!("fieldRef {other:?} is not supported")),
    })
}

/// The value of a resource field, in units of its divisor, rounded up.
pub(crate) fn resource_value(
    pod: &Pod,
    container: &Container,
    field: &ResourceFieldSelector,
) -> Result<String, String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let target = match field.container_name.as_deref() {
        Some(name) if !name.is_empty() => containers
            .into_iter()
            .find(|other| other.name == name)
            .ok_or_else(|| format!("resourceFieldRef: container {name:?} not found"))?,
        _ => container,
    };
    let (list, resource) = field
        .resource
        .split_once('.')
        .ok_or_else(|| format!("resourceFieldRef {:?} is not supported", field.resource))?;
    let resources = target.resources.as_ref();
    let map = match list {
        "limits" => resources.and_then(|resources| resources.limits.as_ref()),
        "requests" => resources.and_then(|resources| resources.requests.as_ref()),
        _ => return Err(format!("resourceFieldRef {:?} is not supported", field.resource)),
    };
    let value = match map.and_then(|map| map.get(resource)) {
        Some(quantity) => parse_quantity(quantity)?,
        // Without a limit the node's capacity is the limit; without a request there is none.
        None if list == "limits" => super::capacity::of(resource),
        None => 0.0,
    };
    let divisor = match &field.divisor {
        Some(quantity) => match parse_quantity(quantity)? {
            zero if zero <= 0.0 => 1.0,
            divisor => divisor,
        },
        None => 1.0,
    };
    Ok(format!("{:.0}", (value / divisor - 1e-9).ceil().max(0.0)))
}

/// Parses a Kubernetes quantity.
fn parse_quantity(quantity: &Quantity) -> Result<f64, String> {
    let parsed = quantity.0.trim().parse::<olm_kube_schema::quantity::Quantity>();
    parsed
        .map(olm_kube_schema::quantity::Quantity::as_float)
        .map_err(|_| format!("invalid quantity {:?}", quantity.0))
}

/// The environment variables for the Services of a namespace and for the API server.
pub(crate) fn of_services(zone: &Zone, namespace: &str, links: bool) -> Vec<(String, String)> {
    let mut env = Vec::new();
    let is_api = |key: &Key| key.0 == "default" && key.1 == "kubernetes";
    for (key, service) in &zone.services {
        let Some(ip) = service.ip else { continue };
        if service.ports.is_empty() || !(is_api(key) || (links && key.0 == namespace)) {
            continue;
        }
        let name = key.1.to_ascii_uppercase().replace('-', "_");
        let mut set = |suffix: String, value: String| env.push((format!("{name}_{suffix}"), value));
        set("SERVICE_HOST".to_owned(), ip.to_string());
        for (index, port) in service.ports.iter().enumerate() {
            let (number, protocol) = (port.port, port.protocol.to_ascii_lowercase());
            let url = format!("{protocol}://{ip}:{number}");
            if index == 0 {
                set("SERVICE_PORT".to_owned(), number.to_string());
                set("PORT".to_owned(), url.clone());
            }
            if !port.name.is_empty() {
                let port_name = port.name.to_ascii_uppercase().replace('-', "_");
                set(format!("SERVICE_PORT_{port_name}"), number.to_string());
            }
            let prefix = format!("PORT_{number}_{}", port.protocol);
            set(prefix.clone(), url);
            set(format!("{prefix}_PROTO"), protocol);
            set(format!("{prefix}_PORT"), number.to_string());
            set(format!("{prefix}_ADDR"), ip.to_string());
        }
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn pod() -> Pod {
        from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "labels": {"a/b": "c"}},
            "spec": {"containers": [{
                "name": "main",
                "resources": {"limits": {"memory": "64Mi", "cpu": "1500m"}},
                "envFrom": [{"configMapRef": {"name": "all"}, "prefix": "X_"}, {"secretRef": {"name": "gone", "optional": true}}],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "value": "$(A)$(A) $$(A) $(NOPE) $ $(X_k"},
                    {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "MIB", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
            }]},
        }))
        .unwrap()
    }

    fn build_it(pod: &Pod, sources: &Sources) -> Result<BTreeMap<String, String>, String> {
        let facts = PodFacts { pod_ip: "10.244.0.9".to_owned(), host_ip: "10.244.0.1".to_owned() };
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let variable = |name: &str| (name.to_owned(), "of the image".to_owned());
        let defaults = Defaults {
            hostname: "p".to_owned(),
            image: vec![variable("A"), variable("FROM")],
            ..Defaults::default()
        };
        build(pod, container, &facts, sources, defaults).map(|env| env.into_iter().collect())
    }

    #[test]
    fn every_kind_of_value_is_resolved() {
        let mut sources = Sources::default();
        sources.config_maps.insert("all".to_owned(), [("k".to_owned(), "v".to_owned())].into());
        sources.secrets.insert("s".to_owned(), [("k".to_owned(), "hush".to_owned())].into());
        let env = build_it(&pod(), &sources).unwrap();
        let expect = [
            ("A", "1"),
            ("B", "11 $(A) $(NOPE) $ $(X_k"),
            ("NAME", "p"),
            ("LABEL", "c"),
            ("IP", "10.244.0.9"),
            ("MIB", "64"),
            ("CPU", "2"),
            ("KEY", "hush"),
            ("X_k", "v"),
            ("HOSTNAME", "p"),
            ("FROM", "of the image"),
            ("HOME", "/root"),
        ];
        for (name, value) in expect {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn a_missing_reference_is_named() {
        let error = build_it(&pod(), &Sources::default()).unwrap_err();
        assert_eq!(error, "configmap \"all\" not found");
    }

    #[test]
    fn quantities() {
        let parse = |text: &str| parse_quantity(&Quantity(text.to_owned()));
        assert_eq!(parse("1.5Gi"), Ok(1_610_612_736.0));
        assert_eq!(parse("250m"), Ok(0.25));
        assert_eq!(parse("1e3"), Ok(1000.0));
        assert!(parse("many").is_err());
        assert!(parse("inf").is_err());
    }
}
