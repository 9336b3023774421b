//! Whether what clients saw can be explained by one order of their operations that keeps to real time (linearizability).
//!
//! * [`register`]: reads, writes and compare-and-swaps of single keys, by the search of Wing and Gong with the memory of Lowe
//! * [`set`]: a set that only grows, which needs no search
//!
//! Times are ticks of one counter: what returned before another was called has the smaller one.

pub mod register;
pub mod set;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks. Of two events the one that was known to be earlier has the smaller tick.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// The next one.
    pub fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// An operation and when it was under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timed<T> {
    pub called: u64,
    /// When it returned; `None` when nobody knows whether it was carried out: then it may be at any time after the call, or never.
    pub returned: Option<u64>,
    pub what: T,
}

/// What the check says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order.
    Explained,
    /// There is none; what cannot be explained.
    Wrong(String),
    /// The search grew too large.
    TooHard,
}
