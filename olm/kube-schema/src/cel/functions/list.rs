//! Lists and sets.

use std::{cmp::Ordering, rc::Rc};

use jiff::SignedDuration;

use super::super::value::{Fault, Outcome, Val, error};

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    if let ("size", [value]) = (name, args) {
        return value.len().map(|size| Ok(Val::Int(size as i64)));
    }
    if let ("lists.range", [Val::Int(count)]) = (name, args) {
        return Some(Ok(Val::list((0..*count).map(Val::Int).collect())));
    }
    let is_list = |val: &Val<'_>| matches!(val, Val::List(_) | Val::JsonList(..));
    let items = match args.first()?.clone() {
        list if is_list(&list) => match list.items() {
            Ok(items) => items,
            Err(fault) => return Some(Err(fault)),
        },
        _ => return None,
    };
    Some(match (name, &args[1..]) {
        ("isSorted", []) => is_sorted(&items),
        ("sum", []) => sum(&items),
        ("min", []) => extreme(&items, "min"),
        ("max", []) => extreme(&items, "max"),
        ("indexOf", [wanted]) => position(&items, wanted, false),
        ("lastIndexOf", [wanted]) => position(&items, wanted, true),
        ("join", rest) => join(&items, rest),
        ("first", []) => Ok(Val::Optional(items.first().cloned().map(Rc::new))),
        ("last", []) => Ok(Val::Optional(items.last().cloned().map(Rc::new))),
        ("unwrapOpt" | "optional.unwrap", []) => unwrap(&items),
        ("slice", [Val::Int(start), Val::Int(end)]) => slice(&items, *start, *end),
        ("distinct", []) => distinct(&items),
        ("reverse", []) => Ok(Val::list(items.iter().rev().cloned().collect())),
        ("sort", []) => sort(&items),
        ("flatten", []) => flatten(&items, 1).map(Val::list),
        ("flatten", [Val::Int(levels)]) => match u64::try_from(*levels) {
            Ok(levels) => flatten(&items, levels).map(Val::list),
            Err(_) => Err(error("level must be non-negative")),
        },
        ("sets.contains", [other]) => {
            other.items().and_then(|other| contains_all(&items, &other)).map(Val::Bool)
        }
        ("sets.equivalent", [other]) => other
            .items()
            .and_then(|other| Ok(contains_all(&items, &other)? && contains_all(&other, &items)?))
            .map(Val::Bool),
        ("sets.intersects", [other]) => {
            other.items().and_then(|other| intersects(&items, &other)).map(Val::Bool)
        }
        _ => return None,
    })
}

fn is_sorted<'a>(items: &[Val<'a>]) -> Outcome<'a> {
    for pair in items.windows(2) {
        if pair[0].order(&pair[1])?.is_gt() {
            return Ok(false.into());
        }
    }
    Ok(true.into())
}

fn sum<'a>(items: &[Val<'a>]) -> Outcome<'a> {
    let Some((first, rest)) = items.split_first() else { return Ok(Val::Int(0)) };
    rest.iter().try_fold(first.clone(), |sum, item| {
        Ok(match (&sum, item) {
            (Val::Int(a), Val::Int(b)) => {
                Val::Int(a.checked_add(*b).ok_or_else(|| error("integer overflow"))?)
            }
            (Val::Uint(a), Val::Uint(b)) => {
                Val::Uint(a.checked_add(*b).ok_or_else(|| error("unsigned integer overflow"))?)
            }
            (Val::Double(a), Val::Double(b)) => Val::Double(a + b),
            (Val::Span(a), Val::Span(b)) => {
                Val::Span(SignedDuration::checked_add(*a, *b).ok_or_else(|| error("duration overflow"))?)
            }
            _ => return Err(super::no_overload()),
        })
    })
}

fn extreme<'a>(items: &[Val<'a>], which: &str) -> Outcome<'a> {
    let Some((first, rest)) = items.split_first() else {
        return Err(error(format!("{which} called on empty list")));
    };
    let mut found = first;
    for item in rest {
        let order = item.order(found)?;
        if (which == "min" && order.is_lt()) || (which == "max" && order.is_gt()) {
            found = item;
        }
    }
    Ok(found.clone())
}

fn position<'a>(items: &[Val<'a>], wanted: &Val<'a>, last: bool) -> Outcome<'a> {
    let mut found = -1;
    for (at, item) in items.iter().enumerate() {
        if item.equals(wanted)? {
            found = at as i64;
            if !last {
                break;
            }
        }
    }
    Ok(Val::Int(found))
}

fn unwrap<'a>(items: &[Val<'a>]) -> Outcome<'a> {
    let mut values = Vec::new();
    for item in items {
        match item {
            Val::Optional(value) => values.extend(value.as_deref().cloned()),
            _ => return Err(super::no_overload()),
        }
    }
    Ok(Val::list(values))
}

fn slice<'a>(items: &[Val<'a>], start: i64, end: i64) -> Outcome<'a> {
    let refused = |why: String| Err(error(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return refused("negative indexes not supported".to_owned());
    };
    if from > to {
        return refused("start index must be less than or equal to end index".to_owned());
    }
    match items.get(from..to) {
        Some(part) => Ok(Val::list(part.to_vec())),
        None => refused(format!("list is length {}", items.len())),
    }
}

fn distinct<'a>(items: &[Val<'a>]) -> Outcome<'a> {
    let mut found: Vec<Val<'a>> = Vec::new();
    for item in items {
        if !contains(&found, item)? {
            found.push(item.clone());
        }
    }
    Ok(Val::list(found))
}

fn sort<'a>(items: &[Val<'a>]) -> Outcome<'a> {
    let mut fault = None;
    let mut sorted = items.to_vec();
    sorted.sort_by(|a, b| {
        a.order(b).unwrap_or_else(|wrong| {
            fault.get_or_insert(wrong);
            Ordering::Equal
        })
    });
    fault.map_or(Ok(Val::list(sorted)), Err)
}

fn flatten<'a>(items: &[Val<'a>], levels: u64) -> Result<Vec<Val<'a>>, Fault> {
    let mut flat = Vec::new();
    for item in items {
        match item {
            Val::List(_) | Val::JsonList(..) if levels > 0 => {
                flat.extend(flatten(&item.items()?, levels - 1)?)
            }
            item => flat.push(item.clone()),
        }
    }
    Ok(flat)
}

fn join<'a>(items: &[Val<'a>], separator: &[Val<'a>]) -> Outcome<'a> {
    let separator = match separator {
        [] => "",
        [Val::Text(text)] => text,
        _ => return Err(super::no_overload()),
    };
    let texts: Option<Vec<&str>> =
        items.iter().map(|item| if let Val::Text(text) = item { Some(&**text) } else { None }).collect();
    Ok(texts.ok_or_else(super::no_overload)?.join(separator).into())
}

fn contains(items: &[Val<'_>], wanted: &Val<'_>) -> Result<bool, Fault> {
    for item in items {
        if item.equals(wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains_all(items: &[Val<'_>], wanted: &[Val<'_>]) -> Result<bool, Fault> {
    for one in wanted {
        if !contains(items, one)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects(items: &[Val<'_>], others: &[Val<'_>]) -> Result<bool, Fault> {
    for one in others {
        if contains(items, one)? {
            return Ok(true);
        }
    }
    Ok(false)
}
