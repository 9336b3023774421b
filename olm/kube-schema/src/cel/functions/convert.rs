//! Type conversions.

use super::super::value::{Outcome, Val, error};
use super::time;

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    let [value] = args else { return None };
    match name {
        "dyn" => Some(Ok(value.clone())),
        "type" => Some(Ok(Val::Kind(value.kind()))),
        "bool" => boolean(value),
        "int" => integer(value),
        "uint" => unsigned(value),
        "double" => double(value),
        "string" => string(value),
        "bytes" => match value {
            Val::Bytes(_) => Some(Ok(value.clone())),
            Val::Text(text) => Some(Ok(Val::Bytes(text.as_bytes().into()))),
            _ => None,
        },
        _ => None,
    }
}

fn unparsed<'a>(text: &str, wanted: &str) -> Outcome<'a> {
    Err(error(format!("type conversion error from 'string' to '{wanted}': invalid syntax: {text:?}")))
}

fn boolean<'a>(value: &Val<'a>) -> Option<Outcome<'a>> {
    Some(match value {
        Val::Bool(_) => Ok(value.clone()),
        Val::Text(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true.into()),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false.into()),
            text => unparsed(text, "bool"),
        },
        _ => return None,
    })
}

fn integer<'a>(value: &Val<'a>) -> Option<Outcome<'a>> {
    let overflow = || error("integer overflow");
    Some(match value {
        Val::Int(_) => Ok(value.clone()),
        Val::Uint(value) => i64::try_from(*value).map(Val::Int).map_err(|_| overflow()),
        Val::Double(value) if value.abs() < 9.2e18 => Ok(Val::Int(*value as i64)),
        Val::Double(_) => Err(overflow()),
        Val::Text(text) => text.parse().map(Val::Int).or_else(|_| unparsed(text, "int")),
        Val::Time(time) => Ok(Val::Int(time.as_second())),
        Val::Span(span) => i64::try_from(span.as_nanos()).map(Val::Int).map_err(|_| overflow()),
        _ => return None,
    })
}

fn unsigned<'a>(value: &Val<'a>) -> Option<Outcome<'a>> {
    let overflow = || error("unsigned integer overflow");
    Some(match value {
        Val::Uint(_) => Ok(value.clone()),
        Val::Int(value) => u64::try_from(*value).map(Val::Uint).map_err(|_| overflow()),
        Val::Double(value) if (0.0..1.8e19).contains(value) => Ok(Val::Uint(*value as u64)),
        Val::Double(_) => Err(overflow()),
        Val::Text(text) => text.parse().map(Val::Uint).or_else(|_| unparsed(text, "uint")),
        _ => return None,
    })
}

fn double<'a>(value: &Val<'a>) -> Option<Outcome<'a>> {
    Some(match value {
        Val::Double(_) => Ok(value.clone()),
        Val::Int(value) => Ok(Val::Double(*value as f64)),
        Val::Uint(value) => Ok(Val::Double(*value as f64)),
        Val::Text(text) => text.parse().map(Val::Double).or_else(|_| unparsed(text, "double")),
        _ => return None,
    })
}

fn string<'a>(value: &Val<'a>) -> Option<Outcome<'a>> {
    Some(match value {
        Val::Text(_) => Ok(value.clone()),
        Val::Bool(value) => Ok(value.to_string().into()),
        Val::Int(value) => Ok(value.to_string().into()),
        Val::Uint(value) => Ok(value.to_string().into()),
        Val::Double(value) => Ok(value.to_string().into()),
        Val::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.into()),
            Err(_) => Err(error("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Val::Time(at) => Ok(at.to_string().into()),
        Val::Span(span) => Ok(time::shown(*span).into()),
        Val::Ip(ip) => Ok(ip.to_string().into()),
        Val::Cidr(cidr) => Ok(cidr.to_string().into()),
        _ => return None,
    })
}
