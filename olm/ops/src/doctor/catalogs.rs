//! Checks that catalogs are readable and current.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use olm_api::CatalogSource;

use super::{
    facts::Facts,
    installation::named,
    problem::{Code, Problem, Severity},
};

/// A polled catalog is stale when it was last read longer ago than this, whatever its interval: three reads a
/// day are enough for every site.
const STALE: SignedDuration = SignedDuration::from_hours(24);

pub(super) fn check(facts: &Facts, now: Timestamp) -> Vec<Problem> {
    facts
        .catalogs
        .iter()
        .filter(|c| c.metadata.deletion_timestamp.is_none())
        .flat_map(|c| one(c, now))
        .collect()
}

fn one(catalog: &CatalogSource, now: Timestamp) -> Vec<Problem> {
    let object = named("CatalogSource", catalog);
    let status = catalog.status.clone().unwrap_or_default();
    let state = status.connection_state.as_ref().map(|s| s.last_observed_state.clone()).unwrap_or_default();
    let message = status.message.clone().unwrap_or_default();
    let namespace = catalog.namespace().unwrap_or_default();
    let state_of = format!("olm catalog sources -n {namespace}");
    let mut out = Vec::new();
    if state != "READY" {
        // The last good content stays in use.
        let (severity, since) = match (&status.digest, &status.last_success) {
            (Some(_), Some(time)) => {
                (Severity::Warning, format!("; still serving the content read at {}", time.0))
            }
            _ => (Severity::Error, String::new()),
        };
        let state = if state.is_empty() { "not yet checked".to_owned() } else { state };
        let reason = status.reason.as_deref().map_or(String::new(), |reason| format!(" ({reason})"));
        let text = if message.is_empty() { String::new() } else { format!(": {message}") };
        let why = format!("{state}{reason}{text}{since}");
        out.push(Problem::new(Code::CatalogUnreadable, object.clone(), why).severity(severity).fix(state_of));
    } else if let Some(time) = &status.last_success
        && status.latest_image_registry_poll.is_some()
        && now.duration_since(time.0) > STALE
    {
        let hours = now.duration_since(time.0).as_hours();
        let why = format!("last successful read {hours} hours ago");
        let refresh = format!("olm catalog refresh {namespace}/{}", catalog.name_any());
        out.push(Problem::new(Code::CatalogStale, object.clone(), why).fix(refresh));
    }
    if let Some(first) = status.problems.first() {
        let more = status.problems.len() - 1;
        let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        let all = format!("olm catalog sources -n {namespace} -o yaml");
        out.push(Problem::new(Code::CatalogProblems, object, format!("{first}{more}")).fix(all));
    }
    out
}
