//! Images with a file system of their own, from a simulated registry.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use k8s_openapi::{
    ByteString,
    api::core::v1::{Node, Secret},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use olm_devcluster_machinery::backend::LogOptions;
use olm_devcluster_node::{ImageSource, PullError, PullSecret, UnpackedImage};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{Duration, Rig, state};

/// A static program with a shell.
const BUSYBOX: &str = "/bin/busybox";

/// Images of one layout; those named `private` need a secret, those named `generated` are local.
pub(super) struct Registry {
    digests: Mutex<BTreeMap<String, String>>,
    requested: AtomicUsize,
    unpacked: AtomicUsize,
    /// Each download consumes one.
    permits: Semaphore,
}

impl Registry {
    fn new() -> Arc<Self> {
        let digests = ["app:1", "private:1", "named:1", "slow:1", "generated:1"]
            .map(|name| (format!("registry.test/{name}"), format!("sha256:{:0>64}", name.len())));
        Arc::new(Self {
            digests: Mutex::new(digests.into()),
            requested: AtomicUsize::new(0),
            unpacked: AtomicUsize::new(0),
            permits: Semaphore::new(Semaphore::MAX_PERMITS),
        })
    }

    fn counts(&self) -> (usize, usize) {
        (self.requested.load(Ordering::SeqCst), self.unpacked.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl ImageSource for Registry {
    fn full_name(&self, reference: &str) -> Result<String, PullError> {
        match reference.contains(char::is_uppercase) {
            true => Err(PullError::Name(format!("{reference} is not the name of an image"))),
            false => Ok(reference.to_owned()),
        }
    }

    fn is_local(&self, full_name: &str) -> bool {
        full_name.contains("generated")
    }

    fn local_images(&self) -> Vec<String> {
        vec!["registry.test/generated:1".to_owned()]
    }

    async fn digest(&self, reference: &str, secrets: &[PullSecret]) -> Result<String, PullError> {
        self.requested.fetch_add(1, Ordering::SeqCst);
        if reference.contains("private") && !secrets.iter().any(|secret| secret.document == b"{\"auths\":{}}")
        {
            return Err(PullError::Failed(format!("access to {reference} is denied")));
        }
        let digests = self.digests.lock().unwrap();
        digests.get(reference).cloned().ok_or_else(|| PullError::Failed(format!("{reference} not found")))
    }

    async fn unpack(
        &self,
        reference: &str,
        digest: &str,
        _secrets: &[PullSecret],
        directory: &Path,
    ) -> Result<UnpackedImage, PullError> {
        self.permits.acquire().await.unwrap().forget();
        self.unpacked.fetch_add(1, Ordering::SeqCst);
        for path in ["bin", "etc", "srv", "tmp"] {
            fs::create_dir_all(directory.join(path)).unwrap();
        }
        fs::copy(BUSYBOX, directory.join("bin/busybox")).unwrap();
        for name in ["sh", "cat", "id", "ls", "sleep", "touch", "sed", "pwd"] {
            symlink("/bin/busybox", directory.join("bin").join(name)).unwrap();
        }
        fs::write(directory.join("etc/image"), format!("{reference} {digest}\n")).unwrap();
        fs::write(directory.join("etc/passwd"), "app:x:1000:1001:app:/srv:/bin/sh\n").unwrap();
        // Hostile links: neither a generated file nor a volume may follow them to the machine.
        symlink("/tmp/olm-node-escaped", directory.join("etc/hosts")).unwrap();
        symlink("../../../../../../../../tmp", directory.join("outside")).unwrap();
        symlink("/", directory.join("top")).unwrap();
        let user = if reference.contains("named") { "app" } else { "1000" };
        let config = json!({"config": {
            "User": user, "Env": ["FROM=image", "PATH=/bin"], "WorkingDir": "/srv/work",
            "Entrypoint": ["sh", "-c"], "Cmd": ["echo started; trap 'exit 0' TERM; while :; do sleep 0.05; done"],
        }});
        let config = config.to_string().into_bytes();
        Ok(UnpackedImage { digest: digest.to_owned(), config, bytes: 4096 })
    }
}

/// A cluster whose node pulls from the registry. `None`, with the reason printed, where the test cannot run.
async fn start(data: &Path, registry: &Arc<Registry>) -> Option<Rig> {
    if !is_static(BUSYBOX) {
        println!("skipped: images with a file system: no static {BUSYBOX} (Debian: busybox-static)");
        return None;
    }
    Rig::start_with(data, Arc::clone(registry) as _).await
}

/// Whether the program exists and is linked statically: the image has no libraries. A dynamic program names its loader
/// in the first page.
fn is_static(program: &str) -> bool {
    let Ok(content) = fs::read(program) else { return false };
    let first = &content[..content.len().min(4096)];
    !first.windows(4).any(|text| text == b"/ld-")
}

fn container(image: &str) -> Value {
    json!({"name": "main", "image": format!("registry.test/{image}")})
}

async fn waits(rig: &Rig, pod: &str, reason: &str) -> String {
    let pod = rig.wait(pod, reason, |pod| state(pod)["waiting"]["reason"] == reason).await;
    state(&pod)["waiting"]["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_is_pulled_once_and_runs_with_its_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::new();
    let Some(rig) = start(dir.path(), &registry).await else { return };
    let escaped = Path::new("/tmp/olm-node-escaped");
    let _ = fs::remove_file(escaped);
    // given a pod that sets nothing but the image, and a volume below a link of the image
    let mut app = container("app:1");
    app["volumeMounts"] = json!([{"name": "data", "mountPath": "/outside/olm-node-volume"}]);
    let spec = json!({"containers": [app], "volumes": [{"name": "data", "emptyDir": {}}]});
    rig.create("app", spec).await;
    let pod = rig.wait_ready("app").await;
    // then entrypoint, command, user, variables and working directory are those of the image
    assert_eq!(rig.logs("app", LogOptions::default()).await.trim(), "started");
    let (code, out, err) =
        rig.exec("app", "id -u; id -g; pwd; echo $FROM $HOME; cat /etc/image; ls /", None).await;
    assert_eq!(code, 0, "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..4], ["1000", "1001", "/srv/work", "image /srv"], "{out}");
    assert!(lines[4].starts_with("registry.test/app:1 sha256:"), "{out}");
    assert!(!lines.contains(&"usr") && lines.contains(&"proc"), "{out}");
    // and the files of Kubernetes are those of the pod, whatever the image has in their place
    let (_, hosts, _) = rig.exec("app", "cat /etc/hosts /etc/hostname", None).await;
    assert!(hosts.contains("127.0.0.1\tlocalhost") && hosts.ends_with("app\n"), "{hosts}");
    assert!(!escaped.exists() && !Path::new("/tmp/olm-node-volume").exists());
    let (_, inside, _) = rig.exec("app", "ls -d /tmp/olm-node-volume", None).await;
    assert_eq!(inside.trim(), "/tmp/olm-node-volume");
    // and the status names the image by digest, also that of the node
    let id = pod["status"]["containerStatuses"][0]["imageID"].as_str().unwrap();
    assert!(id.starts_with("registry.test/app@sha256:"), "{id}");
    let nodes: Api<Node> = Api::all(rig.client.clone());
    let node = serde_json::to_string(&nodes.get("olm-node").await.unwrap().status).unwrap();
    assert!(node.contains(id) && node.contains("\"sizeBytes\":4096"), "{node}");
    let reasons = rig.reasons("app").await.join("\n");
    assert!(reasons.contains("Pulling: Pulling image \"registry.test/app:1\""), "{reasons}");
    assert!(reasons.contains("Image size: 4096 bytes"), "{reasons}");
    // when another pod runs it, then it is not pulled again; with Always, only its digest is requested
    assert_eq!(registry.counts(), (1, 1));
    rig.create("again", json!({"containers": [container("app:1")]})).await;
    rig.wait_ready("again").await;
    assert_eq!(registry.counts(), (1, 1));
    let mut always = container("app:1");
    always["imagePullPolicy"] = json!("Always");
    rig.create("always", json!({"containers": [always]})).await;
    rig.wait_ready("always").await;
    assert_eq!(registry.counts(), (2, 1));
    // when the tag moves, then Always runs the new image, and the old one still runs
    let moved = format!("sha256:{:0>64}", 99);
    registry.digests.lock().unwrap().insert("registry.test/app:1".to_owned(), moved.clone());
    let mut always = container("app:1");
    always["imagePullPolicy"] = json!("Always");
    rig.create("moved", json!({"containers": [always]})).await;
    rig.wait_ready("moved").await;
    let (_, content, _) = rig.exec("moved", "cat /etc/image", None).await;
    assert!(content.contains(&moved), "{content}");
    assert_eq!(rig.exec("app", "cat /etc/image", None).await.1, lines[4].to_owned() + "\n");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containers_write_to_their_own_layer() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::new();
    let Some(rig) = start(dir.path(), &registry).await else { return };
    // given two pods of one image, of which one may not write
    let root = |read_only: bool| {
        let mut container = container("app:1");
        container["securityContext"] = json!({"runAsUser": 0, "readOnlyRootFilesystem": read_only});
        json!({"containers": [container], "restartPolicy": "Always"})
    };
    rig.create("writes", root(false)).await;
    rig.create("reads", root(true)).await;
    rig.wait_ready("writes").await;
    rig.wait_ready("reads").await;
    // when both change files of the image
    let change = "echo changed > /etc/image && cat /etc/image";
    let (code, out, _) = rig.exec("writes", change, None).await;
    assert_eq!((code, out.as_str()), (0, "changed\n"));
    let (code, _, error) = rig.exec("reads", change, None).await;
    assert!(code != 0 && error.contains("Read-only file system"), "{error}");
    // then a new container has the image as it was, and so has the store
    rig.create("fresh", root(false)).await;
    rig.wait_ready("fresh").await;
    let (_, out, _) = rig.exec("fresh", "cat /etc/image", None).await;
    assert!(out.starts_with("registry.test/app:1"), "{out}");
    // A link of the image does not lead a volume over the root.
    let mut top = container("app:1");
    top["volumeMounts"] = json!([{"name": "data", "mountPath": "/top"}]);
    let volumes = json!([{"name": "data", "emptyDir": {}}]);
    rig.create("top", json!({"containers": [top], "volumes": volumes, "restartPolicy": "Never"})).await;
    let pod = rig.wait("top", "StartError", |pod| state(pod)["terminated"]["reason"] == "StartError").await;
    let end = state(&pod)["terminated"].clone();
    assert!(
        end["message"].as_str().is_some_and(|text| text.contains("leads to its root directory")),
        "{end}"
    );
    // /dev has only the devices that the node provides, and writable shared memory.
    let (code, _, _) = rig.exec("fresh", "[ ! -e /dev/kmsg ] && touch /dev/shm/a", None).await;
    assert_eq!(code, 0);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_pull_is_reported_and_retried() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::new();
    let Some(rig) = start(dir.path(), &registry).await else { return };
    // an image that does not exist
    rig.create("missing", json!({"containers": [container("missing:1")]})).await;
    assert_eq!(waits(&rig, "missing", "ErrImagePull").await, "registry.test/missing:1 not found");
    // one with an invalid name
    rig.create("name", json!({"containers": [container("App:1")]})).await;
    assert!(waits(&rig, "name", "InvalidImageName").await.contains("registry.test/App:1"));
    // one that must be present
    let mut never = container("app:1");
    never["imagePullPolicy"] = json!("Never");
    rig.create("never", json!({"containers": [never]})).await;
    let message = waits(&rig, "never", "ErrImageNeverPull").await;
    assert_eq!(message, "image \"registry.test/app:1\" is not present with pull policy of Never");
    // one that needs a secret, which one pod has
    rig.create("denied", json!({"containers": [container("private:1")]})).await;
    assert!(waits(&rig, "denied", "ErrImagePull").await.ends_with("is denied"));
    let secrets: Api<Secret> = Api::namespaced(rig.client.clone(), "default");
    let mut secret: Secret = serde_json::from_value(
        json!({"metadata": {"name": "pull"}, "type": "kubernetes.io/dockerconfigjson"}),
    )
    .unwrap();
    secret.data = Some([(".dockerconfigjson".to_owned(), ByteString(b"{\"auths\":{}}".to_vec()))].into());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let names = json!([{"name": "not-there"}, {"name": "pull"}]);
    rig.create("allowed", json!({"containers": [container("private:1")], "imagePullSecrets": names})).await;
    rig.wait_ready("allowed").await;
    // a user without a number
    let mut named = container("named:1");
    named["securityContext"] = json!({"runAsNonRoot": true});
    rig.create("named", json!({"containers": [named]})).await;
    let message = waits(&rig, "named", "CreateContainerConfigError").await;
    assert!(message.contains("non-numeric user (app)"), "{message}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_image_is_present_and_follows_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::new();
    let Some(rig) = start(dir.path(), &registry).await else { return };
    // given a local image, which the node lists before its first use
    let listed = async || {
        let nodes: Api<Node> = Api::all(rig.client.clone());
        serde_json::to_string(&nodes.get("olm-node").await.unwrap().status).unwrap()
    };
    assert!(listed().await.contains("registry.test/generated:1"));
    // then it counts as present
    let run = async |pod: &str, policy: &str| {
        let mut made = container("generated:1");
        made["imagePullPolicy"] = json!(policy);
        rig.create(pod, json!({"containers": [made], "terminationGracePeriodSeconds": 1})).await;
        rig.wait_ready(pod).await;
        rig.exec(pod, "cat /etc/image", None).await.1
    };
    let first = run("never", "Never").await;
    assert_eq!(run("present", "IfNotPresent").await, first);
    assert_eq!(registry.counts(), (2, 1));
    // when its files change, then the next container has the new ones, and the node lists the image once
    let moved = format!("sha256:{:0>64}", 99);
    registry.digests.lock().unwrap().insert("registry.test/generated:1".to_owned(), moved.clone());
    assert!(run("rebuilt", "IfNotPresent").await.contains(&moved));
    let list = listed().await;
    assert_eq!(list.matches("\"registry.test/generated:1\"").count(), 1, "{list}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_pull_does_not_delay_a_deletion_and_is_shared() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::new();
    let Some(rig) = start(dir.path(), &registry).await else { return };
    registry.permits.forget_permits(Semaphore::MAX_PERMITS);
    // given a pod whose image is being pulled, also for its init container
    let mut init = container("slow:1");
    init["name"] = json!("init");
    let spec = json!({"initContainers": [init], "containers": [container("slow:1")]});
    rig.create("slow", spec).await;
    let pod = rig.wait("slow", "its network", |pod| pod["status"]["podIP"].is_string()).await;
    let init = &pod["status"]["initContainerStatuses"][0]["state"];
    assert!(init["waiting"]["reason"].is_string(), "{pod}");
    // when it is deleted, then it is gone at once
    rig.pods().delete("slow", &DeleteParams::default().grace_period(1)).await.unwrap();
    rig.wait("slow", "its end", Value::is_null).await;
    // and the next pod waits for the same pull, which is made once
    rig.create("next", json!({"containers": [container("slow:1")]})).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    registry.permits.add_permits(1);
    rig.wait_ready("next").await;
    assert_eq!(registry.counts().1, 1);
    rig.stop().await;
}
