//! Why a bundle's needs cannot be met: from the bundle down to facts.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::exclude::{Context, patch_dependencies};
use crate::explain::{Fix, Node};
use crate::need::{NeedRef, Place, needs_of};
use crate::request::DependencyPolicy;
use crate::universe::CatalogRef;

/// How many providers of one need are worth showing.
const SHOWN: usize = 5;

/// Finds needs that nothing can meet. What is being looked at counts as met, so that operators may need each other.
pub(crate) struct Why<'a, 'c> {
    ctx: &'c Context<'a>,
    known: BTreeMap<(&'a CatalogRef, &'a str, &'a str), Option<Node>>,
}

impl<'a, 'c> Why<'a, 'c> {
    pub(crate) fn new(ctx: &'c Context<'a>) -> Self {
        Self { ctx, known: BTreeMap::new() }
    }

    /// The first need of a bundle that cannot be met, if there is one.
    pub(crate) fn unmet(&mut self, place: Place<'a>) -> Option<Node> {
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

    fn unmet_need(&mut self, need: NeedRef<'a>, place: Place<'a>) -> Option<Node> {
        if self.ctx.present(need).is_some() {
            return None;
        }
        let tied = self.ctx.tied.iter().zip(self.ctx.requests).any(|(installed, request)| {
            installed.is_some_and(|i| need.met_by(Some(&request.package), i.version.as_ref(), &i.provides))
                && request.package != place.package
        });
        if tied {
            return None;
        }
        let only_present = self
            .ctx
            .requests
            .iter()
            .any(|r| r.package == place.package && r.dependencies == DependencyPolicy::RequirePresent);
        let mut children = Vec::new();
        let providers: Vec<_> = self
            .ctx
            .providers(need, place.catalog)
            .into_iter()
            .filter(|(p, _)| p.package != place.package)
            .collect();
        let total = providers.len();
        for (provider, excluded) in providers {
            let requested = self.ctx.requests.iter().any(|r| r.package == provider.package);
            let child = if let Some(reason) = excluded {
                Node::leaf(&provider.bundle.name, reason.code, reason.text)
            } else if only_present && !requested {
                let text =
                    "it is not installed, and dependencies: RequirePresent forbids installing it along";
                Node::leaf(&provider.bundle.name, Code::DependencyUnsatisfied, text)
            } else {
                match self.unmet(provider) {
                    None => return None,
                    Some(node) => Node {
                        subject: provider.bundle.name.clone(),
                        code: Code::DependencyUnsatisfied,
                        text: format!("it needs {}", node.subject),
                        children: vec![node],
                    },
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
        Some(Node { subject: need.to_need().to_string(), code: Code::DependencyUnsatisfied, text, children })
    }

    /// What to say when no bundle meets the need.
    fn nobody(&self, need: NeedRef<'_>) -> String {
        if let NeedRef::Any(any) = need
            && let Some(message) = &any.message
        {
            return format!("no catalog has any of them: {message}");
        }
        let NeedRef::Package(wanted) = need else {
            return "no catalog has a bundle that provides it".to_owned();
        };
        let mut versions: Vec<String> = self
            .ctx
            .universe
            .catalogs()
            .values()
            .filter_map(|c| c.packages.get(&wanted.package))
            .flat_map(|p| p.bundles.values().filter_map(|b| b.version.as_ref()))
            .map(ToString::to_string)
            .collect();
        if versions.is_empty() {
            return format!("no catalog has package {}", wanted.package);
        }
        versions.sort();
        versions.dedup();
        let more = if versions.len() > SHOWN { ", ..." } else { "" };
        versions.truncate(SHOWN);
        format!(
            "package {} has no such version in the order of a channel; there are {}{more}",
            wanted.package,
            versions.join(", ")
        )
    }

    /// What could be done about an unmet need.
    pub(crate) fn fixes(&self, node: &Node, place: Place<'_>) -> Vec<Fix> {
        let mut fixes = Vec::new();
        let request = self.ctx.requests.iter().find(|r| r.package == place.package);
        if let Some(request) = request.filter(|r| r.dependencies == DependencyPolicy::RequirePresent) {
            fixes.push(Fix {
                text: "let dependencies be installed along".into(),
                command: patch_dependencies(request),
            });
        }
        if node.children.is_empty() {
            fixes.push(Fix {
                text: "add a catalog that has it".into(),
                command: "kubectl get catalogsources -A".into(),
            });
        }
        fixes
    }
}
