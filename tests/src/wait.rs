//! Waiting for the world, with a limit and the last thing seen when it runs out.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// Asks again every 50 ms until `probe` answers `Ok(Some(..))`. An `Err` or `None` is "not yet"; when the time is over the
/// last error is in the message.
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

/// The same for a condition that is true or false, with a description of what is seen.
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
