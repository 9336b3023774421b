//! The pod of the first member: that of any member, with three containers before etcd.
//!
//! None of them has a shell. From a claim it takes two consecutive pods of the same name and volume. In the
//! first, which is not a member, etcd runs on a copy of the claim's data. The second restores the database of
//! the copy like a snapshot: the cluster gets a new id.

use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, PersistentVolumeClaimVolumeSource, Pod, PodSecurityContext, PodSpec,
    SecretKeySelector, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::LABEL_RESTORED_BY;
use super::apply::{TOKEN_KEY, token_secret};
use super::place::Found;
use crate::addressing::Addressing;
use crate::build::pod::{self, DATA_DIR, Member};
use crate::crd::restore::SnapshotStatus;
use crate::names;
use crate::validate::Validated;

pub(crate) const FETCH: &str = "fetch-snapshot";
const MOUNT: &str = "/var/etcd";
const SNAPSHOT: &str = "/var/etcd/restore/snapshot.db";
const RESTORED: &str = "/var/etcd/restore/data";
/// The copy of the data on a claim.
const COPY: &str = "/var/etcd/restore/survivor";
const COPIED_DATABASE: &str = "/var/etcd/restore/survivor/member/snap/db";
/// Mount path of the claim in the copying container.
const SURVIVOR: &str = "/var/survivor";
const SURVIVOR_VOLUME: &str = "survivor";
/// Flag of etcd: start with the data, without the other members.
const FORCE: &str = "--force-new-cluster";

#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// A snapshot served by the operator.
    Snapshot(&'a SnapshotStatus),
    /// The database of the copy, completed by etcd.
    Copy,
    /// This claim, whose data etcd of this version completes in a copy; the EtcdRestore owns the pod for
    /// that.
    Claim { name: &'a str, version: &'a str, owner: &'a OwnerReference },
}

pub(crate) struct Seed<'a> {
    pub(crate) cluster: &'a Validated,
    pub(crate) name: &'a str,
    pub(crate) restore: &'a str,
    /// Uid of the EtcdRestore: also the token of the new etcd cluster, so that its id is new.
    pub(crate) uid: &'a str,
    pub(crate) source: Source<'a>,
    pub(crate) place: &'a Found,
    pub(crate) volume: bool,
}

impl Seed<'_> {
    /// Download URL.
    pub(crate) fn url(&self) -> String {
        format!("{}{}", self.place.url, super::serve::path(&self.cluster.namespace, self.restore))
    }

    pub(crate) fn pod(&self, addressing: &dyn Addressing) -> Pod {
        let version = match self.source {
            Source::Claim { version, .. } if !version.is_empty() => version,
            _ => &self.cluster.goal.version,
        };
        let peer = addressing.peer_url(self.cluster, self.name);
        let alone = [(self.name.to_owned(), peer.clone())];
        // It starts with data; without data it must not become an empty cluster.
        let member =
            Member { name: self.name, seed: false, initial_cluster: &alone, version, volume: self.volume };
        let mut made = pod::pod(self.cluster, &member, addressing);
        let Some(spec) = made.spec.as_mut() else { return made };
        let mounts: Vec<VolumeMount> = spec
            .containers
            .iter()
            .flat_map(|container| container.volume_mounts.iter().flatten())
            .filter(|mount| mount.mount_path == MOUNT)
            .take(1)
            .cloned()
            .collect();
        let container = |name: &str, image: &str, command: Vec<String>| Container {
            name: name.into(),
            image: Some(image.into()),
            image_pull_policy: Some("IfNotPresent".into()),
            command: Some(command),
            resources: self.cluster.pod.resources.clone(),
            volume_mounts: Some(mounts.clone()),
            // The status of the EtcdRestore reports the failure.
            termination_message_policy: Some("FallbackToLogsOnError".into()),
            ..Container::default()
        };
        let own = own_user(spec.security_context.as_ref());
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut bring = match self.source {
            Source::Snapshot(snapshot) => {
                let (url, sha256) = (self.url(), snapshot.sha256.as_str());
                let fetch = ["--url", &url, "--sha256", sha256, "--to", SNAPSHOT, "--clear", RESTORED];
                let command = [&["etcd-operator", "fetch-snapshot"], &fetch[..]].concat();
                let mut fetch = container(FETCH, &self.place.image, words(&command));
                fetch.env = Some(vec![self.token()]);
                fetch
            }
            Source::Copy | Source::Claim { .. } => {
                let from = format!("{SURVIVOR}/data");
                let copy = ["etcd-operator", "copy-data", "--from", &from, "--to", COPY, "--clear", RESTORED];
                container("copy-data", &self.place.image, words(&copy))
            }
        };
        bring.security_context.clone_from(&own);
        if let Source::Claim { name, owner, .. } = self.source {
            bring.volume_mounts.get_or_insert_default().push(VolumeMount {
                name: SURVIVOR_VOLUME.into(),
                mount_path: SURVIVOR.into(),
                read_only: Some(true),
                ..VolumeMount::default()
            });
            spec.init_containers = Some(vec![bring]);
            run_on_copy(spec, name);
            pod::confine(spec);
            // The cluster's controller, Services and budget select members by these.
            let labels = made.metadata.labels.get_or_insert_default();
            names::cluster_labels(&self.cluster.name).keys().for_each(|key| _ = labels.remove(key));
            labels.insert(LABEL_RESTORED_BY.into(), self.uid.into());
            made.metadata.owner_references = Some(vec![owner.clone()]);
            return made;
        }
        let database: &[&str] = match self.source {
            Source::Snapshot(_) => &[SNAPSHOT],
            // Not a snapshot: etcd appends no hash to it.
            Source::Copy | Source::Claim { .. } => &[COPIED_DATABASE, "--skip-hash-check"],
        };
        let mut restore = container(
            "restore-data",
            &pod::image(self.cluster, version),
            words(
                &[
                    &[tool(version), "snapshot", "restore"],
                    database,
                    &[
                        &format!("--name={}", self.name),
                        &format!("--initial-cluster={}={peer}", self.name),
                        &format!("--initial-cluster-token={}", self.uid),
                        &format!("--initial-advertise-peer-urls={peer}"),
                        &format!("--data-dir={RESTORED}"),
                    ],
                ]
                .concat(),
            ),
        );
        restore.env =
            Some(vec![EnvVar { name: "ETCDCTL_API".into(), value: Some("3".into()), ..EnvVar::default() }]);
        let mut install = container(
            "install-data",
            &self.place.image,
            words(&["etcd-operator", "install-data", "--from", RESTORED, "--to", DATA_DIR]),
        );
        install.security_context = own;
        spec.init_containers = Some(vec![bring, restore, install]);
        pod::confine(spec);
        made
    }

    fn token(&self) -> EnvVar {
        EnvVar {
            name: super::fetch::TOKEN.into(),
            value_from: Some(EnvVarSource {
                secret_key_ref: Some(SecretKeySelector {
                    name: token_secret(self.restore),
                    key: TOKEN_KEY.into(),
                    // It is deleted with the EtcdRestore; the pod, whose node may restart, has the snapshot
                    // by then.
                    optional: Some(true),
                }),
                ..EnvVarSource::default()
            }),
            ..EnvVar::default()
        }
    }
}

/// etcd runs alone on the copy. Only the copying container mounts the claim.
fn run_on_copy(spec: &mut PodSpec, claim: &str) {
    spec.volumes.get_or_insert_default().push(Volume {
        name: SURVIVOR_VOLUME.into(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.into(),
            read_only: None,
        }),
        ..Volume::default()
    });
    for command in spec.containers.iter_mut().filter_map(|container| container.command.as_mut()) {
        for word in command.iter_mut().filter(|word| word.starts_with("--data-dir=")) {
            *word = format!("--data-dir={COPY}");
        }
        command.push(FORCE.into());
    }
}

/// User of the containers with the operator's image: the volume belongs to the user of etcd's image, which is
/// root, unless the cluster specifies another user or a group with write access.
fn own_user(pod: Option<&PodSecurityContext>) -> Option<SecurityContext> {
    let sets_user = |pod: &PodSecurityContext| {
        pod.run_as_user.is_some() || pod.fs_group.is_some() || pod.run_as_non_root == Some(true)
    };
    let root = SecurityContext { run_as_user: Some(0), ..SecurityContext::default() };
    (!pod.is_some_and(sets_user)).then_some(root)
}

/// etcdctl lost the command in 3.6; etcdutl has it since 3.5.
fn tool(version: &str) -> &'static str {
    let minor = semver::Version::parse(version).map_or(0, |version| version.minor);
    if minor >= 5 { "/usr/local/bin/etcdutl" } else { "/usr/local/bin/etcdctl" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addressing::InCluster;
    use crate::validate::{tests::cluster, validate};

    fn seed(version: &str) -> Pod {
        seed_with(version, serde_json::json!({}))
    }

    fn seed_with(version: &str, pod: serde_json::Value) -> Pod {
        let spec = serde_json::json!({ "size": 3, "version": version, "pod": pod });
        let cluster = validate(&cluster(spec)).unwrap();
        let snapshot = SnapshotStatus { sha256: "ab".into(), ..SnapshotStatus::default() };
        let place = Found { url: "http://10.0.0.9:19999".into(), image: "operator:1".into() };
        Seed {
            cluster: &cluster,
            name: "orders-bcdfghjklm",
            restore: "back",
            uid: "r-1",
            source: Source::Snapshot(&snapshot),
            place: &place,
            volume: false,
        }
        .pod(&InCluster)
    }

    fn seed_from(source: Source<'_>) -> Pod {
        let cluster = validate(&cluster(serde_json::json!({ "size": 3, "version": "3.5.30" }))).unwrap();
        let place = Found { url: "http://10.0.0.9:19999".into(), image: "operator:1".into() };
        let name = "orders-bcdfghjklm";
        Seed { cluster: &cluster, name, restore: "back", uid: "r-1", source, place: &place, volume: true }
            .pod(&InCluster)
    }

    #[test]
    fn etcd_completes_a_copy_of_the_claim_which_is_mounted_read_only_and_by_the_copying_container_alone() {
        let owner = OwnerReference { uid: "r-1".into(), ..OwnerReference::default() };
        let pod = seed_from(Source::Claim { name: "orders-old", version: "3.4.23", owner: &owner });
        // It is not a member: the cluster's selectors do not match it, and it is deleted with the
        // EtcdRestore.
        let labels = pod.metadata.labels.clone().unwrap();
        assert_eq!(labels[LABEL_RESTORED_BY], "r-1");
        assert!(!labels.contains_key("app") && !labels.contains_key("etcd_cluster"), "{labels:?}");
        assert_eq!(pod.metadata.owner_references, Some(vec![owner]));
        let spec = pod.spec.unwrap();
        let volume =
            spec.volumes.as_ref().unwrap().iter().find(|volume| volume.name == SURVIVOR_VOLUME).unwrap();
        assert_eq!(volume.persistent_volume_claim.as_ref().unwrap().claim_name, "orders-old");
        let mounts = |container: &Container| -> Vec<(String, bool)> {
            let mounts = container.volume_mounts.iter().flatten();
            let mounts = mounts.filter(|mount| mount.name == SURVIVOR_VOLUME);
            mounts.map(|mount| (mount.mount_path.clone(), mount.read_only == Some(true))).collect()
        };
        let init = spec.init_containers.as_ref().unwrap();
        assert_eq!(init.len(), 1);
        assert_eq!(mounts(&init[0]), [("/var/survivor".to_owned(), true)]);
        assert_eq!(
            init[0].command.as_ref().unwrap()[..4],
            ["etcd-operator", "copy-data", "--from", "/var/survivor/data"]
        );
        let etcd = &spec.containers[0];
        assert_eq!((mounts(etcd), etcd.image.as_deref()), (vec![], Some("quay.io/coreos/etcd:v3.4.23")));
        let command = etcd.command.as_ref().unwrap();
        assert!(command.contains(&"--force-new-cluster".to_owned()), "{command:?}");
        assert!(command.contains(&"--data-dir=/var/etcd/restore/survivor".to_owned()), "{command:?}");
        assert_eq!(command.iter().filter(|word| word.starts_with("--data-dir")).count(), 1);
    }

    #[test]
    fn the_member_that_others_join_never_drops_them() {
        let pod = seed_from(Source::Copy);
        assert_eq!(pod.metadata.labels.as_ref().unwrap()["etcd_cluster"], "orders");
        let spec = pod.spec.unwrap();
        assert!(spec.volumes.unwrap().iter().all(|v| v.name != SURVIVOR_VOLUME));
        assert!(!spec.containers[0].command.as_ref().unwrap().contains(&FORCE.to_owned()));
        let init = spec.init_containers.unwrap();
        let names: Vec<&str> = init.iter().map(|container| container.name.as_str()).collect();
        assert_eq!(names, ["copy-data", "restore-data", "install-data"]);
        let restore = init[1].command.clone().unwrap();
        assert_eq!(restore[..3], ["/usr/local/bin/etcdutl", "snapshot", "restore"]);
        assert_eq!(restore[3..5], [COPIED_DATABASE, "--skip-hash-check"]);
        assert!(restore.contains(&"--initial-cluster-token=r-1".to_owned()), "{restore:?}");
    }

    #[test]
    fn three_containers_bring_the_data_before_etcd_starts_and_no_secret_is_in_sight() {
        let pod = seed("3.4.23");
        let spec = pod.spec.unwrap();
        let init = spec.init_containers.unwrap();
        let names: Vec<&str> = init.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["fetch-snapshot", "restore-data", "install-data"]);
        assert!(init.iter().all(|c| c.volume_mounts.as_ref().unwrap()[0].mount_path == "/var/etcd"));
        let fetch = init[0].command.clone().unwrap();
        assert!(fetch.contains(&"http://10.0.0.9:19999/v1/restore/shop/back".to_owned()), "{fetch:?}");
        assert!(init[0].env.as_ref().unwrap()[0].value.is_none());
        let restore = init[1].command.clone().unwrap();
        assert_eq!(restore[0], "/usr/local/bin/etcdctl");
        assert!(restore.contains(&"--initial-cluster-token=r-1".to_owned()));
        assert_eq!(init[1].image.as_deref(), Some("quay.io/coreos/etcd:v3.4.23"));
    }

    #[test]
    fn our_containers_write_where_etcd_does_whatever_user_our_image_has() {
        let users = |pod| -> Vec<Option<i64>> {
            let init = seed_with("3.4.23", pod).spec.unwrap().init_containers.unwrap();
            init.iter().map(|c| c.security_context.as_ref().and_then(|own| own.run_as_user)).collect()
        };
        assert_eq!(users(serde_json::json!({})), [Some(0), None, Some(0)]);
        for context in [
            serde_json::json!({ "runAsUser": 1000 }),
            serde_json::json!({ "fsGroup": 2000 }),
            serde_json::json!({ "runAsNonRoot": true }),
        ] {
            assert_eq!(users(serde_json::json!({ "securityContext": context })), [None; 3], "{context}");
        }
    }

    #[test]
    fn a_seed_that_is_not_root_is_confined_as_a_whole() {
        let pod = serde_json::json!({ "securityContext": { "runAsNonRoot": true, "runAsUser": 1000 } });
        let spec = seed_with("3.4.23", pod).spec.unwrap();
        let all = spec.init_containers.iter().flatten().chain(&spec.containers);
        let confined: Vec<_> =
            all.map(|c| c.security_context.as_ref().and_then(|own| own.allow_privilege_escalation)).collect();
        assert_eq!(confined, [Some(false); 4]);
    }

    #[test]
    fn a_seed_starts_again_when_its_restore_is_gone() {
        let init = seed("3.4.23").spec.unwrap().init_containers.unwrap();
        let token = init[0].env.as_ref().unwrap()[0].value_from.as_ref().unwrap();
        assert_eq!(token.secret_key_ref.as_ref().unwrap().optional, Some(true));
    }

    #[test]
    fn a_seed_that_loses_its_data_never_starts_an_empty_cluster() {
        let annotations = seed("3.4.23").metadata.annotations.unwrap();
        assert_eq!(annotations[crate::names::ANNOTATION_INITIAL_STATE], "existing");
    }

    #[test]
    fn etcdutl_takes_over_where_etcdctl_cannot() {
        let command = seed("3.6.4").spec.unwrap().init_containers.unwrap()[1].command.clone().unwrap();
        assert_eq!(command[0], "/usr/local/bin/etcdutl");
    }
}
