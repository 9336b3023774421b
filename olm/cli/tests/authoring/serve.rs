//! `olm catalog serve`.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, ChildStdout, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{CATALOG, folder, olm, program};

/// A running `olm catalog serve`.
struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    http: String,
    usage: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Not killed, so that it removes its temporary files. It may have ended already.
        if let Ok(None) = self.child.try_wait() {
            self.signal(Signal::SIGTERM);
        }
        _ = self.child.wait();
    }
}

impl Server {
    fn start(source: &str, flags: &[&str]) -> Self {
        let mut command = program();
        // Colours are absent in a log that is not a terminal even without `NO_COLOR`.
        command.env_remove("NO_COLOR");
        command
            .args(["catalog", "serve", source, "--address", "127.0.0.1:0", "--grpc", "127.0.0.1:0"])
            .args(flags);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut usage = String::new();
        while !usage.contains("Ctrl-C stops") {
            assert!(out.read_line(&mut usage).unwrap() > 0, "it ended: {usage}");
        }
        let http = usage.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        Self { child, out, http, usage }
    }

    fn get(&self, path: &str) -> String {
        let mut connection = TcpStream::connect(&self.http).unwrap();
        let host = &self.http;
        write!(connection, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }
}

#[test]
fn what_is_served_is_read_again_on_a_hangup_and_ends_on_an_interrupt() {
    // given a served catalog
    let dir = folder(&[("catalog.yaml", CATALOG)]);
    let path = dir.path().to_str().unwrap();
    let mut server = Server::start(path, &[]);
    let ports = |text: &str| -> String {
        let mut out = String::new();
        let mut rest = text.replace(path, "DIR");
        while let Some(at) = rest.find("127.0.0.1:") {
            out.push_str(&rest[..at + 10]);
            out.push_str("PORT");
            rest = rest[at + 10..].trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
        }
        out + &rest
    };
    insta::assert_snapshot!("serve_usage", ports(&server.usage));
    assert!(server.get("/catalogs/catalog/api/v1/packages").contains("\"demo\""));
    // when the file changes and the server receives SIGHUP
    std::fs::write(dir.path().join("catalog.yaml"), CATALOG.replace("demo", "renamed")).unwrap();
    server.signal(Signal::SIGHUP);
    let line = server.next_line();
    assert!(line.starts_with("reloaded: 1 package,"), "{line}");
    // then the new catalog is served
    assert!(server.get("/catalogs/catalog/api/v1/packages").contains("\"renamed\""));
    // when the source is removed, then the last catalog remains
    std::fs::remove_file(dir.path().join("catalog.yaml")).unwrap();
    server.signal(Signal::SIGHUP);
    let mut err = BufReader::new(server.child.stderr.take().unwrap());
    let mut warning = String::new();
    err.read_line(&mut warning).unwrap();
    assert!(warning.contains("still serving the previous content"), "{warning}");
    assert!(server.get("/catalogs/catalog/api/v1/packages").contains("\"renamed\""));
    // and it ends on SIGINT
    server.signal(Signal::SIGINT);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_changed_file_is_noticed_with_watch() {
    let dir = folder(&[("catalog.yaml", CATALOG)]);
    let file = dir.path().join("catalog.yaml");
    let mut server = Server::start(file.to_str().unwrap(), &["--watch"]);
    std::fs::write(&file, CATALOG.replace("demo", "another")).unwrap();
    let line = server.next_line();
    assert!(line.starts_with("reloaded: 1 package,"), "{line}");
    assert!(server.get("/catalogs/catalog/api/v1/all").contains("another"));
}

/// A registry for this test, stopped on drop.
struct Registry {
    process: Child,
    host: String,
    folder: tempfile::TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

impl Registry {
    fn start(test: &str) -> Option<Self> {
        for tool in ["docker-registry", "skopeo"] {
            let found =
                Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            if found.is_err() {
                println!("skipped: {test}: {tool} is not installed");
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '127.0.0.1:0'}}\n",
            folder.path().join("data").display()
        );
        let path = folder.path().join("config.yml");
        std::fs::write(&path, config).unwrap();
        let mut process = Command::new("docker-registry")
            .args(["serve".as_ref(), path.as_os_str()])
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The registry logs the port that it listens on.
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let port = log.find_map(|line| {
            let (_, rest) = line.split_once("listening on 127.0.0.1:")?;
            Some(rest.chars().take_while(char::is_ascii_digit).collect::<String>())
        });
        std::thread::spawn(move || log.for_each(drop));
        Some(Self { process, host: format!("127.0.0.1:{}", port.unwrap()), folder })
    }

    /// Pushes a catalog with a tag, replacing the previous one.
    fn push(&self, catalog: &str, tag: &str) {
        let (dir, layout) = (folder(&[("catalog.yaml", catalog)]), self.folder.path().join("layout"));
        _ = std::fs::remove_dir_all(&layout);
        let to = format!("oci:{}", layout.display());
        let made = olm(&["catalog", "mirror", dir.path().to_str().unwrap(), "--to", &to, "--images", "list"]);
        assert_eq!(made.code, Some(0), "{}", made.err);
        let pushed = Command::new("skopeo")
            .args(["copy", "--dest-tls-verify=false"])
            .args([format!("{to}:localhost/catalog:latest"), format!("docker://{}/{tag}", self.host)])
            .output()
            .unwrap();
        assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    }
}

#[test]
fn a_moved_tag_is_noticed_with_watch() {
    let Some(registry) = Registry::start("a_moved_tag_is_noticed_with_watch") else { return };
    // given a served catalog of a registry
    registry.push(CATALOG, "catalog:v1");
    let source = format!("{}/catalog:v1", registry.host);
    let mut server =
        Server::start(&source, &["--plain-http", &registry.host, "--watch", "--interval", "1s", "-vv"]);
    assert!(server.get("/catalogs/catalog/api/v1/packages").contains("\"demo\""));
    let mut stderr = server.child.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).map(|_| log)
    });
    // when the tag is moved
    registry.push(&CATALOG.replace("demo", "another"), "catalog:v1");
    // then the new catalog replaces the old one
    let line = server.next_line();
    assert!(line.starts_with("reloaded: 1 package,"), "{line}");
    assert!(server.get("/catalogs/catalog/api/v1/packages").contains("\"another\""));
    // and a log in a file has no colours
    server.signal(Signal::SIGTERM);
    let log = log.join().unwrap().unwrap();
    assert!(log.contains("DEBUG") && !log.contains('\x1b'), "{log:?}");
}

#[test]
fn an_interval_needs_watch_and_some_time() {
    let dir = folder(&[("catalog.yaml", CATALOG)]);
    let path = dir.path().to_str().unwrap();
    for flags in [&["--interval", "5s"][..], &["--watch", "--interval", "0"], &["--watch", "--interval", "x"]]
    {
        let ran = olm(&[&["catalog", "serve", path], flags].concat());
        assert!(ran.code == Some(2) && ran.err.contains("--interval"), "{flags:?}: {}", ran.err);
    }
}

#[test]
fn a_port_in_use_and_an_empty_catalog_are_refused() {
    let dir = folder(&[("catalog.yaml", CATALOG), ("empty/x.txt", "")]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = olm(&["catalog", "serve", dir.path().to_str().unwrap(), "--address", &address]);
    assert!(ran.code == Some(1) && ran.err.contains(&address) && ran.out.is_empty(), "{}", ran.err);
    let ran = olm(&["catalog", "serve", dir.path().join("empty").to_str().unwrap()]);
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    let ran = olm(&[
        "catalog",
        "serve",
        dir.path().to_str().unwrap(),
        "--name",
        "../x",
        "--address",
        "127.0.0.1:0",
        "--grpc",
        "127.0.0.1:0",
    ]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
}
