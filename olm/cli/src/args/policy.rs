//! `olm policy`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::OutputArgs;

/// `olm policy`.
#[derive(Debug, ClapArgs)]
#[command(after_help = TEST)]
pub struct PolicyArgs {
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// Subcommands of `olm policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Preview the effect of InstallPolicies without applying them.
    #[command(after_help = TEST)]
    Test(PolicyTestArgs),
}

/// `olm policy test`.
#[derive(Debug, ClapArgs)]
pub struct PolicyTestArgs {
    /// File with InstallPolicies, as YAML or JSON; may be repeated.
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, required = true)]
    pub file: Vec<PathBuf>,
    #[command(flatten)]
    pub out: OutputArgs,
}

const TEST: &str = "\
Examples:
  olm policy test -f policy.yaml
  olm policy test -f policy.yaml -n team-a -o json

Without --namespace, all namespaces are checked. Exit codes: 0 no refusals, 1 an operator would
be refused or wait for a second approver, 2 the file is not valid, 10 some namespaces or objects
were not checked.";
