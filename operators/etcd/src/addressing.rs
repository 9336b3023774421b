//! How members are found: by DNS among themselves, by the address of the pod from the operator. An operator outside of
//! the cluster's DNS still works, and tests put members on loopback addresses.

use crate::names::{CLIENT_PORT, PEER_PORT, is_member_name};
use crate::observed::PodView;
use crate::validate::Validated;

/// Where members are.
pub trait Addressing: Send + Sync {
    /// The URL under which other members find it.
    fn peer_url(&self, cluster: &Validated, member: &str) -> String;
    /// The URL that it tells clients.
    fn client_url(&self, cluster: &Validated, member: &str) -> String;
    /// Which member a peer URL belongs to; none when it is not one of ours.
    fn member(&self, cluster: &Validated, peer_url: &str) -> Option<String>;
    /// Where the operator talks to it: host and port.
    fn endpoint(&self, pod: &PodView) -> Option<String>;
}

/// Pods in a Kubernetes cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct InCluster;

impl InCluster {
    fn host(cluster: &Validated, member: &str) -> String {
        format!("{member}.{}.{}.svc{}", cluster.name, cluster.namespace, cluster.domain)
    }
}

impl Addressing for InCluster {
    fn peer_url(&self, cluster: &Validated, member: &str) -> String {
        format!("{}://{}:{PEER_PORT}", cluster.tls.peer_scheme(), Self::host(cluster, member))
    }

    fn client_url(&self, cluster: &Validated, member: &str) -> String {
        format!("{}://{}:{CLIENT_PORT}", cluster.tls.client_scheme(), Self::host(cluster, member))
    }

    fn member(&self, cluster: &Validated, peer_url: &str) -> Option<String> {
        let host = peer_url.split_once("://")?.1.rsplit_once(':')?.0;
        let (name, rest) = host.split_once('.')?;
        // Whatever domain it was made with: a changed `ClusterDomain` must not turn members into strangers.
        let ours = rest.starts_with(&format!("{}.{}.svc", cluster.name, cluster.namespace));
        (ours && is_member_name(&cluster.name, name)).then(|| name.to_owned())
    }

    fn endpoint(&self, pod: &PodView) -> Option<String> {
        let ip = pod.ip.as_deref()?;
        Some(if ip.contains(':') { format!("[{ip}]:{CLIENT_PORT}") } else { format!("{ip}:{CLIENT_PORT}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::{tests::cluster, validate};

    #[test]
    fn a_member_is_told_from_its_peer_url() {
        let cluster = validate(&cluster(serde_json::json!({ "size": 1 }))).unwrap();
        let url = InCluster.peer_url(&cluster, "orders-bcdfghjklm");
        assert_eq!(url, "http://orders-bcdfghjklm.orders.shop.svc:2380");
        assert_eq!(InCluster.member(&cluster, &url).as_deref(), Some("orders-bcdfghjklm"));
        for stranger in [
            "http://10.0.0.1:2380",
            "http://x.orders.shop.svc:2380",
            "http://orders-bcdfghjklm.other.shop.svc:2380",
        ] {
            assert_eq!(InCluster.member(&cluster, stranger), None, "{stranger}");
        }
    }

    #[test]
    fn endpoints_are_pod_addresses() {
        let pod = PodView { ip: Some("fd00::1".into()), ..PodView::default() };
        assert_eq!(InCluster.endpoint(&pod).as_deref(), Some("[fd00::1]:2379"));
    }
}
