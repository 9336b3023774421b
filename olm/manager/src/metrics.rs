//! The manager's counters and gauges as Prometheus text. Labels carry names of objects and values of closed
//! sets, never a user's free text. Series of an object disappear with the object, because they are read from
//! the cache at each scrape.

mod families;
mod page;
mod syncs;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use olm_api::{Subscription, csv::CsvPhase, install_plan::InstallPlanPhase, names};
use olm_engine::catalogs::{CatalogState, LoadedCatalogs};
use page::Page;
use syncs::Syncs;

use crate::cache::ClusterCache;

type Key = (String, String);

/// Counters of all controllers.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    reconciles: Mutex<BTreeMap<(&'static str, &'static str), Count>>,
    requests: Mutex<BTreeMap<(&'static str, Option<u16>), u64>>,
    fetches: Mutex<BTreeMap<&'static str, Count>>,
    resolutions: Mutex<BTreeMap<&'static str, Count>>,
    syncs: Mutex<Syncs>,
    certificates: Mutex<BTreeMap<Key, i64>>,
    warnings: AtomicU64,
    upgrades: AtomicU64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    runs: u64,
    time: Duration,
}

/// Further inputs of a page.
pub(crate) struct PageInputs<'a> {
    pub(crate) catalogs: &'a LoadedCatalogs,
    pub(crate) cache: &'a ClusterCache,
    pub(crate) leading: bool,
    /// Number of objects that are being retried.
    pub(crate) retrying: usize,
    pub(crate) now: Timestamp,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add<K: Ord>(counts: &Mutex<BTreeMap<K, Count>>, key: K, took: Duration) {
    let mut counts = lock(counts);
    let count = counts.entry(key).or_default();
    count.runs += 1;
    count.time += took;
}

impl Metrics {
    /// One finished reconciliation. `result` is `ok` or `error`.
    pub(crate) fn reconciled(&self, controller: &'static str, result: &'static str, took: Duration) {
        add(&self.reconciles, (controller, result), took);
    }

    /// One finished read of a catalog's source. `result` is `ok` or the code of the failure.
    pub(crate) fn fetched(&self, result: &'static str, took: Duration) {
        add(&self.fetches, result, took);
    }

    /// One resolution. `outcome` is upstream's `succeeded` or `failed`.
    pub(crate) fn resolved(&self, outcome: &'static str, took: Duration) {
        add(&self.resolutions, outcome, took);
    }

    /// One request to the API server.
    pub(crate) fn requested(&self, verb: &'static str, code: Option<u16>) {
        *lock(&self.requests).entry((verb, code)).or_default() += 1;
    }

    /// Warnings of the API server about a write.
    pub(crate) fn warned(&self, warnings: usize) {
        self.warnings.fetch_add(warnings as u64, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::Relaxed)
    }

    /// A version is replaced by a newer one.
    pub(crate) fn upgraded(&self) {
        self.upgrades.fetch_add(1, Ordering::Relaxed);
    }

    /// One reconciliation of a Subscription.
    pub(crate) fn count_sync(&self, subscription: &Subscription) {
        lock(&self.syncs).count(subscription);
    }

    /// When the certificate of an operator's Deployment expires, in Unix time; `None` removes the series.
    pub(crate) fn certificate_expires(&self, namespace: &str, deployment: &str, at: Option<i64>) {
        let key = (namespace.to_owned(), deployment.to_owned());
        let mut certificates = lock(&self.certificates);
        match at {
            Some(at) => drop(certificates.insert(key, at)),
            None => drop(certificates.remove(&key)),
        }
    }

    pub(crate) fn render(&self, inputs: &PageInputs<'_>) -> String {
        let mut page = Page::new();
        page.value("olm_leading", f64::from(u8::from(inputs.leading)));
        self.counters(&mut page, inputs);
        catalogs(&mut page, inputs);
        self.subscriptions(&mut page, inputs);
        plans(&mut page, inputs);
        self.versions(&mut page, inputs);
        let certificates = lock(&self.certificates).clone();
        let certificates = certificates.into_iter().map(|((ns, name), at)| (vec![ns, name], at as f64));
        page.family("olm_certificate_expiry_timestamp_seconds", certificates);
        page.end()
    }

    fn counters(&self, page: &mut Page, inputs: &PageInputs<'_>) {
        let reconciles = lock(&self.reconciles).clone();
        let of = |pick: fn(&Count) -> f64| {
            let series = reconciles.iter();
            series
                .map(move |((c, r), count)| (vec![(*c).to_owned(), (*r).to_owned()], pick(count)))
                .collect::<Vec<_>>()
        };
        page.family("olm_reconcile_total", of(|count| count.runs as f64));
        page.family("olm_reconcile_seconds_total", of(|count| count.time.as_secs_f64()));
        page.value("olm_retrying_objects", inputs.retrying as f64);
        let requests = lock(&self.requests).clone();
        page.family(
            "olm_api_requests_total",
            requests.into_iter().map(|((verb, code), count)| {
                let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
                (vec![verb.to_owned(), code], count as f64)
            }),
        );
        page.value("installplan_warnings_total", self.warnings.load(Ordering::Relaxed) as f64);
        let resolutions = lock(&self.resolutions).clone();
        page.parts(
            "olm_resolution_duration_seconds",
            resolutions.into_iter().flat_map(|(outcome, count)| {
                let labels = vec![outcome.to_owned()];
                [("_sum", labels.clone(), count.time.as_secs_f64()), ("_count", labels, count.runs as f64)]
            }),
        );
        let fetches = lock(&self.fetches).clone();
        let of = |pick: fn(&Count) -> f64| {
            fetches
                .iter()
                .map(move |(result, count)| (vec![(*result).to_owned()], pick(count)))
                .collect::<Vec<_>>()
        };
        page.family("olm_catalog_fetch_total", of(|count| count.runs as f64));
        page.family("olm_catalog_fetch_seconds_total", of(|count| count.time.as_secs_f64()));
    }

    fn subscriptions(&self, page: &mut Page, inputs: &PageInputs<'_>) {
        let cache = inputs.cache;
        let (mut count, mut failed, mut upgrades) = (0, Vec::new(), Vec::new());
        cache.subscriptions.briefs(|namespace, name, brief| {
            count += 1;
            let of = || vec![namespace.to_owned(), name.to_owned()];
            for (type_, reason) in &brief.problems {
                failed.push(([of(), vec![(*type_).to_owned(), reason.to_string()]].concat(), 1.0));
            }
            if let Some((installed, wanted)) = brief.upgrade.as_deref() {
                upgrades.push(([of(), vec![installed.clone(), wanted.clone()]].concat(), 1.0));
            }
        });
        page.value("subscription_count", f64::from(count));
        let mut syncs = lock(&self.syncs);
        syncs.retain(|namespace, name| cache.subscriptions.has(namespace, name));
        page.family("subscription_sync_total", syncs.series());
        drop(syncs);
        page.family("olm_subscription_failed", failed);
        page.family("olm_upgrade_available", upgrades);
    }

    fn versions(&self, page: &mut Page, inputs: &PageInputs<'_>) {
        let (mut succeeded, mut abnormal) = (Vec::new(), Vec::new());
        inputs.cache.csvs.briefs(|namespace, name, brief| {
            let labels = vec![namespace.to_owned(), name.to_owned(), brief.version.to_string()];
            let runs = brief.phase == CsvPhase::Succeeded;
            if !runs {
                let reason = brief.reason.as_deref().unwrap_or_default();
                let why = [brief.phase.to_string(), reason.to_owned()];
                abnormal.push((labels.iter().cloned().chain(why).collect(), 1.0));
            }
            succeeded.push((labels, f64::from(u8::from(runs))));
        });
        page.value("csv_count", succeeded.len() as f64);
        page.family("csv_succeeded", succeeded);
        page.family("csv_abnormal", abnormal);
        page.value("csv_upgrade_count", self.upgrades.load(Ordering::Relaxed) as f64);
    }
}

/// Conditions of a Subscription that are true on a problem.
pub(crate) const PROBLEM_CONDITIONS: [&str; 5] = [
    names::CONDITION_CATALOG_SOURCES_UNHEALTHY,
    names::CONDITION_RESOLUTION_FAILED,
    names::CONDITION_INSTALL_PLAN_FAILED,
    names::CONDITION_INSTALL_PLAN_MISSING,
    names::CONDITION_BUNDLE_UNPACK_FAILED,
];

fn plans(page: &mut Page, inputs: &PageInputs<'_>) {
    let (mut count, mut phases, mut open) = (0, BTreeMap::<String, u64>::new(), Vec::new());
    inputs.cache.plans.briefs(|namespace, name, phase| {
        count += 1;
        *phases.entry(phase.to_string()).or_default() += 1;
        if *phase != InstallPlanPhase::Complete {
            open.push((vec![namespace.to_owned(), name.to_owned(), phase.to_string()], 1.0));
        }
    });
    page.value("install_plan_count", f64::from(count));
    page.family("olm_install_plans", phases.into_iter().map(|(phase, count)| (vec![phase], count as f64)));
    page.family("olm_install_plan_phase", open);
}

fn catalogs(page: &mut Page, inputs: &PageInputs<'_>) {
    let all = inputs.catalogs.all();
    for (name, value) in GAUGES {
        let series = all.iter().filter_map(|((namespace, catalog), entry)| {
            Some((vec![namespace.clone(), catalog.clone()], value(entry, inputs.now)?))
        });
        page.family(name, series);
    }
    page.value("catalog_source_count", all.len() as f64);
}

type Gauge = (&'static str, fn(&CatalogState, Timestamp) -> Option<f64>);

/// Gauges of every CatalogSource; unknown values have no series.
const GAUGES: [Gauge; 7] = [
    ("catalogsource_ready", |entry, _| {
        Some(f64::from(u8::from(entry.loaded.is_some() && entry.problem.is_none())))
    }),
    ("olm_catalog_packages", |entry, _| Some(entry.loaded.as_ref()?.catalog.len() as f64)),
    ("olm_catalog_problems", |entry, _| Some(entry.loaded.as_ref()?.catalog.problems.len() as f64)),
    ("olm_catalog_bytes", |entry, _| {
        entry.loaded.as_ref()?;
        Some(entry.bytes as f64)
    }),
    ("olm_catalog_stale", |entry, _| {
        entry.loaded.as_ref()?;
        Some(f64::from(u8::from(entry.problem.is_some())))
    }),
    ("olm_catalog_last_success_timestamp_seconds", |entry, _| Some(entry.last_success?.as_second() as f64)),
    ("olm_catalog_age_seconds", |entry, now| {
        Some(now.duration_since(entry.last_success?).as_secs_f64().max(0.0))
    }),
];
