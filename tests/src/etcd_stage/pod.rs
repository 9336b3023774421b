//! The command of a member's pod, with the directories and addresses of this machine in place of those of a
//! container.

use std::{
    collections::BTreeMap,
    fs::File,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::{Child, Command},
};

use super::images::Etcds;

/// Default timeout of a probe.
const PROBE: Duration = Duration::from_secs(1);

/// Directories of a pod's volumes on this machine, by their mount paths.
pub(super) type Mounts = BTreeMap<String, PathBuf>;

pub(super) fn mounts(container: &Container, volumes: &BTreeMap<String, PathBuf>) -> Result<Mounts> {
    let all = container.volume_mounts.iter().flatten();
    all.map(|mount| {
        let folder =
            volumes.get(&mount.name).with_context(|| format!("there is no volume {}", mount.name))?;
        let folder = mount.sub_path.as_ref().map_or_else(|| folder.clone(), |path| folder.join(path));
        Ok((mount.mount_path.clone(), folder))
    })
    .collect()
}

/// Starts a container's process, with its output in a file.
pub(super) fn start(
    etcds: &Etcds,
    pod: &Pod,
    container: &Container,
    mounts: &Mounts,
    inside: Ipv4Addr,
    log: &Path,
) -> Result<Child> {
    let here = |text: &str| {
        // The longest paths first: one may be below another.
        let mut text = text.replace("0.0.0.0", &inside.to_string());
        for (path, folder) in mounts.iter().rev() {
            text = text.replace(path.as_str(), &folder.display().to_string());
        }
        text
    };
    let words: Vec<&String> = container.command.iter().chain(&container.args).flatten().collect();
    ensure!(!words.is_empty(), "container {} has no command", container.name);
    let name = words[0].rsplit('/').next().unwrap_or_default();
    let program = etcds.program(container.image.as_deref().unwrap_or_default(), name)?;
    let log = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new(program);
    command.args(words[1..].iter().map(|word| here(word))).env_clear();
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), _) => here(value),
            (None, None) => String::new(),
            (None, Some(source)) => {
                let field = source.field_ref.as_ref().map(|field| field.field_path.as_str());
                match field {
                    Some("metadata.name") => pod.name_any(),
                    Some("metadata.namespace") => pod.namespace().unwrap_or_default(),
                    Some("status.podIP") => inside.to_string(),
                    Some(field) => match annotation(pod, field) {
                        Some(text) => here(&text),
                        None => bail!("the stage does not support field {field}"),
                    },
                    None => bail!("the stage does not support variable {}", variable.name),
                }
            }
        };
        command.env(&variable.name, value);
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
    command.spawn().with_context(|| format!("failed to start {:?}", words[0]))
}

/// The annotation referenced by a field of a variable; empty when the pod has none of that name.
fn annotation(pod: &Pod, field: &str) -> Option<String> {
    let name = field.strip_prefix("metadata.annotations['")?.strip_suffix("']")?;
    Some(pod.annotations().get(name).cloned().unwrap_or_default())
}

/// Initial cluster state of etcd without data.
pub(super) fn initial_state(pod: &Pod, container: &Container) -> String {
    let words = container.command.iter().chain(&container.args).flatten();
    let flag = words.filter_map(|word| word.strip_prefix("--initial-cluster-state=")).next_back();
    let variable = container.env.iter().flatten().rfind(|env| env.name == "ETCD_INITIAL_CLUSTER_STATE");
    let reported = variable.and_then(|env| {
        let field = env.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
        env.value.clone().or_else(|| annotation(pod, &field?.field_path))
    });
    // etcd's default is a new cluster.
    flag.map(str::to_owned).or(reported).unwrap_or_else(|| "new".into())
}

/// Time between the deletion of a pod and the end of its processes.
pub(super) fn grace(pod: &Pod) -> Duration {
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let grace = pod.metadata.deletion_grace_period_seconds.or(own).unwrap_or(30);
    Duration::from_secs(u64::try_from(grace).unwrap_or_default())
}

/// Delay of a container's SIGTERM by its hook.
pub(super) fn pre_stop(container: &Container) -> Duration {
    let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    let sleep = hook.and_then(|hook| hook.sleep.as_ref()).map_or(0, |sleep| sleep.seconds);
    Duration::from_secs(u64::try_from(sleep).unwrap_or_default())
}

/// Whether a container is ready, by its probe.
pub(super) async fn is_ready(container: &Container, inside: Ipv4Addr) -> bool {
    let Some(probe) = &container.readiness_probe else { return true };
    let limit = probe.timeout_seconds.and_then(|s| u64::try_from(s).ok()).map_or(PROBE, Duration::from_secs);
    let asked = async {
        if let Some(get) = &probe.http_get {
            let port = port(&get.port)?;
            let mut stream = TcpStream::connect((inside, port)).await?;
            let path = get.path.as_deref().unwrap_or("/");
            let question = format!("GET {path} HTTP/1.1\r\nHost: {inside}\r\nConnection: close\r\n\r\n");
            stream.write_all(question.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            let answer = String::from_utf8_lossy(&answer);
            ensure!(answer.lines().next().is_some_and(|line| line.contains(" 200 ")), "{answer}");
        } else if let Some(tcp) = &probe.tcp_socket {
            drop(TcpStream::connect((inside, port(&tcp.port)?)).await?);
        }
        anyhow::Ok(())
    };
    matches!(tokio::time::timeout(limit, asked).await, Ok(Ok(())))
}

fn port(port: &k8s_openapi::apimachinery::pkg::util::intstr::IntOrString) -> Result<u16> {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    match port {
        IntOrString::Int(number) => Ok(u16::try_from(*number)?),
        IntOrString::String(name) => bail!("the stage does not know ports by their names: {name}"),
    }
}
