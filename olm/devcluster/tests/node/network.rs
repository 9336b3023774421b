//! Connections between host and cluster network.

use tokio::net::TcpStream;

use super::*;

async fn get(mut stream: TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_of_a_pod_is_reached_from_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    rig.create(
        "web",
        json!({"containers": [{
            "name": "main", "image": "test/host:1", "command": ["helper", "serve", "8080", "from-a-pod"],
            "readinessProbe": {"tcpSocket": {"port": 8080}},
        }]}),
    )
    .await;
    rig.wait_ready("web").await;
    let answer = get(rig.backend.forward("default", "web", 8080).await.unwrap()).await;
    assert!(answer.ends_with("from-a-pod"), "{answer}");
    // when nothing listens, then the error says so in containerd's words
    let refused = rig.backend.forward("default", "web", 8081).await.unwrap_err().to_string();
    for part in [
        "failed to connect to localhost:8081 inside the pod's network namespace",
        "IPv4: dial tcp4 127.0.0.1:8081: connect: connection refused",
        "IPv6: dial tcp6 [::1]:8081: connect: ",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    let missing = rig.backend.forward("default", "none", 8080).await.unwrap_err().to_string();
    assert!(missing.contains("is not on node"), "{missing}");
    rig.stop().await;
}
