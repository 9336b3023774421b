//! Previews the effect of InstallPolicies.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_api::{ClusterServiceVersion, InstallPolicy, OperatorGroup, Subscription};
use olm_bundle::Rendered;
use olm_engine::{bundle_of, catalogs::LoadedCatalog, policies, targets::targets};
use olm_plan::{Fact, Finding, FindingCode, Policies, PolicyInput, rights_of, signature_findings};
use olm_resolver::{CatalogRef, Code};
use serde::Serialize;

use crate::{Error, list::World, status::View};

/// Plans that are made concurrently.
const PLANS: usize = 4;

/// The effect of policies.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTest {
    /// The policies that were tested.
    pub policies: Vec<TestedPolicy>,
    /// Installed and requested versions, refused ones first.
    pub effects: Vec<Effect>,
    /// What was not checked.
    pub not_checked: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestedPolicy {
    pub name: String,
    /// Whether a policy of that name exists.
    pub replaces: bool,
    /// Number of namespaces that it selects now, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<usize>,
}

/// The effect on an operator.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    pub namespace: String,
    /// Name of the Subscription, otherwise of the ClusterServiceVersion.
    pub name: String,
    pub what: Subject,
    /// The bundle, where one was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    pub result: Verdict,
    pub reasons: Vec<String>,
}

/// The version that a verdict applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Subject {
    /// The installed version. A policy does not affect it and refuses its upgrades.
    Installed,
    /// The next version, or the first one.
    Requested,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// It would be refused.
    Denied,
    /// It would wait for a second approver.
    SecondApprover,
    /// No change.
    Allowed,
}

impl PolicyTest {
    /// Whether the policies would change the result.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        self.effects.iter().any(|effect| effect.result != Verdict::Allowed)
    }
}

/// Tests installed and requested versions against the policies of the cluster, with `new` added, or in place
/// of those of the same name.
///
/// # Errors
/// When neither all namespaces nor the caller's own are readable.
pub async fn test_policies(
    client: &Client,
    namespace: Option<&str>,
    catalogs: &[LoadedCatalog],
    new: Vec<InstallPolicy>,
) -> Result<PolicyTest, Error> {
    let mut not_checked = Vec::new();
    let own = client.default_namespace().to_owned();
    let world = match World::read(client, namespace).await {
        Err(Error::Forbidden { .. }) if namespace.is_none() => {
            not_checked.push(format!(
                "namespaces other than {own}: no permission to list Subscriptions in all namespaces"
            ));
            World::read(client, Some(&own)).await?
        }
        read => read?,
    };
    let existing = match policies::list(client).await {
        Fact::Known(all) => all,
        Fact::Unknown(why) => {
            not_checked.push(format!("the InstallPolicies of the cluster: {why}"));
            Vec::new()
        }
        Fact::NotRead => Vec::new(),
    };
    let views = world.views();
    let wanted = views.iter().map(namespace_of).collect();
    let (labels, whole) = labels(client, wanted, &mut not_checked).await;
    let tested = new.iter().map(|policy| tested(policy, &existing, whole.then_some(&labels))).collect();
    let names: BTreeSet<String> = new.iter().map(ResourceExt::name_any).collect();
    let mut all: Vec<_> = existing.into_iter().filter(|policy| !names.contains(&policy.name_any())).collect();
    all.extend(new.into_iter().map(Arc::new));

    let mut effects = Vec::new();
    let mut requested = Vec::new();
    for view in &views {
        let Some(labels) = labels.get(&namespace_of(view)) else { continue };
        let held = Policies::of(all.iter().cloned(), Some(labels));
        if let Some(csv) = &view.csv {
            effects.extend(installed(view, csv, &world.groups, catalogs, &held, &mut not_checked).await);
        }
        let open = view.csv.is_none() || view.plan.is_some();
        let leaves = |s: &&Subscription| s.metadata.deletion_timestamp.is_none();
        if let Some(subscription) = view.subscription.as_ref().filter(leaves).filter(|_| open) {
            requested.push((subscription.clone(), held));
        }
    }
    let planned = stream::iter(
        requested
            .into_iter()
            .map(|(subscription, held)| async move { request(client, catalogs, subscription, held).await }),
    );
    for answer in planned.buffered(PLANS).collect::<Vec<_>>().await {
        match answer {
            Ok(effect) => effects.push(effect),
            Err(why) => not_checked.push(why),
        }
    }
    effects.sort_by(|a, b| {
        (a.result, &a.namespace, &a.name, a.what).cmp(&(b.result, &b.namespace, &b.name, b.what))
    });
    Ok(PolicyTest { policies: tested, effects, not_checked })
}

fn namespace_of(view: &View) -> String {
    let subscription = view.subscription.as_ref().and_then(ResourceExt::namespace);
    subscription.or_else(|| view.csv.as_ref().and_then(ResourceExt::namespace)).unwrap_or_default()
}

type Labels = BTreeMap<String, BTreeMap<String, String>>;

/// The labels of namespaces, and whether these are all namespaces of the cluster.
async fn labels(client: &Client, wanted: BTreeSet<String>, not_checked: &mut Vec<String>) -> (Labels, bool) {
    let api = Api::<Namespace>::all(client.clone());
    if let Ok(all) = api.list_metadata(&ListParams::default()).await {
        let labels =
            all.items.into_iter().map(|namespace| (namespace.name_any(), namespace.labels().clone()));
        return (labels.collect(), true);
    }
    let mut labels = Labels::new();
    for name in wanted {
        match api.get_metadata(&name).await {
            Ok(namespace) => drop(labels.insert(name, namespace.labels().clone())),
            Err(error) => not_checked.push(format!(
                "namespace {name}: failed to read its labels: {}",
                olm_engine::resources::short(&error)
            )),
        }
    }
    (labels, false)
}

fn tested(policy: &InstallPolicy, existing: &[Arc<InstallPolicy>], labels: Option<&Labels>) -> TestedPolicy {
    let selects = |labels: &BTreeMap<String, String>| {
        !Policies::of([Arc::new(policy.clone())], Some(labels)).is_empty()
    };
    TestedPolicy {
        name: policy.name_any(),
        replaces: existing.iter().any(|other| other.name_any() == policy.name_any()),
        namespaces: labels.map(|labels| labels.values().filter(|labels| selects(labels)).count()),
    }
}

/// The verdict on the installed version if it were requested now.
async fn installed(
    view: &View,
    csv: &ClusterServiceVersion,
    groups: &[OperatorGroup],
    catalogs: &[LoadedCatalog],
    held: &Policies,
    not_checked: &mut Vec<String>,
) -> Option<Effect> {
    let (namespace, name) = (csv.namespace().unwrap_or_default(), csv.name_any());
    let bundle = bundle_of(csv);
    let groups: Vec<&OperatorGroup> =
        groups.iter().filter(|group| group.namespace().as_deref() == Some(&namespace)).collect();
    let rendered = match targets(&namespace, &bundle, &groups).render(&namespace, &bundle, None) {
        Ok(rendered) => rendered,
        Err(error) => {
            not_checked.push(format!("ClusterServiceVersion {namespace}/{name}: {error}"));
            return None;
        }
    };
    let rights = rights_of(rendered.objects().map(|(_, object)| object));
    let findings = match &view.subscription {
        Some(subscription) => {
            let spec = &subscription.spec;
            let catalog = CatalogRef::new(&spec.source_namespace, &spec.source);
            let mut findings = held.findings(&PolicyInput {
                catalog: &catalog,
                package: &spec.name,
                channel: spec.channel.as_deref().unwrap_or_default(),
                rights: &rights,
                high: 0,
            });
            if held.require_signatures() {
                let source = catalogs.iter().find(|source| source.reference == catalog);
                match signatures_of(&name, &spec.name, source, held, &rendered).await {
                    Ok(found) => findings.extend(found),
                    Err(why) => {
                        not_checked
                            .push(format!("signatures of ClusterServiceVersion {namespace}/{name}: {why}"));
                    }
                }
            }
            findings
        }
        None => held.by_hand(&rights),
    };
    let (result, reasons) = verdict(&findings);
    let subscription = view.subscription.as_ref().map(ResourceExt::name_any);
    Some(Effect {
        namespace,
        name: subscription.unwrap_or_else(|| name.clone()),
        what: Subject::Installed,
        bundle: Some(name),
        result,
        reasons,
    })
}

/// The policies' findings about the signatures of an installed version.
async fn signatures_of(
    csv: &str,
    package: &str,
    source: Option<&LoadedCatalog>,
    held: &Policies,
    rendered: &Rendered,
) -> Result<Vec<Finding>, String> {
    let source = source.ok_or("its catalog is not served")?;
    let package = source.package(package).await.map_err(|error| error.to_string())?;
    let entry = package.as_ref().and_then(|package| package.bundles.get(csv));
    let entry = entry.ok_or("it is no longer in its catalog")?;
    let findings = signature_findings(&olm_engine::signatures::verify(held, source, entry, rendered).await);
    match unknown_signature(&findings) {
        Some(why) => Err(why.to_owned()),
        None => Ok(findings),
    }
}

/// Why it is unknown whether an image is signed.
fn unknown_signature(findings: &[Finding]) -> Option<&str> {
    let unknown = findings.iter().find(|finding| finding.code == FindingCode::SignatureUnknown);
    unknown.map(|finding| finding.text.as_str())
}

/// The verdict on the next version of a Subscription, or why it is unknown.
async fn request(
    client: &Client,
    catalogs: &[LoadedCatalog],
    subscription: Subscription,
    held: Policies,
) -> Result<Effect, String> {
    let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
    let planned = olm_engine::preview_under(client, catalogs, &subscription, Fact::Known(held)).await;
    let (bundle, (result, reasons)) = match planned {
        Ok(plan) => match unknown_signature(&plan.findings) {
            Some(why) => return Err(format!("Subscription {namespace}/{name}: {why}")),
            None => (Some(plan.bundle.clone()), verdict(&plan.findings)),
        },
        Err(refusal) if refusal.code() == Code::ForbiddenByPolicy.as_str() => {
            (None, (Verdict::Denied, vec![refusal.message()]))
        }
        Err(refusal) => return Err(format!("Subscription {namespace}/{name}: {}", refusal.message())),
    };
    Ok(Effect { namespace, name, what: Subject::Requested, bundle, result, reasons })
}

fn verdict(findings: &[Finding]) -> (Verdict, Vec<String>) {
    let of = |counts: &dyn Fn(FindingCode) -> bool| -> Vec<String> {
        findings.iter().filter(|finding| counts(finding.code)).map(|finding| finding.text.clone()).collect()
    };
    let denied = of(&FindingCode::is_denial);
    if !denied.is_empty() {
        return (Verdict::Denied, denied);
    }
    match of(&|code| code == FindingCode::SecondApproverNeeded) {
        second if second.is_empty() => (Verdict::Allowed, second),
        second => (Verdict::SecondApprover, second),
    }
}
