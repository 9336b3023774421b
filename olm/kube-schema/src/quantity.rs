//! Kubernetes quantities: `100m`, `1.5Gi`, `2e3`.

use std::cmp::Ordering;
use std::fmt;

const NANO: i128 = 1_000_000_000;

/// An exact amount, in billionths. Smaller parts are rounded up, as in Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quantity {
    nanos: i128,
    binary: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidQuantity;

impl fmt::Display for InvalidQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )
    }
}

impl std::str::FromStr for Quantity {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(InvalidQuantity);
        }
        let (base, power, binary): (i128, i32, bool) = match suffix {
            "" => (10, 0, false),
            "n" => (10, -9, false),
            "u" => (10, -6, false),
            "m" => (10, -3, false),
            "k" => (10, 3, false),
            "M" => (10, 6, false),
            "G" => (10, 9, false),
            "T" => (10, 12, false),
            "P" => (10, 15, false),
            "E" => (10, 18, false),
            "Ki" => (1024, 1, true),
            "Mi" => (1024, 2, true),
            "Gi" => (1024, 3, true),
            "Ti" => (1024, 4, true),
            "Pi" => (1024, 5, true),
            "Ei" => (1024, 6, true),
            _ => {
                let power = suffix.strip_prefix(['e', 'E']).ok_or(InvalidQuantity)?;
                (10, power.parse().map_err(|_| InvalidQuantity)?, false)
            }
        };
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(Self { nanos: 0, binary });
        }
        let mantissa: i128 = digits.parse().map_err(|_| InvalidQuantity)?;
        let places = i32::try_from(fraction.len()).map_err(|_| InvalidQuantity)?;
        // The value is mantissa * base^power / 10^places, wanted in billionths.
        let (factor, shift) = if binary {
            (1024_i128.pow(power.unsigned_abs()), 9 - places)
        } else {
            (1, power.checked_add(9 - places).ok_or(InvalidQuantity)?)
        };
        debug_assert!(base == 10 || binary, "only binary suffixes have another base");
        let scaled = mantissa.checked_mul(factor).ok_or(InvalidQuantity)?;
        let nanos = if shift >= 0 {
            let by = 10_i128.checked_pow(shift.unsigned_abs()).ok_or(InvalidQuantity)?;
            scaled.checked_mul(by).ok_or(InvalidQuantity)?
        } else {
            match 10_i128.checked_pow(shift.unsigned_abs()) {
                Some(by) => scaled / by + i128::from(scaled % by != 0),
                None => 1,
            }
        };
        Ok(Self { nanos: if negative { -nanos } else { nanos }, binary })
    }
}

impl Quantity {
    #[must_use]
    pub fn from_int(units: i64) -> Self {
        Self { nanos: i128::from(units) * NANO, binary: false }
    }

    /// The amount in billionths of a unit.
    #[must_use]
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn sign(self) -> i64 {
        match self.nanos.cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// The sum; `None` on overflow.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let nanos = self.nanos.checked_add(other.nanos)?;
        Some(Self { nanos, binary: if self.nanos == 0 { other.binary } else { self.binary } })
    }

    /// The difference; `None` on overflow.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        let nanos = self.nanos.checked_sub(other.nanos)?;
        Some(Self { nanos, binary: self.binary })
    }

    /// The amount as a whole number of units; `None` for fractions and on overflow.
    #[must_use]
    pub fn as_int(self) -> Option<i64> {
        (self.nanos % NANO == 0).then(|| i64::try_from(self.nanos / NANO).ok()).flatten()
    }

    /// The amount, rounded.
    #[must_use]
    pub fn as_float(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// Order by amount; the notation does not count.
    #[must_use]
    pub fn compare(self, other: Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    /// Canonical form of Kubernetes: the largest suffix that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        if self.binary && self.nanos % NANO == 0 && (self.nanos / NANO).abs() >= 1024 {
            let (mut units, mut at) = (self.nanos / NANO, 0);
            while units % 1024 == 0 && at + 1 < BINARY.len() {
                units /= 1024;
                at += 1;
            }
            return write!(f, "{units}{}", BINARY[at]);
        }
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let (mut amount, mut at) = (self.nanos, 0);
        while amount % 1000 == 0 && at + 1 < DECIMAL.len() {
            amount /= 1000;
            at += 1;
        }
        write!(f, "{amount}{}", DECIMAL[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|_| panic!("{text} is a quantity"))
    }

    #[test]
    fn amounts_are_read_and_written_as_in_kubernetes() {
        for (text, shown) in [
            ("0", "0"),
            ("100m", "100m"),
            ("0.1", "100m"),
            ("1000m", "1"),
            ("1.5Gi", "1536Mi"),
            ("1024Ki", "1Mi"),
            ("2e3", "2k"),
            ("1E", "1E"),
            ("-3", "-3"),
            ("0.5Ki", "512"),
            (".5", "500m"),
            ("1.", "1"),
            ("1n", "1n"),
            ("0.0000000001", "1n"),
            ("1e-20", "1n"),
        ] {
            assert_eq!(quantity(text).to_string(), shown, "{text}");
        }
        for text in ["", "m", "1x", "1..2", "1.2.3", "one", "1 Gi", "1e99", "--1", "1e99999999999", "1KiB"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_are_compared_and_added() {
        assert_eq!(quantity("1Ki").compare(quantity("1.024k")), Ordering::Equal);
        assert_eq!(quantity("1Gi").compare(quantity("1G")), Ordering::Greater);
        assert_eq!(
            quantity("1").checked_add(quantity("500m")).map(|q| q.to_string()).as_deref(),
            Some("1500m")
        );
        assert_eq!(quantity("1500m").as_int(), None);
        assert_eq!(quantity("2k").as_int(), Some(2000));
    }
}
