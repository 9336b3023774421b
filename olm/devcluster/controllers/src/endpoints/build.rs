//! Computes the endpoints of a Service: pure.

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::{
    api::{
        core::v1::{
            self as core, EndpointAddress, EndpointSubset, Endpoints, ObjectReference, Pod, Service,
            ServicePort,
        },
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;

use crate::{
    cache::Key,
    claim::controller_reference,
    pods::{is_finished, is_ready, is_terminating},
};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SLICE_MANAGER: &str = "endpointslice-controller.k8s.io";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Limit of endpoints per slice.
const PER_SLICE: usize = 100;

pub(crate) fn has_selector(service: &Service) -> bool {
    let Some(spec) = &service.spec else { return false };
    spec.type_.as_deref() != Some("ExternalName") && spec.selector.as_ref().is_some_and(|s| !s.is_empty())
}

pub(crate) fn selects(service: &Service, pod: &Pod) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| {
        !selector.is_empty() && selector.iter().all(|(key, value)| pod.labels().get(key) == Some(value))
    })
}

/// The Service of a slice, if this controller manages it.
pub(crate) fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let labels = slice.labels();
    let name = labels
        .get(SERVICE_NAME)
        .filter(|_| labels.get(SLICE_MANAGED_BY).is_some_and(|m| m == SLICE_MANAGER))?;
    Some(Key::new(&slice.namespace().unwrap_or_default(), name))
}

pub(super) fn is_managed(endpoints: &Endpoints) -> bool {
    endpoints.labels().get(MANAGED_BY).is_some_and(|manager| manager == MANAGER)
}

fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

fn publishes_not_ready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true)
}

fn ports(service: &Service) -> &[ServicePort] {
    service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default()
}

/// The number of a port in one pod; `None` when the pod has no port of that name.
fn target(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let protocol = |protocol: &Option<String>| protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            let containers = pod.spec.iter().flat_map(|spec| {
                // Sidecars (restartable init containers) serve as well.
                let sidecars = spec.init_containers.iter().flatten();
                let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
                spec.containers.iter().chain(sidecars)
            });
            containers
                .flat_map(|container| container.ports.iter().flatten())
                .find(|p| p.name.as_ref() == Some(name) && protocol(&p.protocol) == protocol(&port.protocol))
                .map(|p| p.container_port)
        }
    }
}

fn addresses(pod: &Pod) -> Vec<IpAddr> {
    let status = pod.status.as_ref();
    let all = status.and_then(|status| status.pod_ips.as_ref()).into_iter().flatten().map(|ip| ip.ip.clone());
    let mut addresses: Vec<IpAddr> = all.filter_map(|ip| ip.parse().ok()).collect();
    if let Some(first) = status.and_then(|status| status.pod_ip.as_ref()).and_then(|ip| ip.parse().ok())
        && !addresses.contains(&first)
    {
        addresses.insert(0, first);
    }
    addresses
}

/// DNS name of the pod within a headless Service.
fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let name = spec.hostname.clone().filter(|name| !name.is_empty())?;
    (spec.subdomain.as_deref() == service.metadata.name.as_deref()).then_some(name)
}

fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.namespace(),
        name: pod.metadata.name.clone(),
        uid: pod.uid(),
        ..ObjectReference::default()
    }
}

fn node_name(pod: &Pod) -> Option<String> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone())
}

fn labels(service: &Service, own: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut labels = service.labels().clone();
    labels.retain(|key, _| !matches!(key.as_str(), SERVICE_NAME | SLICE_MANAGED_BY | MANAGED_BY | HEADLESS));
    labels.extend(own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

/// The slices of a Service: by address family and by the ports that named targets resolve to.
pub(super) fn slices(service: &Service, pods: &[&Pod]) -> Vec<EndpointSlice> {
    type Ports = Vec<(String, String, i32, Option<String>)>;
    let mut groups: BTreeMap<(bool, Ports), Vec<Endpoint>> = BTreeMap::new();
    // A Service without endpoints still has an empty slice.
    if pods.iter().all(|pod| addresses(pod).is_empty() || is_finished(pod)) {
        groups.insert((false, Vec::new()), Vec::new());
    }
    for pod in pods.iter().filter(|pod| !is_finished(pod)) {
        let mut resolved: Ports = ports(service)
            .iter()
            .filter_map(|port| {
                Some((
                    port.name.clone().unwrap_or_default(),
                    port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                    target(port, pod)?,
                    port.app_protocol.clone(),
                ))
            })
            .collect();
        resolved.sort();
        let serving = is_ready(pod);
        let terminating = is_terminating(pod);
        for address in addresses(pod) {
            let endpoint = Endpoint {
                addresses: vec![address.to_string()],
                conditions: Some(EndpointConditions {
                    ready: Some(publishes_not_ready(service) || serving && !terminating),
                    serving: Some(serving),
                    terminating: Some(terminating),
                }),
                hostname: hostname(service, pod),
                node_name: node_name(pod),
                target_ref: Some(reference(pod)),
                ..Endpoint::default()
            };
            groups.entry((address.is_ipv6(), resolved.clone())).or_default().push(endpoint);
        }
    }
    let mut slices = Vec::new();
    for ((ipv6, ports), mut endpoints) in groups {
        endpoints.sort_by(|a, b| a.addresses.cmp(&b.addresses));
        let chunks: Vec<Vec<Endpoint>> = if endpoints.is_empty() {
            vec![Vec::new()]
        } else {
            endpoints.chunks(PER_SLICE).map(<[_]>::to_vec).collect()
        };
        for (index, endpoints) in chunks.into_iter().enumerate() {
            let family = if ipv6 { "IPv6" } else { "IPv4" };
            let mut slice = EndpointSlice {
                address_type: family.to_owned(),
                endpoints: Some(endpoints),
                ports: Some(
                    ports
                        .iter()
                        .map(|(name, protocol, port, app_protocol)| EndpointPort {
                            name: Some(name.clone()),
                            protocol: Some(protocol.clone()),
                            port: Some(*port),
                            app_protocol: app_protocol.clone(),
                        })
                        .collect(),
                ),
                ..EndpointSlice::default()
            };
            let name = service.name_any();
            slice.metadata.name = Some(format!("{name}-{}", suffix(&format!("{family}{ports:?}{index}"))));
            slice.metadata.namespace = service.namespace();
            slice.metadata.labels =
                Some(labels(service, &[(SERVICE_NAME, &name), (SLICE_MANAGED_BY, SLICE_MANAGER)]));
            slice.metadata.owner_references = Some(vec![controller_reference(service)]);
            slices.push(slice);
        }
    }
    slices
}

/// Five letters derived from the content, so that the same slice keeps its name.
fn suffix(text: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    (0..5)
        .map(|_| {
            let letter = ALPHABET[(hash % ALPHABET.len() as u64) as usize];
            hash /= ALPHABET.len() as u64;
            char::from(letter)
        })
        .collect()
}

/// The Endpoints object of a Service.
pub(super) fn endpoints(service: &Service, pods: &[&Pod]) -> Endpoints {
    type Ports = Vec<(Option<String>, i32, String, Option<String>)>;
    let mut groups: BTreeMap<Ports, (Vec<EndpointAddress>, Vec<EndpointAddress>)> = BTreeMap::new();
    for pod in pods {
        // The old API has no state for terminating pods: they are removed at once.
        if is_finished(pod) || is_terminating(pod) && !publishes_not_ready(service) {
            continue;
        }
        let Some(address) = addresses(pod).first().copied() else { continue };
        let mut resolved: Ports = ports(service)
            .iter()
            .filter_map(|port| {
                Some((
                    port.name.clone().filter(|name| !name.is_empty()),
                    target(port, pod)?,
                    port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                    port.app_protocol.clone(),
                ))
            })
            .collect();
        // A pod without any of the Service's ports serves nothing.
        if resolved.is_empty() && !ports(service).is_empty() {
            continue;
        }
        resolved.sort();
        let entry = EndpointAddress {
            ip: address.to_string(),
            hostname: hostname(service, pod),
            node_name: node_name(pod),
            target_ref: Some(reference(pod)),
        };
        let (ready, not_ready) = groups.entry(resolved).or_default();
        if publishes_not_ready(service) || is_ready(pod) {
            ready.push(entry);
        } else {
            not_ready.push(entry);
        }
    }
    let some = |mut list: Vec<EndpointAddress>| {
        list.sort_by(|a, b| a.ip.cmp(&b.ip));
        (!list.is_empty()).then_some(list)
    };
    let subsets: Vec<EndpointSubset> = groups
        .into_iter()
        .map(|(ports, (ready, not_ready))| EndpointSubset {
            addresses: some(ready),
            not_ready_addresses: some(not_ready),
            ports: (!ports.is_empty()).then(|| {
                ports
                    .into_iter()
                    .map(|(name, port, protocol, app_protocol)| core::EndpointPort {
                        name,
                        port,
                        protocol: Some(protocol),
                        app_protocol,
                    })
                    .collect()
            }),
        })
        .collect();
    let mut endpoints =
        Endpoints { subsets: (!subsets.is_empty()).then_some(subsets), ..Endpoints::default() };
    endpoints.metadata.name = service.metadata.name.clone();
    endpoints.metadata.namespace = service.namespace();
    endpoints.metadata.labels = Some(labels(service, &[(MANAGED_BY, MANAGER)]));
    endpoints
}

pub(super) fn same_slice(a: &EndpointSlice, b: &EndpointSlice) -> bool {
    let list = |slice: &EndpointSlice| slice.endpoints.clone().unwrap_or_default();
    let ports = |slice: &EndpointSlice| slice.ports.clone().unwrap_or_default();
    list(a) == list(b)
        && ports(a) == ports(b)
        && a.labels() == b.labels()
        && a.metadata.owner_references == b.metadata.owner_references
}

pub(super) fn same_endpoints(a: &Endpoints, b: &Endpoints) -> bool {
    a.subsets.clone().unwrap_or_default() == b.subsets.clone().unwrap_or_default() && a.labels() == b.labels()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(spec: Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "s", "labels": {"x": "y"}}, "spec": spec,
        }))
        .unwrap()
    }

    fn pod(name: &str, ip: &str, ready: bool, port: i32) -> Pod {
        let status = if ready { "True" } else { "False" };
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"app": "web"}},
            "spec": {"nodeName": "olm-node", "hostname": name, "subdomain": "web", "containers": [
                {"name": "c", "ports": [{"name": "http", "containerPort": port}]}]},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                       "conditions": [{"type": "Ready", "status": status}]},
        }))
        .unwrap()
    }

    fn leaving(mut pod: Pod) -> Pod {
        pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        pod
    }

    fn simple() -> Service {
        service(json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}))
    }

    #[test]
    fn ready_and_not_ready_and_terminating() {
        let pods = [
            pod("a", "10.0.0.1", true, 8080),
            pod("b", "10.0.0.2", false, 8080),
            leaving(pod("c", "10.0.0.3", true, 8080)),
        ];
        let pods: Vec<&Pod> = pods.iter().collect();
        let slices = slices(&simple(), &pods);
        assert_eq!(slices.len(), 1);
        let conditions: Vec<(bool, bool, bool)> = slices[0]
            .endpoints
            .iter()
            .flatten()
            .filter_map(|e| e.conditions.as_ref())
            .map(|c| (c.ready.unwrap(), c.serving.unwrap(), c.terminating.unwrap()))
            .collect();
        assert_eq!(conditions, [(true, true, false), (false, false, false), (false, true, true)]);
        assert_eq!(slices[0].ports.as_ref().unwrap()[0].port, Some(8080));
        assert_eq!(slices[0].labels()["kubernetes.io/service-name"], "web");
        assert_eq!(slices[0].endpoints.as_ref().unwrap()[0].hostname.as_deref(), Some("a"));

        let subset = &endpoints(&simple(), &pods).subsets.unwrap()[0];
        let ips = |list: &Option<Vec<EndpointAddress>>| -> Vec<String> {
            list.iter().flatten().map(|a| a.ip.clone()).collect()
        };
        assert_eq!(ips(&subset.addresses), ["10.0.0.1"]);
        assert_eq!(ips(&subset.not_ready_addresses), ["10.0.0.2"]);
    }

    #[test]
    fn not_ready_addresses_can_be_published() {
        let service = service(json!({
            "selector": {"app": "web"}, "clusterIP": "None", "publishNotReadyAddresses": true, "ports": [{"port": 80}],
        }));
        let pods = [pod("a", "10.0.0.1", false, 8080), leaving(pod("b", "10.0.0.2", false, 8080))];
        let pods: Vec<&Pod> = pods.iter().collect();
        let slices = slices(&service, &pods);
        assert!(
            slices[0].endpoints.iter().flatten().all(|e| e.conditions.as_ref().unwrap().ready == Some(true))
        );
        assert_eq!(slices[0].labels()[HEADLESS], "");
        assert_eq!(endpoints(&service, &pods).subsets.unwrap()[0].addresses.as_ref().unwrap().len(), 2);
    }

    #[test]
    fn named_ports_may_differ_between_pods() {
        let pods = [pod("a", "10.0.0.1", true, 8080), pod("b", "10.0.0.2", true, 9090)];
        let pods: Vec<&Pod> = pods.iter().collect();
        let slices = slices(&simple(), &pods);
        assert_eq!(slices.len(), 2);
        assert_ne!(slices[0].metadata.name, slices[1].metadata.name);
        assert_eq!(endpoints(&simple(), &pods).subsets.unwrap().len(), 2);
    }

    #[test]
    fn nothing_to_serve() {
        let slices = slices(&simple(), &[]);
        assert_eq!(slices.len(), 1);
        assert!(slices[0].endpoints.as_ref().unwrap().is_empty());
        assert_eq!(endpoints(&simple(), &[]).subsets, None);
        let headless = service(json!({"selector": {"app": "web"}, "clusterIP": "None"}));
        let pod = pod("a", "10.0.0.1", true, 8080);
        let endpoints = endpoints(&headless, &[&pod]);
        assert_eq!(endpoints.subsets.unwrap()[0].ports, None, "a headless service needs no ports");
    }

    #[test]
    fn the_same_input_gives_the_same_slices() {
        let pods = [pod("b", "10.0.0.2", true, 8080), pod("a", "10.0.0.1", true, 8080)];
        let (ab, ba) = (vec![&pods[0], &pods[1]], vec![&pods[1], &pods[0]]);
        assert!(same_slice(&slices(&simple(), &ab)[0], &slices(&simple(), &ba)[0]));
        assert!(same_endpoints(&endpoints(&simple(), &ab), &endpoints(&simple(), &ba)));
    }

    #[test]
    fn external_names_and_empty_selectors_are_left_alone() {
        assert!(!has_selector(&service(json!({"type": "ExternalName", "selector": {"a": "b"}}))));
        assert!(!has_selector(&service(json!({"selector": {}}))));
        assert!(!selects(&service(json!({"selector": {}})), &pod("a", "10.0.0.1", true, 1)));
    }
}
