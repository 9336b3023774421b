//! Machine-checkable rules of the workspace: layers, licences, banned crates, file sizes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

#[path = "policy/links.rs"]
mod links;
#[path = "policy/release.rs"]
mod release;
#[path = "policy/sbom.rs"]
mod sbom;
#[path = "policy/scenarios.rs"]
mod scenarios;
#[path = "policy/scripts.rs"]
mod scripts;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent").to_path_buf()
}

fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--offline", "--filter-platform=x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(out.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("cargo metadata prints JSON")
}

/// The crates of the workspace, lowest first, and the crates of the workspace that each may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("olm-version", &[]),
    ("olm-kube-schema", &[]),
    ("olm-signatures", &[]),
    ("olm-client", &[]),
    ("olm-oidc", &[]),
    ("olm-registry-api", &[]),
    ("olm-constraint", &["olm-version", "olm-kube-schema"]),
    ("olm-api", &["olm-signatures"]),
    ("olm-author", &["olm-kube-schema"]),
    ("olm-resolver", &["olm-version", "olm-constraint"]),
    ("olm-bundle", &["olm-version", "olm-kube-schema", "olm-constraint", "olm-api"]),
    ("olm-catalog", &["olm-version", "olm-kube-schema", "olm-constraint", "olm-bundle"]),
    ("olm-catalog-serve", &["olm-kube-schema", "olm-registry-api", "olm-bundle", "olm-catalog"]),
    ("olm-catalog-sources", &["olm-signatures", "olm-registry-api", "olm-catalog"]),
    ("olm-plan", &["olm-version", "olm-kube-schema", "olm-api", "olm-resolver", "olm-bundle", "olm-catalog"]),
    (
        "olm-engine",
        &[
            "olm-version",
            "olm-signatures",
            "olm-client",
            "olm-api",
            "olm-resolver",
            "olm-bundle",
            "olm-catalog",
            "olm-catalog-sources",
            "olm-plan",
        ],
    ),
    (
        "olm-ops",
        &[
            "olm-version",
            "olm-kube-schema",
            "olm-client",
            "olm-api",
            "olm-resolver",
            "olm-bundle",
            "olm-catalog",
            "olm-plan",
            "olm-engine",
        ],
    ),
    (
        "olm-manager",
        &[
            "olm-version",
            "olm-signatures",
            "olm-client",
            "olm-api",
            "olm-resolver",
            "olm-bundle",
            "olm-catalog",
            "olm-catalog-serve",
            "olm-catalog-sources",
            "olm-plan",
            "olm-engine",
            "olm-ops",
        ],
    ),
    // no controllers, no registries
    (
        "olm-web",
        &[
            "olm-kube-schema",
            "olm-client",
            "olm-oidc",
            "olm-api",
            "olm-bundle",
            "olm-catalog",
            "olm-plan",
            "olm-engine",
            "olm-ops",
        ],
    ),
    // a Kubernetes of its own
    ("olm-devcluster-machinery", &["olm-kube-schema"]),
    ("olm-devcluster-apiserver", &["olm-kube-schema", "olm-devcluster-machinery"]),
    ("olm-devcluster-controllers", &["olm-kube-schema", "olm-devcluster-machinery"]),
    ("olm-devcluster-node", &["olm-kube-schema", "olm-devcluster-machinery"]),
    (
        "olm-devcluster",
        &[
            "olm-devcluster-machinery",
            "olm-devcluster-apiserver",
            "olm-devcluster-controllers",
            "olm-devcluster-node",
        ],
    ),
    // what any operator can use: olm-client has no types of olm
    ("etcd-operator", &["olm-client"]),
    ("operator-kit", &["olm-client"]),
    ("myapp-operator", &["operator-kit"]),
    ("olm", EVERY),
    ("olm-tests", EVERY),
    ("olm-bench", EVERY),
    ("olm-testing", &[]),
];

/// May use every crate before it.
const EVERY: &[&str] = &["*"];

/// Crates that unit tests may use in addition.
const TESTS: &[(&str, &[&str])] = &[
    ("olm-api", &["olm-kube-schema"]),
    ("olm-resolver", &["olm-testing"]),
    ("olm-plan", &["olm-testing"]),
    // the permissions of the manager, checked against plans
    ("olm-engine", &["olm-ops", "olm-testing"]),
    ("olm-ops", &["olm-testing"]),
    ("olm-manager", &["olm-testing"]),
    ("olm-devcluster-controllers", &["olm-devcluster-apiserver"]),
    ("olm-devcluster-node", &["olm-devcluster-apiserver", "olm-devcluster-controllers"]),
];

/// Crates with pure decisions: no runtime, no client, in their normal dependencies.
const PURE: &[(&str, &[&str])] = &[
    ("olm-version", &["tokio", "kube", "axum", "reqwest"]),
    ("olm-kube-schema", &["tokio", "kube", "axum", "reqwest"]),
    ("olm-constraint", &["tokio", "kube", "axum", "reqwest"]),
    ("olm-resolver", &["tokio", "kube", "axum", "reqwest"]),
    ("olm-bundle", &["tokio", "axum", "reqwest"]),
    ("olm-plan", &["tokio", "kube", "axum", "reqwest"]),
    ("olm-signatures", &["tokio", "kube", "axum", "reqwest"]),
    ("olm-author", &["tokio", "kube", "axum", "reqwest"]),
];

#[test]
fn layers_point_down() {
    let meta = metadata();
    let members: BTreeSet<&str> =
        meta["workspace_members"].as_array().expect("members").iter().filter_map(Value::as_str).collect();
    let layer = |name: &str| LAYERS.iter().position(|(known, _)| *known == name);
    let of = |table: &'static [(&str, &[&str])], name: &str| -> &'static [&'static str] {
        table.iter().find(|(known, _)| *known == name).map_or(&[], |(_, may)| may)
    };
    let mut wrong = Vec::new();
    // A renamed crate must not leave a row without effect.
    for (name, may) in LAYERS.iter().chain(TESTS).chain(PURE) {
        let own = layer(name);
        let unknown = may.iter().filter(|other| other.starts_with("olm") && layer(other).is_none());
        wrong.extend(
            unknown.chain(own.is_none().then_some(name)).map(|name| format!("{name} is not a crate")),
        );
    }
    for (at, (name, may)) in LAYERS.iter().enumerate() {
        let above = may.iter().filter(|other| layer(other).is_some_and(|other| other >= at));
        wrong.extend(above.map(|other| format!("{name} is listed with {other}, which is not below it")));
    }
    let mut found = BTreeSet::new();
    for package in meta["packages"].as_array().expect("packages") {
        if !members.contains(package["id"].as_str().expect("id")) {
            continue;
        }
        let name = package["name"].as_str().expect("name");
        found.insert(name);
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let other = dependency["name"].as_str().expect("name");
            let is_test = dependency["kind"] == "dev";
            let below = layer(other) < layer(name);
            let may = of(LAYERS, name);
            let allowed = may.contains(&other)
                || (below && may == EVERY)
                || (is_test && of(TESTS, name).contains(&other));
            if layer(other).is_some() && !allowed {
                wrong.push(format!("{name} uses {other}, which the table of layers does not list"));
            }
            if !is_test && of(PURE, name).contains(&other) {
                wrong.push(format!("{name} is pure and must not use {other}"));
            }
        }
    }
    let listed: BTreeSet<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    wrong
        .extend(found.symmetric_difference(&listed).map(|name| format!("{name} is not listed, or no crate")));
    assert!(wrong.is_empty(), "layers:\n  {}", wrong.join("\n  "));
}

/// The strings in the array that follows `key = [` in deny.toml; enough TOML for that file.
fn deny_list(text: &str, key: &str) -> Vec<String> {
    let start = text.find(&format!("\n{key} = [")).expect("key in deny.toml");
    let body = &text[start..];
    let end = body.find("\n]").expect("end of array");
    body[..end]
        .lines()
        .skip(2)
        .map(|l| l.trim().trim_end_matches(',').to_string())
        .filter(|l| !l.is_empty())
        .collect()
}

/// The crates in a list of deny.toml, with the versions that are meant.
fn deny_crates(text: &str, key: &str) -> Vec<(String, Option<semver::VersionReq>)> {
    let list = deny_list(text, key);
    let entries = list.iter().filter(|line| line.starts_with('{'));
    let entries = entries.map(|line| {
        let field = |key: &str| {
            let (_, rest) = line.split_once(&format!("{key} = \""))?;
            rest.split_once('"').map(|(value, _)| value.to_owned())
        };
        assert!(field("reason").is_some_and(|reason| !reason.is_empty()), "deny.toml: no reason: {line}");
        (field("name").expect("name"), field("version").map(|v| v.parse().expect("version requirement")))
    });
    entries.collect()
}

/// Each crate is built in one version, and in others for the reasons that deny.toml gives.
#[test]
fn second_versions_of_crates_have_a_reason() {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let skipped = deny_crates(&text, "skip");
    let meta = metadata();
    let used: BTreeSet<&str> =
        meta["resolve"]["nodes"].as_array().expect("nodes").iter().filter_map(|n| n["id"].as_str()).collect();
    let mut versions: BTreeMap<&str, BTreeSet<semver::Version>> = BTreeMap::new();
    for package in meta["packages"].as_array().expect("packages") {
        if used.contains(package["id"].as_str().expect("id")) {
            let version = package["version"].as_str().expect("version").parse().expect("semver");
            versions.entry(package["name"].as_str().expect("name")).or_default().insert(version);
        }
    }
    versions.retain(|_, found| found.len() > 1);
    let matching = |name: &str, version: &semver::Version| {
        skipped.iter().position(|(n, req)| n == name && req.as_ref().is_some_and(|r| r.matches(version)))
    };
    let mut wrong = Vec::new();
    let mut needed = BTreeSet::new();
    for (name, found) in versions {
        let (known, others): (Vec<_>, Vec<_>) = found.iter().partition(|v| matching(name, v).is_some());
        needed.extend(known.iter().filter_map(|version| matching(name, version)));
        if others.len() != 1 {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            wrong.push(format!("{name} is built in versions {}", found.join(" and ")));
        }
    }
    let unneeded = skipped.iter().enumerate().filter(|(at, _)| !needed.contains(at));
    wrong.extend(unneeded.map(|(_, (name, _))| format!("{name} is skipped, but built in one version")));
    assert!(wrong.is_empty(), "deny.toml, bans.skip:\n  {}", wrong.join("\n  "));
}

#[test]
fn licences_and_sources_are_allowed_and_banned_crates_are_absent() {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let allowed: BTreeSet<String> =
        deny_list(&text, "allow").iter().map(|l| l.trim_matches('"').to_string()).collect();
    let banned = deny_crates(&text, "deny");
    assert!(allowed.len() > 5 && banned.len() > 5, "deny.toml was not understood");

    let meta = metadata();
    let used: BTreeSet<&str> =
        meta["resolve"]["nodes"].as_array().expect("nodes").iter().filter_map(|n| n["id"].as_str()).collect();
    let mut wrong = Vec::new();
    let mut registries = BTreeSet::new();
    for package in meta["packages"].as_array().expect("packages") {
        if !used.contains(package["id"].as_str().expect("id")) {
            continue;
        }
        registries.extend(package["source"].as_str());
        let name = package["name"].as_str().expect("name");
        let version: semver::Version = package["version"].as_str().expect("version").parse().expect("semver");
        if banned.iter().any(|(n, req)| n == name && req.as_ref().is_none_or(|r| r.matches(&version))) {
            wrong.push(format!("{name} {version} is banned"));
        }
        match package["license"].as_str() {
            Some(expression) if satisfied(expression, &allowed) => {}
            Some(expression) => {
                wrong.push(format!("{name} {version}: licence `{expression}` is not allowed"))
            }
            None if package["license_file"].is_string() => {}
            None => wrong.push(format!("{name} {version}: no licence given")),
        }
    }
    if registries.len() > 1 || registries.iter().any(|source| !source.starts_with("registry+")) {
        wrong.push(format!("crates come from other places than one registry: {registries:?}"));
    }
    assert!(wrong.is_empty(), "deny.toml:\n  {}", wrong.join("\n  "));
}

/// `A OR (B AND C)`, `A/B`: true when some choice of it is allowed completely.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ");
    let flat = expression.replace(['(', ')'], " ");
    let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
    // Every AND part must be satisfied by one of its OR parts; nested forms in use are all of this shape.
    flat.split(" AND ").all(|part| part.split(" OR ").any(|licence| allowed.contains(licence.trim())))
}

/// CI uses the oldest supported Rust, and README.md and scripts/deps.sh name it.
#[test]
fn the_oldest_rust_is_the_one_of_ci() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).expect(file);
    let manifest = read("Cargo.toml");
    let (_, oldest) = manifest.split_once("rust-version = \"").expect("rust-version");
    let (oldest, _) = oldest.split_once('"').expect("rust-version");
    for (file, text) in [
        (".github/workflows/ci.yml", format!("image: rust:{oldest}-bookworm")),
        ("README.md", format!("Rust {oldest} or newer")),
        ("scripts/deps.sh", format!("Rust {oldest} or newer")),
    ] {
        assert!(read(file).contains(&text), "{file} lacks `{text}`");
    }
}

#[test]
fn files_stay_readable() {
    // A file over the limit needs a reason, given here.
    const REASONS: &[(&str, &str)] = &[("catalog/registry/src/generated.rs", "generated by `make protos`")];
    let out = Command::new("git").args(["ls-files", "*.rs"]).current_dir(root()).output();
    let Ok(out) = out else {
        println!("skipped: files_stay_readable: git is not installed");
        return;
    };
    let mut wrong = Vec::new();
    for file in String::from_utf8_lossy(&out.stdout).lines() {
        let Ok(text) = std::fs::read_to_string(root().join(file)) else { continue };
        // Tests at the end of a file do not count: they do not obscure the code.
        let code = text.lines().take_while(|l| l.trim() != "#[cfg(test)]").count();
        if code > 600 && !REASONS.iter().any(|(f, _)| *f == file) {
            wrong.push(format!("{file}: {code} lines"));
        }
    }
    assert!(wrong.is_empty(), "files over 600 lines of code:\n  {}", wrong.join("\n  "));
}
