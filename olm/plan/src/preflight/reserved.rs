//! Objects of the plan that belong to olm or to Kubernetes.

use olm_version::shell_word;

use super::{Context, Report};
use crate::desired::operator_group_of;
use crate::finding::{Finding, FindingCode};
use crate::json::text;
use crate::reserved::{Installed, reserved, unapproved_group};

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let input = context.input;
    let (_, targets) = operator_group_of(input.operator_groups, input.target_namespaces);
    let crds: Vec<&str> = context.crds().map(|(reference, _)| reference.name.as_str()).collect();
    let apis = context.of_kind("apiregistration.k8s.io", "APIService");
    let groups: Vec<&str> = apis.map(|(_, api)| text(api, "/spec/group")).collect();
    let installed = Installed { namespace: input.namespace, targets: &targets, crds: &crds, groups: &groups };
    let package = shell_word(&input.resolved.chosen.package);
    let fix = format!("olm show {package}  # report to the publisher of the bundle");
    // olm itself creates the objects around the bundle.
    let of_bundle = context.wanted.iter().filter(|(_, r, _)| {
        r.kind != "Namespace" && (r.group() != olm_api::names::GROUP || r.namespace.is_none())
    });
    for (_, reference, manifest) in of_bundle {
        let live = context.live.get(reference);
        if let Some(why) = reserved(manifest, live, &installed) {
            let why = format!("operators may not create or change it: it {why}");
            report.push(Finding::new(FindingCode::ReservedObject, reference, why).fix(fix.clone()));
        }
    }
    for (reference, crd) in context.crds().filter(|(reference, _)| !context.live.contains_key(*reference)) {
        if let Some(group) = unapproved_group(crd) {
            let why = format!(
                "the API server rejects it: group {group} belongs to Kubernetes, and annotation \
                    api-approved.kubernetes.io is missing"
            );
            report.push(Finding::new(FindingCode::ReservedObject, reference, why).fix(fix.clone()));
        }
    }
}
