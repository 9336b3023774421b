//! The resolver on small universes.

use crate::world::answer::{blamed, chosen, dangling, met};
use crate::world::generate::{Style, model};
use crate::world::model::Model;
use crate::world::plain::Plain;
use crate::world::rng::{Rng, seeds};
use crate::world::shrink::shrink;

/// Runs a check for many models; a failure is shown for the smallest failing model.
fn models(what: &str, count: u64, style: impl Fn(&mut Rng) -> Style, wrong: fn(&Model) -> Option<String>) {
    seeds(what, count, |seed| {
        let rng = &mut Rng::new(seed);
        let style = style(rng);
        let model = model(rng, style);
        if wrong(&model).is_some() {
            let least = shrink(&model, |m| wrong(m).is_some());
            panic!("seed {seed}: {}\n{least:#?}", wrong(&least).unwrap_or_default());
        }
    });
}

/// The Subscriptions that are not among these.
fn others(model: &Model, these: &[usize]) -> Vec<usize> {
    (0..model.subs.len()).filter(|sub| !these.contains(sub)).collect()
}

/// There is a result for all exactly if there is a solution, and a partial result is a solution of its part.
fn not_a_solution(model: &Model) -> Option<String> {
    let world = model.world();
    let resolution = world.resolve();
    if let Some(text) = dangling(&world, &resolution) {
        return Some(text);
    }
    let all = met(&resolution).len() == model.subs.len();
    let plain = Plain::of(model);
    if all != plain.satisfiable() {
        let texts = resolution.items.iter().filter_map(|i| Some(i.as_ref().err()?.text(120)));
        let texts: Vec<String> = texts.collect();
        return Some(format!("satisfiable: {}, but {texts:?}", plain.satisfiable()));
    }
    let (met, chosen) = (met(&resolution), chosen(model, &resolution));
    let part = Plain::new(model, &met, &others(model, &met));
    if !part.is_solution(&chosen, false) {
        return Some(format!("no solution for {met:?}: {chosen:?}"));
    }
    if all && plain.strictly_satisfiable() && !plain.is_solution(&chosen, true) {
        return Some(format!("something that stays lacks what it needs: {chosen:?}"));
    }
    None
}

#[test]
fn there_is_an_answer_exactly_if_there_is_a_solution() {
    let what = "there_is_an_answer_exactly_if_there_is_a_solution";
    models(what, 1000, Style::of, not_a_solution);
}

fn not_preferred(model: &Model) -> Option<String> {
    let plain = Plain::of(model);
    if !plain.satisfiable() {
        return None;
    }
    let strict = plain.strictly_satisfiable();
    if !strict && model.subs.iter().any(|sub| sub.installed.is_some()) {
        // OLM defines no result here: it refuses
        return None;
    }
    let preferred = plain.preferred(strict);
    let chosen = chosen(model, &model.world().resolve());
    (Some(&chosen) != preferred.as_ref()).then(|| format!("{chosen:?} rather than {preferred:?}"))
}

#[test]
fn the_answer_is_the_one_that_olm_prefers() {
    models("the_answer_is_the_one_that_olm_prefers", 500, Style::of, not_preferred);
}

/// Whether these requests conflict, after others were given up, but could be met without any one of them.
fn is_conflict(model: &Model, set: &[usize], failed: &[usize]) -> bool {
    let without = |gives_way: &usize| {
        let rest: Vec<usize> = set.iter().copied().filter(|s| s != gives_way).collect();
        Plain::new(model, &rest, failed).satisfiable()
    };
    !Plain::new(model, set, failed).satisfiable() && set.iter().all(without)
}

/// Every request named in a conflict is part of it: at once, or after those that failed before were given up.
fn wrongly_blamed(model: &Model) -> Option<String> {
    let resolution = model.world().resolve();
    let failed = others(model, &met(&resolution));
    for number in &failed {
        let explanation = resolution.items[*number].as_ref().unwrap_err();
        let set = blamed(model, explanation);
        let before: Vec<usize> = failed.iter().copied().filter(|s| !set.contains(s)).collect();
        let some = (0..1u32 << before.len()).map(|bits| {
            before.iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0).map(|(_, s)| *s).collect()
        });
        let some: Vec<Vec<usize>> = some.collect();
        if !set.contains(number) || !some.iter().any(|failed| is_conflict(model, &set, failed)) {
            return Some(format!("{number} for {set:?}, others fail: {before:?}: {}", explanation.text(120)));
        }
    }
    None
}

#[test]
fn a_conflict_names_no_more_than_those_who_are_in_it() {
    models("a_conflict_names_no_more_than_those_who_are_in_it", 1000, Style::of, wrongly_blamed);
}
