//! Why a reconciliation failed, and what the object reports about it.

use std::time::Duration;

/// First delay after a failure; it doubles up to five minutes.
const BACKOFF: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// Delay while the name of an object is taken: the end of a foreign object is not an event of its owner, and
/// looking for it costs no request.
const TAKEN: Duration = Duration::from_secs(10);
/// Delay while this process does not lead.
const UNLED: Duration = Duration::from_secs(1);
/// Consecutive failures after which a failure is reported that can be transient.
const REPEATED: u32 = 5;
/// Consecutive failures after which a failed watch is reported.
const UNWATCHED: u32 = 3;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("failed to parse the object: {0}")]
    Unreadable(String),
    #[error("the plan is not valid: {0}")]
    Plan(String),
    #[error(
        "{kind} {name} exists and is not owned by this object. hint: rename this object, or delete {kind} {name}"
    )]
    NameTaken { kind: String, name: String },
    /// Of an earlier object of the same name, or being deleted.
    #[error("{kind} {name} is being deleted")]
    Terminating { kind: String, name: String },
    #[error("failed to watch {plural}: {why}")]
    Unwatched { plural: String, why: String },
    #[error("{0} are not listed yet")]
    Unlisted(String),
    #[error("failed to {verb} {what}: {}", why(source))]
    Kubernetes { verb: &'static str, what: String, source: Box<kube::Error> },
    #[error("this process does not lead")]
    Unled,
}

impl Failure {
    /// Reason of the conditions.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "InvalidObject",
            Self::Plan(_) => "InvalidPlan",
            Self::NameTaken { .. } => "NameTaken",
            Self::Terminating { .. } => "Terminating",
            Self::Unwatched { .. } | Self::Unlisted(_) => "WatchFailed",
            Self::Kubernetes { .. } => "ApplyFailed",
            Self::Unled => "NotLeading",
        }
    }

    /// Whether the object reports it, after this many consecutive failures.
    pub(crate) fn is_reported(&self, failures: u32) -> bool {
        match self {
            Self::Unreadable(_) | Self::Plan(_) | Self::NameTaken { .. } => true,
            // The first list after a start can fail for a moment.
            Self::Unwatched { .. } => failures >= UNWATCHED,
            Self::Kubernetes { source, .. } => is_refusal(source) || failures >= REPEATED,
            Self::Terminating { .. } | Self::Unlisted(_) => failures >= REPEATED,
            Self::Unled => false,
        }
    }

    /// Whether it will not pass without a change by a user, after this many consecutive failures.
    pub(crate) fn is_stalled(&self, failures: u32) -> bool {
        matches!(self, Self::Unreadable(_) | Self::Plan(_) | Self::NameTaken { .. }) || failures >= REPEATED
    }

    /// Delay until the next attempt.
    pub(crate) fn delay(&self, failures: u32) -> Duration {
        match self {
            Self::Unled => UNLED,
            Self::NameTaken { .. } => TAKEN,
            // The end of the failure is not an event of an object that owns nothing yet.
            Self::Unwatched { .. } => backoff(failures).min(TAKEN),
            _ => backoff(failures),
        }
    }
}

fn backoff(failures: u32) -> Duration {
    BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(9)).min(BACKOFF_MAX)
}

/// Whether Kubernetes rejects a request permanently: not because of a missing object, a conflict or overload.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && ![404, 409, 410, 429].contains(&status.code))
}

/// The message of Kubernetes, for conditions.
fn why(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_from_a_second_to_five_minutes() {
        let failure = Failure::Unlisted("configmaps".to_owned());
        let delays: Vec<u64> = (1..=11).map(|failures| failure.delay(failures).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(failure.delay(u32::MAX), BACKOFF_MAX);
    }

    #[test]
    fn a_conflict_is_reported_when_it_repeats_and_a_refusal_at_once() {
        let failed = |code: u16| {
            let status = kube::core::Status { code, ..kube::core::Status::default() };
            let source = Box::new(kube::Error::Api(Box::new(status)));
            Failure::Kubernetes { verb: "apply", what: "ConfigMap a".to_owned(), source }
        };
        assert!(!failed(409).is_reported(4) && failed(409).is_reported(5));
        assert!(failed(403).is_reported(1) && !failed(403).is_stalled(4) && failed(403).is_stalled(5));
        assert!(!failed(503).is_reported(1));
    }
}
