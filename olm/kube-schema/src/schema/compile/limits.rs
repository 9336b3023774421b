//! Value validations.

use serde_json::{Map, Number, Value};

use super::{Compiler, Place, get};
use crate::{
    field_error::FieldError,
    schema::{child_path, node::Rules, pattern::Pattern},
};

impl Compiler {
    pub(super) fn rules(&mut self, map: &Map<String, Value>, path: &str, depth: usize) -> Rules {
        let mut rules = Rules {
            enumeration: get(map, "enum").and_then(Value::as_array).cloned(),
            minimum: self.number(map, "minimum", path),
            maximum: self.number(map, "maximum", path),
            multiple_of: self.number(map, "multipleOf", path),
            exclusive_minimum: get(map, "exclusiveMinimum") == Some(&Value::Bool(true)),
            exclusive_maximum: get(map, "exclusiveMaximum") == Some(&Value::Bool(true)),
            min_length: self.count(map, "minLength", path),
            max_length: self.count(map, "maxLength", path),
            min_items: self.count(map, "minItems", path),
            max_items: self.count(map, "maxItems", path),
            min_properties: self.count(map, "minProperties", path),
            max_properties: self.count(map, "maxProperties", path),
            format: get(map, "format").and_then(Value::as_str).filter(|f| !f.is_empty()).map(str::to_owned),
            ..Rules::default()
        };
        // Such an object has no properties at all: `properties` next to it are refused.
        if get(map, "additionalProperties") == Some(&Value::Bool(false)) {
            rules.max_properties = Some(0);
        }
        if let Some(required) = get(map, "required").and_then(Value::as_array) {
            rules.required = required.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        }
        if let Some(text) = get(map, "pattern").and_then(Value::as_str).filter(|p| !p.is_empty()) {
            rules.pattern = self.pattern(text, path);
        }
        for (keyword, slot) in
            [("allOf", &mut rules.all_of), ("anyOf", &mut rules.any_of), ("oneOf", &mut rules.one_of)]
        {
            let Some(list) = get(map, keyword).and_then(Value::as_array) else { continue };
            let list_path = child_path(path, keyword);
            for (index, schema) in list.iter().enumerate() {
                let inner = self.node(schema, &format!("{list_path}[{index}]"), Place::Logic, depth + 1);
                slot.push(inner);
            }
        }
        if let Some(schema) = get(map, "not") {
            rules.not = Some(Box::new(self.node(schema, &child_path(path, "not"), Place::Logic, depth + 1)));
        }
        rules
    }

    fn number(&mut self, map: &Map<String, Value>, key: &str, path: &str) -> Option<Number> {
        match get(map, key)? {
            Value::Number(number) => Some(number.clone()),
            other => {
                let detail = "must be a number";
                self.errors.push(FieldError::invalid(child_path(path, key), other.clone(), detail));
                None
            }
        }
    }

    fn count(&mut self, map: &Map<String, Value>, key: &str, path: &str) -> Option<u64> {
        let value = get(map, key)?;
        let count = value.as_u64();
        if count.is_none() {
            let detail = "must be a whole number of at least 0";
            self.errors.push(FieldError::invalid(child_path(path, key), value.clone(), detail));
        }
        count
    }

    fn pattern(&mut self, text: &str, path: &str) -> Option<Pattern> {
        if !self.patterns.contains(text) {
            if let Err(reason) = Pattern::check(text) {
                let detail = format!("must be a valid regular expression, but isn't: {reason}");
                self.errors.push(FieldError::invalid(child_path(path, "pattern"), text, detail));
                return None;
            }
            self.patterns.insert(text.to_owned());
        }
        Some(Pattern::new(text))
    }
}
