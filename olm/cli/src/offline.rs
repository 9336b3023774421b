//! Offline mode: one catalog, and an assumed state of the cluster.

use std::sync::Arc;

use olm_api::{Subscription, SubscriptionSpec};
use olm_bundle::Bundle;
use olm_catalog::{BundleEntry, Package};
use olm_catalog_sources::Source;
use olm_engine::{
    Refusal,
    catalogs::{CatalogRef, LoadedCatalog},
    offline::{AssumedCluster, Draft, step},
};
use olm_ops::UninstallOptions;
use olm_plan::{Finding, FindingCode, Plan, Severity, dependency_installs, shell_word};
use olm_resolver::{Fix, Resolved};

use crate::{
    args::{OfflineArgs, RegistryArgs},
    commands::catalog,
    exit::{Code, Failure},
    removed::{self, is_edge_source},
    source::{self, Named, OpenedBundle},
};

/// Default namespace of an assumed operator.
const NAMESPACE: &str = "operators";

/// Namespace of the CatalogSource that stands for the catalog of the flags.
const CATALOG_NAMESPACE: &str = "offline";

/// A catalog with the assumed state of a cluster.
#[derive(Debug)]
pub struct Offline {
    /// A single element, in the form that the engine takes.
    catalogs: [LoadedCatalog; 1],
    pub assumed: AssumedCluster,
    /// The catalog as named by the user.
    pub source: String,
}

impl Offline {
    /// Reads the catalog of the flags; `None` without one. Bundles that are assumed to be installed are
    /// looked up in `package` first.
    pub async fn open(
        namespace: Option<&str>,
        args: &OfflineArgs,
        package: &str,
    ) -> Result<Option<Self>, Failure> {
        let Some(source) = &args.source.catalog_dir else { return Ok(None) };
        // The offline flags contain no settings of registries, here and in `Self::bundle`.
        let content = catalog::load(source, &RegistryArgs::default(), Some(package)).await?;
        let reference = CatalogRef::new(CATALOG_NAMESPACE, short(source));
        let mut offline = Self {
            catalogs: [LoadedCatalog::new(reference, Arc::new(content))],
            assumed: AssumedCluster {
                namespace: namespace.unwrap_or(NAMESPACE).to_owned(),
                kubernetes: args.kube_version.clone(),
                installed: Vec::new(),
                group: None,
            },
            source: source.clone(),
        };
        for text in &args.installed {
            let entry = offline.find_bundle(text, package).await?;
            if let Some(other) = offline.assumed.of_package(&entry.package) {
                let what = format!(
                    "--installed: {} and {} are of one package, expected one bundle per package",
                    other.name, entry.name
                );
                return Err(Failure::new(Code::Usage, what));
            }
            offline.assumed.installed.push(entry);
        }
        Ok(Some(offline))
    }

    pub fn catalogs(&self) -> &[LoadedCatalog] {
        &self.catalogs
    }

    pub fn catalog(&self) -> &LoadedCatalog {
        let [catalog] = &self.catalogs;
        catalog
    }

    /// A package, or an error with similar names.
    pub fn package(&self, name: &str) -> Result<Arc<Package>, Failure> {
        catalog::read::package(&self.catalog().catalog, name)
    }

    /// `PACKAGE@VERSION`, or the name of a bundle in any package; for a bundle that left the catalog also
    /// `BUNDLE@VERSION`.
    async fn find_bundle(&self, text: &str, first: &str) -> Result<BundleEntry, Failure> {
        let catalog = &self.catalog().catalog;
        let (bundle, version) = match text.split_once('@') {
            Some((package, version)) if catalog.summary(package).is_some() => {
                return find_by_version(&*self.package(package)?, version).cloned();
            }
            Some((bundle, version)) => {
                let parsed = olm_version::parse_lenient(version).map_err(|error| {
                    Failure::new(Code::Usage, format!("--installed {text}: {version:?}: {error}"))
                })?;
                (bundle, Some(parsed))
            }
            None => (text, None),
        };
        let others = catalog.summaries().map(|summary| summary.name.as_str()).filter(|name| *name != first);
        let mut removed = removed::Search::new(bundle, version);
        for name in std::iter::once(first).chain(others) {
            let read = catalog.package(name).map_err(|e| Failure::new(Code::Unexpected, e.to_string()))?;
            let Some(package) = read else { continue };
            if let Some(entry) = package.bundles.get(bundle) {
                return Ok(entry.clone());
            }
            removed.visit(&package);
        }
        removed.found().ok_or_else(|| self.unknown_bundle(bundle, first))
    }

    fn unknown_bundle(&self, bundle: &str, package: &str) -> Failure {
        let failure = Failure::new(Code::NotFound, format!("bundle `{bundle}` is not in {}", self.source));
        let known = self.package(package).map(|package| package.bundles.keys().cloned().collect::<Vec<_>>());
        match olm_version::suggest(bundle, known.unwrap_or_default(), 3) {
            nearest if nearest.is_empty() => {
                let failure = failure.hint("use PACKAGE@VERSION or a bundle name");
                failure.hint("for a bundle that left the catalog, use --installed BUNDLE@VERSION")
            }
            nearest => failure.hint(format!("did you mean {}?", nearest.join(", "))),
        }
    }

    /// The installed bundle of a package, if it is no longer in the catalog.
    pub fn removed(&self, package: &str) -> Option<&BundleEntry> {
        let known = self.package(package).ok()?;
        self.assumed.of_package(package).filter(|entry| !known.bundles.contains_key(&entry.name))
    }

    /// The Subscription that `olm install` would create, by default for a channel with the installed bundle.
    pub fn subscription(&self, package: &str, channel: Option<&str>) -> Subscription {
        let known = self.package(package).ok();
        let followed = known.as_ref().map(|package| self.channel_following(package));
        let reference = &self.catalog().reference;
        let spec = SubscriptionSpec {
            name: package.to_owned(),
            source: reference.name.clone(),
            source_namespace: reference.namespace.clone(),
            channel: channel.map(str::to_owned).or(followed),
            ..SubscriptionSpec::default()
        };
        let mut subscription = Subscription::new(package, spec);
        subscription.metadata.namespace = Some(self.assumed.namespace.clone());
        subscription
    }

    /// A channel of a package with the installed bundle: the default channel if it has it or nothing is installed.
    fn channel_following(&self, package: &Package) -> String {
        let installed = self.assumed.of_package(&package.name);
        let removed = self.removed(&package.name);
        // A bundle that left the catalog is not in a channel, but edges name it.
        let has = |name: &str| {
            let channel = package.channels.get(name);
            match (installed, removed) {
                (None, _) => true,
                (_, Some(removed)) => channel.is_some_and(|c| is_edge_source(c, &removed.name)),
                (Some(i), _) => channel.is_some_and(|c| c.entries.iter().any(|e| e.name == i.name)),
            }
        };
        let default = &package.default_channel;
        let other = || package.channels.keys().find(|name| has(name));
        if has(default) { default.clone() } else { other().unwrap_or(default).clone() }
    }

    pub async fn resolve(&self, subscription: &Subscription) -> Result<Resolved, Refusal> {
        self.assumed.resolve(&self.catalogs, subscription).await
    }

    /// The plan to the version that the Subscription gets.
    pub async fn plan(&self, subscription: &Subscription) -> Result<Plan, Failure> {
        let resolved = self.resolve(subscription).await.map_err(refused)?;
        let package = self.package(&subscription.spec.name)?;
        let to = package.bundles.get(&resolved.chosen.name);
        let to = to.ok_or_else(|| no_readable_bundle(&resolved.chosen.name, &self.source))?;
        self.build_plan(subscription, &resolved, self.assumed.of_package(&package.name), to).await
    }

    /// The plan from the installed version to another one, with or without an upgrade path.
    pub async fn plan_to(&self, subscription: &Subscription, to: &BundleEntry) -> Result<Plan, Failure> {
        let from = self.assumed.of_package(&to.package);
        let resolved = step(subscription, &self.catalog().reference, from, to);
        self.build_plan(subscription, &resolved, from, to).await
    }

    /// The plan to remove the installed version, or the newest one if none is assumed to be installed.
    pub async fn plan_uninstall(
        &self,
        subscription: &Subscription,
        options: &UninstallOptions,
    ) -> Result<Plan, Failure> {
        let package = self.package(&subscription.spec.name)?;
        let entry = self.assumed.of_package(&package.name).or_else(|| package.head());
        let entry = entry.ok_or_else(|| no_readable_bundle(&package.name, &self.source))?;
        let bundle = self.bundle(entry).await?;
        let resolved = step(subscription, &self.catalog().reference, None, entry);
        let draft = Draft {
            subscription,
            resolved: &resolved,
            catalog: self.catalog(),
            bundle: &bundle,
            previous: None,
            along: &[],
        };
        Ok(self.assumed.plan_uninstall(&draft, options.policy()))
    }

    async fn build_plan(
        &self,
        subscription: &Subscription,
        resolved: &Resolved,
        from: Option<&BundleEntry>,
        to: &BundleEntry,
    ) -> Result<Plan, Failure> {
        let bundle = self.bundle(to).await?;
        let removed = self.removed(&to.package);
        let previous = match from.filter(|_| removed.is_none()) {
            Some(from) => Some(self.bundle(from).await?),
            None => None,
        };
        let mut along = Vec::new();
        for install in dependency_installs(resolved) {
            let chosen = &install.resolved.chosen;
            let package = self.package(&chosen.package)?;
            let entry = package
                .bundles
                .get(&chosen.name)
                .ok_or_else(|| no_readable_bundle(&chosen.name, &self.source))?;
            let bundle = self.bundle(entry).await?;
            along.push((install, bundle));
        }
        let mut plan = self.assumed.plan(&Draft {
            subscription,
            resolved,
            catalog: self.catalog(),
            bundle: &bundle,
            previous: previous.as_ref(),
            along: &along,
        });
        if let Some(removed) = removed {
            plan.findings.push(Finding {
                code: FindingCode::NotChecked,
                severity: Severity::Info,
                subject: format!("ClusterServiceVersion {}", removed.name),
                object: None,
                text: format!(
                    "not checked: its installed objects ({} no longer contains the bundle); every object is \
                        treated as new",
                    self.source
                ),
                fix: None,
            });
        }
        Ok(plan)
    }

    /// The failure of a command that needs the manifests of a bundle that left the catalog.
    pub fn unknown_objects(&self, removed: &BundleEntry) -> Failure {
        let text = format!("bundle {} is not in {}, so its objects are unknown", removed.name, self.source);
        Failure::new(Code::NotFound, text)
    }

    /// Reads a bundle from the catalog, or pulls its image.
    async fn bundle(&self, entry: &BundleEntry) -> Result<Bundle, Failure> {
        if let Some(removed) = self.removed(&entry.package).filter(|removed| removed.name == entry.name) {
            return Err(self.unknown_objects(removed));
        }
        let broken = |text: String| {
            Failure::new(Code::Refused, format!("failed to read bundle {}: {text}", entry.name))
        };
        let Some(image) = entry.image.as_ref().filter(|_| !entry.is_inline()) else {
            return entry.bundle().map_err(|error| broken(error.to_string()));
        };
        let named = Named::Source(Source::Image { reference: image.clone() });
        let options = source::options(&RegistryArgs::default())?;
        let opened = OpenedBundle::open(&named, &options).await.map_err(|failure| {
            let message = format!("bundle {} is stored in an image: {}", entry.name, failure.message);
            let mut failed = Failure { message, ..failure };
            failed.hints.push(format!(
                "show the reasons, which do not require manifests: olm why {} --catalog-dir {}",
                shell_word(&entry.package),
                shell_word(&self.source)
            ));
            failed
        })?;
        let bundle = source::blocking(move || Bundle::from_dir(&opened.path)).await?;
        bundle.map_err(|error| broken(error.to_string()))
    }
}

/// A refusal in offline mode, without the hints for a cluster.
pub fn refused(refusal: Refusal) -> Failure {
    let first = match &refusal {
        Refusal::Unresolvable(explanation) => explanation.fixes.first(),
        _ => None,
    };
    let needs_cluster = first.is_some_and(Fix::needs_cluster);
    let mut failure = Failure::from(olm_ops::Error::from(refusal));
    failure.hints.retain(|hint| !needs_cluster && !hint.contains("kubectl "));
    failure
}

/// A bundle of a package by its name or version, or an error with similar versions.
pub fn find_by_version<'a>(package: &'a Package, text: &str) -> Result<&'a BundleEntry, Failure> {
    package.find_version(text).map_err(|unknown| Failure::from(&unknown))
}

fn no_readable_bundle(name: &str, source: &str) -> Failure {
    Failure::new(Code::NotFound, format!("{name} has no readable bundle in {source}"))
}

/// The last part of a path, an image or a URL, for messages.
fn short(source: &str) -> String {
    let last = source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let stem = last.split(['.', ':', '@']).next().unwrap_or_default();
    if stem.is_empty() { "catalog".to_owned() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_catalog_is_called_after_its_source() {
        assert_eq!(short("/data/community-dev.json.zst"), "community-dev");
        assert_eq!(short("registry.example/org/catalog:v1"), "catalog");
        assert_eq!(short("./catalog/"), "catalog");
        assert_eq!(short("-"), "-");
        assert_eq!(short("."), "catalog");
    }
}
