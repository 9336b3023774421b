//! Progress bars on standard error, for pulls, pushes, builds and mirrors. They are drawn only on a terminal;
//! otherwise long work prints a line every few seconds.

use std::{
    io::IsTerminal as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};
use olm_catalog_sources::{Observer, Transferred};

/// Interval of progress lines, and delay of the first one: short work prints none.
const INTERVAL: Duration = Duration::from_secs(5);

/// Without colours: bars are the same with and without `NO_COLOR`.
const ITEMS: &str = "[{bar:30}] {pos}/{len} {msg}";
const BYTES: &str = "[{bar:30}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {msg}";

/// The drawn bar, for [`clear`].
static DRAWN: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// Whether standard error is a terminal that can move its cursor.
pub fn on_terminal() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Removes a bar of interrupted work, so that an error starts on its own line.
pub fn clear() {
    let drawn = locked(&DRAWN).take();
    if let Some(bar) = drawn.and_then(|bar| bar.upgrade()) {
        bar.finish_and_clear();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bar, removed on drop.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar that counts items; `None` where bars are not drawn.
    pub fn of_items() -> Option<Self> {
        on_terminal().then(|| Self::draw(ITEMS))
    }

    fn draw(template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        *locked(&DRAWN) = Some(bar.downgrade());
        Self(bar)
    }

    pub fn show(&self, position: u64, length: u64, message: String) {
        self.0.set_length(length);
        self.0.set_message(message);
        self.0.set_position(position);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Prints a line to standard error, above the bar.
pub fn print_above(bar: Option<&Bar>, text: &str) {
    match bar {
        Some(bar) => bar.0.suspend(|| eprintln!("{text}")),
        None => eprintln!("{text}"),
    }
}

/// When the next progress line is due.
pub struct Lines {
    start: Instant,
    last: Instant,
}

impl Lines {
    pub fn since(start: Instant) -> Self {
        Self { start, last: start }
    }

    /// Seconds since the start, if a line is due.
    pub fn due(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.last) < INTERVAL {
            return None;
        }
        self.last = now;
        Some(now.saturating_duration_since(self.start).as_secs())
    }
}

/// Progress of the downloads and uploads of a command: one bar over all of them.
pub struct Transfers {
    draws: bool,
    state: Mutex<State>,
}

struct State {
    /// Number of running transfers.
    running: usize,
    /// Bytes of all transfers so far.
    expected: u64,
    moved: u64,
    lines: Lines,
    bar: Option<Bar>,
    message: String,
}

impl Transfers {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::drawn(on_terminal()))
    }

    fn drawn(draws: bool) -> Self {
        let state = State {
            running: 0,
            expected: 0,
            moved: 0,
            lines: Lines::since(Instant::now()),
            bar: None,
            message: String::new(),
        };
        Self { draws, state: Mutex::new(state) }
    }

    pub fn observer(self: &Arc<Self>) -> Observer {
        let transfers = Arc::clone(self);
        Observer::new(move |change| {
            if let Some(line) = transfers.change(change, Instant::now()) {
                eprintln!("{line}");
            }
        })
    }

    /// Text behind the bar.
    pub fn describe(&self, message: String) {
        let mut state = locked(&self.state);
        state.message = message;
        state.draw();
    }

    /// Prints a line to standard error, above the bar.
    pub fn print(&self, text: &str) {
        print_above(locked(&self.state).bar.as_ref(), text);
    }

    /// Updates the bar; a line to print where none is drawn.
    fn change(&self, change: Transferred, now: Instant) -> Option<String> {
        let mut state = locked(&self.state);
        match change {
            Transferred::Began(bytes) => {
                state.running += 1;
                state.expected += bytes;
            }
            Transferred::Bytes(bytes) => state.moved += bytes,
            Transferred::Lost(bytes) => state.moved = state.moved.saturating_sub(bytes),
            Transferred::Ended(missing) => {
                state.running = state.running.saturating_sub(1);
                state.expected = state.expected.saturating_sub(missing);
            }
        }
        if self.draws {
            match state.running {
                0 => state.bar = None,
                _ if state.bar.is_none() => state.bar = Some(Bar::draw(BYTES)),
                _ => {}
            }
            state.draw();
            return None;
        }
        let seconds = state.lines.due(now)?;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let (moved, all) = (megabytes(state.moved), megabytes(state.expected.max(state.moved)));
        Some(format!("… {moved:.1} of {all:.1} MB transferred ({seconds}s)"))
    }
}

impl State {
    fn draw(&self) {
        if let Some(bar) = &self.bar {
            // The size of some transfers is known only at their end.
            bar.show(self.moved, self.expected.max(self.moved), self.message.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_transfers_print_a_line_every_few_seconds_without_a_terminal() {
        let transfers = Transfers::drawn(false);
        let start = locked(&transfers.state).lines.start;
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(transfers.change(Transferred::Began(20_000_000), at(0)), None);
        assert_eq!(transfers.change(Transferred::Bytes(5_000_000), at(4)), None);
        let line = transfers.change(Transferred::Bytes(5_000_000), at(6));
        assert_eq!(line.as_deref(), Some("… 10.0 of 20.0 MB transferred (6s)"));
        assert_eq!(transfers.change(Transferred::Lost(10_000_000), at(7)), None);
        // a size that the server did not report is at least what was received
        assert_eq!(transfers.change(Transferred::Bytes(30_000_000), at(8)), None);
        let line = transfers.change(Transferred::Ended(0), at(12));
        assert_eq!(line.as_deref(), Some("… 30.0 of 30.0 MB transferred (12s)"));
        // a failed transfer counts with what it moved
        assert_eq!(transfers.change(Transferred::Began(20_000_000), at(13)), None);
        let line = transfers.change(Transferred::Ended(20_000_000), at(18));
        assert_eq!(line.as_deref(), Some("… 30.0 of 30.0 MB transferred (18s)"));
    }
}
