//! The type checker: every name is declared, and the rule is a `bool`.
//!
//! Property values have any type, known only at run time; everything known before is checked here, as
//! upstream does when it compiles a rule.

use cel::common::ast::operators::{
    ADD, CONDITIONAL, DIVIDE, EQUALS, GREATER, GREATER_EQUALS, IN, INDEX, LESS, LESS_EQUALS, LOGICAL_AND,
    LOGICAL_NOT, LOGICAL_OR, MODULO, MULTIPLY, NEGATE, NOT_EQUALS, NOT_STRICTLY_FALSE, SUBSTRACT,
};
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Type {
    /// Known only at run time.
    Any,
    /// Element type of an empty list.
    Nothing,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Null,
    /// A type, as `type(x)` gives it.
    Kind,
    List(Box<Type>),
    /// With the type of the values.
    Map(Box<Type>),
}

/// Checks that the expression is a `bool`; the error is the defect.
pub(super) fn is_bool(expression: &IdedExpr) -> Result<(), String> {
    match (Checker { scopes: Vec::new() }).type_of(expression)? {
        Type::Bool => Ok(()),
        other => Err(format!("the rule must be a bool and is {}", other.name())),
    }
}

impl Type {
    fn name(&self) -> &'static str {
        match self {
            Self::Any => "of a type that is not known before it runs",
            Self::Nothing => "nothing",
            Self::Bool => "a bool",
            Self::Int => "an int",
            Self::Uint => "a uint",
            Self::Double => "a double",
            Self::Text => "a string",
            Self::Bytes => "bytes",
            Self::Null => "null",
            Self::Kind => "a type",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// The common type of both.
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, one) | (one, Self::Nothing) => one,
            (Self::List(a), Self::List(b)) => Self::List(Box::new(a.join(*b))),
            (Self::Map(a), Self::Map(b)) => Self::Map(Box::new(a.join(*b))),
            (a, b) if a == b => a,
            _ => Self::Any,
        }
    }

    fn may_be(&self, wanted: &[Self]) -> bool {
        matches!(self, Self::Any | Self::Nothing) || wanted.contains(self)
    }
}

struct Checker {
    /// Variables of the enclosing loops, the innermost last.
    scopes: Vec<(String, Type)>,
}

impl Checker {
    fn type_of(&mut self, expression: &IdedExpr) -> Result<Type, String> {
        match &expression.expr {
            Expr::Unspecified => Err("the rule has a part without meaning".to_owned()),
            Expr::Struct(message) => Err(format!("unknown type {:?}", message.type_name)),
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::Null => Type::Null,
                LiteralValue::String(_) => Type::Text,
                LiteralValue::UInt(_) => Type::Uint,
            }),
            Expr::Ident(name) => self.variable(name),
            Expr::List(list) => {
                let mut of = Type::Nothing;
                for element in &list.elements {
                    of = of.join(self.type_of(element)?);
                }
                Ok(Type::List(Box::new(of)))
            }
            Expr::Map(map) => {
                let mut of = Type::Nothing;
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err("a map has keys and values".to_owned());
                    };
                    let key = self.type_of(&entry.key)?;
                    if !key.may_be(&[Type::Bool, Type::Int, Type::Uint, Type::Text]) {
                        return Err(format!("a key of a map is {}", key.name()));
                    }
                    of = of.join(self.type_of(&entry.value)?);
                }
                Ok(Type::Map(Box::new(of)))
            }
            Expr::Select(select) => self.field(select),
            Expr::Comprehension(inner) => self.of_loop(inner),
            Expr::Call(call) => self.call(call),
        }
    }

    fn variable(&self, name: &str) -> Result<Type, String> {
        const TYPES: [&str; 10] =
            ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];
        if let Some((_, of)) = self.scopes.iter().rev().find(|(scope, _)| scope == name) {
            return Ok(of.clone());
        }
        match name {
            "properties" => Ok(Type::List(Box::new(Type::Map(Box::new(Type::Any))))),
            name if TYPES.contains(&name) => Ok(Type::Kind),
            name => Err(format!("undeclared reference to {name:?}")),
        }
    }

    fn field(&mut self, select: &SelectExpr) -> Result<Type, String> {
        let field = match self.type_of(&select.operand)? {
            Type::Map(of) => *of,
            Type::Any | Type::Nothing => Type::Any,
            other => return Err(format!("{} has no field {:?}", other.name(), select.field)),
        };
        Ok(if select.test { Type::Bool } else { field })
    }

    fn of_loop(&mut self, inner: &ComprehensionExpr) -> Result<Type, String> {
        let element = match self.type_of(&inner.iter_range)? {
            Type::List(of) => *of,
            Type::Map(_) | Type::Any | Type::Nothing => Type::Any,
            other => return Err(format!("{} has no elements", other.name())),
        };
        let start = self.type_of(&inner.accu_init)?;
        let outside = self.scopes.len();
        self.scopes.push((inner.iter_var.clone(), element));
        self.scopes.push((inner.accu_var.clone(), start.clone()));
        let condition = self.type_of(&inner.loop_cond);
        let step = self.type_of(&inner.loop_step);
        self.scopes.truncate(outside);
        condition?;
        self.scopes.push((inner.accu_var.clone(), start.join(step?)));
        let result = self.type_of(&inner.result);
        self.scopes.truncate(outside);
        result
    }

    fn call(&mut self, call: &CallExpr) -> Result<Type, String> {
        let mut types = Vec::new();
        for operand in call.target.iter().map(AsRef::as_ref).chain(&call.args) {
            types.push(self.type_of(operand)?);
        }
        let name = call.func_name.as_str();
        match (call.target.is_some(), types.as_slice()) {
            (false, [a, b, c]) if name == CONDITIONAL => {
                need(a, &[Type::Bool], "?:")?;
                Ok(b.clone().join(c.clone()))
            }
            (false, [a, b]) => match operator(name, a, b) {
                Some(result) => result,
                None => function(name, false, &types),
            },
            (false, [a]) if name == LOGICAL_NOT || name == NOT_STRICTLY_FALSE => {
                need(a, &[Type::Bool], "!")?;
                Ok(Type::Bool)
            }
            (false, [a]) if name == NEGATE => {
                need(a, &[Type::Int, Type::Double], "-")?;
                Ok(a.clone())
            }
            (member, types) => function(name, member, types),
        }
    }
}

fn need(of: &Type, wanted: &[Type], what: &str) -> Result<(), String> {
    if of.may_be(wanted) {
        return Ok(());
    }
    let names: Vec<&str> = wanted.iter().map(Type::name).collect();
    Err(format!("`{what}` is used with {} where it needs {}", of.name(), names.join(" or ")))
}

/// The type of a binary operator; `None` for any other name.
fn operator(name: &str, a: &Type, b: &Type) -> Option<Result<Type, String>> {
    const NUMBERS: [Type; 3] = [Type::Int, Type::Uint, Type::Double];
    const ORDERED: [Type; 6] = [Type::Int, Type::Uint, Type::Double, Type::Bool, Type::Text, Type::Bytes];
    let both = |wanted: &[Type], what: &str| need(a, wanted, what).and_then(|()| need(b, wanted, what));
    Some(match name {
        LOGICAL_AND => both(&[Type::Bool], "&&").map(|()| Type::Bool),
        LOGICAL_OR => both(&[Type::Bool], "||").map(|()| Type::Bool),
        EQUALS | NOT_EQUALS => Ok(Type::Bool),
        LESS | LESS_EQUALS | GREATER | GREATER_EQUALS => both(&ORDERED, "<").map(|()| Type::Bool),
        IN => match b {
            Type::List(_) | Type::Map(_) | Type::Any => Ok(Type::Bool),
            other => Err(format!("`in` needs a list or a map, not {}", other.name())),
        },
        INDEX => match a {
            Type::List(of) | Type::Map(of) => Ok((**of).clone()),
            Type::Any | Type::Nothing => Ok(Type::Any),
            other => Err(format!("{} has no elements", other.name())),
        },
        ADD if matches!((a, b), (Type::List(_), Type::List(_))) => Ok(a.clone().join(b.clone())),
        ADD => {
            if matches!(a, Type::List(_)) || matches!(b, Type::List(_)) {
                return Some(Ok(Type::Any));
            }
            both(&[Type::Int, Type::Uint, Type::Double, Type::Text, Type::Bytes], "+")
                .map(|()| a.clone().join(b.clone()))
        }
        SUBSTRACT => both(&NUMBERS, "-").map(|()| a.clone().join(b.clone())),
        MULTIPLY => both(&NUMBERS, "*").map(|()| a.clone().join(b.clone())),
        DIVIDE => both(&NUMBERS, "/").map(|()| a.clone().join(b.clone())),
        MODULO => both(&[Type::Int, Type::Uint], "%").map(|()| a.clone().join(b.clone())),
        _ => return None,
    })
}

/// The type of a call; `member` for `a.f(b)`, with `a` as the first operand.
fn function(name: &str, member: bool, operands: &[Type]) -> Result<Type, String> {
    let text = |index: usize| operands.get(index).is_none_or(|of| of.may_be(&[Type::Text]));
    let result = match (name, member, operands.len()) {
        ("size", _, 1) => Type::Int,
        ("semver_compare", false, 2) => Type::Int,
        ("contains" | "startsWith" | "endsWith", true, 2) | ("matches", _, 2) => {
            if !text(0) || !text(1) {
                return Err(format!("`{name}` is used with something that is no string"));
            }
            Type::Bool
        }
        ("int", false, 1) => Type::Int,
        ("uint", false, 1) => Type::Uint,
        ("double", false, 1) => Type::Double,
        ("string", false, 1) => Type::Text,
        ("bytes", false, 1) => Type::Bytes,
        ("bool", false, 1) => Type::Bool,
        ("dyn", false, 1) => Type::Any,
        ("type", false, 1) => Type::Kind,
        ("timestamp" | "duration", false, 1) => {
            return Err(format!("`{name}` is not supported"));
        }
        _ => {
            return Err(format!(
                "no function {name:?} takes {} operands{}",
                operands.len(),
                if member { ", the one before the dot included" } else { "" }
            ));
        }
    };
    Ok(result)
}
