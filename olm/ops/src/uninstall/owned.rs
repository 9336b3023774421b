//! The objects and kinds that an operator installed.

use std::collections::BTreeSet;

use kube::{Client, ResourceExt};
use olm_api::csv::CrdDescription;
use olm_bundle::{Phase, Rendered};

use super::remaining_crds::RemainingCrds;
use crate::{
    error::Error,
    instances::{Instance, list_by_crd, list_watched},
    list::{Installed, World},
    status::View,
};

/// By CRD; `None` where they may not be listed.
pub(super) type ByCrd = Vec<(CrdDescription, Option<Vec<Instance>>)>;

/// The objects of an operator, with the remains of its earlier versions: a CRD that the installed version no
/// longer has stays at an upgrade, and is removed when CRDs are to be deleted.
#[derive(Default)]
pub(super) struct Owned {
    /// Of the installed version.
    rendered: Option<Rendered>,
    /// With the CRDs of earlier versions, where there are any.
    everything: Option<Rendered>,
    /// Custom resources of the kinds of the installed version, in all namespaces.
    instances: ByCrd,
    /// Where they may not be listed in all namespaces: those in the namespaces that the operator watches.
    watched: ByCrd,
    /// Custom resources of kinds of earlier versions.
    earlier: ByCrd,
    /// Whether earlier versions were readable.
    pub(super) complete: bool,
}

impl Owned {
    pub(super) async fn read(
        client: &Client,
        world: &World,
        installed: &Installed,
        view: &View,
    ) -> Result<Self, Error> {
        let rendered = rendered(world, installed, view);
        let instances = match &view.csv {
            Some(csv) => list_by_crd(client, csv).await?,
            None => Vec::new(),
        };
        let mut watched = Vec::new();
        for (crd, _) in instances.iter().filter(|(_, list)| list.is_none()) {
            watched.push((crd.clone(), list_watched(client, crd, installed).await?));
        }
        let brought: BTreeSet<&str> = rendered.iter().flat_map(crds_of).collect();
        let remains = match RemainingCrds::beside(client, installed, &brought).await {
            Ok(remains) => remains,
            Err(Error::Forbidden { .. }) => {
                return Ok(Self { rendered, instances, watched, ..Self::default() });
            }
            Err(error) => return Err(error),
        };
        let earlier = remains.instances(client).await?;
        let everything = (!earlier.is_empty()).then(|| {
            let mut all = rendered.clone().unwrap_or(Rendered { phases: Vec::new(), endpoints: Vec::new() });
            all.phases.extend(remains.rendered().phases);
            all
        });
        Ok(Self { rendered, everything, instances, watched, earlier, complete: true })
    }

    /// Of an operator that only has remains.
    pub(super) async fn left(client: &Client, remains: &RemainingCrds) -> Result<Self, Error> {
        Ok(Self {
            rendered: Some(remains.rendered()),
            instances: remains.instances(client).await?,
            complete: true,
            ..Self::default()
        })
    }

    /// Its objects, including the CRDs of earlier versions where CRDs are to be deleted.
    pub(super) fn rendered(&self, crds: bool) -> Option<&Rendered> {
        self.everything.as_ref().filter(|_| crds).or(self.rendered.as_ref())
    }

    /// Its kinds with their custom resources: of all namespaces where CRDs are to be deleted, else as many as
    /// may be listed.
    pub(super) fn kinds(&self, crds: bool) -> impl Iterator<Item = &(CrdDescription, Option<Vec<Instance>>)> {
        let everywhere = self.instances.iter().filter(move |(_, list)| crds || list.is_some());
        let watched = self.watched.iter().filter(move |_| !crds);
        everywhere.chain(watched).chain(self.earlier.iter().filter(move |_| crds))
    }
}

/// The custom resources that could be listed.
pub(super) fn known<'a>(
    kinds: impl Iterator<Item = &'a (CrdDescription, Option<Vec<Instance>>)>,
) -> impl Iterator<Item = &'a Instance> {
    kinds.filter_map(|(_, list)| list.as_ref()).flatten()
}

fn crds_of(rendered: &Rendered) -> impl Iterator<Item = &str> {
    let crds = rendered.objects().filter(|(_, object)| object["kind"] == "CustomResourceDefinition");
    crds.filter_map(|(_, object)| object.pointer("/metadata/name")?.as_str())
}

/// The objects of the installed version. One that fails to render still has its CRDs; its other objects are
/// deleted with it.
fn rendered(world: &World, installed: &Installed, view: &View) -> Option<Rendered> {
    let here = |group: &&olm_api::OperatorGroup| group.namespace().as_deref() == Some(&installed.namespace);
    let groups: Vec<_> = world.groups.iter().filter(here).cloned().collect();
    let bundle = olm_engine::bundle_of(view.csv.as_ref()?);
    let targets = olm_engine::targets::targets(&installed.namespace, &bundle, &groups);
    let config = view.subscription.as_ref().and_then(|s| s.spec.config.as_ref());
    let rendered = targets.render(&installed.namespace, &bundle, config);
    let objects = || bundle.objects.iter().cloned().map(Into::into).collect();
    Some(
        rendered
            .unwrap_or_else(|_| Rendered { phases: vec![(Phase::Crds, objects())], endpoints: Vec::new() }),
    )
}
