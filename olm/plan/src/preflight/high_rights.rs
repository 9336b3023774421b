//! New permissions of level HIGH: they are equivalent, or close, to control of the cluster.

use olm_api::names;
use olm_bundle::permissions::PermissionRule;

use super::{Context, Report};
use crate::finding::{Finding, FindingCode, MOST_NAMED};
use crate::json::some_of;
use crate::plan::Level;

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let granted: Vec<String> = granted(context).into_iter().map(describe).collect();
    let what = match granted.len() {
        0 => return,
        1 => "a new permission".to_owned(),
        n => format!("{n} new permissions"),
    };
    let text = format!("the plan grants {what} of level HIGH: {}", some_of(&granted, MOST_NAMED));
    report.push(Finding::new(FindingCode::HighRightsAdded, &context.input.resolved.chosen.name, text));
}

/// The added permissions of level HIGH. A manually edited version may name permissions that were never granted,
/// so then all of the new version count.
pub(super) fn granted<'a>(context: &Context<'a>) -> Vec<&'a PermissionRule> {
    let permissions = context.permissions;
    let edited = context
        .replaced()
        .and_then(|csv| csv["metadata"]["annotations"].get(names::ANNOTATION_REQUESTED_BY))
        .is_some();
    let unchanged = permissions.unchanged.iter().filter(|_| edited);
    permissions.added.iter().chain(unchanged).filter(|rule| rule.level == Level::High).collect()
}

fn describe(rule: &PermissionRule) -> String {
    let scope = match rule.scope.as_str() {
        "cluster" => "cluster-wide".to_owned(),
        namespace => format!("in namespace {namespace}"),
    };
    let reason = rule.reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
    format!("{} {scope}{reason}", rule.rule)
}
