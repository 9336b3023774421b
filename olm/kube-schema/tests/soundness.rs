//! Edits a schema at random, and checks valid objects against the result: the comparison must report every
//! edit that rejects or loses data.

use std::cell::Cell;

use olm_kube_schema::{Severity, check_objects, compare, schema::Schema};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A sequence of choices; after its end, the first alternative is taken.
struct Choices<'a> {
    left: &'a [u8],
}

impl Choices<'_> {
    fn pick(&mut self, of: usize) -> usize {
        let Some((first, rest)) = self.left.split_first() else { return 0 };
        self.left = rest;
        usize::from(*first) % of
    }

    fn maybe(&mut self) -> bool {
        self.pick(2) == 1
    }
}

/// A structural schema.
fn schema(choices: &mut Choices<'_>, depth: usize) -> Value {
    let shape = if depth == 0 { choices.pick(4) } else { choices.pick(8) };
    let mut schema = match shape {
        0 => json!({"type": "string"}),
        1 => json!({"type": "integer"}),
        2 => json!({"type": "boolean"}),
        3 => json!({"x-kubernetes-int-or-string": true}),
        4 => json!({"type": "array", "items": schema(choices, depth - 1)}),
        5 => json!({"type": "object", "additionalProperties": schema(choices, depth - 1)}),
        _ => {
            let names = ["a", "b", "c"];
            let properties: Map<String, Value> = names
                .iter()
                .filter(|_| choices.maybe())
                .collect::<Vec<_>>()
                .into_iter()
                .map(|name| ((*name).to_owned(), schema(choices, depth - 1)))
                .collect();
            json!({"type": "object", "properties": properties})
        }
    };
    for _ in 0..choices.pick(3) {
        edit(&mut schema, choices);
    }
    schema
}

/// Makes one change to a schema; not every edit makes sense for every type.
fn edit(schema: &mut Value, choices: &mut Choices<'_>) {
    let small = choices.pick(3);
    let Some(map) = schema.as_object_mut() else { return };
    let mut set = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    match choices.pick(20) {
        0 => set("minLength", json!(small)),
        1 => set("maxLength", json!(small)),
        2 => set("minimum", json!(small)),
        3 => set("maximum", json!(small)),
        4 => set("enum", [json!(["x", 1, true]), json!(["x", "xy"]), json!([0, 1, 2])][small].clone()),
        5 => set("pattern", json!(["^x", "y", "^[0-9]*$"][small])),
        6 => set("nullable", json!(small > 0)),
        7 => set("minItems", json!(small)),
        8 => set("maxItems", json!(small)),
        9 => set("minProperties", json!(small)),
        10 => set("maxProperties", json!(small)),
        11 => set("required", [json!([]), json!(["a"]), json!(["b", "a"])][small].clone()),
        12 => set("multipleOf", json!(small + 1)),
        13 => set("x-kubernetes-preserve-unknown-fields", json!(true)),
        14 => set("x-kubernetes-list-type", json!(["atomic", "set", "atomic"][small])),
        15 => set("format", json!(["int32", "date", "int64"][small])),
        16 => set("default", [json!("x"), json!(1), json!({})][small].clone()),
        17 => {
            let keys: Vec<String> =
                map.keys().filter(|key| !matches!(key.as_str(), "type" | "items")).cloned().collect();
            if let Some(key) = keys.get(small) {
                map.shift_remove(key);
            }
        }
        18 => {
            let fields = map.get_mut("properties").and_then(Value::as_object_mut);
            if let Some(fields) = fields {
                fields.shift_remove(["a", "b", "c"][small]);
            }
        }
        _ => {
            *schema = [json!({"type": "string"}), json!({"type": "integer"}), json!({"type": "number"})]
                [small]
                .clone()
        }
    }
}

/// Edits a random part of a schema.
fn edit_somewhere(schema: &mut Value, choices: &mut Choices<'_>) {
    let inner: Vec<String> =
        ["/items", "/additionalProperties", "/properties/a", "/properties/b", "/properties/c"]
            .iter()
            .filter(|pointer| schema.pointer(pointer).is_some_and(Value::is_object))
            .map(|pointer| (*pointer).to_owned())
            .collect();
    let pick = choices.pick(inner.len() + 1);
    match inner.get(pick.wrapping_sub(1)).and_then(|pointer| schema.pointer_mut(pointer)) {
        Some(inner) => edit_somewhere(inner, choices),
        None => edit(schema, choices),
    }
}

/// A value that is likely to be valid.
fn value(schema: &Value, choices: &mut Choices<'_>, depth: usize) -> Value {
    if depth == 0 || choices.pick(12) == 11 {
        return [json!(null), json!("x"), json!(1), json!({}), json!([])][choices.pick(5)].clone();
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.is_empty()) {
        return allowed[choices.pick(allowed.len())].clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!(["x", "", "xy", "7", "2024-01-01"][choices.pick(5)]),
        Some("integer" | "number") => json!([0, 1, 2, 3][choices.pick(4)]),
        Some("boolean") => json!(choices.maybe()),
        Some("array") => (0..choices.pick(3)).map(|_| value(&schema["items"], choices, depth - 1)).collect(),
        Some("object") => {
            let mut map = Map::new();
            for name in ["a", "b", "c", "d"] {
                let inner = schema["properties"].get(name).or(schema.get("additionalProperties"));
                if let Some(inner) = inner.filter(|_| choices.pick(4) > 0) {
                    map.insert(name.to_owned(), value(inner, choices, depth - 1));
                } else if inner.is_none() && choices.pick(4) == 3 {
                    map.insert(name.to_owned(), json!("unknown"));
                }
            }
            map.into()
        }
        _ => [json!("x"), json!(1), json!({"a": "x"})][choices.pick(3)].clone(),
    }
}

fn crd(spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "caches.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "caches", "kind": "Cache"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec}}}}],
        },
    })
}

thread_local! {
    /// Number of valid objects that became invalid.
    static INVALIDATED: Cell<usize> = const { Cell::new(0) };
    /// Number of harmless changes.
    static HARMLESS: Cell<usize> = const { Cell::new(0) };
}

fn no_object_is_refused_or_loses_fields_without_a_finding(choices: &[u8]) -> Result<(), TestCaseError> {
    // given a definition, a valid object, and an edited definition
    let mut choices = Choices { left: choices };
    let old = schema(&mut choices, 3);
    let mut new = old.clone();
    for _ in 0..=choices.pick(2) {
        edit_somewhere(&mut new, &mut choices);
    }
    let (live, next) = (crd(&old), crd(&new));
    let changes = compare(&live, &next);
    let harmless = changes.iter().all(|change| change.severity == Severity::Safe);
    for _ in 0..4 {
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Cache", "metadata": {"name": "x"},
            "spec": value(&old, &mut choices, 4),
        });
        if !check_objects(&live, [&object]).is_clean() {
            continue;
        }
        // when the object is checked against the new definition
        let report = check_objects(&next, [&object]);
        // then the comparison reported the effect
        if report.failing + report.losing > 0 {
            INVALIDATED.set(INVALIDATED.get() + 1);
            prop_assert!(!harmless, "{} from {} to {}: {:?}", object, old, new, report);
        } else if harmless && report.checked > 0 {
            HARMLESS.set(HARMLESS.get() + 1);
        }
    }
    Ok(())
}

fn pruning_and_defaulting_twice_is_once(choices: &[u8]) -> Result<(), TestCaseError> {
    let mut choices = Choices { left: choices };
    let spec = schema(&mut choices, 3);
    let mut object = json!({"spec": value(&spec, &mut choices, 4)});
    let Ok(schema) = Schema::compile(&json!({"type": "object", "properties": {"spec": spec}}), "s") else {
        return Ok(());
    };
    schema.prune(&mut object);
    schema.default(&mut object);
    let once = object.clone();
    prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new());
    schema.default(&mut object);
    prop_assert_eq!(object, once);
    Ok(())
}

#[test]
fn the_comparison_reports_every_breaking_edit() {
    let config = ProptestConfig { cases: 4_000, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let choices = proptest::collection::vec(any::<u8>(), 0..120);
    runner
        .run(&choices, |choices| {
            no_object_is_refused_or_loses_fields_without_a_finding(&choices)?;
            pruning_and_defaulting_twice_is_once(&choices)
        })
        .unwrap_or_else(|error| panic!("{error}"));
    println!("{} objects did not fit any more, {} changes were harmless", INVALIDATED.get(), HARMLESS.get());
    assert!(INVALIDATED.get() > 100, "only {} objects did not fit any more", INVALIDATED.get());
    assert!(HARMLESS.get() > 100, "only {} changes were harmless", HARMLESS.get());
}
