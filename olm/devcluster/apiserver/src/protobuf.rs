//! Decodes request bodies in the Kubernetes protobuf format.
//!
//! kubectl 1.32 and newer sends it for the kinds that it has Go types for (`kubectl create configmap`,
//! `kubectl auth can-i`) and does not fall back to JSON. Responses are always JSON. The field numbers are in
//! `protobuf.txt`; an unknown field is refused, never dropped.

use std::{collections::HashMap, sync::LazyLock};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{
    meta,
    status::{ApiError, ApiResult},
};

const MAGIC: &[u8] = b"k8s\0";
/// Deeper than any message of the table.
const MAX_DEPTH: usize = 16;

type Message = HashMap<u64, (&'static str, &'static str)>;

static TABLE: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    let lines = include_str!("protobuf.txt").lines().filter(|l| !l.starts_with('#') && !l.is_empty());
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            let fields = words.filter_map(|word| {
                let (field, rest) = word.split_once('=')?;
                let (number, kind) = rest.split_once(':')?;
                Some((number.parse().ok()?, (field, kind)))
            });
            (name, fields.collect())
        })
        .collect()
});

/// A value on the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, one by one.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(head)
    }

    /// `Ok(None)` at the end.
    fn next(&mut self) -> ApiResult<Option<(u64, Wire<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let field = || -> Option<(u64, Wire<'a>)> {
            let tag = self.varint()?;
            let wire = match tag & 7 {
                0 => Wire::Number(self.varint()?),
                1 => Wire::Bytes(self.take(8)?),
                2 => {
                    let count = self.varint()?;
                    Wire::Bytes(self.take(count)?)
                }
                5 => Wire::Bytes(self.take(4)?),
                _ => return None,
            };
            Some((tag >> 3, wire))
        };
        let mut field = field;
        field().map(Some).ok_or_else(malformed)
    }
}

fn malformed() -> ApiError {
    ApiError::bad_request("failed to decode the request body: not a valid Kubernetes protobuf message")
}

fn unsupported(what: &str) -> ApiError {
    ApiError::unsupported_media_type(format!(
        "the dev cluster does not support {what} as protobuf: send application/json (kubectl: use `kubectl \
         apply -f` with a file)"
    ))
}

pub(crate) fn decode(body: &[u8]) -> ApiResult<Value> {
    let mut unknown = Fields(body.strip_prefix(MAGIC).ok_or_else(malformed)?);
    let (mut api_version, mut kind, mut raw): (String, String, &[u8]) = (String::new(), String::new(), &[]);
    while let Some((number, wire)) = unknown.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => {
                let mut fields = Fields(bytes);
                while let Some((number, wire)) = fields.next()? {
                    match (number, wire) {
                        (1, Wire::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, Wire::Bytes(bytes)) => kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    // Delete options have the version of the group that they are sent to.
    let name = if kind == "DeleteOptions" { kind.clone() } else { format!("{api_version}/{kind}") };
    let mut object = message(&name, raw, 0)?;
    object.shift_insert(0, "kind".to_owned(), kind.into());
    object.shift_insert(0, "apiVersion".to_owned(), api_version.into());
    Ok(object.into())
}

fn text(bytes: &[u8]) -> ApiResult<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| malformed())
}

fn message(name: &str, bytes: &[u8], depth: usize) -> ApiResult<Map<String, Value>> {
    let table = TABLE.get(name).filter(|_| depth < MAX_DEPTH).ok_or_else(|| unsupported(name))?;
    let mut object = Map::new();
    let mut fields = Fields(bytes);
    while let Some((number, wire)) = fields.next()? {
        let Some((field, kind)) = table.get(&number) else {
            return Err(unsupported(&format!("field {number} of {name}")));
        };
        if let Some(item) = kind.strip_prefix('*') {
            let value = match (item, wire) {
                ("s", Wire::Bytes(bytes)) => text(bytes)?.into(),
                (item, Wire::Bytes(bytes)) => message(item, bytes, depth + 1)?.into(),
                _ => return Err(malformed()),
            };
            let list = object.entry(*field).or_insert_with(|| json!([]));
            list.as_array_mut().ok_or_else(malformed)?.push(value);
        } else if matches!(*kind, "m" | "my" | "mq") {
            let Wire::Bytes(bytes) = wire else { return Err(malformed()) };
            let (key, value) = entry(kind, bytes)?;
            meta::as_map(object.entry(*field).or_insert_with(|| json!({}))).insert(key, value);
        } else if let Some(value) = scalar(kind, wire, depth)? {
            object.insert((*field).to_owned(), value);
        }
    }
    Ok(object)
}

/// A map entry.
fn entry(kind: &str, bytes: &[u8]) -> ApiResult<(String, Value)> {
    let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
    let mut fields = Fields(bytes);
    while let Some((number, wire)) = fields.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => key = bytes,
            (2, Wire::Bytes(bytes)) => value = bytes,
            _ => return Err(malformed()),
        }
    }
    let value = match kind {
        "my" => STANDARD.encode(value).into(),
        "mq" => first_text(value)?.into(),
        _ => text(value)?.into(),
    };
    Ok((text(key)?, value))
}

/// The text of a message whose first field is a string.
fn first_text(bytes: &[u8]) -> ApiResult<String> {
    let mut fields = Fields(bytes);
    while let Some((number, wire)) = fields.next()? {
        if let (1, Wire::Bytes(bytes)) = (number, wire) {
            return text(bytes);
        }
    }
    Ok(String::new())
}

/// `None` for values that Go omits from JSON as empty.
fn scalar(kind: &str, wire: Wire<'_>, depth: usize) -> ApiResult<Option<Value>> {
    Ok(match (kind, wire) {
        ("-", _) => None,
        ("s", Wire::Bytes(bytes)) => Some(text(bytes)?).filter(|t| !t.is_empty()).map(Value::from),
        ("y", Wire::Bytes(bytes)) => Some(STANDARD.encode(bytes).into()),
        // Negative numbers are sign-extended to 64 bits.
        ("i", Wire::Number(number)) => (number != 0).then(|| number.cast_signed().into()),
        ("I", Wire::Number(number)) => Some(number.cast_signed().into()),
        ("b", Wire::Number(number)) => (number != 0).then_some(Value::Bool(true)),
        ("B", Wire::Number(number)) => Some(Value::Bool(number != 0)),
        ("q", Wire::Bytes(bytes)) => Some(first_text(bytes)?.into()),
        ("x", Wire::Bytes(bytes)) => int_or_string(bytes)?,
        ("t" | "u", Wire::Bytes(bytes)) => time(bytes, kind == "u")?,
        (name, Wire::Bytes(bytes)) if name.len() > 2 => {
            // An empty selector differs from an absent one.
            let value = message(name, bytes, depth + 1)?;
            (!value.is_empty() || name == "LabelSelector").then(|| value.into())
        }
        _ => return Err(malformed()),
    })
}

fn int_or_string(bytes: &[u8]) -> ApiResult<Option<Value>> {
    let (mut is_text, mut number, mut string) = (false, 0, String::new());
    let mut fields = Fields(bytes);
    while let Some((field, wire)) = fields.next()? {
        match (field, wire) {
            (1, Wire::Number(kind)) => is_text = kind == 1,
            (2, Wire::Number(value)) => number = value.cast_signed(),
            (3, Wire::Bytes(bytes)) => string = text(bytes)?,
            _ => return Err(malformed()),
        }
    }
    Ok(if is_text { Some(string.into()) } else { Some(number.into()) })
}

fn time(bytes: &[u8], micro: bool) -> ApiResult<Option<Value>> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut fields = Fields(bytes);
    while let Some((field, wire)) = fields.next()? {
        match (field, wire) {
            (1, Wire::Number(value)) => seconds = value.cast_signed(),
            (2, Wire::Number(value)) => nanos = i32::try_from(value).map_err(|_| malformed())?,
            _ => return Err(malformed()),
        }
    }
    if seconds == 0 && nanos == 0 {
        return Ok(None);
    }
    let time = jiff::Timestamp::new(seconds, nanos).map_err(|_| malformed())?;
    Ok(Some(
        if micro { time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string() } else { meta::format_time(time) }
            .into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).expect("short")];
        out.extend_from_slice(bytes);
        out
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &types), field(2, raw)].concat()
    }

    #[test]
    fn a_config_map() {
        let metadata = [field(1, b"a"), field(3, b""), field(8, b"")].concat();
        let entry = [field(1, b"k"), field(2, b"v")].concat();
        let raw = [field(1, &metadata), field(2, &entry)].concat();
        let object = decode(&body("v1", "ConfigMap", &raw)).expect("decoded");
        assert_eq!(
            object,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}})
        );
    }

    #[test]
    fn unknown_fields_and_kinds_are_refused() {
        assert_eq!(decode(&body("v1", "Pod", &[])).unwrap_err().code(), 415);
        assert_eq!(decode(&body("v1", "ConfigMap", &field(9, b"x"))).unwrap_err().code(), 415);
        for bad in
            [&b"k8s"[..], b"{}", b"k8s\0\xff", b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"]
        {
            assert!(decode(bad).is_err());
        }
    }

    #[test]
    fn every_message_that_is_named_exists() {
        for (name, fields) in TABLE.iter() {
            for (field, kind) in fields.values() {
                let kind = kind.trim_start_matches('*');
                assert!(kind.len() <= 2 || TABLE.contains_key(kind), "{name}.{field}: {kind}");
            }
        }
    }
}
