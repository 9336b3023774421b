//! Secret values of an object: hidden on pages, and restored before a write.
//!
//! Secret are passwords by descriptor, strings of format `password`, and what plans mask: environment
//! variables with the name of a credential. A page shows a numbered placeholder for each. The number stands
//! for the position in the live object, so that a moved placeholder is not taken for another value.

use std::collections::BTreeSet;

use olm_api::csv::SpecDescriptor;
use olm_plan::without_secrets;
use serde_json::Value;

use super::{Descriptor, field::escape, read::Problems};

/// Displayed instead of a secret value.
pub(crate) const HIDDEN: &str = "••••••";

const MISPLACED: &str = "the placeholder of a hidden value cannot be saved here, expected the value";

pub(crate) struct Secrets<'a> {
    schema: Option<&'a Value>,
    /// JSON pointers of passwords by descriptor.
    described: Vec<String>,
}

impl<'a> Secrets<'a> {
    pub(crate) fn new(schema: Option<&'a Value>, descriptors: &[SpecDescriptor]) -> Self {
        let passwords = descriptors.iter().filter(|d| Descriptor::parse(&d.x_descriptors).password);
        let described = passwords.map(|d| format!("/spec/{}", pointer(&d.path))).collect();
        Self { schema, described }
    }

    /// Whether an object contains secret values.
    pub(crate) fn any(&self, object: &Value) -> bool {
        !self.positions(object).is_empty()
    }

    /// The object with a numbered placeholder for each secret value.
    pub(crate) fn hide(&self, object: &Value) -> Value {
        self.replace(object, |n| format!("{HIDDEN}{n}"))
    }

    /// The object with the same placeholder for all secret values.
    pub(crate) fn mask(&self, object: &Value) -> Value {
        self.replace(object, |_| HIDDEN.to_owned())
    }

    fn replace(&self, object: &Value, placeholder: impl Fn(usize) -> String) -> Value {
        let mut out = object.clone();
        for (i, position) in self.positions(object).iter().enumerate() {
            if let Some(value) = out.pointer_mut(position) {
                *value = placeholder(i + 1).into();
            }
        }
        out
    }

    /// Replaces the placeholders of a document by the values of the object that [`hide`](Self::hide) hid. At a
    /// position that pages show, a placeholder is a problem.
    pub(crate) fn restore(&self, document: &mut Value, object: &Value) -> Problems {
        let hidden: Vec<Value> =
            self.positions(object).iter().filter_map(|position| object.pointer(position).cloned()).collect();
        let mut problems = Problems::new();
        let mut restored = Vec::new();
        visit(document, "", &mut |value, at| {
            let Some(text) = value.as_str().filter(|text| text.contains(HIDDEN)) else { return };
            match number(text).and_then(|n| hidden.get(n.checked_sub(1)?)) {
                Some(secret) => {
                    *value = secret.clone();
                    restored.push(at.to_owned());
                }
                None => _ = problems.insert(at.to_owned(), MISPLACED.to_owned()),
            }
        });
        let secret = self.positions(document);
        let shown = restored.into_iter().filter(|at| !secret.contains(at));
        problems.extend(shown.map(|at| (at, MISPLACED.to_owned())));
        problems
    }

    /// A message of the API server without the secret values of an object, which it repeats when it refuses them.
    pub(crate) fn redact(&self, message: &str, object: &Value) -> String {
        let positions = self.positions(object);
        let values = positions.iter().filter_map(|position| object.pointer(position)?.as_str());
        // A message contains a value as it is, or as a quoted text without its quotes.
        let quoted = |value: &str| {
            let text = Value::from(value).to_string();
            text.get(1..text.len().saturating_sub(1)).unwrap_or_default().to_owned()
        };
        let mut forms: Vec<String> = values.flat_map(|value| [value.to_owned(), quoted(value)]).collect();
        // The longest first: one value may be part of another.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.retain(|form| !form.is_empty());
        forms.iter().fold(message.to_owned(), |message, form| message.replace(form, HIDDEN))
    }

    /// Positions of the secret strings, in a fixed order.
    fn positions(&self, object: &Value) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        for at in &self.described {
            if let Some(value) = object.pointer(at) {
                strings(value, at, &mut |_| true, &mut out);
            }
        }
        if let Some(schema) = self.schema {
            passwords(schema, object, "", &mut out);
        }
        masked(object, &without_secrets(object), "", &mut out);
        // A text that looks like a placeholder is hidden too, so that each placeholder stands for a value.
        strings(object, "", &mut |text| text.contains(HIDDEN), &mut out);
        out
    }
}

/// Renumbers the placeholders of a document: from those of `from` to those of `to`, two states of one object.
/// The placeholder of a value that has no certain counterpart loses its number, and cannot be restored.
pub(super) fn renumber(document: &Value, from: &Value, to: &Value) -> Value {
    let mut positions = Vec::new();
    visit(&mut from.clone(), "", &mut |value, at| {
        if let Some(n) = value.as_str().and_then(number) {
            positions.push((n, at.to_owned()));
        }
    });
    let counterpart = |n: usize| {
        let (_, at) = positions.iter().find(|(m, _)| *m == n)?;
        let same_lists = prefixes(at).filter(|list| from.pointer(list).is_some_and(Value::is_array)).all(
            // Elements of a changed list may have moved.
            |list| from.pointer(list).map(unnumbered) == to.pointer(list).map(unnumbered),
        );
        to.pointer(at).filter(|value| same_lists && value.as_str().and_then(number).is_some()).cloned()
    };
    let mut out = document.clone();
    visit(&mut out, "", &mut |value, _| {
        if let Some(n) = value.as_str().and_then(number) {
            *value = counterpart(n).unwrap_or_else(|| HIDDEN.into());
        }
    });
    out
}

fn unnumbered(value: &Value) -> Value {
    let mut out = value.clone();
    visit(&mut out, "", &mut |value, _| {
        if value.as_str().and_then(number).is_some() {
            *value = HIDDEN.into();
        }
    });
    out
}

/// `/a/b` of `/a/b/c`, then `/a`.
fn prefixes(pointer: &str) -> impl Iterator<Item = &str> {
    pointer.rmatch_indices('/').map(|(at, _)| &pointer[..at])
}

/// The number of a placeholder.
fn number(text: &str) -> Option<usize> {
    text.strip_prefix(HIDDEN)?.parse().ok()
}

/// `a.b[0]` as `a/b/0`.
fn pointer(path: &str) -> String {
    path.replace('[', ".").replace(']', "").replace('.', "/")
}

fn visit(value: &mut Value, at: &str, each: &mut impl FnMut(&mut Value, &str)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                visit(value, &format!("{at}/{}", escape(key)), each);
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter_mut().enumerate() {
                visit(value, &format!("{at}/{i}"), each);
            }
        }
        _ => each(value, at),
    }
}

/// The positions of some strings below a value.
fn strings(value: &Value, at: &str, wanted: &mut impl FnMut(&str) -> bool, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| strings(value, &format!("{at}/{}", escape(key)), wanted, out));
        }
        Value::Array(items) => {
            let each = items.iter().enumerate();
            each.for_each(|(i, value)| strings(value, &format!("{at}/{i}"), wanted, out));
        }
        Value::String(text) if !text.is_empty() && wanted(text) => _ = out.insert(at.to_owned()),
        _ => {}
    }
}

/// Positions of strings of format `password`.
fn passwords(schema: &Value, value: &Value, at: &str, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let named = schema.get("properties").and_then(|properties| properties.get(key));
                if let Some(schema) = named.or_else(|| schema.get("additionalProperties")) {
                    passwords(schema, value, &format!("{at}/{}", escape(key)), out);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (i, value) in items.iter().enumerate() {
                    passwords(schema, value, &format!("{at}/{i}"), out);
                }
            }
        }
        Value::String(text)
            if !text.is_empty() && schema.get("format").and_then(Value::as_str) == Some("password") =>
        {
            out.insert(at.to_owned());
        }
        _ => {}
    }
}

/// Positions of strings that another rule masked, alone or with the value that contains them.
fn masked(value: &Value, shown: &Value, at: &str, out: &mut BTreeSet<String>) {
    match (value, shown) {
        (Value::Object(map), Value::Object(shown)) => {
            for (key, value) in map {
                if let Some(shown) = shown.get(key) {
                    masked(value, shown, &format!("{at}/{}", escape(key)), out);
                }
            }
        }
        (Value::Array(items), Value::Array(shown)) => {
            for (i, (value, shown)) in items.iter().zip(shown).enumerate() {
                masked(value, shown, &format!("{at}/{i}"), out);
            }
        }
        (value, shown) if value != shown => strings(value, at, &mut |_| true, out),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secrets(schema: &Value) -> Secrets<'_> {
        let descriptor = SpecDescriptor {
            path: "admin.password".into(),
            x_descriptors: vec!["urn:alm:descriptor:com.tectonic.ui:password".into()],
            ..SpecDescriptor::default()
        };
        Secrets::new(Some(schema), &[descriptor])
    }

    fn schema() -> Value {
        json!({"properties": {"spec": {"properties": {"users": {"items": {"properties": {
            "key": {"type": "string", "format": "password"}}}}}}}})
    }

    fn object() -> Value {
        json!({"kind": "X", "spec": {
            "admin": {"password": "aaa"},
            "users": [{"name": "u", "key": "bbb"}, {"name": "v", "key": "ccc"}],
            "env": [{"name": "DB_PASSWORD", "value": "ddd"}, {"name": "MODE", "value": "fast"}],
            "odd": "••••••1",
        }})
    }

    #[test]
    fn hidden_values_are_restored_where_they_belong() {
        let schema = schema();
        let secrets = secrets(&schema);
        let mut document = secrets.hide(&object());
        let shown = document.to_string();
        for secret in ["aaa", "bbb", "ccc", "ddd"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("fast"), "{shown}");
        // when an element is removed before another one
        document["spec"]["users"].as_array_mut().unwrap().remove(0);
        document["spec"]["admin"]["password"] = "new".into();
        // then the other keeps its own value
        assert_eq!(secrets.restore(&mut document, &object()), Problems::new());
        let mut expected = object();
        expected["spec"]["users"].as_array_mut().unwrap().remove(0);
        expected["spec"]["admin"]["password"] = "new".into();
        assert_eq!(document, expected);
    }

    #[test]
    fn a_placeholder_is_never_a_value() {
        let schema = schema();
        let secrets = secrets(&schema);
        for text in [HIDDEN, "••••••99", "••••••0", "x••••••1", "••••••1 "]
        {
            let mut document = json!({"spec": {"note": text}});
            let problems = secrets.restore(&mut document, &object());
            assert_eq!(problems.keys().collect::<Vec<_>>(), ["/spec/note"], "{text}");
        }
    }

    #[test]
    fn a_hidden_value_does_not_move_to_a_displayed_field() {
        let schema = schema();
        let secrets = secrets(&schema);
        for (at, field) in [("/spec/note", "note"), ("/spec/env/1/value", "env")] {
            let mut document = secrets.hide(&object());
            match field {
                "note" => document["spec"]["note"] = document["spec"]["admin"]["password"].clone(),
                _ => document["spec"]["env"][1]["value"] = document["spec"]["env"][0]["value"].clone(),
            }
            let problems = secrets.restore(&mut document, &object());
            assert_eq!(problems.keys().collect::<Vec<_>>(), [at]);
        }
    }

    #[test]
    fn messages_do_not_repeat_hidden_values() {
        let schema = schema();
        let message = "spec.admin.password: Invalid value: \"aaa\": too short, ddd, fast";
        assert_eq!(
            secrets(&schema).redact(message, &object()),
            "spec.admin.password: Invalid value: \"••••••\": too short, ••••••, fast"
        );
        // a value that contains another one, and a quoted one
        let object = json!({"spec": {"users": [{"key": "bbb"}, {"key": "bbb-and-more"}, {"key": "c\"d"}]}});
        assert_eq!(
            secrets(&schema).redact("bbb-and-more, bbb, \"c\\\"d\"", &object),
            "••••••, ••••••, \"••••••\""
        );
    }

    #[test]
    fn nested_values_of_a_masked_field_are_hidden() {
        let object = json!({"kind": "Secret", "data": {"login": {"password": "aaa"}, "key": "bbb"}});
        let hidden = Secrets::new(None, &[]).hide(&object).to_string();
        assert!(!hidden.contains("aaa") && !hidden.contains("bbb") && hidden.contains("login"), "{hidden}");
    }

    #[test]
    fn placeholders_follow_their_values_into_a_newer_object() {
        let schema = schema();
        let secrets = secrets(&schema);
        let (old, mut new) = (object(), object());
        // an earlier position gets a secret
        new["spec"]["aa"] = json!([{"name": "A_TOKEN", "value": "zzz"}]);
        let moved = renumber(&secrets.hide(&old), &secrets.hide(&old), &secrets.hide(&new));
        let mut restored = moved.clone();
        assert_eq!(secrets.restore(&mut restored, &new), Problems::new());
        assert_eq!(restored, old);
        // and elements of a list that changed are not guessed
        new["spec"]["users"].as_array_mut().unwrap().remove(0);
        let mut moved = renumber(&secrets.hide(&old), &secrets.hide(&old), &secrets.hide(&new));
        let problems = secrets.restore(&mut moved, &new);
        assert_eq!(problems.keys().collect::<Vec<_>>(), ["/spec/users/0/key", "/spec/users/1/key"]);
    }
}
