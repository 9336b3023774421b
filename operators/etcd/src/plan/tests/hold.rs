//! Properties over random cases. What breaks one is told shrunk, in one line, before the reason: so that the end of a log has
//! it whole, however long the reason is.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

/// Every try to make a case smaller may print a panic: so many are enough, and a log still holds them.
const MOST_TRIES: u32 = 4096;
/// The long run takes so many times as many cases as the usual one.
const LONG: u32 = 20;

/// `PROPTEST_CASES`, else as many as usual, more of them in the long run.
fn cases(usual: u32) -> u32 {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let long = std::env::var_os("OLM_TEST_LONG").is_some();
    wanted.unwrap_or(if long { usual * LONG } else { usual })
}

/// Fails with the smallest case that the property does not hold for.
pub(super) fn hold<S: Strategy>(
    usual: u32,
    all: &S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = Config {
        cases: cases(usual),
        failure_persistence: None,
        max_shrink_iters: MOST_TRIES,
        ..Config::default()
    };
    match TestRunner::new(config).run(all, property) {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!("does not hold for {case:?}\nfor it {why}"),
        Err(TestError::Abort(why)) => panic!("the property could not be checked: {why}"),
    }
}

#[test]
fn a_failure_begins_with_the_smallest_case_in_one_line() {
    let told =
        std::panic::catch_unwind(|| {
            hold(1000, &(0..1000usize), |n| {
                if n < 7 { Ok(()) } else { Err(TestCaseError::fail("it is\nlarge")) }
            });
        });
    let told = *told.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(told.lines().next(), Some("does not hold for 7"), "{told}");
}
