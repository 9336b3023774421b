//! Requirements of the operator besides itself.

use olm_resolver::{Gvk, Need, SatisfiedBy};
use olm_version::shell_word;
use serde_json::Value;

use super::{Context, Report};
use crate::finding::{Finding, FindingCode};
use crate::input::PlanInput;
use crate::json::{list, text};

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let input = context.input;
    report.extend(missing_apis(input).into_iter().filter(|g| !input.facts.apis.contains(g)).map(|gvk| {
        let text = format!("{} requires this API, which is not served", input.resolved.chosen.name);
        Finding::new(FindingCode::RequiredApiMissing, &gvk, text)
            .fix(format!("olm search {}", shell_word(&gvk.kind)))
    }));
    report.extend(dependencies(input));
}

/// The APIs that the operator requires, and that no resolved bundle provides.
pub(super) fn missing_apis(input: &PlanInput<'_>) -> Vec<Gvk> {
    let owned = crds(input, "owned");
    let resolved = |wanted: &Gvk| {
        input.resolved.dependencies.iter().any(|d| {
            let by_need = d.need == Need::Api(wanted.clone());
            // a package installed along may provide the API
            by_need || matches!(d.satisfied_by, SatisfiedBy::Install(_))
        })
    };
    crds(input, "required").into_iter().filter(|g| !owned.contains(g) && !resolved(g)).collect()
}

fn crds(input: &PlanInput<'_>, key: &str) -> Vec<Gvk> {
    let gvk = |v: &Value| {
        let group = text(v, "/name").split_once('.').map_or("", |(_, group)| group);
        Gvk {
            group: group.to_owned(),
            version: text(v, "/version").to_owned(),
            kind: text(v, "/kind").to_owned(),
        }
    };
    let pointer = format!("/spec/customresourcedefinitions/{key}");
    list(&input.bundle.csv_raw, &pointer).iter().map(gvk).collect()
}

/// A plan is about one operator. Its other requirements must exist, or be installed along with their own
/// plans: [`Plan::with_along`](crate::Plan::with_along) then removes these findings.
fn dependencies(input: &PlanInput<'_>) -> Vec<Finding> {
    let needed = |d: &olm_resolver::Dependency| match &d.satisfied_by {
        SatisfiedBy::Install(bundle) => Some((d.clone(), bundle.clone())),
        _ => None,
    };
    input
        .resolved
        .dependencies
        .iter()
        .filter_map(needed)
        .map(|(dependency, bundle)| {
            let text = format!(
                "{} requires {}, which {} provides; it is not installed and not part of this plan",
                dependency.required_by, dependency.need, bundle.name
            );
            Finding::new(FindingCode::DependencyMissing, &bundle.name, text).fix(format!(
                "olm install {} -n {} --channel {}",
                shell_word(&bundle.package),
                input.namespace,
                shell_word(&bundle.channel)
            ))
        })
        .collect()
}
