//! Existing manifests, as `kubectl apply --validate=strict` sends them: a cluster with our CRDs accepts what
//! one with OLM's own CRDs accepts, and rejects the rest with the same messages. The API server validates,
//! nothing is stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use olm_tests::inprocess::{World, condition, text};
use serde_json::{Value, json};

use crate::run;

const GROUP: &str = "operators.coreos.com";
/// Kinds, plurals and whether they are namespaced.
const KINDS: [(&str, &str, bool); 8] = [
    ("CatalogSource", "catalogsources", true),
    ("ClusterServiceVersion", "clusterserviceversions", true),
    ("InstallPlan", "installplans", true),
    ("OLMConfig", "olmconfigs", false),
    ("Operator", "operators", false),
    ("OperatorCondition", "operatorconditions", true),
    ("OperatorGroup", "operatorgroups", true),
    ("Subscription", "subscriptions", true),
];

/// Every field of the hand-written kinds, as in OLM's documentation.
const WRITTEN: &str = include_str!("written.yaml");

/// The API server's answer: `None` for an accepted object, otherwise code and error.
type Answer = Option<(u16, String)>;

/// Validates an object, unknown fields being errors.
async fn asked(client: &Client, object: &Value) -> Result<Answer> {
    let known = KINDS.iter().find(|kind| object["kind"] == kind.0);
    let (_, plural, namespaced) = known.with_context(|| format!("kind {}", object["kind"]))?;
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().context("metadata")?;
    // Server-generated fields are not part of a manifest.
    for given in ["resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink"] {
        metadata.remove(given);
    }
    if *namespaced {
        metadata.insert("namespace".to_owned(), "default".into());
    }
    let namespace = if *namespaced { "namespaces/default/" } else { "" };
    let version = text(&object, "/apiVersion");
    let path = format!("/apis/{version}/{namespace}{plural}?dryRun=All&fieldValidation=Strict");
    let request = http::Request::post(path).header("content-type", "application/json");
    match client.request_text(request.body(serde_json::to_vec(&object)?)?).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some((status.code, status.message))),
        Err(error) => Err(error.into()),
    }
}

fn files(folder: &Path, list: &mut BTreeSet<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, list);
        } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
            list.insert(path);
        }
    }
}

/// The objects of our kinds in a text, those in lists too; invalid YAML is skipped (some files are invalid on
/// purpose).
fn objects(manifests: &str) -> Vec<Value> {
    if !manifests.contains(GROUP) {
        return Vec::new();
    }
    let documents = serde_yaml::Deserializer::from_str(manifests);
    let documents =
        documents.filter_map(|document| <Value as serde::Deserialize>::deserialize(document).ok());
    let single = documents.flat_map(|document| match document["items"].as_array() {
        Some(items) => items.clone(),
        None => vec![document],
    });
    let ours = |object: &Value| {
        KINDS.iter().any(|kind| object["kind"] == kind.0)
            && text(object, "/apiVersion").split_once('/').is_some_and(|(group, _)| group == GROUP)
            && object["metadata"].is_object()
    };
    single.filter(ours).collect()
}

/// Every manifest of the real data, with its source.
fn all() -> Vec<(String, Value)> {
    let root = olm_tests::data();
    let mut list = BTreeSet::new();
    for folder in ["bundles", "olm-v0-installed", "upstream-testdata"] {
        files(&root.join(folder), &mut list);
    }
    let mut out = Vec::new();
    for file in list {
        let manifests = std::fs::read_to_string(&file).unwrap_or_default();
        let place = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        out.extend(objects(&manifests).into_iter().map(|object| (place.clone(), object)));
    }
    out
}

async fn answers(client: &Client, manifests: &[(String, Value)]) -> Result<Vec<Answer>> {
    let mut out = Vec::with_capacity(manifests.len());
    for (place, object) in manifests {
        out.push(asked(client, object).await.with_context(|| place.clone())?);
    }
    Ok(out)
}

/// Replaces our CRDs by OLM's own.
async fn upstreams(world: &World, folder: &Path) -> Result<()> {
    let mut list = BTreeSet::new();
    files(folder, &mut list);
    for file in list {
        let mut crd: Value = serde_yaml::from_str(&std::fs::read_to_string(&file)?)?;
        crd["metadata"].as_object_mut().context("metadata")?.remove("creationTimestamp");
        let name = text(&crd, "/metadata/name").to_owned();
        world.delete("CustomResourceDefinition", "", &name).await?;
        world.gone("CustomResourceDefinition", "", &name).await?;
        world.create(&crd).await?;
        let is = |crd: &Value| condition(crd, "Established").is_some_and(|c| c["status"] == "True");
        world.until("CustomResourceDefinition", "", &name, is).await?;
        let kind = text(&crd, "/spec/names/kind");
        // It is established a moment before it is served.
        world.eventually(kind, async || world.list(kind, "").await).await?;
    }
    Ok(())
}

/// Our CRDs accept what OLM's accept; what both reject, they reject with the same message; and a wrong field
/// is rejected in each kind.
#[test]
fn manifests_are_taken_strictly_as_by_upstreams_crds() {
    let upstream = olm_tests::data().join("upstream-testdata/api/crds");
    if !upstream.is_dir() {
        let why = format!("{} is not there (OLM_SHARED_DATA)", upstream.display());
        return olm_tests::skipped("manifests_are_taken_strictly", &why);
    }
    run(async move {
        let manifests = all();
        let world = World::bare().await?;
        let ours = answers(&world.client, &manifests).await?;
        upstreams(&world, &upstream).await?;
        let theirs = answers(&world.client, &manifests).await?;
        let (mut taken, mut alone, mut wrong) = (BTreeMap::<&str, u32>::new(), 0, Vec::new());
        for ((place, object), answers) in manifests.iter().zip(ours.iter().zip(&theirs)) {
            match answers {
                (None, None) => *taken.entry(text(object, "/kind")).or_default() += 1,
                (None, Some(_)) => alone += 1,
                (Some((code, message)), None) => wrong.push(format!("{place}: {code} {message}")),
                // An unknown field is 400, a wrong value 422: upstream's schema may report more of either.
                (Some((400, ours)), Some((400, theirs))) if ours != theirs => {
                    wrong.push(format!("{place}:\n  {ours}\n  {theirs}"));
                }
                (Some((ours @ 400, message)), Some((theirs, _))) if ours != theirs => {
                    wrong.push(format!("{place}: {ours} instead of {theirs}: {message}"));
                }
                (Some(_), Some(_)) => {}
            }
        }
        println!("{} manifests; taken by both: {taken:?}; by ours alone: {alone}", manifests.len());
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        ensure!(taken.get("ClusterServiceVersion").is_some_and(|n| *n >= 190), "{taken:?}");
        Ok(())
    });
}

/// The hand-written kinds are accepted with every field they have; a misspelled field is not.
#[test]
fn what_people_write_is_taken_strictly() {
    run(async {
        let world = World::bare().await?;
        let written = objects(WRITTEN);
        let kinds: BTreeSet<&str> = written.iter().map(|object| text(object, "/kind")).collect();
        let all: BTreeSet<&str> = KINDS.iter().map(|kind| kind.0).collect();
        ensure!(kinds == all, "{kinds:?}");
        for object in &written {
            let kind = text(object, "/kind");
            let answer = asked(&world.client, object).await?;
            ensure!(answer.is_none(), "{kind} {}: {answer:?}", object["metadata"]["name"]);
            let mut misspelt = object.clone();
            misspelt["spec"]["sourcesNamespace"] = json!("olm");
            let answer = asked(&world.client, &misspelt).await?;
            let (code, message) =
                answer.with_context(|| format!("{kind}: the unknown field was accepted"))?;
            ensure!(
                code == 400
                    && message.ends_with("strict decoding error: unknown field \"spec.sourcesNamespace\""),
                "{kind}: {code} {message}"
            );
        }
        Ok(())
    });
}
