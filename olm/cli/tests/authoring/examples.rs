//! Runs the examples of docs/plans.md and compares their output. `UPDATE=1` updates the page.

use std::{fs, path::Path};

use crate::{program, without_digests};

/// Suffix of a command whose exit code is printed too.
const TELL: &str = "; echo \"exit code $?\"";

fn run(root: &Path, line: &str) -> String {
    let (command, tells) = match line.strip_suffix(TELL) {
        Some(command) => (command, true),
        None => (line, false),
    };
    let mut words = command.split_whitespace();
    assert_eq!(words.next(), Some("olm"), "{line}");
    let output = program().args(words).current_dir(root).output().unwrap();
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    if tells {
        said.push_str(&format!("exit code {}\n", output.status.code().unwrap_or(-1)));
    }
    said
}

#[test]
fn the_examples_of_the_page_are_what_the_program_says() {
    // given the page with its commands
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs/plans.md");
    let page = fs::read_to_string(&path).unwrap();
    // when each command is run
    let (mut anew, mut inside, mut commands) = (String::new(), false, 0);
    for line in page.lines() {
        match (inside, line.strip_prefix("$ ")) {
            (true, Some(command)) => {
                commands += 1;
                anew.push_str(&format!("{line}\n{}", run(&root, command)));
            }
            (true, None) if line != "```" => {}
            (inside_now, _) => {
                inside = !inside_now && line == "```console";
                anew.push_str(&format!("{line}\n"));
            }
        }
    }
    assert!(commands > 5, "{commands}");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &anew).unwrap();
    }
    // then the output equals that of the page, except for digests
    let page = fs::read_to_string(&path).unwrap();
    assert_eq!(without_digests(&anew), without_digests(&page), "UPDATE=1 writes docs/plans.md anew");
}

/// The commands in the code blocks of a document; in output blocks (`text`), those after a prompt. Continued
/// lines are joined; comments, pipes and redirections end a command.
fn commands(page: &str) -> Vec<String> {
    let (mut found, mut code, mut output) = (Vec::new(), false, false);
    let page = page.replace("\\\n", " ");
    for line in page.lines().map(str::trim_start) {
        if let Some(language) = line.strip_prefix("```") {
            (code, output) = (!code, language == "text");
        }
        let prompted = line.strip_prefix("$ ");
        let line = prompted.unwrap_or(line);
        let ends = [" #", " | ", " > ", " 2>", "; ", " && "];
        let end = ends.iter().filter_map(|mark| line.find(mark)).min().unwrap_or(line.len());
        if code && line.starts_with("olm ") && (prompted.is_some() || !output) {
            found.push(line[..end].to_owned());
        }
    }
    found
}

/// `--help` is parsed last: the parser rejects unknown names, flags and values before it.
#[test]
fn the_command_line_accepts_every_command_of_the_documents() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs =
        ["docs", "docs/findings", "docs/reasons"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let pages = docs.into_iter().flatten().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let (mut count, mut refused) = (0, Vec::new());
    for path in pages.chain([root.join("README.md")]) {
        for command in commands(&fs::read_to_string(&path).unwrap()) {
            count += 1;
            let words = command.split_whitespace().skip(1).map(|word| word.trim_matches('\''));
            let output = program().args(words).arg("--help").output().unwrap();
            if !output.status.success() {
                let error = String::from_utf8_lossy(&output.stderr);
                let error = error.lines().next().unwrap_or_default();
                refused.push(format!("{}: {command}: {error}", path.display()));
            }
        }
    }
    assert!(count > 50, "{count} commands");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
