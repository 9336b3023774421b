//! The pod of a member. It is never compared with existing pods: a new operator leaves them unchanged.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource, HTTPGetAction,
    Lifecycle, LifecycleHandler, ObjectFieldSelector, PersistentVolumeClaimVolumeSource, Pod, PodSpec, Probe,
    SeccompProfile, SleepAction, TCPSocketAction, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;

use crate::addressing::Addressing;
use crate::names::{self, CLIENT_PORT, METRICS_PORT, PEER_PORT};
use crate::tls;
use crate::validate::Validated;

pub(crate) const CONTAINER: &str = "etcd";
const DATA_VOLUME: &str = "etcd-data";
const DATA_MOUNT: &str = "/var/etcd";
/// etcd serves on for this long after the deletion of its pod begins: clients are sent to it until kube-proxy
/// follows, also when a node is drained.
const DRAIN_SECONDS: i64 = 5;
/// Then it has this long to stop.
const STOP_SECONDS: i64 = 5;
/// Data directory of etcd inside the volume.
pub const DATA_DIR: &str = "/var/etcd/data";

/// Variables of etcd that users must not set: those of the flags and variables below, with which etcd does
/// not start or starts another cluster, and those that would replace them. A test compares the list with the
/// built pods.
pub(crate) const RESERVED_VARIABLES: [&str; 27] = [
    "ETCD_ADVERTISE_CLIENT_URLS",
    "ETCD_CERT_FILE",
    "ETCD_CLIENT_CERT_AUTH",
    "ETCD_CONFIG_FILE",
    "ETCD_DATA_DIR",
    "ETCD_DISCOVERY",
    "ETCD_DISCOVERY_SRV",
    "ETCD_EXPERIMENTAL_PEER_SKIP_CLIENT_SAN_VERIFICATION",
    "ETCD_FORCE_NEW_CLUSTER",
    "ETCD_INITIAL_ADVERTISE_PEER_URLS",
    "ETCD_INITIAL_CLUSTER",
    "ETCD_INITIAL_CLUSTER_STATE",
    "ETCD_INITIAL_CLUSTER_TOKEN",
    "ETCD_KEY_FILE",
    "ETCD_LISTEN_CLIENT_URLS",
    "ETCD_LISTEN_METRICS_URLS",
    "ETCD_LISTEN_PEER_URLS",
    "ETCD_NAME",
    "ETCD_PEER_CERT_FILE",
    "ETCD_PEER_CLIENT_CERT_AUTH",
    "ETCD_PEER_KEY_FILE",
    "ETCD_PEER_SKIP_CLIENT_SAN_VERIFICATION",
    "ETCD_PEER_TRUSTED_CA_FILE",
    "ETCD_PRE_VOTE",
    "ETCD_PROXY",
    "ETCD_TRUSTED_CA_FILE",
    "ETCD_WAL_DIR",
];

/// A member to start.
pub(crate) struct Member<'a> {
    pub(crate) name: &'a str,
    /// Bootstraps a new cluster; otherwise it joins one.
    pub(crate) seed: bool,
    /// Names and peer URLs of all members, itself included. A returning member gets only itself: with its
    /// data it has the member list, and without its data etcd finds no peer and does not start.
    pub(crate) initial_cluster: &'a [(String, String)],
    pub(crate) version: &'a str,
    /// Its data is on the volume of the claim of the same name.
    pub(crate) volume: bool,
}

impl Member<'_> {
    fn state(&self) -> &'static str {
        if self.seed { "new" } else { "existing" }
    }
}

pub(crate) fn image(cluster: &Validated, version: &str) -> String {
    format!("{}:v{version}", cluster.repository)
}

/// The member list in the format of etcd's flag.
pub(crate) fn initial_cluster(members: &[(String, String)]) -> String {
    members.iter().map(|(name, url)| format!("{name}={url}")).collect::<Vec<_>>().join(",")
}

pub(crate) fn pod(cluster: &Validated, member: &Member<'_>, addressing: &dyn Addressing) -> Pod {
    let shape = &cluster.pod;
    let mut labels = shape.labels.clone();
    labels.extend(names::cluster_labels(&cluster.name));
    labels.insert(names::LABEL_NODE.into(), member.name.into());
    labels.insert(names::LABEL_SERVING.into(), names::SERVING.into());
    let mut annotations = shape.annotations.clone();
    annotations.insert(names::ANNOTATION_VERSION.into(), member.version.into());
    annotations.insert(names::ANNOTATION_INITIAL_CLUSTER.into(), initial_cluster(member.initial_cluster));
    annotations.insert(names::ANNOTATION_INITIAL_STATE.into(), member.state().into());
    let mut spec = PodSpec {
        hostname: Some(member.name.into()),
        subdomain: Some(cluster.name.clone()),
        // A terminated process restarts with its data; coreos/etcd-operator discarded the data.
        restart_policy: Some("Always".into()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(DRAIN_SECONDS + STOP_SECONDS),
        node_selector: shape.node_selector.clone(),
        affinity: shape.affinity.clone(),
        tolerations: shape.tolerations.clone(),
        security_context: shape.security_context.clone(),
        topology_spread_constraints: shape.spread.clone(),
        containers: vec![container(cluster, member, addressing)],
        volumes: Some(volumes(cluster, member)),
        ..PodSpec::default()
    };
    confine(&mut spec);
    Pod {
        metadata: ObjectMeta {
            name: Some(member.name.into()),
            namespace: Some(cluster.namespace.clone()),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![cluster.owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

/// The same for a Kubernetes before 1.30, which has no such hook and rejects it.
pub(crate) fn without_hook(mut pod: Pod) -> Pod {
    let containers = pod.spec.iter_mut().flat_map(|spec| &mut spec.containers);
    containers.for_each(|container| container.lifecycle = None);
    pod
}

/// Non-root members get everything that the Pod Security level `restricted` requires; such a process loses
/// nothing by it. Members that run as root, the default of etcd's image, stay unchanged.
pub(crate) fn confine(spec: &mut PodSpec) {
    let Some(pod) = spec.security_context.as_mut().filter(|pod| pod.run_as_non_root == Some(true)) else {
        return;
    };
    pod.seccomp_profile.get_or_insert_with(|| SeccompProfile {
        type_: "RuntimeDefault".into(),
        ..SeccompProfile::default()
    });
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        let own = container.security_context.get_or_insert_default();
        own.allow_privilege_escalation = Some(false);
        own.capabilities = Some(Capabilities { drop: Some(vec!["ALL".into()]), ..Capabilities::default() });
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
        name: CONTAINER.into(),
        image: Some(image(cluster, member.version)),
        image_pull_policy: Some("IfNotPresent".into()),
        command: Some(command(cluster, member, addressing)),
        env: Some(env(cluster)),
        ports: Some(vec![
            port("server", PEER_PORT),
            port("client", CLIENT_PORT),
            port("metrics", METRICS_PORT),
        ]),
        resources: cluster.pod.resources.clone(),
        // The end of the log has the cause of a termination: missing data or a full disk.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        volume_mounts: Some(mounts(cluster)),
        lifecycle: Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                sleep: Some(SleepAction { seconds: DRAIN_SECONDS }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        // Opening the port may take long while a learner receives a snapshot.
        startup_probe: Some(Probe {
            tcp_socket: tcp.clone(),
            period_seconds: Some(1),
            failure_threshold: Some(600),
            ..Probe::default()
        }),
        // Must not need the quorum: otherwise a quorum loss would restart every member.
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

/// Bootstrap flags come from annotations, which can change after the first start; arguments of a pod cannot.
fn env(cluster: &Validated) -> Vec<EnvVar> {
    let from_annotation = |name: &str, annotation: &str| EnvVar {
        name: name.into(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: Some("v1".into()),
                field_path: format!("metadata.annotations['{annotation}']"),
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    let ours = [
        from_annotation("ETCD_INITIAL_CLUSTER", names::ANNOTATION_INITIAL_CLUSTER),
        from_annotation("ETCD_INITIAL_CLUSTER_STATE", names::ANNOTATION_INITIAL_STATE),
    ];
    // For duplicate names the later variable counts.
    cluster.pod.env.iter().cloned().chain(ours).collect()
}

fn volumes(cluster: &Validated, member: &Member<'_>) -> Vec<Volume> {
    let claim = PersistentVolumeClaimVolumeSource { claim_name: member.name.into(), read_only: None };
    let data = Volume {
        name: DATA_VOLUME.into(),
        empty_dir: (!member.volume).then(EmptyDirVolumeSource::default),
        persistent_volume_claim: member.volume.then_some(claim),
        ..Volume::default()
    };
    std::iter::once(data).chain(tls::pod::volumes(&cluster.tls)).collect()
}

fn mounts(cluster: &Validated) -> Vec<VolumeMount> {
    let data =
        VolumeMount { name: DATA_VOLUME.into(), mount_path: DATA_MOUNT.into(), ..VolumeMount::default() };
    std::iter::once(data).chain(tls::pod::mounts(&cluster.tls)).collect()
}

fn command(cluster: &Validated, member: &Member<'_>, addressing: &dyn Addressing) -> Vec<String> {
    // In Go, the listen address 0.0.0.0 includes all addresses of IPv6.
    let mut command = vec![
        "/usr/local/bin/etcd".into(),
        format!("--data-dir={DATA_DIR}"),
        format!("--name={}", member.name),
        format!("--initial-advertise-peer-urls={}", addressing.peer_url(cluster, member.name)),
        format!("--listen-peer-urls={}://0.0.0.0:{PEER_PORT}", cluster.tls.peer_scheme()),
        format!("--listen-client-urls={}://0.0.0.0:{CLIENT_PORT}", cluster.tls.client_scheme()),
        format!("--advertise-client-urls={}", addressing.client_url(cluster, member.name)),
        format!("--listen-metrics-urls=http://0.0.0.0:{METRICS_PORT}"),
        // The default since 3.5: a returning member does not disturb the leader.
        "--pre-vote=true".into(),
    ];
    if member.seed {
        command.push(format!("--initial-cluster-token={}", cluster.uid));
    }
    if cluster.extensive_metrics {
        command.push("--metrics=extensive".into());
    }
    command.extend(tls::pod::flags(&cluster.tls, member.version));
    command.extend(cluster.goal.maintenance.flags());
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
        let member = Member { name, seed, initial_cluster: &initial, version: "3.4.23", volume: !seed };
        pod(&cluster, &member, &InCluster)
    }

    #[test]
    fn names_and_labels_are_those_of_the_predecessor() {
        let pod = built(true);
        let labels = pod.metadata.labels.unwrap();
        assert_eq!(labels["app"], "etcd");
        assert_eq!(labels["etcd_node"], "orders-bcdfghjklm");
        assert_eq!(labels["etcd_cluster"], "orders");
        assert_eq!(labels["team"], "blue");
        assert_eq!(labels["etcd_serving"], "true");
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
    fn etcd_serves_on_while_clients_leave_and_then_has_time_to_stop() {
        let spec = |pod: Pod| serde_json::to_value(pod.spec.unwrap()).unwrap();
        let made = spec(built(true));
        let hook = serde_json::json!({ "preStop": { "sleep": { "seconds": 5 } } });
        assert_eq!(made["containers"][0]["lifecycle"], hook);
        assert_eq!(made["terminationGracePeriodSeconds"], 10);
        assert_eq!(spec(without_hook(built(true)))["containers"][0].get("lifecycle"), None);
    }

    #[test]
    fn only_the_seed_starts_a_new_cluster_with_a_unique_token() {
        let state = |seed| built(seed).metadata.annotations.unwrap()[names::ANNOTATION_INITIAL_STATE].clone();
        let command = |seed| built(seed).spec.unwrap().containers[0].command.clone().unwrap();
        assert_eq!((state(true).as_str(), state(false).as_str()), ("new", "existing"));
        assert!(command(true).contains(&"--initial-cluster-token=u-1".to_owned()));
        assert!(!command(false).iter().any(|arg| arg.starts_with("--initial-cluster")));
        let env = built(true).spec.unwrap().containers[0].env.clone().unwrap();
        let names: Vec<&str> = env.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["ETCD_HEARTBEAT_INTERVAL", "ETCD_INITIAL_CLUSTER", "ETCD_INITIAL_CLUSTER_STATE"]);
    }

    #[test]
    fn every_field_of_a_policy_reaches_the_pod() {
        use serde_json::{Value, json};
        // given a policy with all fields
        let affinity = json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": 1, "preference": { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] } }] } });
        let tolerations = json!([{ "key": "etcd", "operator": "Exists", "effect": "NoSchedule" }]);
        let zones = json!({ "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule" });
        let nodes = json!({ "maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": { "matchLabels": { "team": "blue" } } });
        let context = json!({ "runAsUser": 9000, "fsGroup": 9000, "fsGroupChangePolicy": "OnRootMismatch" });
        let heartbeat = json!({ "name": "ETCD_HEARTBEAT_INTERVAL", "value": "50" });
        let spec = json!({
            "size": 3, "repository": "registry.local/etcd", "metrics": { "extensive": true },
            "pod": { "labels": { "team": "blue" }, "annotations": { "a": "b" }, "nodeSelector": { "disk": "ssd" },
                     "affinity": affinity, "tolerations": tolerations, "topologySpreadConstraints": [zones, nodes],
                     "resources": { "limits": { "memory": "1Gi" }, "requests": { "cpu": 1, "memory": "64Mi" } },
                     "etcdEnv": [heartbeat], "securityContext": context, "ClusterDomain": ".cluster.local" }
        });
        // when a member is built from it
        let cluster = validate(&cluster(spec)).unwrap();
        let name = "orders-bcdfghjklm";
        let member = Member { name, seed: false, initial_cluster: &[], version: "3.4.23", volume: true };
        let made = serde_json::to_value(pod(&cluster, &member, &InCluster)).unwrap();
        // then its pod has every field; a constraint without a selector selects the members
        let mut counted = zones.clone();
        counted["labelSelector"] = json!({ "matchLabels": { "app": "etcd", "etcd_cluster": "orders" } });
        let expected: [(&str, Value); 13] = [
            ("/metadata/labels/team", json!("blue")),
            ("/metadata/annotations/a", json!("b")),
            ("/spec/nodeSelector", json!({ "disk": "ssd" })),
            ("/spec/affinity", affinity),
            ("/spec/tolerations", tolerations),
            ("/spec/topologySpreadConstraints/0", counted),
            ("/spec/topologySpreadConstraints/1", nodes),
            ("/spec/securityContext", context),
            ("/spec/containers/0/image", json!("registry.local/etcd:v3.4.23")),
            ("/spec/containers/0/resources/limits", json!({ "memory": "1Gi" })),
            ("/spec/containers/0/resources/requests", json!({ "cpu": "1", "memory": "64Mi" })),
            ("/spec/containers/0/env/0", heartbeat),
            ("/spec/volumes/0/persistentVolumeClaim/claimName", json!(name)),
        ];
        for (pointer, expected) in expected {
            assert_eq!(made.pointer(pointer), Some(&expected), "{pointer}");
        }
        let flags = |made: &Value| made.pointer("/spec/containers/0/command").unwrap().to_string();
        assert!(flags(&made).contains("\"--metrics=extensive\""), "{}", flags(&made));
        assert!(flags(&made).contains("orders.shop.svc.cluster.local"), "{}", flags(&made));
        // and a cluster without a policy has none of them
        let plain = serde_json::to_value(built(true)).unwrap();
        for field in
            ["nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "securityContext"]
        {
            assert_eq!(plain["spec"].get(field), None, "{field}");
        }
        assert_eq!(plain["spec"]["containers"][0].get("resources"), None);
        assert!(!flags(&plain).contains("--metrics=extensive"), "{}", flags(&plain));
    }

    #[test]
    fn variables_of_all_flags_and_of_the_pod_are_reserved() {
        use std::collections::BTreeSet;
        let mut own = BTreeSet::new();
        for tls in [
            serde_json::json!({ "auto": {} }),
            serde_json::json!({ "static": { "member": { "peerSecret": "p", "serverSecret": "s" }, "operatorSecret": "o" } }),
        ] {
            let spec = serde_json::json!({ "size": 3, "TLS": tls });
            let cluster = validate(&cluster(spec)).unwrap();
            for version in ["3.4.23", "3.5.30", "3.6.5"] {
                let member = Member {
                    name: "orders-bcdfghjklm",
                    seed: true,
                    initial_cluster: &[],
                    version,
                    volume: false,
                };
                let container = container(&cluster, &member, &InCluster);
                own.extend(container.env.into_iter().flatten().map(|variable| variable.name));
                own.extend(container.command.into_iter().flatten().filter_map(|argument| {
                    let flag = argument.strip_prefix("--")?.split('=').next()?.replace('-', "_");
                    Some(format!("ETCD_{}", flag.to_uppercase()))
                }));
            }
        }
        let reserved: BTreeSet<String> = RESERVED_VARIABLES.iter().map(|name| (*name).to_owned()).collect();
        let missing: Vec<_> = own.difference(&reserved).collect();
        assert!(missing.is_empty(), "{missing:?}");
        // The other reserved variables replace them all, or the data.
        let beyond: Vec<&str> = reserved.difference(&own).map(String::as_str).collect();
        let replace = ["CONFIG_FILE", "DISCOVERY", "DISCOVERY_SRV", "FORCE_NEW_CLUSTER", "PROXY", "WAL_DIR"];
        assert_eq!(beyond, replace.map(|name| format!("ETCD_{name}")));
    }

    #[test]
    fn members_that_are_not_root_are_confined_and_others_are_left_as_they_were() {
        let made = |context: serde_json::Value| {
            let spec = serde_json::json!({ "size": 3, "pod": { "securityContext": context } });
            let cluster = validate(&cluster(spec)).unwrap();
            let member =
                Member { name: "a", seed: true, initial_cluster: &[], version: "3.4.23", volume: false };
            pod(&cluster, &member, &InCluster).spec.unwrap()
        };
        let spec = made(serde_json::json!({ "runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 1000 }));
        let own = spec.containers[0].security_context.clone().unwrap();
        assert_eq!(own.allow_privilege_escalation, Some(false));
        assert_eq!(own.capabilities.unwrap().drop.unwrap(), ["ALL"]);
        let pod = spec.security_context.unwrap();
        assert_eq!(
            (pod.run_as_user, pod.seccomp_profile.unwrap().type_.as_str()),
            (Some(1000), "RuntimeDefault")
        );
        // an explicit seccomp profile is preserved
        let profile = serde_json::json!({ "type": "Localhost", "localhostProfile": "etcd.json" });
        let spec = made(serde_json::json!({ "runAsNonRoot": true, "seccompProfile": profile }));
        assert_eq!(spec.security_context.unwrap().seccomp_profile.unwrap().type_, "Localhost");
        let spec = made(serde_json::json!({ "fsGroup": 1000 }));
        assert!(spec.containers[0].security_context.is_none());
        assert!(spec.security_context.unwrap().seccomp_profile.is_none());
    }

    #[test]
    fn data_is_in_the_pod_or_on_the_claim_of_the_members_name() {
        let data = |seed| built(seed).spec.unwrap().volumes.unwrap().remove(0);
        assert!(data(true).empty_dir.is_some() && data(true).persistent_volume_claim.is_none());
        let claim = data(false);
        assert_eq!(claim.persistent_volume_claim.unwrap().claim_name, "orders-bcdfghjklm");
        assert!(claim.empty_dir.is_none());
    }
}
