//! The two Services of a cluster: one for clients, one for the DNS names of members.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;

use crate::names::{self, CLIENT_PORT, PEER_PORT};
use crate::validate::Validated;

pub(crate) fn services(cluster: &Validated) -> [Service; 2] {
    [
        // Headless and including members that are not ready: a member needs its own name to become ready.
        service(cluster, cluster.name.clone(), true, &[("client", CLIENT_PORT), ("peer", PEER_PORT)]),
        service(cluster, names::client_service(&cluster.name), false, &[("client", CLIENT_PORT)]),
    ]
}

fn service(cluster: &Validated, name: String, headless: bool, ports: &[(&str, u16)]) -> Service {
    let port = |(name, number): &(&str, u16)| ServicePort {
        name: Some((*name).into()),
        port: (*number).into(),
        target_port: Some(IntOrString::Int((*number).into())),
        protocol: Some("TCP".into()),
        ..ServicePort::default()
    };
    Service {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(cluster.namespace.clone()),
            labels: Some(names::cluster_labels(&cluster.name)),
            owner_references: Some(vec![cluster.owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            cluster_ip: headless.then(|| "None".into()),
            publish_not_ready_addresses: headless.then_some(true),
            selector: Some(names::cluster_labels(&cluster.name)),
            ports: Some(ports.iter().map(port).collect()),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Whether an existing Service provides what the wanted one does. Additions of others are left unchanged.
pub(crate) fn serves(found: &Service, wanted: &Service) -> bool {
    let essence = |service: &Service| {
        let spec = service.spec.clone().unwrap_or_default();
        let ports: Vec<_> =
            spec.ports.into_iter().flatten().map(|p| (p.name, p.port, p.target_port)).collect();
        (spec.selector, ports, spec.publish_not_ready_addresses.unwrap_or_default())
    };
    essence(found) == essence(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::{tests::cluster, validate};

    #[test]
    fn only_the_headless_one_publishes_members_that_are_not_ready() {
        let cluster = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
        let [peer, client] = services(&cluster);
        assert_eq!(peer.metadata.name.as_deref(), Some("orders"));
        assert_eq!(client.metadata.name.as_deref(), Some("orders-client"));
        let (peer_spec, client_spec) = (peer.spec.clone().unwrap(), client.spec.clone().unwrap());
        assert_eq!(peer_spec.cluster_ip.as_deref(), Some("None"));
        assert_eq!(peer_spec.publish_not_ready_addresses, Some(true));
        assert_eq!((client_spec.cluster_ip, client_spec.publish_not_ready_addresses), (None, None));
        assert!(serves(&peer, &peer) && !serves(&peer, &client));
    }
}
