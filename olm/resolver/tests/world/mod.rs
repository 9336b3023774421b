//! Small universes, written down shortly.
#![allow(dead_code)] // every test binary uses its own part of this

use olm_resolver::{
    AnyNeed, Bundle, Catalog, CatalogRef, Channel, Entry, Explanation, Facts, Gvk, Installed, InstalledRef,
    Package, PackageNeed, Range, Request, Resolution, Resolved, SatisfiedBy, Universe, Version, resolve,
};

/// A universe, requests and facts under construction. Everything is in namespace `ns`.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub catalogs: Vec<(CatalogRef, Catalog)>,
    pub requests: Vec<Request>,
    pub facts: Facts,
}

/// One bundle in one channel: `b("a.v2", "2.0.0").replaces("a.v1").provides("k1")`.
#[derive(Clone, Debug)]
pub struct B {
    entry: Entry,
    bundle: Bundle,
}

pub fn b(name: &str, version: &str) -> B {
    B {
        entry: Entry { name: name.into(), ..Entry::default() },
        bundle: Bundle { name: name.into(), version: Version::parse(version).ok(), ..Bundle::default() },
    }
}

/// `k1` is kind K1 of group g, version v.
pub fn gvk(kind: &str) -> Gvk {
    Gvk::new("g", "v", kind)
}

fn need(text: &str) -> PackageNeed {
    let (package, range) = text.split_once(' ').unwrap();
    PackageNeed { package: package.into(), range: Range::parse(range).unwrap() }
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
        self
    }
    pub fn requires(mut self, kinds: &[&str]) -> Self {
        self.bundle.requires_apis = kinds.iter().map(|k| gvk(k)).collect();
        self
    }
    pub fn needs(mut self, packages: &[&str]) -> Self {
        self.bundle.requires_packages = packages.iter().map(|p| need(p)).collect();
        self
    }
    pub fn any(mut self, message: &str, kinds: &[&str], packages: &[&str]) -> Self {
        self.bundle.requires_any.push(AnyNeed {
            message: Some(message.into()),
            apis: kinds.iter().map(|k| gvk(k)).collect(),
            packages: packages.iter().map(|p| need(p)).collect(),
        });
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

pub fn catalog_ref(name: &str) -> CatalogRef {
    CatalogRef::new("ns", name)
}

impl World {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a channel of a package of a catalog. The first channel of a package is its default.
    pub fn channel(mut self, catalog: &str, package: &str, channel: &str, bundles: &[B]) -> Self {
        let id = catalog_ref(catalog);
        if !self.catalogs.iter().any(|(c, _)| *c == id) {
            self.catalogs.push((id.clone(), Catalog::default()));
        }
        let content = &mut self.catalogs.iter_mut().find(|(c, _)| *c == id).unwrap().1;
        let found = content.packages.entry(package.into()).or_insert_with(|| Package {
            name: package.into(),
            default_channel: channel.into(),
            ..Package::default()
        });
        let entries = bundles.iter().map(|b| b.entry.clone()).collect();
        found.channels.insert(channel.into(), Channel { name: channel.into(), deprecated: None, entries });
        for bundle in bundles {
            found.bundles.insert(bundle.bundle.name.clone(), bundle.bundle.clone());
        }
        self
    }

    pub fn priority(mut self, catalog: &str, priority: i32) -> Self {
        let id = catalog_ref(catalog);
        self.catalogs.iter_mut().find(|(c, _)| *c == id).unwrap().1.priority = priority;
        self
    }

    /// A Subscription `ns/<package>` of catalog `cat`.
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
    pub fn installed(mut self, bundle: &B) -> Self {
        let request = self.requests.last_mut().unwrap();
        let it = &bundle.bundle;
        request.installed = Some(InstalledRef { name: it.name.clone(), version: it.version.clone() });
        let fact = installed(&request.package, bundle);
        self.facts.installed.push(Installed { subscription: Some(request.subscription.clone()), ..fact });
        self
    }

    /// An operator that no Subscription of the request is about.
    pub fn existing(mut self, package: &str, bundle: &B, subscription: Option<&str>) -> Self {
        let subscription = subscription.map(Into::into);
        self.facts.installed.push(Installed { subscription, ..installed(package, bundle) });
        self
    }

    pub fn kubernetes(mut self, version: &str) -> Self {
        self.facts.kubernetes = Version::parse(version).ok();
        self
    }

    pub fn universe(&self) -> Universe {
        Universe::new(self.catalogs.clone())
    }

    pub fn resolve(&self) -> Result<Resolution, Explanation> {
        resolve(&self.universe(), &self.requests, &self.facts)
    }

    /// Names of everything that will be installed, sorted.
    pub fn installs(&self) -> Vec<String> {
        match self.resolve() {
            Ok(resolution) => installs(&resolution),
            Err(explanation) => panic!("{}", explanation.text(100)),
        }
    }

    pub fn item(&self) -> Resolved {
        self.resolve().unwrap_or_else(|e| panic!("{}", e.text(100))).items.remove(0)
    }

    pub fn refused(&self) -> Explanation {
        match self.resolve() {
            Ok(resolution) => panic!("{:?}", installs(&resolution)),
            Err(explanation) => explanation,
        }
    }
}

fn installed(package: &str, bundle: &B) -> Installed {
    let it = &bundle.bundle;
    Installed {
        name: it.name.clone(),
        namespace: "ns".into(),
        package: Some(package.into()),
        version: it.version.clone(),
        subscription: None,
        provides: it.provides.clone(),
        requires_apis: it.requires_apis.clone(),
        requires_packages: it.requires_packages.clone(),
        requires_any: it.requires_any.clone(),
    }
}

pub fn installs(resolution: &Resolution) -> Vec<String> {
    let mut names = Vec::new();
    for item in &resolution.items {
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
