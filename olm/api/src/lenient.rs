//! Tolerant reading: Go writes `null` for empty lists and `""` for absent strings.

use serde::{Deserialize, Deserializer};

/// `null` means the default value.
pub(crate) fn null_as_default<'de, D, T>(de: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(de)?.unwrap_or_default())
}

/// `null` and `""` mean absent.
pub(crate) fn empty_as_none<'de, D>(de: D) -> Result<Option<String>, D::Error>
where
    D: Deserializer<'de>,
{
    Ok(Option::<String>::deserialize(de)?.filter(|text| !text.is_empty()))
}

pub(crate) fn is_false(value: &bool) -> bool {
    !*value
}

/// An enum that is a string on the wire. `default` stands for an absent or empty value, `unknown` for any
/// other text: an unknown word in one object must not stop a watch.
macro_rules! string_enum {
    (
        $(#[$meta:meta])*
        $name:ident { $( $(#[$vmeta:meta])* $variant:ident = $text:literal ),+ $(,)? }
        default $default:ident, unknown $unknown:ident, schema $schema:ident
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $( $(#[$vmeta])* $variant ),+ }

        impl $name {
            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $text ),+ }
            }
            /// Every word of this type.
            pub const ALL: &'static [Self] = &[ $( Self::$variant ),+ ];
        }

        impl Default for $name {
            fn default() -> Self { Self::$default }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.pad(self.as_str()) }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $( $text => Self::$variant, )+
                    // some enums have a variant for ""; then this arm is unreachable
                    #[allow(unreachable_patterns)]
                    "" => Self::$default,
                    _ => Self::$unknown,
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
                ser.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
                let text = <Option<std::borrow::Cow<'de, str>> as serde::Deserialize>::deserialize(de)?;
                Ok(text.map_or(Self::$default, |text| Self::from(text.as_ref())))
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn inline_schema() -> bool { true }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::lenient::$schema(&[ $( $text ),+ ])
            }
        }
    };
}
pub(crate) use string_enum;

/// The schema of a string that users write: the API server refuses other words with the field path.
pub(crate) fn closed(words: &[&str]) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": words })
}

/// The schema of a string that controllers write.
pub(crate) fn open(_words: &[&str]) -> schemars::Schema {
    schemars::json_schema!({ "type": "string" })
}

/// An object that is passed through unchanged.
pub(crate) fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A list of objects that are passed through unchanged.
pub(crate) fn any_objects(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true }
    })
}

/// Quantities by resource name.
pub(crate) fn quantities(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": { "x-kubernetes-int-or-string": true }
    })
}

/// A list of named objects that are passed through unchanged.
pub(crate) fn named_objects(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": { "name": { "type": "string" } },
            "x-kubernetes-preserve-unknown-fields": true
        }
    })
}

/// Any JSON value.
pub(crate) fn any_value(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// A port number or the name of a port.
pub(crate) fn int_or_string(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "x-kubernetes-int-or-string": true })
}
