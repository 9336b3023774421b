//! Fields that an API server refuses to apply because its schema does not have them.
//!
//! A *create* drops unknown fields with a warning; bundles with such fields (a misspelt key, a newer API than
//! the cluster's) have always installed. Server-side apply refuses the whole object instead (500, "failed to
//! create typed patch object"). Here the same fields are dropped and reported.

use serde_json::{Deserializer, Value};

const REFUSAL: &str = "failed to create typed patch object (";
const UNDECLARED: &str = ": field not declared in schema";

/// Removes the fields that a refusal names from an object and returns their paths; `None`, and nothing
/// removed, when the refusal has any other cause as well. The API server does not name all of them at once.
pub fn strip(refusal: &str, object: &mut Value) -> Option<Vec<String>> {
    let (_, causes) = refusal.strip_prefix(REFUSAL)?.split_once("): ")?;
    let causes = causes.strip_prefix("errors:").unwrap_or(causes);
    let lines = causes.lines().map(str::trim).filter(|line| !line.is_empty());
    let paths: Vec<&str> = lines.map(|line| line.strip_suffix(UNDECLARED)).collect::<Option<_>>()?;
    let mut stripped = object.clone();
    if paths.is_empty() || !paths.iter().all(|path| remove(&mut stripped, path)) {
        return None;
    }
    *object = stripped;
    Some(paths.into_iter().map(|path| path.trim_start_matches('.').to_owned()).collect())
}

/// Removes the value at a path as the API server writes it: `.spec.containers[name="a"].ports[0].foo`.
/// Returns whether it was there.
fn remove(object: &mut Value, path: &str) -> bool {
    let mut at = object;
    let mut rest = path;
    loop {
        if let Some(named) = rest.strip_prefix('.') {
            let Some(fields) = at.as_object_mut() else { return false };
            // Names may contain dots, which are not escaped: the object decides.
            let fits = |name: &&String| {
                let behind = named.strip_prefix(name.as_str());
                behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(['.', '[']))
            };
            let Some(name) = fields.keys().filter(fits).max_by_key(|name| name.len()).cloned() else {
                return false;
            };
            rest = &named[name.len()..];
            if rest.is_empty() {
                return fields.remove(&name).is_some();
            }
            let Some(next) = fields.get_mut(&name) else { return false };
            at = next;
        } else if let Some((element, behind)) = rest.strip_prefix('[').and_then(element) {
            let Some(items) = at.as_array_mut() else { return false };
            let Some(next) = items.iter_mut().enumerate().find(|(i, item)| element.is(*i, item)) else {
                return false;
            };
            (at, rest) = (next.1, behind);
        } else {
            return false;
        }
    }
}

enum Element<'a> {
    At(usize),
    With(Vec<(&'a str, Value)>),
}

impl Element<'_> {
    fn is(&self, index: usize, item: &Value) -> bool {
        match self {
            Self::At(at) => *at == index,
            // A missing key has its default.
            Self::With(keys) => {
                keys.iter().all(|(name, value)| item.get(*name).is_none_or(|there| there == value))
            }
        }
    }
}

/// Parses `3]...` or `name="a",port=1]...`, and returns the rest.
fn element(text: &str) -> Option<(Element<'_>, &str)> {
    if let Some((index, behind)) = text.split_once(']')
        && let Ok(index) = index.parse()
    {
        return Some((Element::At(index), behind));
    }
    let mut keys = Vec::new();
    let mut rest = text;
    loop {
        let (name, behind) = rest.split_once('=')?;
        let mut values = Deserializer::from_str(behind).into_iter::<Value>();
        let value = values.next()?.ok()?;
        keys.push((name, value));
        rest = &behind[values.byte_offset()..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some((Element::With(keys), rest.strip_prefix(']')?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Value {
        json!({ "metadata": { "strange": 1 }, "spec": { "foo.bar": 1, "foo": { "bar": 2 }, "template": { "spec": {
            "tolerations": [{ "y": 1 }],
            "containers": [
                { "name": "b", "port": 1 },
                { "name": "a]=,\"", "port": 1, "ports": [{ "containerPort": 80, "x": 1 }, { "containerPort": 81, "x": 1 }] },
            ] } } } })
    }

    #[test]
    fn the_fields_that_are_named_are_taken_out() {
        // given the messages of Kubernetes 1.36
        let refusal = "failed to create typed patch object (x/d; apps/v1, Kind=Deployment): errors:\n  \
            .metadata.strange: field not declared in schema\n  \
            .spec.foo.bar: field not declared in schema\n  \
            .spec.template.spec.tolerations[0].y: field not declared in schema\n  \
            .spec.template.spec.containers[name=\"a]=,\\\"\"].ports[containerPort=81,protocol=\"TCP\"].x: field not declared in schema";
        let mut object = deployment();
        // when
        let left_out = strip(refusal, &mut object).unwrap();
        // then these are gone and no others
        assert_eq!(left_out.len(), 4);
        assert_eq!(left_out[1], "spec.foo.bar");
        let mut wanted = deployment();
        wanted["metadata"] = json!({});
        wanted["spec"].as_object_mut().unwrap().remove("foo.bar");
        let pod = &mut wanted["spec"]["template"]["spec"];
        pod["tolerations"][0] = json!({});
        pod["containers"][1]["ports"][1] = json!({ "containerPort": 81 });
        assert_eq!(object, wanted);
    }

    #[test]
    fn a_refusal_of_anything_else_is_left_alone() {
        let start = "failed to create typed patch object (x/d; apps/v1, Kind=Deployment): ";
        for causes in [
            ".spec.template.spec.containers[name=\"b\"].env: duplicate entries for key [name=\"A\"]",
            "errors:\n  .metadata.strange: field not declared in schema\n  .spec.foo: expected string, got 1",
            ".spec.nowhere: field not declared in schema",
            ".spec.template.spec.containers[name=\"z\"].port: field not declared in schema",
            ".spec.template.spec.containers[9].port: field not declared in schema",
            ".spec.template.spec.containers[name=\"b: field not declared in schema",
            "..[[: field not declared in schema",
            "",
        ] {
            let mut object = deployment();
            assert_eq!(strip(&format!("{start}{causes}"), &mut object), None, "{causes}");
            assert_eq!(object, deployment(), "{causes}");
        }
        assert_eq!(strip("the server refused it", &mut deployment()), None);
    }
}
