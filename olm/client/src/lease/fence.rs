//! Whether this replica may write: only while it is certain that no other one does.
//!
//! A renewed lease is certain for a time that is counted from *before* the renewal was sent, by a monotonic
//! clock that continues while the machine sleeps. Another replica takes over later than that, independent of
//! the clock settings of both machines.

use std::time::Duration;

use futures::{Stream, stream};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// How long writes are certain to be exclusive.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Never held, or expired.
    Closed,
    /// Exclusive without an election.
    Open,
    Until {
        deadline: Instant,
        /// The same by the clock that counts sleep: its value at the start, and the validity.
        awake: Option<(Duration, Duration)>,
    },
}

/// Shared by the elector, which opens and closes it, and the client, which checks it before every write.
#[derive(Debug)]
pub struct Fence {
    state: watch::Sender<State>,
    /// Whether another replica was observed to lead.
    follows: watch::Sender<bool>,
}

impl Default for Fence {
    fn default() -> Self {
        Self { state: watch::Sender::new(State::Closed), follows: watch::Sender::new(false) }
    }
}

/// The moment at which a renewal is about to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    at: Instant,
    boot: Option<Duration>,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self { at: Instant::now(), boot: since_boot() }
    }
}

impl Fence {
    /// Permits writes permanently: there is no election.
    pub fn open(&self) {
        self.state.send_replace(State::Open);
    }

    /// Permits writes for this long from the moment at which the lease was requested.
    pub(super) fn extend(&self, asked: Moment, valid: Duration) {
        let awake = asked.boot.map(|boot| (boot, valid));
        self.state.send_replace(State::Until { deadline: asked.at + valid, awake });
    }

    /// Records that another replica leads; whether this is the first time.
    pub(super) fn follow(&self) -> bool {
        !self.follows.send_replace(true)
    }

    /// Returns when another replica was observed to lead.
    pub async fn follows(&self) {
        let mut follows = self.follows.subscribe();
        // The sender lives as long as `self`.
        let _ = follows.wait_for(|follows| *follows).await;
    }

    /// Forbids writes at once, whatever was valid before.
    pub fn close(&self) {
        self.state.send_replace(State::Closed);
    }

    /// Whether this replica may write now.
    #[must_use]
    pub fn leads(&self) -> bool {
        match *self.state.borrow() {
            State::Closed => false,
            State::Open => true,
            State::Until { deadline, awake } => {
                let slept = awake.is_some_and(|(from, valid)| {
                    since_boot().is_some_and(|now| now.saturating_sub(from) >= valid)
                });
                Instant::now() < deadline && !slept
            }
        }
    }

    /// Returns when this replica may no longer write; at once when it may not now.
    pub async fn lost(&self) {
        let mut changes = self.state.subscribe();
        loop {
            let deadline = match *changes.borrow_and_update() {
                State::Closed => return,
                State::Open => None,
                State::Until { deadline, .. } => Some(deadline),
            };
            let over = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // A renewal in time counts, however late it is observed.
                biased;
                // The sender lives as long as `self`.
                _ = changes.changed() => {}
                () = over => return,
            }
        }
    }

    /// Yields every time the right to write begins.
    pub fn begins(&self) -> impl Stream<Item = ()> + Send + use<> {
        let closed = |state: &State| matches!(state, State::Closed);
        stream::unfold((self.state.subscribe(), false), move |(mut state, led)| async move {
            if led {
                state.wait_for(closed).await.ok()?;
            }
            state.wait_for(|state| !closed(state)).await.ok()?;
            Some(((), (state, true)))
        })
    }
}

/// Time since the boot of the machine, sleep included, in hundredths of a second.
fn since_boot() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    Duration::try_from_secs_f64(text.split_whitespace().next()?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use tokio::time::advance;

    use super::*;

    const VALID: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn writes_are_permitted_only_from_the_acquisition_to_the_deadline() {
        let fence = Fence::default();
        assert!(!fence.leads());
        fence.lost().await;

        // when it is held
        fence.extend(Moment::now(), VALID);
        assert!(fence.leads());
        advance(VALID - Duration::from_millis(100)).await;
        assert!(fence.leads());

        // then it expires without an access
        advance(Duration::from_millis(100)).await;
        assert!(!fence.leads());
        fence.lost().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_the_end_sees_each_renewal_and_the_early_end() {
        let fence = Fence::default();
        fence.extend(Moment::now(), VALID);
        let mut lost = std::pin::pin!(fence.lost());
        assert!(futures::poll!(lost.as_mut()).is_pending());
        advance(VALID / 2).await;
        fence.extend(Moment::now(), VALID);
        advance(VALID - Duration::from_secs(1)).await;
        assert!(futures::poll!(lost.as_mut()).is_pending(), "it was renewed");
        fence.close();
        assert!(futures::poll!(lost.as_mut()).is_ready());
    }

    #[test]
    fn a_machine_that_slept_does_not_lead_however_little_its_other_clock_ran() {
        let fence = Fence::default();
        let Some(boot) = since_boot().filter(|boot| *boot > VALID) else {
            println!("skipped: a machine that slept: /proc/uptime is missing or below the validity");
            return;
        };
        fence.extend(Moment { at: Instant::now(), boot: Some(boot - VALID) }, VALID);
        assert!(!fence.leads());
    }

    #[tokio::test]
    async fn the_beginning_is_reported_once() {
        let fence = Fence::default();
        let mut begins = std::pin::pin!(fence.begins());
        fence.extend(Moment::now(), VALID);
        assert_eq!(begins.next().await, Some(()));
        fence.extend(Moment::now(), VALID);
        assert!(futures::poll!(begins.next()).is_pending());
    }
}
