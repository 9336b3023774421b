//! The size of values in cost units.

use serde_json::Value;

use super::value::Val;

/// Above any cost limit of an expression.
const HEAVY: u64 = 2_000_000;

impl Val<'_> {
    /// Units to traverse the value, counted up to [`HEAVY`]: lists can contain the same list many times, and
    /// counting must not take longer than the traversal that it bounds.
    pub(super) fn weight(&self) -> u64 {
        let mut weight = 0;
        self.weigh(&mut weight);
        weight
    }

    fn weigh(&self, weight: &mut u64) {
        *weight += 1;
        match self {
            Self::Text(text) => *weight += text.len() as u64 / 10,
            Self::Bytes(bytes) => *weight += bytes.len() as u64 / 10,
            Self::List(list) => list.iter().for_each(|item| item.weigh_unless_heavy(weight)),
            Self::Map(map) => map.values().for_each(|value| value.weigh_unless_heavy(weight)),
            Self::Optional(Some(value)) => value.weigh_unless_heavy(weight),
            Self::JsonList(list, _) => *weight += list.iter().map(of_json).sum::<u64>(),
            Self::JsonMap(map, _) | Self::Object(map, ..) => {
                *weight += map.values().map(of_json).sum::<u64>()
            }
            _ => {}
        }
    }

    fn weigh_unless_heavy(&self, weight: &mut u64) {
        if *weight < HEAVY {
            self.weigh(weight);
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
