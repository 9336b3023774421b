//! Each channel of the full catalog alone: OLM v0 takes a median of 152 ms.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use olm_resolver::{Request, Resolved, SatisfiedBy};

use super::{
    super::{steps::spread, table::Row},
    median, ms,
    world::{World, request},
};

const CHANNELS: usize = 628;

/// Solvable channels of the full catalog. The others belong to packages that need an API or a package that no
/// catalog has.
const POSSIBLE: usize = 624;
const WITH_DEPENDENCIES: usize = 14;

/// Every other channel gives its head. The newer versions of these two need packages that the catalog does
/// not have.
const OLDER: [(&str, &str); 2] =
    [("eclipse-che", "eclipse-che.v7.41.2"), ("ndmspc-operator", "ndmspc-operator.v0.20250131.0")];

/// Number of runs; the first one does not count, and is reported.
const RUNS: usize = 7;

/// One channel, requested on an empty cluster.
pub(super) struct Alone {
    pub package: String,
    pub channel: String,
    pub request: Request,
    /// The choice, if there is one.
    pub resolved: Option<Resolved>,
    /// The first time, when the package's indexes are built.
    pub first: Duration,
    /// Time of the resolution.
    pub time: Duration,
}

impl Alone {
    /// The links of the longest chain of dependencies.
    pub fn depth(&self) -> usize {
        let Some(resolved) = &self.resolved else { return 0 };
        let mut level = vec![resolved.chosen.name.as_str()];
        let mut depth = 0;
        // no chain has more links than there are dependencies
        while depth < resolved.dependencies.len() {
            let needed = resolved.dependencies.iter().filter(|it| level.contains(&it.required_by.as_str()));
            let next: Vec<&str> = needed.filter_map(|it| installed_for(&it.satisfied_by)).collect();
            if next.is_empty() {
                break;
            }
            level = next;
            depth += 1;
        }
        depth
    }

    /// Other bundles installed along.
    pub fn along(&self) -> BTreeSet<&str> {
        self.resolved
            .iter()
            .flat_map(|it| &it.dependencies)
            .filter_map(|it| installed_for(&it.satisfied_by))
            .collect()
    }

    fn label(&self) -> String {
        format!("{}/{}", self.package, self.channel)
    }
}

fn installed_for(satisfied_by: &SatisfiedBy) -> Option<&str> {
    match satisfied_by {
        SatisfiedBy::Install(bundle) => Some(&bundle.name),
        _ => None,
    }
}

/// Resolves every channel, several times.
pub(super) fn resolve_all(world: &World) -> Result<Vec<Alone>> {
    world
        .heads
        .keys()
        .map(|(package, channel)| {
            let request = request("bench", package, channel);
            let requests = std::slice::from_ref(&request);
            let first = median(1, || world.resolve(requests));
            let mut items = world.resolve(requests).items;
            ensure!(items.len() == 1, "one request has {} answers", items.len());
            let resolved = items.pop().and_then(Result::ok);
            Ok(Alone {
                package: package.clone(),
                channel: channel.clone(),
                resolved,
                first,
                time: median(RUNS, || world.resolve(requests)),
                request,
            })
        })
        .collect()
}

pub(super) fn rows(world: &World, all: &[Alone], rows: &mut Vec<Row>) -> Result<()> {
    let possible: Vec<&Alone> = all.iter().filter(|it| it.resolved.is_some()).collect();
    let (plain, needy): (Vec<&Alone>, Vec<&Alone>) = possible.iter().partition(|it| it.along().is_empty());
    ensure!(
        (all.len(), possible.len(), needy.len()) == (CHANNELS, POSSIBLE, WITH_DEPENDENCIES),
        "{} channels, {} can be had, {} of them with dependencies",
        all.len(),
        possible.len(),
        needy.len(),
    );
    for it in &possible {
        let chosen = it.resolved.as_ref().map(|resolved| resolved.chosen.name.as_str());
        let older = OLDER.iter().find(|(package, _)| *package == it.package).map(|(_, bundle)| *bundle);
        let head = world.heads[&(it.package.clone(), it.channel.clone())].as_str();
        let expected = older.unwrap_or(head);
        ensure!(chosen == Some(expected), "{}: {chosen:?} was chosen, not {expected}", it.label());
    }
    let labels: Vec<String> = all.iter().map(Alone::label).collect();
    let every = spread(all.iter().zip(&labels).map(|(it, label)| (it.time, label.as_str())).collect())?;
    let first = spread(all.iter().zip(&labels).map(|(it, label)| (it.first, label.as_str())).collect())?;
    let labels: Vec<String> = plain.iter().map(|it| it.label()).collect();
    let plain = spread(plain.iter().zip(&labels).map(|(it, label)| (it.time, label.as_str())).collect())?;
    rows.push(Row {
        what: "resolver: one install without dependencies, median",
        measured: plain.p50 * 1000.0,
        limit: 200.0,
        unit: "µs",
        note: format!(
            "{} channels, p99 {:.0}, worst {:.0} ({}); recorded: OLM v0 40 to 58 ms, large packages 176 to 525; OLM v1 150 µs",
            plain.count,
            plain.p99 * 1000.0,
            plain.worst * 1000.0,
            plain.slowest
        ),
    });
    rows.push(Row {
        what: "resolver: each of the 628 channels alone, worst",
        measured: every.worst,
        limit: 2.0,
        unit: "ms",
        note: format!(
            "p50 {:.3}, p99 {:.2} ({} is the worst; {POSSIBLE} can be had); the first time p50 {:.2}, p99 {:.2}, worst \
             {:.1} ({}); recorded: OLM v0 p50 152, p99 3,900, worst 12,400",
            every.p50, every.p99, every.slowest, first.p50, first.p99, first.worst, first.slowest
        ),
    });
    let along = |it: &Alone| it.along().len();
    let deepest =
        needy.iter().max_by_key(|it| (it.depth(), along(it), it.time)).context("nothing is needed")?;
    let slowest = needy.iter().max_by_key(|it| it.time).context("nothing is needed")?;
    rows.push(Row {
        what: "resolver: one install with dependencies, the worst",
        measured: ms(slowest.time),
        limit: 2.0,
        unit: "ms",
        note: format!(
            "{} of {WITH_DEPENDENCIES}; {} brings {} others along in {:.3}; recorded: OLM v0 0.2 s (dbaas, pelorus) to \
             2.8 s (kuadrant, rabbitmq topology)",
            slowest.label(),
            deepest.label(),
            along(deepest),
            ms(deepest.time)
        ),
    });
    Ok(())
}
