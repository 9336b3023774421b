//! When to read a source again.

use std::time::Duration;

use olm_api::CatalogSourceSpec;
use olm_engine::catalogs::Problem;
use olm_ops::catalogs::go_duration;

use super::source::RequestedSource;

/// For an unreadable interval, as upstream, and for servers without one.
const DEFAULT: Duration = Duration::from_secs(15 * 60);
/// For sources that are cheap to check.
const LOCAL: Duration = Duration::from_secs(15);
/// Minimum interval, to limit the load on registries.
const SHORTEST: Duration = Duration::from_secs(1);
/// After a failure, doubled with each further one up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(5);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The poll interval of a source (`None`: read only when the spec changes), and the problem of an invalid one.
pub(super) fn interval(
    spec: &CatalogSourceSpec,
    requested: &RequestedSource,
) -> (Option<Duration>, Option<Problem>) {
    let poll = spec.update_strategy.as_ref().and_then(|s| s.registry_poll.as_ref());
    let text = poll.map(|poll| poll.interval.as_deref().map(str::trim).unwrap_or_default());
    let (every, problem) = match text {
        None => (None, None),
        Some("") => (Some(DEFAULT), None),
        Some(text) => match go_duration(text).filter(|every| !every.is_zero()) {
            Some(every) => (Some(every.max(SHORTEST)), None),
            None => {
                let message = format!(
                    "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. \
                     Error: `{text}` is not a duration such as 10m or 1h30m"
                );
                (Some(DEFAULT), Some(Problem::new("InvalidIntervalError", "InvalidIntervalError", message)))
            }
        },
    };
    let every = match requested {
        _ if requested.is_fixed() => None,
        // As upstream: an image without an interval is read once.
        RequestedSource::Image(_) | RequestedSource::Signed { .. } | RequestedSource::Shipped => every,
        RequestedSource::Address(_) | RequestedSource::Http(_) => every.or(Some(DEFAULT)),
        RequestedSource::ConfigMap(_) | RequestedSource::Directory(_) => every.or(Some(LOCAL)),
    };
    (every, problem)
}

/// Varied by up to a tenth, so that catalogs that started together spread out. `random` is in 0..1.
pub(super) fn jittered(every: Duration, random: f64) -> Duration {
    every.mul_f64(0.9 + 0.2 * random.clamp(0.0, 1.0))
}

/// The delay after this many consecutive failures.
pub(super) fn back_off(failures: u32, random: f64) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(16));
    jittered(doubled.min(LONGEST_WAIT), random)
}

#[cfg(test)]
mod tests {
    use olm_api::catalog_source::{RegistryPoll, UpdateStrategy};

    use super::*;

    fn polled(interval: Option<&str>) -> CatalogSourceSpec {
        let registry_poll = Some(RegistryPoll { interval: interval.map(str::to_owned) });
        CatalogSourceSpec {
            update_strategy: Some(UpdateStrategy { registry_poll }),
            ..CatalogSourceSpec::default()
        }
    }

    fn image() -> RequestedSource {
        RequestedSource::Image("quay.io/x/cat:latest".into())
    }

    #[test]
    fn an_image_is_polled_when_an_interval_is_set() {
        assert_eq!(interval(&CatalogSourceSpec::default(), &image()), (None, None));
        assert_eq!(interval(&polled(Some("10m")), &image()), (Some(Duration::from_secs(600)), None));
        assert_eq!(interval(&polled(None), &image()), (Some(DEFAULT), None));
    }

    #[test]
    fn an_image_by_digest_is_never_polled() {
        let pinned = RequestedSource::Image("quay.io/x/cat@sha256:0".into());
        assert_eq!(interval(&polled(Some("10m")), &pinned), (None, None));
        assert_eq!(interval(&polled(Some("10m")), &RequestedSource::Shipped), (None, None));
    }

    #[test]
    fn an_invalid_interval_is_reported_and_replaced_by_fifteen_minutes() {
        for bad in ["soon", "0s", "-5m", "10", "999999999999h999999999999999h99999999999999999999h"] {
            let (every, problem) = interval(&polled(Some(bad)), &image());
            let problem = problem.unwrap_or_else(|| panic!("{bad} was taken: {every:?}"));
            assert_eq!((every, problem.reason), (Some(DEFAULT), "InvalidIntervalError"), "{bad}");
            assert!(problem.message.contains(bad), "{}", problem.message);
        }
    }

    #[test]
    fn servers_and_files_are_looked_at_without_an_interval() {
        let none = CatalogSourceSpec::default();
        assert_eq!(interval(&none, &RequestedSource::Address("a:1".into())).0, Some(DEFAULT));
        assert_eq!(interval(&none, &RequestedSource::Http("http://a".into())).0, Some(DEFAULT));
        assert_eq!(interval(&none, &RequestedSource::ConfigMap("a".into())).0, Some(LOCAL));
        assert_eq!(
            interval(&polled(Some("2s")), &RequestedSource::Directory("/a".into())).0,
            Some(Duration::from_secs(2))
        );
    }

    #[test]
    fn waits_are_jittered_by_a_tenth() {
        let ten = Duration::from_secs(10);
        assert_eq!(jittered(ten, 0.0), Duration::from_secs(9));
        assert_eq!(jittered(ten, 1.0), Duration::from_secs(11));
    }

    #[test]
    fn waits_after_failures_double_up_to_five_minutes() {
        let waits: Vec<u64> = [1, 2, 3, 6, 7, 99].map(|n| back_off(n, 0.5).as_secs()).to_vec();
        assert_eq!(waits, [5, 10, 20, 160, 300, 300]);
    }
}
