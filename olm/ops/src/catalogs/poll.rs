//! Poll intervals of catalogs.

use std::time::Duration;

use serde::Serialize;

/// A valid `spec.updateStrategy.registryPoll.interval`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PollInterval(String);

impl PollInterval {
    /// Parses a Go duration above zero, such as `10m` or `1h30m`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        match go_duration(text) {
            Some(every) if every >= Duration::from_secs(1) => Ok(Self(text.to_owned())),
            Some(_) => Err(format!("`{text}` is too short, expected at least 1s")),
            None => Err(format!("`{text}` is not a duration, expected one such as 10m or 1h30m")),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A Go duration such as `10m` or `1h30m`; `None` when it is invalid.
#[must_use]
pub fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let value: f64 = rest[..digits].parse().ok()?;
        let unit = &rest[digits..];
        let (seconds, length) = match unit {
            u if u.starts_with("ms") => (value / 1e3, 2),
            u if u.starts_with("ns") => (value / 1e9, 2),
            u if u.starts_with("us") => (value / 1e6, 2),
            u if u.starts_with('h') => (value * 3600.0, 1),
            u if u.starts_with('m') => (value * 60.0, 1),
            u if u.starts_with('s') => (value, 1),
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = &unit[length..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read() {
        assert_eq!(go_duration("10m"), Some(Duration::from_secs(600)));
        assert_eq!(go_duration("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(go_duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(go_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(go_duration("soon"), None);
        assert_eq!(go_duration(""), None);
    }

    #[test]
    fn only_intervals_that_the_manager_follows_are_accepted() {
        assert_eq!(PollInterval::parse("1h30m").unwrap().as_str(), "1h30m");
        for (text, why) in [("soon", "not a duration"), ("10", "not a duration"), ("0s", "too short")] {
            assert!(PollInterval::parse(text).unwrap_err().contains(why), "{text}");
        }
        assert!(PollInterval::parse("10ms").unwrap_err().contains("at least 1s"));
    }
}
