//! Unusual and broken YAML and JSON.

use olm_catalog::{Catalog, Filter, Problem, Severity};

use crate::text::sound;
use crate::{assert_good, errors, problem, reported};

/// A document and its problem: `None` for none, otherwise code, severity and line.
type Case<'a> = (&'a str, String, Option<(&'a str, Severity, usize)>);

const WARNING: Severity = Severity::Warning;
const ERROR: Severity = Severity::Error;

/// A catalog in JSON lines that has the package `good`.
fn good_json() -> String {
    [
        r#"{"schema":"olm.package","name":"good","defaultChannel":"stable"}"#,
        r#"{"schema":"olm.channel","package":"good","name":"stable","entries":[{"name":"good.v1.0.0"}]}"#,
        r#"{"schema":"olm.bundle","package":"good","name":"good.v1.0.0","image":"reg.test/p:1","properties":[{"type":"olm.package","value":{"packageName":"good","version":"1.0.0"}}]}"#,
        "",
    ]
    .join("\n")
}

fn check(cases: &[Case<'_>], good: &str) {
    let mut wrong = Vec::new();
    for (name, text, expected) in cases {
        // given an odd document before a valid package
        let catalog = Catalog::from_bytes("c", (text.clone() + good).as_bytes());
        // when it was read, then it is reported at its place, and the other package is loaded
        let found: Vec<_> =
            catalog.problems.iter().map(|it| (&*it.code, it.severity, it.place.line)).collect();
        let as_expected = match expected {
            None => found.is_empty(),
            Some(expected) => {
                found.contains(expected) && (expected.1 == ERROR || errors(&catalog).is_empty())
            }
        };
        if !as_expected {
            wrong.push(format!("{name}: not {expected:?} but {}", reported(&catalog.problems)));
        }
        assert_good(&catalog, name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn odd_yaml() {
    let document = |lines: &str| format!("---\nschema: x\n{lines}\n");
    let syntax = |line| Some(("syntax", ERROR, line));
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(", "));
    }
    let wide = format!("a: &a {:?}\nb: [{}]", "x".repeat(20_000), vec!["*a"; 10_000].join(","));
    check(
        &[
            ("a key twice", document("a: 1\na: 2"), Some(("duplicate-key", WARNING, 2))),
            ("a key twice, deep", document("a: {b: [{c: 1, c: 2}]}"), Some(("duplicate-key", WARNING, 2))),
            ("numbers as keys", document("1: a\n1.50: b"), None),
            ("truth as a key", document("true: a"), None),
            ("a list as a key", document("[a]: b"), syntax(3)),
            ("a map as a key", document("{a: b}: c"), syntax(3)),
            ("a merge", document("a: &a {k: v}\nb:\n  <<: *a"), None),
            ("a merge under a key of its own", document("a: &a {k: v}\nb:\n  k: w\n  <<: *a"), None),
            ("a merge of a number", document("b:\n  <<: 3"), syntax(1)),
            (
                "tags",
                document("a: !foo bar\nb: !!str 12\nc: !!binary aGVsbG8=\nd: 2020-01-01\ne: 0644"),
                None,
            ),
            ("tabs between", "---\nschema:\tx\na:\t1\n".into(), None),
            ("tabs as indentation", document("a:\n\tb: 1"), syntax(4)),
            ("no number", document("a: .nan"), syntax(3)),
            ("no end", document("a: .inf"), syntax(3)),
            ("a large number", document("a: 1180591620717411303424"), None),
            ("NUL", document("a: \"b\0c\""), syntax(1)),
            ("half of a surrogate pair", document("a: \"\\ud800\""), syntax(3)),
            ("anchors that multiply", document(&bomb), syntax(3)),
            ("an anchor that is used often", document(&wide), syntax(3)),
            ("an anchor in itself", document("a: &a [*a]"), syntax(3)),
            ("an alias of nothing", document("a: *b"), syntax(3)),
            ("100,000 brackets", document(&("a: ".to_owned() + &"[".repeat(100_000))), syntax(3)),
            ("100,000 steps", document(&("- ".repeat(100_000) + "a")), syntax(3)),
            ("100 brackets", document(&format!("a: {}{}", "[".repeat(100), "]".repeat(100))), None),
            ("nothing but markers", "---\n---\n# c\n---\n".into(), None),
            ("a list", "---\n[a, b]\n".into(), Some(("not-a-map", ERROR, 2))),
            ("a word", "---\nhello\n".into(), Some(("not-a-map", ERROR, 2))),
            ("no schema", "---\n\na: 1\n".into(), Some(("schema-missing", ERROR, 3))),
            ("a number as schema", "---\nschema: 3\n".into(), Some(("schema-missing", ERROR, 2))),
            ("cut off", document("a: [1, 2"), syntax(4)),
        ],
        &sound("good"),
    );
}

#[test]
fn odd_json() {
    let syntax = |line| Some(("syntax", ERROR, line));
    let document = |value: &str| format!("{{\"schema\":\"x\",\"a\":{value}}}\n");
    let nested = |depth: usize| document(&("[".repeat(depth) + &"]".repeat(depth)));
    check(
        &[
            (
                "a key twice",
                "{\"schema\":\"x\",\"a\":1,\"a\":2}\n".into(),
                Some(("duplicate-key", WARNING, 1)),
            ),
            ("a key twice, deep", document(r#"[{"b":{"c":1,"c":2}}]"#), Some(("duplicate-key", WARNING, 1))),
            (
                "the name twice",
                r#"{"schema":"x","name":"a","name":"b"}"#.into(),
                Some(("duplicate-key", WARNING, 1)),
            ),
            ("a large number", document("1180591620717411303424"), None),
            ("a number without end", document("1e999"), syntax(1)),
            ("a number of 10,000 digits", document(&"9".repeat(10_000)), syntax(1)),
            ("NUL", document("\"b\0c\""), syntax(1)),
            ("NUL, escaped", document("\"b\\u0000c\""), None),
            ("half of a surrogate pair", document("\"\\ud800\""), syntax(1)),
            ("a control character", document("\"a\tb\""), syntax(1)),
            ("100 brackets", nested(100), None),
            ("100,000 brackets", nested(100_000), syntax(1)),
            ("100,000 brackets and no end", "{\"a\":".to_owned() + &"[".repeat(100_000) + "\n", syntax(1)),
            ("100,000 maps and no end", "{\"a\":".repeat(100_000) + "\n", syntax(1)),
            ("a comma too many", "{\n  \"schema\": \"x\",\n}\n".into(), syntax(3)),
            ("a comment", "{\"schema\":\"x\"} // why not\n".into(), syntax(1)),
            ("single quotes", "{'schema':'x'}\n".into(), syntax(1)),
            ("no schema", "{}\n".into(), Some(("schema-missing", ERROR, 1))),
        ],
        &good_json(),
    );
}

#[test]
fn bytes_that_are_no_text() {
    for (name, before, good) in [
        ("YAML", &b"---\nschema: x\na: \xff\n"[..], sound("good")),
        ("JSON", b"{\"schema\":\"x\",\n\"b\":1,\"a\":\"\xff\"}\n", good_json()),
    ] {
        // given a document that is not UTF-8
        let bytes = [before, good.as_bytes()].concat();
        // when it is read
        let catalog = Catalog::from_bytes("c", &bytes);
        // then its place is reported
        let place = &problem(&catalog, "syntax").place;
        assert!(place.line >= 1 && place.line <= 3, "{name}: {place:?}");
        assert_good(&catalog, name);
    }
}

#[test]
fn marks_and_line_ends_of_other_systems() {
    for (name, text) in [("YAML", sound("good")), ("JSON", good_json())] {
        let with_mark = [b"\xef\xbb\xbf".as_slice(), text.as_bytes()].concat();
        let catalog = Catalog::from_bytes("c", &with_mark);
        assert_eq!(catalog.problems, [], "{name} with a byte order mark");
        assert_good(&catalog, name);
        let catalog = Catalog::from_bytes("c", text.replace('\n', "\r\n").as_bytes());
        assert_eq!(catalog.problems, [], "{name} with CRLF");
        assert_good(&catalog, name);
    }
}

#[test]
fn utf16_is_reported_and_not_taken_for_an_empty_catalog() {
    let bytes: Vec<u8> =
        std::iter::once(0xfeff).chain(sound("good").encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let catalog = Catalog::from_bytes("c.yaml", &bytes);
    assert_eq!(problem(&catalog, "syntax").place.line, 1);
}

#[test]
fn fields_of_another_type_than_the_schema_has() {
    let channel = "---\n{schema: olm.channel, package: p, name: c, entries: [{name: p.v1}]}\n";
    let bundle =
        |fields: &str| format!("---\n{{schema: olm.bundle, package: p, name: p.v1, image: a/b, {fields}}}\n");
    let property = "{type: olm.package, value: {packageName: p, version: 1.0.0}}";
    let package =
        |fields: &str| format!("---\n{{schema: olm.package, name: p, defaultChannel: c, {fields}}}\n");
    let whole = |bundle_fields: &str| package("") + channel + &bundle(bundle_fields);
    let of = |fields: &str| package(fields) + channel + &bundle(&format!("properties: [{property}]"));
    let entries = |entries: &str| {
        format!("---\n{{schema: olm.channel, package: p, name: d, entries: {entries}}}\n") + &of("")
    };
    let properties = |more: &str| whole(&format!("properties: [{property}, {more}]"));
    let mut wrong = Vec::new();
    // given a field that violates the schema; `opm validate` rejects all of these, too
    for (name, text, code) in [
        ("a number as description", of("description: 3"), "shape"),
        ("a text as icon", of("icon: abc"), "shape"),
        (
            "an icon that is not base64",
            of("icon: {base64data: '%%%', mediatype: image/png}"),
            "icon-not-base64",
        ),
        ("entries that are a map", entries("{}"), "shape"),
        ("entries that are nothing", entries("null"), "channel-empty"),
        ("an entry that is nothing", entries("[null]"), "shape"),
        ("an entry without a name", entries("[{replaces: x}]"), "entry-name-missing"),
        ("skips that are a text", entries("[{name: p.v1, skips: x}]"), "shape"),
        ("properties that are nothing", whole("properties: null"), "bundle-package-property"),
        ("properties that are a text", whole("properties: x"), "shape"),
        ("a property that is nothing", properties("null"), "shape"),
        (
            "a version that is a number",
            whole("properties: [{type: olm.package, value: {packageName: p, version: 1.0}}]"),
            "property-invalid",
        ),
        (
            "metadata of another shape",
            properties("{type: olm.csv.metadata, value: {displayName: 3}}"),
            "property-invalid",
        ),
        (
            "an object that is not base64",
            properties("{type: olm.bundle.object, value: {data: '%%'}}"),
            "property-invalid",
        ),
    ] {
        // when it is read
        let catalog = Catalog::from_bytes("c.yaml", (text + &sound("good")).as_bytes());
        // then that is an error, with a place, and the other package is loaded
        let is_reported = |it: &&Problem| it.code == code && it.severity == ERROR && it.place.line > 0;
        if !catalog.problems.iter().any(|it| is_reported(&it)) {
            wrong.push(format!("{name}: no {code} but {}", reported(&catalog.problems)));
        }
        assert_good(&catalog, name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // and `skips: null` means no skips
    let catalog = Catalog::from_bytes("c.yaml", (entries("[{name: p.v1, skips: null}]")).as_bytes());
    assert_eq!(errors(&catalog), Vec::<&Problem>::new());
}

#[test]
fn unusable_constraints_are_reported() {
    for (constraint, code) in [
        ("{unknown: {}}", Some("constraint-key")),
        ("{cel: {rule: 1 + 1}}", Some("constraint-invalid")),
        ("{any: {constraints: [{package: {packageName: a, versionRange: x}}]}}", Some("constraint-invalid")),
        ("{cel: {rule: size(properties) > 0}}", None),
    ] {
        // given a bundle with a constraint
        let text = "---\n{schema: olm.package, name: p, defaultChannel: c}\n---\n{schema: olm.channel, package: p, name: c, \
                    entries: [{name: p.v1}]}\n---\n{schema: olm.bundle, package: p, name: p.v1, image: a/b, properties: \
                    [{type: olm.package, value: {packageName: p, version: 1.0.0}}, {type: olm.constraint, value: "
            .to_owned()
            + constraint
            + "}]}\n";
        // when the catalog is read, then it is reported once, and the bundle is loaded
        let catalog = Catalog::from_bytes("c.yaml", (text + &sound("good")).as_bytes());
        let codes: Vec<&str> = catalog.problems.iter().map(|problem| problem.code.as_ref()).collect();
        assert_eq!(codes, code.into_iter().collect::<Vec<_>>(), "{constraint}");
        assert_eq!(errors(&catalog), Vec::<&Problem>::new());
    }
}

#[test]
fn names_that_are_paths_or_worse() {
    let long = "n".repeat(100_000);
    for name in [
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".",
        "a/b",
        "a\\b",
        "a\nb",
        "a\0b",
        "\u{202e}evil",
        long.as_str(),
    ] {
        // given a package of such a name
        let quoted = serde_json::to_string(name).unwrap();
        let text = format!(
            "{{\"schema\":\"olm.package\",\"name\":{quoted},\"defaultChannel\":\"c\"}}\n{{\"schema\":\"olm.channel\",\"package\":{quoted},\"name\":\"c\",\"entries\":[]}}\n"
        ) + &good_json();
        // when it is read
        let catalog = Catalog::from_bytes("c.json", text.as_bytes());
        // then it is rejected, and the message is one line that a terminal can show
        let found = problem(&catalog, "package-name-invalid");
        let shown = found.to_string();
        assert!(!shown.contains(['\n', '\0', '\u{202e}']), "{shown:?}");
        assert!(shown.len() < 2_000, "{} bytes", shown.len());
        assert_good(&catalog, "names");
    }
}

/// Found by fuzzing: a number that is written differently each time it is read gives the same content another
/// digest.
#[test]
fn what_was_written_reads_the_same_again() {
    // given numbers beyond any integer type
    let text =
        "{\"schema\":\"x\",\"a\":[1180591620717411303424,0.1e-7,1.7976931348623157e308,-0.0,5e-324]}\n";
    let catalog = Catalog::from_bytes("c", text.as_bytes());
    // when its canonical documents are read
    let document = catalog.documents(&Filter::default()).next().unwrap().unwrap();
    let again = Catalog::from_bytes("c", &document);
    // then they are equal, including the digest
    assert_eq!(again.documents(&Filter::default()).next().unwrap().unwrap(), document);
    assert_eq!(again.digest, catalog.digest);
}
