//! The size of values in cost units.

use serde_json::Value;

use super::value::Val;

/// Above any cost limit of an expression.
const MAX_UNITS: u64 = 2_000_000;

impl Val<'_> {
    /// Units to traverse the value, counted up to [`MAX_UNITS`]: lists can contain the same list many times, and
    /// counting must not take longer than the traversal that it bounds.
    pub(super) fn cost_units(&self) -> u64 {
        let mut cost_units = 0;
        self.add_cost(&mut cost_units);
        cost_units
    }

    fn add_cost(&self, cost_units: &mut u64) {
        *cost_units += 1;
        match self {
            Self::Text(text) => *cost_units += text.len() as u64 / 10,
            Self::Bytes(bytes) => *cost_units += bytes.len() as u64 / 10,
            Self::List(list) => list.iter().for_each(|item| item.add_cost_below_limit(cost_units)),
            Self::Map(map) => map.values().for_each(|value| value.add_cost_below_limit(cost_units)),
            Self::Optional(Some(value)) => value.add_cost_below_limit(cost_units),
            Self::JsonList(list, _) => *cost_units += list.iter().map(of_json).sum::<u64>(),
            Self::JsonMap(map, _) | Self::Object(map, ..) => {
                *cost_units += map.values().map(of_json).sum::<u64>()
            }
            _ => {}
        }
    }

    fn add_cost_below_limit(&self, cost_units: &mut u64) {
        if *cost_units < MAX_UNITS {
            self.add_cost(cost_units);
        }
    }

    /// Units to copy the value.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64 / 10 + 1,
            Self::Bytes(bytes) => bytes.len() as u64 / 10 + 1,
            other => other.len().unwrap_or_default() as u64 + 1,
        }
    }
}

fn of_json(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 10 + 1,
        Value::Array(list) => list.iter().map(of_json).sum::<u64>() + 1,
        Value::Object(map) => map.values().map(of_json).sum::<u64>() + 1,
        _ => 1,
    }
}
