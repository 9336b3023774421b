//! Field errors.
//!
//! The wording is Kubernetes' own (`k8s.io/apimachinery/pkg/util/validation/field`): users and tools search
//! for these sentences.

use std::fmt;

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    Required,
    /// The value breaks a rule.
    Invalid,
    TypeInvalid,
    NotSupported,
    /// The field may not be set or changed.
    Forbidden,
    /// The value occurs twice where it must be unique.
    Duplicate,
    /// The value refers to an object that does not exist.
    NotFound,
    TooLong,
    TooMany,
    /// The rule failed to evaluate.
    Internal,
}

impl ErrorKind {
    /// Wording for users.
    fn label(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    /// The `reason` of a `Status` cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
        }
    }
}

/// An error of one field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// Path of the field, for example `spec.versions[0].name`. Empty for the whole object.
    pub path: String,
    pub kind: ErrorKind,
    /// The invalid value, where it is short enough to show.
    pub bad_value: Option<Value>,
    /// The violated rule.
    pub detail: String,
}

impl FieldError {
    fn new(
        path: impl Into<String>,
        kind: ErrorKind,
        bad_value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), kind, bad_value, detail: detail.into() }
    }

    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Required, None, detail)
    }

    pub fn invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Invalid, Some(value.into()), detail)
    }

    pub fn type_invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::TypeInvalid, Some(value.into()), detail)
    }

    /// The value is not one of `allowed`.
    pub fn not_supported<S: AsRef<str>>(
        path: impl Into<String>,
        value: impl Into<Value>,
        allowed: impl IntoIterator<Item = S>,
    ) -> Self {
        let quoted: Vec<String> = allowed.into_iter().map(|a| format!("{:?}", a.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(path, ErrorKind::NotSupported, Some(value.into()), detail)
    }

    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Forbidden, None, detail)
    }

    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(path, ErrorKind::Duplicate, Some(value.into()), "")
    }

    /// The string has more than `max` characters.
    pub fn too_long(path: impl Into<String>, max: u64) -> Self {
        Self::new(path, ErrorKind::TooLong, None, format!("may not be more than {max} bytes"))
    }

    /// The list has more than `max` items.
    pub fn too_many(path: impl Into<String>, actual: usize, max: u64) -> Self {
        let noun = if max == 1 { "item" } else { "items" };
        Self::new(path, ErrorKind::TooMany, Some(json!(actual)), format!("must have at most {max} {noun}"))
    }

    /// A violated CEL rule. Only scalar values are shown, neither objects nor lists.
    pub(crate) fn of_rule(path: String, kind: ErrorKind, value: &Value, detail: String) -> Self {
        let bad_value = Some(value).filter(|value| !value.is_object() && !value.is_array()).cloned();
        Self::new(path, kind, bad_value, detail)
    }

    /// The error without the path: the `message` of a `Status` cause.
    pub fn body(&self) -> String {
        let mut text = String::from(self.kind.label());
        let shows_value = !matches!(
            self.kind,
            ErrorKind::Required | ErrorKind::Forbidden | ErrorKind::TooLong | ErrorKind::Internal
        );
        if let Some(value) = self.bad_value.as_ref().filter(|_| shows_value) {
            text.push_str(": ");
            match value {
                Value::Null => text.push_str("\"null\""),
                other => text.push_str(&other.to_string()),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// The entry for `status.details.causes`.
    pub fn cause(&self) -> Value {
        json!({ "reason": self.kind.reason(), "message": self.body(), "field": self.shown_path() })
    }

    /// Kubernetes prints the path of the whole object as `<nil>`.
    fn shown_path(&self) -> &str {
        if self.path.is_empty() { "<nil>" } else { &self.path }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.shown_path(), self.body())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_read_as_in_kubernetes() {
        let cases = [
            (
                FieldError::invalid("spec.size", 8, "spec.size in body should be less than or equal to 7"),
                "spec.size: Invalid value: 8: spec.size in body should be less than or equal to 7",
            ),
            (FieldError::required("spec.replicas", ""), "spec.replicas: Required value"),
            (
                FieldError::not_supported("spec.type", "x", ["A", "B"]),
                "spec.type: Unsupported value: \"x\": supported values: \"A\", \"B\"",
            ),
            (FieldError::too_many("spec.l", 3, 2), "spec.l: Too many: 3: must have at most 2 items"),
            (
                FieldError::too_long("metadata.name", 52),
                "metadata.name: Too long: may not be more than 52 bytes",
            ),
            (FieldError::duplicate("spec.l[1]", "a"), "spec.l[1]: Duplicate value: \"a\""),
            (
                FieldError::type_invalid(
                    "spec.l",
                    Value::Null,
                    "spec.l in body must be of type string: \"null\"",
                ),
                "spec.l: Invalid value: \"null\": spec.l in body must be of type string: \"null\"",
            ),
            (FieldError::forbidden("spec", "no"), "spec: Forbidden: no"),
            (FieldError::invalid("", "", "x"), "<nil>: Invalid value: \"\": x"),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
