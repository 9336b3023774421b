//! The authoring commands as users run them: the program with real data and with invalid input.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod bars;
mod build;
mod bundles;
mod completion;
mod console;
mod documentation;
mod explain;
mod golden;
mod hostile;
mod images;
mod inspect;
mod mirror;
mod opm;
mod plans;
mod project;
mod proxies;
mod read;
mod serve;
mod sources;
mod verify;
mod why;

use std::{
    ffi::OsStr,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The result of a run.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_olm"));
    // Independent of the environment of the user who runs the tests.
    command.env("HOME", "/nonexistent").env("NO_COLOR", "1");
    for name in ["KUBECONFIG", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "DOCKER_CONFIG", "REGISTRY_AUTH_FILE"] {
        command.env_remove(name);
    }
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command
}

fn olm<S: AsRef<OsStr>>(args: &[S]) -> Ran {
    olm_with(args, None)
}

fn olm_with<S: AsRef<OsStr>>(args: &[S], stdin: Option<&[u8]>) -> Ran {
    let mut command = program();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // A program that does not read its input closes it, which is not an error.
    _ = input.write_all(stdin.unwrap_or_default());
    drop(input);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn data(what: &str) -> Option<PathBuf> {
    let root = std::env::var_os("OLM_SHARED_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let path = root.join(what);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is not there (set OLM_SHARED_DATA)", path.display());
    None
}

/// A package with two versions, in a typical form.
const CATALOG: &str = "\
schema: olm.package
name: demo
defaultChannel: stable
---
schema: olm.channel
package: demo
name: stable
entries:
- name: demo.v1.0.0
- name: demo.v1.1.0
  replaces: demo.v1.0.0
---
schema: olm.bundle
package: demo
name: demo.v1.0.0
image: registry.example/demo:v1.0.0
properties:
- {type: olm.package, value: {packageName: demo, version: 1.0.0}}
relatedImages:
- {name: operator, image: registry.example/operator:v1.0.0}
---
schema: olm.bundle
package: demo
name: demo.v1.1.0
image: registry.example/demo:v1.1.0
properties:
- {type: olm.package, value: {packageName: demo, version: 1.1.0}}
";

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

/// Replaces digests, which change with their content and are irrelevant here.
fn without_digests(text: &str) -> String {
    let mut parts = text.split("sha256:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("sha256:DIGEST");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    out
}

/// The output of a run without the parts that differ between runs.
fn transcript(ran: &Ran, dir: &Path) -> String {
    let text = format!("exit code {}\n--- out\n{}--- err\n{}", ran.code.unwrap_or(-1), ran.out, ran.err);
    let mut text = without_times(&text.replace(&dir.display().to_string(), "DIR"));
    text.pop();
    text
}

/// Replaces `(0.12 s)` and `"milliseconds": 5`, which differ between runs.
fn without_times(text: &str) -> String {
    let line = |line: &str| match line.rfind(" (").filter(|_| line.ends_with(" s)")) {
        Some(at) => format!("{} (TIME)\n", &line[..at]),
        None if line.trim_start().starts_with("\"milliseconds\": ") => {
            "  \"milliseconds\": TIME,\n".to_owned()
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}
