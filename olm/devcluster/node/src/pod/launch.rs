//! Derives the process of a pod's container. Pure, except for the files it names.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, PodDNSConfig, PodSpec};

use crate::{
    capabilities,
    env::expand,
    helper::wire::{MountSpec, Place, ProcessSpec, RootSpec, User},
    images::{ContainerConfig, ContainerImage, ImageUser},
    volumes::Volumes,
};

/// Size of a container's writable layer.
const ROOT_SIZE: u64 = 1 << 30;

/// Facts that are the same for every container of a pod.
pub(crate) struct LaunchContext<'a> {
    pub(crate) pod_dir: &'a Path,
    pub(crate) pod_ip: &'a str,
    pub(crate) dns_ip: &'a str,
    pub(crate) domain: &'a str,
    /// The agent's user namespace has a single user, who is unprivileged outside.
    pub(crate) one_user: bool,
}

/// Features that this node does not support and therefore refuses.
pub(crate) fn refusal(spec: &PodSpec) -> Option<String> {
    let flags = [(spec.host_network, "hostNetwork"), (spec.host_pid, "hostPID"), (spec.host_ipc, "hostIPC")];
    if let Some((_, name)) = flags.iter().find(|(flag, _)| *flag == Some(true)) {
        return Some(format!(
            "spec.{name} is not supported by the dev cluster: its pods have separate namespaces"
        ));
    }
    // Pod Security requires less of a pod with its own users.
    if spec.host_users == Some(false) {
        return Some("spec.hostUsers: false is not supported by the dev cluster".to_owned());
    }
    if spec.resource_claims.as_ref().is_some_and(|list| !list.is_empty()) {
        return Some("spec.resourceClaims are not supported by the dev cluster".to_owned());
    }
    if spec.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty()) {
        return Some("spec.ephemeralContainers are not supported by the dev cluster".to_owned());
    }
    for (field, container) in
        (spec.init_containers.iter().flatten().map(|container| ("initContainers", container)))
            .chain(spec.containers.iter().map(|container| ("containers", container)))
    {
        let place = format!("spec.{field}[{}]", container.name);
        if container.security_context.as_ref().is_some_and(|context| context.privileged == Some(true)) {
            return Some(format!("{place}.securityContext.privileged is not supported by the dev cluster"));
        }
        let context = container.security_context.as_ref();
        if context.and_then(|context| context.proc_mount.as_deref()).is_some_and(|mount| mount != "Default") {
            return Some(format!("{place}.securityContext.procMount is not supported by the dev cluster"));
        }
        if container.volume_devices.as_ref().is_some_and(|list| !list.is_empty()) {
            return Some(format!("{place}.volumeDevices are not supported by the dev cluster"));
        }
        if container.restart_policy.is_some() {
            return Some(format!("{place}.restartPolicy (a sidecar) is not supported by the dev cluster"));
        }
    }
    None
}

pub(crate) fn hostname(pod: &Pod) -> String {
    let wanted = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    let mut name = wanted.or_else(|| pod.metadata.name.clone()).unwrap_or_default();
    name.truncate(63);
    name.trim_end_matches(['-', '.']).to_owned()
}

/// The user of a container as its image defines it.
pub(crate) fn image_user(
    pod: &Pod,
    container: &Container,
    image: &ContainerImage,
) -> Result<ImageUser, String> {
    let own = container.security_context.as_ref().and_then(|context| context.run_as_user);
    let shared = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref()?.run_as_user);
    // Its group and its home are those of the image, if the image has this user.
    let wanted = own.or(shared).map_or_else(|| image.config.user.clone(), |uid| uid.to_string());
    ImageUser::find(&wanted, &image.root)
}

/// Builds the process of a container.
pub(crate) fn process(
    pod: &Pod,
    container: &Container,
    image: &ContainerImage,
    image_user: &ImageUser,
    env: Vec<(String, String)>,
    volumes: &Volumes,
    inputs: &LaunchContext<'_>,
) -> Result<ProcessSpec, String> {
    let spec = pod.spec.clone().unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    let user = user(&spec, container, image_user, inputs.one_user)?;
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let sub_path = match &mount.sub_path_expr {
            Some(expression) => Some(expand(expression, &env)),
            None => mount.sub_path.clone(),
        };
        mounts.push(MountSpec {
            source: volumes.source(&mount.name, sub_path.as_deref())?,
            target: mount.mount_path.clone(),
            read_only: mount.read_only.unwrap_or(false) || volumes.is_read_only(&mount.name),
        });
    }
    let message = message_file(inputs.pod_dir, &container.name);
    mounts.push(MountSpec {
        source: message,
        target: container
            .termination_message_path
            .clone()
            .unwrap_or_else(|| "/dev/termination-log".to_owned()),
        read_only: false,
    });
    // Nested mounts come after their parents.
    mounts.sort_by_key(|mount| mount.target.matches('/').count());
    let argv = argv(container, &image.config, &env);
    if argv.is_empty() {
        return Err(format!("image {} has no default command: set command", image.reference));
    }
    let own_dir = container.working_dir.clone().filter(|dir| !dir.is_empty());
    let working_dir = own_dir.unwrap_or_else(|| image.config.working_dir.clone());
    Ok(ProcessSpec {
        argv,
        cwd: working_dir.clone(),
        no_new_privileges: own.allow_privilege_escalation == Some(false),
        capabilities: capabilities::of(own.capabilities.as_ref())?,
        place: Place::NewRoot(RootSpec {
            staging: inputs.pod_dir.join("root"),
            size: ROOT_SIZE,
            read_only: own.read_only_root_filesystem.unwrap_or(false),
            files: files(pod, &spec, inputs),
            image: image.root.clone(),
            working_dir,
            one_user: inputs.one_user,
            mounts,
        }),
        user,
        env,
    })
}

/// The termination message file of a container.
pub(crate) fn message_file(pod_dir: &Path, container: &str) -> PathBuf {
    pod_dir.join("termination").join(container)
}

/// `command` replaces the entrypoint and drops the image's arguments; `args` replaces the arguments.
fn argv(container: &Container, image: &ContainerConfig, env: &[(String, String)]) -> Vec<String> {
    let all = |list: &Option<Vec<String>>| -> Option<Vec<String>> {
        let list = list.as_ref().filter(|list| !list.is_empty())?;
        Some(list.iter().map(|text| expand(text, env)).collect())
    };
    let (command, args) = (all(&container.command), all(&container.args));
    let default_args = if command.is_some() { Vec::new() } else { image.cmd.clone() };
    let mut argv = command.unwrap_or_else(|| image.entrypoint.clone());
    argv.extend(args.unwrap_or(default_args));
    argv
}

fn user(spec: &PodSpec, container: &Container, image: &ImageUser, one_user: bool) -> Result<User, String> {
    let own = container.security_context.clone().unwrap_or_default();
    let shared = spec.security_context.clone().unwrap_or_default();
    let id = |value: i64| u32::try_from(value).map_err(|_| format!("invalid user or group ID {value}"));
    let non_root = own.run_as_non_root.or(shared.run_as_non_root).unwrap_or(false);
    let uid = match own.run_as_user.or(shared.run_as_user) {
        Some(0) if non_root => {
            return Err("container has runAsNonRoot, but runAsUser is 0 (root)".to_owned());
        }
        Some(uid) => id(uid)?,
        None => match image {
            ImageUser { name: Some(name), .. } if non_root => {
                return Err(format!(
                    "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is \
                     non-root: set runAsUser"
                ));
            }
            ImageUser { uid: 0, .. } if non_root => {
                return Err("container has runAsNonRoot and image will run as root: set runAsUser".to_owned());
            }
            image => image.uid,
        },
    };
    let gid = own.run_as_group.or(shared.run_as_group).map_or(Ok(image.gid), id)?;
    if one_user {
        return Ok(User { uid, gid, groups: Vec::new(), alone: true });
    }
    let groups = shared.supplemental_groups.iter().flatten().copied().chain(shared.fs_group).map(id);
    let mut groups = groups.collect::<Result<Vec<u32>, _>>()?;
    groups.extend(&image.groups);
    Ok(User { uid, gid, groups, alone: false })
}

fn files(pod: &Pod, spec: &PodSpec, inputs: &LaunchContext<'_>) -> Vec<(String, String)> {
    let hostname = hostname(pod);
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let mut hosts = "127.0.0.1\tlocalhost\n".to_owned();
    match spec.subdomain.as_deref().filter(|subdomain| !subdomain.is_empty()) {
        Some(subdomain) => hosts.push_str(&format!(
            "{}\t{hostname}.{subdomain}.{namespace}.svc.{}\t{hostname}\n",
            inputs.pod_ip, inputs.domain
        )),
        None => hosts.push_str(&format!("{}\t{hostname}\n", inputs.pod_ip)),
    }
    for alias in spec.host_aliases.iter().flatten() {
        hosts.push_str(&format!(
            "{}\t{}\n",
            alias.ip,
            alias.hostnames.clone().unwrap_or_default().join("\t")
        ));
    }
    let resolv = resolv_conf(spec.dns_policy.as_deref(), spec.dns_config.as_ref(), namespace, inputs);
    [("/etc/hosts", hosts), ("/etc/hostname", format!("{hostname}\n")), ("/etc/resolv.conf", resolv)]
        .map(|(path, content)| (path.to_owned(), content))
        .into()
}

fn resolv_conf(
    policy: Option<&str>,
    config: Option<&PodDNSConfig>,
    namespace: &str,
    inputs: &LaunchContext<'_>,
) -> String {
    let (mut servers, mut searches, mut options) = (Vec::new(), Vec::new(), Vec::new());
    // `Default` means the node's DNS, which is the cluster's on this node: there is no other network.
    if policy != Some("None") {
        servers.push(inputs.dns_ip.to_owned());
        let domain = inputs.domain;
        searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
        options.push("ndots:5".to_owned());
    }
    if let Some(config) = config {
        servers.extend(config.nameservers.iter().flatten().cloned());
        searches.extend(config.searches.iter().flatten().cloned());
        for option in config.options.iter().flatten() {
            let name = option.name.clone().unwrap_or_default();
            options.retain(|other: &String| other.split(':').next() != Some(name.as_str()));
            options.push(option.value.as_ref().map_or(name.clone(), |value| format!("{name}:{value}")));
        }
    }
    let mut text = String::new();
    if !searches.is_empty() {
        text.push_str(&format!("search {}\n", searches.join(" ")));
    }
    for server in servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    if !options.is_empty() {
        text.push_str(&format!("options {}\n", options.join(" ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn image() -> ContainerConfig {
        ContainerConfig {
            entrypoint: vec!["olm".to_owned()],
            cmd: vec!["staticweb".to_owned()],
            ..ContainerConfig::default()
        }
    }

    #[test]
    fn command_and_args_override_those_of_the_image() {
        let run = |container: serde_json::Value| {
            argv(&from_value(container).unwrap(), &image(), &[("A".to_owned(), "1".to_owned())]).join(" ")
        };
        assert_eq!(run(json!({"name": "c"})), "olm staticweb");
        assert_eq!(run(json!({"name": "c", "args": ["manager", "--x=$(A)"]})), "olm manager --x=1");
        assert_eq!(run(json!({"name": "c", "command": ["sh"]})), "sh");
        assert_eq!(run(json!({"name": "c", "command": ["sh"], "args": ["-c", "true"]})), "sh -c true");
    }

    #[test]
    fn unsupported_features_are_refused_by_name() {
        let refused = |spec: serde_json::Value| refusal(&from_value(spec).unwrap());
        assert_eq!(refused(json!({"containers": [{"name": "c"}]})), None);
        assert!(
            refused(json!({"hostNetwork": true, "containers": []})).unwrap().starts_with("spec.hostNetwork")
        );
        assert_eq!(refused(json!({"hostUsers": true, "containers": []})), None);
        assert!(
            refused(json!({"hostUsers": false, "containers": []})).unwrap().starts_with("spec.hostUsers")
        );
        let claim = json!({"resourceClaims": [{"name": "gpu"}], "containers": []});
        assert!(refused(claim).unwrap().starts_with("spec.resourceClaims"));
        let privileged = json!({"containers": [{"name": "c", "securityContext": {"privileged": true}}]});
        assert!(refused(privileged).unwrap().contains("spec.containers[c].securityContext.privileged"));
    }

    #[test]
    fn the_user_of_an_image_counts_where_the_pod_names_none() {
        let run = |image: &ImageUser, context: serde_json::Value| {
            let container = from_value(json!({"name": "c", "securityContext": context})).unwrap();
            let user = user(&PodSpec::default(), &container, image, false);
            user.map(|user| (user.uid, user.gid, user.groups))
        };
        let named = ImageUser { uid: 1000, gid: 1001, groups: vec![7], name: Some("app".into()), home: None };
        assert_eq!(run(&named, json!({})), Ok((1000, 1001, vec![7])));
        assert!(run(&named, json!({"runAsNonRoot": true})).unwrap_err().contains("non-numeric user (app)"));
        assert_eq!(run(&named, json!({"runAsGroup": 5})), Ok((1000, 5, vec![7])));
        let numbered = ImageUser { name: None, ..named };
        assert_eq!(run(&numbered, json!({"runAsNonRoot": true})), Ok((1000, 1001, vec![7])));
        let root = ImageUser::default();
        assert_eq!(run(&root, json!({})), Ok((0, 0, vec![])));
        assert!(run(&root, json!({"runAsNonRoot": true})).unwrap_err().contains("image will run as root"));
        assert_eq!(run(&root, json!({"runAsNonRoot": true, "runAsUser": 5})), Ok((5, 0, vec![])));
        assert_eq!(run(&root, json!({"runAsUser": 1000, "runAsGroup": 7})), Ok((1000, 7, vec![])));
        assert!(run(&root, json!({"runAsNonRoot": true, "runAsUser": 0})).unwrap_err().contains("0 (root)"));
    }

    #[test]
    fn a_single_user_gets_the_requested_number_and_no_groups() {
        let spec: PodSpec = from_value(json!({"containers": [], "securityContext": {
            "runAsUser": 1000, "runAsGroup": 7, "fsGroup": 8, "supplementalGroups": [9],
        }}))
        .unwrap();
        let groups = |one_user| {
            let user = user(&spec, &Container::default(), &ImageUser::default(), one_user).unwrap();
            (user.uid, user.gid, user.groups, user.alone)
        };
        assert_eq!(groups(false), (1000, 7, vec![9, 8], false));
        assert_eq!(groups(true), (1000, 7, vec![], true));
    }

    #[test]
    fn dns_is_the_clusters_unless_the_policy_is_none() {
        let inputs = LaunchContext {
            pod_dir: Path::new("/x"),
            pod_ip: "10.244.0.2",
            dns_ip: "10.96.0.10",
            domain: "cluster.local",
            one_user: false,
        };
        assert_eq!(
            resolv_conf(None, None, "ns", &inputs),
            "search ns.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"
        );
        let config =
            from_value(json!({"nameservers": ["1.2.3.4"], "options": [{"name": "ndots", "value": "2"}]}))
                .unwrap();
        assert_eq!(
            resolv_conf(Some("None"), Some(&config), "ns", &inputs),
            "nameserver 1.2.3.4\noptions ndots:2\n"
        );
    }
}
