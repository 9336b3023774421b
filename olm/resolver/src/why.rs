//! Why a bundle's requirements cannot be met: from the bundle down to facts.

use std::collections::HashMap;

use olm_constraint::{Constraint, Rule};

use crate::bundle::{Bundle, CatalogRef};
use crate::code::Code;
use crate::context::{Context, patch};
use crate::explain::{Fix, Node};
use crate::group::group_by_cause;
use crate::need::to_need;
use crate::place::Place;
use crate::request::DependencyPolicy;

/// Maximum number of shown providers of one requirement.
const SHOWN: usize = 5;
/// Maximum depth of a shown tree: untrusted catalogs determine its depth.
const DEEPEST: usize = 8;
/// Maximum number of bundles in one tree.
const MOST: usize = 100;
/// Maximum number of named requirements of one bundle; the others are counted.
const NAMED: usize = 20;

/// The unmet requirements of a bundle.
pub(crate) struct Unmet {
    /// The first of them.
    needs: Vec<UnmetNeed>,
    /// Number of further ones.
    more: usize,
}

struct UnmetNeed {
    /// The message of the bundle's author, if any.
    message: Option<String>,
    node: Node,
}

impl Unmet {
    /// The bundle, with its unmet requirements as children.
    pub(crate) fn of(self, bundle: &str) -> Node {
        let (subject, code) = (bundle.to_owned(), Code::DependencyUnsatisfied);
        let text = sentence(&self.needs.iter().collect::<Vec<_>>(), self.more);
        Node { subject, code, text, children: self.needs.into_iter().map(|need| need.node).collect() }
    }

    /// The requirements and the reason for each, in one line.
    pub(crate) fn line(&self) -> String {
        let same_cause = |a: &&UnmetNeed, b: &&UnmetNeed| a.node.text == b.node.text;
        let groups = group_by_cause(&self.needs, same_cause);
        let last = groups.len() - 1;
        let part = |(at, group): (usize, &Vec<&UnmetNeed>)| {
            let more = if at == last { self.more } else { 0 };
            format!("{}: {}", sentence(group, more), group[0].node.text)
        };
        groups.iter().enumerate().map(part).collect::<Vec<_>>().join("; ")
    }
}

/// Requirements in a sentence: `it needs API A, API B and API C`; those with a message in the author's words.
fn sentence(needs: &[&UnmetNeed], more: usize) -> String {
    let unnamed = (more > 0).then(|| format!("{more} more"));
    let plain = needs.iter().filter(|need| need.message.is_none());
    let subjects: Vec<String> = plain.map(|need| need.node.subject.clone()).chain(unnamed).collect();
    let plain = match subjects.as_slice() {
        [] => None,
        [only] => Some(format!("requires {only}")),
        [first @ .., last] => Some(format!("requires {} and {last}", first.join(", "))),
    };
    let messages = needs.iter().filter_map(|need| need.message.as_ref());
    let messages = messages.map(|message| format!("message of the publisher: {message}"));
    plain.into_iter().chain(messages).collect::<Vec<_>>().join("; ")
}

/// Finds requirements that cannot be met. Bundles that need each other count as met.
pub(crate) struct Why<'a, 'c> {
    ctx: &'c Context<'a>,
    /// By addresses of the catalog's name and the bundle: there is one of each.
    places: HashMap<(*const CatalogRef, *const Bundle), usize>,
    bundles: Vec<Visited<'a>>,
    needs: Vec<VisitedRequirement<'a>>,
    /// Number of unmet requirements found so far.
    hopeless: usize,
    /// Fixes for the reported causes.
    fixes: Vec<Fix>,
}

/// A visited bundle.
struct Visited<'a> {
    place: Place<'a>,
    /// Its unmet requirements, as indexes into [`Why::needs`], in the order of discovery.
    unmet: Vec<usize>,
    /// Requirements that it could meet.
    could_meet: Vec<usize>,
}

/// A requirement of a bundle.
struct VisitedRequirement<'a> {
    need: &'a Constraint,
    /// The bundle that has it.
    of: usize,
    options: Vec<Choosable>,
    /// Number of remaining options.
    open: usize,
    /// When the last option was excluded, in the order of [`Why::hopeless`].
    found: usize,
}

/// A possible provider of a requirement.
enum Choosable {
    Bundle(usize),
    /// Excluded, regardless of other choices.
    Never(Node, Option<Fix>),
}

impl<'a, 'c> Why<'a, 'c> {
    pub(crate) fn new(ctx: &'c Context<'a>) -> Self {
        Self {
            ctx,
            places: HashMap::new(),
            bundles: Vec::new(),
            needs: Vec::new(),
            hopeless: 0,
            fixes: Vec::new(),
        }
    }

    /// The unmet requirements of a bundle, if any.
    pub(crate) fn unmet(&mut self, place: Place<'a>) -> Option<Unmet> {
        let before = self.bundles.len();
        let at = self.place(place);
        self.visit_from(before);
        let needs = self.bundles[at].unmet.clone();
        let mut room = MOST;
        (!needs.is_empty()).then(|| self.explain_all(&needs, 0, &mut room))
    }

    fn place(&mut self, place: Place<'a>) -> usize {
        let next = self.bundles.len();
        let at = *self.places.entry((place.catalog, place.bundle)).or_insert(next);
        if at == next {
            self.bundles.push(Visited { place, unmet: Vec::new(), could_meet: Vec::new() });
        }
        at
    }

    /// Visits the bundles from that index on and all their possible dependencies, and determines which of
    /// them are unavailable.
    fn visit_from(&mut self, mut next: usize) {
        let mut hopeless = Vec::new();
        while next < self.bundles.len() {
            let place = self.bundles[next].place;
            for need in place.needs() {
                let others = self.ctx.tied_meeting(need);
                let by_others = others.iter().any(|at| self.ctx.requests[*at].package != place.package);
                if by_others || self.ctx.present(need).is_some() {
                    continue;
                }
                let options = self.options(need, place);
                let at = self.needs.len();
                let mut open = 0;
                for option in &options {
                    if let Choosable::Bundle(bundle) = option
                        && self.bundles[*bundle].unmet.is_empty()
                    {
                        self.bundles[*bundle].could_meet.push(at);
                        open += 1;
                    }
                }
                self.needs.push(VisitedRequirement { need, of: next, options, open, found: usize::MAX });
                if open == 0 {
                    hopeless.push(at);
                }
            }
            next += 1;
        }
        // in the order of discovery, so that every tree is finite
        let mut at = 0;
        while let Some(need) = hopeless.get(at).copied() {
            at += 1;
            self.needs[need].found = self.hopeless;
            self.hopeless += 1;
            let bundle = &mut self.bundles[self.needs[need].of];
            bundle.unmet.push(need);
            // empty after the first unmet requirement of the bundle
            for waiting in std::mem::take(&mut bundle.could_meet) {
                self.needs[waiting].open -= 1;
                if self.needs[waiting].open == 0 {
                    hopeless.push(waiting);
                }
            }
        }
    }

    fn options(&mut self, need: &Constraint, place: Place<'a>) -> Vec<Choosable> {
        let only_present = self.ctx.present_only(place.package);
        let providers = self.ctx.providers(need, place.catalog).into_iter();
        let providers = providers.filter(|(provider, _)| provider.package != place.package);
        let mut options = Vec::new();
        for (provider, excluded) in providers {
            let name = &provider.bundle.name;
            options.push(if let Some(reason) = excluded {
                Choosable::Never(Node::leaf(name, reason.code, reason.text), reason.fix)
            } else if only_present && self.ctx.requests_of(provider.package).is_empty() {
                let text =
                    "it is not installed, and `dependencies: RequirePresent` does not install dependencies";
                let node = Node::leaf(name, Code::DependencyUnsatisfied, text);
                Choosable::Never(node, self.allow_dependencies(place.package))
            } else {
                Choosable::Bundle(self.place(provider))
            });
        }
        options
    }

    /// The unmet requirements of a bundle, with the reasons below each.
    fn explain_all(&mut self, needs: &[usize], depth: usize, room: &mut usize) -> Unmet {
        let named = &needs[..needs.len().min(NAMED)];
        Unmet {
            needs: named.iter().map(|need| self.explain_need(*need, depth, room)).collect(),
            more: needs.len() - named.len(),
        }
    }

    /// An unmet requirement, with the reasons below it.
    fn explain_need(&mut self, need: usize, depth: usize, room: &mut usize) -> UnmetNeed {
        let total = self.needs[need].options.len();
        let mut children = Vec::new();
        for option in 0..total.min(SHOWN) {
            let Some(rest) = room.checked_sub(1) else { break };
            *room = rest;
            let child = match &self.needs[need].options[option] {
                Choosable::Never(node, fix) => {
                    self.fixes.extend(fix.clone());
                    node.clone()
                }
                Choosable::Bundle(bundle) => {
                    let bundle = &self.bundles[*bundle];
                    let name = bundle.place.bundle.name.clone();
                    if depth < DEEPEST {
                        // requirements found after this one may follow from it: leaving them out makes every
                        // tree finite
                        let before = |at: &usize| self.needs[*at].found < self.needs[need].found;
                        let below: Vec<usize> = bundle.unmet.iter().copied().filter(before).collect();
                        self.explain_all(&below, depth + 1, room).of(&name)
                    } else {
                        let text = "its dependencies are not satisfiable";
                        Node::leaf(name, Code::DependencyUnsatisfied, text)
                    }
                }
            };
            children.push(child);
        }
        let need = self.needs[need].need;
        let text = match total {
            0 => self.no_provider(need),
            shown if shown > SHOWN => {
                format!("none of {total} providers is installable, the first are")
            }
            _ => "no provider is installable".to_owned(),
        };
        UnmetNeed {
            message: need.message.clone(),
            node: Node {
                subject: to_need(need).to_string(),
                code: Code::DependencyUnsatisfied,
                text,
                children,
            },
        }
    }

    /// Message when no bundle meets the requirement.
    fn no_provider(&self, need: &Constraint) -> String {
        let Rule::Package { name: wanted, .. } = &need.rule else {
            return match &need.rule {
                Rule::Api(_) => "not provided by any catalog".to_owned(),
                _ => "not met by any bundle".to_owned(),
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
            return format!("package {wanted} not found in any catalog");
        }
        versions.sort();
        versions.dedup();
        let more = if versions.len() > SHOWN { ", ..." } else { "" };
        versions.truncate(SHOWN);
        format!(
            "package {wanted} has no matching version in a channel; available: {}{more}",
            versions.join(", ")
        )
    }

    /// The command that allows installing the dependencies of the package.
    fn allow_dependencies(&self, package: &str) -> Option<Fix> {
        let mut requests = self.ctx.requests_of(package).iter().map(|at| self.ctx.requests[*at]);
        let request = requests.find(|r| r.dependencies == DependencyPolicy::RequirePresent)?;
        Some(Fix {
            text: "allow the installation of dependencies".into(),
            command: patch(request, "dependencies", "\"Install\""),
        })
    }

    /// Fixes for unmet requirements, including all found before.
    pub(crate) fn fixes(&self, unmet: &Unmet) -> Vec<Fix> {
        let mut fixes: Vec<Fix> = Vec::new();
        for fix in &self.fixes {
            fix.add_to(&mut fixes);
        }
        if unmet.needs.iter().any(|need| need.node.children.is_empty()) {
            fixes.push(Fix {
                text: "add a catalog that contains it".into(),
                command: "olm catalog sources".into(),
            });
        }
        fixes
    }
}
