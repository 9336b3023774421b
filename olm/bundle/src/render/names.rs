//! Names of generated roles.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha224};

/// Names of roles and bindings are label values in some tools, which limits their length.
const LONGEST_NAME: usize = 63;

/// `<base>-<hash>`, with the hash of the permission: the same permission keeps its name between versions, and
/// a changed one gets a new name. This is OLM v1's rule.
/// OLM v1 installs an operator once in a cluster. Here, as in OLM v0, it can be in several namespaces, and
/// its objects outside of its own must not share one name: there the hash includes `home`, the install
/// namespace.
pub(crate) fn role_name(csv: &str, service_account: &str, permission: &Value, home: Option<&str>) -> String {
    let hash = base36(&Sha224::digest(go_json(permission) + home.unwrap_or_default()));
    let mut base = format!("{csv}-{service_account}");
    if base.len() + hash.len() > LONGEST_NAME {
        let mut end = LONGEST_NAME.saturating_sub(hash.len() + 1);
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        base.truncate(end);
    }
    format!("{base}-{hash}")
}

/// The permission as Go's JSON encoder writes it: fields in the order of the Go type, empty ones omitted,
/// `<`, `>` and `&` escaped, a line feed at the end.
fn go_json(permission: &Value) -> String {
    let account = permission.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default();
    let rules = permission.get("rules").and_then(Value::as_array);
    let rules = rules.map_or(Value::Null, |rules| rules.iter().map(known_rule).collect());
    let text = json!({"serviceAccountName": account, "rules": rules}).to_string();
    let escaped = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    escaped + "\n"
}

/// A policy rule in Go's type: the known fields in their order, empty ones omitted.
pub(crate) fn known_rule(rule: &Value) -> Value {
    let mut fields = Map::new();
    fields.insert("verbs".into(), rule.get("verbs").cloned().unwrap_or(Value::Null));
    for field in ["apiGroups", "resources", "resourceNames", "nonResourceURLs"] {
        match rule.get(field) {
            Some(Value::Array(list)) if !list.is_empty() => {
                fields.insert(field.into(), Value::Array(list.clone()));
            }
            _ => {}
        }
    }
    Value::Object(fields)
}

/// As many characters as the API server adds to a generated name.
const SHORT: usize = 5;

/// A short hash in place of the random characters of a generated name.
pub(crate) fn short_hash(text: &str) -> String {
    let hash = base36(&Sha224::digest(text));
    hash.chars().rev().take(SHORT).collect()
}

/// A big-endian number in base 36, without leading zeros.
fn base36(bytes: &[u8]) -> String {
    let mut number = bytes.to_vec();
    let mut digits = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut rest = 0_u32;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            *byte = u8::try_from(value / 36)
                .expect("the quotient of a two-digit number by its divisor fits a digit");
            rest = value % 36;
        }
        digits.push(char::from_digit(rest, 36).unwrap_or('0'));
    }
    if digits.is_empty() {
        digits.push('0');
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base36_is_the_number() {
        assert_eq!(base36(&[0, 0]), "0");
        assert_eq!(base36(&[35]), "z");
        assert_eq!(base36(&[1, 0]), "74");
        assert_eq!(base36(&[0xff, 0xff, 0xff, 0xff]), "1z141z3");
    }

    #[test]
    fn long_names_are_cut_before_the_hash() {
        let permission = json!({"serviceAccountName": "a", "rules": []});
        let name = role_name(&"x".repeat(80), "a", &permission, None);
        assert_eq!(name.len(), LONGEST_NAME);
        assert_eq!(name, role_name(&"x".repeat(90), "a", &permission, None));
        assert_ne!(name, role_name("x", "a", &permission, None));
        assert!(role_name(&"é".repeat(40), "a", &permission, None).len() <= LONGEST_NAME);
    }

    #[test]
    fn what_is_outside_of_its_namespace_has_a_name_of_that() {
        let permission = json!({"serviceAccountName": "a", "rules": []});
        let name = |home| role_name("x", "a", &permission, home);
        assert_ne!(name(Some("db")), name(Some("web")));
        assert_ne!(name(Some("db")), name(None));
        assert_eq!(name(Some("db")), name(Some("db")));
    }
}
