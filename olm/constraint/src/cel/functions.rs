//! Functions of rules: the standard library and additions.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::common::types::{CelBool, CelDouble, CelInt, CelString, CelUInt, DYN_TYPE, STRING_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{Env, ExecutionError};
use olm_version::{Version, parse_lenient, precedence};
use regex::{Regex, RegexBuilder};

use super::meter::{self, PAY};

/// Limit of the memory of a compiled pattern; patterns of catalogs take some kilobytes.
const LARGEST_PATTERN: usize = 1 << 20;
/// Cost of the compilation of a pattern, which can take milliseconds: the budget allows a few.
const PATTERN_UNITS: u64 = 10_000;

type Args<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Outcome<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// The standard library, `semver_compare`, a bounded `matches`, and the cost counter.
pub(super) fn environment() -> Arc<Env> {
    static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
        let mut env = Env::stdlib();
        env.add_overload("semver_compare", "semver_compare", vec![DYN_TYPE, DYN_TYPE], semver_compare)
            .and_then(|()| env.add_overload(PAY, PAY, vec![DYN_TYPE, DYN_TYPE], meter::pay))
            .and_then(|()| env.add_overload("matches", "matches", vec![STRING_TYPE, STRING_TYPE], matches))
            .and_then(|()| {
                env.add_member_overload("matches", "matches_string", STRING_TYPE, vec![STRING_TYPE], matches)
            })
            .expect("the standard library is built without these functions");
        Arc::new(env)
    });
    Arc::clone(&ENVIRONMENT)
}

fn semver_compare<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    let [left, right] = two(&args, "semver_compare")?;
    let order = match precedence(&version(left)?, &version(right)?) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    };
    Ok(CowVal::owned(CelInt::from(order)))
}

/// A version from a text or a number: `semver_compare(1, '1.0.0')` is 0, because upstream prints values
/// before it parses them.
fn version(value: &dyn Val) -> Result<Version, ExecutionError> {
    let text = if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        text.inner().to_owned()
    } else if let Some(number) = value.downcast_ref::<CelInt>() {
        number.inner().to_string()
    } else if let Some(number) = value.downcast_ref::<CelUInt>() {
        number.inner().to_string()
    } else if let Some(number) = value.downcast_ref::<CelDouble>() {
        number.inner().to_string()
    } else {
        return Err(ExecutionError::function_error("semver_compare", "it compares texts"));
    };
    parse_lenient(&text).map_err(|error| ExecutionError::function_error("semver_compare", error))
}

/// As in the standard library, with limits: each pattern is compiled once per evaluation.
fn matches<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    thread_local! {
        static PATTERNS: RefCell<HashMap<(u64, String), Regex>> = RefCell::default();
    }
    let [text, pattern] = two(&args, "matches")?;
    let (Some(text), Some(pattern)) =
        (text.downcast_ref::<CelString<'_>>(), pattern.downcast_ref::<CelString<'_>>())
    else {
        return Err(ExecutionError::function_error("matches", "it matches texts"));
    };
    let key = (meter::run(), pattern.inner().to_owned());
    PATTERNS.with_borrow_mut(|patterns| {
        patterns.retain(|(run, _), _| *run == key.0);
        if !patterns.contains_key(&key) {
            meter::spend(PATTERN_UNITS)?;
            let regex = RegexBuilder::new(&key.1).size_limit(LARGEST_PATTERN).build();
            let regex = regex.map_err(|error| ExecutionError::function_error("matches", error))?;
            patterns.insert(key.clone(), regex);
        }
        Ok(CowVal::owned(CelBool::from(patterns[&key].is_match(text.inner()))))
    })
}

fn two<'a, 'b, 'v>(args: &'a Args<'b, 'v>, name: &str) -> Result<[&'a (dyn Val + 'v); 2], ExecutionError> {
    match args.as_slice() {
        [left, right] => Ok([left.as_ref(), right.as_ref()]),
        other => Err(ExecutionError::function_error(name, format!("{} arguments are not two", other.len()))),
    }
}
