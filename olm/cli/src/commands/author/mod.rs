//! `olm init` and `olm create api`: the project of an operator.

mod create_api;
mod files;
mod init;

pub use init::run as init;

use olm_author::{File, InvalidName};

use crate::{
    args::{CreateCommand, CreateCommandArgs},
    exit::{Code, Failure},
};

pub fn create(args: &CreateCommandArgs) -> Result<(), Failure> {
    match &args.command {
        CreateCommand::Api(args) => create_api::run(args),
    }
}

fn invalid(error: &InvalidName) -> Failure {
    let failure = Failure::new(Code::Usage, error.to_string());
    match &error.proposal {
        Some(proposal) => failure.hint(format!("did you mean {} {proposal}?", error.field)),
        None => failure,
    }
}

/// The lines of a report: what was written, where, and why.
#[derive(Default)]
struct Report {
    /// Cells of a line that is a file.
    files: Vec<[String; 3]>,
}

impl Report {
    fn add(&mut self, verb: &str, path: &str, purpose: &str) {
        self.files.push([verb, path, purpose].map(str::to_owned));
    }

    fn wrote(&mut self, dry_run: bool, file: &File) {
        self.add(if dry_run { "would write" } else { "wrote" }, &file.path, file.purpose);
    }

    fn render(&self) -> String {
        let width = |at: usize| self.files.iter().map(|cells| cells[at].len()).max().unwrap_or_default();
        let (verbs, paths) = (width(0).max(HEAD), width(1));
        let line =
            |[verb, path, purpose]: &[String; 3]| format!("{verb:<verbs$}  {path:<paths$}  {purpose}\n");
        self.files.iter().map(line).collect()
    }
}

/// Width of the first words of a report.
const HEAD: usize = 8;

/// The first line of a report.
fn head(word: &str, text: &str) -> String {
    format!("{word:<HEAD$}  {text}\n")
}
