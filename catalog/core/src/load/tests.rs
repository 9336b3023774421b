use std::fs;

use super::*;
use crate::Filter;

const GOOD: &str = "---\nschema: olm.package\nname: good\ndefaultChannel: c\n---\nschema: olm.channel\npackage: good\nname: c\nentries:\n- name: good.v1\n---\nschema: olm.bundle\npackage: good\nname: good.v1\nimage: quay.io/a/b:1\nproperties:\n- type: olm.package\n  value: {packageName: good, version: 1.0.0}\n";

fn codes(catalog: &Catalog) -> Vec<&str> {
    catalog.problems.iter().map(|problem| problem.code.as_ref()).collect()
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.summaries().map(|summary| summary.name.as_str()).collect()
}

fn json_lines(catalog: &Catalog) -> Vec<u8> {
    let mut out = Vec::new();
    for document in catalog.documents(&Filter::default()) {
        out.extend_from_slice(&document.unwrap());
        out.push(b'\n');
    }
    out
}

#[test]
fn a_syntax_error_has_its_place_and_other_packages_load() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    fs::write(dir.path().join("a/b/good.yaml"), GOOD).unwrap();
    fs::write(
        dir.path().join("broken.yaml"),
        "---\nschema: olm.package\nname: broken\n---\nschema: olm.channel\npackage: broken\nname: [\n",
    )
    .unwrap();
    let catalog = Catalog::load_dir(dir.path());
    assert_eq!(names(&catalog), ["good"]);
    let syntax = catalog.problems.iter().find(|problem| problem.code == "syntax").unwrap();
    assert!(syntax.place.path.ends_with("broken.yaml"));
    assert!((7..=8).contains(&syntax.place.line) && syntax.place.column > 0, "{syntax}");
    assert_eq!(syntax.package.as_deref(), Some("broken"));
    assert!(syntax.to_string().contains("broken.yaml:"), "{syntax}");
}

#[test]
fn ignored_files_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("docs")).unwrap();
    fs::write(dir.path().join("catalog.yaml"), GOOD).unwrap();
    fs::write(dir.path().join("README.md"), "# not yaml: [\n").unwrap();
    fs::write(dir.path().join("docs/x.yaml"), "[").unwrap();
    fs::write(dir.path().join(".indexignore"), "*.md\ndocs/\n").unwrap();
    let catalog = Catalog::load_dir(dir.path());
    assert_eq!(codes(&catalog), Vec::<&str>::new());
    assert_eq!(catalog.len(), 1);
}

#[test]
fn invalid_rules_and_links_to_devices_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join(".indexignore");
    fs::write(dir.path().join("catalog.yaml"), GOOD).unwrap();
    fs::write(dir.path().join("README.md"), "# not yaml: [\n").unwrap();
    // given an invalid rule, then the others hold
    fs::write(&rules, "[z-a]\n*.md\n").unwrap();
    let catalog = Catalog::load_dir(dir.path());
    assert_eq!((codes(&catalog), catalog.len()), (vec!["unreadable"], 1));
    // given a link to a file without an end, then it is not read
    fs::remove_file(&rules).unwrap();
    fs::remove_file(dir.path().join("README.md")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &rules).unwrap();
    let catalog = Catalog::load_dir(dir.path());
    assert_eq!((codes(&catalog), catalog.len()), (vec!["unreadable"], 1));
    assert!(catalog.problems[0].to_string().contains("not a regular file"), "{}", catalog.problems[0]);
    // nor is a large one
    fs::remove_file(&rules).unwrap();
    fs::File::create(&rules).unwrap().set_len(LARGEST_RULES + 1).unwrap();
    assert_eq!(codes(&Catalog::load_dir(dir.path())), ["unreadable"]);
}

#[test]
fn the_digest_is_of_the_content() {
    let yaml = Catalog::from_bytes("a", GOOD.as_bytes());
    let json = Catalog::from_bytes("b", &json_lines(&yaml));
    let mut chunks: Vec<&str> = GOOD.split("---\n").filter(|chunk| !chunk.is_empty()).collect();
    chunks.reverse();
    let reversed = Catalog::from_bytes("c", chunks.join("---\n").as_bytes());
    assert!(yaml.digest.starts_with("sha256:") && yaml.digest.len() == 71);
    assert_eq!(yaml.digest, json.digest);
    assert_eq!(yaml.digest, reversed.digest);
    assert_eq!(json_lines(&yaml), json_lines(&json));
    let other = Catalog::from_bytes("d", GOOD.replace("1.0.0", "1.0.1").as_bytes());
    assert_ne!(yaml.digest, other.digest);
}

#[test]
fn missing_bundles_are_found_in_every_channel() {
    let text = GOOD.to_owned()
        + "---\n{schema: olm.channel, package: good, name: a, entries: [{name: gone.v1}]}\n---\n{schema: olm.channel, package: good, name: z, entries: [{name: gone.v2}]}\n";
    let catalog = Catalog::from_bytes("x", text.as_bytes());
    let missing: Vec<String> = catalog.problems.iter().map(ToString::to_string).collect();
    assert_eq!(codes(&catalog), ["channel-entry-no-bundle", "channel-entry-no-bundle"]);
    assert!(missing[0].contains("channel a has entries without a bundle: gone.v1"), "{}", missing[0]);
    assert!(missing[0].starts_with("x:20:1: "), "{}", missing[0]);
    assert_eq!(catalog.package("good").unwrap().unwrap().head().unwrap().name, "good.v1");
}

#[test]
fn a_default_channel_stands_in() {
    let catalog =
        Catalog::from_bytes("x", GOOD.replace("defaultChannel: c", "defaultChannel: stable").as_bytes());
    assert_eq!(codes(&catalog), ["default-channel-unknown"]);
    assert_eq!(catalog.summary("good").unwrap().default_channel, "c");
}

/// The channel c of package p with versions 1.0.0 to 4.0.0, of which 2.0.0 has a skipRange.
fn skipping(range: &str) -> Vec<Problem> {
    let name = |major: u32| format!("p.v{major}.0.0");
    let mut text = "schema: olm.package\nname: p\ndefaultChannel: c\n---\n\
                    schema: olm.channel\npackage: p\nname: c\nentries:\n- {name: p.v1.0.0}\n"
        .to_owned();
    for major in 2..=4 {
        let range = if major == 2 { format!(", skipRange: '{range}'") } else { String::new() };
        text += &format!("- {{name: {}, replaces: {}{range}}}\n", name(major), name(major - 1));
    }
    for major in 1..=4 {
        text += &format!(
            "---\n{{schema: olm.bundle, package: p, name: {}, image: 'r.test/p:{major}', properties: \
             [{{type: olm.package, value: {{packageName: p, version: {major}.0.0}}}}]}}\n",
            name(major)
        );
    }
    Catalog::from_bytes("c", text.as_bytes()).problems
}

#[test]
fn a_skip_range_ends_below_its_own_version() {
    for (range, covers) in [
        (">1.0.0", "its own version and 2 newer entries, p.v3.0.0 to p.v4.0.0"),
        ("<=2.0.0", "its own version"),
        ("<=3.0.0 !2.0.0", "the newer entry p.v3.0.0"),
    ] {
        let problems = skipping(range);
        let [problem] = problems.as_slice() else { panic!("{range}: {problems:?}") };
        assert_eq!(
            (problem.code.as_ref(), problem.severity),
            ("skip-range-too-wide", Severity::Warning),
            "{range}"
        );
        let text = format!("skipRange {range:?} of p.v2.0.0 in channel c covers {covers}");
        assert_eq!(problem.text, text, "{range}");
    }
    // authors write a range that ends below it
    assert_eq!(skipping(">=1.0.0 <2.0.0"), []);
}

#[test]
fn nothing_at_all_is_a_problem_not_a_crash() {
    assert_eq!(codes(&Catalog::load_dir(Path::new("/nonexistent"))), ["unreadable"]);
    assert_eq!(codes(&Catalog::from_bytes("x", b"")), ["catalog-empty"]);
    assert_eq!(codes(&Catalog::from_bytes("x", b"\xff")), ["syntax"]);
}

/// Upstream's decoder matches fields case-insensitively.
#[test]
fn fields_are_read_in_any_case() {
    let yaml = "Schema: olm.package\nName: p\nDefaultChannel: stable\n---\nSchema: olm.channel\nPackage: p\nName: stable\nEntries:\n- Name: p.v1.0.0\n  SkipRange: <1.0.0\n---\nschema: olm.bundle\npackage: p\nname: p.v1.0.0\nimage: r.test/p:1\nproperties:\n- Type: olm.package\n  Value: {PackageName: p, version: 1.0.0}\n";
    let json = r#"{"SCHEMA":"olm.package","name":"p","defaultchannel":"stable"}
{"schema":"olm.channel","package":"p","name":"stable","entries":[{"name":"p.v1.0.0","skiprange":"<1.0.0"}]}
{"schema":"olm.bundle","Package":"p","name":"p.v1.0.0","Image":"r.test/p:1","properties":[{"type":"olm.package","value":{"packagename":"p","version":"1.0.0"}}]}"#;
    let [yaml, json] = [yaml, json].map(|text| {
        let catalog = Catalog::from_bytes("c", text.as_bytes());
        assert_eq!(catalog.problems, []);
        let package = catalog.package("p").unwrap().unwrap();
        assert_eq!(package.default_channel, "stable");
        assert_eq!(package.channels["stable"].entries[0].skip_range.as_deref(), Some("<1.0.0"));
        assert_eq!(package.bundles["p.v1.0.0"].version.as_ref().unwrap().to_string(), "1.0.0");
        assert_eq!(package.bundles["p.v1.0.0"].image.as_deref(), Some("r.test/p:1"));

        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("catalog.yaml"), text).unwrap();
        let checked = Catalog::check(dir.path());
        assert_eq!((checked.problems.as_slice(), checked.len()), ([].as_slice(), 1));
        catalog.digest
    });
    assert_eq!(yaml, json);

    let twice = r#"{"schema":"olm.package","name":"p","Name":"q","defaultChannel":"stable"}"#;
    let catalog = Catalog::from_bytes("c", twice.as_bytes());
    assert_eq!(codes(&catalog), ["syntax"]);
    assert_eq!(catalog.problems[0].text, "\"Name\" and \"name\" are one field, expected it once");
}

#[test]
fn a_check_finds_what_loading_finds() {
    let json = |properties: &str| {
        format!(
            "{{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"c\"}}\n{{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\",\"entries\":[{{\"name\":\"p.v1\"}}]}}\n{{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"p.v1\",\"image\":\"a/b\",\"properties\":[{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"p\",\"version\":\"1.0.0\"}}}}{properties}]}}\n"
        )
    };
    for text in [
        GOOD.to_owned(),
        json(""),
        // a duplicate key, at the top and inside
        json("").replace("\"image\":\"a/b\"", "\"image\":\"a/b\",\"image\":\"a/c\""),
        json(",{\"type\":\"x\",\"value\":{\"k\":1,\"k\":2}}"),
        // metadata that is valid, that is invalid, and that comes before its type
        json(
            ",{\"type\":\"olm.csv.metadata\",\"value\":{\"displayName\":\"P\",\"annotations\":{\"a\":\"b\"}}}",
        ),
        json(",{\"type\":\"olm.csv.metadata\",\"value\":{\"displayName\":3}}"),
        json(
            ",{\"type\":\"olm.csv.metadata\",\"value\":{\"keywords\":[1]}},{\"type\":\"olm.gvk\",\"value\":3}",
        ),
        json(",{\"value\":{\"annotations\":[]},\"type\":\"olm.csv.metadata\"}"),
        json(",{\"type\":\"x\"},{\"value\":1},{\"type\":\"y\",\"value\":null}"),
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &text).unwrap();
        let (loaded, checked) = (Catalog::load_file(file.path()), Catalog::check(file.path()));
        assert_eq!(loaded.problems, checked.problems, "{text}");
        assert_eq!(names(&loaded), names(&checked), "{text}");
    }
}
