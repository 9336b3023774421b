//! `-o jsonpath=TEMPLATE` in kubectl's dialect: `{...}` holds a path, a quoted text or `range PATH`. Paths are those of
//! RFC 9535 with an optional `$` or `@`; a field after a dot may contain any character, a backslash escapes a dot.

use jsonpath_rust::{
    parser::{model::JpQuery, parse_json_path},
    query::js_path_process,
};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct Template(Vec<Node>);

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Text(String),
    Path(JpQuery),
    Range(JpQuery, Vec<Self>),
}

impl Template {
    /// A template without braces is one path.
    pub fn parse(text: &str) -> Result<Self, String> {
        let braced = if text.contains(['{', '}']) { text.to_owned() } else { format!("{{{text}}}") };
        nodes(&mut braced.as_str(), false).map(Self)
    }

    /// Several values of a path are separated by spaces; a path without a value is empty.
    pub fn render(&self, value: &Value) -> String {
        let mut out = String::new();
        write(&self.0, value, &mut out);
        out
    }
}

fn write(nodes: &[Node], value: &Value, out: &mut String) {
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Path(path) => {
                let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                out.push_str(&select(path, value).into_iter().map(plain).collect::<Vec<_>>().join(" "));
            }
            Node::Range(path, inner) => select(path, value).into_iter().for_each(|v| write(inner, v, out)),
        }
    }
}

/// A path that does not fit the value selects nothing, as in kubectl.
fn select<'v>(path: &JpQuery, value: &'v Value) -> Vec<&'v Value> {
    js_path_process(path, value).unwrap_or_default().into_iter().map(|found| found.val).collect()
}

/// The nodes up to `{end}`, or all of them outside a range.
fn nodes(rest: &mut &str, in_range: bool) -> Result<Vec<Node>, String> {
    let mut out = Vec::new();
    while let Some((text, tail)) = rest.split_once('{') {
        out.extend((!text.is_empty()).then(|| Node::Text(text.to_owned())));
        let end = end_of_action(tail).ok_or_else(|| format!("`}}` is missing after `{{{tail}`"))?;
        *rest = &tail[end + 1..];
        match tail[..end].trim() {
            "end" if in_range => return Ok(out),
            "end" => return Err("`{end}` without `{range}`".to_owned()),
            action => out.push(match (action.strip_prefix("range "), quoted(action)) {
                (Some(over), _) => Node::Range(path(over)?, nodes(rest, true)?),
                (None, Some(text)) => Node::Text(text),
                (None, None) => Node::Path(path(action)?),
            }),
        }
    }
    if in_range {
        return Err("`{range}` without `{end}`".into());
    }
    out.extend((!rest.is_empty()).then(|| Node::Text((*rest).to_owned())));
    Ok(out)
}

/// The position of the closing brace, which is not quoted.
fn end_of_action(text: &str) -> Option<usize> {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match quote {
            _ if escaped => escaped = false,
            _ if c == '\\' => escaped = true,
            Some(q) if q == c => quote = None,
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == '}' => return Some(at),
            _ => {}
        }
    }
    None
}

/// The content of a quoted text, with its escapes replaced.
fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut chars = text.strip_prefix(quote)?.strip_suffix(quote)?.chars();
    let mut out = String::new();
    while let Some(c) = chars.next() {
        let escape = (c == '\\').then(|| chars.next()).flatten();
        out.push(match escape {
            Some('n') => '\n',
            Some('t') => '\t',
            Some(other) => other,
            None => c,
        });
    }
    Some(out)
}

/// Writes fields after dots as quoted names, which may contain any character.
fn path(text: &str) -> Result<JpQuery, String> {
    let text = text.trim();
    let wrong = || format!("`{text}` is not a valid path");
    let mut rest = text.strip_prefix(['$', '@']).unwrap_or(text);
    let mut query = "$".to_owned();
    while !rest.is_empty() {
        if rest.starts_with('[') {
            let end = end_of_brackets(rest).ok_or_else(wrong)?;
            query.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let deep = rest.starts_with("..");
        rest = rest.strip_prefix(if deep { ".." } else { "." }).unwrap_or(rest);
        query.push_str(if deep { ".." } else { "" });
        if rest.starts_with('[') || (rest.is_empty() && !deep) {
            continue;
        }
        let (mut field, mut end, mut chars) = (String::new(), rest.len(), rest.char_indices());
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => field.extend(chars.next().map(|(_, c)| c)),
                '.' | '[' => {
                    end = at;
                    break;
                }
                c if c.is_whitespace() || "\"'()|,".contains(c) => return Err(wrong()),
                c => field.push(c),
            }
        }
        rest = &rest[end..];
        match field.as_str() {
            "" => return Err(wrong()),
            "*" => query.push_str("[*]"),
            field => query.push_str(&format!("[{}]", Value::from(field))),
        }
    }
    parse_json_path(&query).map_err(|_| wrong())
}

/// The position after the bracket that closes the first one.
fn end_of_brackets(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0_u32);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), _) if q == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 1 => return Some(at + 1),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Template;

    #[test]
    fn templates_of_kubectl_are_rendered() {
        let value = json!({ "items": [
            { "name": "a", "ready": true, "labels": { "app.k8s.io/name": "x", "tier-1": "y" } },
            { "name": "b", "ready": false, "count": 3 },
        ] });
        for (template, expected) in [
            (".items[0].name", "a"),
            ("{.items[*].name}", "a b"),
            ("{$.items[-1:].count}/{.items[1].missing}", "3/"),
            ("{range .items[*]}{.name}={.ready}{\"\\n\"}{end}", "a=true\nb=false\n"),
            ("{.items[?(@.ready==false)].name}", "b"),
            (r"{.items[0].labels.app\.k8s\.io/name} {.items[0].labels.tier-1}", "x y"),
            ("{.items[0].labels['app.k8s.io/name']}", "x"),
            ("{..name}", "a b"),
            ("{.items[1]}", r#"{"name":"b","ready":false,"count":3}"#),
            ("{'}'}{.items[0]['name','ready']}", "}a true"),
        ] {
            assert_eq!(Template::parse(template).unwrap().render(&value), expected, "{template}");
        }
        let list = Template::parse("{range [*]}{@} {end}").unwrap();
        assert_eq!(list.render(&json!([1, "two"])), "1 two ");
        for wrong in ["{.a", "{end}", "{range .a}", "{.a | b}", "{.a[}", "{.a..}", "{.a[?(@.b=)]}"] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
    }
}
