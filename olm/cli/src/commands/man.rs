//! `olm man`: the help of all commands as man pages, and as one page in Markdown.

use std::{fmt::Write as _, path::Path};

use clap::{Arg, Command, CommandFactory as _};

use crate::{
    args::Args,
    exit::{Code, Failure},
};

pub fn run(dir: &Path) -> Result<(), Failure> {
    write(dir).map_err(|error| {
        Failure::new(Code::Unexpected, format!("failed to write man pages to {}: {error}", dir.display()))
    })
}

fn write(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Args::command(), dir)?;
    std::fs::write(dir.join("commands.md"), reference())
}

/// The command reference in Markdown: purpose, usage, arguments and examples of every command.
fn reference() -> String {
    let mut root = Args::command();
    root.build();
    let mut out = "# Commands\n".to_owned();
    section(&mut root, "olm", &mut out);
    out
}

fn section(command: &mut Command, name: &str, out: &mut String) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.render_usage().to_string();
    _ = write!(out, "\n## {name}\n\n{about}.\n\n```text\n{}\n```\n", usage.trim());
    // Global options are listed once.
    let shown = |arg: &&Arg| {
        let own = name == "olm" || !arg.is_global_set();
        own && !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version")
    };
    let rows: Vec<String> = command.get_arguments().filter(shown).map(row).collect();
    if !rows.is_empty() {
        _ = write!(out, "\n| argument | meaning |\n| --- | --- |\n{}", rows.concat());
    }
    if let Some(more) = command.get_after_help() {
        _ = write!(out, "\n```text\n{more}\n```\n");
    }
    for inner in command.get_subcommands_mut() {
        let name = format!("{name} {}", inner.get_name());
        if !inner.is_hide_set() && inner.get_name() != "help" {
            section(inner, &name, out);
        }
    }
}

fn row(arg: &Arg) -> String {
    let short = arg.get_short().map_or(String::new(), |short| format!("-{short}, "));
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    format!("| `{short}{arg}` | {} |\n", help.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir.path().join("man");
        run(&pages).unwrap();
        for name in ["olm.1", "olm-plan-rollback.1", "olm-self-install.1"] {
            assert!(pages.join(name).is_file(), "{name}");
        }
        let text = std::fs::read_to_string(pages.join("olm-self-install.1")).unwrap();
        assert!(text.replace('\\', "").contains("--image-pull-policy"), "{text}");
        // and the reference has its purpose, arguments and examples
        let reference = std::fs::read_to_string(pages.join("commands.md")).unwrap();
        for part in [
            "\n## olm can-i\n",
            "\n| `-c, --channel <CHANNEL>` | Only this channel |\n",
            "  olm versions etcd\n",
            "Usage: olm catalog add [OPTIONS] <SOURCE>",
        ] {
            assert!(reference.contains(part), "{part}: {reference}");
        }
        assert_eq!(reference.matches("--kubeconfig <KUBECONFIG>").count(), 1);
        // what runs in pods is no command of users
        assert!(!pages.join("olm-manager.1").exists());
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = run(&file).unwrap_err();
        assert!(error.message.starts_with("failed to write man pages to "), "{}", error.message);
    }
}
