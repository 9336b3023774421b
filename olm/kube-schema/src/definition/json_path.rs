//! The subset of JSONPath that printer columns and the scale subresource use.

use serde_json::Value;

#[derive(Debug, PartialEq)]
enum Step {
    Key(String),
    Index(i64),
    All,
    /// `[?(@.a.b=="text")]`
    Filter(Vec<String>, bool, Value),
}

/// The values at `path` (`.spec.size`, `.status.conditions[?(@.type=="Ready")].status`,
/// `.metadata.labels['a.b/c']`, `.items[*].name`, `.list[-1]`); empty for a path that does not exist or is
/// not supported.
pub fn json_path<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let Some(steps) = parse(path) else { return Vec::new() };
    let mut found = vec![object];
    for step in &steps {
        found = found.into_iter().flat_map(|value| apply(step, value)).collect();
    }
    found
}

/// Validates `path` as an API server does. Accepts paths that [`json_path`] does not support, such as
/// `.status..phase`, which select nothing.
pub(super) fn check(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('.') && !path.starts_with('{') {
        return Err("is not a JSON path: must start with `.`");
    }
    if !brackets_are_closed(path) {
        return Err("is not a JSON path: unterminated `[`");
    }
    Ok(())
}

/// Whether [`json_path`] supports `path`.
pub(super) fn is_readable(path: &str) -> bool {
    parse(path).is_some()
}

fn brackets_are_closed(mut path: &str) -> bool {
    while let Some((_, inner)) = path.split_once('[') {
        let Some(end) = closing(inner) else { return false };
        path = &inner[end + 1..];
    }
    true
}

fn apply<'a>(step: &Step, value: &'a Value) -> Vec<&'a Value> {
    match (step, value) {
        (Step::Key(key), Value::Object(map)) => map.get(key).into_iter().collect(),
        (Step::Index(index), Value::Array(list)) => {
            let len = i64::try_from(list.len()).unwrap_or(i64::MAX);
            let index = if *index < 0 { len + index } else { *index };
            usize::try_from(index).ok().and_then(|i| list.get(i)).into_iter().collect()
        }
        (Step::All, Value::Array(list)) => list.iter().collect(),
        (Step::All, Value::Object(map)) => map.values().collect(),
        (Step::Filter(path, equal, expected), Value::Array(list)) => list
            .iter()
            .filter(|item| {
                let actual = path.iter().try_fold(*item, |value, key| value.get(key));
                actual.is_some_and(|actual| (actual == expected) == *equal)
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let path = path.trim();
    let path = path.strip_prefix('{').and_then(|p| p.strip_suffix('}')).unwrap_or(path);
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('.') {
            let mut key = String::new();
            let mut chars = tail.char_indices();
            let mut end = tail.len();
            while let Some((at, c)) = chars.next() {
                match c {
                    '.' | '[' => {
                        end = at;
                        break;
                    }
                    // `.metadata.labels.example\.com/name`
                    '\\' => key.push(chars.next()?.1),
                    c => key.push(c),
                }
            }
            rest = &tail[end..];
            match key.as_str() {
                "" if rest.is_empty() && steps.is_empty() => {}
                "" if rest.starts_with('[') => {}
                "" => return None,
                "*" => steps.push(Step::All),
                _ => steps.push(Step::Key(key)),
            }
        } else {
            let inner = rest.strip_prefix('[')?;
            let end = closing(inner)?;
            steps.push(bracket(&inner[..end])?);
            rest = &inner[end + 1..];
        }
    }
    Some(steps)
}

/// Position of the `]` that closes a bracket, ignoring those inside quotes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None, ']') => return Some(at),
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(key) = quoted(text) {
        return Some(Step::Key(key.to_owned()));
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|t| t.strip_suffix(')')) {
        let (left, equal, right) = if let Some((left, right)) = filter.split_once("==") {
            (left, true, right)
        } else {
            let (left, right) = filter.split_once("!=")?;
            (left, false, right)
        };
        let keys = left.trim().strip_prefix("@.")?.split('.').map(|key| key.trim().to_owned()).collect();
        let right = right.trim();
        let expected = match quoted(right) {
            Some(text) => Value::from(text),
            None => serde_json::from_str(right).ok()?,
        };
        return Some(Step::Filter(keys, equal, expected));
    }
    text.parse().ok().map(Step::Index)
}

fn quoted(text: &str) -> Option<&str> {
    let strip = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    strip('\'').or_else(|| strip('"'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_values() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x"}},
            "spec": {"size": 3, "list": [{"name": "a"}, {"name": "b"}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Failed", "status": "False"},
            ]},
        });
        let cases = [
            (".spec.size", json!([3])),
            ("{.spec.size}", json!([3])),
            (".spec.list[0].name", json!(["a"])),
            (".spec.list[-1].name", json!(["b"])),
            (".spec.list[*].name", json!(["a", "b"])),
            (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
            (".status.conditions[?(@.type=='Failed')].status", json!(["False"])),
            (".status.conditions[?(@.type!='Failed')].status", json!(["True"])),
            (".metadata.labels['a.b/c']", json!(["x"])),
            (".metadata.labels.a\\.b/c", json!(["x"])),
            (".nothing.here", json!([])),
            (".spec.size.deeper", json!([])),
            (".spec[", json!([])),
        ];
        for (path, expected) in cases {
            let expected = expected.as_array().cloned().unwrap();
            let found: Vec<Value> = json_path(&object, path).into_iter().cloned().collect();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn refuses_unsupported_paths() {
        assert!(check(".spec.size").is_ok());
        assert!(check("spec.size").is_err());
        assert!(check(".spec[0").is_err());
        // given paths of real definitions that Kubernetes 1.36.2 accepts, then they are accepted and select
        // nothing
        for path in [".status..phase", ".spec.[?(@.retention)]", ".status.groups[].name", ".a[?(@ \"b\")].c"]
        {
            assert!(check(path).is_ok(), "{path}");
            assert!(
                !is_readable(path) && json_path(&json!({"status": {"phase": 1}}), path).is_empty(),
                "{path}"
            );
        }
    }
}
