//! The command line accepts the commands that messages, plans and pages print.

#![cfg(feature = "devcluster")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Parser as _, error::ErrorKind};

use super::Args;

/// Folders of sources with text for users.
const SOURCES: [&str; 7] =
    ["olm/cli", "olm/engine", "olm/manager", "olm/ops", "olm/plan", "olm/resolver", "web"];

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// The commands between backticks in the string literals of a source, without their shell comments.
fn commands(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut text = String::new();
    for line in lines {
        // A backslash continues a literal on the next line, without its indentation.
        match line.strip_suffix('\\') {
            Some(part) => text.push_str(part.trim_start()),
            None => text.extend([line.trim_start(), "\n"]),
        }
    }
    let is_command = |part: &&str| {
        let rest = part.strip_prefix("olm ").unwrap_or_default();
        rest.starts_with(|c: char| c.is_ascii_lowercase()) && !part.contains(['\n', '"'])
    };
    let parts = text.split('`').filter(is_command);
    parts.map(|part| part.split(" #").next().unwrap_or_default().trim().to_owned()).collect()
}

#[test]
fn printed_commands_and_their_options_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = 0;
    for source in SOURCES {
        let mut paths = Vec::new();
        files(&root.join(source).join("src"), &mut paths);
        for path in paths {
            for command in commands(&fs::read_to_string(&path).unwrap()) {
                found += 1;
                // Placeholders are accepted as values or not; the command and its options have to exist.
                let Err(error) = Args::try_parse_from(command.split_whitespace()) else { continue };
                let unknown = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];
                assert!(!unknown.contains(&error.kind()), "{}: `{command}`: {error}", path.display());
            }
        }
    }
    assert!(found > 50, "{found}");
}

#[test]
fn commands_are_found_in_literals() {
    let source =
        "// `olm comment`\nlet a = \"run `olm list \\\n    -n {namespace}`; `olm status {}  # later`\";";
    assert_eq!(commands(source), ["olm list -n {namespace}", "olm status {}"]);
}
