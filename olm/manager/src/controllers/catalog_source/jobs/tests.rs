use olm_engine::catalogs::{Backend, BundleImages, CatalogRef, LoadedCatalog, Own};
use olm_testing::{Mood, Registry, catalog, client};
use serde_json::json;

use super::*;
use crate::testing::{access, registries};

/// Short enough for a test, and long enough to check in between.
const EVERY: Duration = Duration::from_millis(50);

struct World {
    jobs: Arc<Jobs>,
    refresh: Arc<Refresh>,
    registry: Registry,
    folder: Arc<tempfile::TempDir>,
}

impl World {
    async fn new() -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        Self::over(Registry::start().await, folder)
    }

    fn over(registry: Registry, folder: Arc<tempfile::TempDir>) -> Self {
        let cache_dir = Arc::new(CacheDir::open(Some(folder.path())).unwrap());
        let refresh = Arc::<Refresh>::default();
        let jobs = Arc::new(Jobs::new(cache_dir, Arc::clone(&refresh), Arc::default()));
        Self { jobs, refresh, registry, folder }
    }

    /// The manager ends and is started again.
    async fn restart(self) -> Self {
        let Self { jobs, refresh, registry, folder } = self;
        jobs.stop();
        let tasks = Arc::downgrade(&jobs);
        drop((jobs, refresh));
        // Running reads end at their next poll.
        while tasks.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        Self::over(registry, folder)
    }

    fn request(&self, name: &str, requested: RequestedSource) -> Request {
        Request {
            key: ("olm".into(), name.into()),
            uid: "1".into(),
            requested,
            secrets: Vec::new(),
            every: Some(EVERY),
            refresh: String::new(),
            client: client(Vec::new()),
            access: access(&self.registry),
        }
    }

    async fn observe(&self, name: &str, requested: RequestedSource) -> View {
        self.jobs.observe(self.request(name, requested)).await
    }

    /// Polls, as the controller does, until the expected state.
    async fn until(&self, name: &str, requested: RequestedSource, seen: impl Fn(&View) -> bool) -> View {
        let mut wakes = self.refresh.wakes();
        let search = async {
            loop {
                let view = self.observe(name, requested.clone()).await;
                if seen(&view) {
                    return view;
                }
                let due = view.due.unwrap_or(Duration::from_secs(3600));
                tokio::select! {
                    _ = wakes.changed() => {}
                    () = tokio::time::sleep(due) => {}
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), search).await.expect("it is never seen")
    }
}

fn image(reference: &str) -> RequestedSource {
    RequestedSource::Image(reference.to_owned())
}

fn has(package: &'static str) -> impl Fn(&View) -> bool {
    move |view| view.catalog.as_ref().is_some_and(|catalog| catalog.summary(package).is_some())
}

#[tokio::test]
async fn an_image_is_polled_by_digest_and_read_when_it_changed() {
    // given a catalog in a registry
    let world = World::new().await;
    let reference = world.registry.push_catalog(&catalog("a", "1.0.0"));
    let view = world.until("cat", image(&reference), has("a")).await;
    assert!(view.resolved.unwrap().starts_with(&format!("{reference}@sha256:")));
    assert!(view.bytes > 0 && view.last_success.is_some());

    // when it is polled with nothing new, then no manifest is read
    let before = world.registry.asked("GET cat/manifests");
    let heads = world.registry.asked("HEAD cat/manifests");
    let registry = world.registry.clone();
    world.until("cat", image(&reference), |_| registry.asked("HEAD cat/manifests") > heads + 1).await;
    assert_eq!(world.registry.asked("GET cat/manifests"), before);

    // when the tag moves, then a poll finds it
    world.registry.push_catalog(&catalog("b", "1.0.0"));
    world.until("cat", image(&reference), has("b")).await;
}

#[tokio::test]
async fn t22_an_image_is_read_only_when_it_is_signed_as_required() {
    // given a catalog that must be signed, and is not
    let world = World::new().await;
    let reference = world.registry.push_catalog(&catalog("a", "1.0.0"));
    let (key, other) = (rcgen::KeyPair::generate().unwrap(), rcgen::KeyPair::generate().unwrap());
    let by = olm_signatures::Requirement { key: Some(key.public_key_pem()), ..Default::default() };
    let requested = RequestedSource::Signed { image: reference.clone(), by: Box::new(by) };
    let code = |code: &'static str| {
        move |view: &View| view.problem.as_ref().is_some_and(|problem| problem.code == code)
    };
    let request = || {
        // Failures are retried after seconds; another secret restarts the read.
        let mut request = world.request("cat", requested.clone());
        request.secrets = vec![world.registry.asked("").to_string()];
        request
    };
    let again = async |seen: &dyn Fn(&View) -> bool| {
        let request = request();
        let secrets = request.secrets.clone();
        let mut view = world.jobs.observe(request).await;
        while !seen(&view) {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let mut request = world.request("cat", requested.clone());
            request.secrets.clone_from(&secrets);
            view = world.jobs.observe(request).await;
        }
        view
    };
    let view = again(&code("NotSigned")).await;
    assert!(view.catalog.is_none());
    // when it is signed with another key, then it is not read either
    world.registry.sign_catalog(&other);
    assert!(again(&code("WrongKey")).await.catalog.is_none());
    // when it is signed, then it is read and the signer is known
    world.registry.sign_catalog(&key);
    let view = world.until("cat", requested.clone(), has("a")).await;
    assert!(view.signer.unwrap().starts_with("key sha256:") && view.resolved.unwrap().contains("@sha256:"));
    // when the tag moves to an image without a signature, then the verified one stays in use
    world.registry.push_catalog(&catalog("b", "1.0.0"));
    let view = world.until("cat", requested.clone(), code("NotSigned")).await;
    assert!(has("a")(&view) && !has("b")(&view));
}

#[tokio::test]
async fn a_registry_that_refuses_leaves_the_last_good_copy_and_the_reason() {
    // given a catalog that is served
    let world = World::new().await;
    let reference = world.registry.push_catalog(&catalog("a", "1.0.0"));
    world.until("cat", image(&reference), has("a")).await;
    // when the registry refuses
    world.registry.mood(Mood::Denies);
    let view = world.until("cat", image(&reference), |view| view.problem.is_some()).await;
    // then the reason is known, the content is there, and the next read is not at once
    let problem = view.problem.clone().unwrap();
    assert_eq!((problem.reason, problem.code), ("RegistryServerError", "AccessDenied"));
    assert!(has("a")(&view));
    assert!(view.due.unwrap() > Duration::from_secs(2), "{:?}", view.due);
}

#[tokio::test]
async fn a_restart_serves_what_was_there_and_reads_nothing_that_has_not_changed() {
    // given a catalog that was read
    let world = World::new().await;
    let reference = world.registry.push_catalog(&catalog("a", "1.0.0"));
    world.until("cat", image(&reference), has("a")).await;
    let before = world.registry.asked("GET cat/manifests");
    // when the manager restarts with a registry that hangs
    world.registry.mood(Mood::Hangs);
    let world = world.restart().await;
    // then the content is there at once
    let view = world.observe("cat", image(&reference)).await;
    assert!(has("a")(&view) && view.running && !view.outdated, "{view:?}");
    drop(view);
    // when the registry recovers, after another restart
    world.registry.mood(Mood::Fine);
    let world = world.restart().await;
    world.until("cat", image(&reference), |view| view.last_read.is_some()).await;
    assert_eq!(world.registry.asked("GET cat/manifests"), before);
}

#[tokio::test]
async fn one_that_was_made_anew_under_the_same_name_is_another_one() {
    let world = World::new().await;
    let reference = world.registry.push_catalog(&catalog("a", "1.0.0"));
    world.until("cat", image(&reference), has("a")).await;
    world.registry.mood(Mood::Hangs);
    let world = world.restart().await;
    let request = Request { uid: "2".into(), ..world.request("cat", image(&reference)) };
    assert!(world.jobs.observe(request).await.catalog.is_none());
}

#[tokio::test]
async fn a_hanging_registry_delays_no_other_source_and_a_changed_spec_ends_the_wait() {
    // given a registry that hangs and one that does not
    let world = World::new().await;
    let slow = world.registry.push_catalog(&catalog("slow", "1.0.0"));
    world.registry.mood(Mood::Hangs);
    let fast = Registry::start().await;
    let reference = fast.push_catalog(&catalog("fast", "1.0.0"));
    assert!(world.observe("slow", image(&slow)).await.running);
    // when another catalog is requested, then it is read
    let mut wakes = world.refresh.wakes();
    let request = || Request { access: access(&fast), ..world.request("fast", image(&reference)) };
    world.jobs.observe(request()).await;
    tokio::time::timeout(Duration::from_secs(60), wakes.changed()).await.unwrap().unwrap();
    assert!(has("fast")(&world.jobs.observe(request()).await));
    // when the slow one's spec is changed, then the read is cancelled
    let request = || Request { access: access(&fast), ..world.request("slow", image(&reference)) };
    let mut wakes = world.refresh.wakes();
    assert!(world.jobs.observe(request()).await.running);
    tokio::time::timeout(Duration::from_secs(60), wakes.changed()).await.unwrap().unwrap();
    assert!(has("fast")(&world.jobs.observe(request()).await));
}

#[tokio::test]
async fn a_spec_without_a_source_keeps_the_content_and_is_reported() {
    let world = World::new().await;
    let reference = world.registry.push_catalog(&catalog("a", "1.0.0"));
    world.until("cat", image(&reference), has("a")).await;
    let problem = Problem::new("SpecInvalidError", "SpecInvalidError", "no");
    let view = world.jobs.refuse(&("olm".into(), "cat".into()), "1", problem.clone()).await;
    assert_eq!(view.problem, Some(problem));
    assert!(has("a")(&view) && view.outdated && view.due.is_none());
}

#[tokio::test]
async fn a_deleted_one_leaves_nothing_behind() {
    // given one that was read, and is being read again
    let world = World::new().await;
    let reference = world.registry.push_catalog(&catalog("a", "1.0.0"));
    world.until("cat", image(&reference), has("a")).await;
    world.registry.mood(Mood::Hangs);
    world.until("cat", image(&reference), |view| view.running).await;
    // when it is deleted
    world.jobs.forget(&("olm".into(), "cat".into()));
    // then nothing of it is left
    assert!(world.jobs.keys().is_empty());
    let packages = world.folder.path().join("store/packages");
    assert_eq!(std::fs::read_dir(packages).unwrap().count(), 0);
}

#[tokio::test]
async fn damage_on_the_disk_is_repaired_from_the_source() {
    // given a catalog that is never polled
    let world = World::new().await;
    let reference = world.registry.push_catalog(&catalog("a", "1.0.0"));
    let request = || Request { every: None, ..world.request("cat", image(&reference)) };
    let mut wakes = world.refresh.wakes();
    world.jobs.observe(request()).await;
    wakes.changed().await.unwrap();
    let loaded = |view: View| LoadedCatalog {
        backend: Backend::Own(Arc::new(Own {
            catalog: CatalogRef::new("olm", "cat"),
            images: BundleImages::new(world.folder.path().join("bundles")),
            signatures: Arc::default(),
            access: access(&world.registry),
            refresh: Arc::clone(&world.refresh),
        })),
        ..LoadedCatalog::new(CatalogRef::new("olm", "cat"), view.catalog.unwrap())
    };
    let catalog = loaded(world.jobs.observe(request()).await);
    // when its file is damaged
    for entry in std::fs::read_dir(world.folder.path().join("store/packages")).unwrap().flatten() {
        std::fs::write(entry.path(), "rubbish").unwrap();
    }
    let mut wakes = world.refresh.wakes();
    assert!(catalog.package("a").await.is_err());
    // then that alone triggers another read, although its digest is the same
    wakes.changed().await.unwrap();
    world.jobs.observe(request()).await;
    wakes.changed().await.unwrap();
    let catalog = loaded(world.jobs.observe(request()).await);
    assert!(catalog.package("a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_missing_pull_secret_is_reported_when_the_registry_refuses() {
    let world = World::new().await;
    let reference = world.registry.push_catalog(&catalog("a", "1.0.0"));
    world.registry.mood(Mood::Denies);
    let secret = "pull".to_owned();
    let request = || Request {
        access: Access::new(
            client(Vec::new()),
            registries(&world.registry),
            "olm",
            std::slice::from_ref(&secret),
        ),
        ..world.request("cat", image(&reference))
    };
    let mut wakes = world.refresh.wakes();
    world.jobs.observe(request()).await;
    wakes.changed().await.unwrap();
    let problem = world.jobs.observe(request()).await.problem.unwrap();
    assert!(
        problem.message.contains("pull secret olm/pull (spec.secrets) does not exist"),
        "{}",
        problem.message
    );
}

#[tokio::test]
async fn a_pull_secret_opens_a_registry_that_wants_a_log_in() {
    // given a registry that requires one, and a Secret with it (base64 of me:pw)
    let world = World::new().await;
    let reference = world.registry.push_catalog(&catalog("a", "1.0.0"));
    world.registry.mood(Mood::Wants("Basic bWU6cHc="));
    let config = json!({ "auths": { world.registry.host.clone(): { "username": "me", "password": "pw" } } });
    let config = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, config.to_string());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "pull", "namespace": "olm" },
        "type": "kubernetes.io/dockerconfigjson", "data": { ".dockerconfigjson": config },
    });
    let request = || {
        let api = client(vec![("/namespaces/olm/secrets/pull", secret.clone())]);
        let secrets = vec!["pull".to_owned()];
        let access = Access::new(api, registries(&world.registry), "olm", &secrets);
        Request { access, secrets, ..world.request("cat", image(&reference)) }
    };
    // when it is used, then the catalog is there
    let mut wakes = world.refresh.wakes();
    world.jobs.observe(request()).await;
    wakes.changed().await.unwrap();
    let view = world.jobs.observe(request()).await;
    assert!(has("a")(&view), "{view:?}");
}

#[tokio::test]
async fn a_folder_may_hold_a_catalog_or_bundles_and_one_without_either_is_refused() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let requested = RequestedSource::Directory(folder.path().to_owned());
    // given nothing, then that is reported
    let view = world.until("cat", requested.clone(), |view| view.problem.is_some()).await;
    assert_eq!(view.problem.unwrap().reason, "RegistryServerError");
    // given a folder of bundles, then it is a catalog
    let bundles = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles");
    let view =
        world.until("bundles", RequestedSource::Directory(bundles), |view| view.catalog.is_some()).await;
    assert!(has("etcd")(&view), "{view:?}");
    // given a catalog, then it is read, and again when a file of it changes
    std::fs::write(folder.path().join("catalog.yaml"), catalog("a", "1.0.0")).unwrap();
    let other = world.until("other", requested.clone(), has("a")).await;
    assert!(other.problem.is_none());
    std::fs::write(folder.path().join("more.yaml"), catalog("b", "1.0.0")).unwrap();
    world.until("other", requested, has("b")).await;
}

#[tokio::test]
async fn a_config_map_that_is_missing_or_empty_is_an_error_of_its_own() {
    let world = World::new().await;
    let requested = || RequestedSource::ConfigMap("ops".into());
    let missing = world.until("cat", requested(), |view| view.problem.is_some()).await.problem.unwrap();
    assert_eq!((missing.reason, missing.code), ("ConfigMapError", "ConfigMapMissing"));
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "ops", "namespace": "olm" }, "data": {},
    });
    let request = || Request {
        client: client(vec![("/configmaps/ops", map.clone())]),
        ..world.request("empty", requested())
    };
    let mut wakes = world.refresh.wakes();
    world.jobs.observe(request()).await;
    wakes.changed().await.unwrap();
    let problem = world.jobs.observe(request()).await.problem.unwrap();
    assert_eq!(problem.reason, "ConfigMapError");
}

#[test]
fn a_result_of_a_look_that_is_not_wanted_any_more_changes_nothing() {
    // given a track whose spec changed during a read
    let now = Instant::now();
    let mut track = Track::default();
    assert!(track.turn_to("a", Some(EVERY), false, now), "a new spec is looked at at once");
    assert_eq!(track.previous(false), None);
    // when there is content of one spec
    let revision = olm_catalog_sources::Revision { digest: "1".into(), etag: None };
    let got = FetchResult {
        catalog: Some(Arc::default()),
        revision: Some(revision.clone()),
        ..FetchResult::default()
    };
    assert!(track.record_result(Ok(got), now, 0.5).is_some());
    assert_eq!(track.previous(false), Some(revision));
    assert_eq!(track.previous(true), None, "damaged content is read whatever its digest is");
    // then another spec triggers a new read, and the old content stays meanwhile
    assert!(track.turn_to("b", Some(EVERY), false, now));
    assert_eq!(track.previous(false), None);
    assert!(track.view(now).outdated);
}

#[test]
fn nothing_new_is_not_written_down() {
    let now = Instant::now();
    let mut track = Track::default();
    track.turn_to("a", None, false, now);
    let got = || FetchResult {
        revision: Some(olm_catalog_sources::Revision { digest: "1".into(), etag: None }),
        ..FetchResult::default()
    };
    assert!(track.record_result(Ok(got()), now, 0.5).is_some());
    assert!(track.record_result(Ok(got()), now, 0.5).is_none());
    assert_eq!(track.due, None, "without an interval it is looked at once");
}

#[test]
fn a_refresh_is_not_postponed_by_an_interval_that_changes_with_it() {
    let now = Instant::now();
    let mut track = Track::default();
    track.turn_to("a", None, false, now);
    assert!(track.record_result(Ok(FetchResult::default()), now, 0.5).is_none());
    let requested = track.refresh("1".into());
    assert!(requested && track.turn_to("a", Some(EVERY), requested, now));
}

#[tokio::test]
async fn a_requested_refresh_reads_a_source_that_is_not_due() {
    // given a catalog that is read once
    let world = World::new().await;
    let reference = world.registry.push_catalog(&catalog("a", "1.0.0"));
    let request = |refresh: &str| Request {
        every: None,
        refresh: refresh.into(),
        ..world.request("cat", image(&reference))
    };
    let until = async |refresh: &str, package: &'static str| {
        let mut wakes = world.refresh.wakes();
        let seen = async {
            while !has(package)(&world.jobs.observe(request(refresh)).await) {
                _ = wakes.changed().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), seen).await.expect("it is never seen");
    };
    until("", "a").await;
    world.registry.push_catalog(&catalog("b", "1.0.0"));
    assert!(has("a")(&world.jobs.observe(request("")).await), "a read without a request");
    // when a refresh is requested, then it is read, and only once
    until("1", "b").await;
    let heads = world.registry.asked("HEAD cat/manifests");
    assert!(!world.jobs.observe(request("1")).await.running);
    assert_eq!(world.registry.asked("HEAD cat/manifests"), heads);
}
