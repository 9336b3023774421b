//! Properties of every plan.

use olm_plan::Plan;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::*;

/// A bundle with some ConfigMaps, in some order.
fn case(order: &[usize], values: &[u8]) -> Case {
    let config = |i: &usize| {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("c{i}") },
                "data": { "b": values[*i].to_string(), "a": "x" } })
    };
    Case::of(bundle("1.0.0", order.iter().map(config).collect(), |_| {}), None, "1.0.0")
}

fn order() -> impl Strategy<Value = Vec<usize>> {
    Just((0..5).collect::<Vec<usize>>()).prop_shuffle()
}

/// The same object with the keys of its maps in reverse order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().rev().map(|(k, v)| (k.clone(), reversed(v))).collect(),
        Value::Array(list) => list.iter().map(reversed).collect(),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_digest_does_not_depend_on_any_order(first in order(), second in order(), values in prop::array::uniform5(0..9_u8)) {
        let digest = |case: &Case| case.plan().digest;
        let one = case(&first, &values);
        let mut other = case(&second, &values);
        prop_assert_eq!(digest(&one), digest(&other));
        // nor on the order of keys, nor on existing objects
        if let Ok(rendered) = &mut other.rendered {
            for (_, objects) in &mut rendered.phases {
                for object in objects {
                    *object = reversed(object).into();
                }
            }
        }
        other.live = one.applied();
        prop_assert_eq!(digest(&one), digest(&other));
    }

    #[test]
    fn the_digest_depends_on_every_value(values in prop::array::uniform5(0..9_u8), at in 0..5_usize, by in 1..9_u8) {
        let order: Vec<usize> = (0..5).collect();
        let mut changed = values;
        changed[at] += by;
        prop_assert_ne!(case(&order, &values).plan().digest, case(&order, &changed).plan().digest);
    }

    #[test]
    fn a_plan_that_was_carried_out_has_nothing_left_to_do(values in prop::array::uniform5(0..9_u8), new in prop::array::uniform5(0..9_u8)) {
        let order: Vec<usize> = (0..5).collect();
        let mut next = case(&order, &values).upgrade("1.0.1", bundle("1.0.1", vec![
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c0" }, "data": { "b": new[0].to_string() } }),
        ], |_| {}));
        let first: Plan = next.plan();
        next.live = next.applied();
        let second = next.plan();
        prop_assert_eq!(&first.digest, &second.digest);
        prop_assert_eq!(second.counts(), (0, 0, 0));
    }
}
