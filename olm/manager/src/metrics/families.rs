//! All metrics. `docs/monitoring.md` has the same table; a test compares the two.

#[derive(Debug, Clone, Copy)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) labels: &'static [&'static str],
    pub(crate) help: &'static str,
}

const fn family(
    name: &'static str,
    kind: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, kind, labels, help }
}

/// In the order in which they are printed. Those without the prefix `olm_`, and
/// `olm_resolution_duration_seconds`, are upstream's.
pub(crate) const FAMILIES: &[Family] = &[
    family("olm_leading", "gauge", &[], "Whether this replica is the leader."),
    family(
        "olm_reconcile_total",
        "counter",
        &["controller", "result"],
        "Finished reconciliations; `result` is ok or error.",
    ),
    family(
        "olm_reconcile_seconds_total",
        "counter",
        &["controller", "result"],
        "Total time of reconciliations in seconds.",
    ),
    family(
        "olm_retrying_objects",
        "gauge",
        &[],
        "Objects whose last reconciliation failed and is retried with back-off.",
    ),
    family(
        "olm_api_requests_total",
        "counter",
        &["verb", "code"],
        "Requests to the API server; `code` is none without a response.",
    ),
    family("installplan_warnings_total", "counter", &[], "Warnings of the API server about applied objects."),
    family(
        "olm_resolution_duration_seconds",
        "summary",
        &["outcome"],
        "Time to resolve and plan a Subscription.",
    ),
    family("olm_catalog_fetch_total", "counter", &["result"], "Reads of catalog sources, by result."),
    family(
        "olm_catalog_fetch_seconds_total",
        "counter",
        &["result"],
        "Total time of reads of catalog sources in seconds.",
    ),
    family(
        "catalogsource_ready",
        "gauge",
        &["namespace", "name"],
        "Whether the last read of the catalog succeeded.",
    ),
    family("olm_catalog_packages", "gauge", &["namespace", "name"], "Packages in the served catalog."),
    family("olm_catalog_problems", "gauge", &["namespace", "name"], "Problems found in the catalog."),
    family(
        "olm_catalog_bytes",
        "gauge",
        &["namespace", "name"],
        "Size of the catalog's source files in bytes.",
    ),
    family(
        "olm_catalog_stale",
        "gauge",
        &["namespace", "name"],
        "Whether the last refresh of the catalog failed.",
    ),
    family(
        "olm_catalog_last_success_timestamp_seconds",
        "gauge",
        &["namespace", "name"],
        "Time of the last successful read of the source, in Unix time.",
    ),
    family(
        "olm_catalog_age_seconds",
        "gauge",
        &["namespace", "name"],
        "Time since the last successful read of the source in seconds.",
    ),
    family("catalog_source_count", "gauge", &[], "CatalogSources."),
    family("subscription_count", "gauge", &[], "Subscriptions."),
    family(
        "subscription_sync_total",
        "counter",
        &["namespace", "name", "installed", "channel", "package", "approval"],
        "Reconciliations of the current generation of a Subscription.",
    ),
    family(
        "olm_subscription_failed",
        "gauge",
        &["namespace", "name", "condition", "reason"],
        "1 for each abnormal condition of a Subscription.",
    ),
    family(
        "olm_upgrade_available",
        "gauge",
        &["namespace", "name", "installed", "available"],
        "1 for each Subscription with a pending upgrade.",
    ),
    family("install_plan_count", "gauge", &[], "InstallPlans."),
    family("olm_install_plans", "gauge", &["phase"], "InstallPlans, by phase."),
    family(
        "olm_install_plan_phase",
        "gauge",
        &["namespace", "name", "phase"],
        "1 for each InstallPlan that is not complete.",
    ),
    family("csv_count", "gauge", &[], "ClusterServiceVersions."),
    family(
        "csv_succeeded",
        "gauge",
        &["namespace", "name", "version"],
        "Whether the version of the operator is running.",
    ),
    family(
        "csv_abnormal",
        "gauge",
        &["namespace", "name", "version", "phase", "reason"],
        "1 for each version that is not running.",
    ),
    family("csv_upgrade_count", "counter", &[], "Versions replaced by a newer version."),
    family(
        "olm_certificate_expiry_timestamp_seconds",
        "gauge",
        &["namespace", "deployment"],
        "Expiry of the serving certificate of an operator's webhooks or APIs, in Unix time.",
    ),
    family("olm_series_left_out", "gauge", &["family"], "Series omitted because of the limit."),
];
