//! Operators that are installed along.

use std::collections::BTreeSet;
use std::path::PathBuf;

use olm_api::subscription::Approval;
use olm_bundle::Bundle;
use olm_plan::{
    Along, AlongRef, Finding, FindingCode, Plan, Severity, along_subscription, dependency_installs,
    subscription_name, universe_of,
};
use olm_resolver::{
    Action, CatalogRef, ChosenBundle, Dependency, Facts, Need, Request, Resolved, SatisfiedBy, Version,
    resolve,
};
use serde_json::json;

use crate::world::*;

fn chosen(package: &str) -> ChosenBundle {
    ChosenBundle {
        catalog: CatalogRef::new("olm", "catalog"),
        package: package.into(),
        channel: "stable".into(),
        name: format!("{package}.v1.0.0"),
        version: Version::parse("1.0.0").ok(),
    }
}

/// `by` needs `package`, which is installed along.
fn needs(by: &str, package: &str) -> Dependency {
    Dependency {
        need: Need::Package { name: package.into(), range: ">=1.0.0".into() },
        required_by: format!("{by}.v1.0.0"),
        satisfied_by: SatisfiedBy::Install(chosen(package)),
    }
}

/// `by` needs the bundle of the requesting Subscription.
fn needs_the_first(by: &str) -> Dependency {
    let satisfied_by = SatisfiedBy::Request { subscription: "ns/thing".into(), name: "thing.v1.0.0".into() };
    Dependency { satisfied_by, ..needs(by, "thing") }
}

fn with(dependencies: Vec<Dependency>) -> Resolved {
    Resolved { dependencies, ..resolved(None, "1.0.0") }
}

/// Name, dependents, and waits, in order.
fn reported(resolved: &Resolved) -> Vec<String> {
    let short = |names: &[String]| {
        names.iter().map(|n| n.trim_end_matches("-stable-catalog-olm")).collect::<Vec<_>>().join("+")
    };
    let line = |w: olm_plan::DependencyInstall| {
        format!("{} for {} after [{}]", w.resolved.chosen.package, short(&w.required_by), short(&w.after))
    };
    dependency_installs(resolved).into_iter().map(line).collect()
}

#[test]
fn what_is_needed_comes_before_what_needs_it() {
    // given thing → a → b, thing → b, and c that b needs
    let resolved = with(vec![needs("thing", "a"), needs("a", "b"), needs("thing", "b"), needs("b", "c")]);
    assert_eq!(reported(&resolved), ["c for b after []", "b for a+thing after [c]", "a for thing after [b]"]);
}

#[test]
fn bundles_that_need_each_other_do_not_wait_for_each_other() {
    // given two that need each other, and one that needs the first again
    let resolved = with(vec![needs("thing", "a"), needs("a", "b"), needs("b", "a"), needs_the_first("b")]);
    // then one of the two waits is omitted
    assert_eq!(reported(&resolved), ["b for a after []", "a for b+thing after [b]"]);
    // one that needs itself waits for no other
    assert_eq!(reported(&with(vec![needs("thing", "a"), needs("a", "a")])), ["a for thing after []"]);
}

#[test]
fn a_long_chain_is_no_deep_recursion() {
    const LONG: usize = 20_000;
    let name = |n: usize| format!("p{n:06}");
    let mut chain: Vec<Dependency> = (1..LONG).map(|n| needs(&name(n), &name(n + 1))).collect();
    chain.push(needs("thing", &name(1)));
    let order: Vec<String> =
        dependency_installs(&with(chain)).into_iter().map(|w| w.resolved.chosen.package).collect();
    assert_eq!((order.len(), &order[0], &order[LONG - 1]), (LONG, &name(LONG), &name(1)));
    // unrelated bundles are not brought along
    assert!(reported(&with(vec![needs("other", "a")])).is_empty());
}

#[test]
fn its_own_subscription_will_be_given_the_same_choice() {
    let resolved = with(vec![needs("thing", "a"), needs("a", "b"), needs("thing", "c")]);
    let installs = dependency_installs(&resolved);
    let a = installs.iter().find(|w| w.resolved.chosen.package == "a").unwrap();
    assert_eq!(
        (a.resolved.action, a.resolved.subscription.as_str()),
        (Action::Install, "ns/a-stable-catalog-olm")
    );
    // only its own dependency is left, which then belongs to another Subscription
    let [need] = a.resolved.dependencies.as_slice() else { panic!("{:?}", a.resolved.dependencies) };
    let by = SatisfiedBy::Request { subscription: "ns/b-stable-catalog-olm".into(), name: "b.v1.0.0".into() };
    assert_eq!(need.satisfied_by, by);
}

#[test]
fn the_subscription_has_the_name_of_olm_and_lists_its_dependents() {
    let entry = AlongRef {
        subscription: subscription_name(&chosen("a")),
        bundle: chosen("a"),
        required_by: vec!["thing".into(), "other".into()],
        after: vec!["b-stable-catalog-olm".into()],
        digest: "sha256:1".into(),
    };
    assert_eq!(
        along_subscription(&entry, "ns", Approval::Manual),
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {
                "name": "a-stable-catalog-olm", "namespace": "ns",
                "labels": { "olm.managed": "true", "operators.coreos.com/a.ns": "" },
                "annotations": { "olm.requiredBy": "thing,other", "olm.approvedPlan": "sha256:1",
                                 "olm.installAfter": "b-stable-catalog-olm" },
            },
            "spec": { "name": "a", "source": "catalog", "sourceNamespace": "olm", "channel": "stable",
                      "startingCSV": "a.v1.0.0", "installPlanApproval": "Manual" },
        })
    );
    // any package and channel make a valid name
    let odd = ChosenBundle { channel: "4.x_Beta".into(), ..chosen("a") };
    assert_eq!(subscription_name(&odd), "a-4.x-beta-catalog-olm");
    let (long, other) = (chosen(&"x".repeat(300)), chosen(&format!("{}y", "x".repeat(299))));
    assert_eq!(subscription_name(&long).len(), 253);
    assert_ne!(subscription_name(&long), subscription_name(&other));
}

/// The plan of one operator, and of those installed along; `change` may break a plan.
fn planned(change: impl Fn(&mut Case)) -> Plan {
    let mut case = Case::install("1.0.0");
    case.resolved = with(vec![needs("thing", "a")]);
    let root = case.plan();
    let installs = dependency_installs(&case.resolved);
    let along = installs.iter().map(|install| {
        let mut case = Case::install("1.0.0");
        case.resolved = install.resolved.clone();
        change(&mut case);
        Along::new(install, case.plan())
    });
    root.with_along(along.collect(), Approval::Manual, &BTreeSet::new())
}

fn blocking(plan: &Plan) -> Vec<&Finding> {
    plan.findings.iter().filter(|f| f.severity == Severity::Block).collect()
}

#[test]
fn the_plan_shows_what_comes_along_and_its_digest_covers_it() {
    let plan = planned(|_| {});
    assert!(!plan.is_blocked(), "{:#?}", plan.findings);
    assert!(ops(&plan).contains(&"create Subscription a-stable-catalog-olm".to_owned()), "{:?}", ops(&plan));
    assert_eq!(plan.along[0].plan.bundle, "a.v1.0.0");
    // another content of an operator installed along is another plan
    let other = planned(|case| {
        case.bundle = bundle(
            "1.0.0",
            vec![json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "more" }
            })],
            |_| {},
        )
    });
    let other = {
        let mut case = Case::install("1.0.0");
        case.resolved = with(vec![needs("thing", "a")]);
        let mut entry = other.along[0].clone();
        entry.entry.digest = "sha256:other".into();
        case.plan().with_along(vec![entry], Approval::Manual, &BTreeSet::new())
    };
    assert_ne!(plan.digest, other.digest);
    assert!(
        olm_plan::what_changed(plan.parts(), other.parts()).contains("install olm/catalog a.v1.0.0"),
        "{}",
        olm_plan::what_changed(plan.parts(), other.parts())
    );
}

#[test]
fn a_plan_that_is_carried_on_has_the_content_that_was_begun() {
    // given a plan that creates its OperatorGroup, and brings an operator along
    let mut case = Case::install("1.0.0");
    case.groups = vec![];
    case.targets = vec!["ns".into()];
    case.rendered = rendered(&case.bundle, &case.groups, &case.targets);
    case.resolved = with(vec![needs("thing", "a")]);
    let along = |case: &Case| {
        let install = &dependency_installs(&case.resolved)[0];
        vec![Along::new(install, Case::install("1.0.0").plan())]
    };
    let begun = case.plan().with_along(along(&case), Approval::Automatic, &BTreeSet::new());
    let remembered = begun.entries();
    // when it was applied in part: group and Subscription exist, nothing is to be brought along any more
    case.live = case.applied();
    case.groups = vec![group("olm-operators", &["ns"])];
    case.resolved.dependencies.clear();
    let resumed = case.plan().resumed(&remembered, Approval::Automatic);
    // then it has the same content, although the plan would differ
    assert_ne!(resumed.digest, begun.digest);
    assert_eq!(resumed.content_digest(), begun.content_digest());
    // and another image changes it
    case.bundle = bundle("1.0.0", vec![], |csv| {
        csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["image"] =
            json!("localhost/evil:1");
    });
    case.rendered = rendered(&case.bundle, &case.groups, &case.targets);
    assert_ne!(
        case.plan().resumed(&remembered, Approval::Automatic).content_digest(),
        begun.content_digest()
    );
}

#[test]
fn what_keeps_one_from_being_installed_keeps_all_from_it() {
    let plan = planned(|case| case.groups.push(group("second", &["ns"])));
    let [finding] = blocking(&plan)[..] else { panic!("{:#?}", plan.findings) };
    assert_eq!(finding.code, FindingCode::DependencyMissing);
    assert!(
        finding.text.contains("a.v1.0.0 is required by thing")
            && finding.text.contains("TooManyOperatorGroups")
    );
    // nor does it take the name of a foreign Subscription
    let taken = BTreeSet::from(["a-stable-catalog-olm".to_owned()]);
    let mut case = Case::install("1.0.0");
    case.resolved = with(vec![needs("thing", "a")]);
    let one = Along::new(&dependency_installs(&case.resolved)[0], Case::install("1.0.0").plan());
    let plan = case.plan().with_along(vec![one], Approval::Manual, &taken);
    assert!(blocking(&plan)[0].text.contains("with a different spec"), "{:#?}", plan.findings);
    // and a dependency without a plan is still missing
    assert_eq!(blocking(&case.plan())[0].code, FindingCode::DependencyMissing);
}

pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let root = std::env::var_os("OLM_SHARED_DATA").map_or_else(|| PathBuf::from(default), PathBuf::from);
    let file = root.join(path);
    let there = file.exists();
    if !there {
        println!("skipped: {} is not there (OLM_SHARED_DATA names the folder)", file.display());
    }
    there.then_some(file)
}

/// A real package of the catalog with its dependencies, planned in a namespace that watches `targets`.
fn real(package: &str, targets: &[&str]) -> Option<Plan> {
    let content = std::fs::read(shared("catalogs/community-dev.json")?).unwrap();
    let catalog = olm_catalog::Catalog::from_bytes("community-dev", &content);
    let packages = catalog.summaries().map(|s| catalog.package(&s.name).unwrap().unwrap()).collect();
    let universe = universe_of(&[(CatalogRef::new("olm", "community"), packages)]);
    let request = Request {
        subscription: format!("ns/{package}"),
        package: package.to_owned(),
        catalog: CatalogRef::new("olm", "community"),
        ..Request::default()
    };
    let answer = resolve(&universe, &[request], &Facts::default()).items.remove(0);
    let resolved = answer.unwrap_or_else(|why| panic!("{}", why.text(100)));
    let installs = dependency_installs(&resolved);
    let root = real_plan(&resolved, targets)?;
    let along =
        installs.iter().map(|install| Some(Along::new(install, real_plan(&install.resolved, targets)?)));
    Some(root.with_along(along.collect::<Option<_>>()?, Approval::Automatic, &BTreeSet::new()))
}

fn real_plan(resolved: &Resolved, targets: &[&str]) -> Option<Plan> {
    let chosen = &resolved.chosen;
    let folder = shared(&format!("bundles/operators/{}/{}", chosen.package, chosen.version_text()))?;
    let mut case = Case::install("1.0.0");
    case.bundle = Bundle::from_dir(&folder).unwrap();
    case.groups = vec![group("og", targets)];
    case.rendered = rendered(&case.bundle, &case.groups, &[]);
    case.resolved = resolved.clone();
    Some(case.plan())
}

/// Findings that block a bundle, whatever it needs.
fn own(plan: &Plan) -> Vec<String> {
    blocking(plan)
        .iter()
        .filter(|f| f.code != FindingCode::DependencyMissing)
        .map(|f| format!("{}: {}", f.code, f.text))
        .collect()
}

#[test]
fn real_chains_plan_with_everything_that_they_need() {
    let kuadrant = (
        "kuadrant-operator",
        vec![],
        ["authorino-operator", "dns-operator", "limitador-operator"].as_slice(),
    );
    let awss3 = ("awss3-operator-registry", vec!["ns"], ["lib-bucket-provisioner"].as_slice());
    for (package, targets, needs) in [kuadrant, awss3] {
        let Some(plan) = real(package, &targets) else { return };
        let mut along: Vec<&str> = plan.along.iter().map(|a| a.entry.bundle.package.as_str()).collect();
        along.sort_unstable();
        assert_eq!(along, needs, "{package}");
        let missing = plan.findings.iter().filter(|f| f.code == FindingCode::DependencyMissing).count();
        let spoilt = plan.along.iter().filter(|a| a.plan.is_blocked()).count();
        println!(
            "{package}: {:?}, along {:?}",
            own(&plan),
            plan.along.iter().map(|a| own(&a.plan)).collect::<Vec<_>>()
        );
        assert_eq!(missing, spoilt, "{package}: {:#?}", plan.findings);
        let made = plan.objects.iter().filter(|o| o.reference.kind == "Subscription").count();
        assert_eq!(made, needs.len());
        // the shown order is the applied order
        let value = serde_json::to_value(&plan).unwrap();
        let back: Plan = serde_json::from_value(value).unwrap();
        assert_eq!(back.entries(), plan.entries());
    }
}
