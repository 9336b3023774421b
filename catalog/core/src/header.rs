//! The lookup keys of a document.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::canonical::{Inspector, SyntaxFindings};

/// The three lookup keys of every document of a catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub schema: String,
    /// For a package, its own name.
    pub package: String,
    pub name: String,
    pub is_map: bool,
}

impl Header {
    /// The header of the JSON document at the start of a text, and the document's length.
    pub fn read(text: &[u8]) -> Result<(Self, usize), serde_json::Error> {
        let mut stream = serde_json::Deserializer::from_slice(text).into_iter::<Self>();
        match stream.next() {
            Some(header) => header.map(|header| (header, stream.byte_offset())),
            None => Ok((Self::default(), text.len())),
        }
    }

    /// As [`Self::read`], and inspects the whole document.
    pub fn inspect(text: &[u8]) -> Result<(Self, usize, SyntaxFindings), serde_json::Error> {
        let mut stream = serde_json::Deserializer::from_slice(text).into_iter::<Inspected>();
        match stream.next() {
            Some(found) => found.map(|found| (found.header, stream.byte_offset(), found.findings)),
            None => Ok((Self::default(), text.len(), SyntaxFindings::default())),
        }
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HeaderVisitor(None))
    }
}

/// A header, with the findings about the whole document.
pub(crate) struct Inspected {
    header: Header,
    findings: SyntaxFindings,
}

impl<'de> Deserialize<'de> for Inspected {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut inspector = Inspector::new();
        let header = deserializer.deserialize_any(HeaderVisitor(Some(&mut inspector)))?;
        Ok(Self { header, findings: inspector.finish() })
    }
}

struct HeaderVisitor<'l, 'de>(Option<&'l mut Inspector<'de>>);

impl<'de> Visitor<'de> for HeaderVisitor<'_, 'de> {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header { is_map: true, ..Header::default() };
        // The check of the document's shape reports values that are not text, with more detail.
        let text = |value: &RawValue| serde_json::from_str::<String>(value.get()).unwrap_or_default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            let is = |field: &str| key.eq_ignore_ascii_case(field);
            let slot = match () {
                () if is("schema") => &mut header.schema,
                () if is("package") => &mut header.package,
                () if is("name") => &mut header.name,
                () => {
                    match &mut self.0 {
                        Some(inspector) => map.next_value_seed(inspector.value(key))?,
                        None => _ = map.next_value::<IgnoredAny>()?,
                    }
                    continue;
                }
            };
            *slot = text(map.next_value()?);
            if let Some(inspector) = &mut self.0 {
                inspector.key(key);
            }
        }
        if header.schema == "olm.package" {
            header.package.clone_from(&header.name);
        }
        Ok(header)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Header, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Header::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Header, E> {
        Ok(Header::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Header, E> {
        Ok(Header::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Header, E> {
        Ok(Header::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Header, E> {
        Ok(Header::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Header, E> {
        Ok(Header::default())
    }

    fn visit_unit<E>(self) -> Result<Header, E> {
        Ok(Header::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_found() {
        let text =
            br#"{"schema":"s","a":{"k":1,"b":[{"c":1,"c":2}],"k":3},"name":"n","a":1,"name":"m"} {"x":1}"#;
        let (header, length, findings) = Header::inspect(text).unwrap();
        assert_eq!((header.name.as_str(), length), ("m", text.len() - 8));
        assert_eq!(findings.duplicates, ["a.b.c", "a.k", "a", "name"]);
        let (same, same_length) = Header::read(text).unwrap();
        assert_eq!((same, same_length), (header, length));
    }
}
