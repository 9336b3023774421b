//! The whole output of commands: standard output, standard error and exit code. Each was read as a user reads
//! it; a change of a text shows here.

mod errors;
mod help;
mod offline;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
};

use crate::{Ran, program, without_digests, without_times};

/// Catalogs and bundles of these tests, the folder in which commands run.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/authoring/fixtures")
}

/// The words of a line of a shell, without quotes.
fn words(line: &str) -> Vec<String> {
    let (mut out, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => out.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    out.push(word);
    out
}

/// Runs `olm` in the folder of the fixtures.
fn run(line: &str) -> Ran {
    let mut command = program();
    for name in ["COLUMNS", "OLM_LOG", "OLM_DATA_DIR", "XDG_DATA_HOME", "KUBERNETES_SERVICE_HOST", "TERM"] {
        command.env_remove(name);
    }
    let words = words(line);
    let command = command.args(words.iter().filter(|word| !word.is_empty())).current_dir(fixtures());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Runs each line; the results are in the order of the lines.
fn run_all(lines: &[&str]) -> Vec<Ran> {
    let half = lines.len().div_ceil(2);
    thread::scope(|scope| {
        let runs: Vec<_> = lines
            .chunks(half.max(1))
            .map(|lines| scope.spawn(move || lines.iter().map(|line| run(line)).collect::<Vec<_>>()))
            .collect();
        runs.into_iter().flat_map(|runs| runs.join().unwrap()).collect()
    })
}

/// Replaces the parts that differ between runs and versions of the program.
fn stable(text: &str) -> String {
    without_times(&without_digests(text).replace(env!("CARGO_PKG_VERSION"), "OLM_VERSION"))
}

/// Commands with their output, as a user sees them.
fn transcript(lines: &[&str]) -> String {
    let mut all = String::new();
    for (line, ran) in lines.iter().zip(run_all(lines)) {
        check(line, &ran);
        _ = writeln!(all, "$ olm {line}");
        all += &stable(&ran.out);
        for line in stable(&ran.err).lines() {
            _ = writeln!(all, "! {line}");
        }
        _ = writeln!(all, "exit code {}\n", ran.code.unwrap_or(-1));
    }
    all
}

/// Rules for all commands: data on standard output, messages on standard error.
fn check(line: &str, ran: &Ran) {
    let code = ran.code.unwrap_or_else(|| panic!("{line}: a signal ended it: {}", ran.err));
    let format = |name: &str| line.contains(&format!("-o {name}"));
    if format("json") && !format("jsonpath") && !format("json-alpha1") && !ran.out.is_empty() {
        let documents = serde_json::Deserializer::from_str(&ran.out).into_iter::<serde_json::Value>();
        assert!(documents.into_iter().all(|document| document.is_ok()), "{line}: {}", ran.out);
    }
    // The result of a validation is data.
    let validates = line.contains("validate ");
    assert!(validates || !ran.out.contains("error: "), "{line}: {}", ran.out);
    assert!(!ran.out.contains('\x1b') && !ran.err.contains('\x1b'), "{line}: {}{}", ran.out, ran.err);
    assert!(code < 2 || !(ran.out.is_empty() && ran.err.is_empty()), "{line}: no cause");
    assert!(code != 0 || !ran.err.contains("error: "), "{line}: {}", ran.err);
}
