//! Blockers of an uninstall: custom resources.

use olm_api::subscription::OperandPolicy;
use olm_version::shell_word;

use super::{Operand, UninstallInput};
use crate::finding::{Finding, FindingCode, Severity};

pub(super) fn findings(input: &UninstallInput<'_>, operands: &[Operand], crds_go: bool) -> Vec<Finding> {
    let present = operands.iter().filter(|operand| operand.count != Some(0));
    let mut list: Vec<Finding> = present.map(|operand| finding(input, operand, crds_go)).collect();
    list.sort_by(|a, b| (a.severity, &a.subject).cmp(&(b.severity, &b.subject)));
    list
}

fn finding(input: &UninstallInput<'_>, operand: &Operand, crds_go: bool) -> Finding {
    let what = match operand.count {
        Some(1) => format!("1 {} object", operand.gvk.kind),
        Some(n) => format!("{n} {} objects", operand.gvk.kind),
        None => format!("an unknown number of {} objects", operand.gvk.kind),
    };
    let policy = input.policy.operands;
    let command = format!("olm uninstall {} -n {}", shell_word(input.package), input.namespace);
    let (severity, text, fix) = match operand.count {
        None if crds_go || policy == OperandPolicy::Delete => (
            Severity::Block,
            format!("{what} would be deleted; the objects could not be listed, so the data loss is unknown"),
            Some(format!("kubectl get {} -A", shell_word(&operand.crd))),
        ),
        _ if policy == OperandPolicy::Delete => {
            (Severity::Warn, format!("{what} deleted, including their data"), None)
        }
        _ if crds_go => (
            Severity::Block,
            format!("{what} would be deleted with the CustomResourceDefinition, including their data"),
            Some(format!("{command} --instances delete --delete-crds")),
        ),
        _ if policy == OperandPolicy::Abort => (
            Severity::Block,
            format!("{what} would remain without an operator (deletionPolicy.operands: Abort)"),
            Some(format!("{command} --instances keep  # or: --instances delete")),
        ),
        _ => (Severity::Warn, format!("{what} retained without an operator"), None),
    };
    let subject = match operand.examples.first() {
        Some(example) => format!("{} {example}", operand.gvk.kind),
        None => operand.crd.clone(),
    };
    let mut finding = Finding::new(FindingCode::OperandsPresent, subject, text).severity(severity);
    finding.fix = fix;
    finding.object = Some(format!("CustomResourceDefinition/{}", operand.crd));
    finding
}
