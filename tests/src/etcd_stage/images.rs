//! The etcds of this machine, and a newer one that a script downloads.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{LazyLock, Mutex, PoisonError},
};

use anyhow::{Context as _, Result, ensure};

/// Directory of `scripts/etcd-newer.sh`.
pub(crate) fn target() -> PathBuf {
    crate::bin_dir().parent().map_or_else(|| PathBuf::from("target/etcd"), |target| target.join("etcd"))
}

/// The image of the operator: the program built with this test. Restored pods run it.
pub(super) const OPERATOR: &str = "stage/etcd-operator:built";

/// Etcds by version: the directory of the program and its tools.
#[derive(Debug)]
pub(crate) struct Etcds(BTreeMap<String, PathBuf>);

impl Etcds {
    /// Those that the script downloaded, of `OLM_ETCD_DIRS`, and on the `PATH`, in this order.
    pub(crate) fn find() -> Self {
        let named = std::env::var_os("OLM_ETCD_DIRS").unwrap_or_default();
        let named = std::env::split_paths(&named).flat_map(|named| [vec![named.clone()], children(&named)]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = children(&target()).into_iter().chain(named.flatten());
        let mut etcds = BTreeMap::new();
        for directory in directories.chain(std::env::split_paths(&path)) {
            let etcd = directory.join("etcd");
            if let Some(version) = etcd.is_file().then(|| version_of(&etcd)).flatten() {
                etcds.entry(version).or_insert(directory);
            }
        }
        Self(etcds)
    }

    /// The directory of this version.
    pub(crate) fn directory(&self, version: &str) -> Option<&Path> {
        self.0.get(version).map(PathBuf::as_path)
    }

    /// A program of an image.
    ///
    /// # Errors
    /// It is not on this machine.
    pub(super) fn program(&self, image: &str, name: &str) -> Result<PathBuf> {
        let path = self.image(image)?.join(name);
        ensure!(path.is_file(), "image {image:?} has no {name}");
        Ok(path)
    }

    /// The directory with the programs of an image.
    ///
    /// # Errors
    /// The version of etcd is not on this machine.
    pub(super) fn image(&self, image: &str) -> Result<PathBuf> {
        if image == OPERATOR {
            return Ok(crate::bin_dir());
        }
        let version = image.rsplit('/').next().and_then(|name| name.strip_prefix("etcd:v"));
        let directory = version.and_then(|version| self.directory(version));
        let known = || format!("image {image} is not one of etcd {:?}", self.0.keys().collect::<Vec<_>>());
        Ok(directory.with_context(known)?.to_owned())
    }
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// The version that `etcd --version` prints; `None` without one.
pub(crate) fn version_of(etcd: &Path) -> Option<String> {
    let out = Command::new(etcd).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines().find_map(|line| line.strip_prefix("etcd Version: ")).map(|version| version.trim().to_owned())
}

/// The newest etcd 3.5 available on this machine; the script runs once, where there is none yet.
/// # Errors
/// Why there is none.
pub fn newer() -> Result<String, String> {
    static FOUND: LazyLock<Mutex<Option<Result<String, String>>>> = LazyLock::new(Mutex::default);
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.get_or_insert_with(|| known().map_or_else(get, Ok)).clone()
}

fn known() -> Option<String> {
    let versions = Etcds::find().0.into_keys().filter_map(|version| {
        let parts: Vec<u64> = version.split('.').filter_map(|part| part.parse().ok()).collect();
        // Earlier ones lose data when they are killed under load, and lose promotions.
        matches!(parts[..], [3, 5, patch] if patch >= 20).then_some((parts, version))
    });
    versions.max().map(|(_, version)| version)
}

fn get() -> Result<String, String> {
    let script = crate::root().join("scripts/etcd-newer.sh");
    let done = Command::new(script).env("OLM_ETCD_TARGET", target()).output();
    let done = done.map_err(|error| format!("scripts/etcd-newer.sh cannot be run: {error}"))?;
    let last_line =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().last().unwrap_or_default().to_owned();
    if !done.status.success() {
        return Err(last_line(&done.stderr));
    }
    known().ok_or_else(|| {
        format!("scripts/etcd-newer.sh found {}, which is not new enough", last_line(&done.stdout))
    })
}
