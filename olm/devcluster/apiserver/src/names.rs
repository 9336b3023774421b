//! Validation of names and labels, in Kubernetes' wording.

use olm_devcluster_machinery::field_error::FieldError;
use olm_kube_schema::names::is_dns_part;
use serde_json::Value;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Syntax of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    Subdomain,
    Label,
    Label1035,
    /// Any valid path segment (RBAC).
    PathSegment,
}

/// Errors of a name.
pub(crate) fn name_problems(rule: NameRule, name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let too_long = |max: usize| format!("must be no more than {max} characters");
    match rule {
        NameRule::Subdomain => {
            if name.len() > 253 {
                problems.push(too_long(253));
            }
            if !name.split('.').all(is_dns_part) {
                problems.push(SUBDOMAIN.to_owned());
            }
        }
        NameRule::Label => {
            if name.len() > 63 {
                problems.push(too_long(63));
            }
            if !is_dns_part(name) {
                problems.push(LABEL.to_owned());
            }
        }
        NameRule::Label1035 => {
            if name.len() > 63 {
                problems.push(too_long(63));
            }
            if !is_dns_part(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
                problems.push(LABEL_1035.to_owned());
            }
        }
        NameRule::PathSegment => {
            if name == "." || name == ".." {
                problems.push(format!("may not be '{name}'"));
            }
            for bad in ["/", "%"] {
                if name.contains(bad) {
                    problems.push(format!("may not contain '{bad}'"));
                }
            }
        }
    }
    problems
}

fn is_qualified_part(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    ends(text.chars().next())
        && ends(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Error of a label or annotation key: `prefix/name` or `name`.
pub(crate) fn key_problem(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if let Some(prefix) = prefix
        && (prefix.len() > 253 || !prefix.split('.').all(is_dns_part))
    {
        return Some(if prefix.is_empty() {
            "prefix part must be non-empty".to_owned()
        } else {
            format!("prefix part {SUBDOMAIN}")
        });
    }
    match name {
        "" => Some("name part must be non-empty".to_owned()),
        name if name.len() > 63 => Some("name part must be no more than 63 characters".to_owned()),
        name if !is_qualified_part(name) => Some(QUALIFIED.to_owned()),
        _ => None,
    }
}

pub(crate) fn labels(path: &str, labels: Option<&Value>, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        if let Some(problem) = key_problem(key) {
            errors.push(FieldError::invalid(path, key.as_str(), problem));
        }
        let value = value.as_str().unwrap_or_default();
        if value.len() > 63 {
            errors.push(FieldError::invalid(path, value, "must be no more than 63 characters"));
        } else if !value.is_empty() && !is_qualified_part(value) {
            errors.push(FieldError::invalid(path, value, LABEL_VALUE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!(name_problems(NameRule::Subdomain, "a.b-c").is_empty());
        assert_eq!(name_problems(NameRule::Subdomain, "A"), [SUBDOMAIN]);
        assert_eq!(name_problems(NameRule::Label1035, "1a"), [LABEL_1035]);
        assert_eq!(name_problems(NameRule::Label, &"a".repeat(64)), ["must be no more than 63 characters"]);
        assert!(name_problems(NameRule::PathSegment, "system:node").is_empty());
    }
}
