//! `scripts/sbom.sh`: an SBOM of each shipped program, and rejection of invalid ones.

use std::{
    collections::BTreeSet,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

use super::{release::shipped_operators, root};

/// Directory, package and program of the shipped ones.
const PROGRAMS: [(&str, &str); 3] =
    [("olm/cli", "olm"), ("operators/etcd", "etcd-operator"), ("operators/myapp", "myapp-operator")];

fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

/// Runs the script of a source tree for one target.
fn run(tree: &Path, out: &Path, cargo: &str) -> Output {
    Command::new(tree.join("scripts/sbom.sh"))
        .arg("x86_64-unknown-linux-gnu")
        .env("CARGO", cargo)
        .env("CARGO_NET_OFFLINE", "true")
        .env("OLM_SBOM_DIR", out)
        .env("SOURCE_DATE_EPOCH", "1767225600")
        .output()
        .expect("the script runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn runs(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

/// Whether the tools are installed; prints the missing one.
fn tools(test: &str, names: &[(&str, &[&str], &str)]) -> bool {
    let missing = names.iter().find(|(program, args, _)| !runs(program, args));
    if let Some((.., name)) = missing {
        olm_tests::skipped(test, &format!("{name} is not installed"));
    }
    missing.is_none()
}

fn texts(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => out.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, out)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, out)),
        _ => {}
    }
}

#[test]
fn every_operator_of_the_shipped_catalog_has_an_sbom() {
    let listed: BTreeSet<String> = PROGRAMS.iter().map(|(_, name)| (*name).to_owned()).collect();
    let mut shipped = shipped_operators();
    shipped.insert("olm".to_owned());
    assert_eq!(listed, shipped);
    let script = std::fs::read_to_string(root().join("scripts/sbom.sh")).expect("the script");
    for (folder, name) in PROGRAMS {
        assert!(script.lines().any(|line| line == format!("sbom {folder} {name}")), "{name}");
    }
}

#[test]
fn each_shipped_program_has_an_sbom_that_is_the_same_wherever_it_is_made() {
    let cargo = cargo();
    let needed: [(&str, &[&str], &str); 2] =
        [("jq", &["--version"], "jq"), (&cargo, &["cyclonedx", "--version"], "cargo-cyclonedx")];
    if !tools("sbom", &needed) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // given the source tree, and a copy of it in another directory
    let copy = folder.path().join("copy");
    let mut copying = Command::new("sh");
    copying
        .arg("-c")
        .arg(
            "find . -path ./target -prune -o -type f \\( -name '*.rs' -o -name 'Cargo.*' -o -name sbom.sh \\) -print0 | \
             tar --null -T - -cf - | tar -xf - -C \"$0\"",
        )
        .arg(&copy)
        .current_dir(root());
    std::fs::create_dir(&copy).expect("a folder");
    assert!(copying.status().is_ok_and(|status| status.success()), "the tree is copied");
    let made: Vec<_> = [root(), copy]
        .iter()
        .enumerate()
        .map(|(index, tree)| {
            let out = folder.path().join(index.to_string());
            let output = run(tree, &out, &cargo);
            assert!(output.status.success(), "{}", stderr(&output));
            PROGRAMS.map(|(_, name)| {
                let file = out.join(format!("{name}-x86_64-unknown-linux-gnu.cdx.json"));
                std::fs::read_to_string(file).expect("the SBOM")
            })
        })
        .collect();
    // then both have the same SBOMs, each of the product at its version
    assert!(made[0] == made[1], "the SBOMs differ");
    for ((folder, name), text) in PROGRAMS.iter().zip(&made[0]) {
        let sbom: Value = serde_json::from_str(text).expect("JSON");
        let product = &sbom["metadata"]["component"];
        assert_eq!(
            (&product["name"], &product["version"]),
            (&json!(name), &json!(env!("CARGO_PKG_VERSION")))
        );
        let components = sbom["components"].as_array().expect("components");
        let has = |wanted: &str| components.iter().any(|component| component["name"] == wanted);
        assert!(components.len() > 100 && has("kube") && has("olm-client"), "{name}: {}", components.len());
        // The image has no dev cluster, and tests are not part of a program.
        assert!(!has("olm-devcluster") && !has("proptest") && !has("s3s"), "{name}");
        let mut all = Vec::new();
        texts(&sbom, &mut all);
        let here = root();
        let here = here.to_str().expect("a path");
        let paths: Vec<_> = all.iter().filter(|text| text.contains(here) || text.contains("/tmp/")).collect();
        assert!(paths.is_empty(), "{name}: {paths:?}");
        assert!(!root().join(folder).join(format!("{name}_bin.cdx.json")).exists(), "in the source tree");
    }
}

/// A cargo whose packages only depend on crate `a 1.0.0`.
const STUB: &str = r#"#!/bin/sh
case "$1 $2" in
"cyclonedx --version") [ ! -e "$(dirname "$0")/absent" ] ;;
"cyclonedx "*)
    cp "$(dirname "$0")/olm.json" olm/cli/olm_bin.cdx.json
    cp "$(dirname "$0")/etcd-operator.json" operators/etcd/etcd-operator_bin.cdx.json
    cp "$(dirname "$0")/myapp-operator.json" operators/myapp/myapp-operator_bin.cdx.json ;;
"tree "*) printf '%s v0.1.0 (%s)\na v1.0.0\na v1.0.0 (*)\n' "$4" "$PWD" ;;
*) exit 1 ;;
esac
"#;

#[test]
fn an_sbom_that_is_not_of_what_was_built_is_refused() {
    if !tools("sbom refusals", &[("jq", &["--version"], "jq")]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (stub, out) = (folder.path().join("cargo"), folder.path().join("out"));
    std::fs::write(&stub, STUB).expect("a file");
    std::fs::set_permissions(&stub, std::fs::Permissions::from_mode(0o755)).expect("permissions");
    let component = |name: &str, version: &str| json!({ "bom-ref": name, "name": name, "version": version, "licenses": [{ "expression": "MIT" }] });
    let sbom = |name: &str| {
        json!({
            "metadata": { "component": component(name, "0.1.0") },
            "components": [component("a", "1.0.0"), component("of-a-test", "1.0.0")],
            "dependencies": [{ "ref": name, "dependsOn": ["a", "of-a-test"] }, { "ref": "a" }, { "ref": "of-a-test" }],
        })
    };
    let write = |name: &str, sbom: &Value| {
        std::fs::write(folder.path().join(format!("{name}.json")), sbom.to_string()).expect("a file");
    };
    let script = || run(&root(), &out, stub.to_str().expect("a path"));
    for name in ["etcd-operator", "myapp-operator"] {
        write(name, &sbom(name));
    }

    // when it is complete, then it is written, without unrelated crates
    write("olm", &sbom("olm"));
    let output = script();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(out.join("olm-x86_64-unknown-linux-gnu.cdx.json")).expect("the SBOM");
    let mut all = Vec::new();
    texts(&serde_json::from_str(&text).expect("JSON"), &mut all);
    assert!(all.contains(&"a".to_owned()) && !text.contains("of-a-test"), "{text}");

    // when it is not, then the reason is named and nothing is written
    std::fs::remove_dir_all(&out).expect("the folder");
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 6] = [
        ("olm: a 1.0.0 is missing", |sbom| sbom["components"][0]["version"] = "1.0.1".into()),
        ("olm: a 1.0.0 is missing", |sbom| sbom["components"] = json!([])),
        ("olm: a 1.0.0 has no licence", |sbom| sbom["components"][0]["licenses"] = Value::Null),
        ("olm: olm 0.1.0 has no licence", |sbom| sbom["metadata"]["component"]["licenses"] = json!([])),
        ("olm: it describes olm 0.2.0", |sbom| sbom["metadata"]["component"]["version"] = "0.2.0".into()),
        ("olm: a path of this machine: see ", |sbom| {
            sbom["components"][0]["description"] = format!("see {}/docs", root().display()).into();
        }),
    ];
    for (why, change) in cases {
        let mut changed = sbom("olm");
        change(&mut changed);
        write("olm", &changed);
        let output = script();
        assert_eq!(output.status.code(), Some(1), "{why}");
        assert!(stderr(&output).contains(why), "{why}: {}", stderr(&output));
        assert!(!out.exists(), "{why}: it was written");
    }

    // when the tool is not installed, then the script prints how to install it
    std::fs::write(folder.path().join("absent"), "").expect("a file");
    let output = script();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cargo install --locked cargo-cyclonedx"), "{}", stderr(&output));
}
