//! Seeded random numbers, and loops over seeds that report how to repeat one.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Pseudo-random numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// True with this percentage.
    pub fn percent(&mut self, n: usize) -> bool {
        self.below(100) < n
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}

/// Factor of the runs of `make test-long`.
const LONG: u64 = 100;

/// Runs a test for many seeds. `OLM_SEED` runs it for one, `OLM_TEST_LONG` for many more; a failure names its
/// seed.
pub fn seeds(what: &str, count: u64, test: impl Fn(u64)) {
    let env = |name: &str| std::env::var(name).ok();
    let (first, count) = match env("OLM_SEED").and_then(|text| text.parse::<u64>().ok()) {
        Some(seed) => (seed, 1),
        None if env("OLM_TEST_LONG").is_some_and(|v| v == "1") => (0, count * LONG),
        None => (0, count),
    };
    println!("{what}: seeds {first} to {}", first + count - 1);
    for seed in first..first + count {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            println!("{what}: seed {seed} fails; repeat with OLM_SEED={seed}");
            resume_unwind(panic);
        }
    }
}
