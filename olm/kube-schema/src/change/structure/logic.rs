//! allOf, anyOf, oneOf, not, and rules in CEL.

use serde_json::{Map, Value};

use super::super::collect::{Collector, plain};
use super::super::{ChangeCode, Severity};
use super::{is_set, list, text};

use ChangeCode::*;
use Severity::{Breaking, Careful};

type Schema = Map<String, Value>;

pub(super) fn compare(path: &str, old: &Schema, new: &Schema, out: &mut Collector) {
    all_of(path, old, new, out);
    // An int-or-string lists its types in anyOf, for readers without the extension.
    if !is_set(new, "x-kubernetes-int-or-string") {
        choice(path, old, new, "anyOf", out);
    }
    choice(path, old, new, "oneOf", out);
    not(path, old, new, out);
    rules(path, old, new, out);
}

fn shown(list: &[Value]) -> Option<String> {
    (!list.is_empty()).then(|| Value::from(list.to_vec()).to_string())
}

/// Every further condition narrows.
fn all_of(path: &str, old: &Schema, new: &Schema, out: &mut Collector) {
    let (before, after) = (list(old, "allOf"), list(new, "allOf"));
    let spelt_out = |schema: &Value| {
        is_set(new, "x-kubernetes-int-or-string")
            && schema.as_object().is_some_and(|map| map.keys().eq(["anyOf"]))
    };
    if after.iter().any(|schema| !before.contains(schema) && !spelt_out(schema)) {
        let code = if before.is_empty() { LogicAdded } else { LogicChanged };
        let text = "objects that do not meet the further conditions (allOf) are refused";
        out.add_with(code, Breaking, path, text, shown(before), shown(after));
    }
}

fn choice(path: &str, old: &Schema, new: &Schema, key: &str, out: &mut Collector) {
    let (before, after) = (list(old, key), list(new, key));
    if after.is_empty() || before == after {
        return;
    }
    if before.is_empty() {
        let which = if key == "anyOf" { "at least one" } else { "exactly one" };
        let text = format!("objects that do not match {which} of the alternatives ({key}) are refused");
        return out.add_with(LogicAdded, Breaking, path, text, None, shown(after));
    }
    let lost = before.iter().any(|schema| !after.contains(schema));
    let gained = after.iter().any(|schema| !before.contains(schema));
    let (severity, text) = match (lost, gained) {
        (false, false) => return,
        (false, true) if key == "anyOf" => return,
        (false, true) => {
            (Careful, "objects that match an old and a new alternative (oneOf) are refused".to_owned())
        }
        (true, false) => {
            (Breaking, format!("objects that match only the alternative that is gone ({key}) are refused"))
        }
        (true, true) => {
            (Careful, format!("the alternatives ({key}) are others; which objects match is not decided here"))
        }
    };
    out.add_with(LogicChanged, severity, path, text, shown(before), shown(after));
}

fn not(path: &str, old: &Schema, new: &Schema, out: &mut Collector) {
    let (before, after) = (old.get("not"), new.get("not").filter(|schema| !schema.is_null()));
    let Some(after) = after else { return };
    match before.filter(|schema| !schema.is_null()) {
        None => {
            let text = "objects that match it (not) are refused";
            out.add_with(LogicAdded, Breaking, path, text, None, Some(plain(after)));
        }
        Some(before) if before != after => {
            let text = "the excluded values (not) are others; which objects match is not decided here";
            out.add_with(LogicChanged, Careful, path, text, Some(plain(before)), Some(plain(after)));
        }
        Some(_) => {}
    }
}

fn rules(path: &str, old: &Schema, new: &Schema, out: &mut Collector) {
    const KEY: &str = "x-kubernetes-validations";
    let rule =
        |value: &'_ Value| value.get("rule").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    let before: Vec<String> = list(old, KEY).iter().map(rule).collect();
    for value in list(new, KEY) {
        let after = rule(value);
        if !before.contains(&after) {
            let message = value.as_object().map(|value| text(value, "message")).unwrap_or_default();
            let text = match message {
                "" => "objects that break the rule are refused".to_owned(),
                message => format!("objects that break the rule are refused: {message}"),
            };
            out.add_with(RuleAdded, Breaking, path, text, None, Some(after));
        }
    }
}
