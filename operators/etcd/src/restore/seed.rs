//! The pod of the first member: that of any member, with three containers before etcd. None of them has a shell.

use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, Pod, PodSecurityContext, SecretKeySelector, SecurityContext, VolumeMount,
};

use super::apply::{TOKEN_KEY, token_secret};
use super::place::Found;
use crate::addressing::Addressing;
use crate::build::pod::{self, DATA_DIR, Member};
use crate::crd::restore::SnapshotStatus;
use crate::validate::Validated;

/// Name of the container that fetches.
pub(crate) const FETCH: &str = "fetch-snapshot";
const MOUNT: &str = "/var/etcd";
const SNAPSHOT: &str = "/var/etcd/restore/snapshot.db";
const RESTORED: &str = "/var/etcd/restore/data";

/// What the seed is made of.
pub(crate) struct Seed<'a> {
    pub(crate) cluster: &'a Validated,
    /// Name of the member.
    pub(crate) name: &'a str,
    /// Name of the EtcdRestore.
    pub(crate) restore: &'a str,
    /// Uid of it: also the token of the new etcd cluster, so that its id is a new one.
    pub(crate) uid: &'a str,
    pub(crate) snapshot: &'a SnapshotStatus,
    pub(crate) place: &'a Found,
    pub(crate) volume: bool,
}

impl Seed<'_> {
    /// Where it fetches.
    pub(crate) fn url(&self) -> String {
        format!("{}{}", self.place.url, super::serve::path(&self.cluster.namespace, self.restore))
    }

    pub(crate) fn pod(&self, addressing: &dyn Addressing) -> Pod {
        let version = &self.cluster.goal.version;
        let peer = addressing.peer_url(self.cluster, self.name);
        let alone = [(self.name.to_owned(), peer.clone())];
        // It starts with data; without it, it must not become an empty cluster of its own.
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
            // What went wrong is told in the status of the EtcdRestore.
            termination_message_policy: Some("FallbackToLogsOnError".into()),
            ..Container::default()
        };
        let own = own_user(spec.security_context.as_ref());
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (url, sha256) = (self.url(), self.snapshot.sha256.as_str());
        let mut fetch = container(
            FETCH,
            &self.place.image,
            words(&[
                "etcd-operator",
                "fetch-snapshot",
                "--url",
                &url,
                "--sha256",
                sha256,
                "--to",
                SNAPSHOT,
                "--clear",
                RESTORED,
            ]),
        );
        fetch.security_context.clone_from(&own);
        fetch.env = Some(vec![EnvVar {
            name: super::fetch::TOKEN.into(),
            value_from: Some(EnvVarSource {
                secret_key_ref: Some(SecretKeySelector {
                    name: token_secret(self.restore),
                    key: TOKEN_KEY.into(),
                    // It goes with the EtcdRestore; the pod, whose node may start again, has the snapshot by then.
                    optional: Some(true),
                }),
                ..EnvVarSource::default()
            }),
            ..EnvVar::default()
        }]);
        let mut restore = container(
            "restore-data",
            &pod::image(self.cluster, version),
            words(&[
                tool(version),
                "snapshot",
                "restore",
                SNAPSHOT,
                &format!("--name={}", self.name),
                &format!("--initial-cluster={}={peer}", self.name),
                &format!("--initial-cluster-token={}", self.uid),
                &format!("--initial-advertise-peer-urls={peer}"),
                &format!("--data-dir={RESTORED}"),
            ]),
        );
        restore.env =
            Some(vec![EnvVar { name: "ETCDCTL_API".into(), value: Some("3".into()), ..EnvVar::default() }]);
        let mut install = container(
            "install-data",
            &self.place.image,
            words(&["etcd-operator", "install-data", "--from", RESTORED, "--to", DATA_DIR]),
        );
        install.security_context = own;
        spec.init_containers = Some(vec![fetch, restore, install]);
        pod::confine(spec);
        made
    }
}

/// Whom the containers of the operator's image run as: whoever it is there, the volume belongs to whom etcd's image runs as, which is
/// root, unless the cluster says otherwise or lets a group write.
fn own_user(pod: Option<&PodSecurityContext>) -> Option<SecurityContext> {
    let says = |pod: &PodSecurityContext| {
        pod.run_as_user.is_some() || pod.fs_group.is_some() || pod.run_as_non_root == Some(true)
    };
    let root = SecurityContext { run_as_user: Some(0), ..SecurityContext::default() };
    (!pod.is_some_and(says)).then_some(root)
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
            snapshot: &snapshot,
            place: &place,
            volume: false,
        }
        .pod(&InCluster)
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
        for said in [
            serde_json::json!({ "runAsUser": 1000 }),
            serde_json::json!({ "fsGroup": 2000 }),
            serde_json::json!({ "runAsNonRoot": true }),
        ] {
            assert_eq!(users(serde_json::json!({ "securityContext": said })), [None; 3], "{said}");
        }
    }

    #[test]
    fn a_seed_that_is_not_root_is_confined_as_a_whole() {
        let said = serde_json::json!({ "securityContext": { "runAsNonRoot": true, "runAsUser": 1000 } });
        let spec = seed_with("3.4.23", said).spec.unwrap();
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
