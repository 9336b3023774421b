//! Access to the fields of every object.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use serde_json::{Map, Value, json};

/// A text inside an object, `/metadata/name`; empty when absent.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(crate) fn resource_version(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    list(object, "/metadata/finalizers").iter().filter_map(Value::as_str).collect()
}

/// The object below a key, created if absent. A value of another type is replaced.
pub(crate) fn child<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    let value = as_map(object).entry(key.to_owned()).or_insert_with(|| json!({}));
    as_map(value)
}

/// The value as a map; a value of another type is replaced by an empty one.
pub(crate) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("made an object in the line above")
}

pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    child(object, "metadata")
}

/// Sets the value or, with `None`, removes it.
pub(crate) fn set_or_remove(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(key.to_owned(), value),
        None => map.shift_remove(key),
    };
}

/// Sets `key` in an object unless it is set.
pub(crate) fn default(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(map) = object.as_object_mut()
        && map.get(key).is_none_or(Value::is_null)
    {
        map.insert(key.to_owned(), value.into());
    }
}

/// Each item of a list below `key`.
pub(crate) fn items_mut<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The current time in the format of `metav1.Time`.
pub(crate) fn now() -> String {
    format_time(Timestamp::now())
}

pub(crate) fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The current time plus some seconds.
pub(crate) fn now_plus(seconds: i64) -> String {
    let later = Timestamp::now().checked_add(SignedDuration::from_secs(seconds));
    format_time(later.unwrap_or(Timestamp::MAX))
}

pub(crate) fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Age in kubectl's format: `5s`, `3m12s`, `5h`, `2d3h`.
pub(crate) fn age(time: &str) -> String {
    if time.is_empty() {
        return "<unknown>".to_owned();
    }
    match parse_time(time) {
        Some(time) => human_duration(Timestamp::now().duration_since(time).as_secs()),
        None => "<invalid>".to_owned(),
    }
}

/// As `k8s.io/apimachinery/pkg/util/duration.HumanDuration`.
pub(crate) fn human_duration(seconds: i64) -> String {
    let two = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        1..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// Seconds since 1970.
pub(crate) fn now_unix() -> i64 {
    Timestamp::now().to_zoned(TimeZone::UTC).timestamp().as_second()
}

const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Random suffix of a generated name.
pub(crate) fn random_suffix(length: usize) -> String {
    (0..length).map(|_| char::from(SUFFIX_LETTERS[rand::random_range(0..SUFFIX_LETTERS.len())])).collect()
}

/// A random (version 4) UUID.
pub(crate) fn new_uid() -> String {
    let mut b: [u8; 16] = rand::random();
    b[6] = (b[6] & 0x0f) | 0x40;
    b[8] = (b[8] & 0x3f) | 0x80;
    let hex: String = b.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_in_kubectl() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (700, "11m"),
            (10_860, "3h1m"),
            (100_000, "27h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (63_158_400, "2y1d"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(seconds), text);
        }
    }

    #[test]
    fn writing_below_another_type_replaces_it() {
        let mut object = json!({"metadata": "x"});
        metadata(&mut object).insert("name".into(), "n".into());
        assert_eq!(object, json!({"metadata": {"name": "n"}}));
    }
}
