//! Connections in the cluster network, and between the host and the cluster network.

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
    // without a listener, the error has containerd's wording
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
    // given a server on the host that is open to pods, and one that is not
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_are_reached_by_name_while_endpoints_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    let services: Api<Service> = Api::namespaced(rig.client.clone(), "default");
    for service in [
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "web"}]}}),
        json!({"metadata": {"name": "peers"}, "spec": {"clusterIP": "None", "selector": {"app": "web"}, "publishNotReadyAddresses": true, "ports": [{"name": "http", "port": 8080}]}}),
    ] {
        services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    }
    for name in ["web-a", "web-b"] {
        rig.create_with(
            json!({"name": name, "labels": {"app": "web"}}),
            json!({"subdomain": "peers", "hostname": name, "terminationGracePeriodSeconds": 1, "containers": [{
                "name": "main", "image": "test/host:1", "command": ["helper", "serve", "8080", name],
                "ports": [{"name": "web", "containerPort": 8080}],
                "readinessProbe": {"tcpSocket": {"port": "web"}, "periodSeconds": 1},
            }]}),
        )
        .await;
    }
    rig.create("client", json!({"terminationGracePeriodSeconds": 1, "containers": [shell("sleep 1000")]}))
        .await;
    for name in ["web-a", "web-b", "client"] {
        rig.wait_ready(name).await;
    }
    let get = "exec 3<>/dev/tcp/web/80; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; tail -1 <&3; echo";
    let many = |count: u32| {
        let script = format!("for i in $(seq {count}); do bash -c \"{get}\" || echo failed; done");
        script.replace("\\r", "\\\\r").replace("\\n", "\\\\n")
    };
    // DNS and the proxy receive endpoints at different times.
    eventually(async || {
        let names = "getent hosts web-a.peers && getent hosts web-b.peers && echo known";
        let (_, out, err) = rig.exec("client", &format!("{names}; {}", many(2)), None).await;
        let all = ["known", "web-a", "web-b"].iter().all(|wanted| out.lines().any(|line| line == *wanted));
        if all { Ok(()) } else { Err(out + &err) }
    })
    .await;
    // then names resolve with the real resolver
    let (_, out, err) = rig.exec("client", "getent hosts web; getent ahostsv4 peers; getent hosts web-a.peers; getent hosts nope; echo $?; getent hosts $(getent hosts web-a.peers | cut -d' ' -f1); echo $WEB_SERVICE_PORT $KUBERNETES_SERVICE_HOST", None).await;
    println!("{out}{err}");
    assert!(
        out.contains("web.default.svc.cluster.local")
            && out.contains("web-a.peers.default.svc.cluster.local"),
        "{out}"
    );
    assert!(out.contains("\n2\n") && out.contains("10.96.0.1\n"), "{out}");
    // then the proxy spreads requests over both, and a failed endpoint causes no errors
    let (_, out, err) = rig.exec("client", &many(10), None).await;
    println!("{out}{err}");
    assert_eq!((out.matches("web-a").count(), out.matches("web-b").count()), (5, 5), "{out}{err}");
    rig.pods().delete("web-a", &DeleteParams::default()).await.unwrap();
    let (_, out, err) = rig.exec("client", &many(40), None).await;
    println!("{out}{err}");
    assert!(out.matches("failed").count() <= 1 && out.matches("web-b").count() >= 35, "{out}{err}");
    // then without endpoints connections are refused
    rig.pods().delete("web-b", &DeleteParams::default()).await.unwrap();
    rig.wait("web-b", "gone", Value::is_null).await;
    eventually(async || {
        let (_, out, err) = rig.exec("client", &many(1), None).await;
        if err.contains("refused") { Ok(()) } else { Err(out + &err) }
    })
    .await;
    // then a pod reaches the API server with its token
    let api = "exec 3<>/dev/tcp/10.96.0.1/443 && echo connected";
    assert_eq!(rig.exec("client", &format!("bash -c '{api}'"), None).await.1, "connected\n");
    rig.stop().await;
}
