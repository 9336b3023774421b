//! Properties as values of the interpreter.

use std::collections::HashMap;

use cel::common::types::{CelBool, CelDouble, CelList, CelMap, CelMapKey, CelNull, CelString};
use cel::common::value::Val;
use serde_json::Value;

use super::meter::text_units;

/// Above this size of the properties no rule holds. A unit is a value, or 16 bytes of a text; the properties
/// of a bundle without its manifests and metadata have some hundreds.
const MOST_UNITS: u64 = 20_000;
/// Deeper values are not converted, because comparison and copying recurse. The JSON parser has about the
/// same limit.
const MOST_LEVELS: usize = 128;

type Boxed<'v> = Box<dyn Val + 'v>;

/// The variable `properties`; `None` above the size limit.
pub(super) fn list<'v>(properties: &'v [(&'v str, Value)]) -> Option<Boxed<'v>> {
    let mut budget = Budget(MOST_UNITS);
    let list: Option<Vec<Boxed<'_>>> = properties
        .iter()
        .map(|(kind, value)| {
            budget.take(kind)?;
            let kind: Boxed<'_> = Box::new(CelString::from(*kind));
            let value = budget.value(value, MOST_LEVELS)?;
            let map = HashMap::from([(CelMapKey::from("type"), kind), (CelMapKey::from("value"), value)]);
            Some(Box::new(CelMap::from(map)) as Boxed<'_>)
        })
        .collect();
    Some(Box::new(CelList::from(list?)))
}

/// Remaining units.
struct Budget(u64);

impl Budget {
    fn take(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.checked_sub(text_units(text.len()))?;
        Some(())
    }

    fn value<'v>(&mut self, value: &'v Value, levels: usize) -> Option<Boxed<'v>> {
        let levels = levels.checked_sub(1)?;
        self.take("")?;
        Some(match value {
            Value::Null => Box::new(CelNull),
            Value::Bool(value) => Box::new(CelBool::from(*value)),
            // Go reads every number of JSON as a double
            Value::Number(number) => Box::new(CelDouble::from(number.as_f64()?)),
            Value::String(text) => {
                self.take(text)?;
                Box::new(CelString::from(text.as_str()))
            }
            Value::Array(list) => {
                let list: Option<Vec<Boxed<'v>>> =
                    list.iter().map(|value| self.value(value, levels)).collect();
                Box::new(CelList::from(list?))
            }
            Value::Object(map) => {
                let map: Option<HashMap<CelMapKey<'v>, Boxed<'v>>> = map
                    .iter()
                    .map(|(key, value)| {
                        self.take(key)?;
                        Some((CelMapKey::from(key.as_str()), self.value(value, levels)?))
                    })
                    .collect();
                Box::new(CelMap::from(map?))
            }
        })
    }
}
