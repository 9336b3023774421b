//! Connections between the host and the cluster network of `olm up`.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use olm_tests::{
    Cluster, DevCluster,
    documents::{Shell, block},
    forward::PortForward,
};

use crate::{
    block_on,
    images::{has_busybox, load_web},
    own_turn,
};

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: IMAGE
        readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
"#;

fn get(address: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A program on the host that only listens on localhost.
fn host_server() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(std::io::Result::ok) {
            // The request is read, so that closing the connection does not reset it.
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello from the host\n");
        }
    });
    Ok(port)
}

/// The examples of docs/dev-cluster.md; the second one is about a port of the host passed to `olm up`.
fn examples(cluster: &Cluster, port: u16) -> Result<()> {
    let mut shell = Shell::on(cluster)?;
    let mut page = block("docs/dev-cluster.md", "kubectl port-forward")?;
    if TcpListener::bind("[::1]:0").is_err() {
        page = page.with("Forwarding from [::1]:18080 -> 8080\n", "");
    }
    // Free at this moment.
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    page.with("18080", &free.to_string()).check(&mut shell)?;
    let mut page = block("docs/dev-cluster.md", "olm up --host-port")?.with("9000", &port.to_string());
    page.steps.remove(0);
    page.check(&mut shell)
}

#[test]
fn host_and_pods_reach_each_other() {
    const NAME: &str = "host_and_pods_reach_each_other";
    let Some(_turn) = own_turn(NAME, &["kubectl"]) else { return };
    if !has_busybox(NAME) {
        return;
    }
    let result: Result<()> = block_on(async {
        let port = host_server()?;
        let up = DevCluster::start_in_temp(&["--host-port", &port.to_string()])?;
        let cluster = up.cluster();
        let web = WEB.replace("IMAGE", load_web(&cluster)?);
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&web))?;
        cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
        let pod = cluster.kubectl(&["get", "pods", "-l", "app=web", "-o", "name"])?;

        // From the host: kubectl finds the pod behind a Deployment and a Service.
        for (target, port) in [(pod.trim(), 8080), ("deployment/web", 8080), ("service/web", 80)] {
            let forward = PortForward::start(&cluster, "default", target, port)?;
            let answer = get(&forward.address).with_context(|| target.to_string())?;
            ensure!(answer.starts_with("HTTP/1.1 200"), "{target}: {answer}");
        }

        if olm_tests::program("curl").is_none() {
            olm_tests::skipped(NAME, "its examples: curl is not installed");
        } else {
            examples(&cluster, port)?;
        }
        up.stop()?;
        Ok(())
    });
    result.expect(NAME);
}
