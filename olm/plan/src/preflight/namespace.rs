//! The namespace of the operator and its OperatorGroup.

use super::{Context, Report};
use crate::desired::{namespace_ref, watched_namespaces};
use crate::finding::{Finding, FindingCode};
use crate::json::text;

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    report.extend(operator_groups(context));
    if context.namespace().is_none() {
        report.push(Finding::new(
            FindingCode::NamespaceMissing,
            namespace_ref(context.input.namespace),
            "the namespace does not exist and will be created",
        ));
    }
}

fn operator_groups(context: &Context<'_>) -> Option<Finding> {
    let input = context.input;
    let namespace = input.namespace;
    let subject = namespace_ref(namespace);
    match input.operator_groups.len() {
        0 => {
            let text = format!(
                "the namespace has no OperatorGroup; {} will be created, watching {}",
                crate::desired::OPERATOR_GROUP_NAME,
                watched_namespaces(input.target_namespaces)
            );
            Some(Finding::new(FindingCode::NoOperatorGroup, subject, text))
        }
        1 => None,
        count => {
            let names: Vec<&str> = input.operator_groups.iter().map(|g| text(g, "/metadata/name")).collect();
            let text = format!(
                "the namespace has {count} OperatorGroups ({}), expected one; the target namespaces of its \
                    operators are ambiguous",
                names.join(", ")
            );
            let last = names.last().unwrap_or(&"NAME");
            Some(
                Finding::new(FindingCode::TooManyOperatorGroups, subject, text)
                    .fix(format!("kubectl delete operatorgroup {last} -n {namespace}")),
            )
        }
    }
}
