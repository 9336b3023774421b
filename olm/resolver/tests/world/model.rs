//! Small universes as plain data, independent of the types of the resolver: read by the oracle, and converted
//! to a [`World`] for the resolver.

use std::collections::BTreeSet;

use olm_constraint::Constraint;
use olm_resolver::{DependencyPolicy, Version, VersionRequest};
use serde_json::{Value, json};

use super::build::{B, World, b, catalog_ref, gvk, gvk_value};

/// A kind of API: `3` is kind `K3`.
pub type Kind = u8;

/// A requirement on one bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    Api(Kind),
    /// A package in a range of major versions, the last one not included.
    Package(&'static str, u64, u64),
    Label(u8),
    /// A rule in CEL that requires an API.
    Cel(Kind),
    All(Vec<Need>),
    Any(Vec<Need>),
    Not(Vec<Need>),
}

/// Properties and requirements of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub major: u64,
    pub provides: BTreeSet<Kind>,
    pub labels: BTreeSet<u8>,
    pub needs: Vec<Need>,
    /// It has `olm.deprecated`.
    pub prohibited: bool,
    /// It needs a newer Kubernetes.
    pub too_new: bool,
    /// Its catalog deprecates it.
    pub deprecated: bool,
}

/// One entry of a channel; entries and bundles are named by their major version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    pub major: u64,
    pub replaces: Option<u64>,
    pub skips: Vec<u64>,
    /// `skipRange: <major.0.0`
    pub range: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub name: &'static str,
    pub entries: Vec<Edge>,
}

/// The first channel is the default one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: &'static str,
    pub channels: Vec<Channel>,
    pub bundles: Vec<Content>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    pub name: &'static str,
    pub priority: i32,
    pub packages: Vec<Package>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sub {
    pub name: String,
    pub package: &'static str,
    pub catalog: &'static str,
    pub channel: Option<&'static str>,
    pub installed: Option<Content>,
    pub starting: Option<u64>,
    pub skip: Vec<u64>,
    /// Allowed major versions, the last one not included.
    pub range: Option<(u64, u64)>,
    pub require_present: bool,
}

/// An operator without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    pub package: &'static str,
    pub content: Content,
    /// It is in another namespace.
    pub elsewhere: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub catalogs: Vec<Catalog>,
    pub subs: Vec<Sub>,
    pub fixed: Vec<Fixed>,
    /// Kinds that the cluster serves without an operator.
    pub cluster: BTreeSet<Kind>,
    /// Constraints on every bundle.
    pub policy: Vec<Need>,
}

pub fn kind(kind: Kind) -> String {
    format!("K{kind}")
}

/// Name of the bundle of a package.
pub fn name(package: &str, major: u64) -> String {
    format!("{package}.v{major}")
}

/// The Kubernetes of the cluster, and the minimum version of a bundle that is too new for it.
pub const KUBERNETES: &str = "1.33.2";
const NEWER: &str = "1.40.0";

impl Need {
    /// Whether a bundle meets it.
    pub fn met_by(&self, package: &str, content: &Content) -> bool {
        match self {
            Self::Api(kind) | Self::Cel(kind) => content.provides.contains(kind),
            Self::Package(name, from, below) => *name == package && (*from..*below).contains(&content.major),
            Self::Label(label) => content.labels.contains(label),
            Self::All(inner) => inner.iter().all(|need| need.met_by(package, content)),
            Self::Any(inner) => inner.iter().any(|need| need.met_by(package, content)),
            Self::Not(inner) => !inner.iter().any(|need| need.met_by(package, content)),
        }
    }

    /// The APIs that it names.
    pub fn kinds(&self) -> BTreeSet<Kind> {
        match self {
            Self::Api(kind) | Self::Cel(kind) => [*kind].into(),
            Self::Package(..) | Self::Label(_) => BTreeSet::new(),
            Self::All(inner) | Self::Any(inner) | Self::Not(inner) => {
                inner.iter().flat_map(Need::kinds).collect()
            }
        }
    }

    /// As the value of an `olm.constraint`; labels, which it does not support, as a rule over properties.
    pub fn value(&self) -> Value {
        let list = |inner: &[Self]| inner.iter().map(Self::value).collect::<Vec<_>>();
        match self {
            Self::Api(k) => json!({ "gvk": gvk_value(&kind(*k)) }),
            Self::Package(name, from, below) => json!({ "package": {
                "packageName": name, "versionRange": format!(">={from}.0.0 <{below}.0.0") } }),
            Self::Cel(k) => json!({ "cel": { "rule": format!(
                "properties.exists(p, p.type == 'olm.gvk' && p.value == {{'group': 'g', 'version': 'v', 'kind': '{}'}})",
                kind(*k)
            ) } }),
            Self::Label(label) => json!({ "cel": { "rule": format!(
                "properties.exists(p, p.type == 'olm.label' && p.value == {{'label': 'l{label}'}})"
            ) } }),
            Self::All(inner) => json!({ "all": { "constraints": list(inner) } }),
            Self::Any(inner) => json!({ "any": { "constraints": list(inner) } }),
            Self::Not(inner) => json!({ "not": { "constraints": list(inner) } }),
        }
    }
}

impl Content {
    /// Requirements that it does not meet itself.
    pub fn open_needs<'a>(&'a self, package: &'a str) -> impl Iterator<Item = &'a Need> {
        self.needs.iter().filter(move |need| !need.met_by(package, self))
    }

    /// As a bundle of the resolver.
    pub fn to_b(&self, package: &str) -> B {
        let kinds: Vec<String> = self.provides.iter().map(|k| kind(*k)).collect();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let mut it = b(&name(package, self.major), &format!("{}.0.0", self.major)).provides(&kinds);
        for need in &self.needs {
            it = match need {
                Need::Api(k) => it.requires(&[&kind(*k)]),
                Need::Package(name, from, below) => it.needs(&[&format!("{name} >={from}.0.0 <{below}.0.0")]),
                Need::Label(label) => it.label_needed(&format!("l{label}")),
                other => it.constraint(&other.value()),
            };
        }
        for label in &self.labels {
            it = it.label(&format!("l{label}"));
        }
        if self.too_new {
            it = it.kube(NEWER);
        }
        if self.deprecated {
            it = it.deprecated("there is a newer one");
        }
        if self.prohibited { it.prohibited() } else { it }
    }
}

impl Package {
    pub fn content(&self, major: u64) -> Option<&Content> {
        self.bundles.iter().find(|b| b.major == major)
    }

    pub fn channel(&self, name: &str) -> Option<&Channel> {
        self.channels.iter().find(|c| c.name == name)
    }
}

impl Model {
    pub fn package(&self, catalog: &str, package: &str) -> Option<&Package> {
        self.catalogs.iter().find(|c| c.name == catalog)?.packages.iter().find(|p| p.name == package)
    }

    /// As a world for the resolver.
    pub fn world(&self) -> World {
        let mut world = World::new().kubernetes(KUBERNETES);
        for catalog in &self.catalogs {
            for package in &catalog.packages {
                for channel in &package.channels {
                    let list: Vec<B> = channel.entries.iter().map(|e| to_b(package, e)).collect();
                    world = world.channel(catalog.name, package.name, channel.name, &list);
                }
            }
            if !catalog.packages.is_empty() {
                world = world.priority(catalog.name, catalog.priority);
            }
        }
        for sub in &self.subs {
            world = world.sub(sub.package, sub.channel.unwrap_or_default()).with(|r| {
                r.subscription = format!("ns/{}", sub.name);
                r.catalog = catalog_ref(sub.catalog);
                r.starting_csv = sub.starting.map(|major| name(sub.package, major));
                r.skip_versions = sub.skip.iter().map(|major| format!("{major}.0.0")).collect();
                let range = sub.range.map(|(from, below)| format!(">={from}.0.0 <{below}.0.0"));
                r.version = range.and_then(|text| VersionRequest::parse(&text).ok());
                if sub.require_present {
                    r.dependencies = DependencyPolicy::RequirePresent;
                }
            });
            if let Some(content) = &sub.installed {
                world = world.installed(&content.to_b(sub.package));
            }
        }
        for fixed in &self.fixed {
            let namespace = if fixed.elsewhere { "elsewhere" } else { "ns" };
            world = world.existing_with(fixed.package, &fixed.content.to_b(fixed.package), |i| {
                i.namespace = namespace.into();
                i.subscription = Some(format!("{namespace}/{}", fixed.package));
            });
        }
        for k in &self.cluster {
            world.facts.apis.insert(gvk(&kind(*k)), olm_resolver::ApiFact::default());
        }
        let rule = |need: &Need| Constraint::parse(&need.value()).unwrap();
        world.facts.policy = self.policy.iter().map(rule).collect();
        world
    }
}

fn to_b(package: &Package, edge: &Edge) -> B {
    let content = package.content(edge.major).unwrap();
    let mut it = content.to_b(package.name);
    it.entry.replaces = edge.replaces.map(|major| name(package.name, major));
    it.entry.skips = edge.skips.iter().map(|major| name(package.name, *major)).collect();
    if edge.range {
        it = it.skip_range(&format!("<{}.0.0", edge.major));
    }
    it
}

/// The major version in a name.
pub fn major(version: Option<&Version>) -> u64 {
    version.map_or(0, |v| v.major)
}
