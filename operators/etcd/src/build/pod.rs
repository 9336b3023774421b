//! The pod of a member. Nothing here is ever compared with pods that exist: a new operator leaves them as they are.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EmptyDirVolumeSource, HTTPGetAction, Pod, PodSpec, Probe, TCPSocketAction,
    Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;

use crate::addressing::Addressing;
use crate::names::{self, CLIENT_PORT, METRICS_PORT, PEER_PORT};
use crate::validate::Validated;

const DATA_VOLUME: &str = "etcd-data";
const DATA_MOUNT: &str = "/var/etcd";
/// The folder of etcd inside of the volume.
pub const DATA_DIR: &str = "/var/etcd/data";

/// A member to start.
pub(crate) struct Member<'a> {
    pub(crate) name: &'a str,
    /// It starts a new cluster; otherwise it joins one.
    pub(crate) seed: bool,
    /// Names and peer URLs of all members, itself included.
    pub(crate) initial_cluster: &'a [(String, String)],
    pub(crate) version: &'a str,
}

pub(crate) fn pod(cluster: &Validated, member: &Member<'_>, addressing: &dyn Addressing) -> Pod {
    let shape = &cluster.pod;
    let mut labels = shape.labels.clone();
    labels.extend(names::cluster_labels(&cluster.name));
    labels.insert(names::LABEL_NODE.into(), member.name.into());
    let mut annotations = shape.annotations.clone();
    annotations.insert(names::ANNOTATION_VERSION.into(), member.version.into());
    Pod {
        metadata: ObjectMeta {
            name: Some(member.name.into()),
            namespace: Some(cluster.namespace.clone()),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![cluster.owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            hostname: Some(member.name.into()),
            subdomain: Some(cluster.name.clone()),
            // A process that ends is started again with its data; the predecessor threw the data away.
            restart_policy: Some("Always".into()),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            termination_grace_period_seconds: Some(5),
            node_selector: shape.node_selector.clone(),
            affinity: shape.affinity.clone(),
            tolerations: shape.tolerations.clone(),
            security_context: shape.security_context.clone(),
            containers: vec![container(cluster, member, addressing)],
            volumes: Some(vec![Volume {
                name: DATA_VOLUME.into(),
                empty_dir: Some(EmptyDirVolumeSource::default()),
                ..Volume::default()
            }]),
            ..PodSpec::default()
        }),
        status: None,
    }
}

fn container(cluster: &Validated, member: &Member<'_>, addressing: &dyn Addressing) -> Container {
    let port = |name: &str, number: u16| ContainerPort {
        name: Some(name.into()),
        container_port: number.into(),
        protocol: Some("TCP".into()),
        ..ContainerPort::default()
    };
    let tcp = Some(TCPSocketAction { port: IntOrString::Int(CLIENT_PORT.into()), host: None });
    Container {
        name: "etcd".into(),
        image: Some(format!("{}:v{}", cluster.repository, member.version)),
        image_pull_policy: Some("IfNotPresent".into()),
        command: Some(command(cluster, member, addressing)),
        env: (!cluster.pod.env.is_empty()).then(|| cluster.pod.env.clone()),
        ports: Some(vec![
            port("server", PEER_PORT),
            port("client", CLIENT_PORT),
            port("metrics", METRICS_PORT),
        ]),
        resources: cluster.pod.resources.clone(),
        volume_mounts: Some(vec![VolumeMount {
            name: DATA_VOLUME.into(),
            mount_path: DATA_MOUNT.into(),
            ..VolumeMount::default()
        }]),
        // Opening the port may take long while a learner receives a snapshot.
        startup_probe: Some(Probe {
            tcp_socket: tcp.clone(),
            period_seconds: Some(1),
            failure_threshold: Some(600),
            ..Probe::default()
        }),
        // Must not need the quorum: else losing it would restart every member.
        liveness_probe: Some(Probe {
            tcp_socket: tcp,
            period_seconds: Some(10),
            timeout_seconds: Some(5),
            failure_threshold: Some(6),
            ..Probe::default()
        }),
        // Needs the quorum: a member without it, or without a vote, gets no clients.
        readiness_probe: Some(Probe {
            http_get: Some(HTTPGetAction {
                path: Some("/health?exclude=NOSPACE".into()),
                port: IntOrString::Int(METRICS_PORT.into()),
                ..HTTPGetAction::default()
            }),
            period_seconds: Some(1),
            timeout_seconds: Some(3),
            failure_threshold: Some(3),
            ..Probe::default()
        }),
        ..Container::default()
    }
}

fn command(cluster: &Validated, member: &Member<'_>, addressing: &dyn Addressing) -> Vec<String> {
    let initial: Vec<String> =
        member.initial_cluster.iter().map(|(name, url)| format!("{name}={url}")).collect();
    let mut command = vec![
        "/usr/local/bin/etcd".into(),
        format!("--data-dir={DATA_DIR}"),
        format!("--name={}", member.name),
        format!("--initial-advertise-peer-urls={}", addressing.peer_url(cluster, member.name)),
        format!("--listen-peer-urls=http://0.0.0.0:{PEER_PORT}"),
        format!("--listen-client-urls=http://0.0.0.0:{CLIENT_PORT}"),
        format!("--advertise-client-urls={}", addressing.client_url(cluster, member.name)),
        format!("--listen-metrics-urls=http://0.0.0.0:{METRICS_PORT}"),
        format!("--initial-cluster={}", initial.join(",")),
        format!("--initial-cluster-state={}", if member.seed { "new" } else { "existing" }),
        // The default since 3.5: a member that comes back does not disturb the leader.
        "--pre-vote=true".into(),
    ];
    if member.seed {
        command.push(format!("--initial-cluster-token={}", cluster.uid));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addressing::InCluster;
    use crate::validate::{tests::cluster, validate};

    fn built(seed: bool) -> Pod {
        let cluster = validate(&cluster(serde_json::json!({
            "size": 3, "pod": { "labels": { "team": "blue" }, "annotations": { "a": "b" },
                                "etcdEnv": [{ "name": "ETCD_HEARTBEAT_INTERVAL", "value": "50" }] }
        })))
        .unwrap();
        let name = "orders-bcdfghjklm";
        let initial = [(name.to_owned(), InCluster.peer_url(&cluster, name))];
        pod(&cluster, &Member { name, seed, initial_cluster: &initial, version: "3.4.23" }, &InCluster)
    }

    #[test]
    fn names_and_labels_are_those_of_the_predecessor() {
        let pod = built(true);
        let labels = pod.metadata.labels.unwrap();
        assert_eq!(labels["app"], "etcd");
        assert_eq!(labels["etcd_node"], "orders-bcdfghjklm");
        assert_eq!(labels["etcd_cluster"], "orders");
        assert_eq!(labels["team"], "blue");
        assert_eq!(pod.metadata.annotations.unwrap()["etcd.version"], "3.4.23");
        let spec = pod.spec.unwrap();
        assert_eq!(
            (spec.hostname.as_deref(), spec.subdomain.as_deref()),
            (Some("orders-bcdfghjklm"), Some("orders"))
        );
        assert_eq!(spec.containers[0].image.as_deref(), Some("quay.io/coreos/etcd:v3.4.23"));
        assert!(spec.init_containers.is_none());
    }

    #[test]
    fn only_the_seed_starts_a_new_cluster_under_a_token_of_its_own() {
        let command = |seed| built(seed).spec.unwrap().containers[0].command.clone().unwrap();
        assert!(command(true).contains(&"--initial-cluster-state=new".to_owned()));
        assert!(command(true).contains(&"--initial-cluster-token=u-1".to_owned()));
        assert!(command(false).contains(&"--initial-cluster-state=existing".to_owned()));
        assert!(!command(false).iter().any(|arg| arg.starts_with("--initial-cluster-token")));
    }
}
