//! Services and their endpoints as plain data, and their DNS records. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, SocketAddrV4},
};

use k8s_openapi::api::{
    core::v1::Service,
    discovery::v1::{Endpoint, EndpointSlice},
};

use super::NODE_IP;

/// The name of this machine for pods.
const HOST: &str = "host.olm.internal";

/// Namespace and name.
pub(crate) type Key = (String, String);

/// Watched objects, reduced to the needs of proxy, DNS and environment variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Zone {
    pub(crate) domain: String,
    pub(crate) services: BTreeMap<Key, ServiceInfo>,
    /// By namespace and name of the slice.
    slices: BTreeMap<Key, (String, Vec<Target>)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServiceInfo {
    /// `None` for a headless one.
    pub(crate) ip: Option<Ipv4Addr>,
    pub(crate) external_name: Option<String>,
    pub(crate) publish_not_ready: bool,
    /// Session affinity of a client, in seconds.
    pub(crate) affinity: Option<u64>,
    pub(crate) ports: Vec<PortInfo>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PortInfo {
    pub(crate) name: String,
    pub(crate) protocol: String,
    pub(crate) port: u16,
}

/// One address behind a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) ip: Ipv4Addr,
    pub(crate) ready: bool,
    pub(crate) hostname: Option<String>,
    pub(crate) ports: Vec<PortInfo>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Data {
    A(Ipv4Addr),
    Cname(String),
    Ptr(String),
    Srv { port: u16, target: String },
}

/// Record type of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    A,
    Srv,
    Ptr,
    Any,
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The name exists; no records means NODATA.
    Found(Vec<Data>),
    /// The name does not exist.
    NxDomain,
    /// The name is outside of the cluster domain.
    Outside,
}

fn key(metadata: &kube::core::ObjectMeta) -> Key {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

impl Zone {
    pub(crate) fn new(domain: String) -> Self {
        Self { domain, ..Self::default() }
    }

    pub(crate) fn set_service(&mut self, service: &Service) {
        let spec = service.spec.clone().unwrap_or_default();
        let ports = spec.ports.unwrap_or_default().into_iter().filter_map(|port| {
            Some(PortInfo {
                name: port.name.unwrap_or_default(),
                protocol: port.protocol.unwrap_or_else(|| "TCP".to_owned()),
                port: u16::try_from(port.port).ok()?,
            })
        });
        let sticky = spec.session_affinity.as_deref() == Some("ClientIP");
        let timeout = spec.session_affinity_config.and_then(|config| config.client_ip?.timeout_seconds);
        let external = spec.type_.as_deref() == Some("ExternalName");
        let info = ServiceInfo {
            ip: spec.cluster_ip.and_then(|ip| ip.parse().ok()),
            external_name: spec.external_name.filter(|_| external),
            publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
            affinity: sticky.then(|| u64::try_from(timeout.unwrap_or(10_800)).unwrap_or(10_800)),
            ports: ports.collect(),
        };
        self.services.insert(key(&service.metadata), info);
    }

    pub(crate) fn remove_service(&mut self, service: &Service) {
        self.services.remove(&key(&service.metadata));
    }

    pub(crate) fn set_slice(&mut self, slice: &EndpointSlice) {
        let labels = slice.metadata.labels.as_ref();
        let Some(service) = labels.and_then(|labels| labels.get("kubernetes.io/service-name")) else {
            self.remove_slice(slice);
            return;
        };
        let ports: Vec<PortInfo> = slice.ports.iter().flatten().filter_map(port_of_slice).collect();
        let targets = slice.endpoints.iter().flatten().flat_map(|endpoint| targets_of(endpoint, &ports));
        self.slices.insert(key(&slice.metadata), (service.clone(), targets.collect()));
    }

    pub(crate) fn remove_slice(&mut self, slice: &EndpointSlice) {
        self.slices.remove(&key(&slice.metadata));
    }

    pub(crate) fn clear_services(&mut self) {
        self.services.clear();
    }

    pub(crate) fn clear_slices(&mut self) {
        self.slices.clear();
    }

    /// Every endpoint of a Service, ready or not.
    pub(crate) fn targets<'a>(&'a self, service: &'a Key) -> impl Iterator<Item = &'a Target> {
        let range = self.slices.iter().filter(move |((namespace, _), _)| *namespace == service.0);
        range.filter(move |(_, (owner, _))| *owner == service.1).flat_map(|(_, (_, targets))| targets)
    }

    /// The reachable addresses of a port of a Service; with `all`, including those that are not ready.
    pub(crate) fn endpoints(&self, service: &Key, port: &PortInfo, all: bool) -> Vec<SocketAddrV4> {
        let publish = self.services.get(service).is_some_and(|info| info.publish_not_ready);
        let mut found = Vec::new();
        for target in self.targets(service).filter(|target| all || publish || target.ready) {
            let same =
                |candidate: &&PortInfo| candidate.name == port.name && candidate.protocol == port.protocol;
            if let Some(candidate) = target.ports.iter().find(same) {
                found.push(SocketAddrV4::new(target.ip, candidate.port));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    pub(crate) fn lookup(&self, name: &str, kind: Kind) -> Answer {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if let Some(reverse) = name.strip_suffix(".in-addr.arpa") {
            return self.reverse(reverse, kind);
        }
        if name == HOST {
            return found_addresses(vec![NODE_IP], kind);
        }
        if name == self.domain {
            return Answer::Found(Vec::new());
        }
        let Some(inside) = name.strip_suffix(&self.domain).and_then(|rest| rest.strip_suffix('.')) else {
            return Answer::Outside;
        };
        let labels: Vec<&str> = inside.split('.').collect();
        match labels.as_slice() {
            ["svc" | "pod"] => Answer::Found(Vec::new()),
            [namespace, "svc"] => self.exists_if(self.services.keys().any(|(other, _)| other == namespace)),
            [rest @ .., service, namespace, "svc"] => self.service(service, namespace, rest, kind),
            [address, _, "pod"] => match address.replace('-', ".").parse::<Ipv4Addr>() {
                Ok(ip) => found_addresses(vec![ip], kind),
                Err(_) => Answer::NxDomain,
            },
            _ => Answer::NxDomain,
        }
    }

    fn exists_if(&self, exists: bool) -> Answer {
        if exists { Answer::Found(Vec::new()) } else { Answer::NxDomain }
    }

    fn service(&self, service: &str, namespace: &str, rest: &[&str], kind: Kind) -> Answer {
        let key = (namespace.to_owned(), service.to_owned());
        let Some(info) = self.services.get(&key) else { return Answer::NxDomain };
        if let (Some(external), []) = (&info.external_name, rest) {
            return Answer::Found(vec![Data::Cname(format!("{external}."))]);
        }
        let full = format!("{service}.{namespace}.svc.{}.", self.domain);
        let published = || self.targets(&key).filter(|target| info.publish_not_ready || target.ready);
        match rest {
            [] => match info.ip {
                Some(ip) => found_addresses(vec![ip], kind),
                None => found_addresses(published().map(|target| target.ip).collect(), kind),
            },
            [protocol @ ("_tcp" | "_udp")] => {
                self.exists_if(info.ports.iter().any(|port| is_protocol(port, protocol)))
            }
            [port_name, protocol @ ("_tcp" | "_udp")] => {
                let wanted = port_name.strip_prefix('_').unwrap_or("");
                let named = |port: &&PortInfo| {
                    !wanted.is_empty() && port.name == wanted && is_protocol(port, protocol)
                };
                let Some(port) = info.ports.iter().find(named) else { return Answer::NxDomain };
                if !matches!(kind, Kind::Srv | Kind::Any) {
                    return Answer::Found(Vec::new());
                }
                if info.ip.is_some() {
                    return Answer::Found(vec![Data::Srv { port: port.port, target: full }]);
                }
                let records = published().filter_map(|target| {
                    let port = target.ports.iter().find(named)?.port;
                    Some(Data::Srv { port, target: format!("{}.{full}", endpoint_label(target)) })
                });
                Answer::Found(sorted(records.collect()))
            }
            [label] => {
                let addresses: Vec<Ipv4Addr> = published()
                    .filter(|target| endpoint_label(target) == *label)
                    .map(|target| target.ip)
                    .collect();
                if addresses.is_empty() { Answer::NxDomain } else { found_addresses(addresses, kind) }
            }
            _ => Answer::NxDomain,
        }
    }

    fn reverse(&self, reverse: &str, kind: Kind) -> Answer {
        let numbers: Vec<&str> = reverse.rsplit('.').collect();
        let Ok(ip) = numbers.join(".").parse::<Ipv4Addr>() else {
            return if matches!(numbers.first(), Some(&"10")) { Answer::NxDomain } else { Answer::Outside };
        };
        let [10, 96 | 244, ..] = ip.octets() else { return Answer::Outside };
        let mut names: Vec<Data> = Vec::new();
        for ((namespace, service), info) in &self.services {
            let full = format!("{service}.{namespace}.svc.{}.", self.domain);
            if info.ip == Some(ip) {
                names.push(Data::Ptr(full));
                continue;
            }
            let key = (namespace.clone(), service.clone());
            for target in self.targets(&key).filter(|target| target.ip == ip) {
                // Without a hostname an endpoint has a name only in a headless Service.
                if target.hostname.is_some() || info.ip.is_none() {
                    names.push(Data::Ptr(format!("{}.{full}", endpoint_label(target))));
                }
            }
        }
        // Names that a pod chose come first, because certificates contain them.
        names.sort_by_key(
            |name| matches!(name, Data::Ptr(text) if text.starts_with(|c: char| c.is_ascii_digit())),
        );
        names.dedup();
        match kind {
            _ if names.is_empty() => Answer::NxDomain,
            Kind::Ptr | Kind::Any => Answer::Found(names),
            _ => Answer::Found(Vec::new()),
        }
    }
}

fn is_protocol(port: &PortInfo, label: &str) -> bool {
    label[1..].eq_ignore_ascii_case(&port.protocol)
}

fn endpoint_label(target: &Target) -> String {
    target.hostname.clone().unwrap_or_else(|| target.ip.to_string().replace('.', "-"))
}

fn found_addresses(addresses: Vec<Ipv4Addr>, kind: Kind) -> Answer {
    match kind {
        Kind::A | Kind::Any => {
            let unique: BTreeSet<Ipv4Addr> = addresses.into_iter().collect();
            Answer::Found(unique.into_iter().map(Data::A).collect())
        }
        _ => Answer::Found(Vec::new()),
    }
}

fn sorted(mut data: Vec<Data>) -> Vec<Data> {
    data.sort();
    data.dedup();
    data
}

fn port_of_slice(port: &k8s_openapi::api::discovery::v1::EndpointPort) -> Option<PortInfo> {
    Some(PortInfo {
        name: port.name.clone().unwrap_or_default(),
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        port: u16::try_from(port.port?).ok()?,
    })
}

fn targets_of(endpoint: &Endpoint, ports: &[PortInfo]) -> Vec<Target> {
    let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true);
    let addresses = endpoint.addresses.iter().filter_map(|address| address.parse().ok());
    addresses
        .map(|ip| Target { ip, ready, hostname: endpoint.hostname.clone(), ports: ports.to_vec() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn zone() -> Zone {
        let mut zone = Zone { domain: "cluster.local".to_owned(), ..Zone::default() };
        let service = |value| from_value::<Service>(value).unwrap();
        zone.set_service(&service(json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"clusterIP": "10.96.7.7", "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
        })));
        zone.set_service(&service(json!({
            "metadata": {"name": "etcd", "namespace": "shop"},
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "ports": [{"name": "peer", "port": 2380}]},
        })));
        zone.set_service(&service(json!({
            "metadata": {"name": "away", "namespace": "shop"},
            "spec": {"type": "ExternalName", "externalName": "example.org"},
        })));
        let slice = |value| from_value::<EndpointSlice>(value).unwrap();
        zone.set_slice(&slice(json!({
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
            "endpoints": [
                {"addresses": ["10.244.0.5"], "conditions": {"ready": true}},
                {"addresses": ["10.244.0.6"], "conditions": {"ready": false}},
            ],
        })));
        zone.set_slice(&slice(json!({
            "metadata": {"name": "etcd-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "etcd"}},
            "addressType": "IPv4", "ports": [{"name": "peer", "port": 2380}],
            "endpoints": [
                {"addresses": ["10.244.0.7"], "hostname": "m-0", "conditions": {"ready": false}},
                {"addresses": ["10.244.0.8"], "conditions": {"ready": true}},
            ],
        })));
        zone
    }

    fn a(parts: [u8; 4]) -> Data {
        Data::A(Ipv4Addr::from(parts))
    }

    #[test]
    fn the_host_has_a_name_outside_of_the_cluster_domain() {
        let zone = zone();
        assert_eq!(zone.lookup("Host.olm.internal.", Kind::A), Answer::Found(vec![Data::A(NODE_IP)]));
        assert_eq!(zone.lookup("host.olm.internal", Kind::Other), Answer::Found(Vec::new()));
        // Resolvers try the search domains of a pod first.
        let searched = "host.olm.internal.shop.svc.cluster.local";
        assert_eq!(zone.lookup(searched, Kind::A), Answer::NxDomain);
        assert_eq!(zone.lookup("olm.internal", Kind::A), Answer::Outside);
    }

    #[test]
    fn a_service_answers_with_its_cluster_ip_and_a_headless_one_with_its_pods() {
        let zone = zone();
        assert_eq!(
            zone.lookup("web.shop.svc.cluster.local.", Kind::A),
            Answer::Found(vec![a([10, 96, 7, 7])])
        );
        assert_eq!(
            zone.lookup("ETCD.shop.svc.cluster.local.", Kind::A),
            Answer::Found(vec![a([10, 244, 0, 7]), a([10, 244, 0, 8])])
        );
        assert_eq!(
            zone.lookup("m-0.etcd.shop.svc.cluster.local.", Kind::A),
            Answer::Found(vec![a([10, 244, 0, 7])])
        );
        assert_eq!(
            zone.lookup("away.shop.svc.cluster.local.", Kind::A),
            Answer::Found(vec![Data::Cname("example.org.".to_owned())])
        );
    }

    #[test]
    fn a_name_without_data_is_not_a_name_that_does_not_exist() {
        let zone = zone();
        assert_eq!(zone.lookup("web.shop.svc.cluster.local.", Kind::Other), Answer::Found(vec![]));
        assert_eq!(zone.lookup("shop.svc.cluster.local.", Kind::A), Answer::Found(vec![]));
        assert_eq!(zone.lookup("nope.shop.svc.cluster.local.", Kind::A), Answer::NxDomain);
        assert_eq!(
            zone.lookup("web.shop.svc.cluster.local.shop.svc.cluster.local.", Kind::A),
            Answer::NxDomain
        );
        assert_eq!(zone.lookup("m-1.etcd.shop.svc.cluster.local.", Kind::A), Answer::NxDomain);
        assert_eq!(zone.lookup("example.org.", Kind::A), Answer::Outside);
        assert_eq!(zone.lookup("notcluster.local.", Kind::A), Answer::Outside);
    }

    #[test]
    fn named_ports_have_srv_records() {
        let zone = zone();
        assert_eq!(
            zone.lookup("_http._tcp.web.shop.svc.cluster.local.", Kind::Srv),
            Answer::Found(vec![Data::Srv { port: 80, target: "web.shop.svc.cluster.local.".to_owned() }])
        );
        assert_eq!(
            zone.lookup("_peer._tcp.etcd.shop.svc.cluster.local.", Kind::Srv),
            Answer::Found(vec![
                Data::Srv { port: 2380, target: "10-244-0-8.etcd.shop.svc.cluster.local.".to_owned() },
                Data::Srv { port: 2380, target: "m-0.etcd.shop.svc.cluster.local.".to_owned() },
            ])
        );
        assert_eq!(zone.lookup("_x._tcp.web.shop.svc.cluster.local.", Kind::Srv), Answer::NxDomain);
    }

    #[test]
    fn addresses_have_names_when_the_pod_has_one() {
        let zone = zone();
        let ptr = |text: &str| Answer::Found(vec![Data::Ptr(text.to_owned())]);
        assert_eq!(
            zone.lookup("7.0.244.10.in-addr.arpa.", Kind::Ptr),
            ptr("m-0.etcd.shop.svc.cluster.local.")
        );
        assert_eq!(zone.lookup("7.7.96.10.in-addr.arpa.", Kind::Ptr), ptr("web.shop.svc.cluster.local."));
        assert_eq!(zone.lookup("5.0.244.10.in-addr.arpa.", Kind::Ptr), Answer::NxDomain);
        assert_eq!(zone.lookup("1.1.1.1.in-addr.arpa.", Kind::Ptr), Answer::Outside);
    }

    #[test]
    fn only_ready_endpoints_serve_unless_the_service_publishes_others() {
        let zone = zone();
        let port = PortInfo { name: "http".to_owned(), protocol: "TCP".to_owned(), port: 80 };
        let web = ("shop".to_owned(), "web".to_owned());
        assert_eq!(zone.endpoints(&web, &port, false), ["10.244.0.5:8080".parse().unwrap()]);
        assert_eq!(zone.endpoints(&web, &port, true).len(), 2);
    }
}
