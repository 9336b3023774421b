//! The subject of plan, why, graph and diff: a package with its existing or assumed Subscription, on a
//! cluster or in a catalog without a cluster.

use std::sync::Arc;

use kube::{Api, Client};
use olm_api::{Subscription, subscription::UpgradeConstraintPolicy};
use olm_catalog::{BundleEntry, Package};
use olm_engine::{
    Refusal,
    catalogs::LoadedCatalog,
    offline::{AssumedCluster, Draft},
};
use olm_ops::{InstallRequest, Installed, Kind, WatchScope};
use olm_plan::{Plan, shell_word};
use olm_resolver::Resolved;
use serde_json::Value;

use super::catalogs;
use crate::{
    args::{Global, OfflineArgs},
    context,
    exit::{Code, Failure},
    names,
    offline::{self, Offline},
};

/// The arguments of such a command.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<'a> {
    /// Package, or the name of the Subscription or ClusterServiceVersion.
    pub package: &'a str,
    /// Replaces the subscribed channel.
    pub channel: Option<&'a str>,
    /// Replaces the pin or range of the Subscription.
    pub version: Option<&'a str>,
    /// Replaces settings of the operator's Deployments.
    pub config: Option<&'a Value>,
    /// Whether to ignore the catalog's upgrade edges, also for a downgrade.
    pub self_certified: bool,
    /// Whether a package that is not installed on the cluster is an error.
    pub only_installed: bool,
}

/// The source of the state.
pub enum StateSource {
    Cluster {
        /// With the identity of the user.
        client: Client,
        catalogs: Vec<LoadedCatalog>,
    },
    /// A catalog without a cluster.
    Offline(Box<Offline>),
}

pub struct Subject {
    pub source: StateSource,
    /// The existing or assumed Subscription, changed by the query.
    pub subscription: Subscription,
    /// The installed operator on the cluster.
    pub installed: Option<Installed>,
}

impl Subject {
    /// Finds the subject. A package that is not installed is treated as a new installation, unless the query
    /// requires an installed one.
    pub async fn find(global: &Global, args: &OfflineArgs, query: Query<'_>) -> Result<Self, Failure> {
        let opened = Offline::open(global.namespace.as_deref(), args, query.package).await?;
        let mut subject = match opened {
            Some(offline) => Self::offline(offline, query),
            None => Self::on_cluster(global, args.source.catalog.as_deref(), query).await?,
        };
        let spec = &mut subject.subscription.spec;
        if let Some(channel) = query.channel {
            spec.channel = Some(channel.to_owned());
        }
        if let Some(version) = query.version {
            spec.version = Some(version.to_owned());
        }
        if let Some(config) = query.config {
            spec.config = Some(olm_ops::merge_config(spec.config.take(), config));
        }
        if query.self_certified {
            spec.upgrade_constraint_policy = Some(UpgradeConstraintPolicy::SelfCertified);
        }
        Ok(subject)
    }

    fn offline(offline: Offline, query: Query<'_>) -> Self {
        let subscription = offline.subscription(query.package, query.channel);
        Self { source: StateSource::Offline(Box::new(offline)), subscription, installed: None }
    }

    async fn on_cluster(global: &Global, catalog: Option<&str>, query: Query<'_>) -> Result<Self, Failure> {
        let client = context::connect(global).await?;
        let catalogs = catalogs::fetch(client.clone()).await?;
        names::keep(global, &catalogs);
        let found = olm_ops::find_installed(&client, global.namespace.as_deref(), query.package).await;
        let installed = match found {
            Ok(installed) => Some(installed),
            Err(error) if error.kind() == Kind::NotFound && !query.only_installed => None,
            Err(error) => return Err(error.into()),
        };
        let subscribed = installed.as_ref().filter(|installed| installed.catalog.is_some());
        let subscription = match subscribed {
            Some(installed) => {
                let api = Api::<Subscription>::namespaced(client.clone(), &installed.namespace);
                api.get(&installed.name).await?
            }
            None => {
                let package = installed.as_ref().map_or(query.package, |installed| &installed.package);
                let namespace = installed.as_ref().map(|installed| installed.namespace.clone());
                let namespace = namespace.or_else(|| global.namespace.clone());
                let request = InstallRequest {
                    catalog: catalog.map(|name| catalogs::reference(&catalogs, name)).transpose()?,
                    channel: query.channel.map(str::to_owned),
                    ..InstallRequest::new(
                        package,
                        namespace.unwrap_or_else(|| olm_ops::suggested_namespace(&catalogs, package)),
                    )
                };
                olm_ops::requested_subscription(&client, &catalogs, &request).await?
            }
        };
        Ok(Self { source: StateSource::Cluster { client, catalogs }, subscription, installed })
    }

    /// Fails if the package is not installed.
    pub fn must_be_installed(&self) -> Result<(), Failure> {
        if self.installed_csv().is_some() {
            return Ok(());
        }
        let package = &self.subscription.spec.name;
        let failure = Failure::new(Code::NotFound, format!("{package} is not installed"));
        Err(match &self.source {
            StateSource::Cluster { .. } => failure.hint(format!("olm plan install {}", shell_word(package))),
            StateSource::Offline(_) => failure.hint("set the installed bundle with --installed BUNDLE"),
        })
    }

    /// The installed ClusterServiceVersion, or the assumed one.
    pub fn installed_csv(&self) -> Option<&str> {
        match &self.source {
            StateSource::Cluster { .. } => self.installed.as_ref()?.csv.as_deref(),
            StateSource::Offline(offline) => {
                offline.assumed.of_package(&self.subscription.spec.name).map(|entry| entry.name.as_str())
            }
        }
    }

    /// The catalog of the Subscription.
    pub fn catalog(&self) -> Option<&LoadedCatalog> {
        let spec = &self.subscription.spec;
        match &self.source {
            StateSource::Cluster { catalogs, .. } => catalogs.iter().find(|catalog| {
                let reference = &catalog.reference;
                reference.namespace == spec.source_namespace && reference.name == spec.source
            }),
            StateSource::Offline(offline) => Some(offline.catalog()),
        }
    }

    /// The package, or an error with similar names.
    pub async fn package(&self) -> Result<Arc<Package>, Failure> {
        let name = &self.subscription.spec.name;
        match &self.source {
            StateSource::Offline(offline) => offline.package(name),
            StateSource::Cluster { catalogs, .. } => {
                let own = self.catalog().map(std::slice::from_ref);
                Ok(catalogs::find(own.unwrap_or(catalogs), name).await?.1)
            }
        }
    }

    pub async fn resolve(&self) -> Result<Resolved, Refusal> {
        match &self.source {
            StateSource::Cluster { client, catalogs } => {
                olm_engine::resolve(client, catalogs, &self.subscription).await
            }
            StateSource::Offline(offline) => offline.resolve(&self.subscription).await,
        }
    }

    /// A refusal with the hints for a cluster, or without one.
    pub fn refused(&self, refusal: Refusal) -> Failure {
        match &self.source {
            StateSource::Cluster { .. } => Failure::from(olm_ops::Error::from(refusal)),
            StateSource::Offline(_) => offline::refused(refusal),
        }
    }

    /// The plan of the Subscription.
    pub async fn plan(&self) -> Result<Plan, Failure> {
        match &self.source {
            StateSource::Cluster { client, catalogs } => {
                let planned = olm_engine::preview(client, catalogs, &self.subscription).await;
                planned.map_err(|refusal| self.refused(refusal))
            }
            StateSource::Offline(offline) => offline.plan(&self.subscription).await,
        }
    }

    /// The operator's namespace.
    pub fn namespace(&self) -> String {
        self.subscription.metadata.namespace.clone().unwrap_or_default()
    }

    /// The plan of the Subscription, with a scope if one is requested. Without a cluster the namespace has no
    /// OperatorGroup that could differ.
    pub async fn plan_scoped(&mut self, scope: Option<&WatchScope>) -> Result<Plan, Failure> {
        let namespace = self.namespace();
        match &mut self.source {
            StateSource::Cluster { client, catalogs } => {
                olm_ops::preview_scoped(client, catalogs, &self.subscription, scope).await.map_err(Into::into)
            }
            StateSource::Offline(offline) => {
                offline.assumed.group = scope.map(|scope| scope.group(&namespace));
                offline.plan(&self.subscription).await
            }
        }
    }

    /// The plan compared with the manifests of the installed version in the catalog, instead of the live
    /// objects.
    pub async fn plan_against_installed(&self) -> Result<Plan, Failure> {
        let (Some(catalog), StateSource::Cluster { .. }) = (self.catalog(), &self.source) else {
            return self.plan().await;
        };
        let package = self.package().await?;
        let resolved = self.resolve().await.map_err(|refusal| self.refused(refusal))?;
        let read = async |name: &str| {
            let entry = package.bundles.get(name).ok_or_else(|| {
                Failure::new(Code::NotFound, format!("bundle {name} is no longer in the catalog"))
                    .hint("compare with the cluster with --against live")
            })?;
            let bundle = catalog.bundle(entry).await;
            bundle.map_err(|error| {
                Failure::new(Code::Unexpected, format!("failed to read bundle {name}: {error}"))
            })
        };
        let bundle = read(&resolved.chosen.name).await?;
        let previous = match self.installed_csv() {
            Some(name) => Some(read(name).await?),
            None => None,
        };
        let assumed = AssumedCluster {
            namespace: self.subscription.metadata.namespace.clone().unwrap_or_default(),
            ..AssumedCluster::default()
        };
        Ok(assumed.plan(&Draft {
            subscription: &self.subscription,
            resolved: &resolved,
            catalog,
            bundle: &bundle,
            previous: previous.as_ref(),
            // Dependencies are not compared: none of them is installed.
            along: &[],
        }))
    }

    /// Resolves the Subscription as if another version were installed.
    pub async fn resolve_from(&self, from: &BundleEntry) -> Result<Resolved, Refusal> {
        let catalogs = match &self.source {
            StateSource::Cluster { catalogs, .. } => catalogs.as_slice(),
            StateSource::Offline(offline) => offline.catalogs(),
        };
        let assumed = AssumedCluster {
            namespace: self.subscription.metadata.namespace.clone().unwrap_or_default(),
            installed: vec![from.clone()],
            ..AssumedCluster::default()
        };
        assumed.resolve(catalogs, &self.subscription).await
    }
}
