//! Comparison of the CustomResourceDefinitions with upstream's: a manifest that applies there applies here.
// the lints exempt `#[test]` functions, not their helpers
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use olm_api::crds;
use olm_kube_schema::schema::Schema;
use serde_json::Value;

fn shared(path: &str) -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let root = std::env::var_os("OLM_SHARED_DATA").map_or_else(|| PathBuf::from(default), PathBuf::from);
    let file = root.join(path);
    if file.exists() {
        return Some(file);
    }
    println!("skipped: {} is not there (OLM_SHARED_DATA names the folder)", file.display());
    None
}

fn yaml_files(dir: &Path, list: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            yaml_files(&path, list);
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            list.push(path);
        }
    }
}

/// The documents of a file, and the items of lists in it; invalid YAML is skipped (some files are invalid on
/// purpose).
fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut objects: Vec<Value> = serde_yaml::Deserializer::from_str(&text)
        .filter_map(|doc| serde::Deserialize::deserialize(doc).ok())
        .collect();
    let items: Vec<Value> = objects.iter().filter_map(|o| o["items"].as_array()).flatten().cloned().collect();
    objects.extend(items);
    objects
}

fn ours() -> Vec<Value> {
    crds().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect()
}

fn upstreams() -> Option<Vec<Value>> {
    let mut files = Vec::new();
    yaml_files(&shared("upstream-testdata/api/crds")?, &mut files);
    files.sort();
    Some(files.iter().flat_map(|file| documents(file)).collect())
}

fn kind(crd: &Value) -> &str {
    crd["spec"]["names"]["kind"].as_str().unwrap()
}

// ---- the files ----

#[test]
fn the_files_match_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let mut known = BTreeSet::new();
    for crd in crds() {
        let name = format!("{}.yaml", crd.spec.names.plural);
        let text = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
        // Not `assert_eq!`, which would print both files.
        assert!(text == serde_yaml::to_string(&crd).unwrap(), "olm/api/crds/{name} is old: run `make crds`");
        known.insert(name);
    }
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name), "olm/api/crds/{name} is not a CRD of this project");
    }
}

#[test]
fn an_api_server_takes_them() {
    for crd in ours() {
        let errors: Vec<String> =
            olm_kube_schema::definition::check(&crd).iter().map(ToString::to_string).collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", kind(&crd));
    }
}

// ---- field by field ----

/// Keywords that do not affect validation.
const NO_MATTER: &[&str] = &[
    "description",
    "properties",
    "items",
    "additionalProperties",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "nullable",
];

/// Constraints of upstream's schema that ours lacks, as `<path>: <what>`.
fn compare(upstream: &Value, ours: &Value, path: &str, list: &mut Vec<String>) {
    if ours["x-kubernetes-preserve-unknown-fields"] == true && ours.get("properties").is_none() {
        // one line for a whole subtree that is passed through
        if upstream["x-kubernetes-preserve-unknown-fields"] != true && upstream.get("properties").is_some() {
            list.push(format!("{path}: not looked into"));
        }
        return;
    }
    let any = upstream["x-kubernetes-int-or-string"] == true && ours["x-kubernetes-int-or-string"] == true;
    for (key, value) in upstream.as_object().into_iter().flatten() {
        let known = NO_MATTER.contains(&key.as_str())
            || (any && ["anyOf", "pattern", "type"].contains(&key.as_str()))
            || (key == "x-kubernetes-list-type" && value == "atomic");
        let number = |v: &Value| v.as_f64();
        let same = ours
            .get(key)
            .is_some_and(|mine| mine == value || (value.is_number() && number(mine) == number(value)));
        if known || same {
            continue;
        }
        match key.as_str() {
            "required" => {
                let mine = ours["required"].as_array().cloned().unwrap_or_default();
                let metadata = Value::from("metadata");
                let missing: Vec<String> = value
                    .as_array()
                    .unwrap()
                    .iter()
                    // every object of every API has metadata
                    .filter(|f| !(mine.contains(f) || path.is_empty() && **f == metadata))
                    .map(|f| f.as_str().unwrap().to_owned())
                    .collect();
                if !missing.is_empty() {
                    list.push(format!("{path}: does not require {}", missing.join(", ")));
                }
            }
            "x-kubernetes-validations" => {
                let rules = |v: &Value| -> Vec<Value> {
                    v.as_array().into_iter().flatten().map(|r| r["rule"].clone()).collect()
                };
                if rules(value).len() != rules(&ours[key]).len() {
                    list.push(format!("{path}: other rules"));
                }
            }
            key => list
                .push(format!("{path}: {key} is {} and not {value}", ours.get(key).unwrap_or(&Value::Null))),
        }
    }
    // a stricter rule than upstream's refuses a manifest that works there
    for key in [
        "required",
        "enum",
        "pattern",
        "maxLength",
        "minLength",
        "minimum",
        "maximum",
        "x-kubernetes-list-type",
    ] {
        let Some(mine) = ours.get(key) else { continue };
        let Some(theirs) = upstream.get(key) else {
            list.push(format!("{path}: {key} {mine}, upstream has none"));
            continue;
        };
        for more in mine.as_array().into_iter().flatten() {
            if key == "required" && !theirs.as_array().unwrap().contains(more) {
                list.push(format!("{path}: requires {more}"));
            }
        }
    }
    for (name, theirs) in upstream["properties"].as_object().into_iter().flatten() {
        if path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        match ours["properties"].get(name) {
            Some(mine) => compare(theirs, mine, &format!("{path}/{name}"), list),
            None if ours["x-kubernetes-preserve-unknown-fields"] == true => {
                list.push(format!("{path}/{name}: passed through"));
            }
            None => list.push(format!("{path}/{name}: missing")),
        }
    }
    for (key, mark) in [("items", "N"), ("additionalProperties", "*")] {
        if let (Some(theirs @ Value::Object(_)), Some(mine @ Value::Object(_))) =
            (upstream.get(key), ours.get(key))
        {
            compare(theirs, mine, &format!("{path}/{mark}"), list);
        } else if upstream.get(key).is_some() && ours.get(key).is_none() {
            list.push(format!("{path}/{mark}: missing"));
        }
    }
}

/// The list of differences with their reasons: items of the form "- `<difference>`: <reason>", where a
/// difference may end in `*`, and an item may continue on indented lines.
fn reasons() -> Vec<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api-differences.md");
    let text = std::fs::read_to_string(file).unwrap().replace("\n  ", " ");
    text.lines()
        .filter_map(|line| line.strip_prefix("- `")?.split_once('`'))
        .map(|(difference, reason)| {
            assert!(reason.trim_start_matches(':').trim().len() > 3, "{difference} has no reason");
            difference.to_owned()
        })
        .collect()
}

#[test]
fn every_field_of_upstream_is_there_with_a_compatible_type() {
    let Some(upstreams) = upstreams() else { return };
    let ours = ours();
    let mut differences = Vec::new();
    for theirs in &upstreams {
        let kind = kind(theirs);
        let Some(mine) = ours.iter().find(|crd| self::kind(crd) == kind) else {
            differences.push(format!("{kind}: missing"));
            continue;
        };
        for field in ["scope", "group"] {
            assert_eq!(theirs["spec"][field], mine["spec"][field], "{kind}");
        }
        for field in ["plural", "shortNames", "categories"] {
            let (theirs, mine) = (&theirs["spec"]["names"][field], &mine["spec"]["names"][field]);
            if !theirs.is_null() {
                assert_eq!(theirs, mine, "{kind} {field}");
            }
        }
        for version in theirs["spec"]["versions"].as_array().unwrap() {
            let name = version["name"].as_str().unwrap();
            let versions = mine["spec"]["versions"].as_array().unwrap();
            let Some(mine) = versions.iter().find(|v| v["name"] == name) else {
                differences.push(format!("{kind} {name}: missing"));
                continue;
            };
            assert_eq!(
                (&version["served"], &version["storage"]),
                (&mine["served"], &mine["storage"]),
                "{kind} {name}"
            );
            assert_eq!(version["subresources"], mine["subresources"], "{kind} {name}");
            let columns = |v: &Value| -> Vec<(String, String)> {
                let list = v["additionalPrinterColumns"].as_array().cloned().unwrap_or_default();
                list.iter().map(|c| (c["name"].to_string(), c["jsonPath"].to_string())).collect()
            };
            let mine_columns = columns(mine);
            for column in columns(version) {
                assert!(mine_columns.contains(&column), "{kind} {name} has no column {column:?}");
            }
            let schema = |v: &Value| v["schema"]["openAPIV3Schema"].clone();
            let mut list = Vec::new();
            compare(&schema(version), &schema(mine), "", &mut list);
            differences.extend(list.into_iter().map(|line| format!("{kind} {name} {line}")));
        }
    }
    let reasons = reasons();
    let covers = |reason: &str, difference: &str| match reason.strip_suffix('*') {
        Some(start) => difference.starts_with(start),
        None => reason == difference,
    };
    let unknown: Vec<&String> =
        differences.iter().filter(|d| !reasons.iter().any(|reason| covers(reason, d))).collect();
    assert!(unknown.is_empty(), "not in docs/api-differences.md:\n{}", lines(&unknown));
    let old: Vec<&String> =
        reasons.iter().filter(|reason| !differences.iter().any(|d| covers(reason, d))).collect();
    assert!(old.is_empty(), "no longer a difference:\n{}", lines(&old));
}

fn lines(list: &[&String]) -> String {
    list.iter().map(|line| format!("- `{line}`: ")).collect::<Vec<_>>().join("\n")
}

// ---- objects ----

/// The compiled schemas by kind and version.
fn compiled(crds: &[Value]) -> BTreeMap<(String, String), Schema> {
    let mut out = BTreeMap::new();
    for crd in crds {
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let schema = Schema::compile(&version["schema"]["openAPIV3Schema"], "").unwrap();
            out.insert((kind(crd).to_owned(), version["name"].as_str().unwrap().to_owned()), schema);
        }
    }
    out
}

/// The errors of `kubectl apply --validate=strict`.
fn strict(schema: &Schema, object: &Value) -> BTreeSet<String> {
    let mut object = object.clone();
    let unknown = schema.prune(&mut object).into_iter().map(|path| format!("unknown field {path}"));
    let unknown: Vec<String> = unknown.collect();
    schema.default(&mut object);
    unknown.into_iter().chain(schema.validate(&object).iter().map(ToString::to_string)).collect()
}

#[test]
fn every_real_object_that_upstream_takes_we_take_strictly() {
    let Some(upstreams) = upstreams() else { return };
    let (theirs, ours) = (compiled(&upstreams), compiled(&ours()));
    let (mut counts, mut refused, mut loose) =
        (BTreeMap::<String, (u32, u32)>::new(), Vec::new(), Vec::new());
    for folder in ["bundles", "olm-v0-installed", "upstream-testdata"] {
        let Some(dir) = shared(folder) else { return };
        let mut files = Vec::new();
        yaml_files(&dir, &mut files);
        files.sort();
        for file in files {
            for object in documents(&file) {
                let (Some(kind), Some(api)) = (object["kind"].as_str(), object["apiVersion"].as_str()) else {
                    continue;
                };
                let Some(version) = api.strip_prefix("operators.coreos.com/") else { continue };
                let key = (kind.to_owned(), version.to_owned());
                let Some(upstream) = theirs.get(&key) else { continue };
                let (theirs, mine) = (strict(upstream, &object), strict(&ours[&key], &object));
                let count = counts.entry(kind.to_owned()).or_default();
                count.0 += 1;
                count.1 += u32::from(theirs.is_empty());
                let place = || format!("{}: {kind} {}", file.display(), object["metadata"]["name"]);
                // also for objects that upstream refuses: they must have no additional errors here
                let here_alone: Vec<&String> = mine.difference(&theirs).collect();
                if !here_alone.is_empty() {
                    refused.push(format!("{}: {here_alone:?}", place()));
                }
                // OLM's Go types fill in missing fields of a bundle; a manifest is applied unchanged
                let lacks: Vec<&String> = mine.iter().filter(|e| e.contains("Required value")).collect();
                if folder == "bundles" && !lacks.is_empty() {
                    refused.push(format!("{}: {lacks:?}", place()));
                }
                if mine.is_empty() && !theirs.is_empty() {
                    loose.push(format!("{}: {theirs:?}", place()));
                }
            }
        }
    }
    for (kind, (all, good)) in &counts {
        println!("{kind}: {all} objects, {good} accepted by upstream's schema and by ours");
    }
    // the known ones are inside DeploymentSpecs, which are validated when they are rendered
    println!("accepted by ours alone: {}\n{}", loose.len(), loose.join("\n"));
    assert!(counts["ClusterServiceVersion"].1 >= 190, "{counts:?}");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
