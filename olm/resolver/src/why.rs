//! Why a bundle's needs cannot be met: from the bundle down to facts.

use std::collections::HashMap;

use olm_constraint::{Constraint, Rule};

use crate::code::Code;
use crate::context::{Context, patch};
use crate::explain::{Fix, Node};
use crate::group::group_by_cause;
use crate::need::{Place, needs_of, to_need};
use crate::request::DependencyPolicy;
use crate::universe::{Bundle, CatalogRef};

/// How many providers of one need are worth showing.
const SHOWN: usize = 5;
/// How deep a tree is told: catalogs from strangers decide how deep it is.
const DEEPEST: usize = 8;
/// How many bundles one tree names.
const MOST: usize = 100;
/// How many needs of one bundle are named; the others are counted.
const NAMED: usize = 20;

/// The needs of a bundle that nothing can meet.
pub(crate) struct Unmet {
    /// The first of them.
    needs: Vec<UnmetNeed>,
    /// How many more there are.
    more: usize,
}

struct UnmetNeed {
    /// The need in the words of the bundle's author, where there are any.
    message: Option<String>,
    node: Node,
}

impl Unmet {
    /// The bundle that has the needs, with the needs below.
    pub(crate) fn of(self, bundle: &str) -> Node {
        let (subject, code) = (bundle.to_owned(), Code::DependencyUnsatisfied);
        let text = sentence(&self.needs.iter().collect::<Vec<_>>(), self.more);
        Node { subject, code, text, children: self.needs.into_iter().map(|need| need.node).collect() }
    }

    /// The needs and why each of them is not met, in one line.
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

/// Needs in a sentence: `it needs API A, API B and API C`; those with a message in the words of the author.
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

/// Finds needs that nothing can meet. Bundles that need each other count as met.
pub(crate) struct Why<'a, 'c> {
    ctx: &'c Context<'a>,
    /// By where the catalog's name and the bundle are in memory: there is one of each.
    places: HashMap<(*const CatalogRef, *const Bundle), usize>,
    bundles: Vec<Looked<'a>>,
    needs: Vec<Wanted<'a>>,
    /// How many needs were found that cannot be met.
    hopeless: usize,
    /// What could be done about what was told.
    fixes: Vec<Fix>,
}

/// A bundle that was looked at.
struct Looked<'a> {
    place: Place<'a>,
    /// The needs that cannot be met, as places in [`Why::needs`], in the order in which they were found.
    unmet: Vec<usize>,
    /// Needs that it could meet.
    could_meet: Vec<usize>,
}

/// A need of a bundle.
struct Wanted<'a> {
    need: &'a Constraint,
    /// The bundle that has it.
    of: usize,
    options: Vec<Choosable>,
    /// How many of the options may still do.
    open: usize,
    /// When it was found that none does, in the order of [`Why::hopeless`].
    found: usize,
}

/// What could meet a need.
enum Choosable {
    Bundle(usize),
    /// It cannot, whatever else there is.
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

    /// The needs of a bundle that cannot be met, if there are any.
    pub(crate) fn unmet(&mut self, place: Place<'a>) -> Option<Unmet> {
        let before = self.bundles.len();
        let at = self.place(place);
        self.look_from(before);
        let needs = self.bundles[at].unmet.clone();
        let mut room = MOST;
        (!needs.is_empty()).then(|| self.tell_all(&needs, 0, &mut room))
    }

    fn place(&mut self, place: Place<'a>) -> usize {
        let next = self.bundles.len();
        let at = *self.places.entry((place.catalog, place.bundle)).or_insert(next);
        if at == next {
            self.bundles.push(Looked { place, unmet: Vec::new(), could_meet: Vec::new() });
        }
        at
    }

    /// Looks at the bundles from that place on and at all that they could need, and finds out which of them cannot be had.
    fn look_from(&mut self, mut next: usize) {
        let mut hopeless = Vec::new();
        while next < self.bundles.len() {
            let place = self.bundles[next].place;
            for need in needs_of(place.package, place.bundle) {
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
                self.needs.push(Wanted { need, of: next, options, open, found: usize::MAX });
                if open == 0 {
                    hopeless.push(at);
                }
            }
            next += 1;
        }
        // in the order in which they are found out, so that every tree ends
        let mut at = 0;
        while let Some(need) = hopeless.get(at).copied() {
            at += 1;
            self.needs[need].found = self.hopeless;
            self.hopeless += 1;
            let bundle = &mut self.bundles[self.needs[need].of];
            bundle.unmet.push(need);
            // empty after the first unmet need of the bundle
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

    /// The needs of a bundle that cannot be met, with the reasons below each.
    fn tell_all(&mut self, needs: &[usize], depth: usize, room: &mut usize) -> Unmet {
        let named = &needs[..needs.len().min(NAMED)];
        Unmet {
            needs: named.iter().map(|need| self.tell(*need, depth, room)).collect(),
            more: needs.len() - named.len(),
        }
    }

    /// A need that cannot be met, with the reasons below it.
    fn tell(&mut self, need: usize, depth: usize, room: &mut usize) -> UnmetNeed {
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
                        // needs found after this one may follow from it: leaving them out ends every tree
                        let before = |at: &usize| self.needs[*at].found < self.needs[need].found;
                        let below: Vec<usize> = bundle.unmet.iter().copied().filter(before).collect();
                        self.tell_all(&below, depth + 1, room).of(&name)
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
            0 => self.nobody(need),
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

    /// What to say when no bundle meets the need.
    fn nobody(&self, need: &Constraint) -> String {
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

    /// The command that lets what the package needs be installed along.
    fn allow_dependencies(&self, package: &str) -> Option<Fix> {
        let mut requests = self.ctx.requests_of(package).iter().map(|at| self.ctx.requests[*at]);
        let request = requests.find(|r| r.dependencies == DependencyPolicy::RequirePresent)?;
        Some(Fix {
            text: "allow the installation of dependencies".into(),
            command: patch(request, "dependencies", "\"Install\""),
        })
    }

    /// What could be done about unmet needs, and about all that were found before.
    pub(crate) fn fixes(&self, unmet: &Unmet) -> Vec<Fix> {
        let mut fixes: Vec<Fix> = Vec::new();
        for fix in &self.fixes {
            fix.add_to(&mut fixes);
        }
        if unmet.needs.iter().any(|need| need.node.children.is_empty()) {
            fixes.push(Fix {
                text: "add a catalog that contains it".into(),
                command: "kubectl get catalogsources -A".into(),
            });
        }
        fixes
    }
}
