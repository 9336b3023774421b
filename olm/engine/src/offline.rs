//! The engine without a cluster: a catalog, and the caller's assumptions about the cluster.
//!
//! Universe, resolution, target namespaces, rendering and plan are those of the engine; only the reads from a
//! cluster are replaced. Everything else is unknown, so it yields no findings.

use std::{collections::BTreeSet, sync::Arc};

use kube::ResourceExt;
use olm_api::{OperatorGroup, Subscription, subscription::DeletionPolicy};
use olm_bundle::{Bundle, RenderError, Rendered};
use olm_catalog::BundleEntry;
use olm_plan::{
    Along, CatalogRisk, ClusterFacts, DependencyInstall, Fact, FactsNeeded, FindingCode, Live, Operand, Plan,
    PlanInput, UninstallInput, bundle_of, kinds_needed, make_plan, make_uninstall_plan,
};
use olm_resolver::{
    Action, CatalogRef, ChosenBundle, Facts, Gvk, Installed, InstalledRef, Request, Resolved, Version,
    resolve_one,
};

use crate::{Refusal, catalogs::LoadedCatalog, request, targets};

/// The assumed cluster: it contains this and nothing else.
#[derive(Debug, Clone, Default)]
pub struct AssumedCluster {
    pub namespace: String,
    /// Version of Kubernetes; an unknown one rejects nothing.
    pub kubernetes: Option<Version>,
    /// Bundles that are installed in that namespace.
    pub installed: Vec<BundleEntry>,
    /// The OperatorGroup of that namespace; a plan creates one where it is absent.
    pub group: Option<OperatorGroup>,
}

/// A chosen bundle with the inputs of its plan.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
    /// The Subscription as it would be.
    pub subscription: &'a Subscription,
    pub resolved: &'a Resolved,
    /// The catalog of the chosen bundle.
    pub catalog: &'a LoadedCatalog,
    pub bundle: &'a Bundle,
    /// The installed bundle.
    pub previous: Option<&'a Bundle>,
    /// Operators that are installed along with it, and their bundles.
    pub along: &'a [(DependencyInstall, Bundle)],
}

impl AssumedCluster {
    /// The installed bundle of a package.
    #[must_use]
    pub fn of_package(&self, package: &str) -> Option<&BundleEntry> {
        self.installed.iter().find(|entry| entry.package == package)
    }

    fn facts(&self, request: &Request) -> Facts {
        let installed = self.installed.iter().map(|entry| {
            let bundle = bundle_of(entry);
            Installed {
                name: bundle.name,
                namespace: self.namespace.clone(),
                subscription: (entry.package == request.package).then(|| request.subscription.clone()),
                package: Some(entry.package.clone()),
                version: bundle.version,
                provides: bundle.provides,
                requires: bundle.requires,
                labels: bundle.labels,
                properties: bundle.properties,
            }
        });
        Facts { kubernetes: self.kubernetes.clone(), installed: installed.collect(), ..Facts::default() }
    }

    /// The version that a Subscription would get.
    ///
    /// # Errors
    /// As [`crate::preview()`].
    pub async fn resolve(
        &self,
        catalogs: &[LoadedCatalog],
        subscription: &Subscription,
    ) -> Result<Resolved, Refusal> {
        let mut request = request::request(subscription, None)?;
        request.installed = self
            .of_package(&request.package)
            .map(|entry| InstalledRef { name: entry.name.clone(), version: entry.version.clone() });
        let universe = request::universe(catalogs, std::slice::from_ref(&request)).await?;
        let facts = self.facts(&request);
        resolve_one(&universe, std::slice::from_ref(&request), &facts, 0)
            .map_err(|explanation| Refusal::Unresolvable(Box::new(Arc::unwrap_or_clone(explanation))))
    }

    /// Previews the change. The objects of the installed version count as the live ones.
    #[must_use]
    pub fn plan(&self, draft: &Draft<'_>) -> Plan {
        let there = draft.previous.map(|previous| self.after(draft, previous)).unwrap_or_default();
        let plan = self.plan_over(draft, &there);
        if draft.along.is_empty() {
            return plan;
        }
        // The namespace and the group of the first plan exist by then.
        let mut there = there;
        let made = plan.phases().into_iter().flat_map(|phase| phase.objects);
        let around = |kind: &str| matches!(kind, "Namespace" | "OperatorGroup");
        there.extend(made.filter(|(_, r, _)| around(&r.kind)).map(|(_, r, manifest)| (r, manifest)));
        let approval = draft.subscription.spec.install_plan_approval;
        let one = |(install, bundle): &(DependencyInstall, Bundle)| {
            let resolved = &install.resolved;
            let mut subscription = draft.subscription.clone();
            subscription.metadata.name = Some(install.subscription.clone());
            subscription.spec.name.clone_from(&resolved.chosen.package);
            subscription.spec.config = None;
            let draft =
                Draft { subscription: &subscription, resolved, bundle, previous: None, along: &[], ..*draft };
            Along::new(install, self.plan_over(&draft, &there))
        };
        plan.with_along(draft.along.iter().map(one).collect(), approval, &BTreeSet::new())
    }

    /// Previews the removal of the installed bundle; the number of objects of its kinds is unknown.
    #[must_use]
    pub fn plan_uninstall(&self, draft: &Draft<'_>, policy: DeletionPolicy) -> Plan {
        let there = self.after(draft, draft.bundle);
        let groups = groups_in(&there);
        let rendered = render(draft, draft.bundle, &groups).0;
        let operand = |crd: olm_bundle::CrdRef| Operand {
            gvk: Gvk::new(&crd.group, &crd.version, &crd.kind),
            crd: crd.name.clone(),
            count: None,
            examples: Vec::new(),
        };
        let operands: Vec<Operand> = draft.bundle.owned_crds().into_iter().map(operand).collect();
        let of_kind = |kind: &str| there.iter().find(|(reference, _)| reference.kind == kind);
        let (csv, group) = (of_kind("ClusterServiceVersion"), of_kind("OperatorGroup"));
        let name = draft.subscription.name_any();
        let input = UninstallInput {
            namespace: &self.namespace,
            subscription: Some(&name),
            package: &draft.subscription.spec.name,
            csv: csv.map(|(_, csv)| csv),
            replaced: None,
            rendered: rendered.as_ref().ok(),
            operands: &operands,
            instances: &[],
            // The namespace has no other operator, so only the plan that made the group needed it.
            operator_group: group.map(|(reference, _)| reference.name.as_str()),
            dependencies: &[],
            leases: &[],
            unreadable: &BTreeSet::new(),
            policy,
        };
        make_uninstall_plan(&input, &there)
    }

    /// The cluster once a bundle is installed: the objects of the plan that installs it.
    fn after(&self, draft: &Draft<'_>, bundle: &Bundle) -> Live {
        let resolved = going_to(&draft.resolved.subscription, &draft.resolved.chosen, bundle);
        let install = Draft { resolved: &resolved, bundle, previous: None, along: &[], ..*draft };
        let plan = self.plan_over(&install, &Live::new());
        let objects = plan.phases().into_iter().flat_map(|phase| phase.objects);
        objects.map(|(_, reference, manifest)| (reference, manifest)).collect()
    }

    fn plan_over(&self, draft: &Draft<'_>, there: &Live) -> Plan {
        let mut groups = groups_in(there);
        if groups.is_empty() {
            groups.extend(self.group.clone());
        }
        let (rendered, targets) = render(draft, draft.bundle, &groups);
        let previous = draft.previous.and_then(|previous| render(draft, previous, &groups).0.ok());
        let groups: Vec<serde_json::Value> =
            groups.iter().filter_map(|group| serde_json::to_value(group).ok()).collect();
        let facts = ClusterFacts {
            kubernetes: self.kubernetes.clone(),
            catalog_risk: Some(CatalogRisk::of(&draft.catalog.catalog)),
            ..ClusterFacts::offline()
        };
        let name = draft.subscription.name_any();
        let input = PlanInput {
            namespace: &self.namespace,
            subscription: &name,
            approval: draft.subscription.spec.install_plan_approval,
            resolved: draft.resolved,
            catalog_digest: &draft.catalog.catalog.digest,
            bundle: draft.bundle,
            rendered: rendered.as_ref(),
            previous: previous.as_ref(),
            operator_groups: &groups,
            target_namespaces: &targets.namespaces,
            facts: &facts,
        };
        let facts = unknown(&input, there);
        let mut plan = make_plan(&PlanInput { facts: &facts, ..input }, there);
        for finding in plan.findings.iter_mut().filter(|f| f.code == FindingCode::NotChecked) {
            // Without a cluster, the command of the fix does not apply.
            finding.fix = None;
        }
        plan
    }
}

/// Marks everything that the plan reads from a cluster as unknown.
fn unknown(input: &PlanInput<'_>, there: &Live) -> ClusterFacts {
    const WHY: &str = "no cluster connection";
    let mut facts = input.facts.clone();
    let needed = FactsNeeded::of(input);
    let classes = needed.priority_classes.into_iter();
    facts.priority_classes = classes.map(|name| (name, Fact::Unknown(WHY.to_owned()))).collect();
    let images = needed.images.into_iter();
    facts.images_on_nodes = images.map(|image| (image, Fact::Unknown(WHY.to_owned()))).collect();
    let kinds = kinds_needed(input, there).into_iter();
    facts.custom_objects = kinds.map(|kind| (kind.crd, Fact::Unknown(WHY.to_owned()))).collect();
    facts
}

/// The step from one bundle to another, regardless of the catalog's edges: for comparing two versions.
#[must_use]
pub fn step(
    subscription: &Subscription,
    catalog: &CatalogRef,
    from: Option<&BundleEntry>,
    to: &BundleEntry,
) -> Resolved {
    let chosen = ChosenBundle {
        catalog: catalog.clone(),
        package: to.package.clone(),
        channel: subscription.spec.channel.clone().unwrap_or_default(),
        name: to.name.clone(),
        version: to.version.clone(),
    };
    let from = from.map(|entry| InstalledRef { name: entry.name.clone(), version: entry.version.clone() });
    let action = match &from {
        None => Action::Install,
        Some(from) if from.name == to.name => Action::None,
        Some(_) => Action::Upgrade,
    };
    Resolved {
        subscription: request::id(subscription),
        action,
        chosen,
        from,
        path: Vec::new(),
        why: "comparing the two versions".into(),
        rejected: Vec::new(),
        dependencies: Vec::new(),
        deprecations: Vec::new(),
    }
}

/// The choice that installs a bundle where none is installed.
fn going_to(subscription: &str, like: &ChosenBundle, bundle: &Bundle) -> Resolved {
    Resolved {
        subscription: subscription.to_owned(),
        action: Action::Install,
        chosen: ChosenBundle { name: bundle.name().to_owned(), version: bundle.version(), ..like.clone() },
        from: None,
        path: Vec::new(),
        why: String::new(),
        rejected: Vec::new(),
        dependencies: Vec::new(),
        deprecations: Vec::new(),
    }
}

fn groups_in(there: &Live) -> Vec<OperatorGroup> {
    let groups = there.iter().filter(|(reference, _)| reference.kind == "OperatorGroup");
    groups.filter_map(|(_, group)| serde_json::from_value(group.clone()).ok()).collect()
}

fn render(
    draft: &Draft<'_>,
    bundle: &Bundle,
    groups: &[OperatorGroup],
) -> (Result<Rendered, RenderError>, targets::Targets) {
    let subscription = draft.subscription;
    let namespace = request::namespace(subscription);
    let bundles: Vec<&Bundle> = std::iter::once(bundle).chain(draft.along.iter().map(|(_, b)| b)).collect();
    let targets = targets::common(&namespace, &bundles, groups);
    (targets.render(&namespace, bundle, subscription.spec.config.as_ref()), targets)
}
