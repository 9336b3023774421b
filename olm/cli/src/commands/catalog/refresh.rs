//! `olm catalog refresh`: requests that the manager reads catalogs again.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use olm_api::{CatalogSource, names};
use olm_ops::catalogs::{ClusterCatalog, Reading, reading};

use super::remove::named;
use crate::{
    args::{CatalogRefreshArgs, Global},
    commands::catalogs,
    context,
    exit::{Code, Failure},
    output::Listing,
};

/// Interval of polling for the state of the catalogs.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub async fn run(global: &Global, args: CatalogRefreshArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let chosen = chosen(global, &client, args.name.as_deref()).await?;
    let mut sources = Vec::new();
    for source in chosen {
        let at = request_time(&source, Timestamp::now());
        let patched = olm_ops::catalogs::refresh(&client, &source, at).await?;
        eprintln!("requested a refresh of CatalogSource {}", place(&patched));
        sources.push((patched, at));
    }
    let deadline = Instant::now() + args.wait.timeout;
    let mut rows = Vec::new();
    for (source, at) in sources {
        let source = match args.wait.wait {
            true => handled(&api_of(&client, &source), source, at, deadline).await?,
            false => source,
        };
        rows.push(ClusterCatalog::of(&source));
    }
    Listing {
        items: &rows,
        columns: &[
            ("NAME", |row| row.name.clone()),
            ("NAMESPACE", |row| row.namespace.clone()),
            ("PACKAGES", |row| row.packages.map(|packages| packages.to_string()).unwrap_or_default()),
            ("STATE", |row| row.state.clone()),
        ],
        wide: &[("SOURCE", |row| row.source.clone())],
        name: |row| format!("{}/{}", row.namespace, row.name),
        empty: "No catalogs found; add one with `olm catalog add`.",
    }
    .print(&args.out)
}

/// The named CatalogSource, or all.
async fn chosen(global: &Global, client: &Client, name: Option<&str>) -> Result<Vec<CatalogSource>, Failure> {
    let Some(name) = name else {
        let api: Api<CatalogSource> = match &global.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        return match api.list(&ListParams::default()).await {
            Ok(list) => Ok(list.items),
            Err(error) => Err(catalogs::failed(client, error).await),
        };
    };
    Ok(vec![named(global, client, name).await?])
}

fn api_of(client: &Client, source: &CatalogSource) -> Api<CatalogSource> {
    Api::namespaced(client.clone(), &source.namespace().unwrap_or_default())
}

fn place(source: &CatalogSource) -> String {
    format!("{}/{}", source.namespace().unwrap_or_default(), source.name_any())
}

fn annotation(source: &CatalogSource) -> Option<&str> {
    source.annotations().get(names::ANNOTATION_REFRESH).map(String::as_str)
}

/// The time of a request. It is later than that of the previous one, whose caller may have another clock.
fn request_time(source: &CatalogSource, now: Timestamp) -> Timestamp {
    let previous = annotation(source).and_then(|value| value.parse::<Timestamp>().ok());
    previous.and_then(|at| at.checked_add(Duration::from_nanos(1)).ok()).map_or(now, |next| next.max(now))
}

/// Whether a read has ended that began after this request. A later request replaces it in the annotation, and
/// the manager reads once for both.
fn is_handled(source: &CatalogSource, requested: Timestamp) -> bool {
    let handled = source.status.as_ref().and_then(|status| status.last_handled_refresh.as_deref());
    let Some(handled) = handled else { return false };
    annotation(source) == Some(handled) || handled.parse::<Timestamp>().is_ok_and(|at| at >= requested)
}

/// Waits for the read that `source` requests, or that of a later request. `source` is the response to the request.
async fn handled(
    api: &Api<CatalogSource>,
    mut source: CatalogSource,
    requested: Timestamp,
    deadline: Instant,
) -> Result<CatalogSource, Failure> {
    while !is_handled(&source, requested) {
        if Instant::now() >= deadline {
            let text = format!("timed out waiting for catalog {}", place(&source));
            return Err(Failure::new(Code::Timeout, text)
                .hint("the manager continues; `olm catalog list` shows the state")
                .hint("check the manager: olm self status"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        source = api.get(&source.name_any()).await?;
    }
    match reading(&source) {
        Reading::Failed { message, .. } => {
            let text = format!("failed to read catalog {}: {message}", place(&source));
            Err(Failure::new(Code::Unexpected, text).hint("fix the cause; the manager retries automatically"))
        }
        Reading::Ready(_) | Reading::Pending(_) => Ok(source),
    }
}

#[cfg(test)]
mod tests {
    use olm_api::catalog_source::CatalogSourceStatus;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A source with the annotation and the handled request.
    fn source(annotation: &str, handled: Option<&str>) -> CatalogSource {
        let mut source = CatalogSource::new("acme", olm_api::CatalogSourceSpec::default());
        source.annotations_mut().insert(names::ANNOTATION_REFRESH.into(), annotation.into());
        let last_handled_refresh = handled.map(str::to_owned);
        source.status = Some(CatalogSourceStatus { last_handled_refresh, ..CatalogSourceStatus::default() });
        source
    }

    #[test]
    fn of_two_callers_each_waits_for_its_read_or_a_later_one() {
        let [first, second, third] = [10, 20, 30].map(|second| at(second).to_string());
        // the read of the first request does not end the wait of the second
        assert!(is_handled(&source(&second, Some(&first)), at(10)));
        assert!(!is_handled(&source(&second, Some(&first)), at(20)));
        assert!(!is_handled(&source(&first, None), at(10)));
        // that of the second ends both, also when the clock of its caller is slow, or a third one follows
        for requested in [at(10), at(20), at(25)] {
            assert!(is_handled(&source(&second, Some(&second)), requested));
        }
        assert!(is_handled(&source(&third, Some(&second)), at(10)));
        // another client may write any value
        assert!(is_handled(&source("now", Some("now")), at(10)));
        assert!(!is_handled(&source("now", Some("before")), at(10)));
    }

    #[test]
    fn a_request_is_later_than_the_previous_one() {
        let time = |previous: &str| request_time(&source(previous, None), at(10));
        assert_eq!(time(&at(5).to_string()), at(10));
        assert!(time(&at(10).to_string()) > at(10));
        assert!(time(&at(20).to_string()) > at(20));
        assert_eq!(time("now"), at(10));
        assert_eq!(time(&Timestamp::MAX.to_string()), at(10));
        assert_eq!(
            request_time(&CatalogSource::new("acme", olm_api::CatalogSourceSpec::default()), at(10)),
            at(10)
        );
    }
}
