//! `Cargo.toml` of a project. Its dependencies are those of the kit and of MyApp, as the workspace declares them.

use std::fmt::Write as _;

use semver::VersionReq;

use crate::project::Project;

const WORKSPACE: &str = include_str!("../../../Cargo.toml");
const KIT: &str = include_str!("../../../operators/kit/Cargo.toml");
const MYAPP: &str = include_str!("../../../operators/myapp/Cargo.toml");
const TEMPLATE: &str = include_str!("../template/Cargo.toml.in");

/// Crates of the workspace, whose files become part of the project.
const COPIED: [&str; 2] = ["olm-client", "operator-kit"];

/// Kinds of the oldest Kubernetes version of k8s-openapi instead of the newest: a field that an API server does not know is an
/// error when it is applied.
const KUBERNETES: (&str, &str) = ("\"v1_37\"", "\"earliest\"");

/// The lines of a section of a manifest.
fn section<'a>(manifest: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let header = format!("[{name}]");
    manifest.lines().skip_while(move |line| *line != header).skip(1).take_while(|line| !line.starts_with('['))
}

/// The crates of a section that the workspace declares.
fn inherited(manifest: &'static str, name: &str) -> impl Iterator<Item = &'static str> {
    section(manifest, name)
        .filter_map(|line| line.strip_suffix(".workspace = true"))
        .filter(|name| !COPIED.contains(name))
}

/// The declaration of a crate in the workspace, without its name.
fn declared(name: &str) -> &'static str {
    let mut lines = section(WORKSPACE, "workspace.dependencies");
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" = ")).unwrap_or_default()
}

/// The dependencies of a project with their declarations, and those of its tests.
pub fn dependencies() -> impl Iterator<Item = (&'static str, &'static str)> {
    normal().into_iter().chain(of_tests()).map(|name| (name, declared(name)))
}

fn normal() -> Vec<&'static str> {
    let mut names: Vec<_> = inherited(KIT, "dependencies").chain(inherited(MYAPP, "dependencies")).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn of_tests() -> Vec<&'static str> {
    let normal = normal();
    inherited(MYAPP, "dev-dependencies").filter(|name| !normal.contains(name)).collect()
}

/// The packages of the dependencies and their accepted versions.
pub fn packages() -> Vec<(String, VersionReq)> {
    let package = |(name, text): (&str, &str)| {
        let package = quoted(text, "package = ").unwrap_or(name);
        let version = quoted(text, "version = ").or_else(|| quoted(text, ""));
        (package.to_owned(), version.and_then(|version| version.parse().ok()).unwrap_or(VersionReq::STAR))
    };
    dependencies().map(package).collect()
}

/// The text between quotation marks after a key.
fn quoted<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("{key}\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// `Cargo.toml` of a new project.
pub fn cargo_toml(project: &Project) -> String {
    let mut details = String::new();
    if let Some(owner) = &project.owner {
        _ = writeln!(details, "authors = [{}]", string(owner));
    }
    if let Some(license) = &project.license {
        _ = writeln!(details, "license = {}", string(license));
    }
    if let Some(repository) = &project.repository {
        _ = writeln!(details, "repository = {}", string(repository));
    }
    let lines = |names: Vec<&str>| {
        let line = |name: &str| format!("{name} = {}\n", declared(name).replace(KUBERNETES.0, KUBERNETES.1));
        names.into_iter().map(line).collect::<String>()
    };
    let mut rust = section(WORKSPACE, "workspace.package").filter(|line| line.starts_with("rust-version = "));
    TEMPLATE
        .replace("{name}", &project.name)
        .replace("{rust-version}", rust.next().unwrap_or_default())
        .replace("{domain}", &string(&project.domain))
        .replace("{scaffold}", env!("CARGO_PKG_VERSION"))
        .replace("{dependencies}\n", &lines(normal()))
        .replace("{dev-dependencies}\n", &lines(of_tests()))
        // Last: the text of a user is not searched for placeholders.
        .replace("{details}\n", &details)
}

/// A basic string of TOML.
fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_is_declared_in_the_workspace() {
        let all: Vec<_> = dependencies().collect();
        assert!(all.len() > 10, "{all:?}");
        for (name, declaration) in &all {
            assert!(!declaration.is_empty() && !declaration.contains("path = "), "{name}: {declaration:?}");
        }
        for (manifest, name) in [(KIT, "dependencies"), (MYAPP, "dependencies"), (MYAPP, "dev-dependencies")]
        {
            let lines = section(manifest, name).filter(|line| !line.is_empty());
            let other: Vec<_> = lines.filter(|line| !line.ends_with(".workspace = true")).collect();
            assert!(other.is_empty(), "only crates of the workspace are understood: {other:?}");
        }
    }

    /// A crate that a copied file uses and the manifest lacks would not compile.
    #[test]
    fn every_crate_that_the_copied_files_import_is_a_dependency() {
        let known: Vec<String> = dependencies().map(|(name, _)| name.replace('-', "_")).collect();
        for (path, text) in crate::sources::of_kit() {
            let text = crate::scaffold::without_tests(text);
            let imports = text.lines().filter_map(|line| line.trim_start().strip_prefix("use "));
            for import in imports {
                let end = import.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(import.len());
                let (name, rest) = import.split_at(end);
                let local = ["crate", "super", "self", "std", "olm_client"].contains(&name);
                // `use fence::Fence` names a module of the file.
                let module = text.contains(&format!("mod {name};"));
                let is_crate = rest.starts_with("::") && !local && !module;
                assert!(!is_crate || known.iter().any(|known| known == name), "{path}: {import}");
            }
        }
    }

    #[test]
    fn the_manifest_has_the_versions_of_the_workspace() {
        let project = Project::new("shop", "example.com").unwrap();
        let text = cargo_toml(&project);
        for (name, declaration) in dependencies() {
            let line = format!("\n{name} = {}\n", declaration.replace("v1_37", "earliest"));
            assert!(text.contains(&line), "{name}: {text}");
        }
        assert!(
            text.contains("k8s-openapi = ") && text.contains("\"earliest\"") && !text.contains("v1_"),
            "{text}"
        );
        assert!(text.contains("\n[workspace]\n") && text.contains("\nrust-version = \"1."), "{text}");
        for placeholder in
            ["{name}", "{domain}", "{details}", "{scaffold}", "{rust-version}", "dependencies}"]
        {
            assert!(!text.contains(placeholder), "{placeholder}: {text}");
        }
    }

    #[test]
    fn texts_of_users_are_escaped() {
        assert_eq!(string("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000Ad\"");
    }
}
