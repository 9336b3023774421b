//! One package, indexed so that queries do not scan it.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use olm_constraint::Gvk;
use olm_version::precedence;

use crate::bundle::{Bundle, Channel};
use crate::graph::Graph;

/// One package. Channels and bundles are kept in the order of their names; of two with one name the first
/// counts.
#[derive(Clone, Debug, Default)]
pub struct Package {
    pub name: String,
    /// The channel of a request without one.
    pub default_channel: String,
    /// Deprecation message of the catalog.
    pub deprecated: Option<String>,
    channels: Vec<Channel>,
    bundles: Vec<Bundle>,
    /// One for each channel, computed on demand.
    graphs: Vec<OnceLock<Graph>>,
    newest: OnceLock<Vec<u32>>,
    /// For each bundle the indexes of its channels.
    inside: OnceLock<Vec<Vec<u32>>>,
    reach: OnceLock<Reach>,
}

/// What any of the package's bundles provides or requires.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    pub(crate) provides: BTreeSet<Gvk>,
    pub(crate) needs_apis: BTreeSet<Gvk>,
    pub(crate) needs_packages: BTreeSet<String>,
    /// Whether it requires something that any bundle of any package may have.
    pub(crate) needs_anything: bool,
}

impl Package {
    pub fn new(
        name: impl Into<String>,
        default_channel: impl Into<String>,
        deprecated: Option<String>,
        mut channels: Vec<Channel>,
        mut bundles: Vec<Bundle>,
    ) -> Self {
        channels.sort_by(|a, b| a.name.cmp(&b.name));
        channels.dedup_by(|a, b| a.name == b.name);
        bundles.sort_by(|a, b| a.name.cmp(&b.name));
        bundles.dedup_by(|a, b| a.name == b.name);
        Self {
            name: name.into(),
            default_channel: default_channel.into(),
            deprecated,
            graphs: channels.iter().map(|_| OnceLock::new()).collect(),
            channels,
            bundles,
            newest: OnceLock::new(),
            inside: OnceLock::new(),
            reach: OnceLock::new(),
        }
    }

    /// The channels, by name.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    pub fn channel(&self, name: &str) -> Option<&Channel> {
        self.channel_place(name).map(|place| &self.channels[place])
    }

    /// The bundles, by name.
    pub fn bundles(&self) -> &[Bundle] {
        &self.bundles
    }

    pub fn bundle(&self, name: &str) -> Option<&Bundle> {
        self.bundle_place(name).map(|place| &self.bundles[place])
    }

    /// Names of packages and APIs that any of its bundles requires, and whether one of them requires
    /// something that any bundle of any package may have (a label, an expression).
    pub fn needs(&self) -> (&BTreeSet<String>, &BTreeSet<Gvk>, bool) {
        let reach = self.reach();
        (&reach.needs_packages, &reach.needs_apis, reach.needs_anything)
    }

    fn channel_place(&self, name: &str) -> Option<usize> {
        self.channels.binary_search_by(|channel| channel.name.as_str().cmp(name)).ok()
    }

    pub(crate) fn bundle_place(&self, name: &str) -> Option<usize> {
        self.bundles.binary_search_by(|bundle| bundle.name.as_str().cmp(name)).ok()
    }

    /// The upgrade graph of one of the package's own channels.
    pub(crate) fn graph(&self, channel: &Channel) -> Option<&Graph> {
        let place = self.channel_place(&channel.name)?;
        Some(
            self.graphs[place].get_or_init(|| {
                Graph::new(&self.name, &self.channels[place], |name| self.bundle_place(name))
            }),
        )
    }

    /// Indexes of the bundles, the newest first.
    pub(crate) fn newest(&self) -> &[u32] {
        self.newest.get_or_init(|| {
            let mut places: Vec<u32> = (0..self.bundles.len() as u32).collect();
            places.sort_by(|a, b| newest_first(&self.bundles[*a as usize], &self.bundles[*b as usize]));
            places
        })
    }

    /// The channels of a bundle, by name.
    pub(crate) fn channels_of(&self, bundle: u32) -> impl Iterator<Item = &Channel> {
        let inside = self.inside.get_or_init(|| {
            let mut inside: Vec<Vec<u32>> = vec![Vec::new(); self.bundles.len()];
            for (place, channel) in self.channels.iter().enumerate() {
                for bundle in channel.entries.iter().filter_map(|entry| self.bundle_place(&entry.name)) {
                    if inside[bundle].last() != Some(&(place as u32)) {
                        inside[bundle].push(place as u32);
                    }
                }
            }
            inside
        });
        inside[bundle as usize].iter().map(|place| &self.channels[*place as usize])
    }

    pub(crate) fn reach(&self) -> &Reach {
        self.reach.get_or_init(|| {
            let mut reach = Reach::default();
            for bundle in &self.bundles {
                for gvk in &bundle.provides {
                    if !reach.provides.contains(gvk) {
                        reach.provides.insert(gvk.clone());
                    }
                }
                for constraint in &bundle.requires {
                    let Some(keys) = constraint.keys() else {
                        reach.needs_anything = true;
                        continue;
                    };
                    reach.needs_apis.extend(keys.apis.into_iter().cloned());
                    reach.needs_packages.extend(keys.packages.into_iter().map(str::to_owned));
                }
            }
            reach
        })
    }
}

/// Newer versions first, then names.
pub(crate) fn newest_first(a: &Bundle, b: &Bundle) -> std::cmp::Ordering {
    match (&a.version, &b.version) {
        (Some(a), Some(b)) => precedence(b, a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
    .then_with(|| b.name.cmp(&a.name))
}
