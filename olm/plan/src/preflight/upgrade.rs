//! What an upgrade removes.

use olm_bundle::InstallMode;
use olm_version::shell_word;
use serde_json::Value;

use super::{Context, Report};
use crate::facts::Fact;
use crate::finding::{Finding, FindingCode, MOST_NAMED, Severity};
use crate::json::{list, some_of, text};

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let Some(old) = context.replaced() else { return };
    install_modes(context, old, report);
    removed_crds(context, old, report);
}

fn supports(csv: &Value, mode: &str) -> bool {
    list(csv, "/spec/installModes").iter().any(|m| text(m, "/type") == mode && m["supported"] == true)
}

/// Whether the installed version supports the requested install mode that the new one does not.
pub(super) fn watched_it(context: &Context<'_>) -> bool {
    let Some(old) = context.replaced() else { return false };
    let input = context.input;
    let (_, targets) = crate::desired::operator_group_of(input.operator_groups, input.target_namespaces);
    let fits = match targets.as_slice() {
        [] => &[InstallMode::AllNamespaces][..],
        [one] if one == input.namespace => &[InstallMode::OwnNamespace, InstallMode::MultiNamespace],
        [_] => &[InstallMode::SingleNamespace, InstallMode::MultiNamespace],
        _ => &[InstallMode::MultiNamespace],
    };
    fits.iter().any(|mode| supports(old, mode.as_str()))
}

/// Removed modes without a local user do not block; they are worth a note before the next installation.
fn install_modes(context: &Context<'_>, old: &Value, report: &mut Report) {
    let new = &context.input.bundle.csv_raw;
    if context.input.rendered.is_err() {
        return;
    }
    let gone: Vec<&str> = list(old, "/spec/installModes")
        .iter()
        .map(|m| text(m, "/type"))
        .filter(|mode| supports(old, mode) && !supports(new, mode))
        .collect();
    if !gone.is_empty() {
        let text = format!(
            "the new version drops install mode {}, which this installation does not use",
            gone.join(", ")
        );
        report.push(
            Finding::new(FindingCode::InstallModeRemoved, &context.input.resolved.chosen.name, text)
                .severity(Severity::Info),
        );
    }
}

/// The CRDs that the installed version owns and the new one does not: names with version and kind.
pub(super) fn given_up<'a>(old: &'a Value, new: &Value) -> Vec<&'a Value> {
    const OWNED: &str = "/spec/customresourcedefinitions/owned";
    let kept = |name: &str| list(new, OWNED).iter().any(|c| text(c, "/name") == name);
    let mut seen = std::collections::BTreeSet::new();
    list(old, OWNED)
        .iter()
        .filter(|c| !text(c, "/name").is_empty() && !kept(text(c, "/name")))
        .filter(|c| seen.insert(text(c, "/name")))
        .collect()
}

fn removed_crds(context: &Context<'_>, old: &Value, report: &mut Report) {
    let chosen = &context.input.resolved.chosen;
    let (_, targets) =
        crate::desired::operator_group_of(context.input.operator_groups, context.input.target_namespaces);
    // Objects in other namespaces are not this installation's, and no less managed than before.
    let managed = |object: &&Value| match text(object, "/metadata/namespace") {
        "" => true,
        namespace => targets.is_empty() || targets.iter().any(|target| target == namespace),
    };
    for crd in given_up(old, &context.input.bundle.csv_raw) {
        let (name, kind) = (text(crd, "/name"), text(crd, "/kind"));
        let many = match context.input.facts.custom_objects.get(name) {
            Some(Fact::Known(objects)) => {
                let names: Vec<String> =
                    objects.items.iter().filter(managed).map(super::crd::name_of).collect();
                match (names.len(), objects.more) {
                    (0, false) => continue,
                    (0, true) => format!("an unknown number of {kind} objects"),
                    (n, more) => {
                        let more = if more { "more than " } else { "" };
                        format!("{more}{n} {kind} objects ({})", some_of(&names, MOST_NAMED))
                    }
                }
            }
            Some(Fact::Unknown(why)) => {
                report.not_checked(format!("objects of {name}"), why);
                format!("an unknown number of {kind} objects")
            }
            Some(Fact::NotRead) | None => format!("an unknown number of {kind} objects"),
        };
        let text = format!("{} no longer owns it: {many} remain unmanaged", chosen.name);
        report.push(
            Finding::new(FindingCode::CrdRemoved, format!("CustomResourceDefinition {name}"), text)
                .fix(format!("kubectl get {} -A", shell_word(name))),
        );
    }
}
