//! The gRPC API over a socket. The expected answers for the fixture are those of `opm serve`, in the order of
//! this server.

use std::net::Ipv4Addr;
use std::sync::Arc;

use futures::{Stream, StreamExt, TryStreamExt};
use olm_catalog::{Catalog, Store};
use olm_registry_api::experimental_registry_client::ExperimentalRegistryClient;
use olm_registry_api::registry_client::RegistryClient;
use olm_registry_api::{
    ACKNOWLEDGE_EXPERIMENTAL, Bundle, ChannelEntry, Dependency, Deprecation,
    ExperimentalListPackageCustomSchemasRequest as CustomRequest, GetAllProvidersRequest,
    GetAllReplacementsRequest, GetBundleInChannelRequest, GetBundleRequest, GetDefaultProviderRequest,
    GetLatestProvidersRequest, GetPackageRequest, GetReplacementRequest, GroupVersionKind,
    ListBundlesRequest, ListPackageRequest, Property, Struct,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::{Addresses, Server, fixture};

/// A server that stops when it is dropped.
struct Running {
    channel: Channel,
    _stop: oneshot::Sender<()>,
}

impl Running {
    fn registry(&self) -> RegistryClient<Channel> {
        RegistryClient::new(self.channel.clone())
    }
}

async fn start(catalog: Arc<Catalog>) -> Running {
    let addresses = Addresses { http: None, grpc: Some((Ipv4Addr::LOCALHOST, 0).into()) };
    let server = Server::bind(catalog, "test", addresses).await.unwrap();
    let address = server.addresses().grpc.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server.run(async { _ = stopped.await }));
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    Running { channel: endpoint.connect().await.unwrap(), _stop: stop }
}

async fn all<T>(
    answer: Result<tonic::Response<impl Stream<Item = Result<T, Status>>>, Status>,
) -> Result<Vec<T>, Status> {
    answer?.into_inner().try_collect().await
}

/// Code and message of an error.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.unwrap_err();
    (status.code(), status.message().to_owned())
}

fn not_found(message: &str) -> (Code, String) {
    (Code::NotFound, message.to_owned())
}

fn in_channel(package: &str, channel: &str, name: &str) -> GetBundleRequest {
    GetBundleRequest { pkg_name: package.into(), channel_name: channel.into(), csv_name: name.into() }
}

fn replacement(package: &str, channel: &str, name: &str) -> GetReplacementRequest {
    GetReplacementRequest { csv_name: name.into(), pkg_name: package.into(), channel_name: channel.into() }
}

fn head(package: &str, channel: &str) -> GetBundleInChannelRequest {
    GetBundleInChannelRequest { pkg_name: package.into(), channel_name: channel.into() }
}

fn entry(text: &str) -> ChannelEntry {
    let mut parts = text.split(' ').map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    ChannelEntry { package_name: part(), channel_name: part(), bundle_name: part(), replaces: part() }
}

fn entries(texts: &[&str]) -> Vec<ChannelEntry> {
    texts.iter().map(|text| entry(text)).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// `p.v2` of the fixture, as a single answer.
fn second() -> Bundle {
    let gvk = |group: &str, kind: &str| GroupVersionKind {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: String::new(),
    };
    let property = |type_: &str, value: &str| Property { r#type: type_.into(), value: value.into() };
    let dependency = |type_: &str, value: &str| Dependency { r#type: type_.into(), value: value.into() };
    let csv = "{\"apiVersion\":\"operators.coreos.com/v1alpha1\",\"kind\":\"ClusterServiceVersion\",\
               \"metadata\":{\"name\":\"p.v2\"},\"spec\":{\"displayName\":\"<b>&P</b>\",\"version\":\"1.0.0\"}}";
    Bundle {
        csv_name: "p.v2".into(),
        package_name: "p".into(),
        channel_name: "s".into(),
        csv_json: csv.into(),
        object: vec![csv.into()],
        bundle_path: "q.io/p:2".into(),
        provided_apis: vec![gvk("g", "K")],
        required_apis: vec![gvk("r", "R")],
        version: "2.0.0-rc.1+b".into(),
        skip_range: "<2.0.0-rc.1".into(),
        dependencies: vec![
            dependency("olm.gvk", "{\"group\":\"r\",\"kind\":\"R\",\"version\":\"v1\"}"),
            dependency("olm.package", "{\"packageName\":\"other\",\"version\":\">1.0.0 <2.0.0\"}"),
        ],
        properties: vec![
            property("olm.package", "{\"packageName\":\"p\",\"version\":\"2.0.0-rc.1+b\"}"),
            property("olm.gvk", "{\"group\":\"g\",\"kind\":\"K\",\"version\":\"v1\"}"),
            property("olm.gvk.required", "{\"group\":\"r\",\"kind\":\"R\",\"version\":\"v1\"}"),
            property(
                "olm.package.required",
                "{\"packageName\":\"other\",\"versionRange\":\">1.0.0 <2.0.0\"}",
            ),
            property(
                "olm.constraint",
                "{\"failureMessage\":\"a<b\",\"gvk\":{\"group\":\"r\",\"kind\":\"R\",\"version\":\"v1\"}}",
            ),
            property("x", "[1,2.5,null,\"ü<\"]"),
        ],
        replaces: String::new(),
        skips: Vec::new(),
        deprecation: Some(Deprecation { message: "2 old".into() }),
    }
}

#[tokio::test]
async fn packages_with_their_channels() {
    let running = start(fixture::catalog()).await;
    let mut client = running.registry();
    let names = all(client.list_packages(ListPackageRequest {}).await).await.unwrap();
    assert_eq!(names.into_iter().map(|package| package.name).collect::<Vec<_>>(), ["p", "q"]);

    let package = client.get_package(GetPackageRequest { name: "p".into() }).await.unwrap().into_inner();
    assert_eq!((package.name.as_str(), package.default_channel_name.as_str()), ("p", "s"));
    let deprecated = |message: &str| Some(Deprecation { message: message.into() });
    assert_eq!(package.deprecation, deprecated("P old"));
    let channels: Vec<_> = package
        .channels
        .into_iter()
        .map(|channel| (channel.name, channel.csv_name, channel.deprecation))
        .collect();
    assert_eq!(
        channels,
        [("s".into(), "p.v2".into(), None), ("t".into(), "p.v4".into(), deprecated("T old"))]
    );

    let missing = client.get_package(GetPackageRequest { name: "n\"ö".into() }).await;
    assert_eq!(refusal(missing), not_found("package \"n\\\"ö\" not found"));
}

#[tokio::test]
async fn a_bundle_of_a_channel() {
    let running = start(fixture::catalog()).await;
    let mut client = running.registry();
    // Manifests are included although there is an image; the edges of the channel are not.
    let bundle = client.get_bundle(in_channel("p", "s", "p.v2")).await.unwrap().into_inner();
    assert_eq!(bundle, second());
    #[allow(deprecated)] // clients in use call it
    let head_of = client.get_bundle_for_channel(head("p", "s")).await.unwrap().into_inner();
    assert_eq!(head_of, second());
    for replaced in ["p.v1", "p.v1x", "p.v0"] {
        let answer = client.get_bundle_that_replaces(replacement("p", "s", replaced)).await.unwrap();
        assert_eq!(answer.into_inner(), second(), "{replaced}");
    }
    // An entry that replaces nothing replaces the empty name.
    let first = client.get_bundle_that_replaces(replacement("p", "s", "")).await.unwrap().into_inner();
    assert_eq!((first.csv_name.as_str(), first.bundle_path.as_str()), ("p.v1", ""));
    assert_eq!(first.object.len(), 2);
    assert_eq!((&first.object[0], first.object[1].as_str()), (&first.csv_json, fixture::CONFIG_MAP));
    // An image without other properties has no manifests.
    let third = client.get_bundle(in_channel("p", "t", "p.v3")).await.unwrap().into_inner();
    assert_eq!((third.csv_json.as_str(), third.object.len(), third.version.as_str()), ("", 0, "3.0.0"));
}

#[tokio::test]
async fn bundles_that_are_not_there() {
    let running = start(fixture::catalog()).await;
    let mut client = running.registry();
    let unknown = "package \"none\" not found";
    let no_channel = "package \"p\", channel \"none\" not found";
    for (request, message) in [
        (in_channel("none", "s", "p.v1"), unknown),
        (in_channel("p", "none", "p.v1"), no_channel),
        (in_channel("p", "s", "none"), "package \"p\", channel \"s\", bundle \"none\" not found"),
        (in_channel("p", "s", "p.v3"), "package \"p\", channel \"s\", bundle \"p.v3\" not found"),
    ] {
        assert_eq!(refusal(client.get_bundle(request).await), not_found(message));
    }
    for (request, message) in [
        (replacement("none", "s", "p.v1"), unknown),
        (replacement("p", "none", "p.v1"), no_channel),
        (replacement("p", "s", "p.v2"), "no entry found for package \"p\", channel \"s\""),
    ] {
        assert_eq!(refusal(client.get_bundle_that_replaces(request).await), not_found(message));
    }
    for (request, message) in [(head("none", "s"), unknown), (head("p", "none"), no_channel)] {
        #[allow(deprecated)]
        let answer = client.get_bundle_for_channel(request).await;
        assert_eq!(refusal(answer), not_found(message));
    }
}

#[tokio::test]
async fn of_several_replacements_the_newest_is_the_answer() {
    // given a bundle that two others upgrade from, and one that is not in the catalog
    let bundle = |name: &str, version: &str| {
        json!({"schema": "olm.bundle", "package": "n", "name": name, "image": "q.io/n:1", "properties": [
            {"type": "olm.package", "value": {"version": version, "packageName": "n"}},
        ]})
    };
    let entries = [
        json!({"name": "n.b", "replaces": "n.a"}),
        json!({"name": "n.c", "replaces": "n.b", "skips": ["n.a"]}),
        json!({"name": "n.z", "replaces": "n.c", "skips": ["n.a"]}),
        json!({"name": "n.a"}),
    ];
    for turn in 0..entries.len() {
        let mut entries = entries.to_vec();
        entries.rotate_left(turn);
        let documents = [
            json!({"schema": "olm.package", "name": "n", "defaultChannel": "c"}),
            json!({"schema": "olm.channel", "package": "n", "name": "c", "entries": entries}),
            bundle("n.a", "1.0.0"),
            bundle("n.b", "9.0.0"),
            bundle("n.c", "10.0.0"),
        ];
        let catalog = Catalog::from_bytes("newest", fixture::text(&documents).as_bytes());
        let running = start(Arc::new(catalog)).await;

        // then the answer is the one with the highest version, in any order of documents
        let answer = running.registry().get_bundle_that_replaces(replacement("n", "c", "n.a")).await.unwrap();
        assert_eq!(answer.into_inner().csv_name, "n.c");
    }
}

#[tokio::test]
async fn the_csv_is_made_of_its_metadata() {
    let running = start(fixture::catalog()).await;
    let mut client = running.registry();
    let made = client.get_bundle(in_channel("p", "t", "p.v4")).await.unwrap().into_inner();
    assert_eq!(
        json(&made.csv_json),
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": "p.v4", "labels": {"a": "b"}},
            "spec": {
                "apiservicedefinitions": {},
                "cleanup": {"enabled": false},
                "customresourcedefinitions": {"owned": [{"kind": "K", "name": "ks.g", "version": "v1"}]},
                "description": "about p",
                "displayName": "P",
                "icon": [{"base64data": "iVBORw0KGgpyZXN0", "mediatype": "image/png"}],
                "install": {"spec": {"deployments": null}, "strategy": "deployment"},
                "installModes": [{"supported": true, "type": "AllNamespaces"}],
                "provider": {},
                "relatedImages": [{"image": "q.io/p:3", "name": ""}],
                "version": "4.0.0",
            },
            "status": {"cleanup": {}},
        })
    );
    // It is not a manifest where there are others.
    assert_eq!(made.object, ["{\"kind\":\"ConfigMap\"}"]);
    let types: Vec<_> = made.properties.iter().map(|property| property.r#type.as_str()).collect();
    assert_eq!(types, ["olm.package"]);

    let empty = client.get_bundle(in_channel("q", "b", "q.v2")).await.unwrap().into_inner();
    assert_eq!(empty.object, [empty.csv_json.as_str()]);
    let spec = &json(&empty.csv_json)["spec"];
    assert_eq!(
        (&spec["displayName"], &spec["version"], spec.get("icon")),
        (&json!(""), &json!("2.0.0"), None)
    );
}

/// Packages without the bundle are not read: their texts do not even exist.
#[tokio::test]
async fn entries_that_replace_are_found_without_reading_other_packages() {
    let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let text: String = fixture::documents().iter().map(|document| format!("{document}\n")).collect();
    std::fs::write(dir.path().join("catalog.json"), text).unwrap();
    let store = Store::open(root.path()).unwrap();
    let catalog = store.refresh_dir("c", "test", dir.path()).unwrap().catalog;
    for package in std::fs::read_dir(root.path().join("packages")).unwrap() {
        let path = package.unwrap().path();
        if !std::fs::read_to_string(&path).unwrap().contains("\"package\":\"p\"") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let running = start(catalog).await;
    let mut client = running.registry();
    let request = |name: &str| GetAllReplacementsRequest { csv_name: name.into() };
    let found = all(client.get_channel_entries_that_replace(request("p.v1")).await).await.unwrap();
    assert_eq!(found, entries(&["p s p.v2 p.v1"]));
    let none = all(client.get_channel_entries_that_replace(request("p.v4")).await).await;
    assert_eq!(refusal(none).0, Code::NotFound);
}

#[tokio::test]
async fn entries_that_replace() {
    let running = start(fixture::catalog()).await;
    let mut client = running.registry();
    for (name, expected) in [
        // Replaced and skipped is listed once, and a skipped bundle with the replaced one.
        ("p.v1", &["p s p.v2 p.v1"][..]),
        ("p.v0", &["p s p.v2 p.v1"]),
        ("p.v1x", &["p s p.v2 p.v1"]),
        ("p.v2", &["p t p.v3 p.v2"]),
        ("p.v3", &["p t p.v4 gone"]),
        ("gone", &["p t p.v4 gone"]),
        ("", &["p s p.v1 ", "q a q.v1 ", "q b q.v2 "]),
    ] {
        let request = GetAllReplacementsRequest { csv_name: name.into() };
        let found = all(client.get_channel_entries_that_replace(request).await).await.unwrap();
        assert_eq!(found, entries(expected), "{name}");
    }
    let request = GetAllReplacementsRequest { csv_name: "p.v4".into() };
    let none = all(client.get_channel_entries_that_replace(request).await).await;
    assert_eq!(refusal(none), not_found("no channel entries found that replace p.v4"));
}

#[tokio::test]
async fn entries_that_provide() {
    let running = start(fixture::catalog()).await;
    let mut client = running.registry();
    let api = |kind: &str| ("g".to_owned(), "v1".to_owned(), kind.to_owned(), "ignored".to_owned());

    let (group, version, kind, plural) = api("K");
    let every = GetAllProvidersRequest { group, version, kind, plural };
    let found = all(client.get_channel_entries_that_provide(every).await).await.unwrap();
    assert_eq!(found, entries(&["p s p.v2 p.v1", "p s p.v2 p.v1x", "p s p.v2 p.v0", "q b q.v2"]));

    let (group, version, kind, plural) = api("K");
    let latest = GetLatestProvidersRequest { group, version, kind, plural };
    let found = all(client.get_latest_channel_entries_that_provide(latest).await).await.unwrap();
    assert_eq!(found, entries(&["p s p.v2 p.v1", "q b q.v2"]), "what is skipped is not in the channel");

    let (group, version, kind, plural) = api("K");
    let default = GetDefaultProviderRequest { group, version, kind, plural };
    let bundle = client.get_default_bundle_that_provides(default).await.unwrap().into_inner();
    assert_eq!(bundle, second(), "the first package by name");

    // Only a channel other than the default has it.
    let (group, version, kind, plural) = api("Old");
    let default = GetDefaultProviderRequest { group, version, kind, plural };
    let none = client.get_default_bundle_that_provides(default).await;
    assert_eq!(
        refusal(none),
        not_found("no entry found that provides group:\"g\" version:\"v1\" kind:\"Old\"")
    );

    // To require is not to provide.
    let message = "no channel entries found that provide group:\"r\" version:\"v1\" kind:\"R\"";
    let (group, version, kind, plural) = ("r".to_owned(), "v1".to_owned(), "R".to_owned(), String::new());
    let every = GetAllProvidersRequest { group, version, kind, plural };
    assert_eq!(refusal(all(client.get_channel_entries_that_provide(every).await).await), not_found(message));
    let latest = GetLatestProvidersRequest {
        group: "r".into(),
        version: "v1".into(),
        kind: "R".into(),
        plural: String::new(),
    };
    assert_eq!(
        refusal(all(client.get_latest_channel_entries_that_provide(latest).await).await),
        not_found(message)
    );
    let default = GetDefaultProviderRequest {
        group: "r".into(),
        version: "v1".into(),
        kind: "R".into(),
        plural: String::new(),
    };
    assert_eq!(refusal(client.get_default_bundle_that_provides(default).await), not_found(message));
}

#[tokio::test]
async fn every_bundle_in_every_channel() {
    let running = start(fixture::catalog()).await;
    let bundles = all(running.registry().list_bundles(ListBundlesRequest {}).await).await.unwrap();
    let places: Vec<_> =
        bundles.iter().map(|b| format!("{} {} {}", b.package_name, b.channel_name, b.csv_name)).collect();
    assert_eq!(places, ["p s p.v1", "p s p.v2", "p t p.v3", "p t p.v4", "q a q.v1", "q b q.v2"]);

    // Lists have the edges, and the manifests of bundles without an image.
    let skips = vec!["p.v1".into(), "p.v1x".into(), "p.v0".into()];
    let listed =
        Bundle { csv_json: String::new(), object: Vec::new(), replaces: "p.v1".into(), skips, ..second() };
    assert_eq!(bundles[1], listed);
    assert_eq!(
        (bundles[0].object.len(), json(&bundles[0].csv_json)["metadata"]["name"].clone()),
        (2, json!("p.v1"))
    );
    assert!(bundles[2..].iter().all(|bundle| bundle.csv_json.is_empty() && bundle.object.is_empty()));
}

#[tokio::test]
async fn what_upstream_would_refuse_to_serve_does_not_hide_the_rest() {
    // given a package with an entry without a bundle, and a channel with two heads
    let mut documents = fixture::documents();
    documents.push(json!({"schema": "olm.channel", "package": "q", "name": "bad", "entries": [
        {"name": "q.v1"}, {"name": "q.v9"},
    ]}));
    let catalog = Catalog::from_bytes("bad", fixture::text(&documents).as_bytes());
    assert_ne!(catalog.problems.len(), 0);
    let running = start(Arc::new(catalog)).await;
    let mut client = running.registry();

    // then the existing parts are served
    let package = client.get_package(GetPackageRequest { name: "q".into() }).await.unwrap().into_inner();
    assert_eq!(package.channels.iter().map(|channel| channel.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let bundles = all(client.list_bundles(ListBundlesRequest {}).await).await.unwrap();
    assert_eq!(bundles.len(), 7);
    // and requests for the missing parts are answered
    let missing = client.get_bundle(in_channel("q", "bad", "q.v9")).await;
    assert_eq!(refusal(missing), not_found("package \"q\", channel \"bad\", bundle \"q.v9\" not found"));
    #[allow(deprecated)]
    let headless = client.get_bundle_for_channel(head("q", "bad")).await;
    let (code, message) = refusal(headless);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.contains("no single head"), "{message}");
}

#[tokio::test]
async fn content_that_is_lost_ends_a_list_with_an_error() {
    // given a catalog in a store, one of whose packages is lost
    let (source, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(source.path().join("catalog.json"), fixture::text(&fixture::documents())).unwrap();
    let catalog = Store::open(root.path()).unwrap().refresh_dir("c", "test", source.path()).unwrap().catalog;
    for file in std::fs::read_dir(root.path().join("packages")).unwrap() {
        let path = file.unwrap().path();
        if std::fs::read_to_string(&path).is_ok_and(|text| text.contains("q.v1")) {
            std::fs::write(path, "damaged").unwrap();
        }
    }
    let running = start(catalog).await;

    // when all bundles are listed
    let answer = running.registry().list_bundles(ListBundlesRequest {}).await.unwrap().into_inner();
    let bundles: Vec<_> = answer.collect().await;

    // then those of the other package arrive, and an error that differs from the end
    assert_eq!(bundles.iter().filter(|bundle| bundle.is_ok()).count(), 4);
    let (code, message) = refusal(bundles.into_iter().next_back().unwrap());
    assert_eq!(code, Code::DataLoss);
    assert!(message.contains("package q"), "{message}");
}

#[tokio::test]
async fn custom_documents_require_acknowledge_experimental() {
    let running = start(fixture::catalog()).await;
    let mut client = ExperimentalRegistryClient::new(running.channel.clone());
    let mut ask = async |schema: &str, package: &str, acknowledged: Option<&'static str>| {
        let mut request = Request::new(CustomRequest { schema: schema.into(), package_name: package.into() });
        if let Some(value) = acknowledged {
            request.metadata_mut().insert(ACKNOWLEDGE_EXPERIMENTAL, value.parse().unwrap());
        }
        all::<Struct>(client.experimental_list_package_custom_schemas(request).await).await
    };
    let yes = Some("true");

    let found = ask("custom.a", "p", yes).await.unwrap();
    assert_eq!(found.len(), 2);
    let kind = |key: &str| found[0].fields[key].kind.clone().unwrap();
    use olm_registry_api::{Kind, ListValue, Value as Message};
    let message = |kind: Kind| Message { kind: Some(kind) };
    assert_eq!((kind("name"), kind("n")), (Kind::StringValue("x".into()), Kind::NumberValue(1.5)));
    let inner = Struct { fields: [("a".to_owned(), message(Kind::StringValue("b".into())))].into() };
    let values = vec![
        message(Kind::NumberValue(1.0)),
        message(Kind::NullValue(0)),
        message(Kind::BoolValue(true)),
        message(Kind::StructValue(inner)),
    ];
    assert_eq!(kind("v"), Kind::ListValue(ListValue { values }));

    // Without a package: documents without a package.
    let of_none = ask("custom.a", "", yes).await.unwrap();
    assert_eq!(of_none.len(), 1);
    assert_eq!(of_none[0].fields["name"], message(Kind::StringValue("g".into())));

    for (schema, package, acknowledged) in [
        ("custom.a", "p", None),
        ("custom.a", "p", Some("yes")),
        ("", "", None),
        ("custom.a", "none", yes),
        ("none", "", yes),
        ("olm.bundle", "p", yes),
    ] {
        assert_eq!(
            ask(schema, package, acknowledged).await.unwrap(),
            [],
            "{schema} {package} {acknowledged:?}"
        );
    }
    for (schema, package, part) in [
        ("", "p", "schema is required"),
        ("../x", "", "invalid schema \"../x\": must match"),
        (".x", "p", "invalid schema"),
        ("a", "p/q", "invalid packageName \"p/q\""),
    ] {
        let (code, message) = refusal(ask(schema, package, yes).await);
        assert_eq!(code, Code::InvalidArgument);
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn probes_and_reflection() {
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_request::MessageRequest,
        server_reflection_response::MessageResponse,
    };
    let running = start(fixture::catalog()).await;
    for service in ["", "api.Registry"] {
        let request = HealthCheckRequest { service: service.into() };
        let answer = HealthClient::new(running.channel.clone()).check(request).await.unwrap();
        assert_eq!(answer.into_inner().status, 1, "serving");
    }

    let question =
        |question| ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let questions = [
        question(MessageRequest::ListServices(String::new())),
        question(MessageRequest::FileContainingSymbol("api.Registry.ListBundles".into())),
    ];
    let mut client = ServerReflectionClient::new(running.channel.clone());
    let answers = all(client.server_reflection_info(futures::stream::iter(questions)).await).await.unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = &answers[0].message_response else {
        panic!("no services: {answers:?}")
    };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["api.Registry", "api.ExperimentalRegistry", "grpc.health.v1.Health"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(matches!(answers[1].message_response, Some(MessageResponse::FileDescriptorResponse(_))));
}
