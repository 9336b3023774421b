//! The two Services of a cluster: one for clients, one for the DNS names of members.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;

use crate::names::{self, CLIENT_PORT, PEER_PORT};
use crate::observed::Observed;
use crate::plan;
use crate::validate::Validated;

/// `by_label`: the Service for clients selects only pods with the label [`names::LABEL_SERVING`].
pub(crate) fn services(cluster: &Validated, by_label: bool) -> [Service; 2] {
    let mut clients =
        service(cluster, names::client_service(&cluster.name), false, &[("client", CLIENT_PORT)]);
    if by_label {
        let selector = clients.spec.as_mut().and_then(|spec| spec.selector.as_mut());
        selector.map(|selector| selector.insert(names::LABEL_SERVING.into(), names::SERVING.into()));
    }
    [
        // Headless and including members that are not ready: a member needs its own name to become ready.
        service(cluster, cluster.name.clone(), true, &[("client", CLIENT_PORT), ("peer", PEER_PORT)]),
        clients,
    ]
}

/// Whether the Service for clients can select pods by label without losing one that serves. Once it does, it
/// keeps doing so: a pod without the label gets it in the next reconciliation.
pub(crate) fn by_label(found: Option<&Service>, observed: &Observed) -> bool {
    let selects = |service: &Service| {
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        selector.is_some_and(|selector| selector.contains_key(names::LABEL_SERVING))
    };
    match found {
        Some(service) => selects(service) || plan::labels_propagated(observed),
        None => plan::labelled(observed),
    }
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
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::observed::{PodView, Serving};
    use crate::validate::{tests::cluster, validate};

    #[test]
    fn only_the_headless_one_publishes_members_that_are_not_ready() {
        let cluster = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
        let [peer, client] = services(&cluster, true);
        assert_eq!(peer.metadata.name.as_deref(), Some("orders"));
        assert_eq!(client.metadata.name.as_deref(), Some("orders-client"));
        let (peer_spec, client_spec) = (peer.spec.clone().unwrap(), client.spec.clone().unwrap());
        assert_eq!(peer_spec.cluster_ip.as_deref(), Some("None"));
        assert_eq!(peer_spec.publish_not_ready_addresses, Some(true));
        assert_eq!((client_spec.cluster_ip, client_spec.publish_not_ready_addresses), (None, None));
        assert!(serves(&peer, &peer) && !serves(&peer, &client));
    }

    #[test]
    fn clients_are_selected_by_label_once_every_pod_has_had_it_for_a_while() {
        // given the Service of an older operator, and its pods
        let cluster = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
        let [[_, old], [_, new]] = [services(&cluster, false), services(&cluster, true)];
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let pod = |serving: Serving, seconds: i64| PodView {
            serving,
            serving_since: Some(now - SignedDuration::from_secs(seconds)),
            ..PodView::default()
        };
        let observed = |pods: &[PodView]| Observed { now, pods: pods.to_vec(), ..Observed::default() };
        let (fresh, labelled) = (pod(Serving::In, 1), pod(Serving::In, 60));
        let unlabelled = pod(Serving::Unlabelled, 60);
        let gone = PodView { deleting: true, ..unlabelled.clone() };
        // pods; with the old Service, without a Service, with the new one
        for (pods, expected) in [
            (vec![], [true, true, true]),
            (vec![labelled.clone(), unlabelled], [false, false, true]),
            (vec![labelled.clone(), fresh], [false, true, true]),
            (vec![labelled.clone(), pod(Serving::Out, 60), gone], [true, true, true]),
        ] {
            let observed = observed(&pods);
            let found = [Some(&old), None, Some(&new)].map(|found| by_label(found, &observed));
            assert_eq!(found, expected, "{pods:?}");
        }
        assert!(!serves(&old, &new));
    }
}
