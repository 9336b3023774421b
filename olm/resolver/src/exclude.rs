//! Reasons that rule a bundle out whatever else is chosen.

use crate::code::Code;
use crate::explain::Fix;
use crate::facts::{Facts, Installed};
use crate::need::{NeedRef, Place};
use crate::request::Request;
use crate::universe::Universe;

/// What every question is asked against.
pub(crate) struct Context<'a> {
    pub(crate) universe: &'a Universe,
    pub(crate) facts: &'a Facts,
    pub(crate) requests: &'a [&'a Request],
    /// Per request: the operator that it has installed.
    pub(crate) tied: Vec<Option<&'a Installed>>,
    /// Operators that no request is about.
    pub(crate) fixed: Vec<&'a Installed>,
    /// Namespaces of the requests.
    pub(crate) namespaces: Vec<&'a str>,
}

/// Why a bundle is ruled out.
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
    pub(crate) fn new(universe: &'a Universe, requests: &'a [&'a Request], facts: &'a Facts) -> Self {
        let mut installed: Vec<&Installed> = facts.installed.iter().collect();
        installed.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let owns = |request: &Request, i: &Installed| {
            let named = request.installed.as_ref().is_some_and(|r| r.name == i.name);
            let mine = i.subscription.as_deref().is_none_or(|s| s == request.subscription);
            named && mine && i.namespace == namespace_of(request)
        };
        let tied = requests.iter().map(|r| installed.iter().copied().find(|i| owns(r, i))).collect();
        let fixed = installed.into_iter().filter(|i| !requests.iter().any(|r| owns(r, i))).collect();
        let mut namespaces: Vec<&str> = requests.iter().map(|r| namespace_of(r)).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        Self { universe, facts, requests, tied, fixed, namespaces }
    }

    /// The first request that has the same operator of the same package installed: two Subscriptions may share one.
    pub(crate) fn same_installed(&self, request: usize) -> usize {
        let it = self.requests[request];
        let same = |other: &&Request| other.package == it.package && other.installed == it.installed;
        self.requests.iter().position(same).unwrap_or(request)
    }

    /// Why the bundle cannot be used, whatever else is chosen.
    pub(crate) fn excluded(&self, place: &Place<'_>) -> Option<Excluded> {
        let bundle = place.bundle;
        if bundle.prohibited {
            return Some(Excluded::new(
                Code::Deprecated,
                "it is marked olm.deprecated, and such bundles are not installed",
            ));
        }
        if let Some(text) = &bundle.unsupported {
            return Some(Excluded::new(Code::UnsupportedConstraint, text));
        }
        if let (Some(needed), Some(have)) = (&bundle.min_kube_version, &self.facts.kubernetes) {
            // a pre-release of the cluster's version counts as that version, as OLM has it
            let plain = olm_version::Version::new(have.major, have.minor, have.patch);
            if olm_version::precedence(&plain, needed).is_lt() {
                let text = format!("it needs Kubernetes {needed} or newer, this cluster has {have}");
                return Some(Excluded::new(Code::KubernetesTooOld, text));
            }
        }
        self.owned_elsewhere(place).or_else(|| self.held_back(place))
    }

    /// An operator that stays owns an API of the bundle, or is another version of the same package.
    fn owned_elsewhere(&self, place: &Place<'_>) -> Option<Excluded> {
        for other in &self.fixed {
            let same_package =
                other.package.as_deref() == Some(place.package) || other.name == place.bundle.name;
            if same_package {
                let here = self.namespaces.contains(&other.namespace.as_str());
                if let (true, Some(subscription)) = (here, &other.subscription) {
                    let text = format!(
                        "package {} is already installed in namespace {} as {}, by Subscription {subscription}",
                        place.package, other.namespace, other.name
                    );
                    return Some(Excluded::new(Code::RequestsConflict, text));
                }
                continue;
            }
            let shared = place.bundle.provides.iter().filter(|gvk| other.provides.contains(gvk)).min();
            if let Some(gvk) = shared {
                let text = format!(
                    "it provides {gvk}, which the installed operator {} in namespace {} owns",
                    other.name, other.namespace
                );
                return Some(
                    Excluded::new(Code::ApiOwnedBy, text)
                        .with_fix(format!("remove {} first", other.name), removal(other)),
                );
            }
        }
        None
    }

    /// An operator that stays needs another version of the package, or an API that the bundle gives up.
    fn held_back(&self, place: &Place<'_>) -> Option<Excluded> {
        let now = self
            .requests
            .iter()
            .zip(&self.tied)
            .find(|(request, _)| request.package == place.package)
            .and_then(|(_, tied)| *tied);
        for other in &self.fixed {
            for need in crate::need::needs_of_installed(other) {
                let met_now = now.is_some_and(|i| {
                    need.met_by(i.package.as_deref().or(Some(place.package)), i.version.as_ref(), &i.provides)
                });
                let met_then =
                    need.met_by(Some(place.package), place.bundle.version.as_ref(), &place.bundle.provides);
                let about_it = match need {
                    NeedRef::Package(p) => p.package == place.package && (met_now || now.is_none()),
                    NeedRef::Api(_) | NeedRef::Any(_) => met_now,
                };
                if about_it && !met_then {
                    let text = format!(
                        "the installed operator {} in namespace {} needs {}",
                        other.name,
                        other.namespace,
                        need.to_need()
                    );
                    return Some(Excluded::new(Code::RequiredByInstalled, text));
                }
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

/// The namespace of the Subscription that asks.
pub(crate) fn namespace_of(request: &Request) -> &str {
    request.subscription.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// The name of the Subscription that asks.
pub(crate) fn name_of(request: &Request) -> &str {
    request.subscription.split_once('/').map_or(request.subscription.as_str(), |(_, name)| name)
}

/// The command that allows dependencies to be installed along.
pub(crate) fn patch_dependencies(request: &Request) -> String {
    crate::candidates::patch(request, "dependencies", "\"Install\"")
}
