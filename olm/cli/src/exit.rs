//! How the command ends: one code per cause, and a failure that says what to do next.

use std::{fmt::Write as _, io::IsTerminal as _};

/// Exit codes, stable and documented in `olm --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Anything not named below.
    Unexpected = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Package, catalog, channel, version or installation not found.
    NotFound = 3,
    /// Refused by preflight or policy.
    Refused = 4,
    /// No version satisfies the request.
    Unresolvable = 5,
    /// It did not happen in time.
    Timeout = 6,
    /// The user may not do this.
    Forbidden = 7,
    /// Waiting for approval.
    NeedsApproval = 8,
    /// Interrupted from the keyboard.
    Interrupted = 130,
}

impl Code {
    pub fn as_u8(self) -> u8 {
        self as u8
    }
}

/// Shown at the end of `olm --help`.
pub const HELP: &str = "\
Exit codes:
  0 done, or nothing to do    5 no version satisfies the request
  1 unexpected error          6 it did not happen in time
  2 wrong command line        7 forbidden
  3 not found                 8 waiting for approval (with --wait)
  4 refused                   130 interrupted";

/// A command that failed: what happened, and what may help.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub message: String,
    pub hints: Vec<String>,
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hints: Vec::new() }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub fn print(&self, color: bool) {
        eprint!("{}", self.render(color && std::io::stderr().is_terminal()));
    }

    fn render(&self, color: bool) -> String {
        let (red, cyan, off) = if color { ("\x1b[31m", "\x1b[36m", "\x1b[0m") } else { ("", "", "") };
        let mut out = format!("{red}error{off}: {}\n", self.message.trim_end());
        for hint in &self.hints {
            let _ = writeln!(out, "{cyan}hint{off}: {hint}");
        }
        out
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Code::Unexpected, format!("{error:#}"))
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.code == 403 => {
                Self::new(Code::Forbidden, status.message.clone())
            }
            kube::Error::Api(status) if status.code == 404 => {
                Self::new(Code::NotFound, status.message.clone())
            }
            kube::Error::Api(status) => Self::new(Code::Unexpected, status.message.clone()),
            kube::Error::Service(_) | kube::Error::HyperError(_) => {
                Self::new(Code::Unexpected, format!("failed to reach the cluster: {}", root_cause(&error)))
                    .hint("start a dev cluster with `olm up`, or name another with --kubeconfig or --context")
            }
            _ => Self::new(Code::Unexpected, error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Code::Unexpected, error.to_string())
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut at = error;
    while let Some(next) = at.source() {
        at = next;
    }
    at.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_prints_what_and_then_what_to_do() {
        let failure = Failure::new(Code::NotFound, "package `ectd` not found").hint("did you mean `etcd`?");
        assert_eq!(failure.render(false), "error: package `ectd` not found\nhint: did you mean `etcd`?\n");
        assert_eq!(failure.code.as_u8(), 3);
    }
}
