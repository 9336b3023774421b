//! Rendering a large bundle and planning it, without a network.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use olm_api::subscription::Approval;
use olm_bundle::{Bundle, RenderOptions, Rendered, render};
use olm_plan::{
    ClusterFacts, Live, ObjectRef, Plan, PlanAction, PlanInput, claim, make_plan, operator_group_of, reads,
};
use olm_resolver::{Action, ChosenBundle, Hop, HopVia, Resolved};
use serde_json::Value;

use super::{
    super::{rows::shared_data, table::Row},
    median, ms,
    world::catalog_ref,
};

/// Number of CRDs of the community operator with the most; only the metadata of its bundle is in the data. So
/// the available bundle with the most CRDs gets the largest ones of all others until it has as many.
const CRDS: usize = 53;
const BASE: &str = "hive-operator/2.5.3516-a2ed9b3";

const NAMESPACE: &str = "operators";

pub(super) fn rows(rows: &mut Vec<Row>) -> Result<()> {
    let root = shared_data().join("bundles/operators");
    if !root.exists() {
        olm_tests::skipped("bench: plans", &format!("{} is not there", root.display()));
        return Ok(());
    }
    let start = Instant::now();
    let base = Bundle::from_dir(&root.join(BASE))?;
    let loaded = start.elapsed();
    let bundle = enlarged(&base, &root)?;
    let resolved = resolved(&bundle);
    let facts = ClusterFacts::offline();
    let install = || plan_of(&bundle, &resolved, &facts, None);
    let plan = install()?;
    let crds = plan.objects.iter().filter(|it| it.reference.kind == "CustomResourceDefinition").count();
    ensure!(plan.action == PlanAction::Install && crds == CRDS, "{:?} of {crds} CRDs", plan.action);
    ensure!(!plan.is_blocked(), "it is blocked: {:?}", plan.findings);
    // where everything exists already, each object is compared field by field
    let manifests = plan.phases().into_iter().flat_map(|phase| phase.objects);
    let live: Live = manifests.map(|(_, reference, manifest)| (reference, manifest)).collect();
    let again = || plan_of(&bundle, &resolved, &facts, Some(&live));
    ensure!(again()?.counts().0 == 0, "it creates what is there: {:?}", again()?.counts());
    let bytes: usize = live.values().map(|manifest| manifest.to_string().len()).sum();
    let (first, compared) = (median(15, install), median(15, again));
    rows.push(Row {
        what: "render and plan the largest bundle: 53 CRDs",
        measured: ms(first.max(compared)),
        limit: 50.0,
        unit: "ms",
        note: format!(
            "{} objects, {:.1} MB as JSON: install {:.1} ms, over itself {:.1} ms; {} with the largest CRDs \
                of others (read from its files alone: {:.0} ms)",
            plan.objects.len(),
            bytes as f64 / 1e6,
            ms(first),
            ms(compared),
            base.name(),
            ms(loaded)
        ),
    });
    Ok(())
}

/// The bundle with more CRDs.
fn enlarged(base: &Bundle, root: &Path) -> Result<Bundle> {
    let mut crds: BTreeMap<String, Value> = BTreeMap::new();
    for dir in newest(root)? {
        // some bundles of the data are invalid on purpose
        let Ok(bundle) = Bundle::from_dir(&dir) else { continue };
        for crd in bundle.crds().filter(|crd| crd["apiVersion"] == "apiextensions.k8s.io/v1") {
            crds.entry(crd["metadata"]["name"].to_string()).or_insert_with(|| crd.clone());
        }
    }
    let own: Vec<String> = base.crds().map(|crd| crd["metadata"]["name"].to_string()).collect();
    crds.retain(|name, _| !own.contains(name));
    let mut crds: Vec<Value> = crds.into_values().collect();
    crds.sort_by_key(|crd| std::cmp::Reverse(crd.to_string().len()));
    crds.truncate(CRDS - own.len());

    let mut csv = base.csv_raw.clone();
    let owned = csv["spec"]["customresourcedefinitions"]["owned"].as_array_mut();
    let owned = owned.context("the bundle owns no CRD")?;
    owned.extend(crds.iter().flat_map(|crd| {
        let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
        versions.map(|version| {
            serde_json::json!({ "name": crd["metadata"]["name"], "version": version["name"],
                                "kind": crd["spec"]["names"]["kind"] })
        })
    }));
    let objects = [csv].into_iter().chain(base.objects.iter().cloned()).chain(crds);
    Ok(Bundle::from_objects(objects.collect())?)
}

/// One version of each package: the last one by name.
fn newest(root: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for package in std::fs::read_dir(root)? {
        let Ok(versions) = std::fs::read_dir(package?.path()) else { continue };
        let versions = versions.filter_map(|version| Some(version.ok()?.path()));
        all.extend(versions.filter(|path| path.join("manifests").is_dir()).max());
    }
    all.sort();
    Ok(all)
}

fn resolved(bundle: &Bundle) -> Resolved {
    let (name, version) = (bundle.name().to_owned(), bundle.version());
    Resolved {
        subscription: format!("{NAMESPACE}/bench"),
        action: Action::Install,
        chosen: ChosenBundle {
            catalog: catalog_ref(),
            package: bundle.package().unwrap_or("bench").to_owned(),
            channel: "alpha".into(),
            name: name.clone(),
            version: version.clone(),
        },
        from: None,
        path: vec![Hop { name, version, channel: "alpha".into(), via: HopVia::Install }],
        why: "highest installable version in channel alpha".into(),
        rejected: Vec::new(),
        dependencies: Vec::new(),
        deprecations: Vec::new(),
    }
}

/// Renders the bundle and computes the plan, as the engine does between reading and applying.
fn plan_of(bundle: &Bundle, resolved: &Resolved, facts: &ClusterFacts, live: Option<&Live>) -> Result<Plan> {
    let (group, targets) = operator_group_of(&[], &[]);
    let options = RenderOptions {
        install_namespace: NAMESPACE.into(),
        target_namespaces: targets.clone(),
        operator_group: Some(group),
        subscription_config: None,
    };
    let mut rendered: Rendered = render(bundle, &options)?;
    claim(&mut rendered, resolved, NAMESPACE);
    let input = PlanInput {
        namespace: NAMESPACE,
        subscription: "bench",
        approval: Approval::Automatic,
        resolved,
        catalog_digest: "sha256:bench",
        bundle,
        rendered: Ok(&rendered),
        previous: None,
        operator_groups: &[],
        target_namespaces: &targets,
        facts,
    };
    let nothing = Live::new();
    let wanted: Vec<ObjectRef> = reads(&input);
    ensure!(wanted.len() > CRDS, "only {} objects are read", wanted.len());
    Ok(make_plan(&input, live.unwrap_or(&nothing)))
}
