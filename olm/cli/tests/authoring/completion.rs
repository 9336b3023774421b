//! Shell completion.

use std::{
    net::TcpListener,
    process::{Command, Stdio},
    time::Instant,
};

use crate::{folder, program};

fn complete(cache: &std::path::Path, words: &[&str]) -> String {
    let mut command = program();
    command.env("OLM_COMPLETE", "bash").env("XDG_CACHE_HOME", cache);
    command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string()).env("_CLAP_IFS", "\n");
    let output = command.arg("--").args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn commands_are_completed_and_completion_is_silent_without_a_cluster() {
    let cache = tempfile::tempdir().unwrap();
    let found = complete(cache.path(), &["olm", "catalog", "va"]);
    assert_eq!(found.trim(), "validate");
    // Without a reachable cluster: no packages, and no error.
    let found = complete(cache.path(), &["olm", "show", ""]);
    assert!(!found.contains("error"), "{found}");
}

#[test]
fn codes_are_completed_without_a_cluster() {
    let cache = tempfile::tempdir().unwrap();
    let found = complete(cache.path(), &["olm", "explain", "NoUp"]);
    assert_eq!(found.trim(), "NoUpgradeEdge");
    let found = complete(cache.path(), &["olm", "plan", "roll"]);
    assert_eq!(found.trim(), "rollback");
}

#[test]
fn every_shell_gets_a_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = program().args(["completion", shell]).output().unwrap();
        assert!(output.status.success());
        let script = String::from_utf8_lossy(&output.stdout);
        assert!(script.contains("COMPLETE"), "{shell}: {script}");
    }
}

#[test]
fn a_cluster_that_does_not_answer_delays_completion_only_for_a_moment() {
    // given a server that accepts connections and never answers
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = silent.local_addr().unwrap();
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
    );
    let dir = folder(&[("kubeconfig", &config)]);
    let path = dir.path().join("kubeconfig");
    let path = path.to_str().unwrap();
    for words in [
        &["install", ""] as &[&str],
        &["status", ""],
        &["list", "-n", ""],
        &["install", "etcd", "--channel", ""],
        &["upgrade", "etcd", "--to", ""],
    ] {
        // when names are requested, then the command ends soon and without an error
        let start = Instant::now();
        complete(dir.path(), &[&["olm", "--kubeconfig", path], words].concat());
        assert!(start.elapsed().as_secs() < 3, "{words:?}: {:?}", start.elapsed());
    }
}

#[test]
fn a_refresh_ends_while_a_credential_plugin_blocks() {
    // Given a credential plugin that blocks for longer than the time limit
    let config = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
         contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {exec: {apiVersion: \
         client.authentication.k8s.io/v1, command: sleep, args: ['30'], interactiveMode: Never}}}]\n";
    let dir = folder(&[("kubeconfig", config)]);

    // When names are refreshed, the process ends earlier than the plugin
    let start = Instant::now();
    let mut command = program();
    command.env("OLM_COMPLETE", "bash").env("OLM_COMPLETE_REFRESH", "packages");
    command.env("XDG_CACHE_HOME", dir.path()).args(["--", "olm", "--kubeconfig"]);
    command.arg(dir.path().join("kubeconfig")).args(["install", ""]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().unwrap().success());
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn the_variable_of_a_refresh_has_no_effect_on_other_commands() {
    let output =
        program().env("OLM_COMPLETE_REFRESH", "packages").args(["completion", "bash"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("COMPLETE"), "{output:?}");
}

#[test]
fn the_program_is_a_plugin_of_kubectl() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, args: &[&str]| {
        let link = dir.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_olm"), &link).unwrap();
        Command::new(link).args(args).env("HOME", "/nonexistent").env_remove("KUBECONFIG").output().unwrap()
    };
    let usage = run("kubectl-olm", &["show"]);
    let text = String::from_utf8_lossy(&usage.stderr).into_owned();
    assert!(usage.status.code() == Some(2) && text.contains("Usage: kubectl olm show"), "{text}");
    let found = run("kubectl_complete-olm", &["catalog", "ver"]);
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(text.starts_with("verify\t") && text.ends_with("\n:4\n"), "{text}");
}
