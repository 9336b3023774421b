//! The help of every command has a purpose and examples, and the command line accepts each example.

use clap::{Command, CommandFactory as _, Parser as _};

use super::Args;

/// The visible commands with their names, such as `olm catalog add`.
fn commands() -> Vec<(String, Command)> {
    fn each(command: &Command, name: &str, out: &mut Vec<(String, Command)>) {
        out.push((name.to_owned(), command.clone()));
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            each(inner, &format!("{name} {}", inner.get_name()), out);
        }
    }
    let mut out = Vec::new();
    each(&Args::command(), "olm", &mut out);
    out
}

/// The lines of the section `Examples`; a backslash continues a line.
fn examples(command: &Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    let text: Vec<&str> = lines.take_while(|line| line.starts_with("  ")).collect();
    let joined = text.join("\n").replace("\\\n", " ");
    joined.lines().map(|line| line.trim().to_owned()).collect()
}

/// The words of the first command of a shell line, without quotes.
pub(super) fn words(line: &str) -> Vec<String> {
    let (mut out, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.trim_start_matches("source <(").chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '|' | '>' | '#' | ')') => break,
            (None, c) if c.is_whitespace() => out.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    out.extend(word);
    out
}

#[test]
fn the_help_of_every_command_has_one_line_and_examples() {
    let commands = commands();
    assert!(commands.len() > 50, "{}", commands.len());
    for (name, command) in &commands {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let sentences = about.contains(". ") || about.contains('\n');
        assert!(!about.is_empty() && !sentences, "{name}: {about:?}");
        assert!(!examples(command).is_empty(), "{name}: the help has no section `Examples:`");
    }
}

#[test]
fn every_argument_has_a_help_text() {
    for (name, command) in commands() {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let starts = help.starts_with(|c: char| !c.is_ascii_lowercase());
            assert!(!help.is_empty() && starts, "{name} {arg}: {help:?}");
            for value in arg.get_possible_values().iter().filter(|_| arg.get_action().takes_values()) {
                // Names of shells, true and false need no explanation.
                let is_plain = name == "olm completion" || matches!(value.get_name(), "true" | "false");
                assert!(is_plain || value.get_help().is_some(), "{name} {arg} {}", value.get_name());
            }
        }
    }
}

/// Longer lines would be broken at any place, also within commands to copy.
#[test]
fn the_text_behind_the_options_fits_100_columns() {
    for (name, command) in commands() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(long.is_empty(), "{name}: {long:#?}");
    }
}

#[test]
fn every_example_is_a_command_line_of_its_command() {
    for (name, command) in commands() {
        for example in examples(&command) {
            let words = words(&example);
            let parsed = Args::try_parse_from(&words);
            assert!(
                parsed.is_ok(),
                "{name}: {example}: {}",
                parsed.err().map_or(String::new(), |e| e.to_string())
            );
            let place: Vec<&str> = name.split(' ').skip(1).collect();
            let found = place.iter().all(|part| words.iter().any(|word| word == part));
            assert!(found, "{name}: `{example}` is an example of another command");
        }
    }
}

#[test]
fn a_shell_line_is_read_as_words() {
    assert_eq!(words("olm a --b '>=1 <2' | jq .x"), ["olm", "a", "--b", ">=1 <2"]);
    assert_eq!(words("source <(olm completion bash)     # in ~/.bashrc"), ["olm", "completion", "bash"]);
}
