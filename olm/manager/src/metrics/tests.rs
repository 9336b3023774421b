//! Pages as Prometheus parses them.

use serde_json::{Value, json};

use super::{families::FAMILIES, *};

fn keep<K: crate::cache::Cached>(kind: &crate::cache::KindCache<K>, objects: Vec<Value>) {
    for object in objects {
        kind.store_written(serde_json::from_value(object).unwrap());
    }
}

fn render(metrics: &Metrics, catalogs: &LoadedCatalogs, cache: &ClusterCache) -> String {
    let now = Timestamp::from_second(1_700_000_060).unwrap();
    metrics.render(&PageInputs { catalogs, cache, leading: true, retrying: 3, now })
}

fn has(page: &str, lines: &[&str]) {
    for line in lines {
        assert!(page.lines().any(|l| l == *line), "{line} in {page}");
    }
}

#[test]
fn of_a_catalog_that_failed_it_is_known_since_when_and_why() {
    let (metrics, catalogs) = (Metrics::default(), LoadedCatalogs::default());
    metrics.fetched("AccessDenied", Duration::from_millis(500));
    let problem = olm_engine::catalogs::Problem::new("RegistryServerError", "AccessDenied", "401");
    let last_success = jiff::Timestamp::from_second(1_700_000_000).ok();
    let entry = CatalogState { problem: Some(problem), last_success, ..CatalogState::default() };
    catalogs.insert("olm", "community", entry);
    let page = render(&metrics, &catalogs, &ClusterCache::default());
    has(
        &page,
        &[
            "olm_catalog_fetch_total{result=\"AccessDenied\"} 1",
            "catalogsource_ready{namespace=\"olm\",name=\"community\"} 0",
            "olm_catalog_last_success_timestamp_seconds{namespace=\"olm\",name=\"community\"} 1700000000",
            "olm_catalog_age_seconds{namespace=\"olm\",name=\"community\"} 60",
            "catalog_source_count 1",
        ],
    );
    assert!(!page.contains("olm_catalog_packages{"), "{page}");
}

#[test]
fn counters_are_rendered_as_prometheus_text() {
    let metrics = Metrics::default();
    metrics.reconciled("subscription", "ok", Duration::from_millis(500));
    metrics.reconciled("subscription", "ok", Duration::from_millis(250));
    metrics.requested("write", Some(409));
    metrics.requested("read", None);
    metrics.resolved("failed", Duration::from_millis(125));
    metrics.upgraded();
    metrics.certificate_expires("a", "web", Some(1_800_000_000));
    metrics.certificate_expires("a", "gone", Some(1));
    metrics.certificate_expires("a", "gone", None);
    let page = render(&metrics, &LoadedCatalogs::default(), &ClusterCache::default());
    has(
        &page,
        &[
            "olm_leading 1",
            "olm_retrying_objects 3",
            "olm_reconcile_total{controller=\"subscription\",result=\"ok\"} 2",
            "olm_reconcile_seconds_total{controller=\"subscription\",result=\"ok\"} 0.75",
            "olm_api_requests_total{verb=\"write\",code=\"409\"} 1",
            "olm_api_requests_total{verb=\"read\",code=\"none\"} 1",
            "olm_resolution_duration_seconds_sum{outcome=\"failed\"} 0.125",
            "olm_resolution_duration_seconds_count{outcome=\"failed\"} 1",
            "csv_upgrade_count 1",
            "olm_certificate_expiry_timestamp_seconds{namespace=\"a\",deployment=\"web\"} 1800000000",
        ],
    );
    assert!(!page.contains("gone"), "{page}");
}

#[test]
fn series_of_an_object_are_removed_with_it() {
    // given an installation with a blocked upgrade and a version that does not run
    let subscription = json!({
        "metadata": { "name": "etcd", "namespace": "a" },
        "spec": { "name": "etcd", "source": "community", "sourceNamespace": "olm", "channel": "alpha", "installPlanApproval": "Manual" },
        "status": {
            "installedCSV": "etcd.v1", "currentCSV": "etcd.v2",
            "conditions": [{ "type": "ResolutionFailed", "status": "True", "reason": "ConstraintsNotSatisfiable", "message": "long story" }],
        },
    });
    let version = |name: &str, phase: &str| {
        json!({
            "metadata": { "name": name, "namespace": "a" }, "spec": { "version": "1.0.0" },
            "status": { "phase": phase, "reason": "ComponentUnhealthy" },
        })
    };
    let cache = ClusterCache::default();
    keep(&cache.subscriptions, vec![subscription.clone()]);
    keep(&cache.csvs, vec![version("etcd.v1", "Succeeded"), version("other.v1", "Failed")]);
    let plan = |name: &str, phase: &str| json!({ "metadata": { "name": name, "namespace": "a" }, "spec": { "clusterServiceVersionNames": [], "approval": "Manual", "approved": false }, "status": { "phase": phase } });
    keep(&cache.plans, vec![plan("one", "Complete"), plan("two", "RequiresApproval")]);
    let metrics = Metrics::default();
    let typed: Subscription = serde_json::from_value(subscription).unwrap();
    metrics.count_sync(&typed);
    metrics.count_sync(&typed);

    // then each has one series
    let page = render(&metrics, &LoadedCatalogs::default(), &cache);
    has(
        &page,
        &[
            "subscription_count 1",
            "csv_count 2",
            "install_plan_count 2",
            "subscription_sync_total{namespace=\"a\",name=\"etcd\",installed=\"etcd.v1\",channel=\"alpha\",package=\"etcd\",approval=\"Manual\"} 2",
            "olm_subscription_failed{namespace=\"a\",name=\"etcd\",condition=\"ResolutionFailed\",reason=\"ConstraintsNotSatisfiable\"} 1",
            "olm_upgrade_available{namespace=\"a\",name=\"etcd\",installed=\"etcd.v1\",available=\"etcd.v2\"} 1",
            "csv_succeeded{namespace=\"a\",name=\"etcd.v1\",version=\"1.0.0\"} 1",
            "csv_succeeded{namespace=\"a\",name=\"other.v1\",version=\"1.0.0\"} 0",
            "csv_abnormal{namespace=\"a\",name=\"other.v1\",version=\"1.0.0\",phase=\"Failed\",reason=\"ComponentUnhealthy\"} 1",
            "olm_install_plans{phase=\"Complete\"} 1",
            "olm_install_plan_phase{namespace=\"a\",name=\"two\",phase=\"RequiresApproval\"} 1",
        ],
    );
    assert!(!page.contains("long story"), "free text is not a label: {page}");

    // when they are gone
    let page = render(&metrics, &LoadedCatalogs::default(), &ClusterCache::default());
    assert!(!page.contains("\"a\""), "{page}");
    assert!(lock(&metrics.syncs).is_empty());
}

/// The documentation's table, generated from the one in the code.
fn table() -> String {
    let rows = FAMILIES.iter().map(|family| {
        let labels = if family.labels.is_empty() {
            "-".to_owned()
        } else {
            format!("`{}`", family.labels.join("`, `"))
        };
        format!("| `{}` | {} | {labels} | {} |\n", family.name, family.kind, family.help)
    });
    format!("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n{}", rows.collect::<String>())
}

#[test]
fn the_documentation_has_every_metric_and_no_other() {
    olm_testing::documented("monitoring.md", "metrics", &table());
}

#[test]
fn every_family_is_on_the_page() {
    let page = render(&Metrics::default(), &LoadedCatalogs::default(), &ClusterCache::default());
    for family in FAMILIES {
        assert!(page.contains(&format!("# TYPE {} {}\n", family.name, family.kind)), "{}", family.name);
    }
}
