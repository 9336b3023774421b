//! The status of a CatalogSource: its content (pure), and one write.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use olm_api::{
    CatalogSource, CatalogSourceStatus, Condition,
    catalog_source::{ConnectionState, RegistryService},
    condition, names,
};
use olm_engine::{
    catalogs::Problem,
    limits::{TEXT, truncate},
    site::{HTTP_PORT, MANAGER},
};

use super::{jobs::View, source::RequestedSource, template::Template};
use crate::{
    context::{Ctx, Error},
    controllers::health::{self, Health},
};

/// Problems that are listed one by one; the condition contains their number.
const LISTED_PROBLEMS: usize = 20;
/// Files and ConfigMaps are checked every few seconds. An unchanged result updates the status at most this
/// often.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_secs(300);

pub(super) struct Inputs<'a> {
    pub(super) view: &'a View,
    /// `None` when the spec names no source.
    pub(super) requested: Option<&'a RequestedSource>,
    /// The problem of the interval; the content is fine.
    pub(super) interval: Option<&'a Problem>,
    pub(super) template: Option<&'a Template>,
}

/// Writes a changed status and records an event.
pub(super) async fn report(source: &CatalogSource, inputs: &Inputs<'_>, ctx: &Ctx) -> Result<(), Error> {
    let (new, old) = (status(source, inputs, &ctx.namespace, Timestamp::now()), source.status.as_ref());
    let changed = ctx.write_status(source, old, &new).await?;
    if let (true, Some(reason)) = (changed, &new.reason)
        && old.and_then(|s| s.reason.as_ref()) != Some(reason)
    {
        ctx.event(source, true, reason, new.message.as_deref().unwrap_or_default()).await;
    }
    Ok(())
}

fn status(
    source: &CatalogSource,
    inputs: &Inputs<'_>,
    manager_namespace: &str,
    now: Timestamp,
) -> CatalogSourceStatus {
    let Inputs { view, requested, .. } = *inputs;
    let mut status = source.status.clone().unwrap_or_default();
    let problem = view.problem.as_ref();
    let reported = problem.or(inputs.interval);
    status.reason = reported.map(|p| p.reason.to_owned());
    status.message = reported.map(|p| truncate(&p.message, TEXT));

    let served = view.catalog.as_deref();
    let state = match (problem, served) {
        (Some(_), _) => "TRANSIENT_FAILURE",
        (None, Some(_)) => "READY",
        (None, None) => "CONNECTING",
    };
    let old = status.connection_state.take().filter(|c| c.last_observed_state == state);
    let namespace = source.namespace().unwrap_or_default();
    let address = format!(
        "https://{MANAGER}.{manager_namespace}.svc:{HTTP_PORT}/catalogs/{namespace}/{}/api/v1/all",
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

    let is_image = matches!(requested, Some(RequestedSource::Image(_) | RequestedSource::Signed { .. }));
    if !is_image {
        status.latest_image_registry_poll = None;
    } else if let Some(read) = view.last_read {
        status.latest_image_registry_poll = Some(Time(read));
    }
    status.config_map_reference = match (requested, &view.config_map) {
        (Some(RequestedSource::ConfigMap(_)), Some(new)) => {
            // The time is that of reading this version, not of the last check.
            let old = status.config_map_reference.take();
            let same = |o: &olm_api::catalog_source::ConfigMapReference| {
                (&o.uid, &o.resource_version) == (&new.uid, &new.resource_version)
            };
            old.filter(same).or_else(|| Some(new.clone()))
        }
        _ => None,
    };
    status.digest = served.map(|c| c.digest.clone());
    status.packages = served.map(|c| i32::try_from(c.len()).unwrap_or(i32::MAX));
    status.resolved_source = served.and(view.resolved.as_ref()).map(|text| truncate(text, TEXT));
    let is_local = requested.is_some_and(RequestedSource::is_local);
    status.last_success = last_success(status.last_success.take(), view.last_success, is_local);
    // A new value starts a read at once.
    if !view.running {
        status.last_handled_refresh = source.annotations().get(names::ANNOTATION_REFRESH).cloned();
    }

    let problems = || {
        view.notes
            .iter()
            .cloned()
            .chain(served.into_iter().flat_map(|c| c.problems.iter().map(ToString::to_string)))
    };
    status.problems = problems().take(LISTED_PROBLEMS).map(|text| truncate(&text, 500)).collect();

    let generation = source.metadata.generation;
    status.observed_generation = generation;
    for type_ in ["Signed", "Stale", "TemplatesHaveResolved", "ResolvedImage"] {
        status.conditions.retain(|condition| condition.type_ != type_ || applies(type_, inputs));
    }
    let mut set = |mut new: Condition| {
        new.message = new.message.map(|message| truncate(&message, TEXT));
        new.observed_generation = generation;
        condition::set(&mut status.conditions, new, now);
    };
    match (problem, served) {
        (None, Some(_)) => set(Condition::new("Ready", true, "Serving", "the catalog is being served")),
        (None, None) if view.running => {
            set(Condition::new("Ready", false, "Connecting", "the catalog is being read for the first time"));
        }
        (None, None) => set(Condition::new("Ready", false, "Connecting", "waiting to read the catalog")),
        (Some(Problem { message, .. }), Some(_)) => {
            set(Condition::new("Ready", true, "Stale", format!("serving the previous content; {message}")));
        }
        (Some(Problem { code, message, .. }), None) => {
            set(Condition::new("Ready", false, *code, message.clone()))
        }
    }
    if let Some((signed, reason, message)) = signed(inputs) {
        set(Condition::new("Signed", signed, reason, message));
    }
    if let Some((reason, message)) = stale(view) {
        set(Condition::new("Stale", true, reason, message));
    }
    if let Some(catalog) = served {
        set(match (problems().count(), catalog.problems.first()) {
            (0, _) => Condition::new("Valid", true, "NoProblems", ""),
            (n, first) => {
                let first =
                    view.notes.first().cloned().or(first.map(ToString::to_string)).unwrap_or_default();
                let text = format!(
                    "{n} problem(s) found; invalid content is not served; the first problem: {first}"
                );
                Condition::new("Valid", false, "ProblemsFound", text)
            }
        });
    }
    if let Some(template) = inputs.template {
        set(match template.left.as_slice() {
            [] => Condition::new(
                "TemplatesHaveResolved",
                true,
                "AllTemplatesResolved",
                "catalog image reference was successfully resolved",
            ),
            left => Condition::new(
                "TemplatesHaveResolved",
                false,
                "UnableToResolve",
                format!("failed to resolve {}; using spec.image instead", left.join(", ")),
            ),
        });
        if let Some(image) = template.resolved() {
            set(Condition::new("ResolvedImage", true, "AllTemplatesResolved", image));
        }
    }
    let health = match (problem, served) {
        // Served content is usable, old or not: condition `Stale` reports its age.
        (_, Some(_)) => Health::Ready,
        (None, None) => Health::Working("Connecting".into(), "the catalog is being read".into()),
        (Some(Problem { code, message, .. }), None) => Health::Stalled((*code).into(), message.clone()),
    };
    health::set_abnormal_conditions(&mut status.conditions, &health, generation, now);
    status
}

/// Whether an optional condition applies.
fn applies(type_: &str, inputs: &Inputs<'_>) -> bool {
    match type_ {
        "Signed" => signed(inputs).is_some(),
        "Stale" => stale(inputs.view).is_some(),
        "TemplatesHaveResolved" => inputs.template.is_some(),
        _ => inputs.template.is_some_and(|template| template.resolved().is_some()),
    }
}

/// The signer of the served content; only where the spec requires one.
fn signed(inputs: &Inputs<'_>) -> Option<(bool, &'static str, String)> {
    let Some(RequestedSource::Signed { .. }) = inputs.requested else { return None };
    match (&inputs.view.catalog, &inputs.view.signer, &inputs.view.problem) {
        (Some(_), Some(signer), _) => Some((true, "Verified", format!("signed by {signer}"))),
        (_, _, Some(problem)) => Some((false, problem.code, problem.message.clone())),
        _ => None,
    }
}

/// Why the served content may differ from the source.
fn stale(view: &View) -> Option<(&'static str, String)> {
    view.catalog.as_ref()?;
    let since = || match view.last_success {
        Some(time) => format!("last read {time:.0}"),
        None => "not read since the manager started".to_owned(),
    };
    match &view.problem {
        Some(problem) => Some((problem.code, format!("{}; {}", since(), problem.message))),
        None if view.outdated => {
            let text = "serving the content of the previous spec until the new source is read";
            Some(("SpecChanged", text.to_owned()))
        }
        None => None,
    }
}

fn last_success(old: Option<Time>, new: Option<Timestamp>, is_local: bool) -> Option<Time> {
    let Some(new) = new else { return old };
    let recent = |old: &Time| is_local && new.duration_since(old.0).unsigned_abs() < MIN_UPDATE_INTERVAL;
    // Kubernetes' times have no fractions.
    old.filter(recent).or(Some(Time(new)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::controllers::health::judges::{self, Argo, Kstatus};

    fn source() -> CatalogSource {
        let mut source = CatalogSource::new("community", olm_api::CatalogSourceSpec::default());
        source.metadata.namespace = Some("olm".into());
        source
    }

    fn view(problem: Option<&str>) -> View {
        View {
            catalog: Some(Arc::default()),
            problem: problem.map(|message| Problem::new("RegistryServerError", "Unavailable", message)),
            last_success: Some(at(1)),
            last_read: Some(at(1)),
            resolved: Some("quay.io/x/cat:v1@sha256:1".into()),
            ..View::default()
        }
    }

    fn inputs<'a>(view: &'a View, requested: Option<&'a RequestedSource>) -> Inputs<'a> {
        Inputs { view, requested, interval: None, template: None }
    }

    fn image() -> RequestedSource {
        RequestedSource::Image("quay.io/x/cat:v1".into())
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn condition_of(status: &CatalogSourceStatus, type_: &str) -> Option<(bool, String)> {
        let found = condition::find(&status.conditions, type_)?;
        Some((found.is_true(), found.reason.clone().unwrap_or_default()))
    }

    #[test]
    fn t22_the_status_shows_the_signer_and_why_an_image_is_not_served() {
        let requested = RequestedSource::Signed { image: "quay.io/x/cat:v1".into(), by: Box::default() };
        let of = |view: &View| {
            let status = status(&source(), &inputs(view, Some(&requested)), "olm", at(1));
            let signed = condition::find(&status.conditions, "Signed").cloned().unwrap();
            (signed.is_true(), signed.reason.unwrap(), signed.message.unwrap())
        };
        let good = View { signer: Some("key sha256:1".into()), ..view(None) };
        assert_eq!(of(&good), (true, "Verified".into(), "signed by key sha256:1".into()));
        let problem = Problem::new("RegistryServerError", "WrongKey", "not signed with the required key");
        let bad = View { catalog: None, problem: Some(problem), ..view(None) };
        assert_eq!(of(&bad), (false, "WrongKey".into(), "not signed with the required key".into()));
        let none = status(&source(), &inputs(&view(None), Some(&image())), "olm", at(1));
        assert!(condition::find(&none.conditions, "Signed").is_none());
    }

    #[test]
    fn a_loaded_catalog_is_ready_and_reports_its_address_and_content() {
        let status = status(&source(), &inputs(&view(None), Some(&image())), "olm", at(1));
        let connection = status.connection_state.clone().unwrap();
        assert_eq!(connection.last_observed_state, "READY");
        assert_eq!(
            connection.address.as_deref(),
            Some("https://olm-manager.olm.svc:8080/catalogs/olm/community/api/v1/all")
        );
        assert_eq!(status.reason, None);
        assert_eq!(status.resolved_source.as_deref(), Some("quay.io/x/cat:v1@sha256:1"));
        assert_eq!(status.latest_image_registry_poll, Some(Time(at(1))));
        assert_eq!(condition_of(&status, "Stale"), None);
    }

    #[test]
    fn a_requested_refresh_is_handled_when_its_read_has_ended() {
        let mut source = source();
        let mut handled = |running: bool| {
            let view = View { running, ..view(None) };
            let status = status(&source, &inputs(&view, Some(&image())), "olm", at(1));
            let handled = status.last_handled_refresh.clone();
            source.status = Some(status);
            source.annotations_mut().insert(names::ANNOTATION_REFRESH.into(), "1".into());
            handled
        };
        assert_eq!(handled(false), None);
        assert_eq!(handled(true), None);
        assert_eq!(handled(false).as_deref(), Some("1"));
        assert_eq!(handled(true).as_deref(), Some("1"));
    }

    #[test]
    fn before_the_first_look_it_is_connecting() {
        let view = View { running: true, ..View::default() };
        let status = status(&source(), &inputs(&view, Some(&image())), "olm", at(1));
        assert_eq!(status.connection_state.as_ref().unwrap().last_observed_state, "CONNECTING");
        assert_eq!(condition_of(&status, "Ready"), Some((false, "Connecting".into())));
    }

    #[test]
    fn a_failed_refresh_keeps_serving_and_reports_the_cause() {
        let status = status(&source(), &inputs(&view(Some("no route")), Some(&image())), "olm", at(1));
        assert_eq!(status.connection_state.as_ref().unwrap().last_observed_state, "TRANSIENT_FAILURE");
        assert_eq!(status.reason.as_deref(), Some("RegistryServerError"));
        assert_eq!(status.message.as_deref(), Some("no route"));
        assert_eq!(condition_of(&status, "Ready"), Some((true, "Stale".into())));
        assert_eq!(condition_of(&status, "Stale"), Some((true, "Unavailable".into())));
    }

    #[test]
    fn a_success_takes_the_failure_back() {
        let mut source = source();
        source.status = Some(status(&source, &inputs(&view(Some("no route")), Some(&image())), "olm", at(1)));
        let after = status(&source, &inputs(&view(None), Some(&image())), "olm", at(2));
        assert_eq!(condition_of(&after, "Stale"), None);
        assert_eq!((after.reason, after.message), (None, None));
    }

    #[test]
    fn without_content_the_cause_is_the_reason() {
        let problem = Problem::new("RegistryServerError", "AccessDenied", "401");
        let view = View { problem: Some(problem), ..View::default() };
        let status = status(&source(), &inputs(&view, Some(&image())), "olm", at(1));
        assert_eq!(condition_of(&status, "Ready"), Some((false, "AccessDenied".into())));
        assert_eq!(status.connection_state.unwrap().address, None);
    }

    #[test]
    fn content_of_an_earlier_spec_is_stale() {
        let view = View { outdated: true, running: true, ..view(None) };
        let status = status(&source(), &inputs(&view, Some(&image())), "olm", at(1));
        assert_eq!(condition_of(&status, "Stale"), Some((true, "SpecChanged".into())));
    }

    #[test]
    fn a_bad_interval_is_reported_for_a_ready_catalog() {
        let problem = Problem::new("InvalidIntervalError", "InvalidIntervalError", "soon");
        let view = view(None);
        let inputs = Inputs { interval: Some(&problem), ..inputs(&view, None) };
        let status = status(&source(), &inputs, "olm", at(1));
        assert_eq!(status.reason.as_deref(), Some("InvalidIntervalError"));
        assert_eq!(status.connection_state.unwrap().last_observed_state, "READY");
    }

    #[test]
    fn a_template_reports_its_resolved_image() {
        let view = view(None);
        let template = super::super::template::resolve("cat:v{kube_major_version}", Some("v1.33.0"));
        let inputs = Inputs { template: Some(&template), ..inputs(&view, None) };
        let status = status(&source(), &inputs, "olm", at(1));
        let image = condition::find(&status.conditions, "ResolvedImage").unwrap();
        assert_eq!(image.message.as_deref(), Some("cat:v1"));
        assert_eq!(
            condition_of(&status, "TemplatesHaveResolved"),
            Some((true, "AllTemplatesResolved".into()))
        );
    }

    #[test]
    fn nothing_new_is_an_equal_status() {
        for requested in [image(), RequestedSource::Directory("/srv".into())] {
            let mut source = source();
            let first = status(&source, &inputs(&view(None), Some(&requested)), "olm", at(1));
            source.status = Some(first.clone());
            let second = status(&source, &inputs(&view(None), Some(&requested)), "olm", at(99));
            assert_eq!(first, second);
        }
    }

    #[test]
    fn that_a_folder_is_unchanged_is_no_news_every_few_seconds() {
        let time = |second| Some(Time(at(second)));
        assert_eq!(last_success(time(100), Some(at(115)), true), time(100));
        assert_eq!(last_success(time(100), Some(at(115)), false), time(115));
        assert_eq!(last_success(time(100), Some(at(400)), true), time(400));
        assert_eq!(last_success(None, Some(at(1)), true), time(1));
    }

    /// The health that Flux and Argo CD derive from a catalog.
    #[test]
    fn tools_that_know_only_the_usual_conditions_see_how_it_stands() {
        let nothing = || View { catalog: None, ..view(None) };
        let unreadable = View { catalog: None, ..view(Some("no route")) };
        let cases = [
            ("waiting to read", nothing(), Kstatus::InProgress, Argo::Progressing),
            ("being read", View { running: true, ..nothing() }, Kstatus::InProgress, Argo::Progressing),
            ("unreadable", unreadable, Kstatus::Failed, Argo::Degraded),
            ("served", view(None), Kstatus::Current, Argo::Healthy),
            ("served, and old", view(Some("no route")), Kstatus::Current, Argo::Healthy),
        ];
        let mut source = source();
        source.metadata.generation = Some(2);
        for (name, view, kstatus, argo) in cases {
            let new = status(&source, &inputs(&view, Some(&image())), "olm", at(1));
            let seen = judges::object(&source, &new);
            assert_eq!(judges::kstatus(&seen), kstatus, "{name}: {seen}");
            assert_eq!(judges::argo_with_our_check(&seen), argo, "{name}");
            assert_eq!(judges::argo(&seen), Argo::NotLookedAt);
            source.status = Some(new);
        }
    }
}
