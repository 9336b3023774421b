//! `olm bundle validate` and `olm bundle render`.

use serde_json::Value;

use crate::{data, folder, olm, transcript};

#[test]
fn a_bundle_is_judged_with_operator_sdks_exit_codes() {
    let (Some(bundle), Some(old)) =
        (data("bundles/operators/etcd/0.9.4"), data("bundles/operators/cockroachdb/2.0.9"))
    else {
        return;
    };
    let (path, old) = (bundle.to_str().unwrap(), old.to_str().unwrap());
    // warnings pass
    let ran = olm(&["bundle", "validate", path]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    // errors fail: that version uses an API that Kubernetes 1.22 no longer serves
    let optional =
        ["--select-optional", "name=alpha-deprecated-apis", "--optional-values", "k8s-version=1.22"];
    let ran = olm(&[&["bundle", "validate", old] as &[&str], &optional].concat());
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("[api-removed]"), "{}", ran.out);
    let json = olm(&["bundle", "validate", path, "-o", "json-alpha1"]);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["passed"], true);
    // an unknown selector
    let ran = olm(&["bundle", "validate", path, "--select-optional", "name=good-practises"]);
    assert!(ran.code == Some(2) && ran.err.contains("good-practices"), "{}", ran.err);
    assert_eq!(olm(&["bundle", "validate"]).code, Some(2));
}

#[test]
fn an_invalid_bundle_is_reported() {
    let dir = folder(&[("empty/README.md", "x"), ("half/manifests/csv.yaml", "kind: [\n")]);
    let mut all = String::new();
    for (command, name) in [
        ("validate", "empty"),
        ("validate", "half"),
        ("render", "empty"),
        ("validate", "none"),
        ("validate", "empty/README.md"),
    ] {
        let path = dir.path().join(name).display().to_string();
        all.push_str(&format!(
            "$ olm bundle {command} DIR/{name}\n{}\n\n",
            transcript(&olm(&["bundle", command, &path]), dir.path())
        ));
    }
    insta::assert_snapshot!("no_bundle", all);
}

#[test]
fn render_equals_opm_render_in_meaning() {
    // given opm's output for each bundle
    let (Some(bundles), Some(recorded)) = (data("bundles/operators"), data("recorded/opm/render-dev.jsonl"))
    else {
        return;
    };
    let recorded = std::fs::read_to_string(recorded).unwrap();
    let lines: Vec<Value> = recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The library's tests compare all bundles; a sample runs through the program.
    for line in lines.iter().filter(|line| line["blob"].is_object()).step_by(40) {
        let dir = bundles.join(line["dir"].as_str().unwrap());
        let image = line["blob"]["image"].as_str().unwrap();
        // when it is rendered
        let ran = olm(&["bundle", "render", dir.to_str().unwrap(), "--image-template", image]);
        let ours: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.err));
        // then the output is the same
        for key in ["schema", "name", "package", "image", "properties"] {
            assert_eq!(ours[key], line["blob"][key], "{} {key}", line["dir"]);
        }
    }
}
