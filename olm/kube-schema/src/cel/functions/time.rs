//! Timestamps and durations.

use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::super::value::{Outcome, Val, error};

/// RFC 3339.
pub(in crate::cel) fn parse_time(text: &str) -> Option<Timestamp> {
    crate::schema::matches_format("date-time", text).then(|| text.parse().ok()).flatten()
}

/// A duration in Go's syntax, such as `1h30m`.
pub(in crate::cel) fn parse_span(text: &str) -> Option<SignedDuration> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("μs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 6e10),
        ("h", 3.6e12),
    ];
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos = 0_i128;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let (unit, size) = UNITS.iter().find(|(unit, _)| {
            // `ms` must not match `m`.
            after.strip_prefix(unit).is_some_and(|left| {
                left.is_empty() || left.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            })
        })?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let fraction: f64 = format!("0.{fraction}").parse().ok()?;
        nanos =
            nanos.checked_add(whole.checked_mul(*size as i128)?)?.checked_add((fraction * size) as i128)?;
        rest = &after[unit.len()..];
    }
    let nanos = i64::try_from(nanos).ok()?;
    Some(SignedDuration::from_nanos(if negative { -nanos } else { nanos }))
}

/// `3600s`, `1.5s`.
pub(super) fn shown(span: SignedDuration) -> String {
    let (seconds, nanos) = (span.as_secs(), span.subsec_nanos().unsigned_abs());
    if nanos == 0 {
        return format!("{seconds}s");
    }
    let sign = if span.is_negative() { "-" } else { "" };
    let fraction = format!("{nanos:09}");
    format!("{sign}{}.{}s", seconds.unsigned_abs(), fraction.trim_end_matches('0'))
}

fn zone(name: &str) -> Option<TimeZone> {
    if let Some((hours, minutes)) = name.trim_start_matches(['+', '-']).split_once(':') {
        let seconds = hours.parse::<i32>().ok()?.checked_mul(3600)?;
        let seconds = seconds.checked_add(minutes.parse::<i32>().ok()?.checked_mul(60)?)?;
        let seconds = if name.starts_with('-') { -seconds } else { seconds };
        return Offset::from_seconds(seconds).ok().map(TimeZone::fixed);
    }
    match name {
        "" | "UTC" => Some(TimeZone::UTC),
        name => TimeZone::get(name).ok(),
    }
}

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    match (name, args) {
        ("timestamp", [Val::Time(_)]) | ("duration", [Val::Span(_)]) => Some(Ok(args[0].clone())),
        ("timestamp", [Val::Text(text)]) => {
            let wrong = || {
                error(format!(
                    "type conversion error from 'string' to 'google.protobuf.Timestamp': {:?}",
                    &**text
                ))
            };
            Some(parse_time(text).map(Val::Time).ok_or_else(wrong))
        }
        ("timestamp", [Val::Int(seconds)]) => {
            Some(Timestamp::from_second(*seconds).map(Val::Time).map_err(|_| error("timestamp overflow")))
        }
        ("duration", [Val::Int(nanos)]) => Some(Ok(Val::Span(SignedDuration::from_nanos(*nanos)))),
        ("duration", [Val::Text(text)]) => {
            let wrong = || {
                error(format!(
                    "type conversion error from 'string' to 'google.protobuf.Duration': {:?}",
                    &**text
                ))
            };
            Some(parse_span(text).map(Val::Span).ok_or_else(wrong))
        }
        (name, [Val::Span(span)]) => {
            let (seconds, millis) = (span.as_secs(), span.as_millis());
            Some(Ok(Val::Int(match name {
                "getHours" => seconds / 3600,
                "getMinutes" => seconds / 60,
                "getSeconds" => seconds,
                "getMilliseconds" => i64::try_from(millis).unwrap_or(i64::MAX),
                _ => return None,
            })))
        }
        (name, [Val::Time(time)]) => part(name, *time, ""),
        (name, [Val::Time(time), Val::Text(zone)]) => part(name, *time, zone),
        _ => None,
    }
}

fn part<'a>(name: &str, time: Timestamp, in_zone: &str) -> Option<Outcome<'a>> {
    if !name.starts_with("get") {
        return None;
    }
    let Some(zone) = zone(in_zone) else { return Some(Err(error(format!("unknown time zone {in_zone}")))) };
    let at = time.to_zoned(zone);
    Some(Ok(Val::Int(match name {
        "getFullYear" => i64::from(at.year()),
        "getMonth" => i64::from(at.month()) - 1,
        "getDate" => i64::from(at.day()),
        "getDayOfMonth" => i64::from(at.day()) - 1,
        "getDayOfWeek" => i64::from(at.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(at.day_of_year()) - 1,
        "getHours" => i64::from(at.hour()),
        "getMinutes" => i64::from(at.minute()),
        "getSeconds" => i64::from(at.second()),
        "getMilliseconds" => i64::from(at.millisecond()),
        _ => return None,
    })))
}
