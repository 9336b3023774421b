//! Codes of changes.

use std::fmt;

use serde::Serialize;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $code:ident = $name:literal,)+) => {
        /// Codes of changes. The names are stable: scripts, waivers and the documentation refer to them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[non_exhaustive]
        pub enum ChangeCode {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $code,)+
        }

        impl ChangeCode {
            /// All codes, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$code,)+];

            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)+
                }
            }

            /// The description of the code, in a sentence.
            #[must_use]
            pub fn describe(self) -> &'static str {
                match self {
                    $(Self::$code => concat!($($doc),+).trim_ascii_start(),)+
                }
            }
        }
    };
}

codes! {
    /// One of the two is not a definition that can be compared.
    Unreadable = "unreadable",
    /// The API group is another one.
    GroupChanged = "group-changed",
    /// The scope is another one.
    ScopeChanged = "scope-changed",
    /// The kind is another one.
    KindChanged = "kind-changed",
    /// The name in URLs is another one.
    PluralChanged = "plural-changed",
    /// The singular name is another one.
    SingularChanged = "singular-changed",
    /// The kind of lists is another one.
    ListKindChanged = "list-kind-changed",
    /// A short name is gone.
    ShortNameRemoved = "short-name-removed",
    /// A version in which objects may be stored is gone.
    StoredVersionRemoved = "stored-version-removed",
    /// A served version is gone.
    VersionRemoved = "version-removed",
    /// A version is not served any more.
    VersionNotServed = "version-not-served",
    /// There is a new served version.
    VersionAdded = "version-added",
    /// A version is now deprecated.
    VersionDeprecated = "version-deprecated",
    /// Objects are stored in another version.
    StorageVersionChanged = "storage-version-changed",
    /// Objects are converted by a webhook from now on.
    ConversionWebhookAdded = "conversion-webhook-added",
    /// The webhook that converts objects is gone.
    ConversionWebhookRemoved = "conversion-webhook-removed",
    /// A version lost its status subresource.
    StatusSubresourceRemoved = "status-subresource-removed",
    /// A version got a status subresource.
    StatusSubresourceAdded = "status-subresource-added",
    /// A version lost its scale subresource.
    ScaleSubresourceRemoved = "scale-subresource-removed",
    /// The scale subresource reads or writes other fields.
    ScaleSubresourceChanged = "scale-subresource-changed",
    /// A field can no longer be used in field selectors.
    SelectableFieldRemoved = "selectable-field-removed",
    /// A field has another type.
    TypeChanged = "type-changed",
    /// A field that took whole numbers and strings takes one of them only.
    IntOrStringRemoved = "int-or-string-removed",
    /// A field must be set that need not be before.
    RequiredAdded = "required-added",
    /// A field is gone; what objects have in it is dropped.
    PropertyRemoved = "property-removed",
    /// Fields that the schema does not name are dropped from now on.
    UnknownFieldsPruned = "unknown-fields-pruned",
    /// Fields that were kept without a look are validated from now on.
    FieldsValidated = "fields-validated",
    /// A map with free keys became an object with named fields.
    MapToFields = "map-to-fields",
    /// An object with named fields became a map with free keys.
    FieldsToMap = "fields-to-map",
    /// A field takes listed values only.
    EnumAdded = "enum-added",
    /// A value is no longer allowed.
    EnumValueRemoved = "enum-value-removed",
    /// The smallest number allowed is greater.
    MinimumRaised = "minimum-raised",
    /// The greatest number allowed is smaller.
    MaximumLowered = "maximum-lowered",
    /// A number must be a multiple of something else.
    MultipleOfChanged = "multiple-of-changed",
    /// Texts may be less short or less long.
    LengthNarrowed = "length-narrowed",
    /// Lists may be less short or less long.
    ItemsNarrowed = "items-narrowed",
    /// Objects may have less few or less many fields.
    PropertiesNarrowed = "properties-narrowed",
    /// A field must match a pattern.
    PatternAdded = "pattern-added",
    /// A field must match another pattern.
    PatternChanged = "pattern-changed",
    /// A field must have a format, or another one.
    FormatChanged = "format-changed",
    /// Null is not a value any more.
    NullableRemoved = "nullable-removed",
    /// A field is filled in that was left alone before.
    DefaultAdded = "default-added",
    /// A field is filled in with another value.
    DefaultChanged = "default-changed",
    /// A field is not filled in any more.
    DefaultRemoved = "default-removed",
    /// The items of a list are identified in another way.
    ListTypeChanged = "list-type-changed",
    /// A map is merged in another way.
    MapTypeChanged = "map-type-changed",
    /// A field is, or is not any more, an object of Kubernetes with apiVersion, kind and metadata.
    EmbeddedResourceChanged = "embedded-resource-changed",
    /// There is an allOf, anyOf, oneOf or not that was not there before.
    LogicAdded = "logic-added",
    /// An allOf, anyOf, oneOf or not is another one.
    LogicChanged = "logic-changed",
    /// There is a rule in CEL that was not there before.
    RuleAdded = "rule-added",
    /// The schemas are nested deeper than they are compared.
    NotCompared = "not-compared",
}

impl fmt::Display for ChangeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
