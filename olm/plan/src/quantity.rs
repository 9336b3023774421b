//! Quantities of Kubernetes: `500m`, `1Gi`, `1e3`.

use olm_kube_schema::quantity::Quantity;

/// A quantity in billionths; `None` if invalid or too large.
pub(crate) fn parse(text: &str) -> Option<i128> {
    text.parse().ok().map(Quantity::nanos)
}

/// A whole number as a quantity.
pub(crate) fn whole(number: u64) -> i128 {
    i128::from(number) * 1_000_000_000
}

/// A quantity in the shortest usual notation: bytes in powers of two, everything else in thousandths or whole
/// numbers.
pub(crate) fn text(value: i128, bytes: bool) -> String {
    const ONE: i128 = 1_000_000_000;
    if bytes {
        for (unit, shift) in [("Gi", 30), ("Mi", 20), ("Ki", 10)] {
            if value != 0 && value % (ONE << shift) == 0 {
                return format!("{}{unit}", value / (ONE << shift));
            }
        }
    }
    if value % ONE == 0 {
        return (value / ONE).to_string();
    }
    format!("{}m", value.saturating_add(999_999).div_euclid(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_quantity_are_equal() {
        for (a, b) in [
            ("1", "1000m"),
            ("1Gi", "1024Mi"),
            ("0.5", "500m"),
            ("1e3", "1k"),
            ("2E", "2000P"),
            (".5", "0.5"),
        ] {
            assert!(parse(a).is_some() && parse(a) == parse(b), "{a} {b}");
        }
        assert_eq!(parse("-1"), parse("1").map(|v| -v));
    }

    #[test]
    fn nonsense_is_no_quantity() {
        for text in ["", "Gi", "1Xi", "1.2.3", "e", "1e999", "1 Gi"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&"9".repeat(40)), None, "too large");
    }

    #[test]
    fn quantities_are_read_easily() {
        let show = |t: &str, bytes| text(parse(t).unwrap(), bytes);
        assert_eq!((show("1536Mi", true), show("2048Mi", true)), ("1536Mi".into(), "2Gi".into()));
        assert_eq!(
            (show("250m", false), show("1.5", false), show("3", false)),
            ("250m".into(), "1500m".into(), "3".into())
        );
        // A sum of requests is saturated.
        assert!(text(i128::MAX, false).ends_with('m'));
    }
}
