//! The whole output of commands that read a cluster, in all formats, with a built `olm`, a registry and a manager.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use olm_devcluster::api::Identity;
use olm_tests::inprocess::Served;
use serde_json::json;

use crate::catalog_add::{Setup, with_setup};

/// Words that differ between runs, replaced by what they mean; columns are two spaces apart.
fn stable(text: &str, registry: &str) -> String {
    let text = text.replace(registry, "REGISTRY");
    let mut out = String::new();
    for line in text.lines() {
        // Events of one second have any order.
        if line.starts_with("AGE ") && line.contains(" OBJECT ") {
            out += "(events)\n";
            break;
        }
        // Of several concurrent lists, any can be the first to fail.
        let kinds = ["clusterserviceversions", "installplans", "operatorgroups", "subscriptions"];
        let is_list = line.contains("failed to list ") || line.contains("--verb=list");
        let kinds = kinds.iter().filter(|_| is_list);
        let line = kinds.fold(line.to_owned(), |line, kind| line.replace(kind, "KIND"));
        let start = line.len() - line.trim_start().len();
        let columns = line.trim().split("  ").map(str::trim).filter(|column| !column.is_empty());
        let columns: Vec<String> =
            columns.map(|column| column.split(' ').map(word).collect::<Vec<_>>().join(" ")).collect();
        _ = writeln!(out, "{}{}", &line[..start], columns.join("  "));
    }
    out
}

fn word(word: &str) -> String {
    let bare = word.trim_matches(['"', '\'', ',', '(', ')', ';', '.']);
    let shown = match bare {
        _ if is_digest(bare) => replaced_hex(bare),
        _ if is_time(bare) => "TIME".to_owned(),
        _ if is_age(bare) => "AGE".to_owned(),
        _ => return words_of_plan(word),
    };
    word.replace(bare, &shown)
}

fn is_digest(word: &str) -> bool {
    word.contains("sha256:")
}

fn replaced_hex(word: &str) -> String {
    let (before, hex) = word.split_once("sha256:").unwrap_or((word, ""));
    format!("{before}sha256:DIGEST{}", hex.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
}

/// RFC 3339.
fn is_time(word: &str) -> bool {
    word.len() >= 20 && word.ends_with('Z') && word.as_bytes()[4] == b'-' && word.as_bytes()[10] == b'T'
}

/// `12s`, `1m2s`, `(0.1s)`.
fn is_age(word: &str) -> bool {
    let Some(number) = word.strip_suffix(['s', 'm', 'h', 'd']) else { return false };
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'm' | b'h'))
}

/// The name of a plan ends in a part of its digest.
fn words_of_plan(word: &str) -> String {
    match word.find("install-") {
        Some(at) => {
            let (before, rest) = word.split_at(at + "install-".len());
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
            format!("{before}NAME{rest}")
        }
        None => word.to_owned(),
    }
}

/// Runs each command; standard error is marked with `!`.
async fn transcript(served: &Served, registry: &str, lines: &[&str]) -> Result<String> {
    let mut all = String::new();
    for line in lines {
        let args: Vec<&str> = line.split(' ').collect();
        let ran = served.ran(&args).await?;
        ensure!(!ran.out.contains("error: "), "{line}: {}", ran.out);
        _ = writeln!(all, "$ olm {line}");
        all += &stable(&ran.out, registry);
        for line in stable(&ran.err, registry).lines() {
            _ = writeln!(all, "! {line}");
        }
        _ = writeln!(all, "exit code {}\n", ran.code.unwrap_or(-1));
    }
    Ok(all)
}

/// Installs package `a` in version 1.0.0; returns the registry's address.
async fn installed(setup: &Setup) -> Result<String> {
    let image = setup.push("acme")?;
    let registry = image.split('/').next().unwrap_or_default().to_owned();
    for line in [
        format!("catalog add {image} --wait --timeout 60s").as_str(),
        "install a -n ns --catalog acme --approval automatic --wait --timeout 60s",
    ] {
        let ran = setup.admin.ran(&line.split(' ').collect::<Vec<_>>()).await?;
        ensure!(ran.code == Some(0), "{line}: {}{}", ran.out, ran.err);
    }
    setup.world.installed("ns", "a", "a.v1.0.0").await?;
    setup.world.quiet().await?;
    Ok(registry)
}

#[test]
fn the_output_about_an_operator_in_every_format() {
    with_setup("the_output_about_an_operator_in_every_format", async |setup| {
        let registry = installed(&setup).await?;
        let lines = [
            "list",
            "list -o wide",
            "list -o json",
            "list -o yaml",
            "list -o name",
            "list -o jsonpath={[*].version}",
            "list --outdated",
            "status a -n ns",
            "status a -n ns -o name",
            "history a -n ns",
            "history a -n ns -o name",
            "why a -n ns",
            "versions a -n ns",
            "instances a -n ns",
            "can-i install a -n ns",
            "can-i install a -n ns -o name",
            "plan uninstall a -n ns",
            "catalog sources",
            "catalog sources -o name",
            "show a",
            "search",
            "upgrade a -n ns",
            "install a -n ns --catalog acme",
            "pause a -n ns",
            "resume a -n ns",
        ];
        insta::assert_snapshot!("about_an_operator", transcript(&setup.admin, &registry, &lines).await?);
        Ok(())
    });
}

#[test]
fn the_errors_of_a_cluster_name_the_next_step() {
    with_setup("the_errors_of_a_cluster_name_the_next_step", async |setup| {
        let registry = installed(&setup).await?;
        let lines = [
            "status b",
            "status b -n ns",
            "install b -n ns",
            "install a -n ns --channel beta",
            "install a -n other --version 9.0.0",
            "install a -n other --catalog none",
            "rollback a -n ns",
            "set-channel a beta -n ns",
            "approve a -n ns",
            "history b -n ns",
            "catalog remove none",
            "show b",
        ];
        insta::assert_snapshot!("errors_of_a_cluster", transcript(&setup.admin, &registry, &lines).await?);
        // and a preview that a finding blocks is printed, and has the exit code of the refusal
        setup.world.home("crowded").await?;
        let second = json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": { "name": "second", "namespace": "crowded" }, "spec": {} });
        setup.world.apply(&second).await?;
        for line in ["install a -n crowded --dry-run", "plan install a -n crowded"] {
            let ran = setup.admin.ran(&line.split(' ').collect::<Vec<_>>()).await?;
            ensure!(ran.code == Some(4), "{line}: {:?}: {}{}", ran.code, ran.out, ran.err);
            ensure!(ran.out.contains("TooManyOperatorGroups"), "{line}: {}{}", ran.out, ran.err);
        }
        // and a visitor gets the missing permissions
        let visitor = setup.world.serve_to(Identity::user("visitor", []), setup.manager)?;
        let lines = [
            "list",
            "list -n ns",
            "status a -n ns",
            "install a -n ns",
            "can-i install a -n ns",
            "uninstall a -n ns --yes",
        ];
        insta::assert_snapshot!("errors_of_a_visitor", transcript(&visitor, &registry, &lines).await?);
        Ok(())
    });
}
