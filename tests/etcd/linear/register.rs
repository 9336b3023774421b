//! One register: a key of etcd.

use std::collections::HashSet;

use super::{Timed, Verdict};

/// Maximum number of visited states. A history of a hundred operations with a dozen unknown ones takes a few
/// thousand.
const LARGEST: usize = 2_000_000;

/// An operation on a register, with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Read(Option<u64>),
    Write(u64),
    /// If the value is `from` it becomes `to`; `done` is the result, `None` if unknown.
    Swap {
        /// The expected value.
        from: u64,
        /// The new value.
        to: u64,
        /// Whether it took effect.
        done: Option<bool>,
    },
}

impl Op {
    /// The value after it; `None` when its result is impossible for this value.
    fn on(&self, value: Option<u64>) -> Option<Option<u64>> {
        match *self {
            Self::Read(read) => (read == value).then_some(value),
            Self::Write(new) => Some(Some(new)),
            Self::Swap { from, to, done } => match (value == Some(from), done) {
                (true, Some(true) | None) => Some(Some(to)),
                (false, Some(false) | None) => Some(value),
                (true, Some(false)) | (false, Some(true)) => None,
            },
        }
    }
}

/// A call or a return in the order of time.
#[derive(Clone, Copy)]
struct Event {
    op: usize,
    is_call: bool,
}

/// The unexplained events, as a list from which a pair can be removed and restored.
struct Remaining {
    events: Vec<Event>,
    next: Vec<usize>,
    before: Vec<usize>,
    /// Index of the return of an operation.
    returns: Vec<usize>,
}

/// The place before the first event.
const HEAD: usize = 0;

impl Remaining {
    fn new<T>(history: &[Timed<T>]) -> Self {
        let mut times: Vec<(u64, Event)> = Vec::new();
        for (op, timed) in history.iter().enumerate() {
            times.push((timed.called, Event { op, is_call: true }));
            times.push((timed.returned.unwrap_or(u64::MAX), Event { op, is_call: false }));
        }
        times.sort_by_key(|(time, event)| (*time, !event.is_call));
        let mut events = vec![Event { op: usize::MAX, is_call: false }];
        events.extend(times.into_iter().map(|(_, event)| event));
        let mut returns = vec![0; history.len()];
        for (place, event) in events.iter().enumerate().skip(1).filter(|(_, event)| !event.is_call) {
            returns[event.op] = place;
        }
        let count = events.len();
        Self {
            events,
            next: (0..count).map(|place| if place + 1 < count { place + 1 } else { HEAD }).collect(),
            before: (0..count).map(|place| if place > 0 { place - 1 } else { count - 1 }).collect(),
            returns,
        }
    }

    fn unlink(&mut self, place: usize) {
        let (before, next) = (self.before[place], self.next[place]);
        self.next[before] = next;
        self.before[next] = before;
    }

    fn relink(&mut self, place: usize) {
        let (before, next) = (self.before[place], self.next[place]);
        self.next[before] = place;
        self.before[next] = place;
    }

    /// Removes a call and its return.
    fn take(&mut self, call: usize) {
        self.unlink(call);
        self.unlink(self.returns[self.events[call].op]);
    }

    /// Restores the last removed pair.
    fn restore(&mut self, call: usize) {
        self.relink(self.returns[self.events[call].op]);
        self.relink(call);
    }
}

/// Searches for an order of the operations on one register without an initial value.
pub fn check(history: &[Timed<Op>]) -> Verdict {
    // A read with an unknown result carries no information.
    let informative = history.iter().filter(|op| op.returned.is_some() || !matches!(op.what, Op::Read(_)));
    let owned: Vec<Timed<Op>> = informative
        .cloned()
        .map(|mut op| {
            if let (None, Op::Swap { done, .. }) = (op.returned, &mut op.what) {
                *done = None;
            }
            op
        })
        .collect();
    let mut left = Remaining::new(&owned);
    let mut done = vec![0_u64; owned.len().div_ceil(64)];
    let mut seen: HashSet<(Vec<u64>, Option<u64>)> = HashSet::new();
    let mut path: Vec<(usize, Option<u64>)> = Vec::new();
    let mut value = None;
    let mut place = left.next[HEAD];
    let mut longest = (0, None);
    loop {
        if place == HEAD {
            // The end of the list is reached only when nothing is left: every return stops the walk.
            return Verdict::Explained;
        }
        let event = left.events[place];
        if event.is_call {
            let op = event.op;
            if let Some(after) = owned[op].what.on(value) {
                done[op / 64] |= 1 << (op % 64);
                if seen.insert((done.clone(), after)) {
                    path.push((place, value));
                    value = after;
                    left.take(place);
                    place = left.next[HEAD];
                    if seen.len() > LARGEST {
                        return Verdict::TooHard;
                    }
                    continue;
                }
                done[op / 64] &= !(1 << (op % 64));
            }
            place = left.next[place];
            continue;
        }
        // The returned operation has no place: an earlier choice was wrong.
        if longest.1.is_none() || path.len() > longest.0 {
            longest = (path.len(), Some((event.op, value)));
        }
        let Some((call, before)) = path.pop() else {
            let (explained, stuck) = longest;
            let stuck = stuck.map(|(op, value)| format!("{:?} when the value is {value:?}", owned[op]));
            return Verdict::Wrong(format!(
                "at most {explained} of {} operations can be explained; then {}",
                owned.len(),
                stuck.unwrap_or_default()
            ));
        };
        let op = left.events[call].op;
        done[op / 64] &= !(1 << (op % 64));
        value = before;
        left.restore(call);
        place = left.next[call];
    }
}
