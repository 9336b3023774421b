use proptest::prelude::*;

use super::*;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

fn contains(range: &str, text: &str) -> bool {
    Range::parse(range).unwrap_or_else(|error| panic!("{range}: {error}")).contains(&version(text))
}

#[test]
fn every_operator() {
    for (range, inside, outside) in [
        ("1.2.3", "1.2.3", "1.2.4"),
        ("=1.2.3", "1.2.3", "1.2.4"),
        ("==1.2.3", "1.2.3", "1.2.4"),
        ("!1.2.3", "1.2.4", "1.2.3"),
        ("!=1.2.3", "1.2.4", "1.2.3"),
        ("<1.2.3", "1.2.2", "1.2.3"),
        ("<=1.2.3", "1.2.3", "1.2.4"),
        (">1.2.3", "1.2.4", "1.2.3"),
        (">=1.2.3", "1.2.3", "1.2.2"),
        ("< 1.0.0 !0.0.0", "0.9.0", "0.0.0"),
        (">= 1.0.0  < 2.0.0", "1.5.0", "2.0.0"),
        (">1.0.0 <2.0.0 || >3.0.0 !4.2.1", "3.1.1", "4.2.1"),
        ("<0.0.0-1", "0.0.0-0", "0.0.0-1"),
    ] {
        assert!(contains(range, inside), "{range} should contain {inside}");
        assert!(!contains(range, outside), "{range} should not contain {outside}");
    }
}

#[test]
fn every_wildcard_expansion() {
    for (range, inside, outside) in [
        (">=1.2.x", &["1.2.0", "9.0.0"][..], &["1.1.9"][..]),
        ("<=1.2.x", &["1.2.9", "0.0.1"], &["1.3.0"]),
        (">1.2.x", &["1.3.0"], &["1.2.9"]),
        ("<1.2.x", &["1.1.9"], &["1.2.0"]),
        ("1.2.x", &["1.2.0", "1.2.9"], &["1.1.9", "1.3.0"]),
        ("=1.2.x", &["1.2.0"], &["1.3.0"]),
        (">=1.x", &["1.0.0"], &["0.9.9"]),
        ("<=1.x", &["1.9.9"], &["2.0.0"]),
        (">1.x", &["2.0.0"], &["1.9.9"]),
        ("<1.x", &["0.9.9"], &["1.0.0"]),
        ("1.x", &["1.0.0", "1.99.0"], &["2.0.0", "0.1.0"]),
        ("!=1.2.x", &[], &["1.1.0", "1.2.0", "1.3.0"]),
        ("!1.x", &[], &["0.1.0", "1.0.0", "2.0.0"]),
        ("1.x.x", &["1.0.0", "1.0.9"], &["1.1.0"]),
        ("<=1.x.x", &["1.0.9"], &["1.1.0"]),
        (">=1.2.x <1.4.0", &["1.3.9"], &["1.4.0"]),
    ] {
        for text in inside {
            assert!(contains(range, text), "{range} should contain {text}");
        }
        for text in outside {
            assert!(!contains(range, text), "{range} should not contain {text}");
        }
    }
}

#[test]
fn prereleases_are_ordinary_versions_and_builds_do_not_count() {
    assert!(contains(">=1.0.0 <2.0.0", "2.0.0-rc.1"));
    assert!(!contains(">=1.0.0", "1.0.0-rc.1"));
    assert!(contains("1.0.0", "1.0.0+7"));
    assert!(contains("1.0.0+1", "1.0.0+7"));
    assert!(!contains("!1.0.0+1", "1.0.0+7"));
}

#[test]
fn rejected_with_the_defective_part() {
    let messages: Vec<String> = [
        "",
        "   ",
        "v1.0.0",
        "<v1.2.3",
        "~1.2.3",
        "^1.0.0",
        "~1.2.x",
        "1.0",
        ">=1",
        "1.2.3 - 1.5.0",
        "||",
        "1.0.0 ||",
        "|| 1.0.0",
        ">=1.0.0||<2.0.0",
        "! 1.0.0",
        "01.0.0",
        ">=01.0.0",
        "x",
        "*",
        "1.0.0-next",
        "<=1.0.0-next",
        "1.2.3.x",
        ">=1.0.0 5",
        ">=1.0.0,<2.0.0",
        "1.0.0\t",
        "18446744073709551615.x",
    ]
    .iter()
    .map(|text| match Range::parse(text) {
        Ok(range) => panic!("{text:?} was accepted: {range:?}"),
        Err(error) => format!("{text:?}: {error}"),
    })
    .collect();
    assert!(messages.iter().all(|message| message.len() < 220));
    assert!(messages[3].contains("without \"v\""), "{}", messages[3]);
    assert!(messages[4].contains('~'), "{}", messages[4]);
}

#[test]
fn quirks_are_preserved_with_a_warning() {
    assert!(Range::parse("!=1.x").unwrap().warning().is_some());
    assert!(Range::parse("1.x.x").unwrap().warning().is_some());
    assert!(Range::parse(">=1.0.0-next").unwrap().warning().is_none());
    assert!(contains("<1.0.0-next.1", "1.0.0-next.0"));
}

#[test]
fn text_and_serde_preserve_the_source() {
    let range = Range::parse(">= 1.0.0  <2.0.0").unwrap();
    assert_eq!(range.to_string(), ">= 1.0.0  <2.0.0");
    assert_eq!(range, ">= 1.0.0  <2.0.0".parse().unwrap());
}

fn any_version() -> impl Strategy<Value = String> {
    (0u64..4, 0u64..4, 0u64..4, prop_oneof![Just(""), Just("-alpha"), Just("-rc.1"), Just("+b1")])
        .prop_map(|(a, b, c, suffix)| format!("{a}.{b}.{c}{suffix}"))
}

fn any_operator() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(""),
        Just("="),
        Just("=="),
        Just("!"),
        Just("!="),
        Just("<"),
        Just("<="),
        Just(">"),
        Just(">=")
    ]
}

fn holds(op: &str, order: Ordering) -> bool {
    match op {
        "" | "=" | "==" => order.is_eq(),
        "!" | "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    }
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "\\PC{0,40}") {
        let _ = Range::parse(&text);
    }

    #[test]
    fn range_like_text_never_panics(text in "[<>=!|x. 0-9v-]{0,40}") {
        if let Ok(range) = Range::parse(&text) {
            let _ = range.contains(&Version::new(1, 0, 0));
        }
    }

    #[test]
    fn a_range_is_an_or_of_ands(
        groups in prop::collection::vec(prop::collection::vec((any_operator(), any_version()), 1..4), 1..4),
        subject in any_version(),
    ) {
        let text = groups
            .iter()
            .map(|all| all.iter().map(|(op, v)| format!("{op}{v}")).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
            .join(" || ");
        let subject = version(&subject);
        let expected = groups
            .iter()
            .any(|all| all.iter().all(|(op, v)| holds(op, crate::precedence(&subject, &version(v)))));
        prop_assert_eq!(Range::parse(&text).unwrap().contains(&subject), expected, "{}", text);
    }

    #[test]
    fn wildcards_mean_the_documented_intervals(major in 0u64..3, minor in 0u64..3, subject in any_version()) {
        let subject = version(&subject);
        let patch = Range::parse(&format!("{major}.{minor}.x")).unwrap();
        let by_hand = Range::parse(&format!(">={major}.{minor}.0 <{major}.{}.0", minor + 1)).unwrap();
        prop_assert_eq!(patch.contains(&subject), by_hand.contains(&subject));
        let minor_wildcard = Range::parse(&format!("{major}.x")).unwrap();
        let by_hand = Range::parse(&format!(">={major}.0.0 <{}.0.0", major + 1)).unwrap();
        prop_assert_eq!(minor_wildcard.contains(&subject), by_hand.contains(&subject));
    }
}
