//! Quantities of Kubernetes: `500m`, `1Gi`, `1e3`.

/// Maximum number of digits before and after the point.
const MOST_DIGITS: usize = 18;

/// A quantity in billionths, rounded up like in Kubernetes; `None` if invalid or too large.
pub(crate) fn parse(text: &str) -> Option<i128> {
    const ONE: i128 = 1_000_000_000;
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: i128 = match unit {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "" => ONE,
        "k" => ONE * 1_000,
        "M" => ONE * 1_000_000,
        "G" => ONE * 1_000_000_000,
        "T" => ONE * 1_000_000_000_000,
        "P" => ONE * 1_000_000_000_000_000,
        "E" => ONE * 1_000_000_000_000_000_000,
        "Ki" => ONE << 10,
        "Mi" => ONE << 20,
        "Gi" => ONE << 30,
        "Ti" => ONE << 40,
        "Pi" => ONE << 50,
        "Ei" => ONE << 60,
        _ => {
            let exponent: u32 = unit.strip_prefix(['e', 'E'])?.trim_start_matches('+').parse().ok()?;
            ONE.checked_mul(10_i128.checked_pow(exponent)?)?
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() > MOST_DIGITS || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let value = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i128>().ok() };
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = value(fraction)?.checked_mul(factor)?;
    let rounded = part / scale + i128::from(part % scale != 0);
    let total = value(whole)?.checked_mul(factor)?.checked_add(rounded)?;
    Some(if negative { -total } else { total })
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
    format!("{}m", (value + 999_999).div_euclid(1_000_000))
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
        for text in ["", "Gi", "1Xi", "1.2.3", "e", "1e999", "99999999999999999999999", "1 Gi"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn quantities_are_read_easily() {
        let show = |t: &str, bytes| text(parse(t).unwrap(), bytes);
        assert_eq!((show("1536Mi", true), show("2048Mi", true)), ("1536Mi".into(), "2Gi".into()));
        assert_eq!(
            (show("250m", false), show("1.5", false), show("3", false)),
            ("250m".into(), "1500m".into(), "3".into())
        );
    }
}
