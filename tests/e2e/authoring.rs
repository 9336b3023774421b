//! A project of `olm init` and `olm create api` compiles, and its tests pass.

use std::{path::Path, process::Command};

use olm_tests::{bin_dir, root, skipped};

fn run(program: impl AsRef<std::ffi::OsStr>, line: &str, folder: &Path) {
    let mut command = Command::new(program);
    command.args(line.split(' ')).current_dir(folder);
    // The dependencies are kept for the next run. The project is no package of this workspace, whose options of a
    // build in CI they share.
    command.env("CARGO_TARGET_DIR", root().join("target/authoring")).env_remove("RUSTC_WORKSPACE_WRAPPER");
    let output = command.output().expect("the program starts");
    let (printed, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{line}: {printed}{error}");
}

/// A01, A02. The project has the types of the oldest Kubernetes version, with which all its dependencies compile
/// anew: two minutes on two cores. That it equals operators/myapp, which is compiled here, is tested in olm-author.
#[test]
fn a_generated_project_passes_its_tests() {
    const NAME: &str = "a_generated_project_passes_its_tests";
    if std::env::var_os("OLM_TEST_LONG").is_none() {
        return skipped(NAME, "runs with OLM_TEST_LONG=1");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().join("shop-operator");
    let olm = bin_dir().join("olm");
    run(&olm, "init shop-operator --domain acme.example", folder.path());
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    // without a kind, with one, and with two in several groups
    run(&cargo, "check --offline --tests", &project);
    run(&olm, "create api --group shop --version v1alpha1 --kind Cart", &project);
    run(&olm, "create api --group acme --version v1 --kind ShoppingBasketOfACustomer", &project);
    run(&cargo, "test --offline", &project);
    run(&cargo, "clippy --offline --all-targets -- -D warnings", &project);
    run(&cargo, "fmt --check", &project);
}
