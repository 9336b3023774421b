//! YAML of real manifests.

use proptest::prelude::*;

use super::*;

fn values(text: &str) -> Vec<Value> {
    documents("test.yaml", text.as_bytes()).unwrap().into_iter().map(|document| document.value).collect()
}

fn message(text: &str) -> String {
    documents("test.yaml", text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn several_documents_with_their_lines() {
    let text = "# comment\n---\na: 1\n---\n\n--- # empty\n---\nb: |\n  ---\n  text\n...\n";
    let documents = documents("test.yaml", text.as_bytes()).unwrap();
    assert_eq!(documents.len(), 2);
    assert_eq!(documents[0].value, serde_json::json!({"a": 1}));
    assert_eq!(documents[1].value, serde_json::json!({"b": "---\ntext\n"}));
    assert_eq!(documents[1].line, 7);
}

#[test]
fn a_mistake_has_file_line_and_column() {
    let message = message("a: 1\n---\nb:\n  - c\n d: [\n");
    assert!(message.starts_with("test.yaml:"), "{message}");
    let line: usize = message.split(':').nth(1).unwrap().parse().unwrap();
    assert!((4..=6).contains(&line), "{message}");
    assert!(!message.contains('\n'), "{message}");
}

#[test]
fn what_manifests_rely_on() {
    assert_eq!(values("a: 1\na: 2\n"), [serde_json::json!({"a": 2})]);
    assert_eq!(values("mode: 0644\n"), [serde_json::json!({"mode": 420})]);
    assert_eq!(values("x: &a {k: v}\ny: *a\nz:\n  <<: *a\n")[0]["z"], serde_json::json!({"k": "v"}));
    assert_eq!(values("{\n\t\"a\": 1\n}"), [serde_json::json!({"a": 1})]);
    assert_eq!(values("\u{feff}a: b\r\n"), [serde_json::json!({"a": "b"})]);
    assert_eq!(
        values("v: 1.2.3\nd: 2019-02-28 01:03:00\nq: '1'\n"),
        [serde_json::json!({"v": "1.2.3", "d": "2019-02-28 01:03:00", "q": "1"})]
    );
    assert_eq!(values("1: a\ntrue: b\n"), [serde_json::json!({"1": "a", "true": "b"})]);
}

#[test]
fn not_utf8_names_the_place() {
    let error = documents("x.yaml", b"a: 1\nb: \xff\n").unwrap_err().to_string();
    assert_eq!(error, "x.yaml:2:4: the file is not UTF-8");
}

#[test]
fn an_anchor_bomb_is_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![alias; 10].join(", "));
    }
    assert!(message(&bomb).starts_with("test.yaml:"));
}

/// As in the CustomResourceDefinitions of t8c-certified: hundreds of aliases of a few small anchors.
#[test]
fn aliases_are_bounded_by_what_they_expand_to() {
    let mut text =
        String::from("common: &common {type: object, description: the same everywhere}\nproperties:\n");
    text.extend((0..600).map(|n| format!("  property{n}: *common\n")));
    let values = values(&text);
    assert_eq!(values[0]["properties"]["property599"]["type"], "object");
    let mut text = format!("a: &a [{}]\nb: [", "x, ".repeat(1_000));
    text += &"*a, ".repeat(1_000);
    text += "]\n";
    assert_eq!(
        message(&text),
        "test.yaml:2:37: the aliases of the document expand to more than 64 bytes of memory for each byte of its text"
    );
}

#[test]
fn deep_nesting_is_refused_not_a_crash() {
    let text = "[".repeat(100_000);
    assert!(documents("test.yaml", text.as_bytes()).is_err());
    let text = "a:\n".to_owned() + &(1..5_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect::<String>();
    assert!(documents("test.yaml", text.as_bytes()).is_err());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = documents("x", &bytes);
    }

    #[test]
    fn no_yaml_like_text_panics(text in "[-a: \\[\\]{}&*!|>'\"#%\n.0]{0,80}") {
        let _ = documents("x", text.as_bytes());
    }
}

#[test]
fn repeated_keys_are_named_with_their_path() {
    let text = "a: 1\nb:\n  - c: 1\n    x/y: {d: 1, d: 2}\n    c: 2\na: 2\n";
    let documents = documents("test.yaml", text.as_bytes()).unwrap();
    assert_eq!(documents[0].repeated, ["b[0][x/y].d", "b[0].c", "a"]);
    assert_eq!(documents[0].value["b"][0]["c"], 2);
    let json = self::documents("test.json", b"{\n\"a\": 1, \"a\": {\"b\": 1}}\n\n {\"c\": 1}").unwrap();
    assert_eq!(json[0].repeated, ["a"]);
    assert_eq!((json[0].line, json[1].line), (1, 4));
}

#[test]
fn fields_are_found_where_they_stand() {
    let text = "---\nspec:\n  icon:\n  - mediatype: x\n    base64data: y\n  a.b/c: {d: [1, 2]}\n  icon: []\n";
    let found =
        locate(text, 11, &["spec.icon[0].base64data", "spec[a.b/c].d[1]", "spec.nothing.there", "spec.icon"]);
    assert_eq!(found[0], [(15, 5)]);
    assert_eq!(found[1], [(16, 18)]);
    assert_eq!(found[2], [(12, 1)]);
    assert_eq!(found[3], [(13, 3), (17, 3)]);
}

#[test]
fn aliases_of_a_long_text_are_refused() {
    let mut bomb = format!("a: &a \"{}\"\nb: [", "x".repeat(100_000));
    bomb += &"*a,".repeat(50_000);
    bomb += "]\n";
    assert!(documents("test.yaml", bomb.as_bytes()).is_err());
}

#[test]
fn what_can_be_read_is_read() {
    let (documents, mistakes) = read("x.yaml", "a: 1\n---\nb: [\n---\nc: 2\n");
    assert_eq!(documents.len(), 2);
    assert_eq!(mistakes.len(), 1);
}
