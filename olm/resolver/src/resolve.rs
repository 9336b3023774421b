//! The resolution.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::candidates::{Candidates, candidates};
use crate::components::components;
use crate::context::{Context, namespace_of};
use crate::explain::Explanation;
use crate::facts::{Facts, Installed};
use crate::failure;
use crate::operators::Operators;
use crate::outcome::resolved;
use crate::request::Request;
use crate::resolution::{Resolution, Resolved};
use crate::solve::{Cause, Choice, UnsatCore, Unsolved, solve};
use crate::solver::BUDGET;
use crate::universe::Universe;

/// Chooses a bundle for every request, with all dependencies, or explains why that is impossible; and
/// explains every rejection.
/// Requests that cannot interact do not fail each other, and of those that can, only contradicting ones fail.
/// The result does not depend on the order of catalogs, packages, entries, facts or requests.
pub fn resolve(universe: &Universe, requests: &[Request], facts: &Facts) -> Resolution {
    let answers = decide(universe, requests, facts, None);
    Resolution { items: answers.into_values().collect() }
}

/// The result of [`resolve`] for one of the requests, without deciding those that cannot interact with it.
/// # Errors
/// The explanation, when the request cannot be met.
/// # Panics
/// When there is no request of that index.
pub fn resolve_one(
    universe: &Universe,
    requests: &[Request],
    facts: &Facts,
    at: usize,
) -> Result<Resolved, Arc<Explanation>> {
    let mut answers = decide(universe, requests, facts, Some(at));
    answers.remove(&at).expect("every request gets an answer")
}

type Answer = Result<Resolved, Arc<Explanation>>;

/// The results by index of request: all of them, or those of the component of one of them.
fn decide(
    universe: &Universe,
    requests: &[Request],
    facts: &Facts,
    only: Option<usize>,
) -> BTreeMap<usize, Answer> {
    let operators = Operators::new(facts);
    let mut namespaces: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, request) in requests.iter().enumerate() {
        namespaces.entry(namespace_of(request)).or_default().push(at);
    }
    if let Some(only) = only {
        namespaces.retain(|_, places| places.contains(&only));
    }
    let mut answers = BTreeMap::new();
    for places in namespaces.values_mut() {
        places.sort_by(|a, b| {
            let key = |at: &usize| (&requests[*at].subscription, &requests[*at].package);
            key(a).cmp(&key(b))
        });
        let sorted: Vec<&Request> = places.iter().map(|at| &requests[*at]).collect();
        let ctx = Context::new(universe, facts, &operators, &sorted, BTreeSet::new());
        for component in components(&ctx) {
            if only.is_none_or(|only| component.iter().any(|at| places[*at] == only)) {
                let decided = decide_component(&ctx, &component);
                answers.extend(decided.into_iter().map(|(at, answer)| (places[at], answer)));
            }
        }
    }
    answers
}

/// Decides requests that can interact. Those that cannot be met get their explanation, and the others are
/// decided without them.
fn decide_component<'a>(ctx: &Context<'a>, component: &[usize]) -> Vec<(usize, Answer)> {
    let mut answers: Vec<(usize, Answer)> = Vec::new();
    let mut rest: Vec<usize> = component.to_vec();
    let mut changed: Option<Context<'a>> = None;
    let mut budget = BUDGET;
    loop {
        let ctx = changed.as_ref().unwrap_or(ctx);
        let mut found: BTreeMap<usize, Candidates<'_>> = BTreeMap::new();
        let mut failed: Vec<usize> = Vec::new();
        for &at in &rest {
            let request = ctx.requests[at];
            let explanation = match candidates(ctx, request) {
                Ok(list) if list.allowed.is_empty() && request.installed.is_none() => {
                    failure::all_ruled_out(request, &list)
                }
                Ok(list) => {
                    found.insert(at, list);
                    continue;
                }
                Err(nothing) => failure::no_choice(request, nothing),
            };
            answers.push((at, Err(Arc::new(explanation))));
            failed.push(at);
        }
        if failed.is_empty() {
            match solve_leniently(ctx, &found, &mut budget) {
                Ok(choices) => {
                    let items = found.iter().map(|(at, list)| (*at, Ok(resolved(ctx, *at, list, &choices))));
                    answers.extend(items);
                    return answers;
                }
                Err(unsolved) => {
                    failed = concerned(&found, &unsolved);
                    let explanation = Arc::new(failure::explain(ctx, &found, &failed, &unsolved));
                    answers.extend(failed.iter().map(|at| (*at, Err(explanation.clone()))));
                }
            }
        }
        rest.retain(|at| !failed.contains(at));
        if rest.is_empty() {
            return answers;
        }
        changed = Some(ctx.without(&failed));
    }
}

/// The requests that a failure concerns: those of the contradiction; all if it names none.
fn concerned(found: &BTreeMap<usize, Candidates<'_>>, unsolved: &Unsolved<'_>) -> Vec<usize> {
    let named: Vec<usize> = match unsolved {
        Unsolved::Conflict(causes) => causes
            .iter()
            .filter_map(|cause| match cause {
                Cause::Request(at) if found.contains_key(at) => Some(*at),
                _ => None,
            })
            .collect(),
        Unsolved::GaveUp(_) => Vec::new(),
    };
    if named.is_empty() { found.keys().copied().collect() } else { named }
}

/// Solves the requests of a component. Installed operators with missing requirements do not block the others.
fn solve_leniently<'a>(
    ctx: &Context<'a>,
    found: &BTreeMap<usize, Candidates<'a>>,
    budget: &mut u64,
) -> Result<Vec<Choice<'a>>, Unsolved<'a>> {
    if let (1, Some((at, list))) = (found.len(), found.first_key_value())
        && let Some(choice) = obvious(ctx, *at, list)
    {
        return Ok(vec![choice]);
    }
    let mut lenient = BTreeSet::new();
    loop {
        match solve(ctx, found, &lenient, UnsatCore::Any, budget) {
            Err(Unsolved::Conflict(causes)) => {
                // an installed operator with a missing requirement must not block the others
                let held = causes.iter().filter_map(|cause| match cause {
                    Cause::Held(at) => Some(*at),
                    _ => None,
                });
                let before = lenient.len();
                lenient.extend(held);
                if lenient.len() == before {
                    return Err(Unsolved::Conflict(causes));
                }
            }
            other => return other,
        }
    }
}

/// The choice that needs no search: the best candidate of an independent request has all its requirements.
fn obvious<'a>(ctx: &Context<'a>, at: usize, list: &Candidates<'a>) -> Option<Choice<'a>> {
    match list.allowed.first() {
        Some(best) => {
            let needs = best.place.needs();
            needs.iter().all(|need| ctx.present(need).is_some()).then_some(Choice::Bundle(best.place))
        }
        None => {
            let needs = ctx.tied[at].map(Installed::needs).unwrap_or_default();
            needs.iter().all(|need| ctx.present(need).is_some()).then_some(Choice::Installed(at))
        }
    }
}
