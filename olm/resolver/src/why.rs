//! Why a bundle's needs cannot be met: from the bundle down to facts.

use std::collections::BTreeMap;

use olm_constraint::{Constraint, Rule};

use crate::code::Code;
use crate::context::{Context, patch};
use crate::explain::{Fix, Node};
use crate::need::{Place, needs_of, to_need};
use crate::request::DependencyPolicy;
use crate::universe::CatalogRef;

/// How many providers of one need are worth showing.
const SHOWN: usize = 5;

/// A need that nothing can meet.
#[derive(Clone)]
pub(crate) struct Unmet {
    /// It in a sentence: that of the author, where there is one.
    pub(crate) text: String,
    pub(crate) node: Node,
}

impl Unmet {
    /// The bundle that has the need, with the need below.
    pub(crate) fn of(self, bundle: &str) -> Node {
        let (subject, code) = (bundle.to_owned(), Code::DependencyUnsatisfied);
        Node { subject, code, text: self.text, children: vec![self.node] }
    }
}

/// Finds needs that nothing can meet. What is being looked at counts as met, so that operators may need each other.
pub(crate) struct Why<'a, 'c> {
    ctx: &'c Context<'a>,
    known: BTreeMap<(&'a CatalogRef, &'a str, &'a str), Option<Unmet>>,
    /// What could be done about what was found.
    fixes: Vec<Fix>,
}

impl<'a, 'c> Why<'a, 'c> {
    pub(crate) fn new(ctx: &'c Context<'a>) -> Self {
        Self { ctx, known: BTreeMap::new(), fixes: Vec::new() }
    }

    /// The first need of a bundle that cannot be met, if there is one.
    pub(crate) fn unmet(&mut self, place: Place<'a>) -> Option<Unmet> {
        let key = (place.catalog, place.package, place.bundle.name.as_str());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        self.known.insert(key, None);
        let found =
            needs_of(place.package, place.bundle).into_iter().find_map(|need| self.unmet_need(need, place));
        self.known.insert(key, found.clone());
        found
    }

    fn unmet_need(&mut self, need: &'a Constraint, place: Place<'a>) -> Option<Unmet> {
        if self.ctx.present(need).is_some() {
            return None;
        }
        let others = self.ctx.tied_meeting(need);
        if others.iter().any(|at| self.ctx.requests[*at].package != place.package) {
            return None;
        }
        let only_present = self.asks_for_present(place.package);
        let mut children = Vec::new();
        let providers: Vec<_> = self
            .ctx
            .providers(need, place.catalog)
            .into_iter()
            .filter(|(p, _)| p.package != place.package)
            .collect();
        let total = providers.len();
        for (provider, excluded) in providers {
            let requested = !self.ctx.requests_of(provider.package).is_empty();
            let child = if let Some(reason) = excluded {
                self.fixes.extend(reason.fix);
                Node::leaf(&provider.bundle.name, reason.code, reason.text)
            } else if only_present && !requested {
                self.fixes.extend(self.allow_dependencies(place.package));
                let text =
                    "it is not installed, and dependencies: RequirePresent forbids installing it along";
                Node::leaf(&provider.bundle.name, Code::DependencyUnsatisfied, text)
            } else {
                match self.unmet(provider) {
                    None => return None,
                    Some(unmet) => unmet.of(&provider.bundle.name),
                }
            };
            if children.len() < SHOWN {
                children.push(child);
            }
        }
        let text = match total {
            0 => self.nobody(need),
            shown if shown > SHOWN => {
                format!("none of {total} bundles that provide it can be used, the first are")
            }
            _ => "no bundle that provides it can be used".to_owned(),
        };
        let subject = to_need(need).to_string();
        Some(Unmet {
            text: match &need.message {
                Some(message) => format!("its author says: {message}"),
                None => format!("it needs {subject}"),
            },
            node: Node { subject, code: Code::DependencyUnsatisfied, text, children },
        })
    }

    /// What to say when no bundle meets the need.
    fn nobody(&self, need: &Constraint) -> String {
        let Rule::Package { name: wanted, .. } = &need.rule else {
            return match &need.rule {
                Rule::Api(_) => "no catalog has a bundle that provides it".to_owned(),
                _ => "no catalog has a bundle that meets it".to_owned(),
            };
        };
        let mut versions: Vec<String> = self
            .ctx
            .universe
            .catalogs()
            .values()
            .filter_map(|c| c.packages.get(wanted))
            .flat_map(|p| p.bundles().iter().filter_map(|b| b.version.as_ref()))
            .map(ToString::to_string)
            .collect();
        if versions.is_empty() {
            return format!("no catalog has package {wanted}");
        }
        versions.sort();
        versions.dedup();
        let more = if versions.len() > SHOWN { ", ..." } else { "" };
        versions.truncate(SHOWN);
        format!(
            "package {wanted} has no such version in the order of a channel; there are {}{more}",
            versions.join(", ")
        )
    }

    /// Whether what the package needs must be there already.
    fn asks_for_present(&self, package: &str) -> bool {
        let requests = self.ctx.requests_of(package).iter();
        requests.map(|at| self.ctx.requests[*at].dependencies).any(|d| d == DependencyPolicy::RequirePresent)
    }

    /// The command that lets what the package needs be installed along.
    fn allow_dependencies(&self, package: &str) -> Option<Fix> {
        let mut requests = self.ctx.requests_of(package).iter().map(|at| self.ctx.requests[*at]);
        let request = requests.find(|r| r.dependencies == DependencyPolicy::RequirePresent)?;
        Some(Fix {
            text: "let dependencies be installed along".into(),
            command: patch(request, "dependencies", "\"Install\""),
        })
    }

    /// What could be done about an unmet need, and about all that were found before.
    pub(crate) fn fixes(&self, unmet: &Unmet) -> Vec<Fix> {
        let mut fixes: Vec<Fix> = Vec::new();
        for fix in &self.fixes {
            if !fixes.contains(fix) {
                fixes.push(fix.clone());
            }
        }
        if unmet.node.children.is_empty() {
            fixes.push(Fix {
                text: "add a catalog that has it".into(),
                command: "kubectl get catalogsources -A".into(),
            });
        }
        fixes
    }
}
