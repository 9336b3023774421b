//! The solver alone, on the instance of OLM v0's own benchmark.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
};

use anyhow::{Context as _, Result, bail, ensure};
use olm_resolver::solver::{Answer, Constraint, Problem, Var};
use serde::Deserialize;
use serde_json::Value;

use super::{
    super::{rows::shared_data, table::Row},
    median, ms,
};

const RECORDED: &str = "recorded/olm-v0/solver-instances.jsonl";

/// The first one is upstream's `BenchmarkInput`; the others are random.
const VARIABLES: usize = 256;

const RUNS: usize = 101;

#[derive(Deserialize)]
struct Instance {
    name: String,
    vars: Vec<Variable>,
    sat: bool,
    /// The selection, where there is one.
    result: Option<BTreeSet<String>>,
}

#[derive(Deserialize)]
struct Variable {
    id: String,
    c: Vec<Value>,
}

pub(super) fn row(rows: &mut Vec<Row>) -> Result<()> {
    let path = shared_data().join(RECORDED);
    if !path.exists() {
        olm_tests::skipped("bench: the solver alone", &format!("{} is not there", path.display()));
        return Ok(());
    }
    let instances = read(&path)?;
    let (first, others) = instances.split_first().context("no instance")?;
    ensure!(first.vars.len() == VARIABLES && first.sat, "{} is another instance", first.name);
    let problem = problem(first)?;
    let Answer::Selected(selected) = problem.solve() else { bail!("{}: not solved", first.name) };
    let names: BTreeSet<String> = selected.iter().map(|var| first.vars[*var as usize].id.clone()).collect();
    ensure!(Some(&names) == first.result.as_ref(), "{}: {names:?} and not {:?}", first.name, first.result);
    let mut times = Vec::new();
    for instance in others {
        let problem = self::problem(instance)?;
        let sat = matches!(problem.solve(), Answer::Selected(_));
        ensure!(sat == instance.sat, "{}: satisfiable is {sat}", instance.name);
        times.push(median(1, || problem.solve()));
    }
    let (all, worst) = (times.iter().sum(), times.iter().max().copied().unwrap_or_default());
    rows.push(Row {
        what: "resolver: OLM v0's own instance of 256 variables",
        measured: ms(median(RUNS, || problem.solve())) * 1000.0,
        limit: 300.0,
        unit: "µs",
        note: format!(
            "the solver alone, the same choice; recorded: OLM v0 320; {} random instances {:.1} ms together, worst {:.2} ms",
            others.len(), ms(all), ms(worst)
        ),
    });
    Ok(())
}

fn read(path: &Path) -> Result<Vec<Instance>> {
    let lines = BufReader::new(File::open(path)?).lines();
    lines.map(|line| serde_json::from_str(&line?).context("not an instance")).collect()
}

fn problem(instance: &Instance) -> Result<Problem> {
    let places: BTreeMap<&str, Var> =
        instance.vars.iter().zip(0..).map(|(variable, place)| (variable.id.as_str(), place)).collect();
    let var =
        |value: &Value| value.as_str().and_then(|id| places.get(id)).copied().context("no such variable");
    let vars =
        |value: &Value| value.as_array().context("no list")?.iter().map(var).collect::<Result<Vec<Var>>>();
    let constraint = |value: &Value| {
        Ok(match value[0].as_str() {
            Some("mandatory") => Constraint::Mandatory,
            Some("prohibited") => Constraint::Prohibited,
            Some("dependency") => Constraint::Dependency(vars(&value[1])?),
            Some("conflict") => Constraint::Conflict(var(&value[1])?),
            Some("atmost") => {
                let limit = value[1].as_u64().context("no number")?;
                Constraint::AtMost(limit as usize, vars(&value[2])?)
            }
            _ => bail!("{}: unknown constraint {value}", instance.name),
        })
    };
    let constraints = |variable: &Variable| variable.c.iter().map(constraint).collect();
    Ok(Problem { variables: instance.vars.iter().map(constraints).collect::<Result<_>>()? })
}
