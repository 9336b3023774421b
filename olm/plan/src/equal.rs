//! Fast equality of values.

use serde_json::Value;

/// Equivalent to `a == b`, which looks up every key; here only keys in different order are looked up.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|((key, one), (beside, other))| {
                    if key == beside {
                        equal(one, other)
                    } else {
                        b.get(key).is_some_and(|other| equal(one, other))
                    }
                })
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(one, other)| equal(one, other))
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::digest::tests::{reversed, values};

    proptest! {
        #[test]
        fn it_matches_the_operator(a in values(), b in values()) {
            prop_assert_eq!(equal(&a, &b), a == b);
            prop_assert!(equal(&a, &reversed(&a)));
        }
    }

    #[test]
    fn what_differs_deep_down_or_in_a_key_is_seen() {
        let of = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let a = of(r#"{"a": [1, {"b": null, "c": "x"}], "d": true}"#);
        assert!(equal(&a, &of(r#"{"d": true, "a": [1, {"c": "x", "b": null}]}"#)));
        for other in [
            r#"{"a": [1, {"b": null, "c": "y"}], "d": true}"#,
            r#"{"a": [1, {"b": null, "e": "x"}], "d": true}"#,
            r#"{"a": [1, {"b": null, "c": "x"}, 2], "d": true}"#,
            r#"{"a": [1, {"b": null, "c": "x"}]}"#,
            r#"{"a": [1.0, {"b": null, "c": "x"}], "d": true}"#,
        ] {
            assert!(!equal(&a, &of(other)), "{other}");
        }
    }
}
