//! Many Subscriptions at once.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use olm_resolver::{Action, Facts, Installed, InstalledRef, Request, Resolution, resolve};

use super::{
    super::table::Row,
    alone::Alone,
    median, ms,
    world::{World, request},
};

const RUNS: usize = 15;

/// A stride that visits all packages: large ones and small ones, with dependencies and without.
const STRIDE: usize = 37;

/// Packages that can be installed together, from their default channels.
fn beside_each_other<'a>(world: &World, all: &'a [Alone], count: usize) -> Result<Vec<&'a Alone>> {
    let default =
        |it: &&Alone| it.resolved.is_some() && world.packages()[&it.package].default_channel == it.channel;
    let candidates: Vec<&Alone> = all.iter().filter(default).collect();
    ensure!(!candidates.len().is_multiple_of(STRIDE), "the stride does not meet all packages");
    let (mut apis, mut packages, mut picked) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    // packages with dependencies come first, so that some are among the ten as well
    let order = (0..candidates.len()).map(|at| candidates[at * STRIDE % candidates.len()]);
    let (needy, plain): (Vec<&Alone>, Vec<&Alone>) = order.partition(|it| !it.along().is_empty());
    for it in needy.into_iter().take(count / 5).chain(plain) {
        let operators = operators(world, it, "bench")?;
        let free = operators.iter().all(|operator| {
            !packages.contains(&operator.package) && operator.provides.iter().all(|gvk| !apis.contains(gvk))
        });
        if free && picked.len() < count {
            for operator in operators {
                packages.insert(operator.package);
                apis.extend(operator.provides);
            }
            picked.push(it);
        }
    }
    ensure!(picked.len() == count, "only {} packages can be installed beside each other", picked.len());
    Ok(picked)
}

/// The installed operators after the choice is applied: the bundle and its dependencies.
fn operators(world: &World, it: &Alone, namespace: &str) -> Result<Vec<Installed>> {
    let mut names = BTreeSet::from([it.resolved.as_ref().context("not resolved")?.chosen.name.as_str()]);
    names.extend(it.along());
    let operator = |name: &&str| {
        let found = world.packages().values().find_map(|package| Some((package, package.bundle(name)?)));
        let (package, bundle) = found.with_context(|| format!("no package has {name}"))?;
        Ok(Installed {
            name: bundle.name.clone(),
            namespace: namespace.to_owned(),
            subscription: (package.name == it.package).then(|| format!("{namespace}/{}", package.name)),
            package: Some(package.name.clone()),
            version: bundle.version.clone(),
            provides: bundle.provides.clone(),
            requires: bundle.requires.clone(),
            labels: bundle.labels.clone(),
            properties: bundle.properties.clone(),
        })
    };
    names.iter().map(operator).collect()
}

/// Every request has the same result as alone.
fn same_as_alone(resolution: &Resolution, expected: &[&Alone]) -> Result<()> {
    ensure!(resolution.items.len() == expected.len(), "{} answers", resolution.items.len());
    for (item, it) in resolution.items.iter().zip(expected) {
        let item = item.as_ref().map_err(|why| anyhow::anyhow!("{}: {}", it.package, why.summary))?;
        let alone = it.resolved.as_ref().context("not resolved")?;
        ensure!(
            item.chosen == alone.chosen,
            "{}: {} and not {}",
            it.package,
            item.chosen.name,
            alone.chosen.name
        );
    }
    Ok(())
}

pub(super) fn rows(world: &World, all: &[Alone], rows: &mut Vec<Row>) -> Result<()> {
    for (count, what, limit, recorded) in [
        (10, "resolver: 10 Subscriptions in one namespace", 2.0, "2.8 s"),
        (100, "resolver: 100 Subscriptions in one namespace", 20.0, "30.2 s"),
    ] {
        let picked = beside_each_other(world, all, count)?;
        let requests: Vec<Request> = picked.iter().map(|it| it.request.clone()).collect();
        same_as_alone(&world.resolve(&requests), &picked)?;
        let along: usize = picked.iter().map(|it| it.along().len()).sum();
        rows.push(Row {
            what,
            measured: ms(median(RUNS, || world.resolve(&requests))),
            limit,
            unit: "ms",
            note: format!("{along} bundles come along; recorded: OLM v0 {recorded}"),
        });
    }
    let picked = beside_each_other(world, all, 100)?;
    nothing_new(world, &picked, rows)?;
    many(world, &picked, rows)
}

/// A hundred installed operators, without newer versions.
fn nothing_new(world: &World, picked: &[&Alone], rows: &mut Vec<Row>) -> Result<()> {
    let mut facts = Facts::default();
    let mut requests = Vec::new();
    for it in picked {
        let operators = operators(world, it, "bench")?;
        let own =
            operators.iter().find(|operator| operator.subscription.is_some()).context("not installed")?;
        let installed = InstalledRef { name: own.name.clone(), version: own.version.clone() };
        requests.push(Request { installed: Some(installed), ..it.request.clone() });
        facts.installed.extend(operators);
    }
    let resolution = resolve(&world.universe, &requests, &facts);
    same_as_alone(&resolution, picked)?;
    let idle = resolution.items.iter().flatten().filter(|item| item.action == Action::None).count();
    ensure!(idle == picked.len(), "{idle} of {} have nothing to do", picked.len());
    rows.push(Row {
        what: "resolver: nothing new for 100 installed",
        measured: ms(median(RUNS, || resolve(&world.universe, &requests, &facts))),
        limit: 5.0,
        unit: "ms",
        note: format!("{} operators installed; recorded: OLM v0 1.5 s", facts.installed.len()),
    });
    Ok(())
}

/// Ten in each of a thousand namespaces: many request the same package.
fn many(world: &World, picked: &[&Alone], rows: &mut Vec<Row>) -> Result<()> {
    let mut expected = Vec::new();
    let mut requests = Vec::new();
    for namespace in 0..1_000 {
        for place in 0..10 {
            let it = picked[(namespace * 7 + place) % picked.len()];
            expected.push(it);
            requests.push(request(&format!("team-{namespace}"), &it.package, &it.channel));
        }
    }
    same_as_alone(&world.resolve(&requests), &expected)?;
    rows.push(Row {
        what: "resolver: 10,000 Subscriptions over 1,000 namespaces",
        measured: median(3, || world.resolve(&requests)).as_secs_f64(),
        limit: 1.0,
        unit: "s",
        note: format!("one call; each of {} packages wanted by 100", picked.len()),
    });
    Ok(())
}
