//! Parses the text of a rule to its syntax tree, within limits.
//!
//! The tree is that of the `cel` crate; the macros that its standard set lacks are added here.

use std::sync::{Arc, LazyLock};

use cel::Env;
use cel::common::ast::operators as op;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SourceInfo,
};
use cel::parser::{Macro, MacroExprHelper, ParseError};

/// Parse time grows faster than linearly with the length. The longest rules of public definitions have some
/// 2,000 bytes.
const LONGEST: usize = 16 << 10;
/// Depth of the syntax tree: it is walked recursively, on threads with stacks of 2 MiB.
const MOST_LEVELS: usize = 80;
/// The parser recurses once for each operator of a chain such as `1+1+1`, before the depth is known.
/// Untouched pages of the stack cost no memory.
const PARSER_STACK: usize = 64 << 20;

/// Inserts a key and a value into the map that a loop builds.
pub(super) const MAP_INSERT: &str = "@mapInsert";
const RESULT: &str = "@result";

/// A parsed expression.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(super) root: IdedExpr,
    source: SourceInfo,
}

impl Parsed {
    /// Parses on a separate thread, so that neither depth nor a panic of the parser harms the caller.
    pub(super) fn new(text: &str) -> Result<Arc<Self>, String> {
        if text.len() > LONGEST {
            return Err(format!("the expression has {} bytes, and {LONGEST} are taken at most", text.len()));
        }
        let owned = text.to_owned();
        let thread = std::thread::Builder::new().name("cel-parser".to_owned()).stack_size(PARSER_STACK);
        let parsed = thread.spawn(move || {
            let parser = ENVIRONMENT.parser();
            let too_deep = || format!("the expression is nested more than {MOST_LEVELS} levels deep");
            let (root, source) = parser.parse_with_source_info(&owned).map_err(|errors| {
                // The parser's own recursion limit.
                if errors.errors.iter().any(|error| error.msg.contains("Recursion limit of ")) {
                    return too_deep();
                }
                let lines = errors.errors.iter().map(|error| {
                    let (line, column) = error.pos;
                    shown(&owned, line.max(1).unsigned_abs(), column.max(1).unsigned_abs(), &error.msg)
                });
                lines.collect::<Vec<_>>().join("\n")
            })?;
            if is_deeper(&root, MOST_LEVELS) {
                return Err(too_deep());
            }
            Ok(Arc::new(Self { root, source }))
        });
        let parsed =
            parsed.map_err(|error| format!("the expression cannot be compiled now: {error}"))?.join();
        parsed.unwrap_or_else(|_| Err("the expression cannot be parsed".to_owned()))
    }

    /// An error at one of its parts, in the format of Kubernetes' compiler.
    pub(super) fn error_at(&self, part: u64, what: &str) -> String {
        let offset = self.source.offset_for(part).map_or(0, |(start, _)| start as usize);
        let before: String = self.source.source.chars().take(offset).collect();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        shown(&self.source.source, line, column, what)
    }
}

fn shown(source: &str, line: usize, column: usize, what: &str) -> String {
    const LONGEST: usize = 300;
    let what: String = what.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    let mut text = format!("ERROR: <input>:{line}:{column}: {what}");
    if let Some(code) = source.lines().nth(line - 1) {
        text.push_str(&format!("\n | {}\n | {}^", code.replace('\t', " "), ".".repeat(column - 1)));
    }
    text
}

fn is_deeper(expression: &IdedExpr, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    let deeper = |part: &IdedExpr| is_deeper(part, levels);
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => false,
        Expr::Call(call) => call.target.as_deref().is_some_and(deeper) || call.args.iter().any(deeper),
        Expr::Comprehension(inner) => {
            [&inner.iter_range, &inner.accu_init, &inner.loop_cond, &inner.loop_step, &inner.result]
                .into_iter()
                .any(deeper)
        }
        Expr::List(list) => list.elements.iter().any(deeper),
        Expr::Select(select) => deeper(&select.operand),
        Expr::Map(MapExpr { entries }) => entries.iter().any(|entry| match &entry.expr {
            EntryExpr::StructField(field) => deeper(&field.value),
            EntryExpr::MapEntry(entry) => deeper(&entry.key) || deeper(&entry.value),
        }),
        Expr::Struct(inner) => inner.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::StructField(field) => deeper(&field.value),
            EntryExpr::MapEntry(entry) => deeper(&entry.key) || deeper(&entry.value),
        }),
    }
}

type Expansion = Result<Option<IdedExpr>, ParseError>;
type Helper<'a, 'b> = &'a mut MacroExprHelper<'b>;

/// The standard macros, and loops over keys and values.
static ENVIRONMENT: LazyLock<Env> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    let more = [
        Macro::receiver("all", 3, |h, t, a| two(h, t, a, Kind::All)),
        Macro::receiver("exists", 3, |h, t, a| two(h, t, a, Kind::Exists)),
        Macro::receiver("existsOne", 3, |h, t, a| two(h, t, a, Kind::One)),
        Macro::receiver("exists_one", 3, |h, t, a| two(h, t, a, Kind::One)),
        Macro::receiver("transformList", 3, |h, t, a| two(h, t, a, Kind::List)),
        Macro::receiver("transformList", 4, |h, t, a| two(h, t, a, Kind::List)),
        Macro::receiver("transformMap", 3, |h, t, a| two(h, t, a, Kind::Map)),
        Macro::receiver("transformMap", 4, |h, t, a| two(h, t, a, Kind::Map)),
    ];
    for one in more {
        env.add_macro(one).expect("the standard macros have none with these names and counts");
    }
    env
});

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    All,
    Exists,
    One,
    List,
    Map,
}

fn call(helper: Helper<'_, '_>, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

fn ident(helper: Helper<'_, '_>, name: &str) -> IdedExpr {
    helper.next_expr(Expr::Ident(name.to_owned()))
}

fn literal(helper: Helper<'_, '_>, value: bool) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Boolean(value.into())))
}

fn number(helper: Helper<'_, '_>, value: i64) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Int(value.into())))
}

/// The name of a loop variable.
fn variable(helper: Helper<'_, '_>, part: IdedExpr) -> Result<String, ParseError> {
    match part.expr {
        Expr::Ident(name) => Ok(name),
        _ => Err(helper.new_error(part.id, "argument must be a simple name")),
    }
}

/// `range.all(k, v, p)` and the other macros with two variables.
fn two(h: Helper<'_, '_>, target: &mut Option<IdedExpr>, args: &mut Vec<IdedExpr>, kind: Kind) -> Expansion {
    let mut parts = std::mem::take(args).into_iter();
    let (Some(range), Some(first), Some(second)) = (target.take(), parts.next(), parts.next()) else {
        return Ok(None);
    };
    let (iter_var, iter_var2) = (variable(h, first)?, Some(variable(h, second)?));
    let body = parts.next();
    let (condition, body) = match parts.next() {
        Some(last) => (body, Some(last)),
        None => (None, body),
    };
    let Some(body) = body else { return Ok(None) };
    let accu = ident(h, RESULT);
    let mut result = ident(h, RESULT);
    let (accu_init, loop_cond, step) = match kind {
        Kind::All | Kind::Exists => {
            let all = kind == Kind::All;
            let mut going = ident(h, RESULT);
            if !all {
                going = call(h, op::LOGICAL_NOT, vec![going]);
            }
            let going = call(h, op::NOT_STRICTLY_FALSE, vec![going]);
            let name = if all { op::LOGICAL_AND } else { op::LOGICAL_OR };
            (literal(h, all), going, call(h, name, vec![accu, body]))
        }
        Kind::One => {
            let one = number(h, 1);
            let more = call(h, op::ADD, vec![accu, one]);
            let same = ident(h, RESULT);
            let step = call(h, op::CONDITIONAL, vec![body, more, same]);
            let one = number(h, 1);
            result = call(h, op::EQUALS, vec![result, one]);
            (number(h, 0), literal(h, true), step)
        }
        Kind::List => {
            let item = h.next_expr(Expr::List(ListExpr::new(vec![body])));
            let step = call(h, op::ADD, vec![accu, item]);
            (h.next_expr(Expr::List(ListExpr::new(Vec::new()))), literal(h, true), step)
        }
        Kind::Map => {
            let key = ident(h, &iter_var);
            let step = call(h, MAP_INSERT, vec![accu, key, body]);
            (h.next_expr(Expr::Map(MapExpr { entries: Vec::new() })), literal(h, true), step)
        }
    };
    let loop_step = match condition {
        None => step,
        Some(condition) => {
            let same = ident(h, RESULT);
            call(h, op::CONDITIONAL, vec![condition, step, same])
        }
    };
    let inner = ComprehensionExpr {
        iter_range: range,
        iter_var,
        iter_var2,
        accu_var: RESULT.to_owned(),
        accu_init,
        loop_cond,
        loop_step,
        result,
    };
    Ok(Some(h.next_expr(Expr::Comprehension(Box::new(inner)))))
}
