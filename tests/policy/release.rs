//! What a release is made from: one version, its changelog, the build context of the image.

use std::{collections::BTreeSet, fs};

use super::{metadata, root};

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

/// The version of `[workspace.package]`.
fn version() -> String {
    let text = read("Cargo.toml");
    let (_, package) = text.split_once("[workspace.package]").expect("a workspace package");
    let line = package.lines().find(|line| line.starts_with("version = ")).expect("a version");
    line.trim_start_matches("version = ").trim_matches('"').to_owned()
}

#[test]
fn the_version_is_in_one_place_and_in_the_changelog() {
    let metadata = metadata();
    let members: BTreeSet<&str> = metadata["workspace_members"]
        .as_array()
        .expect("members")
        .iter()
        .filter_map(|id| id.as_str())
        .collect();
    let packages = metadata["packages"].as_array().expect("packages");
    for package in
        packages.iter().filter(|package| package["id"].as_str().is_some_and(|id| members.contains(id)))
    {
        let manifest =
            fs::read_to_string(package["manifest_path"].as_str().expect("a path")).expect("a manifest");
        let inherits = manifest.lines().any(|line| line == "version.workspace = true");
        assert!(inherits, "{}: expected version.workspace = true", package["name"]);
    }
    let heading = format!("## {}", version());
    assert!(
        read("CHANGELOG.md").lines().any(|line| line.starts_with(&heading)),
        "CHANGELOG.md: no {heading}"
    );
}

/// The image is built from the whole workspace with `--locked`: a member that is missing in the context fails
/// the build, and build results of gigabytes delay it.
#[test]
fn the_build_context_of_the_image_has_the_workspace_without_build_results() {
    let text = read(".dockerignore");
    let ignored: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for name in ["target", ".git", ".olm"] {
        assert!(ignored.contains(&name), "{name} is not ignored");
    }
    let manifest = read("Cargo.toml");
    let (_, rest) = manifest.split_once("members = [").expect("members");
    let (members, _) = rest.split_once(']').expect("the end of the members");
    for member in members.lines().map(|line| line.trim().trim_matches(['"', ','])).filter(|m| !m.is_empty()) {
        let top = member.split('/').next().unwrap_or_default();
        assert!(!ignored.contains(&top) && !ignored.contains(&member), "{member} is ignored");
    }
    // the build script of the command embeds pages, the catalog its content
    for needed in ["docs", "catalog", "Cargo.lock", ".cargo"] {
        assert!(!ignored.contains(&needed), "{needed} is ignored");
    }
}
