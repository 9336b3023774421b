//! Single rights.

use std::collections::BTreeSet;

use serde_json::Value;

/// Maximum number of rights of one bundle that are distinguished: a rule is a product of four lists, and
/// bundles are untrusted. The largest real bundle has 4,000.
pub(super) const MOST: usize = 100_000;

/// One verb on one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right<'a> {
    /// The namespace that it is limited to; the whole cluster without one.
    pub(super) namespace: Option<&'a str>,
    pub(super) group: &'a str,
    pub(super) resource: &'a str,
    /// Name of the single object that it is limited to.
    pub(super) name: Option<&'a str>,
    pub(super) verb: &'a str,
    /// Whether `resource` is a path of the API server instead.
    pub(super) url: bool,
}

/// The rights of a role, as if it was bound in a scope. `left` limits their number.
pub(super) fn rights_of<'a>(
    role: &'a Value,
    namespace: Option<&'a str>,
    left: &mut usize,
) -> BTreeSet<Right<'a>> {
    let mut rights = BTreeSet::new();
    for rule in role.get("rules").and_then(Value::as_array).into_iter().flatten() {
        add(&mut rights, namespace, rule, left);
    }
    rights
}

fn add<'a>(rights: &mut BTreeSet<Right<'a>>, namespace: Option<&'a str>, rule: &'a Value, left: &mut usize) {
    let mut insert = |right| {
        let Some(fewer) = left.checked_sub(1) else { return false };
        *left = fewer;
        rights.insert(right);
        true
    };
    let none: [Option<&str>; 1] = [None];
    let named: Vec<Option<&str>> = strings(rule, "resourceNames").map(Some).collect();
    let names = if named.is_empty() { none.as_slice() } else { named.as_slice() };
    for verb in strings(rule, "verbs") {
        // only a cluster-wide binding grants these
        for path in strings(rule, "nonResourceURLs").filter(|_| namespace.is_none()) {
            let right = Right { namespace, group: "", resource: path, name: None, verb, url: true };
            if !insert(right) {
                return;
            }
        }
        for group in strings(rule, "apiGroups") {
            for resource in strings(rule, "resources") {
                for name in names {
                    let right = Right { namespace, group, resource, name: *name, verb, url: false };
                    if !insert(right) {
                        return;
                    }
                }
            }
        }
    }
}

fn strings<'a>(rule: &'a Value, key: &str) -> impl Iterator<Item = &'a str> + Clone {
    let list = rule.get(key).and_then(Value::as_array).map_or([].as_slice(), Vec::as_slice);
    list.iter().filter_map(Value::as_str)
}
