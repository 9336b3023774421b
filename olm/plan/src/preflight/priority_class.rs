//! Whether the priority classes of pods exist.

use std::collections::BTreeSet;

use olm_version::shell_word;

use super::pod;
use super::{Context, Report};
use crate::finding::{Finding, FindingCode};
use crate::input::PlanInput;
use crate::json::text;

/// Part of every cluster.
const BUILT_IN: &[&str] = &["system-cluster-critical", "system-node-critical"];

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let facts = &context.input.facts.priority_classes;
    for pods in pod::changed(context) {
        let name = text(pods.spec(), "/priorityClassName");
        let Some(fact) = facts.get(name) else { continue };
        if report.known_or_record(fact, &format!("PriorityClass {name}")) == Some(&false) {
            let text = format!(
                "its pods use PriorityClass {name}, which does not exist, so the API server rejects them"
            );
            report.push(
                Finding::new(FindingCode::PriorityClassMissing, pods.reference, text)
                    .fix(format!("kubectl create priorityclass {} --value=1000000", shell_word(name))),
            );
        }
    }
}

/// The priority classes of the bundle's pods that the bundle does not contain.
pub(super) fn needed(input: &PlanInput<'_>) -> BTreeSet<String> {
    let objects = || input.rendered.ok().into_iter().flat_map(|r| r.objects()).map(|(_, object)| object);
    let brought: BTreeSet<&str> =
        objects().filter(|o| o["kind"] == "PriorityClass").map(|o| text(o, "/metadata/name")).collect();
    objects()
        .filter_map(|object| {
            let reference = crate::object::ObjectRef::of(object)?;
            Some(text(&pod::template(&reference, object)?["spec"], "/priorityClassName"))
        })
        .filter(|name| !name.is_empty() && !BUILT_IN.contains(name) && !brought.contains(name))
        .map(str::to_owned)
        .collect()
}
