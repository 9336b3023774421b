//! Port forwarding with kubectl and kube-rs, over TLS, to a node that echoes in capitals.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    kubectl::{FakeNode, Kubectl},
    *,
};

/// A running `kubectl port-forward`; dropping it ends the process.
struct Forward {
    child: Child,
    port: u16,
    /// What kubectl has written to standard error.
    errors: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Forward {
    /// Forwards a free port of this machine to a port of pod `a`.
    fn start(kubectl: &Kubectl, remote: u16, websockets: bool) -> Self {
        let mut child = Command::new("kubectl")
            .args(["port-forward", "pod/a", &format!(":{remote}")])
            .env("KUBECONFIG", kubectl.directory.path().join("config"))
            .env("HOME", kubectl.directory.path())
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        stdout.read_line(&mut line).expect("a line");
        let port = line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split(' ').next());
        let Some(port) = port.and_then(|port| port.parse().ok()) else {
            let output = child.wait_with_output().expect("ended");
            panic!("kubectl port-forward ended: {}", String::from_utf8_lossy(&output.stderr));
        };
        // kubectl writes a line for each connection and must not find its pipe closed.
        std::thread::spawn(move || stdout.lines().for_each(drop));
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let errors = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&errors);
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                written.lock().expect("no panic").push_str(&(line + "\n"));
            }
        });
        Self { child, port, errors, reader: Some(reader) }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.expect("kubectl listens")
    }

    /// Ends kubectl; returns its standard error.
    fn errors(mut self) -> String {
        let _ = self.child.kill();
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no panic");
        }
        self.written()
    }

    fn written(&self) -> String {
        self.errors.lock().expect("no panic").clone()
    }

    /// Waits until the standard error contains all of these.
    async fn reports(&self, texts: &[&str]) {
        let begin = Instant::now();
        while !texts.iter().all(|text| self.written().contains(*text)) {
            assert!(begin.elapsed() < Duration::from_secs(30), "{}", self.written());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A served instance with pod `a`, or `None` without kubectl on this machine.
async fn with_pod() -> Option<Kubectl> {
    let kubectl = Kubectl::start()?;
    service_account(&kubectl.server, "default", "default").await;
    let mut object = pod("a");
    object["spec"]["nodeName"] = json!("olm-node");
    kubectl.ok_with("apply -f -", &object, &["created"]).await;
    kubectl.server.set_backend(Arc::new(FakeNode));
    patch(
        &kubectl.server,
        "merge-patch+json",
        "/api/v1/namespaces/default/pods/a/status",
        json!({"status": {"phase": "Running", "podIP": "10.244.0.9"}}),
    )
    .await;
    Some(kubectl)
}

async fn exchange(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.expect("written");
    // The end of the input reaches the pod, and its last output is received.
    stream.shutdown().await.expect("shut down");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

async fn kubectl_forwards(websockets: bool) {
    let Some(kubectl) = with_pod().await else { return };
    let forward = Forward::start(&kubectl, 80, websockets);
    // given concurrent connections, one of them with more data than any buffer holds
    let long = format!("{}\n", "x".repeat(1000)).repeat(2000);
    let mut open = forward.connect().await;
    open.write_all(b"still here\n").await.expect("written");
    let mut first = [0; 11];
    open.read_exact(&mut first).await.expect("an answer");
    assert_eq!(&first, b"STILL HERE\n");
    let (mut reading, mut writing) = forward.connect().await.into_split();
    let sent = long.clone();
    let writer = tokio::spawn(async move {
        writing.write_all(sent.as_bytes()).await.expect("written");
        writing.shutdown().await.expect("shut down");
    });
    let mut answer = String::new();
    reading.read_to_string(&mut answer).await.expect("an answer");
    writer.await.expect("joined");
    // then each gets its own complete response
    assert!(answer == format!("{}BYE\n", long.to_uppercase()), "{} bytes", answer.len());
    for index in 0..20 {
        let answer = exchange(forward.connect().await, &format!("call {index}\n")).await;
        assert_eq!(answer, format!("CALL {index}\nBYE\n"));
    }
    assert_eq!(exchange(open, "the end\n").await, "THE END\nBYE\n");
    assert_eq!(forward.errors(), "");
    // when the port has no listener, then kubectl prints the error
    let forward = Forward::start(&kubectl, 81, websockets);
    let mut refused = forward.connect().await;
    refused.write_all(b"hello\n").await.expect("written");
    // kubectl closes the connection; if that comes before it reads the input, this end sees a reset.
    let mut answer = Vec::new();
    let _ = refused.read_to_end(&mut answer).await;
    assert!(answer.is_empty(), "{answer:?}");
    forward.reports(&["error forwarding port 81 to pod a, uid ", "connection refused"]).await;
    kubectl.server.shutdown();
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_forwards_ports_through_a_websocket() {
    kubectl_forwards(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_forwards_ports_by_spdy() {
    kubectl_forwards(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_rs_forwards_ports() {
    let Some(kubectl) = with_pod().await else { return };
    let config = Kubeconfig::read_from(kubectl.directory.path().join("config")).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(config, &options).await.expect("a configuration");
    let api: Api<Pod> = Api::default_namespaced(Client::try_from(config).expect("a client"));
    let mut forwarder = api.portforward("a", &[80, 81]).await.expect("forwarded");
    let mut stream = forwarder.take_stream(80).expect("once");
    stream.write_all(b"hello\n").await.expect("written");
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HELLO\n");
    let error = forwarder.take_error(81).expect("once").await.expect("an error");
    assert!(error.starts_with("error forwarding port 81 to pod a, uid "), "{error}");
    drop(stream);
    forwarder.join().await.expect("ended in order");
    kubectl.server.shutdown();
}

#[tokio::test]
async fn forwarding_needs_the_right_to_create() {
    let (server, _) = server();
    server.set_backend(Arc::new(FakeNode));
    let role = |name: &str, verb: &str| {
        json!({
            "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["pods/portforward"], "verbs": [verb]}],
        })
    };
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let bind = |role: &str, user: &str| {
        json!({
            "metadata": {"name": format!("{role}-{user}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        })
    };
    for (path, object) in [
        (roles, role("reads", "get")),
        (roles, role("creates", "create")),
        (bindings, bind("reads", "viewer")),
        (bindings, bind("reads", "editor")),
        (bindings, bind("creates", "editor")),
    ] {
        let (code, body) = post(&server, path, object).await;
        assert_eq!(code, 201, "{body}");
    }
    // given no such pod, an authorized request gets a 404
    let path = "/api/v1/namespaces/default/pods/none/portforward";
    for (user, method, expected) in [
        ("viewer", "GET", 403),
        ("viewer", "POST", 403),
        ("editor", "GET", 404),
        ("editor", "POST", 404),
        ("editor", "DELETE", 403),
    ] {
        let caller = Identity::user(user, []);
        let (code, body) = send(&server, caller, method, path, &[], Value::Null).await;
        assert_eq!(code, expected, "{user} {method}: {body}");
    }
}
