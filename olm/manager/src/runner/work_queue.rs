//! The objects to reconcile, and when. Pure.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Instant,
};

use super::Key;

/// Objects by their state. Idle objects have no entry.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    states: HashMap<Key, State>,
    /// Objects that are due, in order.
    ready: VecDeque<Key>,
    later: BTreeSet<(Instant, Key)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Later(Instant),
    Ready,
    Running,
    /// It is being reconciled, and was woken since.
    RunningAndWoken,
}

impl WorkQueue {
    /// The object is due now.
    pub(super) fn wake(&mut self, key: Key) {
        match self.states.get_mut(&key) {
            Some(State::Ready | State::RunningAndWoken) => {}
            Some(state @ State::Running) => *state = State::RunningAndWoken,
            Some(state @ State::Later(_)) => {
                if let State::Later(at) = *state {
                    self.later.remove(&(at, Arc::clone(&key)));
                }
                *state = State::Ready;
                self.ready.push_back(key);
            }
            None => {
                self.states.insert(Arc::clone(&key), State::Ready);
                self.ready.push_back(key);
            }
        }
    }

    /// The next object, which counts as running from now on.
    pub(super) fn take(&mut self) -> Option<Key> {
        let key = self.ready.pop_front()?;
        self.states.insert(Arc::clone(&key), State::Running);
        Some(key)
    }

    /// The reconciliation ended; `again` is its next time. An object that was woken meanwhile is due at once,
    /// and the result of that run counts.
    pub(super) fn done(&mut self, key: &Key, again: Option<Instant>) {
        let woken = self.states.remove(key) == Some(State::RunningAndWoken);
        if woken {
            self.wake(Arc::clone(key));
        } else if let Some(at) = again {
            self.states.insert(Arc::clone(key), State::Later(at));
            self.later.insert((at, Arc::clone(key)));
        }
    }

    /// When the next object is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Moves objects whose time has come to the due ones.
    pub(super) fn due(&mut self, now: Instant) {
        while self.next().is_some_and(|at| at <= now)
            && let Some((_, key)) = self.later.pop_first()
        {
            self.states.insert(Arc::clone(&key), State::Ready);
            self.ready.push_back(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> Key {
        super::super::key("ns", name)
    }

    fn taken(queue: &mut WorkQueue) -> Vec<String> {
        std::iter::from_fn(|| queue.take()).map(|key| key.to_string()).collect()
    }

    #[test]
    fn each_has_one_turn_however_often_it_is_woken() {
        let mut queue = WorkQueue::default();
        for name in ["a", "b", "a", "c", "b"] {
            queue.wake(key(name));
        }
        assert_eq!(taken(&mut queue), ["ns/a", "ns/b", "ns/c"]);
        // a trigger during a reconciliation causes one more, before the requested time
        let hour = Instant::now() + Duration::from_secs(3_600);
        queue.wake(key("a"));
        queue.wake(key("a"));
        assert_eq!(taken(&mut queue), [""; 0]);
        for name in ["a", "b", "c"] {
            queue.done(&key(name), Some(hour));
        }
        assert_eq!(taken(&mut queue), ["ns/a"]);
        queue.done(&key("a"), None);
        assert_eq!((taken(&mut queue), queue.next()), (vec![], Some(hour)));
    }

    #[test]
    fn what_is_due_has_its_turn_and_what_is_woken_before_is_not_due_any_more() {
        let mut queue = WorkQueue::default();
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        for (name, seconds) in [("a", 30), ("b", 10), ("c", 20)] {
            queue.wake(key(name));
            let _ = queue.take();
            queue.done(&key(name), Some(at(seconds)));
        }
        queue.due(at(9));
        assert_eq!(taken(&mut queue), [""; 0]);
        queue.wake(key("c"));
        queue.due(at(10));
        assert_eq!(taken(&mut queue), ["ns/c", "ns/b"]);
        // c is not due a second time
        queue.done(&key("c"), None);
        queue.done(&key("b"), None);
        queue.due(at(40));
        assert_eq!(taken(&mut queue), ["ns/a"]);
        queue.done(&key("a"), None);
        // idle objects have no entry
        assert!(queue.states.is_empty() && queue.ready.is_empty() && queue.later.is_empty());
    }
}
