//! Permissions: what the installed version may do, in words.

use kube::ResourceExt as _;
use maud::{Markup, html};
use olm_bundle::permissions::{PermissionRule, rules};
use olm_engine::bundle_of;
use olm_ops::Overview;

use crate::{
    links::clean,
    view::{
        parts::{self, Tone},
        permissions,
    },
};

/// The permissions that the installed version requests in the namespaces that it watches, the most dangerous
/// first; `None` without a version, or where it does not support these namespaces.
pub(super) fn of(view: &Overview) -> Option<Vec<PermissionRule>> {
    let one = &view.timeline.installed;
    // Without an OperatorGroup the watched namespaces are unknown: the least is its own.
    let mut targets = if one.watches.is_empty() { vec![one.namespace.clone()] } else { one.watches.clone() };
    targets.retain(|namespace| !namespace.is_empty());
    rules(&bundle_of(view.csv.as_ref()?), &one.namespace, targets)
}

pub(super) fn show(view: &Overview) -> Markup {
    let Some(csv) = &view.csv else {
        return parts::empty("No permissions", "No version is installed.", None);
    };
    html! {
        section.panel #permissions aria-labelledby="permissions-h" {
            @match of(view) {
                None => {
                    header { h2 #permissions-h { "Permissions" } }
                    div.body { (parts::note(Tone::Warn, &html! { "The version does not support the namespaces of its OperatorGroup: its permissions are unknown." })) }
                }
                Some(rules) => {
                    header { h2 #permissions-h { "Permissions" } (permissions::counts(&rules)) }
                    div.body.stack-s {
                        @if rules.is_empty() { p.muted { "No permissions requested." } }
                        (permissions::all(&rules))
                        p.small.muted { "Requested by ClusterServiceVersion " code { (clean(&csv.name_any())) } "." }
                    }
                }
            }
        }
    }
}
