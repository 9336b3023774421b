//! Images that are programs of this machine.
//!
//! They have no file system: an image reference is an entry of one explicit table, supplied by the caller, or a
//! program that the caller names and that is installed on this machine.

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

/// A program that may be installed on this machine, in any number of versions: an image whose name ends in
/// the name of the program runs the one that has exactly the version of the tag.
#[derive(Debug)]
pub struct HostProgram {
    /// Name of the program.
    pub name: &'static str,
    /// Further programs of the image, where they are in the same directory.
    pub tools: &'static [&'static str],
    /// The text before the version in the output of `--version`.
    pub version_prefix: &'static str,
    /// Environment variable with directories to search first, with their subdirectories.
    pub directories: &'static str,
    /// A Python package that may contain the program.
    pub python_package: &'static str,
    /// How to install it, for messages.
    pub install: &'static str,
}

/// A found version of a program.
#[derive(Debug, Clone)]
struct Installed {
    path: PathBuf,
    tools: Vec<(String, PathBuf)>,
}

/// Images with their programs.
#[derive(Debug, Clone, Default)]
pub struct ImageTable {
    images: Vec<Image>,
    found: Vec<(&'static HostProgram, BTreeMap<String, Installed>)>,
}

/// Why an image is not a program of this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownImage {
    /// It is a program of this machine, which is missing.
    #[error("{0}")]
    Missing(String),
    /// It is another image.
    #[error("{0}")]
    Other(String),
}

impl ImageTable {
    /// A table of the given images and the installed versions of the given programs.
    pub fn discover(images: Vec<Image>, programs: &'static [HostProgram]) -> Self {
        let mut table =
            Self { images, found: programs.iter().map(|program| (program, BTreeMap::new())).collect() };
        table.refresh();
        table
    }

    /// Discovers installed programs again.
    pub(crate) fn refresh(&mut self) {
        for (program, versions) in &mut self.found {
            program.discover(program.places(), versions);
        }
    }

    /// Every image of this machine, for lists and messages.
    pub fn entries(&self) -> Vec<Image> {
        let found = self.found.iter().flat_map(|(program, versions)| {
            versions.iter().map(|(version, installed)| program.image(version, installed))
        });
        self.images.iter().cloned().chain(found).collect()
    }

    /// Finds an image.
    pub fn resolve(&self, reference: &str) -> Result<Image, UnknownImage> {
        if let Some(image) = self.images.iter().find(|image| matches(&image.pattern, reference)) {
            return match image.programs.iter().find(|(_, path)| !path.is_file()) {
                None => Ok(image.clone()),
                Some((name, path)) => Err(UnknownImage::Missing(format!(
                    "image {reference} is program {name}, but {} does not exist; build it first",
                    path.display()
                ))),
            };
        }
        let (name, tag) = split_reference(reference);
        let name = name.rsplit('/').next().unwrap_or(name);
        if let Some((program, versions)) = self.found.iter().find(|(program, _)| program.name == name) {
            let version = tag.unwrap_or_default().trim_start_matches('v');
            return match versions.get(version) {
                Some(installed) => Ok(program.image(version, installed)),
                None => Err(program.missing(reference, versions)),
            };
        }
        let known: Vec<String> = self.entries().into_iter().map(|image| image.pattern).collect();
        Err(UnknownImage::Other(format!(
            "image {reference} is not a program of this machine; available: {}",
            known.join(", ")
        )))
    }
}

impl HostProgram {
    fn image(&self, version: &str, installed: &Installed) -> Image {
        let mut programs = vec![(self.name.to_owned(), installed.path.clone())];
        programs.extend(installed.tools.iter().cloned());
        Image {
            pattern: format!("*/{}:v{version}", self.name),
            programs,
            entrypoint: Vec::new(),
            default_args: vec![self.name.to_owned()],
            description: format!("{} {version} ({})", self.name, installed.path.display()),
        }
    }

    fn missing(&self, reference: &str, versions: &BTreeMap<String, Installed>) -> UnknownImage {
        let Self { name, install, directories, .. } = self;
        let versions: Vec<String> = versions.keys().map(|version| format!("v{version}")).collect();
        UnknownImage::Missing(if versions.is_empty() {
            format!(
                "image {reference}: {name} not found on this machine; install it ({install}) or add its \
                 directory to {directories}"
            )
        } else {
            format!(
                "image {reference}: this version of {name} is not installed; available: {} (install another \
                 version and add its directory to {directories})",
                versions.join(", ")
            )
        })
    }

    /// Adds the versions in the directories, the first of each, and removes those that are gone.
    fn discover(&self, directories: Vec<PathBuf>, versions: &mut BTreeMap<String, Installed>) {
        for directory in directories {
            let path = directory.join(self.name);
            if versions.values().any(|known| known.path == path) {
                continue;
            }
            let Some(version) = self.version(&path) else { continue };
            let tools = self.tools.iter().map(|tool| ((*tool).to_owned(), directory.join(tool)));
            let tools = tools.filter(|(_, path)| path.is_file()).collect();
            versions.entry(version).or_insert(Installed { path, tools });
        }
        versions.retain(|_, installed| installed.path.is_file());
    }

    /// Directories with the program, in order of preference.
    fn places(&self) -> Vec<PathBuf> {
        let mut places = Vec::new();
        for directory in std::env::var_os(self.directories).iter().flat_map(std::env::split_paths) {
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
                    let package = python.join(packages).join(self.python_package);
                    places.extend(children(&package));
                    places.push(package);
                }
            }
        }
        places.retain(|place| place.join(self.name).is_file());
        places.dedup();
        places
    }

    fn version(&self, program: &Path) -> Option<String> {
        let output = Command::new(program).arg("--version").output().ok()?;
        self.version_in(&String::from_utf8_lossy(&output.stdout))
    }

    fn version_in(&self, output: &str) -> Option<String> {
        let version = output.lines().find_map(|line| line.strip_prefix(self.version_prefix))?.trim();
        (!version.is_empty()).then(|| version.to_owned())
    }
}

/// Name and tag; a digest is dropped, a port in the host name is not a tag.
pub(super) fn split_reference(reference: &str) -> (&str, Option<&str>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    static STORE: HostProgram = HostProgram {
        name: "store",
        tools: &["storectl", "storeutl"],
        version_prefix: "store Version:",
        directories: "STORE_DIRS",
        python_package: "store_distro",
        install: "Debian: `apt install store`",
    };

    fn table(versions: BTreeMap<String, Installed>) -> ImageTable {
        let shell = Image {
            pattern: "localhost/test/shell:*".to_owned(),
            programs: vec![("shell".to_owned(), "/bin/sh".into())],
            entrypoint: vec!["shell".to_owned()],
            default_args: Vec::new(),
            description: "a shell".to_owned(),
        };
        ImageTable { images: vec![shell], found: vec![(&STORE, versions)] }
    }

    fn installed() -> BTreeMap<String, Installed> {
        let tools = vec![("storectl".to_owned(), "/usr/bin/storectl".into())];
        [("3.4.23".to_owned(), Installed { path: "/usr/bin/store".into(), tools })].into()
    }

    #[test]
    fn the_image_of_a_program_is_the_one_of_exactly_that_version() {
        let image = table(installed()).resolve("quay.io/acme/store:v3.4.23").unwrap();
        assert_eq!(image.programs[0], ("store".to_owned(), PathBuf::from("/usr/bin/store")));
        assert_eq!(image.programs[1].0, "storectl");
        let refused = table(installed()).resolve("quay.io/acme/store:v3.5.0").unwrap_err().to_string();
        assert!(refused.contains("this version of store is not installed; available: v3.4.23"), "{refused}");
        assert!(table(installed()).resolve("quay.io/acme/store").is_err());
        let none = table(BTreeMap::new()).resolve("host:5000/store:v3.5.0").unwrap_err().to_string();
        assert!(none.contains("store not found on this machine"), "{none}");
    }

    #[test]
    fn installed_programs_are_discovered_with_their_tools() {
        use std::os::unix::fs::PermissionsExt as _;
        // given a directory with directories of two versions, of which one has no storeutl
        let dir = tempfile::tempdir().unwrap();
        for (version, programs) in
            [("3.5.30", vec!["store", "storectl", "storeutl"]), ("3.4.9", vec!["store", "storectl"])]
        {
            std::fs::create_dir(dir.path().join(version)).unwrap();
            for program in programs {
                let path = dir.path().join(version).join(program);
                std::fs::write(&path, format!("#!/bin/sh\necho store Version: {version}\n")).unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        // when they are discovered
        let mut versions = BTreeMap::new();
        STORE.discover(children(dir.path()), &mut versions);
        let discovered = table(versions.clone());
        // then each is an image of exactly its version, with its programs
        let programs = |reference: &str| -> Vec<String> {
            discovered.resolve(reference).unwrap().programs.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(programs("quay.io/acme/store:v3.5.30"), ["store", "storectl", "storeutl"]);
        assert_eq!(programs("registry.example.com/store:3.4.9"), ["store", "storectl"]);
        // and after its removal a version is not an image any more
        std::fs::remove_dir_all(dir.path().join("3.4.9")).unwrap();
        STORE.discover(Vec::new(), &mut versions);
        assert!(table(versions).resolve("quay.io/acme/store:v3.4.9").is_err());
    }

    #[test]
    fn an_unknown_image_lists_the_known_ones() {
        let table = table(installed());
        assert!(table.resolve("localhost/test/shell:0.1.0").is_ok());
        let refused = table.resolve("nginx:latest").unwrap_err().to_string();
        assert!(refused.contains("localhost/test/shell:*, */store:v3.4.23"), "{refused}");
    }

    #[test]
    fn patterns_and_references() {
        assert!(matches("a*c", "abc") && matches("a*c", "ac") && matches("*", "") && matches("abc", "abc"));
        assert!(!matches("a*c", "abd") && !matches("abc", "abcd") && !matches("*x*", "abc"));
        assert_eq!(split_reference("host:5000/store"), ("host:5000/store", None));
        assert_eq!(split_reference("host:5000/store:v1@sha256:00"), ("host:5000/store", Some("v1")));
        assert_eq!(STORE.version_in("store Version: 3.4.23\nGit SHA: x"), Some("3.4.23".to_owned()));
    }
}
