//! Addresses of members: DNS names between members, pod addresses from the operator. So an operator outside
//! of the cluster's DNS works, and tests put members on loopback addresses.

use crate::names::{CLIENT_PORT, PEER_PORT, is_member_name};
use crate::observed::PodView;
use crate::validate::Validated;

pub trait Addressing: Send + Sync {
    /// The peer URL of a member, for other members.
    fn peer_url(&self, cluster: &Validated, member: &str) -> String;
    /// The URL that a member advertises to clients.
    fn client_url(&self, cluster: &Validated, member: &str) -> String;
    /// The member that a peer URL belongs to, if the operator created it.
    fn member(&self, cluster: &Validated, peer_url: &str) -> Option<String>;
    /// Host and port that the operator connects to.
    fn endpoint(&self, pod: &PodView) -> Option<String>;
}

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
        // Any domain is accepted: after a change of `ClusterDomain` the existing members still belong to the
        // cluster.
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
    fn a_member_is_identified_by_its_peer_url() {
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
