//! A release: one version, its changelog, the build context of the image, the artifacts of `scripts/release.sh`.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

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

/// Program text does not repeat the version: it uses `env!("CARGO_PKG_VERSION")`.
#[test]
fn no_program_states_the_version() {
    // Names that stay the same in all versions.
    const REASONS: &[(&str, &str)] =
        &[("localhost/olm/catalog:0.1.0", "CatalogSources of every version have this image")];
    let list = ["ls-files", "*.rs", "*.sh", "Makefile", ".ci", ".github"];
    let Ok(out) = Command::new("git").args(list).current_dir(root()).output() else {
        return olm_tests::skipped("version", "git is not installed");
    };
    let version = version();
    let mut wrong = Vec::new();
    for file in String::from_utf8_lossy(&out.stdout).lines() {
        let is_test = file.split('/').any(|part| part == "tests" || part == "tests.rs");
        let Some(text) = fs::read_to_string(root().join(file)).ok().filter(|_| !is_test) else { continue };
        let code = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").enumerate();
        let states = code.filter(|(_, line)| {
            let ends = [format!("\"{version}\""), format!(":{version}\""), format!("v{version}\"")];
            ends.iter().any(|end| line.contains(end)) && !REASONS.iter().any(|(name, _)| line.contains(name))
        });
        wrong.extend(states.map(|(at, line)| format!("{file}:{}: {}", at + 1, line.trim())));
    }
    assert!(wrong.is_empty(), "the version is stated outside Cargo.toml:\n  {}", wrong.join("\n  "));
}

const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// `scripts/release.sh` with the variables of this test alone.
fn script() -> Command {
    let mut command = Command::new("bash");
    command.arg(root().join("scripts/release.sh"));
    for name in ["TARGETS", "PROFILE", "TAG", "BINARIES"] {
        command.env_remove(format!("RELEASE_{name}"));
    }
    command
}

/// The names of artifacts, as documents write them.
fn artifacts() -> BTreeSet<String> {
    let output = script().arg("--list").output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut text = String::from_utf8(output.stdout).expect("UTF-8").replace(&version(), "VERSION");
    for target in TARGETS {
        assert!(text.contains(target), "no artifact for {target}");
        text = text.replace(target, "TARGET");
    }
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_artifacts_of_a_release_are_documented() {
    let page = read("docs/releasing.md");
    let (_, rest) = page.split_once("<!-- artifacts -->").expect("the table of artifacts");
    let (table, _) = rest.split_once("<!-- end -->").expect("the end of the table");
    let listed: BTreeSet<String> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .filter_map(|line| line.split('`').nth(1).map(str::to_owned))
        .collect();
    assert_eq!(listed, artifacts());
    for target in TARGETS {
        assert!(page.contains(target), "docs/releasing.md does not name {target}");
    }
}

#[test]
fn the_workflow_runs_the_script_with_the_rust_of_ci() {
    let (workflow, ci) = (read(".github/workflows/release.yml"), read(".github/workflows/ci.yml"));
    let runs = |text: &str| text.lines().any(|line| line.trim() == "scripts/release.sh");
    assert!(runs(&workflow), "release.yml does not run scripts/release.sh");
    assert!(read("Makefile").contains("\nrelease:\n\t@scripts/release.sh\n"), "Makefile");
    let image = |text: &str| text.lines().find(|line| line.trim().starts_with("image: ")).map(str::to_owned);
    assert_eq!(image(&workflow), image(&ci));
    for target in TARGETS {
        assert!(workflow.contains(target), "release.yml does not install {target}");
    }
    let named = workflow.replace("${TAG#v}", "VERSION");
    let notes = named.split('"').find(|word| word.ends_with(".md")).expect("--notes-file");
    assert!(artifacts().contains(notes), "{notes} is not an artifact");
}

/// The programs of the shipped catalog's images, such as `etcd-operator`.
pub fn shipped_operators() -> BTreeSet<String> {
    let name = |image: &str| {
        let (name, _) = image.strip_prefix("localhost/olm/")?.split_once(':')?;
        Some(name.to_owned())
    };
    olm_catalog::shipped_images().iter().map(|image| name(image).expect("an image of the product")).collect()
}

#[test]
fn a_release_has_the_program_of_every_image_of_the_shipped_catalog() {
    let artifacts = artifacts();
    let operators = shipped_operators();
    assert!(operators.len() > 1, "{operators:?}");
    for operator in operators {
        let sbom = format!("{operator}-VERSION-TARGET.cdx.json");
        assert!(artifacts.contains(&sbom), "{sbom} is not among {artifacts:?}");
    }
}

/// An `olm` that writes the files that the script packages.
const OLM: &str = r#"#!/bin/sh
case "$1 $2" in
"--version "*) echo "olm @VERSION@" ;;
"man "*) mkdir -p "$2" && echo page >"$2/olm.1" ;;
"completion "*) echo "$2" ;;
"self image") echo "$@" | sed "s#[^ =]*/release\.[^/]*##g" >"$4" && echo '[{"image":"olm","libraries":[]}]' ;;
"self manifests") mkdir -p "$4" && echo "version: @VERSION@" >"$4/Chart.yaml" ;;
*) exit 1 ;;
esac
"#;

/// A cargo whose packages have no dependencies.
const CARGO: &str = r#"#!/bin/sh
case "$1 $2" in
"--version "*|"cyclonedx --version") ;;
"cyclonedx "*)
    for program in olm/cli/olm operators/etcd/etcd-operator operators/myapp/myapp-operator; do
        name=${program##*/}
        component="{\"bom-ref\":\"$name\",\"name\":\"$name\",\"version\":\"1.0.0\",\"licenses\":[{\"expression\":\"MIT\"}]}"
        echo "{\"metadata\":{\"component\":$component},\"components\":[],\"dependencies\":[]}" >"${program}_bin.cdx.json"
    done ;;
"tree "*) echo "$4 v1.0.0 ($PWD)" ;;
*) exit 1 ;;
esac
"#;

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, text.replace("@VERSION@", &version())).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// Packages the programs in `folder` for this machine, into `folder/out`: the output and the directory of artifacts.
fn package(folder: &Path, out: &str, variables: &[(&str, &str)]) -> (Output, PathBuf) {
    let target_dir = folder.join(out);
    let output = script()
        .env("CARGO", folder.join("cargo"))
        .env("CARGO_TARGET_DIR", &target_dir)
        .env("SOURCE_DATE_EPOCH", "1767225600")
        .env("RELEASE_TARGETS", format!("{}-unknown-linux-musl", std::env::consts::ARCH))
        .env("RELEASE_BINARIES", folder)
        .envs(variables.iter().copied())
        .output()
        .expect("bash runs");
    (output, target_dir.join("release-artifacts").join(version()))
}

#[test]
fn a_release_is_complete_reproducible_and_of_one_version() {
    if !Command::new("jq").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return olm_tests::skipped("release", "jq is not installed");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let programs = folder.join(format!("{}-unknown-linux-musl", std::env::consts::ARCH));
    program(&folder.join("cargo"), CARGO);
    program(&programs.join("olm"), OLM);
    let stderr = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();

    // when a program is missing, then it is named before anything is written
    let (output, _) = package(folder, "a", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/etcd-operator, an executable file"), "{}", stderr(&output));
    assert!(!folder.join("a").exists());

    // when it is packaged twice, then both have the same bytes, and the checksums name all files
    for operator in shipped_operators() {
        program(&programs.join(operator), "#!/bin/sh\n");
    }
    let sums = ["a", "b"].map(|out| {
        let (output, artifacts) = package(folder, out, &[]);
        assert!(output.status.success(), "{}", stderr(&output));
        let check = Command::new("sha256sum")
            .args(["--check", "--strict", "sha256sums.txt"])
            .current_dir(&artifacts)
            .output();
        assert!(check.is_ok_and(|check| check.status.success()), "{}", artifacts.display());
        let sums = fs::read_to_string(artifacts.join("sha256sums.txt")).expect("checksums");
        assert_eq!(sums.lines().count() + 1, fs::read_dir(artifacts).expect("a directory").count());
        sums
    });
    assert_eq!(sums[0], sums[1]);

    // when the tag or the program has another version, then there is no release
    let (output, artifacts) = package(folder, "c", &[("RELEASE_TAG", "v0.0.0")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("RELEASE_TAG: v0.0.0 is not v"), "{}", stderr(&output));
    program(&programs.join("olm"), &OLM.replace("olm @VERSION@", "olm 0.0.0"));
    let (output, _) = package(folder, "c", &[]);
    assert!(stderr(&output).contains("prints version olm 0.0.0"), "{}", stderr(&output));
    assert!(!artifacts.exists());
}
