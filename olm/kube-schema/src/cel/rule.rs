//! A rule: its expression, and its message.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::check::{Checked, Newest, check};
use super::parse::Parsed;
use super::signatures::{NEWEST, OLDEST};
use super::types::Ty;
use crate::field_error::{ErrorKind, FieldError};
use crate::schema::{Additional, ListType, Node, child_path};

const KEY: &str = "x-kubernetes-validations";

#[derive(Debug)]
pub(crate) struct Rule {
    pub(super) text: String,
    pub(super) expression: Arc<Parsed>,
    pub(super) message: String,
    pub(super) message_expression: Option<Arc<Parsed>>,
    pub(super) reason: ErrorKind,
    /// Relative to the value of the rule, such as `a.b[c]`; empty for the value itself.
    pub(super) field: String,
    /// As written, until the schema is resolved.
    field_path: String,
    pub(super) optional_old_self: bool,
    pub(super) uses_old_self: bool,
    /// Index in the list of its schema.
    index: usize,
}

/// Parsed expressions by their text: schemas repeat them at many places.
pub(crate) type Cache = HashMap<String, Result<Arc<Parsed>, String>>;

fn parsed(cache: &mut Cache, text: &str) -> Result<Arc<Parsed>, String> {
    if let Some(known) = cache.get(text) {
        return known.clone();
    }
    let fresh = Parsed::new(text).map_err(|what| format!("compilation failed: {what}"));
    cache.insert(text.to_owned(), fresh.clone());
    fresh
}

impl Rule {
    /// Error detail of a violation.
    pub(super) fn detail(&self) -> String {
        match self.message.as_str() {
            "" => format!("failed rule: {}", self.text.trim()),
            message => message.to_owned(),
        }
    }

    /// The label of the rule in errors.
    pub(super) fn name(&self) -> &str {
        if self.message.is_empty() { self.text.trim() } else { &self.message }
    }

    /// Reads the rules of a schema; appends defects to `errors`.
    pub(crate) fn read(
        schema: &Map<String, Value>,
        path: &str,
        cache: &mut Cache,
        errors: &mut Vec<FieldError>,
    ) -> Vec<Arc<Self>> {
        let path = child_path(path, KEY);
        let list = match schema.get(KEY) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(list)) => list,
            Some(other) => {
                errors.push(FieldError::invalid(path, other.clone(), "must be a list"));
                return Vec::new();
            }
        };
        let read = |(index, rule): (usize, &Value)| {
            Self::one(rule, index, &format!("{path}[{index}]"), cache, errors).map(Arc::new)
        };
        list.iter().enumerate().filter_map(read).collect()
    }

    fn one(
        rule: &Value,
        index: usize,
        path: &str,
        cache: &mut Cache,
        errors: &mut Vec<FieldError>,
    ) -> Option<Self> {
        let before = errors.len();
        let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
        for key in ["rule", "message", "messageExpression", "reason", "fieldPath"] {
            if let Some(other) = rule.get(key).filter(|value| !value.is_null() && !value.is_string()) {
                errors.push(FieldError::invalid(child_path(path, key), other.clone(), "must be a string"));
            }
        }
        for (key, may_be_broken) in [("message", false), ("messageExpression", true), ("fieldPath", false)] {
            let text = text(key);
            if !text.is_empty() && text.trim().is_empty() {
                let detail = format!("{key} must be non-empty if specified");
                errors.push(FieldError::invalid(child_path(path, key), text, detail));
            } else if !may_be_broken && text.trim().contains('\n') {
                let detail = format!("{key} must not contain line breaks");
                errors.push(FieldError::invalid(child_path(path, key), text, detail));
            }
        }
        let (rule_text, message) = (text("rule"), text("message").trim());
        if rule_text.trim().is_empty() {
            errors.push(FieldError::required(child_path(path, "rule"), "rule is not specified"));
        } else if rule_text.trim().contains('\n') && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(child_path(path, "message"), detail));
        }
        const REASONS: [&str; 4] =
            ["FieldValueRequired", "FieldValueForbidden", "FieldValueInvalid", "FieldValueDuplicate"];
        let reason = match text("reason") {
            "" | "FieldValueInvalid" => ErrorKind::Invalid,
            "FieldValueRequired" => ErrorKind::Required,
            "FieldValueForbidden" => ErrorKind::Forbidden,
            "FieldValueDuplicate" => ErrorKind::Duplicate,
            other => {
                errors.push(FieldError::not_supported(child_path(path, "reason"), other, REASONS));
                ErrorKind::Invalid
            }
        };
        let mut compiled = |key: &str| {
            let text = text(key);
            if text.trim().is_empty() {
                return None;
            }
            parsed(cache, text)
                .map_err(|what| errors.push(FieldError::invalid(child_path(path, key), text, what)))
                .ok()
        };
        let expression = compiled("rule");
        let message_expression = compiled("messageExpression");
        if errors.len() > before {
            return None;
        }
        let expression = expression?;
        Some(Self {
            text: rule_text.to_owned(),
            uses_old_self: expression.root.references().has_variable("oldSelf"),
            expression,
            message: message.to_owned(),
            message_expression,
            reason,
            field: normal_path(text("fieldPath")).unwrap_or_default(),
            field_path: text("fieldPath").trim().to_owned(),
            optional_old_self: rule.get("optionalOldSelf") == Some(&Value::Bool(true)),
            index,
        })
    }
}

/// Type-checks the rules of a whole schema; `path` is its path in the definition. With a minor version of
/// Kubernetes, functions and macros that it lacks are errors, too.
pub(crate) fn check_rules(root: &Node, path: &str, minor: Option<u64>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let place = Place { path: path.to_owned(), resource: true, uncorrelatable: None, minor };
    below(root, root, &place, &mut errors);
    errors
}

/// What Kubernetes 1.`minor` lacks. API servers accept in new rules only what the version before them has,
/// so that they can be downgraded (`DefaultCompatibilityVersion`).
fn too_new((since, name): &Newest, minor: Option<u64>) -> Option<String> {
    let needed = since + 1;
    minor
        .is_some_and(|minor| *since > OLDEST && minor < needed)
        .then(|| format!("{name} needs Kubernetes 1.{needed}"))
}

/// Whether Kubernetes 1.`minor` has every function.
pub(crate) fn has_all_functions(minor: u64) -> bool {
    minor > NEWEST
}

struct Place {
    path: String,
    resource: bool,
    /// The enclosing list whose items have no identity, if any.
    uncorrelatable: Option<String>,
    minor: Option<u64>,
}

impl Place {
    fn inner(&self, part: &str) -> Self {
        Self {
            path: format!("{}{part}", self.path),
            resource: false,
            uncorrelatable: self.uncorrelatable.clone(),
            minor: self.minor,
        }
    }
}

/// `rules` holds the rules, `node` the structure: below `allOf` they differ.
fn below(rules: &Node, node: &Node, place: &Place, errors: &mut Vec<FieldError>) {
    of_node(rules, node, place, errors);
    for (key, child) in &rules.properties {
        if let Some(node) = node.properties.get(key) {
            below(child, node, &place.inner(&format!(".properties[{key}]")), errors);
        }
    }
    if let (Additional::Values(rules), Additional::Values(node)) = (&rules.additional, &node.additional) {
        below(rules, node, &place.inner(".additionalProperties"), errors);
    }
    if let (Some(rules), Some(items)) = (&rules.items, &node.items) {
        let mut inner = place.inner(".items");
        if !matches!(node.list_type, ListType::Map(_)) && inner.uncorrelatable.is_none() {
            inner.uncorrelatable = Some(place.path.clone());
        }
        below(rules, items, &inner, errors);
    }
    let Some(logic) = &rules.rules else { return };
    for (index, all) in logic.all_of.iter().enumerate() {
        let mut inner = place.inner(&format!(".allOf[{index}]"));
        inner.resource = place.resource;
        below(all, node, &inner, errors);
    }
    for (keyword, list) in [("anyOf", &logic.any_of), ("oneOf", &logic.one_of)] {
        for (index, one) in list.iter().enumerate() {
            forbid_rules(one, &format!("{}.{keyword}[{index}]", place.path), errors);
        }
    }
    if let Some(not) = &logic.not {
        forbid_rules(not, &format!("{}.not", place.path), errors);
    }
}

/// Rules are always enforced, so they are not allowed in one of several alternatives.
fn forbid_rules(node: &Node, path: &str, errors: &mut Vec<FieldError>) {
    if !node.cel.is_empty() {
        errors.push(FieldError::forbidden(child_path(path, KEY), "must be empty to be structural"));
    }
    for (key, child) in &node.properties {
        forbid_rules(child, &format!("{path}.properties[{key}]"), errors);
    }
    if let Some(items) = &node.items {
        forbid_rules(items, &format!("{path}.items"), errors);
    }
    let inner = node
        .rules
        .iter()
        .flat_map(|r| r.all_of.iter().chain(&r.any_of).chain(&r.one_of).chain(r.not.as_deref()));
    for one in inner {
        forbid_rules(one, path, errors);
    }
}

fn of_node(rules: &Node, node: &Node, place: &Place, errors: &mut Vec<FieldError>) {
    if rules.cel.is_empty() {
        return;
    }
    let path = child_path(&place.path, KEY);
    let Some(self_) = Ty::of(node, place.resource) else {
        let detail = format!(
            "rule declared on schema that does not support validation rules type: '{}' x-kubernetes-preserve-unknown-fields: '{}'",
            node.ty.map_or("", |ty| ty.name()),
            node.preserve_unknown
        );
        return errors.push(FieldError::invalid(path, rules.cel[0].text.as_str(), detail));
    };
    for rule in &rules.cel {
        let at = |key: &str| format!("{path}[{}].{key}", rule.index);
        let old_self = match rule.optional_old_self {
            true => Ty::Optional(Arc::new(self_.clone())),
            false => self_.clone(),
        };
        match check(&rule.expression, self_.clone(), old_self) {
            Ok(Checked { ty: Ty::Bool | Ty::Any, uses_old_self, newest }) => {
                if let Some(what) = too_new(&newest, place.minor) {
                    errors.push(FieldError::invalid(at("rule"), rule.text.as_str(), what));
                }
                if let Some(list) = place.uncorrelatable.as_ref().filter(|_| uses_old_self) {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                    );
                    errors.push(FieldError::invalid(at("rule"), rule.text.as_str(), detail));
                } else if rule.optional_old_self && !uses_old_self {
                    let detail = "may not be set if oldSelf is not used in rule";
                    errors.push(FieldError::invalid(at("optionalOldSelf"), true, detail));
                }
            }
            Ok(_) => {
                let detail = "cel expression must evaluate to a bool";
                errors.push(FieldError::invalid(at("rule"), rule.text.as_str(), detail));
            }
            Err(what) => {
                let detail = format!("compilation failed: {what}");
                errors.push(FieldError::invalid(at("rule"), rule.text.as_str(), detail));
            }
        }
        if let Some(message) = &rule.message_expression {
            let detail = match check(message, self_.clone(), self_.clone()) {
                Ok(Checked { ty: Ty::Text | Ty::Any, newest, .. }) => match too_new(&newest, place.minor) {
                    Some(what) => what,
                    None => continue,
                },
                Ok(_) => "messageExpression must evaluate to a string".to_owned(),
                Err(what) => format!("messageExpression compilation failed: {what}"),
            };
            errors.push(FieldError::invalid(at("messageExpression"), rule.text.as_str(), detail));
        }
    }
    for rule in rules.cel.iter().filter(|rule| !rule.field_path.is_empty()) {
        if let Err(what) = known_path(&rule.field_path, node) {
            let detail = format!("fieldPath must be a valid path: {what}");
            let path = format!("{path}[{}].fieldPath", rule.index);
            errors.push(FieldError::invalid(path, rule.field_path.as_str(), detail));
        }
    }
}

/// The parts of `.a['b.c'].d`, each with whether it was in brackets.
fn parts(path: &str) -> Result<Vec<(String, bool)>, &'static str> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            if end == 0 {
                return Err("unexpected end of JSON path");
            }
            parts.push((after[..end].to_owned(), false));
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix("['") {
            let (mut name, mut chars, mut end) = (String::new(), after.char_indices(), None);
            while let Some((at, c)) = chars.next() {
                match c {
                    '\'' => {
                        end = Some(at + 1);
                        break;
                    }
                    '\\' => match chars.next() {
                        Some((_, c @ ('\'' | '\\'))) => name.push(c),
                        Some((_, 'n')) => name.push('\n'),
                        Some((_, 't')) => name.push('\t'),
                        _ => return Err("invalid string literal: invalid escape char"),
                    },
                    c => name.push(c),
                }
            }
            rest = end.and_then(|end| after[end..].strip_prefix(']')).ok_or("expected ]")?;
            parts.push((name, true));
        } else {
            return Err("expected [ or .");
        }
    }
    Ok(parts)
}

/// The path in the form of errors.
fn normal_path(path: &str) -> Result<String, &'static str> {
    let mut out = String::new();
    for (name, bracketed) in parts(path.trim())? {
        if bracketed {
            out.push_str(&format!("[{name}]"));
        } else {
            out = child_path(&out, &name);
        }
    }
    Ok(out)
}

fn known_path(path: &str, node: &Node) -> Result<(), &'static str> {
    let mut node = node;
    for (name, _) in parts(path)? {
        node = node.child(&name).ok_or("does not refer to a valid field")?;
    }
    Ok(())
}
