//! A whole real catalog, through every method of both APIs.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use futures::TryStreamExt;
use http_body_util::BodyExt;
use olm_catalog::Catalog;
use olm_catalog_serve::{Addresses, Server, router};
use olm_registry_api::registry_client::RegistryClient;
use olm_registry_api::{
    GetAllProvidersRequest, GetAllReplacementsRequest, GetBundleInChannelRequest, GetBundleRequest,
    GetDefaultProviderRequest, GetLatestProvidersRequest, GetPackageRequest, GetReplacementRequest,
    ListBundlesRequest, ListPackageRequest,
};
use serde_json::Value;
use tokio::sync::oneshot;
use tonic::Code;
use tower::ServiceExt;

fn data(what: &str) -> Option<PathBuf> {
    let root = std::env::var_os("OLM_SHARED_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let path = root.join(what);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is not there (set OLM_SHARED_DATA)", path.display());
    None
}

#[tokio::test]
async fn every_bundle_is_reachable_by_every_method() {
    let Some(path) = data("catalogs/community-dev.json") else { return };
    let catalog = Arc::new(Catalog::load_file(&path));
    let addresses = Addresses { http: None, grpc: Some((Ipv4Addr::LOCALHOST, 0).into()) };
    let server = Server::bind(catalog, "dev", addresses).await.unwrap();
    let address = server.addresses().grpc.unwrap();
    let (_stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server.run(async { _ = stopped.await }));
    let mut client = RegistryClient::connect(format!("http://{address}")).await.unwrap();

    let names: Vec<_> =
        client.list_packages(ListPackageRequest {}).await.unwrap().into_inner().try_collect().await.unwrap();
    assert_eq!(names.len(), 43);
    let mut heads = BTreeSet::new();
    let mut defaults = BTreeSet::new();
    for name in names {
        let package = client.get_package(GetPackageRequest { name: name.name }).await.unwrap().into_inner();
        for channel in package.channels {
            let request = GetBundleInChannelRequest {
                pkg_name: package.name.clone(),
                channel_name: channel.name.clone(),
            };
            #[allow(deprecated)] // clients in use call it
            let head = client.get_bundle_for_channel(request).await.unwrap().into_inner();
            assert_eq!(head.csv_name, channel.csv_name);
            let csv: Value = serde_json::from_str(&head.csv_json).unwrap();
            assert_eq!(csv["metadata"]["name"], head.csv_name.as_str());
            if channel.name == package.default_channel_name {
                defaults.insert(head.csv_name.clone());
            }
            heads.insert((package.name.clone(), channel.name, head.csv_name));
        }
    }
    assert_eq!((heads.len(), defaults.len()), (115, 43));

    let bundles: Vec<_> =
        client.list_bundles(ListBundlesRequest {}).await.unwrap().into_inner().try_collect().await.unwrap();
    let distinct: BTreeSet<_> = bundles.iter().map(|bundle| &bundle.csv_name).collect();
    assert_eq!(distinct.len(), 192);
    let mut apis = BTreeSet::new();
    for listed in &bundles {
        assert!(listed.csv_json.is_empty() && listed.object.is_empty() && !listed.bundle_path.is_empty());
        let (pkg_name, channel_name) = (listed.package_name.clone(), listed.channel_name.clone());
        let csv_name = listed.csv_name.clone();
        let request =
            GetBundleRequest { pkg_name: pkg_name.clone(), channel_name: channel_name.clone(), csv_name };
        let mut single = client.get_bundle(request).await.unwrap().into_inner();
        assert_eq!(single.object, [single.csv_json.as_str()]);
        // Except for the manifests and the edges, both are the same.
        (single.csv_json, single.object) = (String::new(), Vec::new());
        (single.replaces, single.skips) = (listed.replaces.clone(), listed.skips.clone());
        assert_eq!(&single, listed);

        for replaced in std::iter::once(&listed.replaces).chain(&listed.skips).filter(|name| !name.is_empty())
        {
            let (pkg_name, channel_name) = (pkg_name.clone(), channel_name.clone());
            let request = GetReplacementRequest { csv_name: replaced.clone(), pkg_name, channel_name };
            client.get_bundle_that_replaces(request).await.unwrap();
            let request = GetAllReplacementsRequest { csv_name: replaced.clone() };
            let answer = client.get_channel_entries_that_replace(request).await.unwrap().into_inner();
            let entries: Vec<_> = answer.try_collect().await.unwrap();
            assert!(entries.iter().any(|entry| entry.bundle_name == listed.csv_name), "{replaced}");
        }
        for api in &listed.provided_apis {
            apis.insert((api.group.clone(), api.version.clone(), api.kind.clone()));
        }
    }

    for (group, version, kind) in apis {
        let plural = String::new();
        let providers = |bundle: &olm_registry_api::Bundle| {
            bundle.provided_apis.iter().any(|a| a.group == group && a.version == version && a.kind == kind)
        };
        let every = GetAllProvidersRequest {
            group: group.clone(),
            version: version.clone(),
            kind: kind.clone(),
            plural: plural.clone(),
        };
        let answer = client.get_channel_entries_that_provide(every).await.unwrap().into_inner();
        let entries: Vec<_> = answer.try_collect().await.unwrap();
        let found: BTreeSet<_> =
            entries.into_iter().map(|entry| (entry.channel_name, entry.bundle_name)).collect();
        let expected: BTreeSet<_> = bundles
            .iter()
            .filter(|bundle| providers(bundle))
            .map(|bundle| (bundle.channel_name.clone(), bundle.csv_name.clone()))
            .collect();
        assert_eq!(found, expected, "{kind}");

        let expected: BTreeSet<_> = expected
            .into_iter()
            .filter(|(channel, bundle)| heads.iter().any(|(_, of, head)| of == channel && head == bundle))
            .collect();
        let latest = GetLatestProvidersRequest {
            group: group.clone(),
            version: version.clone(),
            kind: kind.clone(),
            plural: plural.clone(),
        };
        let answer = client.get_latest_channel_entries_that_provide(latest).await.unwrap().into_inner();
        match answer.try_collect::<Vec<_>>().await {
            Ok(entries) => {
                let found: BTreeSet<_> =
                    entries.into_iter().map(|entry| (entry.channel_name, entry.bundle_name)).collect();
                assert_eq!(found, expected, "{kind}");
            }
            Err(status) => assert_eq!((status.code(), expected.len()), (Code::NotFound, 0), "{kind}"),
        }
        let default = GetDefaultProviderRequest {
            group: group.clone(),
            version: version.clone(),
            kind: kind.clone(),
            plural,
        };
        match client.get_default_bundle_that_provides(default).await {
            Ok(bundle) => {
                let bundle = bundle.into_inner();
                assert!(providers(&bundle) && defaults.contains(&bundle.csv_name), "{kind}");
            }
            Err(status) => {
                assert_eq!(status.code(), Code::NotFound);
                assert!(!expected.iter().any(|(_, bundle)| defaults.contains(bundle)), "{kind}");
            }
        }
    }
}

#[tokio::test]
async fn every_document_is_sent_over_http() {
    let Some(path) = data("catalogs/community-dev.json") else { return };
    let documents = |text: &str| -> Vec<Value> {
        let mut documents: Vec<Value> =
            serde_json::Deserializer::from_str(text).into_iter().map(Result::unwrap).collect();
        for document in &mut documents {
            document.sort_all_objects();
        }
        documents.sort_by_key(Value::to_string);
        documents
    };
    let catalog = Arc::new(Catalog::load_file(&path));
    let served = Arc::clone(&catalog);
    let router = router(move |_, _| Some(Arc::clone(&served)));
    let get = async |path: &str| {
        let request = Request::get(format!("/catalogs/dev/api/v1/{path}")).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let body = response.into_body().collect().await.unwrap().to_bytes().to_vec();
        String::from_utf8_lossy(&body).into_owned()
    };

    assert_eq!(documents(&get("all").await), documents(&std::fs::read_to_string(&path).unwrap()));
    assert_eq!(get("metas?schema=olm.channel").await.lines().count(), 115);
    let index: Vec<Value> = serde_json::from_str(&get("packages").await).unwrap();
    assert_eq!(index.len(), 43);
    for summary in index {
        let name = summary["name"].as_str().unwrap();
        let bundles = get(&format!("metas?schema=olm.bundle&package={name}")).await;
        assert_eq!(bundles.lines().count(), usize::try_from(summary["versions"].as_u64().unwrap()).unwrap());
        if summary.get("icon").is_some() {
            get(&format!("icons/{name}")).await;
        }
    }
}
