//! The cost counter of rules.
//!
//! The interpreter has no way to interrupt it, but a function that fails stops it. So a rule is rewritten,
//! before it runs, to call one wherever the work or the size of a value can grow: on the range of a loop, on
//! each iteration, on each operand of an operator or function, and on each element of a list or map.
//! `@pay(value, units)` returns the value, and costs these units plus the size of the value. The grammar does
//! not allow that name in source text.
//!
//! `&&`, `||`, `all` and `exists` may swallow a failure, as CEL specifies; the next `@pay` fails again,
//! because the budget stays exhausted.

use std::cell::Cell;

use cel::ExecutionError;
use cel::common::ast::operators::{
    CONDITIONAL, INDEX, LOGICAL_AND, LOGICAL_NOT, LOGICAL_OR, NOT_STRICTLY_FALSE,
};
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
};
use cel::common::types::{CelInt, CelList, CelMap, CelMapKey, CelString};
use cel::common::value::{CowVal, Val};

pub(super) const PAY: &str = "@pay";

/// Budget of an evaluation: a unit takes some 50 ns, and a rule is evaluated on each candidate bundle. One
/// pass over the properties of a bundle costs a thousand or two.
const MOST_UNITS: u64 = 100_000;
/// Bytes of text that cost one unit.
const TEXT_OF_A_UNIT: usize = 16;

thread_local! {
    /// Remaining budget of the evaluation on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// Number of the evaluation on this thread.
    static RUN: Cell<u64> = const { Cell::new(0) };
}

/// Begins an evaluation on this thread.
pub(super) fn start() {
    LEFT.set(MOST_UNITS);
    RUN.set(RUN.get().wrapping_add(1));
}

/// The number of the evaluation on this thread.
pub(super) fn run() -> u64 {
    RUN.get()
}

/// Takes units from the budget. An insufficient budget is set to zero.
pub(super) fn spend(units: u64) -> Result<(), ExecutionError> {
    let left = LEFT.get().checked_sub(units);
    LEFT.set(left.unwrap_or(0));
    match left {
        Some(_) => Ok(()),
        None => Err(ExecutionError::function_error(PAY, "the rule does too much")),
    }
}

/// `@pay(value, units)`
pub(super) fn pay<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let mut args = args.into_iter();
    let (Some(value), Some(units)) = (args.next(), args.next()) else {
        return Err(ExecutionError::function_error(PAY, "a value and units are missing"));
    };
    let units = units.downcast_ref::<CelInt>().and_then(|units| u64::try_from(*units.inner()).ok());
    spend(units.unwrap_or(MOST_UNITS))?;
    measure(value.as_ref())?;
    Ok(value)
}

pub(super) fn text_units(bytes: usize) -> u64 {
    1 + (bytes / TEXT_OF_A_UNIT) as u64
}

/// Charges for the size of a value while measuring it.
fn measure(value: &dyn Val) -> Result<(), ExecutionError> {
    if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        spend(1)?;
        list.inner().iter().try_for_each(|value| measure(value.as_ref()))
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        spend(1)?;
        map.inner().iter().try_for_each(|(key, value)| {
            spend(match key {
                CelMapKey::String(text) => text_units(text.inner().len()),
                _ => 1,
            })?;
            measure(value.as_ref())
        })
    } else if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        spend(text_units(text.inner().len()))
    } else if let Some(bytes) = value.downcast_ref::<cel::common::types::CelBytes<'_>>() {
        spend(text_units(bytes.inner().len()))
    } else {
        spend(1)
    }
}

/// The expression with cost counting.
pub(super) fn metered(expression: IdedExpr) -> IdedExpr {
    let IdedExpr { id, expr } = expression;
    let expr = match expr {
        Expr::Call(call) => Expr::Call(metered_call(call)),
        Expr::Comprehension(inner) => Expr::Comprehension(Box::new(metered_loop(*inner))),
        Expr::List(list) => Expr::List(ListExpr {
            elements: list.elements.into_iter().map(paid).collect(),
            optional_indices: list.optional_indices,
        }),
        Expr::Map(map) => Expr::Map(metered_map(map)),
        Expr::Select(select) => Expr::Select(SelectExpr {
            operand: Box::new(metered(*select.operand)),
            field: select.field,
            test: select.test,
        }),
        simple @ (Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_)) => simple,
    };
    IdedExpr { id, expr }
}

fn metered_call(call: CallExpr) -> CallExpr {
    let CallExpr { func_name, target, args } = call;
    // These neither inspect their operands nor copy them.
    let free = [CONDITIONAL, INDEX, LOGICAL_AND, LOGICAL_NOT, LOGICAL_OR, NOT_STRICTLY_FALSE];
    let operand = if free.contains(&func_name.as_str()) { metered } else { paid };
    CallExpr {
        func_name,
        target: target.map(|target| Box::new(operand(*target))),
        args: args.into_iter().map(operand).collect(),
    }
}

fn metered_map(map: MapExpr) -> MapExpr {
    let entries = map.entries.into_iter().map(|mut entry| {
        if let EntryExpr::MapEntry(inner) = &mut entry.expr {
            inner.key = paid(std::mem::take(&mut inner.key));
            inner.value = paid(std::mem::take(&mut inner.value));
        }
        entry
    });
    MapExpr { entries: entries.collect() }
}

/// Each iteration costs the number of subexpressions of the loop's body. The interpreter recognises the loops
/// of `map` and `filter` by their shape and would be slow without, so the shape is preserved.
fn metered_loop(inner: ComprehensionExpr) -> ComprehensionExpr {
    let turn = parts(&inner.loop_step);
    let endless = matches!(inner.loop_cond.expr, Expr::Literal(_));
    let mut step = metered(inner.loop_step);
    let condition = if endless {
        step = match step.expr {
            Expr::Call(mut call) if call.func_name == CONDITIONAL && call.args.len() == 3 => {
                call.args[0] = paying(std::mem::take(&mut call.args[0]), turn);
                IdedExpr { id: step.id, expr: Expr::Call(call) }
            }
            expr => {
                let id = step.id;
                let always = IdedExpr { id, expr: Expr::Literal(LiteralValue::Boolean(true.into())) };
                let accumulated = IdedExpr { id, expr: Expr::Ident(inner.accu_var.clone()) };
                let args = vec![paying(always, turn), IdedExpr { id, expr }, accumulated];
                let call = CallExpr { func_name: CONDITIONAL.to_owned(), target: None, args };
                IdedExpr { id, expr: Expr::Call(call) }
            }
        };
        inner.loop_cond
    } else {
        paying(metered(inner.loop_cond), turn)
    };
    ComprehensionExpr {
        iter_range: paying(metered(inner.iter_range), 1),
        iter_var: inner.iter_var,
        iter_var2: inner.iter_var2,
        accu_var: inner.accu_var,
        accu_init: metered(inner.accu_init),
        loop_cond: condition,
        loop_step: step,
        result: metered(inner.result),
    }
}

/// Counts where the value can be large. Elements of a list literal are counted one by one; the accumulator of
/// a loop, whose name starts with `@`, is not copied.
fn paid(expression: IdedExpr) -> IdedExpr {
    match &expression.expr {
        Expr::Literal(_) => expression,
        Expr::Ident(name) if name.starts_with('@') => expression,
        Expr::List(_) | Expr::Map(_) => metered(expression),
        _ => paying(metered(expression), 1),
    }
}

/// `@pay(expression, units)`
fn paying(expression: IdedExpr, units: u32) -> IdedExpr {
    let id = expression.id;
    let units = IdedExpr { id, expr: Expr::Literal(LiteralValue::Int(i64::from(units).into())) };
    let call = CallExpr { func_name: PAY.to_owned(), target: None, args: vec![expression, units] };
    IdedExpr { id, expr: Expr::Call(call) }
}

/// Number of subexpressions, the expression itself included. Rules are short.
fn parts(expression: &IdedExpr) -> u32 {
    let mut count = 1;
    super::each_part(&expression.expr, |part| count += parts(part));
    count
}
