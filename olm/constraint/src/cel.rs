//! Rules of the Common Expression Language, as OLM evaluates them: the variable `properties`, a list of maps
//! with `type` and `value`, and the function `semver_compare(a, b)`, which is -1, 0 or 1.
//!
//! Rules are untrusted input, and the interpreter has neither a type checker nor limits. So a rule is
//! - compiled on a separate thread, with a stack that its length cannot exhaust, and refused when it is too
//!   deep;
//! - type-checked ([`check`]): everything is declared, and the rule is a `bool`;
//! - rewritten to count its cost ([`meter`]); it does not hold once it exceeds the budget.

mod check;
mod functions;
mod meter;
mod values;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Context, Value};

use crate::Property;

/// Parse time grows faster than linearly with the length. The longest rule of a public catalog has some 500
/// bytes.
const LONGEST_RULE: usize = 4 << 10;
/// Depth of the syntax tree. The interpreter recurses with some kilobytes a level, on threads with stacks of
/// 2 MiB.
const MOST_LEVELS: usize = 64;
/// The parser recurses once for each operator of a chain such as `1+1+1`, before the depth is known. A
/// quarter of this is enough for the longest chains; untouched pages of the stack cost no memory.
const PARSER_STACK: usize = 64 << 20;

/// A compiled rule. Equality compares the source texts.
#[derive(Clone)]
pub struct Cel {
    rule: Arc<str>,
    expression: Arc<IdedExpr>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CelError {
    /// Size in bytes above the limit.
    #[error("the rule has {0} bytes, and {LONGEST_RULE} are taken at most")]
    TooLong(usize),
    #[error("the rule is nested more than {MOST_LEVELS} levels deep")]
    TooDeep,
    #[error("{0}")]
    Syntax(String),
    /// An undeclared name, or a declared one with the wrong types.
    #[error("{0}")]
    Type(String),
    /// The parser's thread failed to start.
    #[error("the rule cannot be compiled now: {0}")]
    Thread(String),
}

impl CelError {
    /// The hint of the message.
    #[must_use]
    pub fn fix(&self) -> &'static str {
        match self {
            Self::TooLong(_) => "split it into several constraints",
            Self::TooDeep => "simplify it",
            Self::Syntax(_) | Self::Type(_) => {
                "write a bool over `properties`, a list of maps with type and value, such as \
                 properties.exists(p, p.type == 'a')"
            }
            Self::Thread(_) => "try again",
        }
    }
}

impl Cel {
    /// Compiles a rule.
    ///
    /// # Errors
    /// [`CelError`] with the defect of the rule. OLM too refuses syntax errors, undeclared names and rules
    /// that are not a bool; the limits of length and depth, and the refusal of timestamps and durations,
    /// exist only here.
    pub fn compile(rule: &str) -> Result<Self, CelError> {
        if rule.len() > LONGEST_RULE {
            return Err(CelError::TooLong(rule.len()));
        }
        let expression = parse(rule)?;
        check::is_bool(&expression).map_err(CelError::Type)?;
        let expression = Arc::new(meter::metered(expression));
        Ok(Self { rule: rule.into(), expression })
    }

    /// The rule as written.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Whether the rule holds for the properties. A rule that fails, for example on a missing key, or that
    /// exceeds its budget does not hold.
    #[must_use]
    pub fn holds(&self, properties: &[Property]) -> bool {
        let values = properties.iter().map(|property| Some((property.kind.as_str(), property.value()?)));
        let Some(properties) = values.collect::<Option<Vec<_>>>() else { return false };
        let Some(properties) = values::list(&properties) else { return false };
        let mut context = Context::with_env(functions::environment());
        context.add_variable_as_val("properties", properties);
        meter::start();
        matches!(Value::resolve(&self.expression, &context), Ok(Value::Bool(true)))
    }
}

/// Parses a rule on a separate thread, so that neither its depth nor a panic of the parser harms the caller.
fn parse(rule: &str) -> Result<IdedExpr, CelError> {
    let text = rule.to_owned();
    let thread = std::thread::Builder::new().name("cel-parser".to_owned()).stack_size(PARSER_STACK);
    let parsed = thread.spawn(move || {
        let parsed = functions::environment().compile(&text);
        let program = parsed.map_err(|errors| syntax(&errors))?;
        let expression = program.expression();
        if is_deeper(expression, MOST_LEVELS) {
            return Err(CelError::TooDeep);
        }
        Ok(expression.clone())
    });
    let parsed = parsed.map_err(|error| CelError::Thread(error.to_string()))?.join();
    parsed.unwrap_or_else(|_| Err(CelError::Syntax("the rule cannot be parsed".to_owned())))
}

/// The first message of the parser, with its position.
fn syntax(errors: &cel::ParseErrors) -> CelError {
    const LONGEST: usize = 200;
    // The parser's own recursion limit.
    if errors.errors.iter().any(|error| error.msg.contains("Recursion limit of ")) {
        return CelError::TooDeep;
    }
    let Some(error) = errors.errors.first() else {
        return CelError::Syntax("the rule cannot be parsed".to_owned());
    };
    let text: String =
        error.msg.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    let (line, column) = error.pos;
    CelError::Syntax(format!("the rule does not parse at line {line}, column {column}: {text}"))
}

fn is_deeper(expression: &IdedExpr, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    let mut deeper = false;
    each_part(&expression.expr, |part| deeper |= is_deeper(part, levels));
    deeper
}

/// Calls `f` with the direct subexpressions.
fn each_part(expression: &Expr, mut f: impl FnMut(&IdedExpr)) {
    match expression {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
        Expr::Call(call) => call.target.iter().map(AsRef::as_ref).chain(&call.args).for_each(f),
        Expr::Comprehension(loop_) => {
            [&loop_.iter_range, &loop_.accu_init, &loop_.loop_cond, &loop_.loop_step, &loop_.result]
                .into_iter()
                .for_each(f)
        }
        Expr::List(list) => list.elements.iter().for_each(f),
        Expr::Select(select) => f(&select.operand),
        Expr::Map(map) => map.entries.iter().for_each(|entry| each_of_entry(&entry.expr, &mut f)),
        Expr::Struct(struct_) => {
            struct_.entries.iter().for_each(|entry| each_of_entry(&entry.expr, &mut f));
        }
    }
}

fn each_of_entry(entry: &EntryExpr, f: &mut impl FnMut(&IdedExpr)) {
    match entry {
        EntryExpr::StructField(field) => f(&field.value),
        EntryExpr::MapEntry(entry) => {
            f(&entry.key);
            f(&entry.value);
        }
    }
}

impl PartialEq for Cel {
    fn eq(&self, other: &Self) -> bool {
        self.rule == other.rule
    }
}

impl Eq for Cel {}

impl PartialOrd for Cel {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cel {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rule.cmp(&other.rule)
    }
}

impl fmt::Debug for Cel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cel").field(&self.rule).finish()
    }
}

#[cfg(test)]
mod tests;
