//! Shell completion.

use crate::program;

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
