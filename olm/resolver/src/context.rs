//! Shared inputs of a resolution, with indexes.

use std::collections::{BTreeSet, HashMap, HashSet};

use olm_constraint::{Constraint, Gvk, Rule};
use olm_version::shell_word;

use crate::explain::Fix;
use crate::facts::{Facts, Installed};
use crate::operators::{Held, Operators};
use crate::request::{DependencyPolicy, Request};
use crate::resolution::SatisfiedBy;
use crate::universe::Universe;

/// Shared inputs of a resolution: the requests of one namespace, and all constant data.
pub(crate) struct Context<'a> {
    pub(crate) universe: &'a Universe,
    pub(crate) facts: &'a Facts,
    pub(crate) requests: &'a [&'a Request],
    operators: &'a Operators<'a>,
    /// Requests that cannot be met. Their installed operators stay.
    failed: BTreeSet<usize>,
    /// The installed operator of each request that may be met.
    pub(crate) tied: Vec<Option<&'a Installed>>,
    /// Those operators by address: there is one of each.
    tied_set: HashSet<*const Installed>,
    /// APIs of those operators.
    tied_apis: HashMap<&'a Gvk, Vec<usize>>,
    /// The requests for each package.
    by_package: HashMap<&'a str, Vec<usize>>,
    pub(crate) namespace: &'a str,
}

impl<'a> Context<'a> {
    /// `requests` are of one namespace.
    pub(crate) fn new(
        universe: &'a Universe,
        facts: &'a Facts,
        operators: &'a Operators<'a>,
        requests: &'a [&'a Request],
        failed: BTreeSet<usize>,
    ) -> Self {
        let mut context = Self {
            universe,
            facts,
            requests,
            operators,
            tied: vec![None; requests.len()],
            tied_set: HashSet::new(),
            tied_apis: HashMap::new(),
            by_package: HashMap::new(),
            namespace: requests.first().map_or("", |request| namespace_of(request)),
            failed,
        };
        for (at, request) in requests.iter().enumerate() {
            context.by_package.entry(&request.package).or_default().push(at);
            let Some(installed) = request.installed.as_ref().filter(|_| !context.failed.contains(&at)) else {
                continue;
            };
            let mine = |operator: &&&Installed| {
                operator.subscription.as_deref().is_none_or(|s| s == request.subscription)
            };
            let found = operators.at(context.namespace, &installed.name).iter().find(mine);
            let Some(operator) = found.copied() else { continue };
            context.tied[at] = Some(operator);
            if context.tied_set.insert(operator) {
                for gvk in &operator.provides {
                    context.tied_apis.entry(gvk).or_default().push(at);
                }
            }
        }
        context
    }

    /// The same, with more requests that cannot be met.
    pub(crate) fn without(&self, failed: &[usize]) -> Self {
        let failed = self.failed.iter().chain(failed).copied().collect();
        Self::new(self.universe, self.facts, self.operators, self.requests, failed)
    }

    /// Whether an operator stays unchanged: no request that may be met is for it.
    fn stays(&self, operator: &Installed) -> bool {
        !self.tied_set.contains(&(operator as *const Installed))
    }

    /// Operators that stay and are of that package, or are already the bundle of that name.
    pub(crate) fn fixed_as(&self, package: &str, bundle: &str) -> impl Iterator<Item = &'a Installed> {
        let of_package = self.operators.named(package).iter();
        let of_package = of_package.filter(move |operator| operator.package.as_deref() == Some(package));
        let of_bundle = self.operators.named(bundle).iter().filter(move |operator| operator.name == bundle);
        of_package.chain(of_bundle).copied().filter(|operator| self.stays(operator))
    }

    /// Operators that stay and provide an API.
    pub(crate) fn fixed_owners(&self, gvk: &Gvk) -> impl Iterator<Item = &'a Installed> {
        self.operators.owners(gvk).iter().copied().filter(|operator| self.stays(operator))
    }

    /// Requirements of operators that stay: of a package by name, of one of these APIs, and unspecific ones.
    pub(crate) fn held(&self, package: &str, apis: &[Gvk]) -> Vec<Held<'a>> {
        self.operators.held(package, apis).filter(|(operator, _)| self.stays(operator)).collect()
    }

    /// The request for a package if all of its requests have failed: the package cannot be installed along.
    pub(crate) fn failed_for(&self, package: &str) -> Option<&'a Request> {
        if self.met_request(package).is_some() {
            return None;
        }
        let failed = self.requests_of(package).iter().find(|at| self.failed.contains(at))?;
        Some(self.requests[*failed])
    }

    /// The first request for a package that may be met.
    pub(crate) fn met_request(&self, package: &str) -> Option<&'a Request> {
        let met = self.requests_of(package).iter().find(|at| !self.failed.contains(at))?;
        Some(self.requests[*met])
    }

    /// Requests whose operator provides an API.
    pub(crate) fn tied_owners(&self, gvk: &Gvk) -> &[usize] {
        self.tied_apis.get(gvk).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn requests_of(&self, package: &str) -> &[usize] {
        self.by_package.get(package).map_or(&[], Vec::as_slice)
    }

    /// The first request with the same installed operator of the same package: two Subscriptions may share
    /// one.
    pub(crate) fn same_installed(&self, request: usize) -> usize {
        let it = self.requests[request];
        let same = |other: &&usize| self.requests[**other].installed == it.installed;
        self.requests_of(&it.package).iter().find(same).copied().unwrap_or(request)
    }

    /// Whether the dependencies of a package must already be present.
    pub(crate) fn present_only(&self, package: &str) -> bool {
        let mut requests = self.requests_of(package).iter().map(|at| self.requests[*at]);
        requests.any(|request| request.dependencies == DependencyPolicy::RequirePresent)
    }

    /// Whether the operator of a request meets a requirement now.
    pub(crate) fn tied_meets(&self, at: usize, need: &Constraint) -> bool {
        let package = self.requests[at].package.as_str();
        self.tied[at].is_some_and(|operator| need.met_by(&operator.subject(Some(package))))
    }

    /// Requests whose operator meets a requirement now.
    pub(crate) fn tied_meeting(&self, need: &Constraint) -> Vec<usize> {
        let meets = |at: &usize| self.tied_meets(*at, need);
        match &need.rule {
            Rule::Api(gvk) => self.tied_owners(gvk).to_vec(),
            Rule::Package { name, .. } => self.requests_of(name).iter().copied().filter(meets).collect(),
            _ => (0..self.requests.len()).filter(meets).collect(),
        }
    }

    /// What meets the requirement already and is constant: an operator without a request, or an API of the
    /// cluster.
    pub(crate) fn present(&self, need: &Constraint) -> Option<SatisfiedBy> {
        let meets = |operator: &&Installed| self.stays(operator) && need.met_by(&operator.subject(None));
        let fixed = match &need.rule {
            Rule::Api(gvk) => self.fixed_owners(gvk).next(),
            Rule::Package { name, .. } => self.operators.named(name).iter().copied().find(meets),
            _ => self.operators.all.iter().copied().find(meets),
        };
        if let Some(installed) = fixed {
            return Some(SatisfiedBy::Installed {
                name: installed.name.clone(),
                namespace: installed.namespace.clone(),
            });
        }
        // an API of an operator with a request may disappear with its next version: the solver decides
        let served = |gvk: &Gvk| self.facts.apis.get(gvk).filter(|_| !self.tied_apis.contains_key(gvk));
        let fact = match &need.rule {
            Rule::Api(gvk) => served(gvk),
            Rule::Any(several) => several.iter().find_map(|one| match &one.rule {
                Rule::Api(gvk) => served(gvk),
                _ => None,
            }),
            // an API's server is not known to meet other requirements
            _ => None,
        };
        fact.map(|fact| SatisfiedBy::Cluster { owner: fact.owner.clone() })
    }
}

/// Namespace of the requesting Subscription.
pub(crate) fn namespace_of(request: &Request) -> &str {
    request.subscription.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// Name of the requesting Subscription.
pub(crate) fn name_of(request: &Request) -> &str {
    request.subscription.split_once('/').map_or(request.subscription.as_str(), |(_, name)| name)
}

/// The command that follows another channel.
pub(crate) fn set_channel(request: &Request, channel: &str) -> String {
    format!("olm set-channel {} {} -n {}", name_of(request), shell_word(channel), namespace_of(request))
}

/// Allows the versions of `skipVersions` again.
pub(crate) fn clear_skip_versions(request: &Request) -> Fix {
    let versions: Vec<String> = request.skip_versions.iter().map(|version| shell_word(version)).collect();
    let (name, namespace) = (name_of(request), namespace_of(request));
    let command = format!("olm skip {name} {} --undo -n {namespace}", versions.join(" "));
    Fix { text: "clear skipVersions".into(), command }
}

/// The command that changes a field of the Subscription without a command of its own.
pub(crate) fn patch(request: &Request, field: &str, value: &str) -> String {
    format!(
        "kubectl patch subscription {} -n {} --type merge -p '{{\"spec\":{{\"{field}\":{value}}}}}'",
        name_of(request),
        namespace_of(request)
    )
}
