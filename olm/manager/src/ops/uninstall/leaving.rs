//! An operator that is to go, as it is on the cluster.

use std::collections::BTreeSet;

use kube::{Client, ResourceExt};
use olm_api::csv::CrdDescription;
use olm_bundle::{Phase, Rendered};
use olm_plan::{
    Live, OPERATOR_GROUP_NAME, ObjectRef, Operand, Plan, UninstallInput, make_uninstall_plan, uninstall_reads,
};
use olm_resolver::Gvk;
use serde_json::Value;

use super::UninstallOptions;
use crate::{
    engine,
    ops::{
        error::Error,
        instances::{Instance, in_its_care, list_by_crd},
        list::{Installed, World},
        status::View,
    },
    resources::Resources,
};

/// Instances that a finding names.
const EXAMPLES: usize = 5;

/// An operator that is to go, as it is on the cluster: enough to plan its removal in every way.
pub struct Leaving {
    installed: Installed,
    csv: Option<Value>,
    replaced: Option<String>,
    subscription: Option<String>,
    operator_group: Option<String>,
    rendered: Option<Rendered>,
    /// By CRD; `None` where they may not be listed.
    instances: Vec<(CrdDescription, Option<Vec<Instance>>)>,
    live: Live,
    unreadable: BTreeSet<ObjectRef>,
}

impl Leaving {
    /// Looks at everything that an uninstall may touch.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Forbidden`]. Single objects and kinds that the caller may not look at are no error;
    /// the plan says so.
    pub async fn read(client: &Client, namespace: Option<&str>, target: &str) -> Result<Self, Error> {
        let world = World::read(client, namespace).await?;
        let view = world.find(target)?;
        let installed = world.describe(&view);
        let instances = match &view.csv {
            Some(csv) => list_by_crd(client, csv).await?,
            None => Vec::new(),
        };
        let mut this = Self {
            csv: view.csv.as_ref().and_then(|csv| serde_json::to_value(csv).ok()),
            replaced: view.old.as_ref().map(ResourceExt::name_any),
            subscription: view.subscription.as_ref().map(ResourceExt::name_any),
            operator_group: generated_group(&world, &installed.namespace, &view),
            rendered: rendered(&world, &installed, &view),
            installed,
            instances,
            live: Live::new(),
            unreadable: BTreeSet::new(),
        };
        let wanted = this.with_input(&UninstallOptions::default(), uninstall_reads);
        let seen = engine::look(&Resources::new(client.clone()), wanted).await;
        (this.live, this.unreadable) = seen.map_err(engine::Refusal::from)?;
        Ok(this)
    }

    /// What is installed.
    #[must_use]
    pub fn installed(&self) -> &Installed {
        &self.installed
    }

    /// The custom resources in its care, those that may be listed.
    #[must_use]
    pub fn instances(&self) -> Vec<&Instance> {
        self.known_instances(false)
    }

    /// The CRD of a kind whose custom resources may not be listed, if there is one.
    #[must_use]
    pub fn unlisted(&self) -> Option<&str> {
        self.instances.iter().find(|(_, list)| list.is_none()).map(|(crd, _)| crd.name.as_str())
    }

    /// What an uninstall does to the cluster.
    #[must_use]
    pub fn plan(&self, options: &UninstallOptions) -> Plan {
        self.with_input(options, |input| make_uninstall_plan(input, &self.live))
    }

    /// Without its CRDs no object of its kinds is left anywhere, whoever looks after it.
    pub(super) fn known_instances(&self, everywhere: bool) -> Vec<&Instance> {
        let all: Vec<&Instance> =
            self.instances.iter().filter_map(|(_, list)| list.as_ref()).flatten().collect();
        if everywhere { all } else { in_its_care(all, &self.installed) }
    }

    fn with_input<T>(&self, options: &UninstallOptions, f: impl FnOnce(&UninstallInput<'_>) -> T) -> T {
        let instances = self.known_instances(options.delete_crds);
        let operands: Vec<Operand> =
            self.instances.iter().map(|(crd, list)| operand(crd, list.is_some(), &instances)).collect();
        let references: Vec<ObjectRef> = instances.iter().map(|i| reference(i)).collect();
        f(&UninstallInput {
            namespace: &self.installed.namespace,
            subscription: self.subscription.as_deref(),
            package: &self.installed.package,
            csv: self.csv.as_ref(),
            replaced: self.replaced.as_deref(),
            rendered: self.rendered.as_ref(),
            operands: &operands,
            instances: &references,
            operator_group: self.operator_group.as_deref(),
            unreadable: &self.unreadable,
            policy: options.policy(),
        })
    }
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

/// The objects of the installed version. One that cannot be rendered still has its CRDs; what else it has goes with it.
fn rendered(world: &World, installed: &Installed, view: &View) -> Option<Rendered> {
    let here = |group: &&olm_api::OperatorGroup| group.namespace().as_deref() == Some(&installed.namespace);
    let groups: Vec<_> = world.groups.iter().filter(here).cloned().collect();
    let bundle = engine::bundle_of(view.csv.as_ref()?);
    let targets = engine::targets::targets(&installed.namespace, &bundle, &groups);
    let config = view.subscription.as_ref().and_then(|s| s.spec.config.as_ref());
    let rendered = olm_bundle::render(&bundle, &targets.options(&installed.namespace, config));
    let objects = || bundle.objects.iter().cloned().map(Into::into).collect();
    Some(rendered.unwrap_or_else(|_| Rendered { phases: vec![(Phase::Crds, objects())] }))
}

/// The OperatorGroup that a plan made, when this was the last operator in the namespace.
fn generated_group(world: &World, namespace: &str, view: &View) -> Option<String> {
    let here = |ns: Option<String>| ns.as_deref() == Some(namespace);
    let ours: Vec<String> =
        [&view.old, &view.csv].into_iter().flatten().filter_map(ResourceExt::uid).collect();
    let subscription = view.subscription.as_ref().and_then(ResourceExt::uid);
    let others = world.subscriptions.iter().any(|s| here(s.namespace()) && s.uid() != subscription)
        || world.csvs.iter().any(|c| here(c.namespace()) && !c.uid().is_some_and(|uid| ours.contains(&uid)));
    let group = world.groups.iter().find(|g| here(g.namespace()) && g.name_any() == OPERATOR_GROUP_NAME)?;
    (!others).then(|| group.name_any())
}
