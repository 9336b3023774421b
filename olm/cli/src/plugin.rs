//! The program under other names: `kubectl olm` as `kubectl-olm`, its completion in kubectl as
//! `kubectl_complete-olm`, and `operator-sdk`, whose command lines `init` and `create api` are also those of `olm`.

use std::{
    ffi::{OsStr, OsString},
    io::Write,
    path::Path,
};

use clap::{Command, CommandFactory as _};

use crate::args::Args;

/// The command line under the name that the user types.
pub fn command() -> Command {
    named(std::env::args_os().next().as_deref())
}

fn named(program: Option<&OsStr>) -> Command {
    let command = Args::command();
    match stem(program).and_then(OsStr::to_str) {
        Some("kubectl-olm") => command.bin_name("kubectl olm"),
        Some("operator-sdk") => command.bin_name("operator-sdk"),
        _ => command,
    }
}

/// Whether kubectl requests a completion.
pub fn is_completer() -> bool {
    stem(std::env::args_os().next().as_deref()) == Some(OsStr::new("kubectl_complete-olm"))
}

fn stem(program: Option<&OsStr>) -> Option<&OsStr> {
    Path::new(program?).file_stem()
}

/// Answers kubectl: one candidate a line, a tab before its description, and a last line that suppresses the
/// completion of file names.
pub fn complete() -> std::io::Result<()> {
    answer(std::env::args_os().collect(), &mut std::io::stdout().lock())
}

fn answer(mut words: Vec<OsString>, out: &mut impl Write) -> std::io::Result<()> {
    if words.len() < 2 {
        words.push(OsString::new());
    }
    let last = words.len() - 1;
    let here = std::env::current_dir().ok();
    let found = clap_complete::engine::complete(&mut Args::command(), words, last, here.as_deref());
    for candidate in found.unwrap_or_default() {
        let value = candidate.get_value().to_string_lossy();
        match candidate.get_help() {
            Some(help) => writeln!(out, "{value}\t{}", help.to_string().lines().next().unwrap_or_default())?,
            None => writeln!(out, "{value}")?,
        }
    }
    writeln!(out, ":4")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_names_the_plugin() {
        let usage = |program: &str| {
            let error = named(Some(OsStr::new(program))).try_get_matches_from([program, "show"]).unwrap_err();
            error.to_string()
        };
        assert!(
            usage("/usr/bin/kubectl-olm").contains("Usage: kubectl olm show"),
            "{}",
            usage("kubectl-olm")
        );
        assert!(usage("/usr/bin/olm").contains("Usage: olm show"));
        assert!(usage("/usr/bin/operator-sdk").contains("Usage: operator-sdk show"));
    }

    #[test]
    fn kubectl_gets_candidates_and_a_directive() {
        let mut out = Vec::new();
        let words = ["kubectl_complete-olm", "catalog", "va"].map(OsString::from);
        answer(words.into(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "validate\tValidate a catalog\n:4\n");
    }
}
