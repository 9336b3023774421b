//! Shapes of property values, checked while they are skipped.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Shape of `olm.csv.metadata`. It is most of a catalog, so it is only skipped.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)] // fields that are only read for their types
pub(crate) struct MetadataShape {
    annotations: Option<Texts>,
    description: Option<Text>,
    display_name: Option<Text>,
    install_modes: Option<Vec<BTreeMap<String, IgnoredAny>>>,
    keywords: Option<Vec<Text>>,
    labels: Option<Texts>,
    links: Option<Vec<Texts>>,
    maintainers: Option<Vec<Texts>>,
    maturity: Option<Text>,
    min_kube_version: Option<Text>,
    provider: Option<Texts>,
}

/// Shape of `olm.bundle.object`.
#[derive(Deserialize)]
#[allow(dead_code)] // read for its type
pub(crate) struct ObjectShape {
    data: Option<Base64>,
}

struct Base64;

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        match STANDARD.decode(text.trim()) {
            Ok(_) => Ok(Self),
            Err(error) => Err(serde::de::Error::custom(format!("data is not base64: {error}"))),
        }
    }
}

struct Texts;

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pass;
        impl<'de> Visitor<'de> for Pass {
            type Value = Texts;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Texts, A::Error> {
                while map.next_entry::<IgnoredAny, Text>()?.is_some() {}
                Ok(Texts)
            }
        }
        deserializer.deserialize_map(Pass)
    }
}

struct Text;

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match <&RawValue>::deserialize(deserializer)?.get() {
            text if text.starts_with('"') || text == "null" => Ok(Self),
            other => Err(serde::de::Error::custom(format!(
                "expected a string, found {}",
                other.chars().take(20).collect::<String>()
            ))),
        }
    }
}

#[derive(Default)]
pub(crate) struct PropertyDoc<'a> {
    pub type_: Option<String>,
    /// `null` is a value, too.
    pub value: Option<&'a RawValue>,
}

/// A property of a bundle, reduced to the parts that the checks of a catalog need: metadata is nearly all of
/// a catalog, and its shape is checked once while it is skipped.
pub(crate) struct PartialPropertyDoc<'a>(pub Option<PropertyDoc<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for PropertyDoc<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = deserializer.deserialize_map(PropertyVisitor { partial: false })?;
        Ok(read.unwrap_or_default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for PartialPropertyDoc<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PropertyVisitor { partial: true }).map(Self)
    }
}

struct PropertyVisitor {
    partial: bool,
}

impl<'de> Visitor<'de> for PropertyVisitor {
    type Value = Option<PropertyDoc<'de>>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a property with type and value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut property = PropertyDoc::default();
        let mut passed = false;
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match key.as_ref() {
                "type" => property.type_ = map.next_value()?,
                "value" if self.partial && property.type_.as_deref() == Some("olm.csv.metadata") => {
                    map.next_value::<MetadataShape>()?;
                    passed = true;
                }
                "value" => property.value = Some(map.next_value()?),
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok((!passed).then_some(property))
    }
}
