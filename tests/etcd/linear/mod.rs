//! Linearizability check: whether one order of the operations, consistent with real time, explains the results
//! of the clients.
//!
//! * [`register`]: reads, writes and compare-and-swaps of single keys, by the search of Wing and Gong with Lowe's memoization
//! * [`set`]: a set that only grows, which needs no search
//!
//! Times are ticks of one counter: an operation that returned before another was called has the smaller tick.

pub mod register;
pub mod set;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks. Of two ordered events the earlier one has the smaller tick.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    pub fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// An operation and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timed<T> {
    pub called: u64,
    /// When it returned; `None` for an unknown fate: it may take effect at any time after the call, or never.
    pub returned: Option<u64>,
    pub what: T,
}

/// Result of the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order.
    Explained,
    /// There is none; with the unexplained part.
    Wrong(String),
    /// The search exceeded its limit.
    TooHard,
}
