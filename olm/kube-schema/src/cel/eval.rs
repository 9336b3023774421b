//! Evaluates expressions and counts the cost.
//!
//! The units are Kubernetes': one for a variable, a field and a call, ten for a list, thirty for a map, one
//! for every ten bytes of text that is read.

use std::collections::BTreeMap;
use std::rc::Rc;

use cel::common::ast::operators as op;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapExpr, SelectExpr, StructExpr,
};

use super::check::{is_qualified, qualified};
use super::functions::Library;
use super::parse::{MAP_INSERT, Parsed};
use super::signatures;
use super::types::unescape;
use super::value::{Fault, Key, Outcome, Text, Val, error, no_overload};

/// Kubernetes' cost limit of one expression.
pub(super) const MOST_A_CALL: u64 = 1_000_000;

const LIST_UNITS: u64 = 10;
const MAP_UNITS: u64 = 30;

pub(super) struct Scope<'a> {
    pub(super) self_: Val<'a>,
    pub(super) old_self: Option<Val<'a>>,
}

/// Evaluates an expression; returns its cost with the outcome.
pub(super) fn evaluate<'a>(
    expression: &'a Parsed,
    scope: &Scope<'a>,
    library: &mut Library,
) -> (Outcome<'a>, u64) {
    let mut locals = vec![("self", Ok(scope.self_.clone()))];
    locals.extend(scope.old_self.clone().map(|old_self| ("oldSelf", Ok(old_self))));
    let mut eval = Eval { library, locals, spent: 0 };
    let outcome = eval.value(&expression.root);
    (outcome, eval.spent)
}

/// As [`evaluate`], with other variables; a variable may be a fault, which its users report.
pub(super) fn evaluate_with<'a>(
    expression: &'a Parsed,
    variables: &[(&'a str, Outcome<'a>)],
    library: &mut Library,
) -> Outcome<'a> {
    Eval { library, locals: variables.to_vec(), spent: 0 }.value(&expression.root)
}

struct Eval<'a, 'l> {
    library: &'l mut Library,
    /// Variables: those of the rule, then those of the enclosing loops, the innermost last. An accumulator
    /// can hold a fault that a later step replaces.
    locals: Vec<(&'a str, Outcome<'a>)>,
    spent: u64,
}

impl<'a> Eval<'a, '_> {
    fn spend(&mut self, units: u64) -> Result<(), Fault> {
        self.spent = self.spent.saturating_add(units);
        if self.spent > self.library.limit() { Err(Fault::Limit) } else { Ok(()) }
    }

    fn value(&mut self, expression: &'a IdedExpr) -> Outcome<'a> {
        match &expression.expr {
            Expr::Literal(literal) => Ok(of_literal(literal)),
            Expr::Ident(name) => {
                self.spend(1)?;
                self.variable(name)
            }
            Expr::Select(select) => {
                self.spend(u64::from(!select.test))?;
                if let Some(variable) = self.qualified(select) {
                    return if select.test { Ok(true.into()) } else { variable };
                }
                let operand = self.value(&select.operand)?;
                if select.test { has(&operand, &select.field) } else { field(&operand, &select.field) }
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(inner) => self.run(inner),
            Expr::List(list) => {
                self.spend(LIST_UNITS)?;
                let mut items = Vec::with_capacity(list.elements.len());
                for (index, element) in list.elements.iter().enumerate() {
                    let item = self.value(element)?;
                    match item {
                        Val::Optional(item) if list.optional_indices.contains(&index) => {
                            items.extend(item.map(|item| Val::clone(&item)));
                        }
                        item => items.push(item),
                    }
                }
                Ok(Val::list(items))
            }
            Expr::Map(map) => self.map(map),
            Expr::Struct(message) => self.message(message),
            Expr::Unspecified => Err(no_overload()),
        }
    }

    fn variable(&mut self, name: &str) -> Outcome<'a> {
        if let Some((_, value)) = self.locals.iter().rev().find(|(local, _)| *local == name) {
            return value.clone();
        }
        kind(name).map(Val::Kind).ok_or_else(|| error(format!("no such attribute(s): {name}")))
    }

    /// The variable with a two-part name.
    fn qualified(&self, select: &SelectExpr) -> Option<Outcome<'a>> {
        let Expr::Ident(first) = &select.operand.expr else { return None };
        let mut locals = self.locals.iter();
        let found = locals.find(|(name, _)| is_qualified(name, first, &select.field));
        found.map(|(_, value)| value.clone())
    }

    /// Evaluates an object literal of a patch to its fields.
    fn message(&mut self, message: &'a StructExpr) -> Outcome<'a> {
        self.spend(MAP_UNITS)?;
        let mut out = BTreeMap::new();
        for entry in &message.entries {
            let EntryExpr::StructField(field) = &entry.expr else { return Err(no_overload()) };
            let value = match self.value(&field.value)? {
                Val::Optional(value) if field.optional => match value {
                    Some(value) => Val::clone(&value),
                    None => continue,
                },
                value => value,
            };
            out.insert(
                Key::Text(unescape(&field.field).unwrap_or_else(|| field.field.clone()).into()),
                value,
            );
        }
        Ok(Val::Map(Rc::new(out)))
    }

    fn map(&mut self, map: &'a MapExpr) -> Outcome<'a> {
        self.spend(MAP_UNITS)?;
        let mut out = BTreeMap::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(no_overload()) };
            let key = self.value(&entry.key)?.key().ok_or_else(|| error("unsupported key type"))?;
            let value = match self.value(&entry.value)? {
                Val::Optional(value) if entry.optional => match value {
                    Some(value) => Val::clone(&value),
                    None => continue,
                },
                value => value,
            };
            if out.insert(key, value).is_some() {
                return Err(error("Failed with repeated key"));
            }
        }
        Ok(Val::Map(Rc::new(out)))
    }

    fn call(&mut self, call: &'a CallExpr) -> Outcome<'a> {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            (op::LOGICAL_AND, [a, b]) => return self.logic(a, b, false),
            (op::LOGICAL_OR, [a, b]) => return self.logic(a, b, true),
            (op::CONDITIONAL, [condition, yes, no]) => {
                return match self.value(condition)? {
                    Val::Bool(true) => self.value(yes),
                    Val::Bool(false) => self.value(no),
                    _ => Err(no_overload()),
                };
            }
            (op::NOT_STRICTLY_FALSE, [a]) => {
                return match self.value(a) {
                    Err(Fault::Limit) => Err(Fault::Limit),
                    outcome => Ok((!matches!(outcome, Ok(Val::Bool(false)))).into()),
                };
            }
            _ => {}
        }
        let full = call.target.as_deref().and_then(|target| qualified(target, name));
        let full = full.filter(|full| signatures::is_known(full));
        let target = if full.is_some() { None } else { call.target.as_deref() };
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for operand in target.into_iter().chain(&call.args) {
            args.push(self.value(operand)?);
        }
        self.spend(1)?;
        let units = self.library.reading(&args);
        self.spend(units)?;
        if let Some(result) = self.operator(name, &args) {
            return result;
        }
        let name = full.as_deref().unwrap_or(name);
        let units = self.library.cost(name, &args);
        self.spend(units)?;
        let result = self.library.call(name, &args)?;
        Ok(result)
    }

    /// The deciding value of one side overrides a fault of the other.
    fn logic(&mut self, a: &'a IdedExpr, b: &'a IdedExpr, decides: bool) -> Outcome<'a> {
        let left = self.value(a);
        match left {
            Ok(Val::Bool(left)) if left == decides => return Ok(left.into()),
            Err(Fault::Limit) => return Err(Fault::Limit),
            _ => {}
        }
        match (left, self.value(b)) {
            (_, Ok(Val::Bool(right))) if right == decides => Ok(right.into()),
            (_, Err(Fault::Limit)) => Err(Fault::Limit),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            (Ok(Val::Bool(_)), Ok(Val::Bool(right))) => Ok(right.into()),
            _ => Err(no_overload()),
        }
    }

    fn operator(&mut self, name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
        use std::cmp::Ordering::{self, Equal, Greater, Less};
        let [a, b] = args else {
            return match (name, args) {
                (op::LOGICAL_NOT, [Val::Bool(value)]) => Some(Ok((!value).into())),
                (op::LOGICAL_NOT | op::NEGATE, [a]) => Some(negate(a)),
                _ => None,
            };
        };
        let ordered = |wanted: &[Ordering]| -> Outcome<'a> {
            let is_nan = |val: &Val<'_>| matches!(val, Val::Double(value) if value.is_nan());
            if is_nan(a) || is_nan(b) {
                return Ok(false.into());
            }
            Ok(wanted.contains(&a.order(b)?).into())
        };
        Some(match name {
            op::EQUALS | op::NOT_EQUALS => {
                let units = a.cost_units().min(b.cost_units());
                self.spend(units).and_then(|()| a.equals(b)).map(|same| (same == (name == op::EQUALS)).into())
            }
            op::LESS => ordered(&[Less]),
            op::LESS_EQUALS => ordered(&[Less, Equal]),
            op::GREATER => ordered(&[Greater]),
            op::GREATER_EQUALS => ordered(&[Greater, Equal]),
            op::IN => self.spend(b.len().unwrap_or(1) as u64).and_then(|()| self.is_in(a, b)),
            op::INDEX => index(a, b),
            op::OPT_INDEX | op::OPT_SELECT => optional_index(a, b),
            op::ADD => self.spend(a.length() + b.length()).and_then(|()| add(a, b)),
            op::SUBSTRACT | op::MULTIPLY | op::DIVIDE | op::MODULO => arithmetic(name, a, b),
            _ => return None,
        })
    }

    fn is_in(&mut self, a: &Val<'a>, b: &Val<'a>) -> Outcome<'a> {
        if b.keys().is_some() {
            return Ok(b.entry(a).is_some().into());
        }
        for item in b.items()? {
            self.spend(a.cost_units().min(item.cost_units()))?;
            if a.equals(&item)? {
                return Ok(true.into());
            }
        }
        Ok(false.into())
    }

    /// A loop. The accumulator is modified in place.
    fn run(&mut self, inner: &'a ComprehensionExpr) -> Outcome<'a> {
        let range = self.value(&inner.iter_range)?;
        let units = self.library.listing(&range);
        self.spend(units)?;
        let keys = range.keys();
        let count = keys.as_ref().map(Vec::len).or_else(|| range.len().filter(|_| range.kind() == "list"));
        let count = count.ok_or_else(no_overload)?;
        let outside = self.locals.len();
        let start = self.value(&inner.accu_init);
        self.locals.push((&inner.accu_var, start));
        for at in 0..count {
            let outcome = self.iteration(inner, &range, keys.as_deref(), at);
            self.locals.truncate(outside + 1);
            match outcome {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => {
                    self.locals.truncate(outside);
                    return Err(fault);
                }
            }
        }
        let result = self.value(&inner.result);
        self.locals.truncate(outside);
        result
    }

    /// One iteration; returns whether the loop continues.
    fn iteration(
        &mut self,
        inner: &'a ComprehensionExpr,
        range: &Val<'a>,
        keys: Option<&[Val<'a>]>,
        at: usize,
    ) -> Result<bool, Fault> {
        self.spend(1)?;
        if !matches!(self.value(&inner.loop_cond)?, Val::Bool(true)) {
            return Ok(false);
        }
        let accu = self.locals.len() - 1;
        let (first, second) = match keys {
            Some(keys) => {
                let key = keys.get(at).cloned().ok_or_else(no_overload)?;
                let value = inner.iter_var2.as_ref().and_then(|_| range.entry(&key));
                (Ok(key), value)
            }
            None => {
                let item = range.item(at).ok_or_else(no_overload)?;
                match inner.iter_var2 {
                    Some(_) => (Ok(Val::Int(at as i64)), Some(item)),
                    None => (item, None),
                }
            }
        };
        self.locals.push((&inner.iter_var, first));
        if let Some(name) = &inner.iter_var2 {
            self.locals.push((name, second.unwrap_or_else(|| Err(no_overload()))));
        }
        let next = self.step(&inner.loop_step, &inner.accu_var, accu);
        if matches!(next, Err(Fault::Limit)) {
            return Err(Fault::Limit);
        }
        if let Some((_, value)) = self.locals.get_mut(accu) {
            *value = next;
        }
        Ok(true)
    }

    /// The next value of the accumulator. An insertion into the old value does not copy it.
    fn step(&mut self, step: &'a IdedExpr, name: &str, accu: usize) -> Outcome<'a> {
        let is_accu = |part: &IdedExpr| matches!(&part.expr, Expr::Ident(ident) if ident == name);
        let Expr::Call(call) = &step.expr else { return self.value(step) };
        match (call.func_name.as_str(), call.args.as_slice()) {
            (op::CONDITIONAL, [condition, yes, no]) => match self.value(condition)? {
                Val::Bool(true) => self.step(yes, name, accu),
                Val::Bool(false) if is_accu(no) => self.take(accu),
                Val::Bool(false) => self.step(no, name, accu),
                _ => Err(no_overload()),
            },
            (op::ADD, [old, more]) if is_accu(old) && matches!(more.expr, Expr::List(_)) => {
                let more = self.value(more)?;
                match (self.take(accu)?, more) {
                    (Val::List(mut list), Val::List(more)) => {
                        Rc::make_mut(&mut list).extend(more.iter().cloned());
                        Ok(Val::List(list))
                    }
                    (list, more) => add(&list, &more),
                }
            }
            (MAP_INSERT, [old, key, value]) if is_accu(old) => {
                let key: Key = self.value(key)?.key().ok_or_else(no_overload)?;
                let value = self.value(value)?;
                match self.take(accu)? {
                    Val::Map(mut map) => {
                        Rc::make_mut(&mut map).insert(key, value);
                        Ok(Val::Map(map))
                    }
                    _ => Err(no_overload()),
                }
            }
            _ => self.value(step),
        }
    }

    fn take(&mut self, accu: usize) -> Outcome<'a> {
        let slot = self.locals.get_mut(accu).ok_or_else(no_overload)?;
        std::mem::replace(&mut slot.1, Ok(Val::Null))
    }
}

fn of_literal(literal: &LiteralValue) -> Val<'_> {
    match literal {
        LiteralValue::Boolean(value) => Val::Bool(*value.inner()),
        LiteralValue::Bytes(bytes) => Val::Bytes(bytes.inner().into()),
        LiteralValue::Double(value) => Val::Double(*value.inner()),
        LiteralValue::Int(value) => Val::Int(*value.inner()),
        LiteralValue::Null => Val::Null,
        LiteralValue::String(text) => Val::Text(Text::Lent(text.inner())),
        LiteralValue::UInt(value) => Val::Uint(*value.inner()),
    }
}

fn kind(name: &str) -> Option<&'static str> {
    const KINDS: [&str; 9] = ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type"];
    KINDS.into_iter().find(|kind| *kind == name)
}

fn no_key(name: &str) -> Fault {
    error(format!("no such key: {name}"))
}

fn field<'a>(of: &Val<'a>, name: &str) -> Outcome<'a> {
    if let Val::Optional(of) = of {
        let value = of.as_ref().and_then(|of| of.field(name)).transpose()?;
        return Ok(Val::Optional(value.map(Rc::new)));
    }
    if !of.has_fields() {
        return Err(no_overload());
    }
    of.field(name).unwrap_or_else(|| Err(no_key(name)))
}

fn has<'a>(of: &Val<'a>, name: &str) -> Outcome<'a> {
    match of {
        Val::Optional(of) => Ok(of.as_ref().is_some_and(|of| of.field(name).is_some()).into()),
        of if of.has_fields() => Ok(of.field(name).is_some().into()),
        _ => Err(no_overload()),
    }
}

fn index<'a>(of: &Val<'a>, at: &Val<'a>) -> Outcome<'a> {
    if matches!(of, Val::Optional(_)) {
        return optional_index(of, at);
    }
    if of.kind() == "list" {
        let Some(Key::Int(position)) = at.key() else { return Err(no_overload()) };
        let item = usize::try_from(position).ok().and_then(|position| of.item(position));
        return item.unwrap_or_else(|| Err(error(format!("index out of bounds: {position}"))));
    }
    match (of.entry(at), at) {
        (Some(entry), _) => entry,
        (None, Val::Text(name)) if of.has_fields() => of.field(name).unwrap_or_else(|| Err(no_key(name))),
        (None, at) if of.has_fields() => Err(no_key(&match at {
            Val::Int(value) => value.to_string(),
            Val::Bool(value) => value.to_string(),
            _ => String::new(),
        })),
        _ => Err(no_overload()),
    }
}

fn optional_index<'a>(of: &Val<'a>, at: &Val<'a>) -> Outcome<'a> {
    let of = match of {
        Val::Optional(None) => return Ok(Val::Optional(None)),
        Val::Optional(Some(of)) => Val::clone(of),
        of => of.clone(),
    };
    let found = match at.key() {
        Some(Key::Int(position)) if of.kind() == "list" => {
            usize::try_from(position).ok().and_then(|position| of.item(position))
        }
        _ => of.entry(at).or_else(|| match at {
            Val::Text(name) => of.field(name),
            _ => None,
        }),
    };
    Ok(Val::Optional(found.transpose()?.map(Rc::new)))
}

fn negate<'a>(value: &Val<'a>) -> Outcome<'a> {
    match value {
        Val::Int(value) => value.checked_neg().map(Val::Int).ok_or_else(|| error("integer overflow")),
        Val::Double(value) => Ok(Val::Double(-value)),
        _ => Err(no_overload()),
    }
}

fn add<'a>(a: &Val<'a>, b: &Val<'a>) -> Outcome<'a> {
    Ok(match (a, b) {
        (Val::Text(a), Val::Text(b)) => format!("{}{}", &**a, &**b).into(),
        (Val::Bytes(a), Val::Bytes(b)) => Val::Bytes([&a[..], &b[..]].concat().into()),
        (Val::List(_) | Val::JsonList(..), Val::List(_) | Val::JsonList(..)) => join_lists(a, b)?,
        (Val::Time(time), Val::Span(span)) | (Val::Span(span), Val::Time(time)) => {
            Val::Time(time.checked_add(*span).map_err(|_| error("timestamp overflow"))?)
        }
        (Val::Span(a), Val::Span(b)) => {
            Val::Span(a.checked_add(*b).ok_or_else(|| error("duration overflow"))?)
        }
        _ => return arithmetic(op::ADD, a, b),
    })
}

/// Sets store each item once; in lists with keys, items of the second replace those of the first.
fn join_lists<'a>(a: &Val<'a>, b: &Val<'a>) -> Outcome<'a> {
    use crate::schema::ListType;
    let list_type = match (a, b) {
        (Val::JsonList(_, node), _) => &node.list_type,
        _ => &ListType::Atomic,
    };
    let mut items = a.items()?;
    for more in b.items()? {
        let at = match list_type {
            ListType::Atomic => None,
            ListType::Set => position(&items, |item| item.equals(&more))?,
            ListType::Map(keys) => position(&items, |item| same_keys(item, &more, keys))?,
        };
        match at.and_then(|at| items.get_mut(at)) {
            Some(slot) => *slot = more,
            None => items.push(more),
        }
    }
    Ok(Val::list(items))
}

fn position<'a>(
    items: &[Val<'a>],
    is_same: impl Fn(&Val<'a>) -> Result<bool, Fault>,
) -> Result<Option<usize>, Fault> {
    for (at, item) in items.iter().enumerate() {
        if is_same(item)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn same_keys(a: &Val<'_>, b: &Val<'_>, keys: &[String]) -> Result<bool, Fault> {
    for key in keys.iter().filter_map(|key| super::types::escape(key)) {
        let same = match (a.field(&key), b.field(&key)) {
            (Some(a), Some(b)) => a?.equals(&b?)?,
            (None, None) => true,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn arithmetic<'a>(name: &str, a: &Val<'a>, b: &Val<'a>) -> Outcome<'a> {
    let zero = || error(if name == op::MODULO { "modulus by zero" } else { "division by zero" });
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => {
            if *b == 0 && matches!(name, op::DIVIDE | op::MODULO) {
                return Err(zero());
            }
            let result = match name {
                op::ADD => a.checked_add(*b),
                op::SUBSTRACT => a.checked_sub(*b),
                op::MULTIPLY => a.checked_mul(*b),
                op::DIVIDE => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            result.map(Val::Int).ok_or_else(|| error("integer overflow"))
        }
        (Val::Uint(a), Val::Uint(b)) => {
            if *b == 0 && matches!(name, op::DIVIDE | op::MODULO) {
                return Err(zero());
            }
            let result = match name {
                op::ADD => a.checked_add(*b),
                op::SUBSTRACT => a.checked_sub(*b),
                op::MULTIPLY => a.checked_mul(*b),
                op::DIVIDE => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            result.map(Val::Uint).ok_or_else(|| error("unsigned integer overflow"))
        }
        (Val::Double(a), Val::Double(b)) => Ok(Val::Double(match name {
            op::ADD => a + b,
            op::SUBSTRACT => a - b,
            op::MULTIPLY => a * b,
            op::DIVIDE => a / b,
            _ => return Err(no_overload()),
        })),
        (Val::Time(a), Val::Time(b)) if name == op::SUBSTRACT => Ok(Val::Span(a.duration_since(*b))),
        (Val::Time(a), Val::Span(b)) if name == op::SUBSTRACT => {
            a.checked_sub(*b).map(Val::Time).map_err(|_| error("timestamp overflow"))
        }
        (Val::Span(a), Val::Span(b)) if name == op::SUBSTRACT => {
            a.checked_sub(*b).map(Val::Span).ok_or_else(|| error("duration overflow"))
        }
        _ => Err(no_overload()),
    }
}
