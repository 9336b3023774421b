//! `HTTPS_PROXY` and `NO_PROXY`, for registries and for the API server.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener},
    process::Stdio,
    sync::{Arc, Mutex},
};

use crate::{folder, program};

/// A proxy that refuses to connect.
struct Proxy {
    address: SocketAddr,
    /// First lines of requests.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let list = Arc::clone(&asked);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut client = BufReader::new(client);
                let lines = (&mut client).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                list.lock().unwrap().extend(head.into_iter().next());
                // A client that is gone is not an error.
                _ = client.get_mut().write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
            }
        });
        Self { address, asked }
    }

    /// The requests to the proxy, each once, and the error of a command that uses it.
    fn run(&self, except: &str, args: &[&str]) -> (Vec<String>, String) {
        let mut command = program();
        command.args(args).env("HTTPS_PROXY", format!("http://{}", self.address)).env("NO_PROXY", except);
        let out = command.stdin(Stdio::null()).output().unwrap();
        assert!(!out.status.success());
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.dedup();
        (asked, String::from_utf8_lossy(&out.stderr).into_owned())
    }
}

#[test]
fn a_registry_is_read_through_the_proxy_unless_it_is_excepted() {
    let proxy = Proxy::start();
    let (asked, err) = proxy.run("", &["catalog", "validate", "registry.invalid/org/catalog:v1"]);
    assert_eq!(asked, ["CONNECT registry.invalid:443 HTTP/1.1"], "{err}");
    assert!(err.contains("the proxy of HTTPS_PROXY or HTTP_PROXY did not connect"), "{err}");
    // An address of this machine without a server.
    let (asked, err) = proxy.run("0.0.0.0/8", &["catalog", "validate", "0.0.0.0:1/org/catalog:v1"]);
    assert!(asked.is_empty() && err.contains("Connection refused"), "{asked:?} {err}");
}

#[test]
fn the_api_server_is_reached_through_the_proxy_unless_it_is_excepted_or_on_this_machine() {
    let proxy = Proxy::start();
    let list = |server: &str, except: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: a, clusters: [{{name: a, cluster: {{server: 'https://{server}'}}}}], \
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}], users: [{{name: a, user: {{token: a}}}}]}}"
        );
        let dir = folder(&[("kubeconfig", text.as_str())]);
        let path = dir.path().join("kubeconfig");
        proxy.run(except, &["--kubeconfig", path.to_str().unwrap(), "list"])
    };
    let (asked, err) = list("cluster.invalid:6443", "");
    assert_eq!(asked, ["CONNECT cluster.invalid:6443 HTTP/1.1"], "{err}");
    let through =
        format!("no answer from https://cluster.invalid:6443 through proxy http://{}", proxy.address);
    assert!(err.contains(&through), "{err}");
    for (server, except) in [("0.0.0.0:1", "10.0.0.0/8, 0.0.0.0"), ("127.0.0.1:1", "")] {
        let (asked, err) = list(server, except);
        assert!(asked.is_empty(), "{asked:?}");
        assert!(err.contains(&format!("no answer from https://{server}: Connection refused")), "{err}");
    }
}
