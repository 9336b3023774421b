//! Waits with a time-out that report the last result.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// Polls every 50 ms until `probe` returns `Ok(Some(..))`. An `Err` or `None` is "not yet"; on time-out the
/// message has the last error.
pub async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let last = match probe().await {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => "not yet".to_string(),
            Err(error) => format!("{error:#}"),
        };
        if start.elapsed() > limit {
            bail!("waited {}s for {what}; last: {last}", limit.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The same for a boolean condition, with a description of the state.
pub async fn until<F, Fut>(what: &str, limit: Duration, mut probe: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<(bool, String)>>,
{
    let start = Instant::now();
    loop {
        let last = match probe().await {
            Ok((true, _)) => return Ok(()),
            Ok((false, seen)) => seen,
            Err(error) => format!("{error:#}"),
        };
        if start.elapsed() > limit {
            bail!("waited {}s for {what}; last: {last}", limit.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
