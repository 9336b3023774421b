//! What the manager counts and sees, as Prometheus text. Labels carry names of objects and words of closed sets, never a
//! user's free text; what is said of an object goes when the object goes, because it is read from what the
//! controllers know of the cluster at that moment.

mod families;
mod page;
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
use kube::ResourceExt;
use olm_api::{InstallPlan, Subscription, condition, csv::CsvPhase, install_plan::InstallPlanPhase, names};

use crate::{
    catalogs::{CatalogStore, Entry},
    stores::Stores,
};
use page::Page;

type Key = (String, String);

/// Counters of all controllers.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    reconciles: Mutex<BTreeMap<(&'static str, &'static str), Count>>,
    requests: Mutex<BTreeMap<(&'static str, Option<u16>), u64>>,
    fetches: Mutex<BTreeMap<&'static str, Count>>,
    resolutions: Mutex<BTreeMap<&'static str, Count>>,
    /// What a Subscription said when it was last counted, and how often it was since.
    syncs: Mutex<BTreeMap<Key, (Vec<String>, u64)>>,
    certificates: Mutex<BTreeMap<Key, i64>>,
    warnings: AtomicU64,
    upgrades: AtomicU64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    runs: u64,
    time: Duration,
}

/// What else a page is made of.
pub(crate) struct Seen<'a> {
    pub(crate) catalogs: &'a CatalogStore,
    pub(crate) stores: &'a Stores,
    pub(crate) leading: bool,
    /// Objects that are tried again.
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

    /// One finished look at a catalog's source. `result` is `ok` or the code of the failure.
    pub(crate) fn fetched(&self, result: &'static str, took: Duration) {
        add(&self.fetches, result, took);
    }

    /// One question to the engine. `outcome` is upstream's `succeeded` or `failed`.
    pub(crate) fn resolved(&self, outcome: &'static str, took: Duration) {
        add(&self.resolutions, outcome, took);
    }

    /// One request to the API server.
    pub(crate) fn requested(&self, verb: &'static str, code: Option<u16>) {
        *lock(&self.requests).entry((verb, code)).or_default() += 1;
    }

    /// What the API server remarked on a write.
    pub(crate) fn warned(&self, warnings: usize) {
        self.warnings.fetch_add(warnings as u64, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::Relaxed)
    }

    /// A version gives way to a newer one.
    pub(crate) fn upgraded(&self) {
        self.upgrades.fetch_add(1, Ordering::Relaxed);
    }

    /// One reconciliation of a Subscription. The count begins anew when the Subscription says something else, as upstream's
    /// does.
    pub(crate) fn synced(&self, subscription: &Subscription) {
        let labels = sync_labels(subscription);
        let mut syncs = lock(&self.syncs);
        let count = syncs.entry(key(subscription)).or_insert_with(|| (labels.clone(), 0));
        if count.0 != labels {
            *count = (labels, 0);
        }
        count.1 += 1;
    }

    /// When the certificate of an operator's Deployment runs out, in Unix time; `None` forgets it.
    pub(crate) fn certificate_expires(&self, namespace: &str, deployment: &str, at: Option<i64>) {
        let key = (namespace.to_owned(), deployment.to_owned());
        let mut certificates = lock(&self.certificates);
        match at {
            Some(at) => drop(certificates.insert(key, at)),
            None => drop(certificates.remove(&key)),
        }
    }

    pub(crate) fn render(&self, seen: &Seen<'_>) -> String {
        let mut page = Page::new();
        page.value("olm_leading", f64::from(u8::from(seen.leading)));
        self.counters(&mut page, seen);
        catalogs(&mut page, seen);
        self.subscriptions(&mut page, seen);
        plans(&mut page, seen);
        self.versions(&mut page, seen);
        let certificates = lock(&self.certificates).clone();
        let certificates = certificates.into_iter().map(|((ns, name), at)| (vec![ns, name], at as f64));
        page.family("olm_certificate_expiry_timestamp_seconds", certificates);
        page.end()
    }

    fn counters(&self, page: &mut Page, seen: &Seen<'_>) {
        let reconciles = lock(&self.reconciles).clone();
        let of = |pick: fn(&Count) -> f64| {
            let series = reconciles.iter();
            series
                .map(move |((c, r), count)| (vec![(*c).to_owned(), (*r).to_owned()], pick(count)))
                .collect::<Vec<_>>()
        };
        page.family("olm_reconcile_total", of(|count| count.runs as f64));
        page.family("olm_reconcile_seconds_total", of(|count| count.time.as_secs_f64()));
        page.value("olm_retrying_objects", seen.retrying as f64);
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

    fn subscriptions(&self, page: &mut Page, seen: &Seen<'_>) {
        let subscriptions = seen.stores.subscriptions.all();
        page.value("subscription_count", subscriptions.len() as f64);
        let mut syncs = lock(&self.syncs);
        // What is gone is forgotten here, so that the list does not grow for ever.
        let there: std::collections::BTreeSet<Key> = subscriptions.iter().map(|s| key(s.as_ref())).collect();
        syncs.retain(|key, _| there.contains(key));
        page.family(
            "subscription_sync_total",
            syncs.values().map(|(labels, count)| (labels.clone(), *count as f64)),
        );
        drop(syncs);
        page.family(
            "olm_subscription_failed",
            subscriptions.iter().flat_map(|subscription| {
                let conditions =
                    subscription.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
                TROUBLES.iter().filter_map(move |type_| {
                    let found = condition::find(conditions, type_).filter(|c| c.is_true())?;
                    let (namespace, name) = key(subscription.as_ref());
                    let reason = found.reason.clone().unwrap_or_default();
                    Some((vec![namespace, name, (*type_).to_owned(), reason], 1.0))
                })
            }),
        );
        page.family(
            "olm_upgrade_available",
            subscriptions.iter().filter_map(|subscription| {
                let status = subscription.status.as_ref()?;
                let (installed, wanted) = (status.installed_csv.clone()?, status.current_csv.clone()?);
                let (namespace, name) = key(subscription.as_ref());
                (installed != wanted).then(|| (vec![namespace, name, installed, wanted], 1.0))
            }),
        );
    }

    fn versions(&self, page: &mut Page, seen: &Seen<'_>) {
        let versions = seen.stores.versions.all();
        page.value("csv_count", versions.len() as f64);
        let labels = |csv: &crate::stores::Version| {
            let (namespace, name) = key(csv);
            vec![namespace, name, csv.spec.version.clone().unwrap_or_default()]
        };
        let phase = |csv: &crate::stores::Version| csv.status.as_ref().map(|s| s.phase).unwrap_or_default();
        page.family(
            "csv_succeeded",
            versions.iter().map(|csv| (labels(csv), f64::from(u8::from(phase(csv) == CsvPhase::Succeeded)))),
        );
        page.family(
            "csv_abnormal",
            versions.iter().filter(|csv| phase(csv) != CsvPhase::Succeeded).map(|csv| {
                let mut labels = labels(csv);
                labels.push(phase(csv).to_string());
                labels.push(csv.status.as_ref().and_then(|s| s.reason.clone()).unwrap_or_default());
                (labels, 1.0)
            }),
        );
        page.value("csv_upgrade_count", self.upgrades.load(Ordering::Relaxed) as f64);
    }
}

/// Conditions of a Subscription that are true when something is wrong.
pub(crate) const TROUBLES: [&str; 5] = [
    names::CONDITION_CATALOG_SOURCES_UNHEALTHY,
    names::CONDITION_RESOLUTION_FAILED,
    names::CONDITION_INSTALL_PLAN_FAILED,
    names::CONDITION_INSTALL_PLAN_MISSING,
    names::CONDITION_BUNDLE_UNPACK_FAILED,
];

fn key(object: &impl ResourceExt) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn sync_labels(subscription: &Subscription) -> Vec<String> {
    let (namespace, name) = key(subscription);
    let installed = subscription.status.as_ref().and_then(|s| s.installed_csv.clone()).unwrap_or_default();
    let spec = &subscription.spec;
    let channel = spec.channel.clone().unwrap_or_default();
    vec![namespace, name, installed, channel, spec.name.clone(), spec.install_plan_approval.to_string()]
}

fn plans(page: &mut Page, seen: &Seen<'_>) {
    let plans = seen.stores.plans.all();
    page.value("install_plan_count", plans.len() as f64);
    let phase = |plan: &InstallPlan| plan.status.as_ref().map(|s| s.phase).unwrap_or_default();
    let mut phases: BTreeMap<String, u64> = BTreeMap::new();
    for plan in &plans {
        *phases.entry(phase(plan).to_string()).or_default() += 1;
    }
    page.family("olm_install_plans", phases.into_iter().map(|(phase, count)| (vec![phase], count as f64)));
    page.family(
        "olm_install_plan_phase",
        plans.iter().filter(|plan| phase(plan) != InstallPlanPhase::Complete).map(|plan| {
            let (namespace, name) = key(plan.as_ref());
            (vec![namespace, name, phase(plan).to_string()], 1.0)
        }),
    );
}

fn catalogs(page: &mut Page, seen: &Seen<'_>) {
    let all = seen.catalogs.all();
    for (name, value) in GAUGES {
        let series = all.iter().filter_map(|((namespace, catalog), entry)| {
            Some((vec![namespace.clone(), catalog.clone()], value(entry, seen.now)?))
        });
        page.family(name, series);
    }
    page.value("catalog_source_count", all.len() as f64);
}

type Gauge = (&'static str, fn(&Entry, Timestamp) -> Option<f64>);

/// What is said of every CatalogSource; of what is not known, nothing.
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
