//! Decides the next action for a pod's containers. Pure: state and time in, actions out.

use std::time::{Duration, Instant};

/// `restartPolicy` of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Always,
    OnFailure,
    Never,
}

impl Policy {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("OnFailure") => Self::OnFailure,
            Some("Never") => Self::Never,
            _ => Self::Always,
        }
    }

    fn restarts(self, code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}

/// State of a container for the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) state: ViewState,
    /// Earliest start.
    pub(crate) not_before: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ViewState {
    New,
    Running,
    Exited(i32),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Containers to start now: index into init containers, or into containers.
    pub(crate) start_init: Option<usize>,
    pub(crate) start: Vec<usize>,
    /// Exited containers in their restart backoff.
    pub(crate) backing_off: Vec<usize>,
    pub(crate) init_backing_off: Option<usize>,
    /// Time of the next decision.
    pub(crate) wake: Option<Instant>,
    pub(crate) initialized: bool,
    /// All containers are done: whether they succeeded.
    pub(crate) finished: Option<bool>,
}

pub(crate) fn plan(policy: Policy, init: &[View], containers: &[View], now: Instant) -> Plan {
    let mut plan = Plan::default();
    // Init containers are restarted on failure even with Always; only Never gives up.
    let init_policy = if policy == Policy::Never { Policy::Never } else { Policy::OnFailure };
    for (index, view) in init.iter().enumerate() {
        match view.state {
            ViewState::Exited(0) => continue,
            ViewState::Running => return plan,
            ViewState::Exited(code) if !init_policy.restarts(code) => {
                plan.finished = Some(false);
                return plan;
            }
            ViewState::New | ViewState::Exited(_) => {
                if is_due(view, now, &mut plan.wake) {
                    plan.start_init = Some(index);
                } else {
                    plan.init_backing_off = Some(index);
                }
                return plan;
            }
        }
    }
    plan.initialized = true;
    let mut over = !containers.is_empty();
    let mut success = true;
    for (index, view) in containers.iter().enumerate() {
        match view.state {
            ViewState::Running => over = false,
            ViewState::Exited(code) if !policy.restarts(code) => success &= code == 0,
            ViewState::New | ViewState::Exited(_) => {
                over = false;
                if is_due(view, now, &mut plan.wake) {
                    plan.start.push(index);
                } else {
                    plan.backing_off.push(index);
                }
            }
        }
    }
    plan.finished = over.then_some(success);
    plan
}

fn is_due(view: &View, now: Instant, wake: &mut Option<Instant>) -> bool {
    match view.not_before {
        Some(time) if time > now => {
            *wake = Some(wake.map_or(time, |earlier| earlier.min(time)));
            false
        }
        _ => true,
    }
}

/// Delay before a restart: none, then 10 s doubled up to 5 min.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_secs(10);
    const MOST: Duration = Duration::from_secs(300);
    /// Run time after which the backoff is reset.
    const FORGIVEN: Duration = Duration::from_secs(600);

    /// The delay after an instance that ran for `ran`.
    pub(crate) fn after(&mut self, ran: Duration) -> Duration {
        if ran >= Self::FORGIVEN {
            self.next = Duration::ZERO;
        }
        let delay = self.next;
        self.next = if delay.is_zero() { Self::FIRST } else { (delay * 2).min(Self::MOST) };
        delay
    }

    /// The delay after a failed start: never none.
    pub(crate) fn after_failure(&mut self) -> Duration {
        if self.next.is_zero() {
            self.next = Self::FIRST;
        }
        self.after(Duration::ZERO)
    }
}

/// Counts a probe's results up to its threshold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threshold {
    success: i32,
    failure: i32,
    streak: i32,
    last: Option<bool>,
}

impl Threshold {
    pub(crate) fn new(success: Option<i32>, failure: Option<i32>) -> Self {
        Self {
            success: success.unwrap_or(1).max(1),
            failure: failure.unwrap_or(3).max(1),
            streak: 0,
            last: None,
        }
    }

    /// `Some` when the consecutive results reach the threshold.
    pub(crate) fn observe(&mut self, good: bool) -> Option<bool> {
        self.streak = if self.last == Some(good) { self.streak.saturating_add(1) } else { 1 };
        self.last = Some(good);
        let needed = if good { self.success } else { self.failure };
        (self.streak >= needed).then_some(good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(state: ViewState) -> View {
        View { state, not_before: None }
    }

    #[test]
    fn init_containers_run_one_by_one_before_the_others() {
        let (now, new, done) = (Instant::now(), view(ViewState::New), view(ViewState::Exited(0)));
        assert_eq!(plan(Policy::Always, &[new, new], &[new], now).start_init, Some(0));
        assert_eq!(plan(Policy::Always, &[view(ViewState::Running), new], &[new], now), Plan::default());
        assert_eq!(plan(Policy::Always, &[done, new], &[new], now).start_init, Some(1));
        let ready = plan(Policy::Always, &[done, done], &[new, new], now);
        assert!(ready.initialized && ready.start == [0, 1]);
        let failed = view(ViewState::Exited(1));
        assert_eq!(plan(Policy::Always, &[failed], &[new], now).start_init, Some(0));
        assert_eq!(plan(Policy::Never, &[failed], &[new], now).finished, Some(false));
    }

    #[test]
    fn the_policy_decides_on_restarts() {
        let now = Instant::now();
        let (good, bad) = (view(ViewState::Exited(0)), view(ViewState::Exited(2)));
        assert_eq!(plan(Policy::Always, &[], &[good, bad], now).start, [0, 1]);
        assert_eq!(plan(Policy::OnFailure, &[], &[good, bad], now).start, [1]);
        assert_eq!(plan(Policy::Never, &[], &[good, bad], now).finished, Some(false));
        assert_eq!(plan(Policy::OnFailure, &[], &[good, good], now).finished, Some(true));
        assert_eq!(plan(Policy::Never, &[], &[good, view(ViewState::Running)], now).finished, None);
    }

    #[test]
    fn a_container_waits_for_its_backoff() {
        let now = Instant::now();
        let later = now + Duration::from_secs(10);
        let waiting = View { state: ViewState::Exited(1), not_before: Some(later) };
        let decided = plan(Policy::Always, &[], &[waiting], now);
        assert_eq!((decided.start.len(), decided.backing_off, decided.wake), (0, vec![0], Some(later)));
        assert_eq!(plan(Policy::Always, &[], &[waiting], later).start, [0]);
    }

    #[test]
    fn the_delay_doubles_and_is_reset() {
        let mut backoff = Backoff::default();
        let short = Duration::from_secs(1);
        let delays: Vec<u64> = (0..8).map(|_| backoff.after(short).as_secs()).collect();
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(backoff.after(Duration::from_secs(600)).as_secs(), 0);
    }

    #[test]
    fn a_threshold_needs_results_in_a_row() {
        let mut threshold = Threshold::new(None, None);
        let seen: Vec<_> =
            [false, false, true, false, false, false, false].map(|good| threshold.observe(good)).into();
        assert_eq!(seen, [None, None, Some(true), None, None, Some(false), Some(false)]);
    }
}
