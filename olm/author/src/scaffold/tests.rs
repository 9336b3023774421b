use super::*;
use crate::ApiRequest;

fn project() -> Project {
    Project::new("myapp-operator", "example.com").unwrap()
}

fn api(kind: &str) -> Api {
    let request = ApiRequest { version: "v1alpha1", kind, ..ApiRequest::default() };
    Api::new(&request, "example.com").unwrap()
}

fn content<'a>(files: &'a [File], path: &str) -> &'a str {
    files.iter().find(|file| file.path == path).map_or("", |file| file.content.as_str())
}

/// A created API in the project that `olm init` made.
fn created(api: &Api) -> (String, Change) {
    let library = content(&init(&project()), "src/lib.rs").to_owned();
    let change = create_api(&project(), api, &Existing { library: &library, modules: &[] }).unwrap();
    (library, change)
}

fn changed(change: &Change) -> &str {
    match &change.library {
        Library::Changed(text) => text,
        other => panic!("{other:?}"),
    }
}

/// A03: with its own names the scaffold is the template, but for the place of the kit.
#[test]
fn the_names_of_the_template_give_the_template() {
    let (_, change) = created(&api("MyApp"));
    assert_eq!(change.files.len(), OF_KIND.len());
    for (path, _) in OF_KIND {
        let template = sources::template(path).replace("operator_kit", "crate::kit");
        assert!(!template.is_empty(), "{path} is not in the template");
        assert_eq!(content(&change.files, path), template, "{path}");
    }
    let library = sources::template("src/lib.rs").replace("operator_kit", "crate::kit");
    assert_eq!(changed(&change).replace("pub mod kit;\n", ""), library);
    let main = sources::template("src/main.rs").replace("operator_kit", "myapp_operator::kit");
    assert_eq!(content(&init(&project()), "src/main.rs"), main);
}

/// Every file of the template's kind is generated.
#[test]
fn no_file_of_the_template_is_left_out() {
    let all: Vec<&str> = sources::below(sources::TEMPLATE).map(|(path, _)| path).collect();
    let known: Vec<&str> =
        OF_KIND.iter().map(|(path, _)| *path).chain(["src/lib.rs", "src/main.rs"]).collect();
    let missing: Vec<_> = all.iter().filter(|path| !known.contains(path)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_project_without_a_kind_has_the_kit_and_no_trace_of_the_template() {
    let files = init(&Project::new("shop-operator", "example.org").unwrap());
    for file in files.iter().filter(|file| file.path != "Cargo.lock") {
        for word in ["operator_kit", "operator-kit", "olm_client", "#[cfg(test)]\nmod", "myapp", "MyApp"] {
            // Its documentation has examples.
            let is_example = file.is_kit() && word == "myapp";
            assert!(is_example || !file.content.contains(word), "{} contains {word}", file.path);
        }
        assert!(!file.content.trim().is_empty() && file.content.ends_with('\n'), "{}", file.path);
    }
    assert!(content(&files, "src/main.rs").contains("shop_operator::kit::main(shop_operator::operator())"));
    let library = content(&files, "src/lib.rs");
    assert!(library.contains("\npub mod kit;\n") && !library.contains(".kind("), "{library}");
    assert!(content(&files, "Containerfile").contains("/src/target/release/shop-operator "));
    assert!(content(&files, "Cargo.lock").contains("\nname = \"shop-operator\"\nversion = \"0.1.0\"\n"));
}

/// The kit is a crate in the workspace, with parts of another one.
#[test]
fn the_kit_is_a_module_of_the_project() {
    let files = init(&project());
    let module = content(&files, "src/kit/mod.rs");
    assert!(module.contains(IMPORT.1), "the import of olm-client is not the expected one: {module}");
    assert!(!module.contains("missing_docs"), "{module}");
    for name in module.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")) {
        let path = format!("src/kit/{}.rs", name.trim_end_matches(';'));
        assert!(!content(&files, &path).is_empty(), "{path} is missing");
    }
    for file in files.iter().filter(|file| file.is_kit()) {
        let other = file.content.split("crate::").skip(1).find(|rest| !rest.starts_with("kit::"));
        assert!(other.is_none(), "{}: crate::{}", file.path, other.unwrap_or_default());
        // Tests were removed as a whole.
        let count = |c: char| file.content.matches(c).count();
        assert_eq!(count('{'), count('}'), "{}", file.path);
    }
}

#[test]
fn an_author_sees_few_files_and_lines() {
    let (_, change) = created(&api("MyApp"));
    let library = File::new("src/lib.rs", changed(&change), "");
    let ours = |file: &&File| file.is_kit() || matches!(file.path.as_str(), "Cargo.lock" | "src/lib.rs");
    let init = init(&project());
    let own: Vec<&File> =
        init.iter().filter(|file| !ours(file)).chain(&change.files).chain([&library]).collect();
    let lines: usize = own.iter().map(|file| file.content.lines().count()).sum();
    assert!(own.len() <= 16, "{} files", own.len());
    let each: Vec<_> = own.iter().map(|file| (file.path.as_str(), file.content.lines().count())).collect();
    assert!(lines <= 420, "{lines} lines: {each:?}");
}

#[test]
fn a_second_kind_is_added_to_the_first() {
    let (_, first) = created(&api("MyApp"));
    let text = changed(&first).to_owned();
    for (kind, module, chain) in [
        (
            "Apple",
            "pub mod apple;\npub mod kit;\npub mod myapp;\n",
            ".kind(myapp::kind()).kind(apple::kind())\n}",
        ),
        ("Zoo", "pub mod kit;\npub mod myapp;\npub mod zoo;\n", ".kind(myapp::kind()).kind(zoo::kind())\n}"),
    ] {
        let change = create_api(&project(), &api(kind), &Existing { library: &text, modules: &[] }).unwrap();
        let library = changed(&change);
        assert!(library.contains(module) && library.contains(chain), "{library}");
        for file in &change.files {
            assert!(!file.content.contains("MyApp") && !file.path.contains("myapp"), "{}", file.path);
        }
        let lower = kind.to_lowercase();
        let example = content(&change.files, &format!("examples/{lower}.yaml"));
        assert!(
            example.contains(&format!("kind: {kind}\n")) && example.contains(&format!("{lower}:latest")),
            "{example}"
        );
    }
}

#[test]
fn a_chain_over_several_lines_stays_one() {
    let library = "pub mod kit;\n\npub fn operator() -> Operator {\n    Operator::new(\n        \"a (b\\\" c\",\n        f(1),\n    )\n    .kind(a::kind())\n}\n";
    let change = create_api(&project(), &api("Zoo"), &Existing { library, modules: &[] }).unwrap();
    assert!(changed(&change).contains("\n    .kind(a::kind())\n    .kind(zoo::kind())\n}\n"), "{change:?}");
}

#[test]
fn a_library_that_the_author_changed_is_left_alone() {
    for library in [
        "",
        "fn operator() {}\n",
        "pub mod kit;\nfn a() { Operator::new(1); }\n",
        "pub mod kit;\nfn a() { let x = Operator::new(1).kind; }\n",
        "pub mod kit;\nfn a() { Operator::new(1) }\nfn b() { Operator::new(2) }\n",
        "pub mod kit;\nfn a() { Operator::new(\"(\" }\n",
        "mod x { }\nfn a() { Operator::new(1) }\n",
    ] {
        let change = create_api(&project(), &api("Zoo"), &Existing { library, modules: &[] }).unwrap();
        assert_eq!((change.library, change.files.len()), (Library::Manual, 4), "{library}");
    }
}

#[test]
fn a_repeated_api_changes_nothing_and_a_conflicting_one_is_refused() {
    let (_, change) = created(&api("MyApp"));
    let library = changed(&change);
    let modules = [("myapp".to_owned(), content(&change.files, "src/myapp/mod.rs").to_owned())];
    let existing = Existing { library, modules: &modules };
    // given the API, when it is created again, then there is nothing to do
    assert!(create_api(&project(), &api("MyApp"), &existing).unwrap().is_empty());
    // and a lost registration is added again
    let lost = library.replace(".kind(myapp::kind())", "");
    let again = create_api(&project(), &api("MyApp"), &Existing { library: &lost, ..existing }).unwrap();
    assert_eq!((again.files.len(), changed(&again)), (0, library));
    // and another version, group or plural of the module is refused, and a plural that is taken
    let other = Api { version: "v1".to_owned(), ..api("MyApp") };
    let refusal = create_api(&project(), &other, &existing).unwrap_err();
    assert_eq!(refusal.to_string(), "src/myapp exists and defines myapps.example.com/v1alpha1, kind MyApp");
    let taken = Api { plural: "myapps".to_owned(), ..api("Zoo") };
    let refusal = create_api(&project(), &taken, &existing).unwrap_err();
    assert_eq!(refusal.to_string(), "plural myapps of group example.com is taken by the kind of src/myapp");
    let elsewhere = Api { group: "example.org".to_owned(), ..taken };
    assert!(create_api(&project(), &elsewhere, &existing).is_ok());
}

#[test]
fn the_record_has_a_digest_of_each_file() {
    let record = record(&[File::new("b", "b\n", ""), File::new("a", "", "")]);
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let lines: Vec<&str> = record.content.lines().collect();
    assert_eq!((record.path.as_str(), lines.len()), (".olm/scaffold", 3));
    assert!(lines[0].starts_with("# Written by olm ") && lines[1] == format!("{empty}  a"), "{lines:?}");
    assert!(lines[2].ends_with("  b"));
}
