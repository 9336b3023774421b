//! A universe, requests and facts written in code: `World::new().channel(..).sub(..)`.

use std::collections::BTreeMap;
use std::sync::Arc;

use olm_constraint::{Constraint, Property};
use olm_resolver::{
    Bundle, Catalog, CatalogRef, Channel, Entry, Explanation, Facts, Gvk, Health, Installed, InstalledRef,
    Package, Range, Request, Resolution, Resolved, SatisfiedBy, Universe, Version, resolve,
};
use serde_json::{Value, json};

/// A universe, requests and facts under construction. Everything is in namespace `ns`.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub catalogs: Vec<(CatalogRef, Draft)>,
    pub requests: Vec<Request>,
    pub facts: Facts,
}

#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub priority: i32,
    pub health: Health,
    pub packages: BTreeMap<String, PackageDraft>,
}

#[derive(Clone, Debug, Default)]
pub struct PackageDraft {
    pub default_channel: String,
    pub deprecated: Option<String>,
    pub channels: Vec<Channel>,
    pub bundles: Vec<Bundle>,
}

/// One bundle in one channel: `b("a.v2", "2.0.0").replaces("a.v1").provides(&["k1"])`.
#[derive(Clone, Debug)]
pub struct B {
    pub entry: Entry,
    pub bundle: Bundle,
}

pub fn b(name: &str, version: &str) -> B {
    B {
        entry: Entry { name: name.into(), ..Entry::default() },
        bundle: Bundle { name: name.into(), version: Version::parse(version).ok(), ..Bundle::default() },
    }
}

/// `k1` is kind k1 of group g, version v.
pub fn gvk(kind: &str) -> Gvk {
    Gvk::new("g", "v", kind)
}

/// `c >=1.0.0` is package c in that range.
pub fn package_need(text: &str) -> Constraint {
    let (package, range) = text.split_once(' ').unwrap();
    Constraint::package(package, Range::parse(range).unwrap())
}

impl B {
    pub fn replaces(mut self, name: &str) -> Self {
        self.entry.replaces = Some(name.into());
        self
    }
    pub fn skips(mut self, names: &[&str]) -> Self {
        self.entry.skips = names.iter().map(|n| (*n).into()).collect();
        self
    }
    pub fn skip_range(mut self, range: &str) -> Self {
        self.entry.skip_range = Some(Range::parse(range).unwrap());
        self
    }
    pub fn provides(mut self, kinds: &[&str]) -> Self {
        self.bundle.provides = kinds.iter().map(|k| gvk(k)).collect();
        self.bundle.provides.sort();
        self
    }
    pub fn requires(mut self, kinds: &[&str]) -> Self {
        self.bundle.requires.extend(kinds.iter().map(|k| Constraint::api(gvk(k))));
        self
    }
    /// Needs packages, each as `name range`.
    pub fn needs(mut self, packages: &[&str]) -> Self {
        self.bundle.requires.extend(packages.iter().map(|p| package_need(p)));
        self
    }
    /// Needs a label.
    pub fn label_needed(mut self, label: &str) -> Self {
        self.bundle.requires.push(Constraint::label(label));
        self
    }
    /// Has the value of an `olm.constraint`.
    pub fn constraint(mut self, value: &Value) -> Self {
        self.bundle.requires.push(Constraint::parse(value).unwrap());
        self
    }
    /// One of these APIs and packages is needed.
    pub fn any(self, message: &str, kinds: &[&str], packages: &[&str]) -> Self {
        let apis = kinds.iter().map(|k| json!({ "gvk": gvk_value(k) }));
        let packages = packages.iter().map(|p| json!({ "package": package_value(p) }));
        let options: Vec<Value> = apis.chain(packages).collect();
        self.constraint(&json!({ "failureMessage": message, "any": { "constraints": options } }))
    }
    /// A rule over properties.
    pub fn cel(self, rule: &str, message: &str) -> Self {
        self.constraint(&json!({ "failureMessage": message, "cel": { "rule": rule } }))
    }
    pub fn label(mut self, label: &str) -> Self {
        self.bundle.labels.push(label.into());
        self
    }
    pub fn prohibited(mut self) -> Self {
        self.bundle.prohibited = true;
        self
    }
    pub fn kube(mut self, version: &str) -> Self {
        self.bundle.min_kube_version = Version::parse(version).ok();
        self
    }
    pub fn unsupported(mut self, text: &str) -> Self {
        self.bundle.unsupported = Some(text.into());
        self
    }
    pub fn deprecated(mut self, text: &str) -> Self {
        self.bundle.deprecated = Some(text.into());
        self
    }
}

pub fn gvk_value(kind: &str) -> Value {
    json!({ "group": "g", "version": "v", "kind": kind })
}

pub fn package_value(text: &str) -> Value {
    let (package, range) = text.split_once(' ').unwrap();
    json!({ "packageName": package, "versionRange": range })
}

pub fn catalog_ref(name: &str) -> CatalogRef {
    CatalogRef::new("ns", name)
}

/// The properties for rules: the bundle itself, and what it provides.
fn properties(package: &str, bundle: &Bundle) -> Vec<Property> {
    let version = bundle.version.as_ref().map(ToString::to_string).unwrap_or_default();
    let own = Property::new("olm.package", &json!({ "packageName": package, "version": version }));
    let apis = bundle.provides.iter().map(|g| {
        Property::new("olm.gvk", &json!({ "group": g.group, "version": g.version, "kind": g.kind }))
    });
    let labels = bundle.labels.iter().map(|label| Property::new("olm.label", &json!({ "label": label })));
    std::iter::once(own).chain(apis).chain(labels).collect()
}

impl World {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a channel of a package of a catalog. The first channel of a package is its default.
    pub fn channel(mut self, catalog: &str, package: &str, channel: &str, bundles: &[B]) -> Self {
        let id = catalog_ref(catalog);
        if !self.catalogs.iter().any(|(c, _)| *c == id) {
            self.catalogs.push((id.clone(), Draft::default()));
        }
        let content = &mut self.catalogs.iter_mut().find(|(c, _)| *c == id).unwrap().1;
        let found = content
            .packages
            .entry(package.into())
            .or_insert_with(|| PackageDraft { default_channel: channel.into(), ..PackageDraft::default() });
        let entries = bundles.iter().map(|b| b.entry.clone()).collect();
        found.channels.push(Channel { name: channel.into(), deprecated: None, entries });
        for b in bundles {
            let bundle = Bundle { properties: properties(package, &b.bundle), ..b.bundle.clone() };
            found.bundles.push(bundle);
        }
        self
    }

    pub fn package(mut self, catalog: &str, package: &str, change: impl FnOnce(&mut PackageDraft)) -> Self {
        change(self.draft(catalog).packages.get_mut(package).unwrap());
        self
    }

    pub fn priority(mut self, catalog: &str, priority: i32) -> Self {
        self.draft(catalog).priority = priority;
        self
    }

    fn draft(&mut self, catalog: &str) -> &mut Draft {
        let id = catalog_ref(catalog);
        &mut self.catalogs.iter_mut().find(|(c, _)| *c == id).unwrap().1
    }

    /// A Subscription `ns/<package>` of catalog `cat`; of all channels when `channel` is empty.
    pub fn sub(mut self, package: &str, channel: &str) -> Self {
        self.requests.push(Request {
            subscription: format!("ns/{package}"),
            package: package.into(),
            catalog: catalog_ref("cat"),
            channel: Some(channel.into()).filter(|c: &String| !c.is_empty()),
            ..Request::default()
        });
        self
    }

    /// Changes the last Subscription.
    pub fn with(mut self, change: impl FnOnce(&mut Request)) -> Self {
        change(self.requests.last_mut().unwrap());
        self
    }

    /// The last Subscription has this bundle of its package installed.
    pub fn installed(self, bundle: &B) -> Self {
        self.installed_with(bundle, |_| {})
    }

    /// The same, with changes of the installed operator.
    pub fn installed_with(mut self, bundle: &B, change: impl FnOnce(&mut Installed)) -> Self {
        let request = self.requests.last_mut().unwrap();
        let it = &bundle.bundle;
        request.installed = Some(InstalledRef { name: it.name.clone(), version: it.version.clone() });
        let mut fact = installed(&request.package, bundle);
        fact.subscription = Some(request.subscription.clone());
        change(&mut fact);
        self.facts.installed.push(fact);
        self
    }

    /// An operator without a request.
    pub fn existing(self, package: &str, bundle: &B, subscription: Option<&str>) -> Self {
        self.existing_with(package, bundle, |i| i.subscription = subscription.map(Into::into))
    }

    /// The same, with changes.
    pub fn existing_with(mut self, package: &str, bundle: &B, change: impl FnOnce(&mut Installed)) -> Self {
        let mut fact = installed(package, bundle);
        change(&mut fact);
        self.facts.installed.push(fact);
        self
    }

    pub fn kubernetes(mut self, version: &str) -> Self {
        self.facts.kubernetes = Version::parse(version).ok();
        self
    }

    pub fn universe(&self) -> Universe {
        Universe::new(self.catalogs.iter().map(|(id, draft)| {
            let package = |name: &str, it: &PackageDraft| {
                let (channels, bundles) = (it.channels.clone(), it.bundles.clone());
                Arc::new(Package::new(name, &it.default_channel, it.deprecated.clone(), channels, bundles))
            };
            let packages = draft.packages.iter().map(|(name, it)| (name.clone(), package(name, it)));
            let (priority, health) = (draft.priority, draft.health.clone());
            (id.clone(), Catalog { priority, health, packages: packages.collect() })
        }))
    }

    pub fn resolve(&self) -> Resolution {
        resolve(&self.universe(), &self.requests, &self.facts)
    }

    /// Names of everything to be installed, sorted. No request may be refused.
    pub fn installs(&self) -> Vec<String> {
        let resolution = self.resolve();
        for item in &resolution.items {
            if let Err(explanation) = item {
                panic!("{}", explanation.text(100));
            }
        }
        installs(&resolution)
    }

    /// The result of the first request.
    pub fn item(&self) -> Resolved {
        match self.resolve().items.remove(0) {
            Ok(item) => item,
            Err(explanation) => panic!("{}", explanation.text(100)),
        }
    }

    /// The result of the last request.
    pub fn last(&self) -> Resolved {
        match self.resolve().items.pop().unwrap() {
            Ok(item) => item,
            Err(explanation) => panic!("{}", explanation.text(100)),
        }
    }

    /// The explanation of the first refused request.
    pub fn refused(&self) -> Explanation {
        let resolution = self.resolve();
        match resolution.items.iter().find_map(|item| item.as_ref().err()) {
            Some(explanation) => Explanation::clone(explanation),
            None => panic!("{:?}", installs(&resolution)),
        }
    }
}

/// The facts about an operator installed from a bundle.
pub fn installed(package: &str, b: &B) -> Installed {
    let it = &b.bundle;
    Installed {
        name: it.name.clone(),
        namespace: "ns".into(),
        package: Some(package.into()),
        version: it.version.clone(),
        provides: it.provides.clone(),
        requires: it.requires.clone(),
        labels: it.labels.clone(),
        properties: properties(package, it),
        ..Installed::default()
    }
}

/// Names of everything to be installed, sorted, of the requests that are not refused.
pub fn installs(resolution: &Resolution) -> Vec<String> {
    let mut names = Vec::new();
    for item in resolution.items.iter().flatten() {
        if item.action != olm_resolver::Action::None {
            names.push(item.chosen.name.clone());
        }
        for dependency in &item.dependencies {
            if let SatisfiedBy::Install(bundle) = &dependency.satisfied_by {
                names.push(bundle.name.clone());
            }
        }
    }
    names.sort();
    names.dedup();
    names
}
