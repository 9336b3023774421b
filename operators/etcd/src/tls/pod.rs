//! TLS in the pod of a member: flags, volumes and mounts as in coreos/etcd-operator.

use k8s_openapi::api::core::v1::{SecretVolumeSource, Volume, VolumeMount};
use semver::Version;

use super::{Goal, Part};

const PEER_MOUNT: &str = "/etc/etcdtls/member/peer-tls";
const SERVER_MOUNT: &str = "/etc/etcdtls/member/server-tls";

const fn place(part: Part) -> (&'static str, &'static str) {
    match part {
        Part::Peer => ("member-peer-tls", PEER_MOUNT),
        Part::Server | Part::Client => ("member-server-tls", SERVER_MOUNT),
    }
}

/// Secrets that members mount. The operator's certificate is not among them: the pod contains no client.
fn mounted(goal: &Goal) -> impl Iterator<Item = (Part, &str)> {
    [Part::Peer, Part::Server].into_iter().filter_map(|part| Some((part, goal.secret(part)?)))
}

pub(crate) fn flags(goal: &Goal, version: &str) -> Vec<String> {
    let mut flags = Vec::new();
    for (part, _) in mounted(goal) {
        let [certificate, key, authorities] = part.keys();
        let (_, mount) = place(part);
        let prefix = if part == Part::Peer { "peer-" } else { "" };
        flags.extend([
            format!("--{prefix}client-cert-auth=true"),
            format!("--{prefix}trusted-ca-file={mount}/{authorities}"),
            format!("--{prefix}cert-file={mount}/{certificate}"),
            format!("--{prefix}key-file={mount}/{key}"),
        ]);
    }
    // Skipping the name check of peers is safe: this authority signs only for the members of this cluster. etcd's
    // reverse lookup would reject a new member until its name has spread through DNS.
    if goal.peer.is_some() && goal.auto.is_some() {
        let plain = Version::parse(version).is_ok_and(|v| (v.major, v.minor) >= (3, 6));
        let flag = if plain {
            "peer-skip-client-san-verification"
        } else {
            "experimental-peer-skip-client-san-verification"
        };
        flags.push(format!("--{flag}=true"));
    }
    flags
}

pub(crate) fn volumes(goal: &Goal) -> Vec<Volume> {
    mounted(goal)
        .map(|(part, secret)| Volume {
            name: place(part).0.into(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.into()),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        })
        .collect()
}

/// Mounts of the etcd container. Whole directories: only those follow a changed Secret.
pub(crate) fn mounts(goal: &Goal) -> Vec<VolumeMount> {
    mounted(goal)
        .map(|(part, _)| VolumeMount {
            name: place(part).0.into(),
            mount_path: place(part).1.into(),
            read_only: Some(true),
            ..VolumeMount::default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::ClientGoal;

    #[test]
    fn flags_and_places_are_those_of_the_predecessor() {
        let client = ClientGoal { server: "s".into(), operator: "o".into() };
        let goal = Goal { peer: Some("p".into()), client: Some(client), auto: None };
        let flags = flags(&goal, "3.4.23");
        for flag in [
            "--peer-client-cert-auth=true",
            "--peer-trusted-ca-file=/etc/etcdtls/member/peer-tls/peer-ca.crt",
            "--peer-cert-file=/etc/etcdtls/member/peer-tls/peer.crt",
            "--peer-key-file=/etc/etcdtls/member/peer-tls/peer.key",
            "--client-cert-auth=true",
            "--trusted-ca-file=/etc/etcdtls/member/server-tls/server-ca.crt",
            "--cert-file=/etc/etcdtls/member/server-tls/server.crt",
            "--key-file=/etc/etcdtls/member/server-tls/server.key",
        ] {
            assert!(flags.iter().any(|f| f == flag), "{flag} in {flags:?}");
        }
        assert_eq!(flags.len(), 8, "the lookup of peers is not switched off for certificates of others");
        let names: Vec<_> = volumes(&goal).into_iter().map(|v| v.name).collect();
        assert_eq!(names, ["member-peer-tls", "member-server-tls"]);
        assert_eq!(mounts(&goal).len(), 2);
        assert!(volumes(&Goal::default()).is_empty() && super::flags(&Goal::default(), "3.4.23").is_empty());
    }
}
