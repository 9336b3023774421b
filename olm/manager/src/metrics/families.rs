//! Every metric there is. `docs/monitoring.md` has the same table; a test holds the two together.

/// What a metric is.
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

/// In the order in which they are printed. Those without the prefix `olm_`, and `olm_resolution_duration_seconds`, are
/// upstream's.
pub(crate) const FAMILIES: &[Family] = &[
    family("olm_leading", "gauge", &[], "Whether this replica leads."),
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
        "Time spent in reconciliations.",
    ),
    family(
        "olm_retrying_objects",
        "gauge",
        &[],
        "Objects whose last reconciliation failed; they are tried again with back-off.",
    ),
    family(
        "olm_api_requests_total",
        "counter",
        &["verb", "code"],
        "Requests to the API server; `code` is none when there was no answer.",
    ),
    family(
        "installplan_warnings_total",
        "counter",
        &[],
        "Warnings of the API server about what was written.",
    ),
    family(
        "olm_resolution_duration_seconds",
        "summary",
        &["outcome"],
        "Time to work out what a Subscription would change.",
    ),
    family("olm_catalog_fetch_total", "counter", &["result"], "Looks at the sources of catalogs, by result."),
    family("olm_catalog_fetch_seconds_total", "counter", &["result"], "Time spent in them."),
    family(
        "catalogsource_ready",
        "gauge",
        &["namespace", "name"],
        "Whether the catalog was read at the last look.",
    ),
    family(
        "olm_catalog_packages",
        "gauge",
        &["namespace", "name"],
        "Packages in the catalog that is being served.",
    ),
    family("olm_catalog_problems", "gauge", &["namespace", "name"], "Problems found in the catalog."),
    family(
        "olm_catalog_bytes",
        "gauge",
        &["namespace", "name"],
        "Size of the files that the catalog was read from.",
    ),
    family(
        "olm_catalog_stale",
        "gauge",
        &["namespace", "name"],
        "Whether the catalog could not be refreshed.",
    ),
    family(
        "olm_catalog_last_success_timestamp_seconds",
        "gauge",
        &["namespace", "name"],
        "When the source was last read or found unchanged, in Unix time.",
    ),
    family("olm_catalog_age_seconds", "gauge", &["namespace", "name"], "Time since then."),
    family("catalog_source_count", "gauge", &[], "CatalogSources."),
    family("subscription_count", "gauge", &[], "Subscriptions."),
    family(
        "subscription_sync_total",
        "counter",
        &["namespace", "name", "installed", "channel", "package", "approval"],
        "Reconciliations of a Subscription as it is now.",
    ),
    family(
        "olm_subscription_failed",
        "gauge",
        &["namespace", "name", "condition", "reason"],
        "1 for each condition of a Subscription that says what is wrong.",
    ),
    family(
        "olm_upgrade_available",
        "gauge",
        &["namespace", "name", "installed", "available"],
        "1 where another version than the installed one is wanted and not there yet.",
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
        "Whether the version of the operator runs.",
    ),
    family(
        "csv_abnormal",
        "gauge",
        &["namespace", "name", "version", "phase", "reason"],
        "1 for each version that does not run.",
    ),
    family("csv_upgrade_count", "counter", &[], "Versions that were replaced by a newer one."),
    family(
        "olm_certificate_expiry_timestamp_seconds",
        "gauge",
        &["namespace", "deployment"],
        "When the serving certificate of an operator's webhooks or APIs runs out, in Unix time.",
    ),
    family(
        "olm_series_left_out",
        "gauge",
        &["family"],
        "Series that are not here because there are too many.",
    ),
];
