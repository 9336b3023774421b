//! Properties over random cases. A failing case is printed shrunk, in one line, before the cause: so that the
//! end of a log has it whole, however long the cause is.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

/// Every shrink attempt may print a panic: this bound is enough, and the log still fits.
const MOST_TRIES: u32 = 4096;
/// Factor of cases in the long run.
const LONG: u32 = 20;

/// `PROPTEST_CASES`, otherwise the usual number, more in the long run.
fn cases(usual: u32) -> u32 {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let long = std::env::var_os("OLM_TEST_LONG").is_some();
    wanted.unwrap_or(if long { usual * LONG } else { usual })
}

/// Fails with the smallest case that violates the property.
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
    let reported =
        std::panic::catch_unwind(|| {
            hold(1000, &(0..1000usize), |n| {
                if n < 7 { Ok(()) } else { Err(TestCaseError::fail("it is\nlarge")) }
            });
        });
    let reported = *reported.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(reported.lines().next(), Some("does not hold for 7"), "{reported}");
}
