//! The scripts that run the tests: skips in CI, seeds of property tests. A stand-in for cargo records its calls.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use super::root;

/// The source tree with a stand-in for the script that needs a network.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(tree.path("scripts")).unwrap();
        for script in ["newest-etcd.sh", "test.sh", "test-long.sh", "unexpected-skips.sh"] {
            std::fs::copy(root().join("scripts").join(script), tree.path("scripts").join(script)).unwrap();
        }
        for folder in ["catalog", "olm", "operators", "tests"] {
            symlink(root().join(folder), tree.path(folder)).unwrap();
        }
        tree.script("scripts/etcd-newer.sh", "echo /etcds/3.5.30");
        tree
    }

    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(path)
    }

    fn script(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a script with a cargo that prints `output`: the exit code, the output, and the seed and arguments of
    /// each call of cargo.
    fn run(&self, script: &str, output: &str, ci: Option<&str>) -> (Option<i32>, String, Vec<String>) {
        let calls = self.path("calls");
        self.script(
            "cargo",
            &format!("echo \"$PROPTEST_RNG_SEED $*\" >>'{}'\necho '{output}'", calls.display()),
        );
        let _ = std::fs::remove_file(&calls);
        let mut command = Command::new("bash");
        command.arg(self.path("scripts").join(script));
        for name in ["CI", "PROPTEST_RNG_SEED", "OLM_TEST_LOG", "OLM_TEST_ETCD_VERSION"] {
            command.env_remove(name);
        }
        let cargo = format!("sh {}", self.path("cargo").display());
        let done = command.env("CARGO", cargo).envs(ci.map(|ci| ("CI", ci))).output().unwrap();
        let calls = std::fs::read_to_string(&calls).unwrap().lines().map(str::to_owned).collect();
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned(), calls)
    }
}

#[test]
fn a_skip_that_is_not_listed_fails_ci() {
    const LISTED: &str = "skipped: sbom: cargo-cyclonedx is not installed";
    const UNLISTED: &str = "skipped: a_test: kubectl is not installed";
    const ERROR: &str =
        "error: skips that tests/expected-skips.tsv does not list:\na_test: kubectl is not installed\n";
    let tree = Tree::new();
    let both = format!("{LISTED}\n{UNLISTED}");
    for (output, ci, expected) in [
        ("test a ... ok", Some("true"), Some(0)),
        (LISTED, Some("true"), Some(0)),
        (both.as_str(), Some("true"), Some(1)),
        (both.as_str(), None, Some(0)),
    ] {
        let (code, text, _) = tree.run("test.sh", output, ci);
        assert_eq!(code, expected, "{output:?} with CI={ci:?}: {text}");
        assert_eq!(text.contains(ERROR), expected == Some(1), "{text}");
    }
    let run = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    let at = |line: &str| run.lines().position(|other| other == line);
    let (set, tests) = (at("export CI=${CI:-true}"), at("make test"));
    assert!(set.is_some() && set < tests, ".ci/run runs `make test` without CI");
}

#[test]
fn property_tests_have_a_fixed_seed_and_in_the_long_run_a_random_one() {
    let tree = Tree::new();
    let (_, _, calls) = tree.run("test.sh", "", None);
    assert!(calls.len() > 3 && calls.iter().all(|call| call.starts_with("1 ")), "{calls:?}");

    let mut seeds = Vec::new();
    for _ in 0..2 {
        let (code, text, calls) = tree.run("test-long.sh", "", None);
        assert_eq!(code, Some(0), "{text}");
        let random: Vec<_> = calls
            .iter()
            .filter_map(|call| call.split_once(' '))
            .filter(|(seed, _)| !seed.is_empty())
            .collect();
        let [(seed, arguments)] = random[..] else { panic!("one call has a seed: {calls:?}") };
        assert!(text.contains(&format!("PROPTEST_RNG_SEED={seed} ")), "{text}");
        for program in programs() {
            assert!(arguments.split(' ').any(|a| a == program), "{program} is not among {arguments}");
        }
        seeds.push(seed.parse::<u64>().unwrap());
    }
    assert_ne!(seeds[0], seeds[1]);
}

/// Arguments of cargo for the programs with property tests.
fn programs() -> Vec<String> {
    let search = ["grep", "-lE", "^ *(use )?proptest(!|::)", "--", "*.rs"];
    let out = Command::new("git").args(search).current_dir(root()).output().unwrap();
    let files = String::from_utf8(out.stdout).unwrap();
    let mut programs: Vec<_> = files
        .lines()
        .map(|file| match file.split_once("/tests/") {
            Some((package, program)) if !package.contains("/src") => {
                format!("--test={}", program.split(['/', '.']).next().unwrap_or_default())
            }
            _ => "--lib".to_owned(),
        })
        .collect();
    programs.sort();
    programs.dedup();
    assert!(programs.len() > 2, "{programs:?}");
    programs
}
