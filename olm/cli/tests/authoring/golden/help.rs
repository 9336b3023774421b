//! `--help` of every command.

use std::fmt::Write as _;

use super::{run, run_all, stable};

/// The section that all commands share, and the text without it.
fn without_global(text: &str) -> (String, String) {
    let Some((before, rest)) = text.split_once("Global options:\n") else {
        return (text.to_owned(), String::new());
    };
    // The section ends before the next line at the margin.
    let inside = rest.split_inclusive('\n').take_while(|line| line.starts_with([' ', '\n']));
    let end: usize = inside.map(str::len).sum();
    (format!("{before}(global options)\n\n{}", &rest[end..]), rest[..end].to_owned())
}

/// The subcommands that a help lists.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn the_help_of_every_command() {
    let mut all = String::new();
    let mut shared = String::new();
    let mut commands = vec![String::new()];
    while !commands.is_empty() {
        let lines: Vec<String> = commands.iter().map(|command| format!("{command}--help")).collect();
        let runs = run_all(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let mut next = Vec::new();
        for (command, ran) in commands.iter().zip(runs) {
            assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{command}");
            let (help, global) = without_global(&ran.out);
            if command.is_empty() {
                shared = global;
                _ = writeln!(all, "$ olm --help\n{}", stable(&ran.out));
            } else {
                assert_eq!(global, shared, "{command}");
                _ = writeln!(all, "$ olm {command}--help\n{}", stable(&help));
            }
            assert!(help.contains("Examples:\n  "), "{command}: {help}");
            next.extend(listed(&help).iter().map(|name| format!("{command}{name} ")));
        }
        commands = next;
    }
    insta::assert_snapshot!("help", all);
}

#[test]
fn without_arguments_the_help_is_the_error() {
    let ran = run("");
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{}", ran.err);
    assert!(
        ran.err.contains("Usage: olm [OPTIONS] <COMMAND>") && ran.err.contains("  install "),
        "{}",
        ran.err
    );
    for group in ["catalog", "bundle", "plan", "self", "policy", "dev"] {
        let ran = run(group);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{group}: {}", ran.err);
        assert!(ran.err.contains(&format!("Usage: olm {group} [OPTIONS] <COMMAND>")), "{}", ran.err);
    }
}
