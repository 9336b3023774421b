//! The status of a CatalogSource: a pure function of what was found.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use olm_api::{
    CatalogSource, CatalogSourceStatus, Condition,
    catalog_source::{ConnectionState, RegistryService},
    condition,
};

use crate::{
    catalogs::{Entry, Problem},
    context::truncate,
    manifests::{HTTP_PORT, MANAGER},
};

/// Problems that are listed one by one; the condition says how many there are.
const LISTED_PROBLEMS: usize = 20;

pub(super) fn status(
    source: &CatalogSource,
    entry: &Entry,
    manager_namespace: &str,
    now: Timestamp,
) -> CatalogSourceStatus {
    let mut status = source.status.clone().unwrap_or_default();
    let problem = entry.problem.as_ref();
    status.reason = problem.map(|p| p.reason.to_owned());
    status.message = problem.map(|p| truncate(&p.message, 2000));

    let served = entry.loaded.as_ref();
    let state = match (problem, served) {
        (None, _) => "READY",
        (Some(_), _) => "TRANSIENT_FAILURE",
    };
    let old = status.connection_state.take().filter(|c| c.last_observed_state == state);
    let namespace = source.namespace().unwrap_or_default();
    let address = format!(
        "http://{MANAGER}.{manager_namespace}.svc:{HTTP_PORT}/catalogs/{namespace}/{}/api/v1/all",
        source.name_any()
    );
    status.connection_state = Some(ConnectionState {
        address: served.map(|_| address),
        last_observed_state: state.into(),
        last_connect: old.and_then(|c| c.last_connect).or(Some(Time(now))),
    });
    status.registry_service = served.map(|_| RegistryService {
        protocol: Some("http".into()),
        service_name: Some(MANAGER.into()),
        service_namespace: Some(manager_namespace.into()),
        port: Some(HTTP_PORT.to_string()),
        created_at: status.registry_service.as_ref().and_then(|s| s.created_at.clone()).or(Some(Time(now))),
    });

    let catalog = served.map(|loaded| &loaded.catalog);
    status.digest = catalog.map(|c| c.digest.clone());
    status.packages = catalog.map(|c| i32::try_from(c.packages.len()).unwrap_or(i32::MAX));
    status.problems = catalog
        .map(|c| c.problems.iter().take(LISTED_PROBLEMS).map(|p| truncate(&p.to_string(), 500)).collect())
        .unwrap_or_default();

    let generation = source.metadata.generation;
    let mut set = |mut new: Condition| {
        new.observed_generation = generation;
        condition::set(&mut status.conditions, new, now);
    };
    match problem {
        None => set(Condition::new("Ready", true, "Serving", "the catalog is being served")),
        Some(Problem { reason, message }) if served.is_some() => set(Condition::new(
            "Ready",
            true,
            "Stale",
            truncate(&format!("the last good content is being served; {reason}: {message}"), 2000),
        )),
        Some(Problem { reason, message }) => {
            set(Condition::new("Ready", false, *reason, truncate(message, 2000)));
        }
    }
    if let Some(catalog) = catalog {
        set(match catalog.problems.len() {
            0 => Condition::new("Valid", true, "NoProblems", ""),
            n => Condition::new(
                "Valid",
                false,
                "ProblemsFound",
                format!("{n} problem(s) found; what is usable is served; the first: {}", catalog.problems[0]),
            ),
        });
    }
    status
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::catalogs::{CatalogRef, LoadedCatalog};

    fn source() -> CatalogSource {
        let mut source = CatalogSource::new("community", olm_api::CatalogSourceSpec::default());
        source.metadata.namespace = Some("olm".into());
        source
    }

    fn entry(problem: Option<&str>) -> Entry {
        Entry {
            loaded: Some(LoadedCatalog {
                reference: CatalogRef { namespace: "olm".into(), name: "community".into() },
                display_name: String::new(),
                publisher: String::new(),
                priority: 0,
                catalog: Arc::default(),
            }),
            problem: problem
                .map(|message| Problem { reason: "RegistryServerError", message: message.into() }),
            fingerprint: "f".into(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_loaded_catalog_is_ready_and_says_where_it_is_served() {
        let status = status(&source(), &entry(None), "olm", at(1));
        let connection = status.connection_state.unwrap();
        assert_eq!(connection.last_observed_state, "READY");
        assert_eq!(
            connection.address.as_deref(),
            Some("http://olm-manager.olm.svc:8080/catalogs/olm/community/api/v1/all")
        );
        assert_eq!(status.reason, None);
    }

    #[test]
    fn a_failed_refresh_keeps_serving_and_says_why() {
        let status = status(&source(), &entry(Some("disk gone")), "olm", at(1));
        assert_eq!(status.connection_state.unwrap().last_observed_state, "TRANSIENT_FAILURE");
        assert_eq!(status.message.as_deref(), Some("disk gone"));
        assert!(condition::find(&status.conditions, "Ready").unwrap().is_true());
    }

    #[test]
    fn nothing_new_is_an_equal_status() {
        let mut source = source();
        let first = status(&source, &entry(None), "olm", at(1));
        source.status = Some(first.clone());
        let second = status(&source, &entry(None), "olm", at(99));
        assert_eq!(first, second);
    }
}
