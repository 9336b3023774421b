//! The commands that the documents print. Those without a cluster run here, page by page; the others in the
//! scenario that has what they need. `UPDATE=1` writes the output of those that run here into the pages.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use olm_tests::{
    data,
    documents::{Block, Shell, block, blocks, pages},
    program, root, skipped,
};

/// Pages whose examples run in the checkout.
const IN_THE_CHECKOUT: &[&str] = &["README.md", "docs/plans.md"];

/// Pages whose examples run in a folder with the shared data, as described in docs/catalogs.md.
const WITH_DATA: &[&str] = &["docs/catalogs.md", "docs/catalog-serving.md", "docs/resolution.md"];

/// Runs all commands of README.md; newcomer.rs starts it.
const NEWCOMER: &str = "tests/newcomer.sh";

/// Examples that do not run here, by page and first command: the test that runs them, or why none does.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("README.md", "olm install etcd -n team-a", NEWCOMER),
    ("README.md", "kubectl delete pod", NEWCOMER),
    ("README.md", "olm install ectd", NEWCOMER),
    ("README.md", "kubectl exec", NEWCOMER),
    ("docs/catalogs.md", "olm bundle run", "tests/e2e/catalog_cli.rs"),
    ("docs/dev-cluster.md", "kubectl port-forward", "tests/e2e/network.rs"),
    ("docs/dev-cluster.md", "olm up --host-port", "tests/e2e/network.rs"),
    (
        "docs/doctor.md",
        "olm doctor",
        "the cluster of the page has several faults at once; tests/lifecycle/doctor.rs makes each",
    ),
    ("docs/myapp.md", "kubectl apply -n myapp", "tests/e2e/myapp.rs"),
    (
        "docs/running.md",
        "olm self install",
        "it changes the cluster of all scenarios; tests/lifecycle/packages.rs has the API",
    ),
    (
        "docs/signatures.md",
        "olm catalog",
        "the images are in no registry; olm/cli/tests/authoring/verify.rs signs its own",
    ),
];

fn elsewhere(block: &Block) -> Option<&'static str> {
    let row = |(page, command, _): &&(&str, &str, &str)| {
        *page == block.page && block.command().starts_with(command)
    };
    ELSEWHERE.iter().find(row).map(|(_, _, place)| *place)
}

/// A program that uses fixed ports, in a network of its own where `unshare` with these flags is allowed.
pub(crate) fn in_own_network(flags: &str, program: &OsStr) -> Command {
    let tried =
        Command::new("unshare").args([flags, "ip", "link", "set", "lo", "up"]).stderr(Stdio::null()).status();
    if !tried.is_ok_and(|status| status.success()) {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args([flags, "sh", "-c", r#"ip link set lo up; exec "$0" "$@""#]).arg(program);
    command
}

/// A bash without a cluster: `olm catalog serve` uses fixed ports.
fn bash(folder: &Path) -> Command {
    let mut command = in_own_network("-rn", "bash".as_ref());
    command.current_dir(folder).env("HOME", "/nonexistent");
    for name in ["KUBECONFIG", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "DOCKER_CONFIG", "REGISTRY_AUTH_FILE"] {
        command.env_remove(name);
    }
    command
}

fn run(page: &str, folder: &Path) -> Result<()> {
    let mut shell = Shell::start(bash(folder))?;
    let mut ran = 0;
    for block in blocks(page)?.iter().filter(|block| block.shows_output && elsewhere(block).is_none()) {
        match std::env::var_os("UPDATE") {
            Some(_) => block.update(&mut shell)?,
            None => block.check(&mut shell)?,
        }
        ran += 1;
    }
    ensure!(ran > 0, "{page} has no example that runs");
    Ok(())
}

#[test]
fn examples_in_the_checkout_print_what_the_pages_show() {
    for page in IN_THE_CHECKOUT {
        run(page, &root()).expect(page);
    }
}

/// A catalog with the faults that docs/catalogs.md shows.
const BROKEN: &str = "\
schema: olm.package
name: demo
defaultChannel: stabel
---
schema: olm.channel
package: demo
name: stable
entries:
- name: demo.v1.0.0
- name: demo.v1.1.0
---
schema: olm.bundle
package: demo
name: demo.v1.0.0
image: registry.example/demo:v1.0.0
properties:
- {type: olm.package, value: {packageName: demo, version: 1.0.0}}
";

#[test]
fn examples_with_catalogs_print_what_the_pages_show() {
    const NAME: &str = "examples_with_catalogs_print_what_the_pages_show";
    if !data().join("catalogs").exists() {
        return skipped(NAME, "the shared data is not there");
    }
    if program("curl").is_none() {
        return skipped(NAME, "curl is not installed");
    }
    for page in WITH_DATA {
        let story = || -> Result<()> {
            let folder = tempfile::tempdir()?;
            let at = |name: &str| folder.path().join(name);
            for name in ["community-dev.json", "community-full.json.zst"] {
                symlink(data().join("catalogs").join(name), at(name))?;
            }
            symlink(data().join("bundles"), at("bundles"))?;
            fs::create_dir_all(at("broken/demo"))?;
            fs::write(at("broken/demo/catalog.yaml"), BROKEN)?;
            // The page is the only place of this file.
            let template = block("docs/catalogs.md", "cat semver.yaml")?;
            fs::write(at("semver.yaml"), &template.steps.first().context("a command")?.output)?;
            run(page, folder.path())
        };
        story().expect(page);
    }
}

#[test]
fn every_example_with_output_runs_in_a_test() {
    let all: Vec<Block> = pages()
        .and_then(|pages| {
            let blocks = pages.iter().map(|page| blocks(page)).collect::<Result<Vec<_>>>()?;
            Ok(blocks.into_iter().flatten().filter(|block| block.shows_output).collect())
        })
        .expect("the pages");
    assert!(all.len() > 20, "{} examples", all.len());
    for block in &all {
        let (page, command) = (block.page.as_str(), block.command());
        let here = IN_THE_CHECKOUT.contains(&page) || WITH_DATA.contains(&page);
        assert!(
            here || elsewhere(block).is_some(),
            "{page}: no test runs `{command}`; ELSEWHERE is for reasons"
        );
    }
    for (page, command, place) in ELSEWHERE {
        let found = all.iter().any(|block| block.page == *page && block.command().starts_with(command));
        assert!(found, "{page} has no example `{command}`");
        if place.ends_with(".rs") {
            let test = fs::read_to_string(root().join(place)).expect(place);
            let runs = test.contains(&format!("block(\"{page}\", \"{command}"));
            assert!(runs, "{place} does not run `{command}` of {page}");
        }
    }
}

/// A cluster that does not answer: a command fails there only after its arguments were accepted.
const UNREACHABLE: &str = "\
apiVersion: v1
kind: Config
current-context: none
clusters: [{name: none, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
users: [{name: none, user: {token: none}}]
";

/// The words of a command up to a pipe, redirection or comment. Placeholders have values, and no registry is
/// asked.
fn words(command: &str) -> Vec<String> {
    let command = command.replace("\\\n", " ");
    let ends = [" #", " | ", " > ", " 2>", " <", "; ", " && ", " &", " -- "];
    let end = ends.iter().filter_map(|mark| command.find(mark)).min().unwrap_or(command.len());
    let words = command[..end].split_whitespace().map(|word| {
        let word = word.trim_matches('\'').replace("VERSION", "1.0.0").replace("quay.io/", "127.0.0.1:1/");
        let is_placeholder = word.len() > 2 && word.bytes().take(3).all(|byte| byte.is_ascii_uppercase());
        if is_placeholder { word.to_lowercase() } else { word }
    });
    words.collect()
}

/// Flags with which a command succeeds without a cluster; none for those that end for want of one.
fn without_effect(words: &[String]) -> &'static [&'static str] {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        // Roles need the kinds of a cluster.
        ["kubectl", "create", "rolebinding" | "clusterrolebinding" | "secret" | "priorityclass", ..] => {
            &["--dry-run=client"]
        }
        // Unknown flags are refused before the help is printed.
        ["kubectl", ..] | ["olm", "up", ..] | ["olm", "catalog", "serve", ..] => &["--help"],
        _ => &[],
    }
}

#[test]
fn olm_and_kubectl_accept_every_command_of_the_documents() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, UNREACHABLE).expect("a kubeconfig");
    let blocks = pages().and_then(|pages| pages.iter().map(|page| blocks(page)).collect::<Result<Vec<_>>>());
    let mut refused = Vec::new();
    let mut accepted = 0;
    for block in blocks.expect("the pages").iter().flatten() {
        for step in &block.steps {
            let words = words(&step.command);
            let mut command = match words.first().map(String::as_str) {
                Some("olm") => olm_tests::cluster::olm(),
                Some("kubectl") if program("kubectl").is_some() => Command::new("kubectl"),
                _ => continue,
            };
            command.args(&words[1..]).current_dir(folder.path()).stdin(Stdio::null());
            command.env("KUBECONFIG", &kubeconfig).env("HOME", "/nonexistent");
            let succeeds = without_effect(&words);
            command.args(succeeds);
            let output = command.output().expect("a program");
            let error = String::from_utf8_lossy(&output.stderr);
            if error.contains("try '--help'") || (!succeeds.is_empty() && !output.status.success()) {
                let first = error.lines().next().unwrap_or_default();
                refused.push(format!("{}: {}: {first}", block.page, step.command));
            } else {
                accepted += 1;
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(accepted > 50, "{accepted} commands");
}
