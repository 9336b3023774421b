//! Arguments of the commands that write an operator's project.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// `olm init`.
#[derive(Debug, ClapArgs)]
#[command(after_help = INIT)]
pub struct InitArgs {
    /// Folder; created when it does not exist, the current folder when absent.
    #[arg(value_hint = clap::ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// Domain that completes the API groups; example.com when absent.
    #[arg(long)]
    pub domain: Option<String>,
    /// Repository of the project, such as github.com/example/shop-operator.
    #[arg(long, value_name = "URL")]
    pub repo: Option<String>,
    /// Name of the project; the name of the folder when absent.
    #[arg(long, value_name = "NAME")]
    pub project_name: Option<String>,
    /// Author in Cargo.toml.
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// Licence in Cargo.toml, as an SPDX expression or `none`.
    #[arg(long, value_name = "SPDX", default_value = "Apache-2.0", value_parser = spdx)]
    pub license: String,
    /// Language of the operator; only rust is supported.
    #[arg(long, value_name = "NAME", value_parser = plugin)]
    #[allow(dead_code, reason = "the parser checks the value")]
    pub plugins: Option<String>,
    /// List the files without writing them.
    #[arg(long)]
    pub dry_run: bool,
}

const INIT: &str = "\
Examples:
  olm init shop-operator --domain acme.example

The folder must be empty, but for .git, a README and a LICENSE.
src/kit holds the operator kit: do not edit it; all other files are yours.";

/// `olm create`.
#[derive(Debug, ClapArgs)]
#[command(after_help = CREATE)]
pub struct CreateCommandArgs {
    #[command(subcommand)]
    pub command: CreateCommand,
}

const CREATE: &str = "\
Examples:
  olm create api --group shop --version v1alpha1 --kind Cart";

/// Subcommands of `olm create`.
#[derive(Debug, Subcommand)]
pub enum CreateCommand {
    /// Create an API: a kind, its plan, tests and an example.
    #[command(after_help = API)]
    Api(CreateApiArgs),
}

const API: &str = "\
Examples:
  olm create api --group shop --version v1alpha1 --kind Cart

Run it in the folder of `olm init`. The API group is GROUP.DOMAIN; without --group, or if GROUP is
the first part of the domain, it is the domain; a GROUP with a dot is the whole name.
The command writes all files or none, and overwrites none. Repeating it changes nothing.";

/// `olm create api`.
#[derive(Debug, ClapArgs)]
pub struct CreateApiArgs {
    /// API group: a name that the domain completes, or a full name.
    #[arg(long)]
    pub group: Option<String>,
    /// API version, such as v1alpha1.
    #[arg(long)]
    pub version: String,
    /// Kind, in CamelCase.
    #[arg(long)]
    pub kind: String,
    /// Plural of the kind in lower case; derived from the kind when absent.
    #[arg(long)]
    pub plural: Option<String>,
    /// Image of the example object.
    #[arg(long, value_name = "IMAGE")]
    pub example_image: Option<String>,
    /// Create a namespaced kind; cluster-scoped kinds are not supported.
    #[arg(long, value_name = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = namespaced)]
    #[allow(dead_code, reason = "the parser checks the value")]
    pub namespaced: Option<bool>,
    /// Write the kind; always on.
    #[arg(long, value_name = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = always)]
    #[allow(dead_code, reason = "the parser checks the value")]
    pub resource: Option<bool>,
    /// Write the plan; always on.
    #[arg(long, value_name = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = always)]
    #[allow(dead_code, reason = "the parser checks the value")]
    pub controller: Option<bool>,
    /// List the files without writing them.
    #[arg(long)]
    pub dry_run: bool,
    /// Accepted for command lines of operator-sdk, without effect.
    #[arg(long, hide = true)]
    #[allow(dead_code, reason = "the parser checks the value")]
    pub force: bool,
    /// Accepted for command lines of operator-sdk, without effect.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[allow(dead_code, reason = "the parser checks the value")]
    pub make: Option<bool>,
}

fn plugin(text: &str) -> Result<String, String> {
    match text {
        "rust" => Ok(text.to_owned()),
        _ => {
            Err("only rust is supported; bundles of Helm, Ansible and Go operators run with `olm bundle run`"
                .to_owned())
        }
    }
}

fn spdx(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '(' | ')' | ' ');
    if text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '(') && text.chars().all(allowed) {
        return Ok(text.to_owned());
    }
    Err("expected an SPDX expression such as Apache-2.0, or none".to_owned())
}

fn namespaced(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Err("cluster-scoped kinds are not supported".to_owned()),
        _ => Err("expected true".to_owned()),
    }
}

fn always(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Err("a kind is written with its plan, and a plan with its kind".to_owned()),
        _ => Err("expected true".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::{Args, Command};

    #[test]
    fn command_lines_of_operator_sdk_are_accepted() {
        let parse = |line: &str| Args::try_parse_from(line.split(' ')).map(|args| args.command);
        let init =
            parse("olm init --domain example.com --repo github.com/example/myapp-operator --license apache2");
        assert!(matches!(init, Ok(Command::Init(args)) if args.repo.is_some()));
        let flags = "--resource --controller --namespaced=true --make=false --force";
        let api = parse(&format!("olm create api --group example --version v1alpha1 --kind MyApp {flags}"));
        assert!(matches!(api, Ok(Command::Create(_))));
        for (line, expected) in [
            ("olm init --plugins helm", "only rust is supported"),
            ("olm init --license a\"b", "SPDX"),
            (
                "olm create api --version v1 --kind A --namespaced=false",
                "cluster-scoped kinds are not supported",
            ),
            ("olm create api --version v1 --kind A --controller=false", "a kind is written with its plan"),
        ] {
            let error = parse(line).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
