//! Query parameters of a request.

use crate::names::quoted;

/// The values of the known parameters, in their order. As in catalogd, the first of several values counts,
/// and an empty value counts as missing. The error is the message for the client.
pub(super) fn read<const N: usize>(
    query: Option<&str>,
    known: [&str; N],
) -> Result<[Option<String>; N], String> {
    let mut values = [const { None }; N];
    for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match known.iter().position(|name| *name == key) {
            Some(position) => _ = values[position].get_or_insert_with(|| value.into_owned()),
            None => {
                return Err(format!(
                    "400 Bad Request: unknown parameter {}, expected one of: {}",
                    quoted(&key),
                    known.join(", ")
                ));
            }
        }
    }
    Ok(values.map(|value| value.filter(|value| !value.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(query: &str) -> Option<Vec<Option<String>>> {
        read(Some(query), ["a", "b"]).ok().map(|values| values.to_vec())
    }

    #[test]
    fn known_ones_are_read_and_unknown_ones_refused() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(values(""), Some(vec![None, None]));
        assert_eq!(values("b=1&a=x%20y%26"), Some(vec![some("x y&"), some("1")]));
        assert_eq!(values("a=1&&a=2"), Some(vec![some("1"), None]));
        assert_eq!(values("a=&b"), Some(vec![None, None]));
        assert_eq!(values("a=%ff"), Some(vec![some("\u{fffd}"), None]));
        for unknown in ["c=1", "a=1&c", "A=1", "=1", "a%00=1"] {
            assert_eq!(values(unknown), None, "{unknown}");
        }
    }
}
