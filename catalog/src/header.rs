//! What a document is filed by.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The three keys that every document of a catalog is looked up by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub schema: String,
    /// For a package, its own name.
    pub package: String,
    pub name: String,
    /// Whether the document is a map at all.
    pub is_map: bool,
}

impl Header {
    /// The header of the JSON document at the start of a text, and how long that document is.
    pub fn read(text: &[u8]) -> Result<(Self, usize), serde_json::Error> {
        let mut stream = serde_json::Deserializer::from_slice(text).into_iter::<Self>();
        match stream.next() {
            Some(header) => header.map(|header| (header, stream.byte_offset())),
            None => Ok((Self::default(), text.len())),
        }
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header { is_map: true, ..Header::default() };
        // What is not text is left to the check of the document's shape, which can say more about it.
        let text = |value: &RawValue| serde_json::from_str::<String>(value.get()).unwrap_or_default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "schema" => header.schema = text(map.next_value()?),
                "package" => header.package = text(map.next_value()?),
                "name" => header.name = text(map.next_value()?),
                _ => _ = map.next_value::<IgnoredAny>()?,
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
