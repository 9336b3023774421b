//! Rights as text.

use std::collections::{BTreeMap, BTreeSet};

use super::grade::{Level, PermissionRule, grade};
use super::right::Right;

const ORDER: &[&str] =
    &["*", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// Verbs on one resource with the same level and reason become one line.
pub(super) fn describe<'a>(
    rights: impl IntoIterator<Item = &'a Right<'a>>,
    own_crds: &BTreeSet<&str>,
) -> Vec<PermissionRule> {
    type Key<'a> = (Level, Option<&'static str>, Option<&'a str>, &'a str, &'a str, Option<&'a str>);
    let mut lines: BTreeMap<Key<'a>, Vec<&'a str>> = BTreeMap::new();
    for right in rights {
        let (level, reason) = grade(right, own_crds);
        let key = (level, reason, right.namespace, right.group, right.resource, right.name);
        lines.entry(key).or_default().push(right.verb);
    }
    lines
        .into_iter()
        .map(|((level, reason, namespace, group, resource, name), mut verbs)| {
            verbs.sort_by_key(|v| (ORDER.iter().position(|o| o == v).unwrap_or(ORDER.len()), *v));
            let what = match (group, resource) {
                ("*", "*") => "everything".to_owned(),
                ("", resource) => resource.to_owned(),
                (group, resource) => format!("{resource}.{group}"),
            };
            let what = match name {
                Some(name) => format!("{what} \"{name}\""),
                None => what,
            };
            PermissionRule {
                rule: format!("{} {what}", verbs.join(",")),
                level,
                reason: reason.map(str::to_owned),
                scope: namespace.unwrap_or("cluster").to_owned(),
            }
        })
        .collect()
}
