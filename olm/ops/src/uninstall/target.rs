//! The live objects of an operator that is to be uninstalled.

use std::collections::BTreeSet;

use kube::{Client, ResourceExt};
use olm_api::{Subscription, csv::CrdDescription, names};
use olm_engine::resources::Resources;
use olm_plan::{
    Dependency, Live, OPERATOR_GROUP_NAME, ObjectRef, Operand, OperatorLease, PendingDeletion, Plan,
    Requester, UninstallInput, make_uninstall_plan, no_longer_needed, uninstall_reads,
};
use olm_resolver::Gvk;
use serde_json::Value;

use super::{
    UninstallOptions, leases,
    other_users::forget_traces,
    owned::{Owned, known},
    remaining_crds::RemainingCrds,
};
use crate::{
    error::Error,
    instances::{Instance, managed_by},
    list::{Installed, World},
    status::View,
};

/// Maximum number of instances that a finding names.
const EXAMPLES: usize = 5;

/// An operator that is to be uninstalled, with the objects that a plan of its removal needs under any
/// options.
pub struct UninstallTarget {
    installed: Installed,
    csv: Option<Value>,
    replaced: Option<String>,
    subscription: Option<String>,
    operator_group: Option<String>,
    owned: Owned,
    dependencies: Vec<Needed>,
    leases: Vec<OperatorLease>,
    live: Live,
    unreadable: BTreeSet<ObjectRef>,
}

/// An operator that was installed as its dependency.
struct Needed {
    installed: Installed,
    subscription: String,
    csv: Option<Value>,
    by: Vec<String>,
    owned: Owned,
}

impl UninstallTarget {
    /// Reads everything that an uninstall may change.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Forbidden`]. Single objects and kinds that the caller may not read are
    /// no error; the plan reports them.
    pub async fn read(client: &Client, namespace: Option<&str>, target: &str) -> Result<Self, Error> {
        let world = World::read(client, namespace).await?;
        let view = world.find(target)?;
        Self::of(client, &world, view).await?.with_leases(client).await
    }

    /// As [`Self::read`], for a Subscription that is deleted already, whatever other operators the namespace
    /// has, and without Leases: the manager has no rights on those.
    pub async fn of_subscription(client: &Client, subscription: &Subscription) -> Result<Self, Error> {
        let mut world = World::read(client, subscription.namespace().as_deref()).await?;
        let uid = subscription.uid();
        world.subscriptions.retain(|s| s.uid() != uid);
        world.subscriptions.push(subscription.clone());
        let view = world.view_of(subscription);
        Self::of(client, &world, view).await
    }

    /// As [`Self::read`], or else the remains of an interrupted uninstall: the CRDs and the generated
    /// OperatorGroup of an operator without any other object.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no trace of it either.
    pub(super) async fn remains(
        client: &Client,
        namespace: Option<&str>,
        target: &str,
    ) -> Result<Self, Error> {
        let world = World::read(client, namespace).await?;
        let not_found = match world.find(target) {
            Ok(view) => return Self::of(client, &world, view).await?.with_leases(client).await,
            Err(error @ Error::NotFound { .. }) => error,
            Err(error) => return Err(error),
        };
        let Some(remains) = RemainingCrds::find(client, namespace, target).await? else {
            return Err(not_found);
        };
        let installed = remains.installed(target);
        let this = Self {
            csv: None,
            replaced: None,
            subscription: None,
            operator_group: lonely_group(&world, &installed.namespace, &[], None),
            owned: Owned::left(client, &remains).await?,
            dependencies: Vec::new(),
            leases: Vec::new(),
            installed,
            live: Live::new(),
            unreadable: BTreeSet::new(),
        };
        this.with_live_objects(client).await
    }

    async fn of(client: &Client, world: &World, view: View) -> Result<Self, Error> {
        let installed = world.describe(&view);
        let owned = Owned::read(client, world, &installed, &view).await?;
        let dependencies = dependencies(client, world, &view).await?;
        let going = dependencies.iter().filter(|needed| needed.by.is_empty());
        let going: Vec<&str> = going.map(|needed| needed.subscription.as_str()).collect();
        let this = Self {
            csv: view.csv.as_ref().and_then(|csv| serde_json::to_value(csv).ok()),
            replaced: view.old.as_ref().map(ResourceExt::name_any),
            subscription: view.subscription.as_ref().map(ResourceExt::name_any),
            operator_group: lonely_group(world, &installed.namespace, &going, Some(&view)),
            installed,
            owned,
            dependencies,
            leases: Vec::new(),
            live: Live::new(),
            unreadable: BTreeSet::new(),
        };
        this.with_live_objects(client).await
    }

    /// Adds the live state of everything that its plans may name.
    async fn with_live_objects(mut self, client: &Client) -> Result<Self, Error> {
        let everything = UninstallOptions { delete_crds: true, ..UninstallOptions::default() };
        let wanted = self.with_input(&everything, uninstall_reads);
        let seen = olm_engine::read_live(&Resources::new(client.clone()), wanted).await;
        (self.live, self.unreadable) = seen.map_err(olm_engine::Refusal::from)?;
        let dependencies = self.dependencies.iter().map(|needed| needed.installed.package.as_str());
        let packages = dependencies.chain([self.installed.package.as_str()]).collect();
        forget_traces(client, &mut self.live, &packages, &self.installed.namespace).await?;
        Ok(self)
    }

    /// Adds the Leases that its pods, or those of its dependencies, hold.
    async fn with_leases(mut self, client: &Client) -> Result<Self, Error> {
        let dependencies = self.dependencies.iter().map(|needed| &needed.owned);
        let rendered = dependencies.chain([&self.owned]).filter_map(|owned| owned.rendered(false));
        let deployments = rendered
            .flat_map(|rendered| rendered.objects())
            .filter(|(_, object)| object["kind"] == "Deployment")
            .filter_map(|(_, object)| {
                let account = object.pointer("/spec/template/spec/serviceAccountName");
                let account = account.and_then(Value::as_str).unwrap_or("default");
                Some((object.pointer("/metadata/name")?.as_str()?.to_owned(), account.to_owned()))
            })
            .collect();
        self.leases = leases::read(client, &self.installed, &deployments).await?;
        Ok(self)
    }

    /// The Deployment whose pods hold a Lease of the plan.
    pub(super) fn holder_of(&self, lease: &ObjectRef) -> Option<&str> {
        let held = self.leases.iter().find(|held| held.reference == *lease);
        held.map(|held| held.deployment.as_str())
    }

    #[must_use]
    pub fn installed(&self) -> &Installed {
        &self.installed
    }

    /// The custom resources that it manages, as far as they may be listed.
    #[must_use]
    pub fn instances(&self) -> Vec<&Instance> {
        managed_by(known(self.owned.kinds(false)).collect(), &self.installed)
    }

    /// The CRD of a kind whose custom resources may not be listed, if there is one.
    #[must_use]
    pub fn unlisted(&self) -> Option<&str> {
        self.owned.kinds(false).find(|(_, list)| list.is_none()).map(|(crd, _)| crd.name.as_str())
    }

    /// Whether all CRDs to be removed are known, including those that only an earlier version had.
    pub(super) fn knows_all_crds(&self, options: &UninstallOptions) -> bool {
        self.going(options).map(|needed| &needed.owned).chain([&self.owned]).all(|owned| owned.complete)
    }

    /// The plan of the uninstall.
    #[must_use]
    pub fn plan(&self, options: &UninstallOptions) -> Plan {
        self.with_input(options, |input| make_uninstall_plan(input, &self.live))
    }

    /// The plural name of a custom resource's kind.
    pub(super) fn plural_of(&self, object: &ObjectRef) -> Option<&str> {
        let all = self.dependencies.iter().map(|needed| &needed.owned).chain([&self.owned]);
        let same = |i: &&Instance| i.api_version == object.api_version && i.kind == object.kind;
        all.flat_map(|owned| known(owned.kinds(true).chain(owned.kinds(false))))
            .find(same)
            .map(|instance| instance.plural.as_str())
    }

    /// The versions to be removed, as `olm.owner` names them.
    pub(super) fn versions(&self, options: &UninstallOptions) -> Vec<String> {
        let name = |csv: &Value| csv.pointer("/metadata/name")?.as_str().map(str::to_owned);
        let own = self.csv.iter().filter_map(name).chain(self.replaced.clone());
        own.chain(self.going(options).filter_map(|needed| needed.csv.as_ref().and_then(name))).collect()
    }

    fn going(&self, options: &UninstallOptions) -> impl Iterator<Item = &Needed> {
        let go = options.delete_dependencies;
        self.dependencies.iter().filter(move |needed| go && needed.by.is_empty())
    }

    fn with_input<T>(&self, options: &UninstallOptions, f: impl FnOnce(&UninstallInput<'_>) -> T) -> T {
        let crds = options.delete_crds;
        let mut instances: Vec<&Instance> = Vec::new();
        let mut operands: Vec<Operand> = Vec::new();
        let dependencies = self.going(options).map(|needed| (&needed.owned, &needed.installed));
        for (owned, operator) in [(&self.owned, &self.installed)].into_iter().chain(dependencies) {
            let all: Vec<&Instance> = known(owned.kinds(crds)).collect();
            // Without its CRDs no object of its kinds is left in any namespace, whichever operator manages
            // it.
            let own = if crds { all } else { managed_by(all, operator) };
            operands.extend(owned.kinds(crds).map(|(crd, listed)| operand(crd, listed.is_some(), &own)));
            instances.extend(own);
        }
        let references: Vec<ObjectRef> = instances.iter().map(|i| reference(i)).collect();
        let dependencies: Vec<Dependency<'_>> = self
            .dependencies
            .iter()
            .map(|needed| Dependency {
                subscription: &needed.subscription,
                package: &needed.installed.package,
                csv: needed.csv.as_ref(),
                rendered: needed.owned.rendered(crds),
                needed_by: &needed.by,
            })
            .collect();
        f(&UninstallInput {
            namespace: &self.installed.namespace,
            subscription: self.subscription.as_deref(),
            package: &self.installed.package,
            csv: self.csv.as_ref(),
            replaced: self.replaced.as_deref(),
            rendered: self.owned.rendered(crds),
            operands: &operands,
            instances: &references,
            // Where dependencies stay, so does the group that they run in.
            operator_group: self
                .operator_group
                .as_deref()
                .filter(|_| self.dependencies.len() == self.going(options).count()),
            dependencies: &dependencies,
            leases: &self.leases,
            unreadable: &self.unreadable,
            policy: options.policy(),
        })
    }
}

/// The operators that were installed as its dependencies, in the order of removal.
async fn dependencies(client: &Client, world: &World, view: &View) -> Result<Vec<Needed>, Error> {
    let Some(subscription) = &view.subscription else { return Ok(Vec::new()) };
    let namespace = subscription.namespace();
    let views: Vec<View> = world
        .views()
        .into_iter()
        .filter(|v| v.subscription.as_ref().is_some_and(|s| s.namespace() == namespace))
        .collect();
    let csvs: Vec<Option<Value>> =
        views.iter().map(|v| v.csv.as_ref().and_then(|csv| serde_json::to_value(csv).ok())).collect();
    let names: Vec<String> = views
        .iter()
        .map(|v| v.subscription.as_ref().map(ResourceExt::name_any).unwrap_or_default())
        .collect();
    let requesters: Vec<Requester<'_>> = views
        .iter()
        .zip(&csvs)
        .zip(&names)
        .map(|((view, csv), name)| Requester {
            subscription: name,
            required_by: view.subscription.as_ref().and_then(required_by),
            csv: csv.as_ref(),
            deletion: view.subscription.as_ref().and_then(pending_deletion),
        })
        .collect();
    let mut out = Vec::new();
    for (name, by) in no_longer_needed(&subscription.name_any(), &requesters) {
        let Some(at) = names.iter().position(|n| n == name) else { continue };
        let view = &views[at];
        let installed = world.describe(view);
        out.push(Needed {
            subscription: name.to_owned(),
            csv: csvs[at].clone(),
            owned: match by.as_slice() {
                [] => Owned::read(client, world, &installed, view).await?,
                // It stays.
                _ => Owned::default(),
            },
            installed,
            by,
        });
    }
    Ok(out)
}

/// The Subscriptions that one was made for; `None` when a user requested it directly.
fn required_by(subscription: &Subscription) -> Option<BTreeSet<&str>> {
    let text = subscription.annotations().get(names::ANNOTATION_REQUIRED_BY)?;
    Some(text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect())
}

/// The cleanup of a deleted Subscription according to its policy, if any.
fn pending_deletion(subscription: &Subscription) -> Option<PendingDeletion> {
    let since = subscription.metadata.deletion_timestamp.as_ref()?;
    let policy = subscription.spec.deletion_policy?;
    let held = subscription.finalizers().iter().any(|f| f == names::FINALIZER_SUBSCRIPTION_CLEANUP);
    held.then(|| PendingDeletion { since: since.0.as_second(), dependencies: policy.dependencies })
}

/// Refers to an instance as plans do.
pub(super) fn reference(instance: &Instance) -> ObjectRef {
    ObjectRef::new(&instance.api_version, &instance.kind, instance.namespace.as_deref(), &instance.name)
}

fn operand(crd: &CrdDescription, listed: bool, instances: &[&Instance]) -> Operand {
    let of_it = instances
        .iter()
        .filter(|i| i.kind == crd.kind && i.api_version.starts_with(&format!("{}/", crd.group())));
    let names: Vec<String> = of_it
        .map(|instance| match &instance.namespace {
            Some(namespace) => format!("{namespace}/{}", instance.name),
            None => instance.name.clone(),
        })
        .collect();
    Operand {
        gvk: Gvk::new(crd.group(), &crd.version, &crd.kind),
        crd: crd.name.clone(),
        count: listed.then_some(names.len()),
        examples: names.into_iter().take(EXAMPLES).collect(),
    }
}

/// The OperatorGroup that a plan made, when the removed operators are the last in the namespace. With two
/// Subscriptions deleted at once, each would keep the group for the other: what counts is whether their
/// version exists.
fn lonely_group(world: &World, namespace: &str, going: &[&str], view: Option<&View>) -> Option<String> {
    let here = |ns: Option<String>| ns.as_deref() == Some(namespace);
    let goes = |s: &Subscription| {
        let own = view.and_then(|v| v.subscription.as_ref()).and_then(ResourceExt::uid);
        own.is_some() && s.uid() == own || going.contains(&s.name_any().as_str())
    };
    let stays = |s: &&Subscription| here(s.namespace()) && !goes(s) && pending_deletion(s).is_none();
    let mut versions: Vec<String> =
        view.into_iter().flat_map(|v| [&v.old, &v.csv]).flatten().filter_map(ResourceExt::uid).collect();
    for subscription in world.subscriptions.iter().filter(|s| here(s.namespace()) && goes(s)) {
        let view = world.view_of(subscription);
        versions.extend([view.old, view.csv].iter().flatten().filter_map(ResourceExt::uid));
    }
    let others = world.subscriptions.iter().any(|s| stays(&s))
        || world
            .csvs
            .iter()
            .any(|c| here(c.namespace()) && !c.uid().is_some_and(|uid| versions.contains(&uid)));
    let group = world.groups.iter().find(|g| here(g.namespace()) && g.name_any() == OPERATOR_GROUP_NAME)?;
    (!others).then(|| group.name_any())
}
