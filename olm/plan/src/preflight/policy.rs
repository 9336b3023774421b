//! InstallPolicies.

use std::collections::BTreeSet;

use olm_resolver::Action;
use olm_version::shell_word;

use super::{Context, Report, high_rights};
use crate::finding::FindingCode;
use crate::policy::{PolicyInput, rights_of};
use crate::signatures::findings;

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let input = context.input;
    let Some(policies) = report.known_or_record(&input.facts.policies, "InstallPolicies") else { return };
    // An installed version is not checked again.
    if policies.is_empty() || input.resolved.action == Action::None {
        return;
    }
    let chosen = &input.resolved.chosen;
    let rights = rights_of(
        input.rendered.into_iter().flat_map(|rendered| rendered.objects()).map(|(_, object)| object),
    );
    let judged = PolicyInput {
        catalog: &chosen.catalog,
        package: &chosen.package,
        channel: &chosen.channel,
        rights: &rights,
        high: high_rights::granted(context).len(),
    };
    let approve = format!("olm approve {} -n {}", shell_word(&chosen.package), input.namespace);
    report.extend(findings(&input.facts.signatures));
    report.extend(policies.findings(&judged).into_iter().map(|finding| match finding.code {
        FindingCode::SecondApproverNeeded => finding.fix(approve.clone()),
        _ => finding,
    }));
}

/// Names of the policies whose authors lend their rights to the plan. Only where the operator watches its own
/// namespace alone: otherwise the users of the namespace can act as the operator, and choose what it watches.
pub(crate) fn lending(context: &Context<'_>) -> BTreeSet<String> {
    let (input, chosen) = (context.input, &context.input.resolved.chosen);
    let own = input.target_namespaces.iter().all(|target| target == input.namespace);
    let policies = input.facts.policies.known().filter(|_| own && !input.target_namespaces.is_empty());
    let lending =
        policies.map(|policies| policies.lending(&chosen.catalog, &chosen.package, &chosen.channel));
    lending.into_iter().flatten().filter_map(|policy| policy.metadata.name.clone()).collect()
}
