//! plan, why, graph and diff without a cluster, with small catalogs and with real ones where available.

use serde_json::Value;

use crate::{Ran, data, folder, olm, transcript, without_digests};

/// `demo` with three versions and a candidate; `needy`, with a dependency that no package provides; `old`,
/// which is deprecated.
const CATALOG: &str = "\
schema: olm.package
name: demo
defaultChannel: stable
---
schema: olm.channel
package: demo
name: stable
entries:
- {name: demo.v1.0.0}
- {name: demo.v1.1.0, replaces: demo.v1.0.0}
- {name: demo.v1.2.0, replaces: demo.v1.1.0}
- {name: demo.v1.3.0, replaces: demo.v1.2.0}
---
schema: olm.channel
package: demo
name: candidate
entries:
- {name: demo.v1.2.0}
- {name: demo.v2.0.0, replaces: demo.v1.2.0}
---
{schema: olm.bundle, package: demo, name: demo.v1.0.0, image: registry.example/demo:v1.0.0, properties: [{type: olm.package, value: {packageName: demo, version: 1.0.0}}]}
---
{schema: olm.bundle, package: demo, name: demo.v1.1.0, image: registry.example/demo:v1.1.0, properties: [{type: olm.package, value: {packageName: demo, version: 1.1.0}}]}
---
{schema: olm.bundle, package: demo, name: demo.v1.2.0, image: registry.example/demo:v1.2.0, properties: [{type: olm.package, value: {packageName: demo, version: 1.2.0}}]}
---
{schema: olm.bundle, package: demo, name: demo.v1.3.0, image: registry.example/demo:v1.3.0, properties: [{type: olm.package, value: {packageName: demo, version: 1.3.0}}, {type: olm.csv.metadata, value: {minKubeVersion: 1.40.0}}]}
---
{schema: olm.bundle, package: demo, name: demo.v2.0.0, image: registry.example/demo:v2.0.0, properties: [{type: olm.package, value: {packageName: demo, version: 2.0.0}}]}
---
schema: olm.package
name: needy
defaultChannel: stable
---
schema: olm.channel
package: needy
name: stable
entries:
- {name: needy.v0.1.0}
---
{schema: olm.bundle, package: needy, name: needy.v0.1.0, image: registry.example/needy:v0.1.0, properties: [{type: olm.package, value: {packageName: needy, version: 0.1.0}}, {type: olm.package.required, value: {packageName: demo, versionRange: '>=3.0.0'}}, {type: olm.gvk.required, value: {group: example.com, version: v1, kind: Bucket}}]}
---
schema: olm.package
name: old
defaultChannel: stable
---
schema: olm.channel
package: old
name: stable
entries:
- {name: old.v0.1.0}
---
{schema: olm.bundle, package: old, name: old.v0.1.0, image: registry.example/old:v0.1.0, properties: [{type: olm.package, value: {packageName: old, version: 0.1.0}}]}
---
schema: olm.deprecations
package: old
entries:
- {reference: {schema: olm.package}, message: the package old is not maintained any more; use demo}
";

/// An operator with a CRD; its second version changes an image and a permission.
fn repository() -> tempfile::TempDir {
    let csv = |version: &str, replaces: &str, verbs: &str| {
        format!(
            "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: widget.v{version}
  annotations: {{capabilities: Basic Install}}
spec:
  displayName: Widgets
  version: {version}
{replaces}  installModes:
  - {{type: OwnNamespace, supported: true}}
  - {{type: SingleNamespace, supported: true}}
  - {{type: MultiNamespace, supported: false}}
  - {{type: AllNamespaces, supported: false}}
  customresourcedefinitions:
    owned:
    - {{name: widgets.example.com, version: v1, kind: Widget}}
  install:
    strategy: deployment
    spec:
      permissions:
      - serviceAccountName: widget
        rules:
        - {{apiGroups: [''], resources: [secrets], verbs: [{verbs}]}}
      deployments:
      - name: widget
        spec:
          replicas: 1
          selector: {{matchLabels: {{name: widget}}}}
          template:
            metadata: {{labels: {{name: widget}}}}
            spec:
              serviceAccountName: widget
              containers:
              - {{name: widget, image: 'registry.example/widget:{version}'}}
"
        )
    };
    let crd = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
";
    let annotations = "annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: widget
  operators.operatorframework.io.bundle.channels.v1: stable
  operators.operatorframework.io.bundle.channel.default.v1: stable
";
    let (first, second) = (csv("1.0.0", "", "get"), csv("1.1.0", "  replaces: widget.v1.0.0\n", "get, list"));
    folder(&[
        ("operators/widget/1.0.0/manifests/csv.yaml", &first),
        ("operators/widget/1.0.0/manifests/crd.yaml", crd),
        ("operators/widget/1.0.0/metadata/annotations.yaml", annotations),
        ("operators/widget/1.1.0/manifests/csv.yaml", &second),
        ("operators/widget/1.1.0/manifests/crd.yaml", crd),
        ("operators/widget/1.1.0/metadata/annotations.yaml", annotations),
    ])
}

/// The output fits a terminal; commands and names to copy are not broken.
fn readable(ran: &Ran) {
    for line in ran.out.lines() {
        let command = ["kubectl ", "olm ", "plan sha256:"].iter().any(|c| line.trim_start().starts_with(c));
        let one_word = line.split_whitespace().count() <= 3;
        assert!(line.chars().count() <= 80 || command || one_word, "{line}");
    }
}

fn ask(dir: &std::path::Path, lines: &[&str]) -> String {
    let path = dir.to_str().unwrap();
    let mut all = String::new();
    for line in lines {
        let args: Vec<&str> = line.split(' ').chain(["--catalog-dir", path]).collect();
        let ran = olm(&args);
        readable(&ran);
        all.push_str(&format!(
            "$ olm {line} --catalog-dir DIR\n{}\n\n",
            without_digests(&transcript(&ran, dir))
        ));
    }
    all
}

#[test]
fn why_explains_selected_and_rejected_versions() {
    let dir = folder(&[("catalog.yaml", CATALOG)]);
    insta::assert_snapshot!(
        "why_chosen",
        ask(
            dir.path(),
            &[
                "why demo",
                "why demo --installed demo.v1.1.0 --kube-version 1.33",
                "why demo --installed demo@1.0.0 --kube-version 1.33",
                "why demo --version 1.1.0",
                "why old",
            ]
        )
    );
}

#[test]
fn a_version_that_is_no_range_names_the_flag_and_the_nearest_range() {
    for (text, wrong, nearest) in [
        ("0.8", "\"0.8\" in \"0.8\" is not a version: expected MAJOR.MINOR.PATCH", "0.8.x"),
        (
            ">=0.8 <0.10",
            "\"0.8\" in \">=0.8\" is not a version: expected MAJOR.MINOR.PATCH",
            ">=0.8.0 <0.10.0",
        ),
        ("~1.2.3", "unknown operator \"~\" in \"~1.2.3\"", ">=1.2.3 <1.3.0"),
    ] {
        for command in [&["install"][..], &["plan", "install"], &["plan", "upgrade"], &["why"]] {
            let ran = olm(&[command, &["demo", "--version", text]].concat());
            assert_eq!(ran.code, Some(2), "{command:?}: {}", ran.err);
            for part in [
                &format!("invalid value '{text}' for '--version <"),
                wrong,
                &format!("did you mean {nearest:?}?"),
            ] {
                assert!(ran.err.contains(part), "{command:?}: {part} is missing in {}", ran.err);
            }
        }
    }
}

#[test]
fn why_explains_what_cannot_be_had() {
    let dir = folder(&[("catalog.yaml", CATALOG)]);
    insta::assert_snapshot!(
        "why_refused",
        ask(
            dir.path(),
            &[
                "why needy",
                "why dmeo",
                "why demo --channel stabel",
                "why demo --version 7.0.0",
                "why demo --version 1.1.0 --installed demo.v1.2.0",
                "why demo --installed demo.v9",
                "why demo --kube-version new",
            ]
        )
    );
}

#[test]
fn answers_are_data_too() {
    let dir = folder(&[("catalog.yaml", CATALOG)]);
    let path = dir.path().to_str().unwrap();
    let why = olm(&["why", "demo", "--installed", "demo.v1.0.0", "--catalog-dir", path, "-o", "json"]);
    let why: Value = serde_json::from_str(&why.out).unwrap();
    assert_eq!(why["apiVersion"], "cli.olm/v1");
    assert_eq!(why["resolved"]["chosen"]["version"], "1.1.0");
    assert_eq!(why["resolved"]["path"].as_array().unwrap().len(), 3);
    assert_eq!((&why["supposed"], &why["installed"]), (&true.into(), &"demo.v1.0.0".into()));
    let refused = olm(&["why", "needy", "--catalog-dir", path, "-o", "json"]);
    assert_eq!(refused.code, Some(5));
    let refused: Value = serde_json::from_str(&refused.out).unwrap();
    assert_eq!(refused["explanation"]["code"], "DependencyUnsatisfied");
}

#[test]
fn graphs_mark_what_is_installed_and_the_way_from_there() {
    let dir = folder(&[("catalog.yaml", CATALOG)]);
    insta::assert_snapshot!(
        "package_graph",
        ask(
            dir.path(),
            &[
                "graph demo",
                "graph demo --installed demo.v1.1.0",
                "graph demo --from 1.0.0 --to 1.2.0",
                "graph demo --from 1.0.0 --to 1.1.0 -o dot",
                "graph demo --from 1.0.0 --to 1.1.0 -o mermaid",
                "graph demo --from 1.1.0 --to 1.0.0",
                "graph demo --from 3.0.0",
                "graph demo --channel none",
            ]
        )
    );
}

#[test]
fn the_way_is_marked_in_a_drawing() {
    let dir = folder(&[("catalog.yaml", CATALOG)]);
    let path = dir.path().to_str().unwrap();
    let ran = olm(&["graph", "demo", "--from", "1.0.0", "--to", "1.1.0", "-o", "svg", "--catalog-dir", path]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    for part in
        ["<svg class=\"upgrades\"", "class=\"edge path\"", "<title>demo.v1.1.0: ", "<style>", "</svg>\n"]
    {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}

#[test]
fn a_plan_without_a_cluster_shows_all_that_can_be_known() {
    let dir = repository();
    insta::assert_snapshot!(
        "plans",
        ask(
            dir.path(),
            &[
                "plan install widget -n shop",
                "plan install widget -n shop --version 1.0.0 --exit-code",
                "plan upgrade widget -n shop --installed widget.v1.0.0",
                "plan upgrade widget -n shop --installed widget.v1.1.0 --exit-code",
                "plan upgrade widget -n shop",
                "plan rollback widget -n shop --installed widget.v1.1.0",
                "plan rollback widget -n shop --installed widget.v1.0.0",
                "plan uninstall widget -n shop --installed widget.v1.1.0 --instances keep",
                "plan uninstall widget -n shop --installed widget.v1.1.0",
            ]
        )
    );
    let path = dir.path().to_str().unwrap();
    let json = olm(&["plan", "install", "widget", "--catalog-dir", path, "-o", "json"]);
    let plan: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&plan["apiVersion"], &plan["to"]), (&"plan.olm/v1".into(), &"1.1.0".into()));
    let yaml = olm(&["plan", "install", "widget", "--catalog-dir", path, "-o", "yaml"]);
    assert_eq!(serde_yaml::from_str::<Value>(&yaml.out).unwrap(), plan);
}

#[test]
fn a_plan_of_an_installation_has_the_settings_of_the_deployments() {
    let dir = repository();
    let path = dir.path().to_str().unwrap();
    let digest = |settings: &[&str]| {
        let plan = ["plan", "install", "widget", "--catalog-dir", path, "-o", "json"];
        let ran = olm(&[&plan, settings].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let plan: Value = serde_json::from_str(&ran.out).unwrap();
        plan["digest"].as_str().unwrap().to_owned()
    };
    let debug = ["--set-config", "env.LOG_LEVEL=debug"];
    assert_ne!(digest(&debug), digest(&[]));
    assert_eq!(digest(&debug), digest(&["--set-config", "env.LOG_LEVEL=info", debug[0], debug[1]]));
    // the same refusal as that of `olm install`
    for command in [&["plan", "install"] as &[&str], &["install"]] {
        let ran = olm(&[command, &["widget", "--set-config", "replicas=2"]].concat());
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(ran.err.contains("replicas: unknown setting, expected env"), "{}", ran.err);
    }
}

#[test]
fn a_plan_shows_the_requested_namespaces() {
    let dir = repository();
    let path = dir.path().to_str().unwrap();
    let plan = |flags: &[&str]| {
        olm(&[&["plan", "install", "widget", "-n", "shop", "--catalog-dir", path], flags].concat())
    };
    for (flags, watches) in [(&["--mode", "own"][..], "shop"), (&["--watch", "shop"][..], "shop")] {
        let ran = plan(flags);
        assert_eq!(ran.code, Some(0), "{flags:?}: {}", ran.err);
        assert!(ran.out.contains(&format!("\nwatches:   {watches}\n")), "{flags:?}: {}", ran.out);
    }
    // a mode that the bundle does not support blocks the plan
    let ran = plan(&["--mode", "all"]);
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    assert!(ran.out.contains("UnsupportedInstallMode"), "{}", ran.out);
    // and flags that contradict each other are an error of usage
    for (flags, why) in [
        (&["--mode", "all", "--watch", "a"][..], "install mode AllNamespaces with a, expected none"),
        (
            &["--mode", "multi", "--watch", "a"][..],
            "install mode MultiNamespace with a, expected at least two",
        ),
        (&["--mode", "single"][..], "install mode SingleNamespace with none, expected one"),
        (&["--watch", "a,B"][..], "`B` is not a valid namespace name"),
    ] {
        let ran = plan(flags);
        assert_eq!(ran.code, Some(2), "{flags:?}: {}", ran.err);
        assert!(ran.err.contains(&format!("--watch: {why}")) && ran.err.contains("hint: "), "{}", ran.err);
    }
}

#[test]
fn a_plan_from_a_bundle_that_left_the_catalog_lists_unchecked_facts() {
    let dir = repository();
    std::fs::remove_dir_all(dir.path().join("operators/widget/1.0.0")).unwrap();
    let path = dir.path().to_str().unwrap();
    let ran = olm(&[
        "plan",
        "upgrade",
        "widget",
        "--installed",
        "widget.v1.0.0",
        "--catalog-dir",
        path,
        "-o",
        "json",
    ]);
    let plan: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&plan["from"], &plan["to"]), (&"1.0.0".into(), &"1.1.0".into()), "{}", ran.err);
    let findings = plan["findings"].as_array().unwrap();
    let finding = findings.iter().find(|f| f["subject"] == "ClusterServiceVersion widget.v1.0.0").unwrap();
    assert_eq!(finding["code"], "NotChecked");
}

#[test]
fn diff_ends_as_kubectl_diff_does() {
    let dir = repository();
    insta::assert_snapshot!(
        "package_diff",
        ask(
            dir.path(),
            &[
                "diff widget -n shop --from 1.0.0 --to 1.1.0",
                "diff widget -n shop --from 1.0.0",
                "diff widget -n shop --from 1.1.0 --to 1.1.0",
                "diff widget -n shop --from 1.1.0",
                "diff widget -n shop --from 1.0.0 --to 9.0.0",
                "diff widget -n shop",
            ]
        )
    );
}

#[test]
fn real_packages_have_readable_answers() {
    let Some(catalog) = data("catalogs/community-dev.json") else { return };
    let root = catalog.parent().unwrap();
    let path = catalog.to_str().unwrap();
    let mut all = String::new();
    for line in [
        "why etcd",
        "why etcd --installed etcdoperator.v0.6.1",
        "why kuadrant-operator --kube-version 1.33",
        "why l5-operator",
        "why strimzi-kafka-operator --installed strimzi-kafka-operator@0.15.0 --kube-version 1.33",
        "graph etcd --from 0.9.0 --to 0.9.4",
    ] {
        let args: Vec<&str> = line.split(' ').chain(["--catalog-dir", path]).collect();
        let ran = olm(&args);
        readable(&ran);
        // problems of other packages are not part of this test
        let ran = Ran { err: ran.err.lines().filter(|l| !l.starts_with("warning: ")).collect(), ..ran };
        all.push_str(&format!("$ olm {line}\n{}\n\n", without_digests(&transcript(&ran, root))));
    }
    insta::assert_snapshot!("why_real", all);
}

#[test]
fn a_real_bundle_is_planned_without_a_cluster() {
    let Some(bundles) = data("bundles/operators/etcd") else { return };
    let path = bundles.to_str().unwrap();
    // given the published versions of the etcd operator
    let ran = olm(&["plan", "install", "etcd", "-n", "db", "--catalog-dir", path, "--kube-version", "1.33"]);
    readable(&ran);
    // then the plan contains its CRDs, permissions and workload
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    for part in ["install etcd 0.9.4 in namespace db", "etcdclusters.etcd.database.coreos.com", "+ MED"] {
        assert!(ran.out.contains(part), "no {part:?} in {}", ran.out);
    }
    // and the diff of an upgrade shows the changes
    let ran = olm(&["diff", "etcd", "--from", "0.9.2", "--to", "0.9.4", "--catalog-dir", path]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("Deployment operators/etcd-operator changed"), "{}", ran.out);
}

#[test]
fn a_bundle_in_an_image_that_is_out_of_reach_is_named() {
    let text = CATALOG.replace("registry.example/", "127.0.0.1:1/");
    let dir = folder(&[("catalog.yaml", &text)]);
    let path = dir.path().to_str().unwrap();
    let ran = olm(&["plan", "install", "demo", "--catalog-dir", path, "--exit-code"]);
    // an undetermined result has an exit code other than that of a change
    assert_eq!(ran.code, Some(10), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("demo.v1.3.0") && ran.err.contains("olm why demo --catalog-dir"), "{}", ran.err);
}
