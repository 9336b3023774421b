//! Label and field selectors.

use serde_json::Value;

use super::{
    meta,
    status::{ApiError, ApiResult},
};

/// Selects objects of a list or watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    labels: Vec<LabelTerm>,
    fields: Vec<FieldTerm>,
}

#[derive(Debug, Clone, PartialEq)]
enum LabelOp {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

#[derive(Debug, Clone, PartialEq)]
struct LabelTerm {
    key: String,
    op: LabelOp,
}

#[derive(Debug, Clone)]
struct FieldTerm {
    /// JSON pointer of the field.
    pointer: String,
    equal: bool,
    value: String,
}

impl Selector {
    /// Parses the query parameters; `fields` are the field paths that the resource supports.
    pub(crate) fn parse(labels: &str, fields: &str, kind: &str, supported: &[String]) -> ApiResult<Self> {
        Ok(Self { labels: parse_labels(labels)?, fields: parse_fields(fields, kind, supported)? })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.matches_labels(object.pointer("/metadata/labels"))
            && self.fields.iter().all(|t| t.matches(object))
    }

    /// Only the label terms, against a map of labels.
    pub(crate) fn matches_labels(&self, labels: Option<&Value>) -> bool {
        self.labels.iter().all(|term| {
            let value = labels.and_then(|l| l.get(&term.key)).and_then(Value::as_str);
            term.matches(value)
        })
    }

    /// A label that every match has.
    pub(crate) fn required_label(&self) -> Option<&str> {
        let required = |term: &&LabelTerm| matches!(term.op, LabelOp::In(_) | LabelOp::Exists);
        self.labels.iter().find(required).map(|term| term.key.as_str())
    }

    /// From a `LabelSelector` object (`matchLabels`, `matchExpressions`).
    pub(crate) fn from_object(selector: &Value) -> Self {
        let mut labels = Vec::new();
        if let Some(map) = selector.get("matchLabels").and_then(Value::as_object) {
            for (key, value) in map {
                let value = value.as_str().unwrap_or_default().to_owned();
                labels.push(LabelTerm { key: key.clone(), op: LabelOp::In(vec![value]) });
            }
        }
        for term in meta::list(selector, "/matchExpressions") {
            let values =
                meta::list(term, "/values").iter().filter_map(Value::as_str).map(str::to_owned).collect();
            let op = match meta::text(term, "/operator") {
                "In" => LabelOp::In(values),
                "NotIn" => LabelOp::NotIn(values),
                "Exists" => LabelOp::Exists,
                _ => LabelOp::Absent,
            };
            labels.push(LabelTerm { key: meta::text(term, "/key").to_owned(), op });
        }
        Self { labels, fields: Vec::new() }
    }
}

impl LabelTerm {
    fn matches(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.op {
            LabelOp::In(values) => value.is_some_and(|v| values.iter().any(|w| w == v)),
            LabelOp::NotIn(values) => value.is_none_or(|v| values.iter().all(|w| w != v)),
            LabelOp::Exists => value.is_some(),
            LabelOp::Absent => value.is_none(),
            LabelOp::Greater(bound) => number().is_some_and(|n| n > *bound),
            LabelOp::Less(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

impl FieldTerm {
    fn matches(&self, object: &Value) -> bool {
        let actual = match object.pointer(&self.pointer) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        (actual == self.value) == self.equal
    }
}

fn parse_fields(text: &str, kind: &str, supported: &[String]) -> ApiResult<Vec<FieldTerm>> {
    let mut terms = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (key, equal, value) = if let Some((key, value)) = part.split_once("!=") {
            (key, false, value)
        } else if let Some((key, value)) = part.split_once("==") {
            (key, true, value)
        } else if let Some((key, value)) = part.split_once('=') {
            (key, true, value)
        } else {
            return Err(ApiError::bad_request(format!(
                "unable to parse requirement: invalid selector: '{part}'; can't understand '{part}'"
            )));
        };
        let key = key.trim();
        if !supported.iter().any(|s| s == key) {
            let message = format!("field label not supported: {key}");
            tracing::debug!(kind, key, "unsupported field selector");
            return Err(ApiError::bad_request(message));
        }
        terms.push(FieldTerm {
            pointer: format!("/{}", key.replace('.', "/")),
            equal,
            value: value.trim().replace("\\,", ",").replace("\\=", "=").replace("\\\\", "\\"),
        });
    }
    Ok(terms)
}

fn parse_labels(text: &str) -> ApiResult<Vec<LabelTerm>> {
    let mut terms = Vec::new();
    for part in split_outside_parentheses(text) {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        terms.push(parse_label(part).ok_or_else(|| {
            ApiError::bad_request(format!(
                "unable to parse requirement: couldn't parse the selector string \"{part}\""
            ))
        })?);
    }
    Ok(terms)
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_label(part: &str) -> Option<LabelTerm> {
    let term = |key: &str, op| {
        let key = key.trim();
        let fits = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        fits.then(|| LabelTerm { key: key.to_owned(), op })
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some(key) = part.strip_prefix('!') {
        return term(key, LabelOp::Absent);
    }
    if let Some(list) = part.strip_suffix(')') {
        let (head, list) = list.split_once('(')?;
        let mut words = head.split_whitespace();
        let (key, op) = (words.next()?, words.next()?);
        let values = list.split(',').map(|v| v.trim().to_owned()).collect();
        return match op {
            "in" => term(key, LabelOp::In(values)),
            "notin" => term(key, LabelOp::NotIn(values)),
            _ => None,
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return term(key, LabelOp::NotIn(one(value)));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return term(key, LabelOp::In(one(value)));
    }
    if let Some((key, value)) = part.split_once('>') {
        return term(key, LabelOp::Greater(value.trim().parse().ok()?));
    }
    if let Some((key, value)) = part.split_once('<') {
        return term(key, LabelOp::Less(value.trim().parse().ok()?));
    }
    term(part, LabelOp::Exists)
}

/// A `LabelSelector` in its text form.
pub(crate) fn selector_text(selector: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut labels: Vec<_> =
        selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten().collect();
    labels.sort_by_key(|(key, _)| key.as_str());
    parts.extend(labels.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())));
    for term in meta::list(selector, "/matchExpressions") {
        let key = meta::text(term, "/key");
        let values =
            meta::list(term, "/values").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        parts.push(match meta::text(term, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(selector: &str, labels: Value) -> bool {
        let selector = Selector::parse(selector, "", "Pod", &[]).expect("a valid selector");
        selector.matches(&json!({"metadata": {"labels": labels}}))
    }

    #[test]
    fn label_selectors() {
        let labels = json!({"app": "web", "tier": "front", "n": "5"});
        for (selector, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier!=back", true),
            ("app in (web, db),!gone", true),
            ("app notin (web)", false),
            ("gone!=x", true),
            ("app", true),
            ("gone", false),
            ("n>4,n<6", true),
        ] {
            assert_eq!(matches(selector, labels.clone()), expected, "{selector}");
        }
        assert!(Selector::parse("a b", "", "Pod", &[]).is_err());
        assert!(Selector::parse("app in web", "", "Pod", &[]).is_err());
    }

    #[test]
    fn field_selectors() {
        let supported = ["metadata.name".to_owned(), "spec.nodeName".to_owned()];
        let pod = json!({"metadata": {"name": "a"}, "spec": {}});
        let parse = |text: &str| Selector::parse("", text, "Pod", &supported);
        assert!(parse("metadata.name=a,spec.nodeName=").expect("valid").matches(&pod));
        assert!(!parse("metadata.name!=a").expect("valid").matches(&pod));
        assert_eq!(parse("spec.foo=1").unwrap_err().code(), 400);
    }

    #[test]
    fn selector_objects() {
        let selector = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}, {"key": "x", "operator": "DoesNotExist"}],
        });
        assert!(
            Selector::from_object(&selector).matches_labels(Some(&json!({"app": "web", "tier": "front"})))
        );
        assert!(
            !Selector::from_object(&selector).matches_labels(Some(&json!({"app": "web", "tier": "back"})))
        );
    }
}
