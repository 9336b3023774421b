//! Hard universes: the time until a result, or until the search is aborted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use olm_resolver::{
    Bundle, Catalog, Channel, Code, Constraint, Entry, Explanation, Facts, Gvk, Package, Range, Request,
    Resolved, Rule, Universe, Version, resolve,
};

use super::{
    super::table::Row,
    ms,
    world::{catalog_ref, request},
};

/// Time until any result. The search itself has a budget of about a second.
const LIMIT: f64 = 2.0;

/// Pigeons with one hole less than pigeons: every proof by such a search is exponential.
const PIGEONS: [usize; 2] = [20, 40];

/// Variables, and clauses of three for each of them, near the ratio where random formulas are hardest.
const VARIABLES: usize = 200;
const CLAUSES: usize = 880;

/// Packages in a row, each of which needs the next one.
const CHAIN: usize = 5_000;

pub(super) fn rows(rows: &mut Vec<Row>) -> Result<()> {
    // small ones are decided correctly
    for pigeons in 2..5 {
        let (_, fits) = ask(&pigeonhole(pigeons, pigeons), "pigeons");
        ensure!(fits.is_ok(), "{pigeons} pigeons do not find a place in as many holes: {fits:?}");
        let (_, tight) = ask(&pigeonhole(pigeons, pigeons - 1), "pigeons");
        let code = tight.err().map(|why| why.code);
        ensure!(code.is_some_and(|code| code != Code::GaveUp), "{pigeons} pigeons, one hole less: {code:?}");
    }
    let mut worst = Duration::ZERO;
    let mut texts = Vec::new();
    for pigeons in PIGEONS {
        let (time, answer) = ask(&pigeonhole(pigeons, pigeons - 1), "pigeons");
        let why = answer.err().context("more pigeons than holes found a place")?;
        let reported = why.code == Code::GaveUp && why.summary.chars().any(|c| c.is_ascii_digit());
        ensure!(reported, "{pigeons} pigeons: it does not report its progress: {}", why.summary);
        worst = worst.max(time);
        texts.push(format!("{pigeons} pigeons over APIs {:.0} ms ({:?})", ms(time), why.summary));
    }

    let (mut decided, mut gave_up) = (0, 0);
    let mut slowest = Duration::ZERO;
    for seed in 1..=8 {
        let clauses = formula(seed);
        let (time, answer) = ask(&satisfiability(&clauses), "formula");
        slowest = slowest.max(time);
        match answer {
            Ok(resolved) => {
                check(&clauses, &resolved)?;
                decided += 1;
            }
            Err(why) if why.code == Code::GaveUp => gave_up += 1,
            Err(_) => decided += 1,
        }
    }
    worst = worst.max(slowest);
    texts.push(format!(
        "8 random formulas of {VARIABLES} packages and {CLAUSES} constraints: {decided} decided, {gave_up} given up, \
         slowest {:.0} ms",
        ms(slowest)
    ));

    let (time, answer) = ask(&chain(true), "package-0");
    let resolved = answer.map_err(|why| anyhow::anyhow!("the chain: {}", why.summary))?;
    ensure!(resolved.dependencies.len() == CHAIN - 1, "{} dependencies", resolved.dependencies.len());
    let (broken, answer) = ask(&chain(false), "package-0");
    ensure!(answer.is_err(), "a chain without its end was chosen");
    worst = worst.max(time).max(broken);
    texts.push(format!("a chain of {CHAIN}: {:.0} ms, without its end {:.0} ms", ms(time), ms(broken)));

    rows.push(Row {
        what: "resolver: the hardest universes, until there is an answer",
        measured: worst.as_secs_f64(),
        limit: LIMIT,
        unit: "s",
        note: texts.join("; "),
    });
    Ok(())
}

/// Resolves one package, with reasons.
fn ask(universe: &Universe, package: &str) -> (Duration, Result<Resolved, Arc<Explanation>>) {
    let request: Request = request("bench", package, "stable");
    let start = Instant::now();
    let mut resolution = resolve(universe, std::slice::from_ref(&request), &Facts::default());
    (start.elapsed(), resolution.items.swap_remove(0))
}

/// A package with these versions in one channel; each version provides and needs something.
fn package(name: &str, versions: Vec<(Vec<Gvk>, Vec<Constraint>)>) -> Package {
    let bundle_name = |major: usize| format!("{name}.v{major}.0.0");
    let entry = |major: usize| Entry {
        name: bundle_name(major),
        replaces: (major > 1).then(|| bundle_name(major - 1)),
        ..Entry::default()
    };
    let entries = (1..=versions.len()).map(entry).collect();
    let bundles = versions.into_iter().zip(1..).map(|((provides, requires), major)| Bundle {
        name: bundle_name(major),
        version: Some(Version::new(major as u64, 0, 0)),
        provides,
        requires,
        ..Bundle::default()
    });
    let bundles = bundles.collect();
    let channel = Channel { name: "stable".into(), entries, ..Channel::default() };
    Package::new(name, "stable", None, vec![channel], bundles)
}

fn universe(packages: impl IntoIterator<Item = Package>) -> Universe {
    let packages = packages.into_iter().map(|package| (package.name.clone(), Arc::new(package))).collect();
    Universe::new([(catalog_ref(), Catalog { packages, ..Catalog::default() })])
}

fn api(kind: String) -> Gvk {
    Gvk::new("bench.example.com", "v1", kind)
}

/// One package needs an API for each pigeon. Each is provided by a package for each hole, which provides the
/// hole, too; and an API has only one owner.
fn pigeonhole(pigeons: usize, holes: usize) -> Universe {
    let pigeon = |pigeon: usize| api(format!("Pigeon{pigeon}"));
    let all = (0..pigeons).map(|it| Constraint::api(pigeon(it))).collect();
    let places = (0..pigeons).flat_map(|it| (0..holes).map(move |hole| (it, hole)));
    let places = places.map(|(it, hole)| {
        let mut provides = vec![api(format!("Hole{hole}")), pigeon(it)];
        provides.sort();
        package(&format!("pigeon-{it}-in-{hole}"), vec![(provides, vec![])])
    });
    universe(places.chain([package("pigeons", vec![(vec![], all)])]))
}

/// A variable (a package) and its required version (1 or 2).
type Literal = (usize, usize);

/// Clauses of three different variables each, the same ones for the same seed.
fn formula(seed: u64) -> Vec<[Literal; 3]> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = |below: usize| {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % below
    };
    let mut clause = || loop {
        let three = [(); 3].map(|()| (next(VARIABLES), next(2) + 1));
        if three[0].0 != three[1].0 && three[0].0 != three[2].0 && three[1].0 != three[2].0 {
            return three;
        }
    };
    (0..CLAUSES).map(|_| clause()).collect()
}

/// One package needs one bundle of each clause; of a package there is only one version at a time.
fn satisfiability(clauses: &[[Literal; 3]]) -> Universe {
    let literal = |(variable, version): &Literal| {
        let range = Range::parse(&format!("{version}.0.0")).expect("a version is a range");
        Constraint::package(format!("variable-{variable}"), range)
    };
    let clause = |three: &[Literal; 3]| Constraint {
        message: None,
        rule: Rule::Any(three.iter().map(literal).collect()),
    };
    let variables =
        (0..VARIABLES).map(|it| package(&format!("variable-{it}"), vec![(vec![], vec![]), (vec![], vec![])]));
    universe(variables.chain([package("formula", vec![(vec![], clauses.iter().map(clause).collect())])]))
}

/// Whether the choice satisfies every clause.
fn check(clauses: &[[Literal; 3]], resolved: &Resolved) -> Result<()> {
    let chosen: std::collections::BTreeSet<String> = resolved
        .dependencies
        .iter()
        .filter_map(|it| match &it.satisfied_by {
            olm_resolver::SatisfiedBy::Install(bundle) => Some(bundle.name.clone()),
            _ => None,
        })
        .collect();
    for clause in clauses {
        let met =
            clause.iter().any(|(it, version)| chosen.contains(&format!("variable-{it}.v{version}.0.0")));
        ensure!(met, "clause {clause:?} is not met by what was chosen");
    }
    for it in 0..VARIABLES {
        let both = (1..3).all(|version| chosen.contains(&format!("variable-{it}.v{version}.0.0")));
        ensure!(!both, "both versions of variable-{it} were chosen");
    }
    Ok(())
}

/// Packages in a row; the last one may be missing.
fn chain(complete: bool) -> Universe {
    let name = |it: usize| format!("package-{it}");
    let needs = |it: usize| {
        let any = Range::parse(">=1.0.0").expect("it is a range");
        if it + 1 < CHAIN { vec![Constraint::package(name(it + 1), any)] } else { Vec::new() }
    };
    let count = if complete { CHAIN } else { CHAIN - 1 };
    universe((0..count).map(|it| package(&name(it), vec![(vec![], needs(it))])))
}
