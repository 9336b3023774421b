use proptest::prelude::*;

use super::*;

fn scan(text: &[u8], threads: usize) -> (Vec<String>, Vec<String>) {
    let inputs = [Input { path: "c".into(), text: Text::Memory(text) }];
    let scan = Scan::of(&inputs, threads, true);
    let entries = scan.entries.iter().map(|entry| {
        let Header { schema, package, name, .. } = &entry.header;
        format!("{}:{} {schema} {package} {name}", entry.line, entry.column)
    });
    let problems = scan.problems.iter().map(|problem| {
        let Place { line, column, .. } = problem.place;
        format!("{line}:{column} {} {}", problem.code, problem.package.as_deref().unwrap_or("?"))
    });
    (entries.collect(), problems.collect())
}

#[test]
fn a_broken_yaml_document_hides_no_other() {
    let text = b"---\nschema: olm.package\nname: a\n---\nschema: olm.channel\npackage: b\nentries: [\n---\nname: c\n";
    let (entries, problems) = scan(text, 1);
    assert_eq!(entries, ["2:1 olm.package a a", "9:1   c"]);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].ends_with("syntax b"), "{problems:?}");
    let line: usize = problems[0].split(':').next().unwrap().parse().unwrap();
    assert!((7..=8).contains(&line), "{problems:?}");
}

#[test]
fn a_broken_json_document_hides_no_other() {
    let text =
        b"{\"name\":\"a\"}\n{\"schema\":\"olm.bundle\",\"package\":\"b\",\"name\":}\n{\"name\":\"c\"}\n";
    let (entries, problems) = scan(text, 1);
    assert_eq!(
        (entries, problems),
        (vec!["1:1   a".into(), "3:1   c".into()], vec!["2:45 syntax b".to_owned()])
    );
    let text = b"{\n  \"name\": \"a\"\n}\n{\n  \"schema\": \"olm.package\",\n  \"name\": \"b\",,\n}\n{\"name\": \"c\"}";
    let (entries, problems) = scan(text, 1);
    assert_eq!(
        (entries, problems),
        (vec!["1:1   a".into(), "8:1   c".into()], vec!["6:15 syntax b".to_owned()])
    );
}

#[test]
fn several_documents_on_a_line_and_a_cut_end() {
    let (entries, problems) = scan(b"{\"name\":\"a\"}{\"name\":\"b\"} {\"name\"", 1);
    assert_eq!(entries, ["1:1   a", "1:13   b"]);
    assert_eq!(problems, ["1:32 syntax ?"]);
}

#[test]
fn what_is_no_map_is_no_crash() {
    let (entries, problems) = scan(b"---\n- a\n---\n3\n---\ntext\n---\nschema: [x]\nname: {}\n---\n~\n", 1);
    assert_eq!(entries, ["2:1   ", "4:1   ", "6:1   ", "8:1   "]);
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn yaml_documents_end_at_markers() {
    assert_eq!(document_length(b"a: 1\n---\nb", false), Some(5));
    assert_eq!(document_length(b"a: 1\n---b\n", true), Some(10));
    assert_eq!(document_length(b"a: 1\n---", false), None);
    assert_eq!(document_length(b"a: 1\n---", true), Some(5));
    assert_eq!(document_length(b"a: 1\n...\nb: 1\n", true), Some(8));
    assert_eq!(document_length(b"---\na", false), None);
    assert_eq!(document_length(b"", true), Some(0));
}

#[test]
fn merge_keys_are_followed() {
    let text = b"base: &b {schema: olm.package, defaultChannel: c}\n<<: *b\nname: a\n";
    assert_eq!(scan(text, 1).0, ["1:1 olm.package a a"]);
}

/// Large enough to be read in parts.
fn large(document: &str) -> String {
    document.repeat(usize::try_from(LARGE_FILE).unwrap() * 3 / document.len())
}

#[test]
fn parts_find_what_a_single_reader_finds() {
    // given documents on one line, over several lines, and broken ones among them
    let filler = "x".repeat(2_000);
    for document in [
        format!("{{\"schema\":\"s\",\"name\":\"n\",\"f\":\"{filler}\"}}\n"),
        format!("{{\n  \"schema\": \"s\",\n  \"name\": \"n\",\n  \"f\": \"{filler}\"\n}}\n"),
        format!("{{\"name\":\"a\",\"f\":\"{filler}\"}}\n{{\"name\":\"b\",}}\n"),
        // a line that starts with a brace and is not a document
        format!("{{\"name\":\"a\",\"f\":\"{filler}\",\"in\":\n{{\"name\":\"b\"}}}}\n"),
    ] {
        let text = large(&document);
        // when they are read by four threads and by one
        let (four, one) = (scan(text.as_bytes(), 4), scan(text.as_bytes(), 1));
        // then the results are equal
        assert!(four == one, "{} and {} entries", four.0.len(), one.0.len());
        assert!(one.0.len() > 1_000);
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        scan(&bytes, 2);
    }

    #[test]
    fn no_text_panics(text in "[-a: \\[\\]{}&*!|>'\"#%,\n.0é<]{0,80}") {
        scan(text.as_bytes(), 2);
    }
}
