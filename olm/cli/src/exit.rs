//! Exit codes by cause, and failures with hints.

use std::{fmt::Write as _, io::IsTerminal as _};

use olm_engine::resources::ResourceError;
use olm_ops::{
    Kind,
    doctor::{CREDENTIALS_REFUSED, LOG_IN},
};

use crate::prose::printable;

/// Exit codes, stable and documented in `olm --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Any other failure.
    Unexpected,
    /// Negative result of a command that validates or compares: invalid, or different. It is 1, like in opm,
    /// operator-sdk and diff.
    No,
    /// Invalid command line.
    Usage,
    /// Package, catalog, channel, version or installation not found.
    NotFound,
    /// Refused by preflight or policy.
    Refused,
    /// No version satisfies the request.
    Unresolvable,
    Timeout,
    /// The user lacks permission.
    Forbidden,
    /// The plan requires approval.
    NeedsApproval,
    /// A bulk operation was not carried out for all.
    Partial,
    /// A command that validates or compares failed to determine the result.
    Unanswered,
    /// Interrupted from the keyboard.
    Interrupted,
}

impl Code {
    pub fn as_u8(self) -> u8 {
        match self {
            Self::Unexpected | Self::No => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Unresolvable => 5,
            Self::Timeout => 6,
            Self::Forbidden => 7,
            Self::NeedsApproval => 8,
            Self::Partial => 9,
            Self::Unanswered => 10,
            Self::Interrupted => 130,
        }
    }
}

/// Part of `olm --help`.
pub const HELP: &str = "\
Examples:
  olm search etcd
  olm install etcd --wait
  olm list

Exit codes:
  0 done, or nothing to do    5 no version satisfies the request
  1 unexpected error          6 timeout
  2 usage error               7 forbidden
  3 not found                 8 waiting for approval (with --wait)
  4 refused                   9 not done for all (with --all)
                              130 interrupted
  validate, diff, build --check, self status and plan --exit-code exit with 1 for \"not valid\",
  \"different\" or \"not ready\", and with 10 when the check itself failed";

/// A failed command: the error, and hints.
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

    /// The negative result of a command that has already printed its output.
    pub fn no() -> Self {
        Self::new(Code::No, "")
    }

    /// For commands with 1 as a result: unexpected errors get another code.
    #[must_use]
    pub fn unanswered(mut self) -> Self {
        if self.code == Code::Unexpected {
            self.code = Code::Unanswered;
        }
        self
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
        if self.message.is_empty() {
            return String::new();
        }
        let (red, cyan, off) = if color { ("\x1b[31m", "\x1b[36m", "\x1b[0m") } else { ("", "", "") };
        // Messages contain untrusted text.
        let lines: Vec<String> = self.message.trim_end().lines().map(printable).collect();
        let mut out = format!("{red}error{off}: {}\n", lines.join("\n"));
        for hint in &self.hints {
            let _ = writeln!(out, "{cyan}hint{off}: {}", printable(hint));
        }
        out
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Code::Unexpected, format!("{error:#}"))
    }
}

impl From<olm_ops::Error> for Failure {
    fn from(error: olm_ops::Error) -> Self {
        if let Some(failure) = no_access(&error) {
            return failure;
        }
        let code = match error.kind() {
            Kind::Unexpected => Code::Unexpected,
            Kind::NotFound => Code::NotFound,
            Kind::Refused => Code::Refused,
            Kind::Unresolvable => Code::Unresolvable,
            Kind::Timeout => Code::Timeout,
            Kind::Forbidden => Code::Forbidden,
            Kind::AwaitingApproval => Code::NeedsApproval,
        };
        Self { hints: error.hint().into_iter().collect(), ..Self::new(code, error.to_string()) }
    }
}

impl From<ResourceError> for Failure {
    fn from(error: ResourceError) -> Self {
        if let Some(failure) = no_access(&error) {
            return failure;
        }
        let code = if error.is_forbidden() { Code::Forbidden } else { Code::Unexpected };
        Self::new(code, error.to_string())
    }
}

impl From<&olm_catalog::Unknown> for Failure {
    /// The hint lists similar names.
    fn from(unknown: &olm_catalog::Unknown) -> Self {
        let olm_catalog::Unknown { what, name, place, nearest, known } = unknown;
        let failure = Self::new(Code::NotFound, format!("{what} `{name}` {place}"));
        match (nearest.as_slice(), known.as_slice()) {
            ([], []) => failure,
            ([], known) => failure.hint(format!("available: {}", known.join(", "))),
            (nearest, _) => failure.hint(format!("did you mean {}?", nearest.join(" or "))),
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        if let Some(failure) = no_access(&error) {
            return failure;
        }
        match &error {
            kube::Error::Api(status) if status.code == 403 => {
                Self::new(Code::Forbidden, status.message.clone())
            }
            kube::Error::Api(status) if status.code == 404 => {
                Self::new(Code::NotFound, status.message.clone())
            }
            kube::Error::Api(status) => Self::new(Code::Unexpected, status.message.clone()),
            kube::Error::ProxyProtocolUnsupported { proxy_url } => Self::new(
                Code::Usage,
                format!("failed to use proxy {proxy_url}: unsupported scheme, expected http or socks5"),
            )
            .hint("change `proxy-url` of the kubeconfig or HTTPS_PROXY, or list the API server in NO_PROXY"),
            _ => Self::new(Code::Unexpected, error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Code::Unexpected, error.to_string())
    }
}

fn is_unanswered(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_))
}

fn no_answer(error: &kube::Error) -> Failure {
    Failure::new(Code::Unexpected, format!("failed to reach the cluster: {}", root_cause(error)))
        .hint("start a dev cluster with `olm up`, or select a cluster with --kubeconfig or --context")
}

fn refused_credentials() -> Failure {
    let message = format!("failed to authenticate to the cluster: {CREDENTIALS_REFUSED}");
    Failure::new(Code::Unexpected, message).hint(LOG_IN)
}

/// The failure of a request that no server answered, or that the API server did not authenticate, whatever it
/// was for.
pub fn no_access(error: &(dyn std::error::Error + 'static)) -> Option<Failure> {
    let mut next = Some(error);
    while let Some(at) = next {
        let boxed = at.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
        match at.downcast_ref::<kube::Error>().or(boxed) {
            Some(found) if is_unanswered(found) => return Some(no_answer(found)),
            Some(kube::Error::Api(status)) if status.code == 401 => return Some(refused_credentials()),
            _ => {}
        }
        next = at.source();
    }
    None
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

    #[test]
    fn answers_and_errors_have_distinct_exit_codes() {
        assert_eq!(Failure::no().render(true), "");
        assert_eq!(Failure::no().unanswered().code.as_u8(), 1);
        assert_eq!(Failure::new(Code::Unexpected, "x").unanswered().code.as_u8(), 10);
        assert_eq!(Failure::new(Code::NotFound, "x").unanswered().code.as_u8(), 3);
    }

    #[test]
    fn refused_credentials_are_not_a_missing_permission() {
        let refused = || kube::core::Status::failure("Unauthorized", "Unauthorized").with_code(401).boxed();
        let what = "list subscriptions".to_owned();
        let in_ops = olm_ops::Error::Kube { what, source: Box::new(kube::Error::Api(refused())) };
        for failure in [Failure::from(kube::Error::Api(refused())), Failure::from(in_ops)] {
            assert_eq!(failure.code, Code::Unexpected);
            assert!(failure.message.ends_with("refused the credentials (401 Unauthorized)"), "{failure:?}");
            assert_eq!(failure.hints, [LOG_IN]);
        }
    }

    #[test]
    fn what_strangers_wrote_does_not_reach_the_terminal_raw() {
        let failure = Failure::new(Code::NotFound, "a\x1b[2Jb\nc").hint("d\x07");
        assert_eq!(failure.render(false), "error: a?[2Jb\nc\nhint: d?\n");
    }
}
