//! The namespaces to watch as the form has them.

use std::sync::Arc;

use kube::{Api, Client, api::ListParams};
use maud::{Markup, html};
use olm_api::OperatorGroup;
use olm_bundle::{InstallMode, InstallModes};
use olm_engine::targets::of_group;
use olm_kube_schema::names::is_dns_label;
use olm_ops::{GroupDecision, InstallRequest, ScopeFacts, WatchScope, decide_group};
use olm_plan::watched_namespaces;

use crate::{
    links::clean,
    pages::package::Found,
    posted::Fields,
    view::field::{self, Field, described_by},
};

/// The value of each mode, its label and its effect. The command line has the same values.
const MODES: [(&str, InstallMode, &str, &str); 4] = [
    ("own", InstallMode::OwnNamespace, "Own namespace", "The operator's namespace."),
    ("single", InstallMode::SingleNamespace, "One namespace", "The namespace below."),
    ("multi", InstallMode::MultiNamespace, "Several namespaces", "The namespaces below."),
    ("all", InstallMode::AllNamespaces, "All namespaces", "The whole cluster."),
];

/// Submitted fields.
#[derive(Default)]
pub(super) struct WatchForm {
    mode: Option<InstallMode>,
    namespaces: String,
}

impl WatchForm {
    pub(super) fn read(fields: &Fields) -> Self {
        let value = fields.text("watch");
        let mode = MODES.iter().find(|(name, ..)| Some(*name) == value).map(|(_, mode, ..)| *mode);
        Self { mode, namespaces: fields.text("watch-namespaces").unwrap_or_default().to_owned() }
    }

    /// The requested scope; the field of the namespaces counts for the modes that need it.
    pub(super) fn scope(&self, own: &str) -> Result<Option<WatchScope>, String> {
        let named = matches!(self.mode, Some(InstallMode::SingleNamespace | InstallMode::MultiNamespace));
        let words = self.namespaces.split(|c: char| c == ',' || c.is_whitespace());
        let list: Vec<String> = words.filter(|word| named && !word.is_empty()).map(str::to_owned).collect();
        WatchScope::requested(self.mode, &list, own)
    }
}

/// The flags of the command line for a scope, with a space before them.
pub(super) fn flags(scope: &WatchScope) -> String {
    match scope {
        WatchScope::OwnNamespace => " --mode own".to_owned(),
        WatchScope::SingleNamespace(one) => format!(" --watch {one}"),
        WatchScope::MultiNamespace(list) => format!(" --watch {}", list.join(",")),
        WatchScope::AllNamespaces => " --mode all".to_owned(),
    }
}

/// The OperatorGroups of a namespace; none where the user may not list them, since the plan then has the reason.
pub(super) async fn groups(client: &Client, namespace: &str) -> Vec<Arc<OperatorGroup>> {
    if !is_dns_label(namespace) {
        return Vec::new();
    }
    let list = Api::<OperatorGroup>::namespaced(client.clone(), namespace).list(&ListParams::default()).await;
    list.map(|list| list.items.into_iter().map(Arc::new).collect()).unwrap_or_default()
}

/// What the fieldset shows beside the submitted fields.
pub(super) struct WatchView {
    groups: Vec<Arc<OperatorGroup>>,
    /// The install modes of the selected version, where the catalog has them.
    modes: Option<InstallModes>,
    problem: Option<String>,
    /// The OperatorGroup that the installation creates.
    pub(super) new_group: Option<OperatorGroup>,
}

impl WatchView {
    /// `known` are the namespaces of the cluster; none when the user may not list them.
    pub(super) fn new(
        form: &WatchForm,
        request: &InstallRequest,
        found: &Found<'_>,
        groups: Vec<Arc<OperatorGroup>>,
        known: &[String],
    ) -> Self {
        let metadata = found.bundle.csv_metadata();
        let modes = metadata.and_then(|metadata| Some(InstallModes::of(metadata.install_modes.as_array()?)));
        let own = &request.namespace;
        let (new_group, problem) = match form.scope(own) {
            Err(why) => (None, Some(clean(&why))),
            Ok(None) => (None, None),
            Ok(Some(scope)) => {
                let is_missing =
                    |target: &String| !target.is_empty() && target != own && !known.contains(target);
                let missing: Vec<String> =
                    scope.targets(own).into_iter().filter(|t| !known.is_empty() && is_missing(t)).collect();
                let facts =
                    ScopeFacts { namespace: own, groups: &groups, modes: modes.as_ref(), missing: &missing };
                match decide_group(&facts, &scope) {
                    GroupDecision::Keep(_) => (None, None),
                    GroupDecision::Create(group) => (Some(*group), None),
                    GroupDecision::Refuse(refusal) => (None, Some(clean(&refusal.text))),
                }
            }
        };
        Self { groups, modes, problem, new_group }
    }

    /// Why a mode is not available; `None` when it is.
    fn unavailable(&self, mode: InstallMode, own: &str) -> Option<String> {
        if self.modes.as_ref().is_some_and(|modes| !modes.supports(mode)) {
            return Some("Not supported by this version.".to_owned());
        }
        let [group] = self.groups.as_slice() else { return None };
        (self.present(own) != Some(mode)).then(|| format!("{}.", watching(group)))
    }

    /// The mode that the existing OperatorGroup stands for; none for one with a selector.
    fn present(&self, own: &str) -> Option<InstallMode> {
        let [group] = self.groups.as_slice() else { return None };
        if group.spec.is_global() {
            return Some(InstallMode::AllNamespaces);
        }
        let scope = WatchScope::requested(None, &group.spec.target_namespaces, own).ok()??;
        Some(scope.mode())
    }

    /// The targets of the existing OperatorGroup, for the field of the namespaces.
    fn present_namespaces(&self) -> String {
        match self.groups.as_slice() {
            [group] => group.spec.target_namespaces.join(", "),
            _ => String::new(),
        }
    }

    pub(super) fn fieldset(&self, form: &WatchForm, own: &str) -> Markup {
        let default = match self.groups.as_slice() {
            [] => "The operator's namespace, or all where the version supports only that.".to_owned(),
            [group] => format!("{}.", watching(group)),
            several => format!("The namespace has {} OperatorGroups, expected one.", several.len()),
        };
        let wrong = self.problem.as_ref().map(|_| "true");
        let value =
            if form.namespaces.is_empty() { self.present_namespaces() } else { form.namespaces.clone() };
        let input = html! {
            input #watch-namespaces type="text" name="watch-namespaces" value=(value) autocomplete="off" spellcheck="false"
                placeholder="team-a, team-b" aria-invalid=[wrong] aria-describedby=[described_by("watch-namespaces", true, wrong.is_some())];
        };
        html! {
            div.stack-s #watch {
                fieldset.field {
                    legend { "Watch" }
                    (field::radio("watch", "", form.mode.is_none(), &html! { "Default" }, &html! { (clean(&default)) }))
                    @for (name, mode, label, help) in MODES {
                        @let checked = form.mode == Some(mode);
                        @let why = self.unavailable(mode, own);
                        // A selected mode stays selectable: a disabled one would be submitted as the default.
                        (field::choice("watch", name, checked, why.is_some() && !checked, &html! { (label) },
                            &html! { (clean(why.as_deref().unwrap_or(help))) }))
                    }
                }
                div.watch-namespaces { (Field::new("watch-namespaces", html! { "Namespaces to watch" })
                    .help(Some(html! { "For one or several namespaces, separated by commas." }))
                    .problem(self.problem.as_deref())
                    .show(&input)) }
            }
        }
    }
}

fn watching(group: &OperatorGroup) -> String {
    let name = group.metadata.name.as_deref().unwrap_or_default();
    if group.spec.target_namespaces.is_empty() && !group.spec.is_global() {
        return format!("OperatorGroup {name} selects namespaces by label");
    }
    format!("OperatorGroup {name} watches {}", watched_namespaces(&of_group(group)))
}
