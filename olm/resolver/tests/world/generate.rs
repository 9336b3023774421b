//! Random small universes.

use std::collections::BTreeSet;

use super::model::{Catalog, Channel, Content, Edge, Fixed, Kind, Model, Need, Package, Sub};
use super::rng::Rng;

pub const PACKAGES: &[&str] = &["a", "b", "c", "d", "e"];
/// Packages of existing operators that are in no catalog.
const FOREIGN: &[&str] = &["x", "y"];
const KINDS: u8 = 5;
/// Served by the cluster, not by an operator.
const BUILT_IN: Kind = 9;
const NEWEST: u64 = 5;

/// Features of the generated models.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Subscriptions have something installed.
    pub installed: bool,
    /// Operators without a request.
    pub fixed: bool,
    /// Several catalogs.
    pub catalogs: bool,
    /// `all`, `any`, `not`, CEL, labels.
    pub constraints: bool,
}

impl Style {
    pub const PLAIN: Self = Self { installed: false, fixed: false, catalogs: false, constraints: false };
    pub const ALL: Self = Self { installed: true, fixed: true, catalogs: true, constraints: true };

    /// A style determined by the seed.
    pub fn of(rng: &mut Rng) -> Self {
        Self {
            installed: rng.percent(50),
            fixed: rng.percent(25),
            catalogs: rng.percent(40),
            constraints: rng.percent(50),
        }
    }
}

pub fn model(rng: &mut Rng, style: Style) -> Model {
    let mut catalogs = vec![Catalog {
        name: "cat",
        priority: 0,
        packages: PACKAGES.iter().map(|name| package(rng, name, style)).collect(),
    }];
    if style.catalogs {
        for name in ["dog", "ant"] {
            if rng.percent(70) {
                let names: Vec<&'static str> = PACKAGES.iter().copied().filter(|_| rng.percent(50)).collect();
                let packages = names.into_iter().map(|name| package(rng, name, style)).collect();
                catalogs.push(Catalog { name, priority: *rng.pick(&[0, 0, 10]), packages });
            }
        }
    }
    let mut wanted: Vec<&'static str> = PACKAGES.to_vec();
    rng.shuffle(&mut wanted);
    wanted.truncate(1 + rng.below(4));
    let mut subs: Vec<Sub> = wanted.iter().map(|name| sub(rng, name, &catalogs, style)).collect();
    if rng.percent(10) && subs[0].installed.is_none() {
        // two Subscriptions of one package
        let mut second = sub(rng, subs[0].package, &catalogs, Style::PLAIN);
        second.name = format!("{}-too", second.name);
        subs.push(second);
    }
    let fixed = if style.fixed { fixed(rng, style, &subs) } else { Vec::new() };
    let mut cluster = BTreeSet::new();
    if rng.percent(30) {
        cluster.insert(BUILT_IN);
    }
    let mut policy = Vec::new();
    if rng.percent(10) {
        let forbidden =
            Need::All(vec![Need::Api(rng.below(KINDS as usize) as u8), Need::Package(wanted[0], 2, 99)]);
        policy.push(Need::Not(vec![forbidden]));
    }
    Model { catalogs, subs, fixed, cluster, policy }
}

fn package(rng: &mut Rng, name: &'static str, style: Style) -> Package {
    let bundles: Vec<Content> =
        (1..=1 + rng.below(NEWEST as usize - 1) as u64).map(|major| content(rng, major, style)).collect();
    let majors: Vec<u64> = bundles.iter().map(|b| b.major).collect();
    let mut channels = vec![Channel { name: "stable", entries: entries(rng, &majors) }];
    if rng.percent(30) {
        let some: Vec<u64> = majors.iter().copied().filter(|_| rng.percent(60)).collect();
        if !some.is_empty() {
            let name = if rng.percent(50) { "beta" } else { "zeta" };
            channels.push(Channel { name, entries: entries(rng, &some) });
        }
    }
    if channels.len() > 1 && rng.percent(30) {
        channels.reverse();
    }
    Package { name, channels, bundles }
}

fn content(rng: &mut Rng, major: u64, style: Style) -> Content {
    let provides = (0..rng.below(3)).map(|_| rng.below(KINDS as usize) as u8).collect();
    let labels = (0..rng.below(2)).map(|_| rng.below(3) as u8).collect();
    let count = [0, 0, 1, 1, 2][rng.below(5)];
    let needs = (0..count).map(|_| need(rng, style)).collect();
    let (prohibited, too_new, deprecated) = (rng.percent(5), rng.percent(5), rng.percent(5));
    Content { major, provides, labels, needs, prohibited, too_new, deprecated }
}

fn simple_need(rng: &mut Rng) -> Need {
    match rng.below(8) {
        0..4 => Need::Api(if rng.percent(5) { BUILT_IN } else { rng.below(KINDS as usize) as u8 }),
        _ => {
            let from = rng.below(4) as u64;
            Need::Package(
                PACKAGES[rng.below(PACKAGES.len())],
                from,
                if rng.percent(50) { 99 } else { from + 2 },
            )
        }
    }
}

fn need(rng: &mut Rng, style: Style) -> Need {
    if !style.constraints || rng.percent(50) {
        return simple_need(rng);
    }
    let several = |rng: &mut Rng| (0..1 + rng.below(2)).map(|_| simple_need(rng)).collect::<Vec<_>>();
    match rng.below(6) {
        0 => Need::Label(rng.below(4) as u8),
        1 => Need::Cel(rng.below(KINDS as usize) as u8),
        2 => Need::Any(several(rng)),
        3 => Need::All(vec![Need::Api(rng.below(KINDS as usize) as u8), Need::Not(several(rng))]),
        4 => Need::All(vec![simple_need(rng), Need::Any(several(rng))]),
        _ => Need::Any(vec![
            Need::Label(rng.below(4) as u8),
            Need::All(vec![simple_need(rng), Need::Cel(rng.below(KINDS as usize) as u8)]),
        ]),
    }
}

/// A chain with some damage.
fn entries(rng: &mut Rng, majors: &[u64]) -> Vec<Edge> {
    let mut list = Vec::new();
    for (i, major) in majors.iter().enumerate() {
        let mut edge = Edge { major: *major, range: rng.percent(15), ..Edge::default() };
        if i > 0 && rng.percent(93) {
            edge.replaces = Some(majors[i - 1]);
        } else if i == 0 && rng.percent(10) {
            // an entry that the channel does not have any more
            edge.replaces = Some(0);
        }
        if i > 1 && rng.percent(15) {
            edge.skips.push(majors[i - 2]);
        }
        if i > 0 && rng.percent(5) {
            edge.skips.push(majors[i - 1]);
        }
        list.push(edge);
    }
    list
}

fn sub(rng: &mut Rng, package: &'static str, catalogs: &[Catalog], style: Style) -> Sub {
    let offers = catalogs.iter().filter(|c| c.packages.iter().any(|p| p.name == package));
    let offers: Vec<&Catalog> = offers.collect();
    let catalog = if rng.percent(70) { "cat" } else { rng.pick(&offers).name };
    let found = catalogs.iter().find(|c| c.name == catalog).unwrap();
    let content = found.packages.iter().find(|p| p.name == package).unwrap();
    let channel = rng.percent(70).then(|| rng.pick(&content.channels).name);
    let mut sub = Sub {
        name: package.to_owned(),
        package,
        catalog,
        channel,
        installed: None,
        starting: None,
        skip: Vec::new(),
        range: None,
        require_present: rng.percent(10),
    };
    if style.installed && rng.percent(60) {
        let mut installed = rng.pick(&content.bundles).clone();
        // existing operators may be from another time
        if rng.percent(20) {
            installed.needs.clear();
        }
        installed.prohibited = false;
        sub.installed = Some(installed);
    } else if rng.percent(8) {
        let channel = channel.and_then(|name| content.channel(name)).unwrap_or(&content.channels[0]);
        sub.starting = Some(rng.pick(&channel.entries).major);
    }
    if sub.installed.is_none() && sub.starting.is_none() && rng.percent(10) {
        let from = rng.below(3) as u64;
        sub.range = Some((from, from + 1 + rng.below(3) as u64));
    }
    if rng.percent(10) {
        sub.skip.push(rng.pick(&content.bundles).major);
    }
    sub
}

fn fixed(rng: &mut Rng, style: Style, subs: &[Sub]) -> Vec<Fixed> {
    let mut list = Vec::new();
    for package in FOREIGN.iter().chain(PACKAGES) {
        if rng.percent(30) {
            let mut content = content(rng, 1, style);
            if rng.percent(60) {
                content.needs.clear();
            }
            let wanted = subs.iter().any(|sub| sub.package == *package);
            list.push(Fixed { package, content, elsewhere: wanted || rng.percent(30) });
        }
    }
    list
}
