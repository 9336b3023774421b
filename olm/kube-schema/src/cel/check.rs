//! The type checker. Undeclared names and type errors are refused when the definition is written.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, StructExpr,
};
use std::sync::Arc;

use super::expression::{JSON_PATCH, OBJECT};
use super::functions;
use super::language::Language;
use super::parse::Parsed;
use super::signatures;
use super::types::{Bindings, Ty};

/// A type-checked expression.
pub(super) struct Checked<'n> {
    pub(super) ty: Ty<'n>,
    pub(super) uses_old_self: bool,
    pub(super) newest: Newest,
}

/// The newest part of an expression: the minor version of Kubernetes that introduced it, and its name.
pub(super) type Newest = (u64, String);

/// Infers the type of the expression.
///
/// # Errors
/// As the compiler of Kubernetes prints them, with the position.
pub(super) fn check<'n>(parsed: &Parsed, self_: Ty<'n>, old_self: Ty<'n>) -> Result<Checked<'n>, String> {
    let scopes = vec![("self".to_owned(), self_), (OLD_SELF.to_owned(), old_self)];
    let newest = Newest::default();
    let mut checker = Checker { uses_old_self: false, newest, dialect: Dialect::Rules, scopes };
    let ty = checker.type_of(&parsed.root).map_err(|(at, what)| parsed.error_at(at, &what))?;
    Ok(Checked { ty, uses_old_self: checker.uses_old_self, newest: checker.newest })
}

/// Names of variables with their types; a name may be qualified, as in `variables.size`.
pub(super) type Declared<'n> = Vec<(String, Ty<'n>)>;

/// The constructs that an expression may contain.
#[derive(Clone, Copy)]
pub(super) enum Dialect {
    /// Those of rules and conditions in Kubernetes.
    Rules,
    /// Those of rules, objects and patches.
    Patches,
    Language(&'static Language),
}

/// As [`check`], with other variables and in any dialect.
pub(super) fn check_with<'n>(
    parsed: &Parsed,
    variables: Declared<'n>,
    dialect: Dialect,
) -> Result<Ty<'n>, String> {
    let newest = Newest::default();
    let mut checker = Checker { uses_old_self: false, newest, dialect, scopes: variables };
    checker.type_of(&parsed.root).map_err(|(at, what)| parsed.error_at(at, &what))
}

const OLD_SELF: &str = "oldSelf";

/// The minor version of Kubernetes that introduced macros with two variables, such as `all(i, v, …)`.
const TWO_VARIABLES: u64 = 32;

type Outcome<'n> = Result<Ty<'n>, (u64, String)>;

struct Checker<'n> {
    uses_old_self: bool,
    newest: Newest,
    dialect: Dialect,
    /// Variables: those of the rule, then those of the enclosing loops, the innermost last.
    scopes: Vec<(String, Ty<'n>)>,
}

/// `a.b` of an expression that consists only of names.
pub(super) fn qualified(target: &IdedExpr, name: &str) -> Option<String> {
    match &target.expr {
        Expr::Ident(namespace) => Some(format!("{namespace}.{name}")),
        _ => None,
    }
}

/// Whether a variable's name is `first.second`.
pub(super) fn is_qualified(name: &str, first: &str, second: &str) -> bool {
    name.strip_prefix(first).and_then(|rest| rest.strip_prefix('.')) == Some(second)
}

impl<'n> Checker<'n> {
    fn type_of(&mut self, expression: &IdedExpr) -> Outcome<'n> {
        let at = expression.id;
        let fail = |what: &str| Err((at, what.to_owned()));
        match &expression.expr {
            Expr::Unspecified => fail("the expression has a part without meaning"),
            Expr::Struct(message) if self.makes(&message.type_name) => self.message(message),
            Expr::Struct(message) => {
                fail(&format!("undeclared reference to '{}' (in container '')", message.type_name))
            }
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Ty::Bool,
                LiteralValue::Bytes(_) => Ty::Bytes,
                LiteralValue::Double(_) => Ty::Double,
                LiteralValue::Int(_) => Ty::Int,
                LiteralValue::Null => Ty::Null,
                LiteralValue::String(_) => Ty::Text,
                LiteralValue::UInt(_) => Ty::Uint,
            }),
            Expr::Ident(name) => self.variable(at, name),
            Expr::List(list) => {
                let mut of = Ty::Nothing;
                for (index, element) in list.elements.iter().enumerate() {
                    let mut ty = self.type_of(element)?;
                    if list.optional_indices.contains(&index) {
                        ty = value_of(ty).ok_or((element.id, "an optional value is expected".to_owned()))?;
                    }
                    of = self.alike(element.id, &of, &ty)?;
                }
                Ok(Ty::List(Arc::new(of)))
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (Ty::Nothing, Ty::Nothing);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return fail("a map has keys and values");
                    };
                    let key = self.type_of(&entry.key)?;
                    if !matches!(key, Ty::Any | Ty::Bool | Ty::Int | Ty::Uint | Ty::Text) {
                        return Err((entry.key.id, format!("unsupported key type: {key}")));
                    }
                    let mut value = self.type_of(&entry.value)?;
                    if entry.optional {
                        value = value_of(value)
                            .ok_or((entry.value.id, "an optional value is expected".into()))?;
                    }
                    keys = self.alike(entry.key.id, &keys, &key)?;
                    values = self.alike(entry.value.id, &values, &value)?;
                }
                Ok(Ty::Map(Arc::new(keys), Arc::new(values)))
            }
            Expr::Select(select) => self.field(at, select),
            Expr::Comprehension(inner) => self.of_loop(inner),
            Expr::Call(call) => self.call(at, call),
        }
    }

    fn makes(&self, name: &str) -> bool {
        let is_object =
            || name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        matches!(self.dialect, Dialect::Patches) && (name == JSON_PATCH || is_object())
    }

    fn message(&mut self, message: &StructExpr) -> Outcome<'n> {
        for entry in &message.entries {
            let EntryExpr::StructField(field) = &entry.expr else {
                return Err((entry.id, "an object has fields".to_owned()));
            };
            let ty = self.type_of(&field.value)?;
            if message.type_name != JSON_PATCH {
                continue;
            }
            let fits = match field.field.as_str() {
                "op" | "path" | "from" => matches!(ty, Ty::Text | Ty::Any),
                "value" => true,
                other => return Err((entry.id, format!("undefined field '{other}'"))),
            };
            if !fits {
                return Err((field.value.id, format!("expected type 'string' but found '{ty}'")));
            }
        }
        Ok(Ty::Message(message.type_name.as_str().into()))
    }

    /// The elements of a literal have one type in Kubernetes.
    fn alike(&self, at: u64, known: &Ty<'n>, next: &Ty<'n>) -> Outcome<'n> {
        if matches!(self.dialect, Dialect::Language(_)) || known.takes(next, &mut Bindings::default()) {
            Ok(known.join(next))
        } else {
            Err((at, format!("expected type '{known}' but found '{next}'")))
        }
    }

    fn variable(&mut self, at: u64, name: &str) -> Outcome<'n> {
        const TYPES: [&str; 9] =
            ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type"];
        if let Some((_, of)) = self.scopes.iter().rev().find(|(scope, _)| scope == name) {
            self.uses_old_self |= name == OLD_SELF;
            return Ok(of.clone());
        }
        if TYPES.contains(&name) {
            return Ok(Ty::Kind);
        }
        Err((at, format!("undeclared reference to '{name}' (in container '')")))
    }

    fn field(&mut self, at: u64, select: &SelectExpr) -> Outcome<'n> {
        if let Expr::Ident(first) = &select.operand.expr
            && let Some((_, of)) =
                self.scopes.iter().find(|(name, _)| is_qualified(name, first, &select.field))
        {
            return Ok(if select.test { Ty::Bool } else { of.clone() });
        }
        let of = self.type_of(&select.operand)?;
        let field = field_of(&of, &select.field).map_err(|what| (at, what))?;
        Ok(if select.test { Ty::Bool } else { field })
    }

    fn uses(&mut self, since: u64, name: &str) {
        if since > self.newest.0 {
            self.newest = (since, name.to_owned());
        }
    }

    fn of_loop(&mut self, inner: &ComprehensionExpr) -> Outcome<'n> {
        if inner.iter_var2.is_some() {
            self.uses(TWO_VARIABLES, "a macro with two variables");
        }
        let range = self.type_of(&inner.iter_range)?;
        let (first, second) = match &range {
            Ty::List(of) if inner.iter_var2.is_some() => (Ty::Int, Ty::clone(of)),
            Ty::List(of) => (Ty::clone(of), Ty::Any),
            Ty::Map(key, value) => (Ty::clone(key), Ty::clone(value)),
            Ty::Any | Ty::Nothing => (Ty::Any, Ty::Any),
            other => {
                let what = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                return Err((inner.iter_range.id, what));
            }
        };
        let start = self.type_of(&inner.accu_init)?;
        let outside = self.scopes.len();
        self.scopes.push((inner.accu_var.clone(), start.clone()));
        self.scopes.push((inner.iter_var.clone(), first));
        if let Some(name) = &inner.iter_var2 {
            if matches!(self.dialect, Dialect::Language(_)) {
                return Err((inner.iter_range.id, "a loop has one variable".to_owned()));
            }
            self.scopes.push((name.clone(), second));
        }
        let condition = self.type_of(&inner.loop_cond);
        let step = self.type_of(&inner.loop_step);
        self.scopes.truncate(outside);
        condition?;
        let end = start.join(&step?);
        self.scopes.push((inner.accu_var.clone(), end));
        let result = self.type_of(&inner.result);
        self.scopes.truncate(outside);
        result
    }

    fn call(&mut self, at: u64, call: &CallExpr) -> Outcome<'n> {
        use cel::common::ast::operators::OPT_SELECT;
        if let (OPT_SELECT, [operand, field]) = (call.func_name.as_str(), call.args.as_slice()) {
            let of = self.type_of(operand)?;
            let Expr::Literal(LiteralValue::String(name)) = &field.expr else {
                return Err((at, "a field has a name".to_owned()));
            };
            let of = match of {
                Ty::Optional(of) => Ty::clone(&of),
                of => of,
            };
            let field = field_of(&of, name.inner()).map_err(|what| (at, what))?;
            return Ok(Ty::Optional(Arc::new(field)));
        }
        let mut name = call.func_name.clone();
        let mut target = call.target.as_deref();
        if let Some(full) = target.and_then(|target| qualified(target, &name))
            && signatures::is_known(&full)
        {
            name = full;
            target = None;
        }
        let mut types = Vec::new();
        for operand in target.into_iter().chain(&call.args) {
            types.push(self.type_of(operand)?);
        }
        if let Dialect::Language(language) = self.dialect {
            if !language.has(&name) {
                return Err((at, format!("undeclared reference to '{name}' (in container '')")));
            }
            if name == language.comparison.0 && target.is_none() && types.len() == 2 {
                return Ok(Ty::Int);
            }
        }
        if let Some((result, since)) = signatures::result(&name, target.is_some(), &types) {
            self.uses(since, &name);
            return match call.args.first() {
                Some(argument) if !self.literal_is_valid(&name, &argument.expr) => {
                    Err((argument.id, format!("invalid {name} argument")))
                }
                _ => Ok(result),
            };
        }
        if !signatures::is_known(&name) {
            return Err((at, format!("undeclared reference to '{name}' (in container '')")));
        }
        let shown: Vec<String> = types.iter().map(ToString::to_string).collect();
        let applied = match (target.is_some(), shown.split_first()) {
            (true, Some((receiver, rest))) => format!("{receiver}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        Err((at, format!("found no matching overload for '{name}' applied to '{applied}'")))
    }

    /// Literals for which a function always fails are refused at compile time, as by the `ASTValidators` of
    /// Kubernetes 1.29.
    fn literal_is_valid(&self, function: &str, argument: &Expr) -> bool {
        let Expr::Literal(literal) = argument else { return true };
        match (function, literal) {
            _ if matches!(self.dialect, Dialect::Language(_)) => true,
            ("matches", LiteralValue::String(text)) => functions::compile(text.inner()).is_ok(),
            ("duration", LiteralValue::String(text)) => functions::time::parse_span(text.inner()).is_some(),
            ("duration", LiteralValue::Int(_)) => false,
            ("timestamp", LiteralValue::String(text)) => functions::time::parse_time(text.inner()).is_some(),
            _ => true,
        }
    }
}

fn value_of(ty: Ty<'_>) -> Option<Ty<'_>> {
    match ty {
        Ty::Optional(of) => Some(Ty::clone(&of)),
        Ty::Any => Some(Ty::Any),
        _ => None,
    }
}

fn field_of<'n>(of: &Ty<'n>, name: &str) -> Result<Ty<'n>, String> {
    let undefined = || format!("undefined field '{name}'");
    match of {
        Ty::Any | Ty::Nothing => Ok(Ty::Any),
        Ty::Map(_, value) => Ok(Ty::clone(value)),
        Ty::Optional(of) => Ok(Ty::Optional(Arc::new(field_of(of, name)?))),
        Ty::Object(node, resource) => Ty::field(node, *resource, name).ok_or_else(undefined),
        Ty::Metadata if matches!(name, "name" | "generateName") => Ok(Ty::Text),
        Ty::Metadata => Err(undefined()),
        other => Err(format!("type '{other}' does not support field selection")),
    }
}
