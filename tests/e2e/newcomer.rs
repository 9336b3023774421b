//! `tests/newcomer.sh dev`: README's commands in a fresh clone, with the programs that cargo built.

use std::process::Stdio;

use olm_tests::{bin_dir, etcd, root, skipped};

use crate::{documents::in_own_network, own_turn};

#[test]
fn a_newcomer_follows_the_readme() {
    const NAME: &str = "a_newcomer_follows_the_readme";
    let Some(_turn) = own_turn(NAME, &["curl", "git", "kubectl", "make", "pgrep"]) else { return };
    if etcd::version().is_none() {
        return skipped(NAME, "etcd is not installed");
    }
    if !root().join(".git").exists() {
        return skipped(NAME, "the source tree is not a git checkout");
    }
    let script = root().join("tests/newcomer.sh");
    let mut command = in_own_network("-n", script.as_os_str());
    command.args(["dev", "--programs"]).arg(bin_dir()).stdin(Stdio::null());
    let output = command.output().expect("bash runs");
    let (printed, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}{error}");
    println!("{printed}");
}
