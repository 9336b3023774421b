//! TLS in the pod of a member: flags, volumes and mounts as in coreos/etcd-operator.

use k8s_openapi::api::core::v1::{SecretVolumeSource, Volume, VolumeMount};
use semver::Version;

use super::{CertificateRole, TlsGoal};

const PEER_MOUNT: &str = "/etc/etcdtls/member/peer-tls";
const SERVER_MOUNT: &str = "/etc/etcdtls/member/server-tls";

const fn place(role: CertificateRole) -> (&'static str, &'static str) {
    match role {
        CertificateRole::Peer => ("member-peer-tls", PEER_MOUNT),
        CertificateRole::Server | CertificateRole::Operator => ("member-server-tls", SERVER_MOUNT),
    }
}

/// Secrets that members mount. The operator's certificate is not among them: the pod contains no client.
fn mounted(goal: &TlsGoal) -> impl Iterator<Item = (CertificateRole, &str)> {
    [CertificateRole::Peer, CertificateRole::Server]
        .into_iter()
        .filter_map(|role| Some((role, goal.secret(role)?)))
}

pub(crate) fn flags(goal: &TlsGoal, version: &str) -> Vec<String> {
    let mut flags = Vec::new();
    for (role, _) in mounted(goal) {
        let [certificate, key, authorities] = role.keys();
        let (_, mount) = place(role);
        let prefix = if role == CertificateRole::Peer { "peer-" } else { "" };
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

pub(crate) fn volumes(goal: &TlsGoal) -> Vec<Volume> {
    mounted(goal)
        .map(|(role, secret)| Volume {
            name: place(role).0.into(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.into()),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        })
        .collect()
}

/// Mounts of the etcd container. Whole directories: only those follow a changed Secret.
pub(crate) fn mounts(goal: &TlsGoal) -> Vec<VolumeMount> {
    mounted(goal)
        .map(|(role, _)| VolumeMount {
            name: place(role).0.into(),
            mount_path: place(role).1.into(),
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
        let goal = TlsGoal { peer: Some("p".into()), client_facing: Some(client), auto: None };
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
        assert!(
            volumes(&TlsGoal::default()).is_empty() && super::flags(&TlsGoal::default(), "3.4.23").is_empty()
        );
    }
}
