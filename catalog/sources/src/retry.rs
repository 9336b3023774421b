//! Retries: classification of failures, delays, and the final error.

use std::time::Duration;

use rand::RngExt;
use reqwest::{StatusCode, header};

use crate::{error::SourceError, options::Timeouts};

/// Why one attempt failed.
pub(crate) enum Failure {
    /// A retry would fail.
    Fatal(SourceError),
    /// A retry may succeed.
    Transient { reason: String, retry_after: Option<Duration> },
}

impl Failure {
    pub fn transient(reason: impl Into<String>) -> Self {
        Self::Transient { reason: reason.into(), retry_after: None }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Self::Fatal(error)
    }
}

/// The attempts of one request.
pub(crate) struct Attempts<'a> {
    timeouts: &'a Timeouts,
    what: &'a str,
    made: u32,
}

impl<'a> Attempts<'a> {
    pub fn new(timeouts: &'a Timeouts, what: &'a str) -> Self {
        Self { timeouts, what, made: 0 }
    }

    /// Waits until the next attempt is due.
    /// # Errors
    /// When the failure is fatal, or all attempts are used.
    pub async fn after(&mut self, failure: Failure) -> Result<(), SourceError> {
        let (reason, retry_after) = match failure {
            Failure::Fatal(error) => return Err(error),
            Failure::Transient { reason, retry_after } => (reason, retry_after),
        };
        self.made += 1;
        if self.made >= self.timeouts.attempts {
            return Err(SourceError::Unavailable {
                what: self.what.to_owned(),
                attempts: self.made,
                last: reason,
            });
        }
        let wait = self.wait(retry_after);
        tracing::debug!(what = self.what, attempt = self.made, ?wait, reason, "request failed, retrying");
        tokio::time::sleep(wait).await;
        Ok(())
    }

    fn wait(&self, retry_after: Option<Duration>) -> Duration {
        let backoff = self.timeouts.first_wait.saturating_mul(1 << (self.made - 1).min(16));
        // Simultaneous failures must not retry simultaneously.
        let jittered = backoff.mul_f64(rand::rng().random_range(0.5..1.0));
        retry_after.map_or(jittered, |asked| asked.max(jittered)).min(self.timeouts.longest_wait)
    }
}

/// The retry delay of a server with status 408, 429 or 5xx; `None` for every other status.
pub(crate) fn transient_status(status: StatusCode, headers: &header::HeaderMap) -> Option<Failure> {
    let transient = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    transient.then(|| Failure::Transient {
        reason: format!("the server returned {status}"),
        retry_after: headers.get(header::RETRY_AFTER).and_then(|v| retry_after(v.to_str().ok()?)),
    })
}

/// Seconds, or a date.
fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp();
    // A past date means now.
    Some(Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeouts() -> Timeouts {
        Timeouts {
            attempts: 3,
            first_wait: Duration::from_millis(100),
            longest_wait: Duration::from_secs(1),
            ..Timeouts::default()
        }
    }

    #[test]
    fn waits_double_and_are_jittered_and_capped() {
        let timeouts = timeouts();
        for (made, least, most) in [(1, 50, 100), (2, 100, 200), (40, 1000, 1000)] {
            let wait = Attempts { timeouts: &timeouts, what: "x", made }.wait(None);
            assert!((least..=most).contains(&wait.as_millis()), "{made}: {wait:?}");
        }
    }

    #[test]
    fn retry_after_is_honoured_and_capped() {
        let timeouts = timeouts();
        let attempts = Attempts { timeouts: &timeouts, what: "x", made: 1 };
        assert_eq!(attempts.wait(Some(Duration::from_millis(700))), Duration::from_millis(700));
        assert_eq!(attempts.wait(Some(Duration::from_secs(7200))), Duration::from_secs(1));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after("17"), Some(Duration::from_secs(17)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert!(retry_after("Fri, 21 Oct 2095 07:28:00 GMT").expect("a date") > Duration::from_secs(1 << 30));
        assert_eq!(retry_after("soon"), None);
    }
}
