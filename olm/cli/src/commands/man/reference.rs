//! The command reference in Markdown, from the same definitions as `--help`: an index, and a page for each
//! command with its subcommands.

use std::{collections::BTreeMap, fmt::Write as _};

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::args::Args;

const GENERATED: &str = "<!-- Written by `make commands` from the definitions in olm/cli/src/args. -->\n";

/// Name of the index.
const INDEX: &str = "README.md";

/// The files of the reference, by name.
pub fn pages() -> BTreeMap<String, String> {
    let mut root = Args::command();
    root.build();
    let mut pages = BTreeMap::from([(INDEX.to_owned(), index(&mut root))]);
    for command in visible(&mut root) {
        let mut text = GENERATED.to_owned();
        let name = format!("olm {}", command.get_name());
        let file = file(command.get_name());
        section(command, &name, 1, &mut text);
        pages.insert(file, text);
    }
    pages
}

fn file(command: &str) -> String {
    format!("{command}.md")
}

/// The commands that users run.
fn visible(command: &mut Command) -> impl Iterator<Item = &mut Command> {
    command.get_subcommands_mut().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
}

fn index(root: &mut Command) -> String {
    let mut out = format!(
        "{GENERATED}# Commands\n\n{}\n\n`olm COMMAND --help` prints the same text, and `man olm-COMMAND` where \
         man pages are installed.\n`kubectl olm COMMAND` runs the same commands.\n\n",
        sentence(root)
    );
    out += &usage(root);
    out += "\n| command | purpose |\n| --- | --- |\n";
    for command in visible(root) {
        let file = file(command.get_name());
        row_of_index(command, &format!("olm {}", command.get_name()), &file, &mut out);
    }
    let help = Help::of(root);
    _ = write!(out, "\n## Global options\n\nEvery command accepts them.\n\n");
    out += &tables(root, true);
    _ = write!(out, "\n## Exit codes\n\n```text\n{}\n```\n", help.exit_codes.unwrap_or_default());
    out
}

fn row_of_index(command: &mut Command, name: &str, file: &str, out: &mut String) {
    let anchor =
        if name.matches(' ').count() > 1 { format!("#{}", name.replace(' ', "-")) } else { String::new() };
    let purpose = escaped(&about(command));
    _ = writeln!(out, "| [{name}]({file}{anchor}) | {purpose} |");
    for inner in visible(command) {
        let name = format!("{name} {}", inner.get_name());
        row_of_index(inner, &name, file, out);
    }
}

/// A command, then its subcommands.
fn section(command: &mut Command, name: &str, level: usize, out: &mut String) {
    let heading = "#".repeat(level);
    _ = write!(out, "{heading} {name}\n\n{}\n\n{}", sentence(command), usage(command));
    if level == 1 {
        out.push_str(&format!("\nThe [global options]({INDEX}#global-options) apply too.\n"));
    }
    let tables = tables(command, false);
    if !tables.is_empty() {
        _ = write!(out, "\n{tables}");
    }
    let help = Help::of(command);
    if !help.examples.is_empty() {
        _ = write!(out, "\n**Examples**\n\n```sh\n{}\n```\n", help.examples);
    }
    for note in &help.notes {
        match note.lines().any(|line| line.starts_with("  ")) {
            true => _ = write!(out, "\n```text\n{note}\n```\n"),
            false => _ = write!(out, "\n{}\n", escaped(note)),
        }
    }
    if command.has_subcommands() && command.is_subcommand_required_set() {
        // It does nothing without a subcommand.
    } else if let Some(codes) = &help.exit_codes {
        _ = write!(out, "\n**Exit codes**: {}\n", escaped(codes));
    } else {
        _ = write!(out, "\n**Exit codes**: [those of all commands]({INDEX}#exit-codes).\n");
    }
    for inner in visible(command) {
        out.push('\n');
        let name = format!("{name} {}", inner.get_name());
        section(inner, &name, 2, out);
    }
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn sentence(command: &Command) -> String {
    format!("{}.", escaped(&about(command)))
}

fn usage(command: &mut Command) -> String {
    let usage = command.render_usage().to_string();
    let usage = usage.trim().trim_start_matches("Usage:").trim();
    let lines: Vec<&str> = usage.lines().map(str::trim).collect();
    format!("```text\n{}\n```\n", lines.join("\n"))
}

/// The parts of a text behind the options.
struct Help {
    /// One command a line.
    examples: String,
    notes: Vec<String>,
    exit_codes: Option<String>,
}

impl Help {
    fn of(command: &Command) -> Self {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let mut help = Self { examples: String::new(), notes: Vec::new(), exit_codes: None };
        for part in text.split("\n\n") {
            if let Some(lines) = part.strip_prefix("Examples:\n") {
                let lines: Vec<&str> =
                    lines.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
                help.examples = lines.join("\n");
            } else if let Some((before, codes)) = part.split_once("Exit codes") {
                help.notes.extend(Some(before.trim().to_owned()).filter(|before| !before.is_empty()));
                let codes = codes.trim_start_matches([':', ',']).trim_start_matches([' ', '\n']);
                help.exit_codes = Some(codes.replace("\n  ", "\n").trim_end().to_owned());
            } else if !part.is_empty() {
                help.notes.push(part.to_owned());
            }
        }
        help
    }
}

/// The arguments in tables, one for each heading of the help.
fn tables(command: &Command, global: bool) -> String {
    let mut tables: Vec<(Option<&str>, String)> = Vec::new();
    let flags = command.get_arguments().filter(|arg| !arg.is_positional());
    for arg in command.get_positionals().chain(flags) {
        let is_own = arg.is_global_set() == global && !arg.is_hide_set();
        if !is_own || matches!(arg.get_action(), ArgAction::Help | ArgAction::Version) {
            continue;
        }
        let heading = arg.get_help_heading().filter(|_| !global);
        match tables.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, rows)) => rows.push_str(&row(arg)),
            None => tables.push((heading, row(arg))),
        }
    }
    let table = |(heading, rows): &(Option<&str>, String)| {
        let heading = heading.unwrap_or("argument");
        format!("| {heading} | meaning | default |\n| --- | --- | --- |\n{rows}")
    };
    tables.iter().map(table).collect::<Vec<_>>().join("\n")
}

fn row(arg: &Arg) -> String {
    let short = arg.get_short().map_or(String::new(), |short| format!("`-{short}`, "));
    let aliases = arg.get_visible_aliases().unwrap_or_default();
    let aliases: String = aliases.iter().map(|alias| format!(", `--{alias}`")).collect();
    let mut meaning = escaped(&arg.get_help().map(ToString::to_string).unwrap_or_default());
    let takes_value = arg.get_action().takes_values();
    let values = if takes_value { arg.get_possible_values() } else { Vec::new() };
    for value in values.iter().filter(|value| !value.is_hide_set()) {
        let help =
            value.get_help().map(|help| format!(": {}", escaped(&help.to_string()))).unwrap_or_default();
        _ = write!(meaning, "<br>`{}`{help}", value.get_name());
    }
    if let Some(name) = arg.get_env() {
        _ = write!(meaning, "<br>Environment: `{}`", name.to_string_lossy());
    }
    let defaults = if takes_value { arg.get_default_values() } else { &[] };
    let defaults: Vec<String> =
        defaults.iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    format!(
        "| {short}`{}`{aliases} | {meaning} | {} |\n",
        arg.to_string().replace('|', "\\|"),
        defaults.join(" ")
    )
}

/// Help as Markdown: placeholders and columns are not markup.
fn escaped(text: &str) -> String {
    let mut code = false;
    let mut out = String::new();
    for c in text.chars() {
        code ^= c == '`';
        match c {
            '|' => out.push_str("\\|"),
            '<' | '*' | '_' if !code => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[cfg(all(test, feature = "devcluster"))]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// The reference in the repository is that of the definitions; `make commands` writes it.
    #[test]
    fn the_command_reference_is_current() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands");
        let pages = pages();
        if std::env::var_os("UPDATE").is_some() {
            _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in &pages {
                fs::write(folder.join(file), text).unwrap();
            }
        }
        let entries = fs::read_dir(&folder).expect("docs/commands does not exist; run `make commands`");
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let written: BTreeMap<String, String> = entries
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), read(&entry.path())))
            .collect();
        let names = |pages: &BTreeMap<String, String>| pages.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&written), names(&pages), "the files of docs/commands; run `make commands`");
        for (file, text) in &pages {
            assert!(written[file] == *text, "docs/commands/{file} is not current; run `make commands`");
        }
    }

    #[test]
    fn a_page_has_usage_options_examples_and_exit_codes() {
        let pages = pages();
        for (file, parts) in [
            (
                "install.md",
                &[
                    "# olm install\n\nInstall an operator.\n",
                    "olm install [OPTIONS] <PACKAGE>",
                    "| `-c`, `--channel <CHANNEL>` |",
                    "| `--version <VERSION>` |",
                    "<br>`manual`: ",
                    "| `5m` |",
                    "\nolm install etcd -n etcd --wait\n",
                    "**Exit codes**: [those of all commands]",
                ][..],
            ),
            ("doctor.md", &["**Exit codes**: 0 no errors"]),
            ("catalog.md", &["\n## olm catalog add\n", "\nolm catalog add [OPTIONS] <SOURCE>\n"]),
            (
                "README.md",
                &[
                    "| [olm catalog add](catalog.md#olm-catalog-add) | Add a catalog",
                    "--kubeconfig <",
                    "130 interrupted",
                ],
            ),
        ] {
            for part in parts {
                assert!(pages[file].contains(part), "{part} is missing in {file}:\n{}", pages[file]);
            }
        }
        // Global options are listed once, and programs of pods not at all.
        assert_eq!(pages.values().filter(|text| text.contains("--kubeconfig <")).count(), 1);
        assert!(!pages.contains_key("manager.md"));
    }

    #[test]
    fn help_is_not_markup() {
        assert_eq!(escaped("a|b <c> `d_e` *"), "a\\|b \\<c> `d_e` \\*");
    }
}
