//! `olm self image` and `olm self manifests --registry` with a registry that has TLS and a password (Debian's
//! `docker-registry`), and an independent client (`skopeo`).

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::{Ran, olm};

/// `secret`, as `htpasswd -B` would write it.
const HASH: &str = "$2b$04$HpFBDTf/270Met6Hu3y9EeghWq6EBpCt4YBDUIpOye6Q43OcW62We";
const OLM: &str = concat!("localhost/olm/olm:", env!("CARGO_PKG_VERSION"));
const NEWEST: &str = "localhost/olm/etcd-operator:0.11.0";
/// A small program of every machine; a dynamic one in Debian.
const TRUE: &str = "/bin/true";

/// A program of nothing but a header.
fn program(folder: &Path, machine: u16) -> PathBuf {
    let mut out = b"\x7fELF\x02\x01\x01".to_vec();
    out.resize(16, 0);
    out.extend([2_u16, machine].iter().flat_map(|half| half.to_le_bytes()));
    out.extend(1_u32.to_le_bytes());
    out.extend([0; 28]);
    out.extend([64_u16, 56, 0, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    let path = folder.join(format!("program-{machine}"));
    fs::write(&path, out).unwrap();
    path
}

/// Files for runs: programs, certificates, credentials.
struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::create_dir(folder.path().join("certs")).unwrap();
        fs::write(folder.path().join("certs/ca.crt"), certificate.pem()).unwrap();
        fs::write(folder.path().join("tls.key"), key.serialize_pem()).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Runs `olm self image` with a dynamic olm, an etcd operator for two architectures, and a MyApp operator for one.
    fn image(&self, more: &[&str]) -> Ran {
        let [amd64, arm64] = [62, 183]
            .map(|machine| format!("etcd-operator={}", program(self.folder.path(), machine).display()));
        let (own, certificates) = (format!("olm={TRUE}"), self.path("certs/ca.crt"));
        let myapp = amd64.replace("etcd-operator=", "myapp-operator=");
        let binaries = [&own, &amd64, &arm64, &myapp].map(|binary| ["--binary", binary.as_str()]).concat();
        let fixed = [&["self", "image"][..], &binaries[..]].concat();
        olm(&[&fixed[..], &["--certificates", &certificates, "-o", "json"], more].concat())
    }
}

/// Whether `/bin/true` is there and can be put into an image on this machine.
fn has_program(test: &str) -> bool {
    let there = Path::new(TRUE).is_file() && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    if !there {
        println!("skipped: {test}: no {TRUE} for amd64 or arm64");
    }
    there
}

fn is_installed(test: &str, tool: &str) -> bool {
    let status =
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !status {
        println!("skipped: {test}: {tool} is not installed");
    }
    status
}

/// A registry with TLS and a password, stopped when it is dropped.
struct Server {
    process: Child,
    host: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(stage: &Stage) -> Self {
        fs::write(stage.path("htpasswd"), format!("olm:{HASH}\n")).unwrap();
        let config = json!({
            "version": "0.1",
            "log": { "level": "info" },
            "storage": { "filesystem": { "rootdirectory": stage.path("data") } },
            "http": {
                "addr": "127.0.0.1:0",
                "tls": { "certificate": stage.path("certs/ca.crt"), "key": stage.path("tls.key") },
            },
            "auth": { "htpasswd": { "realm": "test", "path": stage.path("htpasswd") } },
        });
        // JSON is YAML.
        fs::write(stage.path("config.yml"), config.to_string()).unwrap();
        let mut process = Command::new("docker-registry")
            .args(["serve", &stage.path("config.yml")])
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It logs its port.
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let port = log.by_ref().find_map(|line| {
            let (_, rest) = line.split_once("listening on 127.0.0.1:")?;
            Some(rest.chars().take_while(char::is_ascii_digit).collect::<String>())
        });
        // The log must be read, or the process blocks on a full pipe.
        std::thread::spawn(move || log.for_each(drop));
        let host = format!("127.0.0.1:{}", port.expect("docker-registry did not start"));
        let auth = |password: &str| {
            json!({ "auths": { &host: { "username": "olm", "password": password } } }).to_string()
        };
        fs::write(stage.path("auth.json"), auth("secret")).unwrap();
        fs::write(stage.path("wrong.json"), auth("wrong")).unwrap();
        Self { process, host }
    }
}

fn skopeo(args: &[&str]) -> Output {
    let out = Command::new("skopeo").args(args).output().unwrap();
    assert!(out.status.success(), "skopeo {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[test]
fn images_are_pushed_and_an_installation_uses_them_by_digest() {
    let test = "images_are_pushed_and_an_installation_uses_them_by_digest";
    if !has_program(test) || !is_installed(test, "docker-registry") || !is_installed(test, "skopeo") {
        return;
    }
    // given
    let stage = Stage::new();
    let server = Server::start(&stage);
    let target = format!("{}/team", server.host);
    let (ca, auth, wrong) = (stage.path("certs/ca.crt"), stage.path("auth.json"), stage.path("wrong.json"));
    // when it is pushed without trust, with a wrong password, and right
    let untrusted = stage.image(&["--push", &target, "--authfile", &auth]);
    let denied = stage.image(&["--push", &target, "--authfile", &wrong, "--ca-file", &ca]);
    let access = ["--authfile", auth.as_str(), "--ca-file", ca.as_str()];
    let pushed = stage.image(&[&["--push", &target][..], &access].concat());
    // then
    assert!(untrusted.err.contains("certificate is not trusted"), "{}", untrusted.err);
    assert!(untrusted.err.contains("--ca-file"), "{}", untrusted.err);
    assert_eq!(denied.code, Some(7), "{}", denied.err);
    assert!(denied.err.contains("check their push permission"), "{}", denied.err);
    assert_eq!(pushed.code, Some(0), "{}", pushed.err);
    let images: Vec<Value> = serde_json::from_str(&pushed.out).unwrap();
    let names: Vec<&str> = images.iter().map(|image| image["image"].as_str().unwrap()).collect();
    let wanted = [
        OLM,
        "localhost/olm/etcd-operator:0.10.0",
        "localhost/olm/etcd-operator:0.10.1",
        NEWEST,
        "localhost/olm/myapp-operator:0.1.0",
        "localhost/olm/myapp-operator:0.2.0",
    ]
    .map(|name| name.replace("localhost/olm", &target));
    assert_eq!(names, wanted);
    // and another client reads the same bytes
    let certs = stage.path("certs");
    let inspect = ["inspect", "--cert-dir", &certs, "--creds", "olm:secret"];
    for image in &images {
        let reference = format!("docker://{}", image["image"].as_str().unwrap());
        let raw = skopeo(&[&inspect[..], &["--raw", &reference]].concat()).stdout;
        assert_eq!(digest(&raw), image["digest"].as_str().unwrap(), "{reference}");
    }
    let reference = format!("docker://{}", wanted[3]);
    let arm = skopeo(&[&["--override-arch", "arm64"][..], &inspect, &[&reference]].concat()).stdout;
    let arm: Value = serde_json::from_slice(&arm).unwrap();
    assert_eq!(arm["Architecture"], "arm64");
    assert_eq!(arm["Labels"]["org.opencontainers.image.version"], "0.11.0");
    // and an installation refers to them by digest, with the pull secret
    let made =
        olm(&[&["self", "manifests", "--registry", &target, "--pull-secret", "registry-login"], &access[..]]
            .concat());
    assert_eq!(made.code, Some(0), "{}", made.err);
    let own = format!("image: {target}/olm@{}", images[0]["digest"].as_str().unwrap());
    assert_eq!(made.out.matches(&own).count(), 2, "manager and console");
    let flag =
        format!("--shipped-image={NEWEST}={target}/etcd-operator@{}", images[3]["digest"].as_str().unwrap());
    assert!(made.out.contains(&flag), "{flag}\n{}", made.out);
    assert!(made.out.contains("imagePullSecrets:"), "{}", made.out);
    // and for a registry without them, the error names the command that pushes them
    let empty = format!("{}/other", server.host);
    let missing = olm(&[&["self", "manifests", "--registry", &empty][..], &access].concat());
    assert_eq!(missing.code, Some(3), "{}", missing.err);
    assert!(missing.err.contains(&format!("olm self image --push {empty}")), "{}", missing.err);
}

#[test]
fn an_archive_is_read_as_that_of_oci_and_of_docker() {
    let test = "an_archive_is_read_as_that_of_oci_and_of_docker";
    if !has_program(test) || !is_installed(test, "skopeo") {
        return;
    }
    // given
    let stage = Stage::new();
    let (archive, layout) = (stage.path("images.tar"), stage.path("layout"));
    // when
    let made = stage.image(&["--archive", &archive, "--layout", &layout]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    // then
    let images: Vec<Value> = serde_json::from_str(&made.out).unwrap();
    let of = |name: &str| images.iter().find(|image| image["image"] == name).unwrap();
    for name in [OLM, NEWEST] {
        for place in [format!("oci-archive:{archive}:{name}"), format!("oci:{layout}:{name}")] {
            let raw = skopeo(&["inspect", "--raw", &place]).stdout;
            assert_eq!(digest(&raw), of(name)["digest"].as_str().unwrap(), "{place}");
        }
        // Docker's format has no index: the reader takes the layers of this machine's platform, verified by
        // the digests in the configuration.
        let place = format!("docker-archive:{archive}:{name}");
        let shown: Value = serde_json::from_slice(&skopeo(&["inspect", &place]).stdout).unwrap();
        assert_eq!(shown["Layers"].as_array().unwrap().len(), 2, "{place}");
        let copy = format!("oci:{}:v1", stage.path(if name == OLM { "copy-a" } else { "copy-b" }));
        skopeo(&["--insecure-policy", "copy", &place, &copy]);
    }
    // and the same programs give the same archive
    let again = stage.path("again.tar");
    assert_eq!(stage.image(&["--archive", &again]).code, Some(0));
    assert!(fs::read(&archive).unwrap() == fs::read(&again).unwrap());
}

#[test]
fn podman_reads_an_image() {
    let test = "podman_reads_an_image";
    if !has_program(test) || !is_installed(test, "podman") {
        return;
    }
    let stage = Stage::new();
    let archive = stage.path("images.tar");
    assert_eq!(stage.image(&["--archive", &archive]).code, Some(0));
    let podman = |args: &[&str]| {
        let (root, run) = (stage.path("root"), stage.path("run"));
        let store = ["--root", root.as_str(), "--runroot", run.as_str(), "--storage-driver", "vfs"];
        let out = Command::new("podman").args(store).args(args).output().unwrap();
        assert!(out.status.success(), "podman {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    };
    podman(&["load", "-i", &archive]);
    podman(&["image", "inspect", OLM]);
}

/// The program runs with nothing but the files of its image.
#[test]
fn the_files_of_an_image_are_all_that_its_program_needs() {
    let test = "the_files_of_an_image_are_all_that_its_program_needs";
    if !has_program(test) || !is_installed(test, "unshare") {
        return;
    }
    // given an image, unpacked
    let stage = Stage::new();
    let layout = stage.path("layout");
    assert_eq!(stage.image(&["--layout", &layout]).code, Some(0));
    let read = |path: String| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let blob =
        |value: &Value| format!("{layout}/blobs/{}", value["digest"].as_str().unwrap().replace(':', "/"));
    let index = read(format!("{layout}/index.json"));
    let entries = index["manifests"].as_array().unwrap();
    let own = entries.iter().find(|entry| entry["annotations"]["io.containerd.image.name"] == OLM).unwrap();
    let manifest = read(blob(own));
    let root = stage.path("root");
    for layer in manifest["layers"].as_array().unwrap() {
        tar::Archive::new(GzDecoder::new(File::open(blob(layer)).unwrap())).unpack(&root).unwrap();
    }
    // when it is the root folder
    let run = |program: &str| {
        Command::new("unshare").args(["--map-root-user", "chroot", &root, program]).output().unwrap()
    };
    let out = run("/usr/local/bin/olm");
    // then
    let text = String::from_utf8_lossy(&out.stderr);
    if text.contains("unshare:") {
        println!("skipped: {test}: no user namespaces: {text}");
        return;
    }
    assert!(out.status.success(), "{text}");
    assert!(!run("/bin/sh").status.success(), "an image has no shell");
}

/// A limit of the size of files stands in for a full disk: any user can set it.
#[test]
fn an_archive_that_does_not_fit_leaves_nothing() {
    let stage = Stage::new();
    let (folder, archive) = (stage.path("out"), stage.path("out/images.tar"));
    fs::create_dir(&folder).unwrap();
    let path = program(stage.folder.path(), 62);
    let programs = ["olm", "etcd-operator", "myapp-operator"];
    let [own, etcd, myapp] = programs.map(|name| format!("{name}={}", path.display()));
    // 8 KiB: more than each file of the archive, and less than the archive.
    let limited = "trap '' XFSZ; ulimit -f 16; exec \"$@\"";
    let out = Command::new("sh")
        .args(["-c", limited, "sh", env!("CARGO_BIN_EXE_olm"), "self", "image", "--archive", &archive])
        .args(["--binary", &own, "--binary", &etcd, "--binary", &myapp])
        .args(["--certificates", &stage.path("certs/ca.crt")])
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{err}");
    assert!(err.contains(&format!("failed to write {archive}: File too large")), "{err}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{err}");
}

#[test]
fn bad_input_is_refused_before_anything_is_written() {
    let stage = Stage::new();
    let archive = stage.path("images.tar");
    let script = stage.path("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    let certificates = stage.path("certs/ca.crt");
    let run = |more: &[&str]| {
        let ran = olm(&[&["self", "image", "--certificates", &certificates][..], more].concat());
        assert!(!Path::new(&archive).exists());
        (ran.code, ran.err)
    };
    let (code, err) = run(&[]);
    assert_eq!(code, Some(2), "{err}");
    let (code, err) = run(&["--archive", &archive, "--push", "https://registry.example"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("image references have no scheme"), "{err}");
    let all =
        |path: &str| ["olm", "etcd-operator", "myapp-operator"].map(|name| format!("--binary={name}={path}"));
    let [olm, etcd, myapp] = all(&script);
    let (code, err) = run(&["--archive", &archive, &olm, &etcd, &myapp]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("not a 64-bit Linux program (ELF)"), "{err}");
    let [olm, etcd, myapp] = all("/absent");
    let (code, err) = run(&["--archive", &archive, &olm, &etcd, &myapp]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("failed to add /absent: "), "{err}");
    assert!(err.contains("hint: pass a Linux program for amd64 or arm64 with --binary"), "{err}");
    let (code, err) = run(&["--archive", &archive, "--binary", "other=/bin/true"]);
    assert_eq!(code, Some(2), "{err}");
    // Flags about images are rejected where no images are made.
    let ignored = crate::olm(&["self", "install", "--binary", "olm=/bin/true"]);
    assert_eq!(ignored.code, Some(2), "{}", ignored.err);
    assert!(ignored.err.contains("--push"), "{}", ignored.err);
}
