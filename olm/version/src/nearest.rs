//! Suggests a range for an invalid text.

use crate::Range;

/// The nearest text that [`Range::parse`] accepts, for one that it refuses: `0.8` is `0.8.x`, `>=0.8 <0.10`
/// is `>=0.8.0 <0.10.0`, `~1.2.3` is `>=1.2.3 <1.3.0`. `None` where the text is a range already, or has no
/// version in it.
///
/// ```
/// assert_eq!(olm_version::nearest_range("0.8").as_deref(), Some("0.8.x"));
/// assert_eq!(olm_version::nearest_range("newest"), None);
/// ```
#[must_use]
pub fn nearest_range(text: &str) -> Option<String> {
    if Range::parse(text).is_ok() {
        return None;
    }
    // Blanks between an operator and its version are valid.
    let mut text = text.replace(',', " ");
    for operator in ["<", ">", "=", "~", "^", "!"] {
        while text.contains(&format!("{operator} ")) {
            text = text.replace(&format!("{operator} "), operator);
        }
    }
    let groups: Option<Vec<String>> = text.split("||").map(nearest_group).collect();
    let nearest = groups?.join(" || ");
    Range::parse(&nearest).is_ok().then_some(nearest)
}

fn nearest_group(text: &str) -> Option<String> {
    let comparators: Option<Vec<String>> = text.split_whitespace().map(nearest_comparator).collect();
    comparators.map(|list| list.join(" ")).filter(|text| !text.is_empty())
}

fn nearest_comparator(text: &str) -> Option<String> {
    let digit = text.find(|c: char| c.is_ascii_digit())?;
    let (operator, version) = text.split_at(digit);
    let operator = operator.strip_suffix('v').unwrap_or(operator);
    let core_end = version.find(['-', '+']).unwrap_or(version.len());
    let (core, suffix) = version.split_at(core_end);
    let mut numbers = Vec::new();
    let mut parts = core.split('.').peekable();
    while let Some(part) = parts.next_if(|part| !matches!(*part, "x" | "X" | "*")) {
        numbers.push(part.parse::<u64>().ok()?);
    }
    let wildcard = parts.peek().is_some() || (numbers.len() < 3 && suffix.is_empty());
    if numbers.is_empty() || numbers.len() > 3 || !parts.all(|part| matches!(part, "x" | "X" | "*")) {
        return None;
    }
    let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
    let full = format!("{}.{}.{}{suffix}", number(0), number(1), number(2));
    Some(match operator {
        "" | "=" | "==" if wildcard => match numbers.as_slice() {
            [major] => format!("{major}.x"),
            [major, minor, ..] => format!("{major}.{minor}.x"),
            [] => return None,
        },
        "~" | "~>" if numbers.len() > 1 => format!(">={full} <{}.{}.0", number(0), number(1).checked_add(1)?),
        "~" | "~>" | "^" if number(0) > 0 => format!(">={full} <{}.0.0", number(0).checked_add(1)?),
        // Below 1.0.0 a minor version is a breaking change.
        "^" => format!(">={full} <0.{}.0", number(1).checked_add(1)?),
        "" | "=" | "==" | "!" | "!=" | "<" | "<=" | ">" | ">=" => format!("{operator}{full}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn informal_notations_become_ranges() {
        for (text, expected) in [
            ("0.8", "0.8.x"),
            ("1", "1.x"),
            ("v0.8", "0.8.x"),
            (">=0.8 <0.10", ">=0.8.0 <0.10.0"),
            (">=0.8, <0.10", ">=0.8.0 <0.10.0"),
            (">= 0.8 || 2", ">=0.8.0 || 2.x"),
            ("~1.2.3", ">=1.2.3 <1.3.0"),
            ("~1.2", ">=1.2.0 <1.3.0"),
            ("^1.2.3", ">=1.2.3 <2.0.0"),
            ("^0.8", ">=0.8.0 <0.9.0"),
            ("<v1.2.0", "<1.2.0"),
            ("1.2.*", "1.2.x"),
            ("1.X", "1.x"),
            (">=1.2-rc.1", ">=1.2.0-rc.1"),
        ] {
            assert_eq!(nearest_range(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn valid_ranges_and_unrelated_texts_get_no_suggestion() {
        for text in
            ["1.2.3", ">=1.2.3", "1.2.x", "", "newest", "1.2.3.4", "=>1.2", "1..2", "x.1", "latest 1.0", "||"]
        {
            assert_eq!(nearest_range(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_suggestion_is_a_range(text in "[0-9.<>=!~^|x v-]{0,16}") {
            if let Some(nearest) = nearest_range(&text) {
                prop_assert!(Range::parse(&nearest).is_ok());
            }
        }
    }
}
