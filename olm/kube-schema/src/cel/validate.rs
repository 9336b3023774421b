//! The rules of a whole object.

use std::rc::Rc;

use serde_json::{Map, Value};

use super::eval::{Scope, evaluate};
use super::functions::Library;
use super::rule::Rule;
use super::value::{self, Fault, Val};
use crate::field_error::{ErrorKind, FieldError};
use crate::schema::{Additional, ListType, Node, child_path};

/// Kubernetes' cost limit of all rules of one object.
const MOST_AN_OBJECT: u64 = 10_000_000;
/// Kubernetes drops a longer message of a `messageExpression`.
const LONGEST_MESSAGE: usize = 5 << 10;

const SPENT: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Result of the rules of an object.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) errors: Vec<FieldError>,
    /// Violations that existed before: they do not reject an update.
    pub(crate) known: Vec<FieldError>,
}

/// Runs the rules. `old` is the previous version of the object, if any.
pub(crate) fn validate(root: &Node, object: &Value, old: Option<&Value>, path: &str) -> Verdict {
    let mut run = Run { verdict: Verdict::default(), library: Library::default(), left: MOST_AN_OBJECT };
    let place = Place { path, resource: true, old, now: old.map(|old| (object, old)), parent: None };
    // An exhausted budget is an error among the others.
    let _ = run.node(root, root, object, &place);
    run.verdict
}

/// The budget is exhausted: no further rule runs.
struct BudgetExceeded;

struct Run {
    verdict: Verdict,
    library: Library,
    left: u64,
}

/// The position of a value, with its old value.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    resource: bool,
    /// For transition rules.
    old: Option<&'a Value>,
    /// The value and its old value, where they correlate.
    now: Option<(&'a Value, &'a Value)>,
    /// The same of the nearest enclosing value where they correlate.
    parent: Option<(&'a Value, &'a Value)>,
}

impl<'a> Place<'a> {
    fn inner(&self, path: &'a str, value: &'a Value, old: Option<&'a Value>, correlates: bool) -> Self {
        let inner = Place { path, resource: false, old, now: None, parent: self.parent };
        if self.now.is_none() {
            return inner;
        }
        Place { now: old.filter(|_| correlates).map(|old| (value, old)), parent: self.now, ..inner }
    }

    /// Whether the value, and so its violations, existed before.
    fn is_unchanged(&self) -> bool {
        self.now.or(self.parent).is_some_and(|(new, old)| new == old)
    }
}

impl Run {
    fn node(
        &mut self,
        rules: &Node,
        node: &Node,
        value: &Value,
        place: &Place<'_>,
    ) -> Result<(), BudgetExceeded> {
        // Rules do not apply to null, which the enclosing schema validates.
        if value.is_null() {
            return Ok(());
        }
        self.rules(rules, node, value, place)?;
        for all in rules.rules.iter().flat_map(|logic| &logic.all_of) {
            self.node(all, node, value, &Place { now: None, ..*place })?;
        }
        match value {
            Value::Array(list) => self.items(rules, node, list, place),
            Value::Object(map) => self.fields(rules, node, map, place),
            _ => Ok(()),
        }
    }

    fn fields(
        &mut self,
        rules: &Node,
        node: &Node,
        map: &Map<String, Value>,
        place: &Place<'_>,
    ) -> Result<(), BudgetExceeded> {
        let old_map = place.old.and_then(Value::as_object);
        // Keys of an atomic map do not correlate with those of the old map.
        let correlates = !node.atomic_map;
        for (key, value) in map {
            let old = old_map.and_then(|old| old.get(key));
            if let (Some(rules), Some(node)) = (rules.properties.get(key), node.properties.get(key)) {
                let path = child_path(place.path, key);
                self.node(rules, node, value, &place.inner(&path, value, old, correlates))?;
            } else if let (Additional::Values(rules), Additional::Values(node)) =
                (&rules.additional, &node.additional)
            {
                let path = format!("{}[{key}]", place.path);
                self.node(rules, node, value, &place.inner(&path, value, old, correlates))?;
            }
        }
        Ok(())
    }

    fn items(
        &mut self,
        rules: &Node,
        node: &Node,
        list: &[Value],
        place: &Place<'_>,
    ) -> Result<(), BudgetExceeded> {
        let (Some(rules), Some(items)) = (&rules.items, &node.items) else { return Ok(()) };
        let old_list = place.old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (index, value) in list.iter().enumerate() {
            let old = match &node.list_type {
                ListType::Map(keys) => same_item(old_list, value, keys),
                ListType::Atomic | ListType::Set => None,
            };
            let path = format!("{}[{index}]", place.path);
            self.node(rules, items, value, &place.inner(&path, value, old, true))?;
        }
        Ok(())
    }

    fn rules(
        &mut self,
        rules: &Node,
        node: &Node,
        value: &Value,
        place: &Place<'_>,
    ) -> Result<(), BudgetExceeded> {
        if rules.cel.is_empty() {
            return Ok(());
        }
        if self.left == 0 {
            return self.spent(place, value, SPENT.to_owned());
        }
        let resource = place.resource;
        let self_ = match value::of(value, node, resource) {
            Ok(val) => val,
            Err(fault) => return self.fault(&rules.cel[0], fault, place, value),
        };
        let old_self = match place.old.filter(|old| !old.is_null()).map(|old| value::of(old, node, resource))
        {
            None => None,
            Some(Ok(old)) => Some(old),
            Some(Err(fault)) => return self.fault(&rules.cel[0], fault, place, value),
        };
        let optional = Val::Optional(old_self.clone().map(Rc::new));
        let plain = Scope { self_: self_.clone(), old_self };
        let with_optional = Scope { self_, old_self: Some(optional) };
        for rule in &rules.cel {
            if rule.uses_old_self && plain.old_self.is_none() && !rule.optional_old_self {
                continue;
            }
            let scope = if rule.optional_old_self { &with_optional } else { &plain };
            self.rule(rule, scope, &plain, place, value)?;
        }
        Ok(())
    }

    fn rule(
        &mut self,
        rule: &Rule,
        scope: &Scope<'_>,
        plain: &Scope<'_>,
        place: &Place<'_>,
        value: &Value,
    ) -> Result<(), BudgetExceeded> {
        let (outcome, cost) = evaluate(&rule.expression, scope, &mut self.library);
        let Some(left) = self.left.checked_sub(cost) else {
            return self.spent(place, value, SPENT.to_owned());
        };
        self.left = left;
        match outcome {
            Ok(Val::Bool(true)) => return Ok(()),
            Ok(_) => {}
            Err(fault) => return self.fault(rule, fault, place, value),
        }
        let detail = match &rule.message_expression {
            None => rule.detail(),
            Some(expression) => {
                let (outcome, cost) = evaluate(expression, plain, &mut self.library);
                let Some(left) = self.left.checked_sub(cost) else {
                    let detail = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
                    return self.spent(place, value, detail.to_owned());
                };
                self.left = left;
                match outcome {
                    Ok(Val::Text(text)) => usable(&text).unwrap_or_else(|| rule.detail()),
                    _ => rule.detail(),
                }
            }
        };
        let path = match rule.field.as_str() {
            "" => place.path.to_owned(),
            field if field.starts_with('[') => format!("{}{field}", place.path),
            field => child_path(place.path, field),
        };
        let error = FieldError::of_rule(path, rule.reason, value, detail);
        if !rule.uses_old_self && place.is_unchanged() {
            self.verdict.known.push(error);
        } else {
            self.verdict.errors.push(error);
        }
        Ok(())
    }

    fn fault(
        &mut self,
        rule: &Rule,
        fault: Fault,
        place: &Place<'_>,
        value: &Value,
    ) -> Result<(), BudgetExceeded> {
        let name = rule.name();
        let detail = match fault {
            Fault::Limit => {
                let detail = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                );
                return self.spent(place, value, detail);
            }
            Fault::Error(what) if what.starts_with("no such overload") => format!(
                "'{what}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
            ),
            Fault::Error(what) => format!("{what} evaluating rule: {name}"),
        };
        self.verdict.errors.push(FieldError::of_rule(
            place.path.to_owned(),
            ErrorKind::Invalid,
            value,
            detail,
        ));
        Ok(())
    }

    fn spent(&mut self, place: &Place<'_>, value: &Value, detail: String) -> Result<(), BudgetExceeded> {
        self.verdict.errors.push(FieldError::of_rule(
            place.path.to_owned(),
            ErrorKind::Invalid,
            value,
            detail,
        ));
        Err(BudgetExceeded)
    }
}

/// The item of the old list with the same keys.
pub(crate) fn same_item<'a>(old: &'a [Value], item: &Value, keys: &[String]) -> Option<&'a Value> {
    let mut same =
        old.iter().filter(|old| old.is_object() && keys.iter().all(|key| old.get(key) == item.get(key)));
    same.next()
}

fn usable(message: &str) -> Option<String> {
    let message = message.trim();
    let good = !message.is_empty() && message.len() <= LONGEST_MESSAGE && !message.contains('\n');
    good.then(|| message.to_owned())
}
