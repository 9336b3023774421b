//! Progress of downloads and uploads.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A change of the transfers of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transferred {
    /// A transfer of this many bytes begins; 0 when the size is unknown.
    Began(u64),
    /// More bytes were transferred.
    Bytes(u64),
    /// These bytes have to be transferred again.
    Lost(u64),
    /// A transfer is complete, or failed with this many bytes missing.
    Ended(u64),
}

/// Receives the progress of transfers; the default receives none.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<dyn Fn(Transferred) + Send + Sync>>);

impl Observer {
    /// The function is called by several threads, for every piece of a transfer.
    pub fn new(observe: impl Fn(Transferred) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(observe)))
    }

    fn report(&self, change: Transferred) {
        if let Some(observe) = &self.0 {
            observe(change);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Observer" } else { "None" })
    }
}

/// A transfer, which ends when it is dropped.
pub(crate) struct Transfer {
    observer: Observer,
    size: u64,
    bytes: u64,
}

impl Transfer {
    pub fn begin(observer: &Observer, size: u64) -> Self {
        observer.report(Transferred::Began(size));
        Self { observer: observer.clone(), size, bytes: 0 }
    }

    pub fn moved(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.observer.report(Transferred::Bytes(bytes as u64));
    }

    pub fn restart(&mut self) {
        self.observer.report(Transferred::Lost(std::mem::take(&mut self.bytes)));
    }
}

/// One transfer over all its attempts: what a failed attempt moved counts neither as moved nor as expected.
#[derive(Clone, Default)]
pub(crate) struct Retried(Arc<Mutex<Option<Transfer>>>);

impl Retried {
    /// Begins with the first attempt that moves content; further attempts start again.
    pub fn begin(&self, observer: &Observer, size: u64) {
        let mut transfer = self.transfer();
        match transfer.as_mut() {
            Some(begun) => begun.restart(),
            None => *transfer = Some(Transfer::begin(observer, size)),
        }
    }

    pub fn moved(&self, bytes: usize) {
        if let Some(transfer) = self.transfer().as_mut() {
            transfer.moved(bytes);
        }
    }

    fn transfer(&self) -> MutexGuard<'_, Option<Transfer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.observer.report(Transferred::Ended(self.size.saturating_sub(self.bytes)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_one_transfer() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let observer = Observer::new(move |change| kept.lock().expect("not poisoned").push(change));
        let transfer = Retried::default();
        for bytes in [2, 5] {
            transfer.begin(&observer, 5);
            transfer.moved(bytes);
        }
        drop(transfer);
        // A transfer without content is none.
        drop(Retried::default());
        use Transferred::{Began, Bytes, Ended, Lost};
        let seen = seen.lock().expect("not poisoned");
        assert_eq!(seen[..], [Began(5), Bytes(2), Lost(2), Bytes(5), Ended(0)]);
    }

    #[test]
    fn a_transfer_reports_its_bytes_and_its_end() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let observer = Observer::new(move |change| kept.lock().expect("not poisoned").push(change));
        let mut transfer = Transfer::begin(&observer, 5);
        transfer.moved(3);
        transfer.restart();
        transfer.moved(5);
        drop(transfer);
        Transfer::begin(&observer, 7).moved(3);
        use Transferred::{Began, Bytes, Ended, Lost};
        let seen = seen.lock().expect("not poisoned");
        assert_eq!(seen[..5], [Began(5), Bytes(3), Lost(3), Bytes(5), Ended(0)]);
        // A failed transfer does not count what it did not transfer.
        assert_eq!(seen[5..], [Began(7), Bytes(3), Ended(4)]);
    }
}
