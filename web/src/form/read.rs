//! Writes submitted values into the document.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::field::{Field, Widget, escape};
use crate::posted::Fields;

/// Errors by JSON pointer; the empty pointer stands for the whole object.
pub(crate) type Problems = BTreeMap<String, String>;

/// Writes the submitted values into the document. Fields that the form does not contain are unchanged.
pub(crate) fn read(fields: &[Field], answers: &Fields, document: &mut Value) -> Problems {
    let mut problems = Problems::new();
    for field in fields.iter().flat_map(Field::leaves) {
        if field.widget == Widget::Resources {
            for part in resource_parts(&field.pointer) {
                if let Some(raw) = answers.raw(&part) {
                    set(
                        document,
                        &part,
                        (!raw.trim().is_empty()).then(|| Value::String(raw.trim().to_owned())),
                    );
                }
            }
            continue;
        }
        let raw = answers.raw(&field.pointer);
        match answer(field, raw, document.pointer(&field.pointer)) {
            Ok(Some(change)) => set(document, &field.pointer, change),
            Ok(None) => {}
            Err(text) => {
                problems.insert(field.pointer.clone(), text);
            }
        }
    }
    problems
}

/// Names of the inputs for resource requirements.
pub(crate) fn resource_parts(pointer: &str) -> [String; 4] {
    ["requests/cpu", "requests/memory", "limits/cpu", "limits/memory"].map(|part| format!("{pointer}/{part}"))
}

/// The effect of a submitted value on a field: none, set, or remove.
fn answer(field: &Field, raw: Option<&str>, old: Option<&Value>) -> Result<Option<Option<Value>>, String> {
    if field.widget == Widget::Switch {
        return Ok(match (raw, old) {
            // Browsers do not send an unchecked checkbox.
            (None, None) if field.default == Some(Value::Bool(true)) => Some(Some(Value::Bool(false))),
            (None, None) => None,
            (None, Some(_)) => Some(Some(Value::Bool(false))),
            (Some(_), _) => Some(Some(Value::Bool(true))),
        });
    }
    let Some(raw) = raw else { return Ok(None) };
    let text = raw.trim();
    if text.is_empty() {
        if field.required && field.default.is_none() {
            return Err("required".into());
        }
        return Ok(Some(None));
    }
    let value = match &field.widget {
        Widget::Number { integer: true, .. } => {
            let number: i64 = text.parse().map_err(|_| format!("`{text}` is not an integer"))?;
            Value::Number(number.into())
        }
        Widget::Number { .. } => {
            let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
            Value::Number(Number::from_f64(number).ok_or_else(|| format!("`{text}` is not a number"))?)
        }
        Widget::List => {
            Value::Array(raw.lines().map(str::trim).filter(|l| !l.is_empty()).map(Value::from).collect())
        }
        Widget::Map => {
            let mut map = Map::new();
            for line in raw.lines().map(str::trim).filter(|l| !l.is_empty()) {
                let (key, value) =
                    line.split_once('=').ok_or_else(|| format!("`{line}`: expected key=value"))?;
                map.insert(key.trim().to_owned(), Value::from(value.trim()));
            }
            Value::Object(map)
        }
        Widget::Yaml => parse_yaml(raw)?,
        // An int-or-string value stays a number if it was one.
        Widget::Text { .. } if old.is_some_and(Value::is_number) => {
            text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from)
        }
        Widget::Text { .. } | Widget::Select(_) => Value::from(text),
        // A password may begin with a space.
        Widget::Password => Value::from(raw),
        Widget::Switch | Widget::Group(_) | Widget::Resources => return Ok(None),
    };
    Ok(Some(Some(value)))
}

/// Parses YAML of a user; errors contain the position.
pub(crate) fn parse_yaml(text: &str) -> Result<Value, String> {
    serde_yaml::from_str(text).map_err(|error| error.to_string())
}

/// Sets or removes a field; groups that become empty are removed too.
fn set(document: &mut Value, pointer: &str, value: Option<Value>) {
    let parts: Vec<String> =
        pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    set_at(document, &parts, value);
}

fn set_at(document: &mut Value, parts: &[String], value: Option<Value>) {
    let [key, rest @ ..] = parts else { return };
    if !document.is_object() {
        if value.is_none() {
            return;
        }
        *document = Value::Object(Map::new());
    }
    let Some(map) = document.as_object_mut() else { return };
    if rest.is_empty() {
        match value {
            Some(value) => {
                map.insert(key.clone(), value);
            }
            None => {
                map.shift_remove(key);
            }
        }
        return;
    }
    let removing = value.is_none();
    if removing && !map.contains_key(key) {
        return;
    }
    let inner = map.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
    let had = inner.as_object().is_some_and(|m| !m.is_empty());
    set_at(inner, rest, value);
    if removing && had && inner.as_object().is_some_and(Map::is_empty) {
        map.shift_remove(key);
    }
}

/// The causes that the API server reports, by field of the form. Causes without a field apply to the whole
/// object.
pub(crate) fn of_status(status: &kube::core::Status, fields: &[Field]) -> Problems {
    let mut problems = Problems::new();
    for cause in status.details.iter().flat_map(|details| &details.causes) {
        let pointer = pointer_of(&cause.field);
        let (place, text) = match place(fields, &pointer) {
            Some(place) => (place, plainly(&cause.message)),
            None if cause.field.is_empty() => (String::new(), cause.message.clone()),
            None => (String::new(), format!("{}: {}", cause.field, cause.message)),
        };
        add(&mut problems, place, &text);
    }
    problems
}

/// The same problems at the fields of the form; those outside of the form apply to the whole object.
pub(crate) fn at_fields(problems: Problems, fields: &[Field]) -> Problems {
    let mut out = Problems::new();
    for (pointer, text) in problems {
        match place(fields, &pointer) {
            Some(place) => add(&mut out, place, &text),
            None if pointer.is_empty() => add(&mut out, pointer, &text),
            None => {
                let name = pointer.trim_start_matches('/').replace('/', ".");
                add(&mut out, String::new(), &format!("{name}: {text}"));
            }
        }
    }
    out
}

/// The closest field that contains a position.
fn place(fields: &[Field], pointer: &str) -> Option<String> {
    let contains = |field: &str| {
        pointer == field || pointer.strip_prefix(field).is_some_and(|rest| rest.starts_with('/'))
    };
    let known = fields.iter().flat_map(Field::leaves).map(|f| f.pointer.as_str());
    let named = ["/metadata/name", "/metadata/namespace"].into_iter().filter(|name| *name == pointer);
    known.filter(|k| contains(k)).chain(named).max_by_key(|k| k.len()).map(str::to_owned)
}

fn add(problems: &mut Problems, place: String, text: &str) {
    let all = problems.entry(place).or_default();
    if !all.is_empty() {
        all.push_str("; ");
    }
    all.push_str(text);
}

/// A message of the API server without the value and the path, which the form already shows.
fn plainly(message: &str) -> String {
    let mut text = message;
    if let Some(rest) = text.strip_prefix("Invalid value: ") {
        let end = match rest.strip_prefix('"') {
            Some(inside) => inside.find("\": ").map(|at| at + 4),
            None => rest.find(": ").map(|at| at + 2),
        };
        text = end.map_or(text, |end| &rest[end..]);
    }
    if let Some((_, rest)) = text.split_once(" in body ") {
        text = rest;
    }
    let text = text.split(" (e.g. ").next().unwrap_or(text);
    if text.is_empty() { message.to_owned() } else { text.to_owned() }
}

/// `spec.pod.labels[app.x/y][0]` as a pointer.
fn pointer_of(field: &str) -> String {
    let mut out = String::new();
    for (i, part) in field.split('[').enumerate() {
        let (inside, rest) = match part.split_once(']') {
            Some((inside, rest)) if i > 0 => (Some(inside), rest),
            _ => (None, part),
        };
        if let Some(inside) = inside {
            out.push('/');
            out.push_str(&escape(inside));
        }
        for name in rest.split('.').filter(|name| !name.is_empty()) {
            out.push('/');
            out.push_str(&escape(name));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::form::fields;

    fn schema() -> Value {
        json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 7},
            "version": {"type": "string", "enum": ["3.4.23", "3.5.0"]},
            "paused": {"type": "boolean"},
            "on": {"type": "boolean", "default": true},
            "args": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "pod": {"type": "object", "properties": {
                "resources": {"type": "object", "properties": {"limits": {"type": "object"}, "requests": {"type": "object"}}},
                "note": {"type": "string"}}},
            "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}}})
    }

    #[test]
    fn messages_of_the_api_server_lose_what_the_form_shows() {
        for (message, plain) in [
            (
                "Invalid value: 8: spec.size in body should be less than or equal to 7",
                "should be less than or equal to 7",
            ),
            ("Invalid value: \"a: b\": must be lower case (e.g. 'x', regex is 'y')", "must be lower case"),
            ("Invalid value: \"unended", "Invalid value: \"unended"),
            ("Required value", "Required value"),
            ("Invalid value: 1: ", "Invalid value: 1: "),
        ] {
            assert_eq!(plainly(message), plain);
        }
    }

    #[test]
    fn answers_go_into_the_document_and_the_rest_stays() {
        // given a document with a field that the form does not contain
        let mut document =
            json!({"kind": "X", "spec": {"size": 1, "unknown": {"kept": [1]}, "pod": {"note": "old"}}});
        let fields = fields(&schema(), &[], &Value::Null);
        // when
        let answers = Fields::from([
            ("/spec/size", "3"),
            ("/spec/version", "3.4.23"),
            ("/spec/paused", "on"),
            ("/spec/on", "on"),
            ("/spec/args", "a\n\n b \n"),
            ("/spec/labels", "app = x\ntier=db=2"),
            ("/spec/pod/resources/limits/memory", "64Mi"),
            ("/spec/pod/note", ""),
            ("/spec/raw", "{deep: {er: 1}}"),
            ("/spec/nothing", "ignored"),
        ]);
        let problems = read(&fields, &answers, &mut document);
        // then
        assert_eq!(problems, Problems::new());
        assert_eq!(
            document,
            json!({"kind": "X", "spec": {
                "size": 3, "unknown": {"kept": [1]}, "version": "3.4.23", "paused": true, "on": true, "args": ["a", "b"],
                "labels": {"app": "x", "tier": "db=2"}, "pod": {"resources": {"limits": {"memory": "64Mi"}}},
                "raw": {"deep": {"er": 1}},
            }})
        );
        // and an unchecked checkbox means no where yes is the default
        read(&fields, &Fields::default(), &mut document);
        assert_eq!(document["spec"]["on"], json!(false));
    }

    #[test]
    fn unreadable_fields_are_reported_at_their_place() {
        let mut document = json!({});
        let fields = fields(&schema(), &[], &Value::Null);
        let answers =
            Fields::from([("/spec/size", "many"), ("/spec/labels", "no equals"), ("/spec/raw", "{a: ")]);
        let problems = read(&fields, &answers, &mut document);
        assert_eq!(problems.keys().collect::<Vec<_>>(), ["/spec/labels", "/spec/raw", "/spec/size"]);
        assert_eq!(problems["/spec/size"], "`many` is not an integer");
        let empty = read(&fields, &Fields::from([("/spec/size", " ")]), &mut document);
        assert_eq!(empty["/spec/size"], "required");
    }

    #[test]
    fn causes_find_their_fields() {
        let status: kube::core::Status = serde_json::from_value(json!({
            "status": "Failure", "message": "invalid", "reason": "Invalid", "code": 422,
            "details": {"causes": [
                {"reason": "FieldValueInvalid", "field": "spec.size", "message": "must be 7 or less"},
                {"reason": "FieldValueInvalid", "field": "spec.labels[a.b/c]", "message": "bad"},
                {"reason": "FieldValueInvalid", "field": "spec.other", "message": "unknown"},
                {"reason": "FieldValueInvalid", "field": "metadata.name", "message": "too long"}]}}))
        .unwrap();
        let problems = of_status(&status, &fields(&schema(), &[], &Value::Null));
        assert_eq!(
            problems,
            Problems::from([
                (String::new(), "spec.other: unknown".to_owned()),
                ("/metadata/name".to_owned(), "too long".to_owned()),
                ("/spec/labels".to_owned(), "bad".to_owned()),
                ("/spec/size".to_owned(), "must be 7 or less".to_owned()),
            ])
        );
        assert_eq!(pointer_of("spec.a[0].b[x.y/z]"), "/spec/a/0/b/x.y~1z");
    }
}
