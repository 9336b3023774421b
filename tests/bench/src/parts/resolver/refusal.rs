//! The cost of a refusal.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use olm_resolver::{Catalog, Facts, Universe, resolve};

use super::{
    super::table::Row,
    alone::Alone,
    median, ms,
    world::{World, catalog_ref},
};

/// A refusal checks every candidate, an install one, so their times are not comparable; it may take as long
/// as the most expensive install, in milliseconds.
const REFUSAL: f64 = 2.0;

/// A package with a removable dependency.
const NEEDY: (&str, &str) = ("kuadrant-operator", "limitador-operator");

const RUNS: usize = 15;

/// The same request where it can be met, and where its dependency was removed.
pub(super) fn row(world: &World, all: &[Alone]) -> Result<Row> {
    let (package, needed) = NEEDY;
    let default = &world.packages()[package].default_channel;
    let it =
        all.iter().find(|it| it.package == package && it.channel == *default).context("no such channel")?;
    ensure!(it.along().iter().any(|name| name.starts_with(needed)), "{package} does not need {needed}");
    let mut packages: BTreeMap<String, Arc<olm_resolver::Package>> = world.packages().clone();
    packages.remove(needed);
    let poorer = Universe::new([(catalog_ref(), Catalog { packages, ..Catalog::default() })]);
    let (requests, facts) = (std::slice::from_ref(&it.request), Facts::default());
    let answer = resolve(&poorer, requests, &facts).items.pop().context("no answer")?;
    let why = answer.err().context("it was met although what it needs is not there")?;
    let text = why.text(80);
    ensure!(
        text.contains(needed) && !why.nodes.is_empty(),
        "the explanation does not name what is missing: {text}"
    );
    let met = median(RUNS, || resolve(&world.universe, requests, &facts));
    let refused = median(RUNS, || resolve(&poorer, requests, &facts));
    Ok(Row {
        what: "resolver: a refusal with its reasons",
        measured: ms(refused),
        limit: REFUSAL,
        unit: "ms",
        note: format!(
            "{package} without {needed}: {:.2} ms, {} lines; with it {:.2} ms",
            ms(refused),
            text.lines().count(),
            ms(met)
        ),
    })
}
