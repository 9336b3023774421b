//! Reasons that exclude a bundle regardless of other choices.

use olm_constraint::Rule;
use olm_version::{Version, precedence};

use crate::allow::Allowlist;
use crate::code::Code;
use crate::context::{Context, name_of, namespace_of};
use crate::explain::Fix;
use crate::facts::Installed;
use crate::place::Place;

#[derive(Clone, Debug)]
pub(crate) struct Excluded {
    pub(crate) code: Code,
    pub(crate) text: String,
    pub(crate) fix: Option<Fix>,
}

impl Excluded {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), fix: None }
    }

    pub(crate) fn with_fix(mut self, text: impl Into<String>, command: impl Into<String>) -> Self {
        self.fix = Some(Fix { text: text.into(), command: command.into() });
        self
    }
}

impl<'a> Context<'a> {
    /// Why the bundle is excluded, regardless of other choices.
    pub(crate) fn excluded(&self, place: &Place<'_>) -> Option<Excluded> {
        let bundle = place.bundle;
        if bundle.prohibited {
            return Some(Excluded::new(Code::Deprecated, "bundles marked olm.deprecated are not installed"));
        }
        if let Some(text) = &bundle.unsupported {
            return Some(Excluded::new(Code::UnsupportedConstraint, text));
        }
        self.wrong_cluster(place)
            .or_else(|| self.against_policy(place))
            .or_else(|| self.owned_elsewhere(place))
            .or_else(|| self.held_back(place))
    }

    /// Why the bundle cannot be installed as a dependency, regardless of other choices.
    pub(crate) fn excluded_as_dependency(&self, place: &Place<'_>) -> Option<Excluded> {
        let Some(request) = self.failed_for(place.package) else { return self.excluded(place) };
        let text = format!("Subscription {} of this package is not satisfiable", request.subscription);
        let command = format!("olm why {} -n {}", name_of(request), namespace_of(request));
        Some(
            Excluded::new(Code::RequestsConflict, text)
                .with_fix(format!("explain Subscription {}", request.subscription), command),
        )
    }

    fn wrong_cluster(&self, place: &Place<'_>) -> Option<Excluded> {
        if let (Some(needed), Some(have)) = (&place.bundle.min_kube_version, &self.facts.kubernetes) {
            // a pre-release of the cluster's version counts as that version, as in OLM
            let plain = Version::new(have.major, have.minor, have.patch);
            if precedence(&plain, needed).is_lt() {
                let text = format!("it requires Kubernetes {needed} or newer; this cluster runs {have}");
                return Some(Excluded::new(Code::KubernetesTooOld, text));
            }
        }
        if let (Some(last), Some(have)) = (&place.bundle.max_openshift_version, &self.facts.openshift)
            && (have.major, have.minor) > (last.major, last.minor)
        {
            let text = format!(
                "it supports OpenShift up to {}.{} (olm.maxOpenShiftVersion); this cluster runs {have}",
                last.major, last.minor
            );
            return Some(Excluded::new(Code::OpenShiftTooNew, text));
        }
        None
    }

    fn against_policy(&self, place: &Place<'_>) -> Option<Excluded> {
        let forbids = |list: &&Allowlist| !list.allows(place.catalog, place.package, place.channel);
        if let Some(list) = self.facts.allow.iter().filter(forbids).min_by_key(|list| &list.policy) {
            let text = list.refusal(place.catalog, place.package, place.channel);
            return Some(Excluded::new(Code::ForbiddenByPolicy, text).with_fix(
                "ask a cluster administrator to allow it",
                format!("kubectl get installpolicy {} -o yaml", list.policy),
            ));
        }
        let subject = place.bundle.subject(place.package);
        let broken = self.facts.policy.iter().filter(|rule| !rule.met_by(&subject)).min()?;
        let text = match &broken.message {
            Some(message) => format!("denied by the cluster's policy: {message}"),
            None => format!("denied by the cluster's policy: {broken}"),
        };
        Some(Excluded::new(Code::ForbiddenByPolicy, text))
    }

    /// An operator that stays owns an API of the bundle, or is another version of the same package.
    fn owned_elsewhere(&self, place: &Place<'_>) -> Option<Excluded> {
        for other in self.fixed_as(place.package, &place.bundle.name) {
            let here = self.namespace == other.namespace;
            if let (true, Some(subscription)) = (here, &other.subscription) {
                let text = format!(
                    "package {} is already installed in namespace {} as {}, by Subscription {subscription}",
                    place.package, other.namespace, other.name
                );
                return Some(Excluded::new(Code::RequestsConflict, text));
            }
        }
        let foreign = |other: &&Installed| {
            other.package.as_deref() != Some(place.package) && other.name != place.bundle.name
        };
        let (gvk, other) = place
            .bundle
            .provides
            .iter()
            .filter_map(|gvk| Some((gvk, self.fixed_owners(gvk).find(foreign)?)))
            .min_by_key(|(gvk, other)| (&other.namespace, &other.name, *gvk))?;
        let text = format!(
            "it provides {gvk}, which the installed operator {} in namespace {} owns",
            other.name, other.namespace
        );
        Some(Excluded::new(Code::ApiOwnedBy, text).with_fix(format!("remove {}", other.name), removal(other)))
    }

    /// An operator that stays needs another version of the package, or an API that the bundle gives up.
    fn held_back(&self, place: &Place<'_>) -> Option<Excluded> {
        let now = self.requests_of(place.package).iter().find_map(|at| self.tied[*at]);
        let provides = now.map_or(&[][..], |operator| operator.provides.as_slice());
        for (other, need) in self.held(place.package, provides) {
            let met_now = now.is_some_and(|operator| {
                need.met_by(&operator.subject(operator.package.as_deref().or(Some(place.package))))
            });
            // a requirement by package name applies even before one is installed
            let about_it = met_now || now.is_none() && matches!(need.rule, Rule::Package { .. });
            if about_it && !need.met_by(&place.bundle.subject(place.package)) {
                let text = format!(
                    "the installed operator {} in namespace {} requires {need}",
                    other.name, other.namespace
                );
                return Some(Excluded::new(Code::RequiredByInstalled, text));
            }
        }
        None
    }
}

fn removal(other: &Installed) -> String {
    match other.subscription.as_deref().and_then(|s| s.split_once('/')) {
        Some((namespace, name)) => format!("olm uninstall {name} -n {namespace}"),
        None => format!("kubectl delete csv {} -n {}", other.name, other.namespace),
    }
}
