//! Connections between host and cluster network.

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_port_of_the_host_is_reached_from_a_pod_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    // given a server on the host that pods may reach, and one that they may not
    let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, other) = (open.local_addr().unwrap().port(), TcpListener::bind("0.0.0.0:0").await.unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = open.accept().await {
            let mut line = String::new();
            BufReader::new(&mut client).read_line(&mut line).await.unwrap();
            client.write_all(format!("the host saw {line}").as_bytes()).await.unwrap();
        }
    });
    let listener = rig.agent.network().open_host_port(port).await.unwrap();
    rig.create("client", json!({"containers": [shell("while :; do sleep 0.05; done")]})).await;
    rig.wait_ready("client").await;
    let fetch = |port: u16| format!("exec 3<>/dev/tcp/host.olm.internal/{port} && echo hello >&3 && cat <&3");
    let bash = async |script: &str| {
        let script = format!("exec bash -c '{script}'");
        rig.exec("client", &script, None).await
    };
    let (code, out, err) = bash(&fetch(port)).await;
    assert_eq!((code, out.as_str()), (0, "the host saw hello\n"), "{err}");
    let (code, _, err) = bash(&fetch(other.local_addr().unwrap().port())).await;
    assert!(code != 0 && err.contains("Connection refused"), "{err}");
    listener.abort();
    rig.stop().await;
}
