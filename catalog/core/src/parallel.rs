//! Distributes work over threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maps every item; the results are in the order of the items.
pub(crate) fn map<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    *done[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(work(item));
                }
            });
        }
    });
    done.into_iter()
        .filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn two_threads_work_at_the_same_time() {
        let begun = AtomicUsize::new(0);
        let met = map(2, &[(), ()], |()| {
            begun.fetch_add(1, Ordering::SeqCst);
            let start = Instant::now();
            while begun.load(Ordering::SeqCst) < 2 && start.elapsed() < Duration::from_secs(30) {
                std::thread::sleep(Duration::from_millis(1));
            }
            begun.load(Ordering::SeqCst) == 2
        });
        assert_eq!(met, [true, true]);
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        for threads in [1, 3, 200] {
            assert_eq!(map(threads, &items, |item| *item), items, "{threads} threads");
        }
    }
}
