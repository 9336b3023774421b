//! An image of the programs of this machine that the scripts of these tests run, with their libraries.

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use async_trait::async_trait;
use olm_devcluster_node::{ImageSource, PullError, PullSecret, UnpackedImage};
use serde_json::json;

use super::HELPER;

/// Those of etcd are there where it is installed.
const PROGRAMS: [&str; 32] = [
    "bash", "cat", "cut", "etcd", "etcdctl", "getent", "grep", "head", "hostname", "id", "ls", "mkdir",
    "mount", "mv", "nsenter", "rm", "sed", "seq", "setsid", "sh", "sleep", "sort", "tail", "test", "timeout",
    "touch", "true", "umount", "wc", "env", "echo", "printf",
];

/// A program on the `PATH`.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

struct Files {
    /// By their name in the image.
    programs: Vec<(&'static str, PathBuf)>,
    /// Their path in the image is the same.
    libraries: BTreeSet<PathBuf>,
}

static FILES: LazyLock<Files> = LazyLock::new(|| {
    let found = PROGRAMS.iter().filter_map(|name| Some((*name, program(name)?)));
    let programs: Vec<(&str, PathBuf)> = found.chain([("helper", PathBuf::from(HELPER))]).collect();
    let out = Command::new("ldd").args(programs.iter().map(|(_, path)| path)).output().expect("ldd runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    // `name => path (address)`, or `path (address)`, below the path of each program.
    let lines = text.lines().filter(|line| line.starts_with(char::is_whitespace));
    let libraries = lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let libraries = libraries.map(PathBuf::from).collect();
    Files { programs, libraries }
});

/// `test/host:1` has no command, 2 and 3 print their version and run.
pub(super) struct HostImages;

#[async_trait]
impl ImageSource for HostImages {
    fn full_name(&self, reference: &str) -> Result<String, PullError> {
        Ok(reference.to_owned())
    }

    fn is_local(&self, full_name: &str) -> bool {
        version(full_name).is_some()
    }

    fn local_images(&self) -> Vec<String> {
        vec!["test/host:1".to_owned()]
    }

    async fn digest(&self, reference: &str, _secrets: &[PullSecret]) -> Result<String, PullError> {
        match version(reference) {
            Some(version) => Ok(format!("sha256:{version:0>64}")),
            None => Err(PullError::Failed(format!("{reference} not found"))),
        }
    }

    async fn unpack(
        &self,
        reference: &str,
        digest: &str,
        _secrets: &[PullSecret],
        directory: &Path,
    ) -> Result<UnpackedImage, PullError> {
        for folder in ["etc", "mnt", "root", "tmp", "usr/bin"] {
            fs::create_dir_all(directory.join(folder)).unwrap();
        }
        fs::set_permissions(directory.join("tmp"), Permissions::from_mode(0o1777)).unwrap();
        symlink("usr/bin", directory.join("bin")).unwrap();
        fs::write(directory.join("etc/nsswitch.conf"), "hosts: files dns\n").unwrap();
        fs::write(directory.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        for (name, path) in &FILES.programs {
            place(path, &directory.join("usr/bin").join(name));
        }
        for path in &FILES.libraries {
            place(path, &directory.join(path.strip_prefix("/").unwrap()));
        }
        let script = match version(reference) {
            Some("1") | None => Vec::new(),
            Some(version) => {
                let run = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
                vec!["sh".to_owned(), "-c".to_owned(), format!("echo version {version}; {run}")]
            }
        };
        let config = json!({"config": {"Entrypoint": script}}).to_string().into_bytes();
        Ok(UnpackedImage { digest: digest.to_owned(), config, bytes: 4096 })
    }
}

fn version(reference: &str) -> Option<&str> {
    reference.strip_prefix("test/host:").filter(|version| ["1", "2", "3"].contains(version))
}

/// Links a file, or copies it from another file system.
fn place(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let from = fs::canonicalize(from).unwrap();
    if fs::hard_link(&from, to).is_err() {
        fs::copy(&from, to).unwrap();
    }
}
