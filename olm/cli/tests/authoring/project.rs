//! `olm init` and `olm create api`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{Ran, program};

/// An empty folder with the name of the project.
fn empty() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("myapp-operator");
    fs::create_dir(&project).unwrap();
    (dir, project)
}

/// Runs a command line without rustfmt, whose absence is part of the output.
fn run_in(dir: &Path, line: &str) -> Ran {
    let mut command = program();
    command.env("PATH", "/nonexistent").args(line.split(' ').skip(1)).current_dir(dir);
    ran(&mut command)
}

fn ran(command: &mut Command) -> Ran {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Every file with its text.
fn files(dir: &Path) -> BTreeMap<PathBuf, String> {
    fn add(dir: &Path, root: &Path, out: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add(&path, root, out);
            } else {
                out.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut out = BTreeMap::new();
    add(dir, dir, &mut out);
    out
}

/// The text without the number of files of the kit.
fn without_count(text: &str) -> String {
    let line = |line: &str| match line.split_once("the operator kit: ") {
        Some((before, _)) => format!("{before}the operator kit\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

const INIT: &str = "\
project   myapp-operator, domain example.com
wrote     Cargo.toml                 package, dependencies, domain of the API groups
wrote     Cargo.lock                 versions that the kit was tested with
wrote     src/main.rs                the program
wrote     src/lib.rs                 the operator and its kinds
wrote     Makefile                   build, test, run, image
wrote     Containerfile              the image
wrote     .github/workflows/ci.yaml  format, lints, tests
wrote     README.md                  what is where
wrote     .gitignore                 build results
wrote     .dockerignore              build results
wrote     rustfmt.toml               format of the code
wrote     .olm/scaffold              digests of these files
wrote     src/kit                    the operator kit
note: rustfmt did not format the files; run `cargo fmt`
next: olm create api --version v1alpha1 --kind KIND
";

const CREATE: &str = "\
api       myapps.example.com/v1alpha1, kind MyApp, namespaced
note: group example repeats the domain: the API group is example.com, not example.example.com (for that: --group example.example.com)
wrote     src/myapp/mod.rs     the kind: fields, columns, rules
wrote     src/myapp/plan.rs    the desired objects and the status, as a function
wrote     src/myapp/tests.rs   tests of the plan and of the kind
wrote     examples/myapp.yaml  an example object
changed   src/lib.rs           + pub mod myapp;  + .kind(myapp::kind())
note: rustfmt did not format the files; run `cargo fmt`
next: cargo test
";

/// A01, A02: the command lines of operator-sdk's tutorial, under its name.
#[test]
fn a_tutorial_of_operator_sdk_makes_a_project() {
    let (dir, project) = empty();
    let link = dir.path().join("operator-sdk");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_olm"), &link).unwrap();
    let sdk = |line: &str| {
        let mut command = Command::new(&link);
        command
            .args(line.split(' '))
            .current_dir(&project)
            .env("PATH", "/nonexistent")
            .env("HOME", "/nonexistent");
        ran(&mut command)
    };
    let made = sdk("init --domain example.com --repo github.com/example/myapp-operator");
    assert_eq!((made.code, without_count(&made.out).as_str(), made.err.as_str()), (Some(0), INIT, ""));
    let created = sdk("create api --group example --version v1alpha1 --kind MyApp --resource --controller");
    assert_eq!((created.code, created.out.as_str(), created.err.as_str()), (Some(0), CREATE, ""));

    let files = files(&project);
    let text = |path: &str| files.get(Path::new(path)).map_or("", String::as_str);
    assert!(text("Cargo.toml").contains("repository = \"https://github.com/example/myapp-operator\""));
    assert!(
        text("src/lib.rs").contains("pub mod myapp;") && text("src/lib.rs").contains(".kind(myapp::kind())")
    );
    assert!(text("examples/myapp.yaml").contains("apiVersion: example.com/v1alpha1\nkind: MyApp\n"));
    // the record has every file of `olm init`
    assert!(text(".olm/scaffold").contains("  src/kit/mod.rs\n"), "{}", text(".olm/scaffold"));
}

/// A02: rustfmt has nothing to change, also with names of another length.
#[test]
fn the_project_is_formatted() {
    const NAME: &str = "the_project_is_formatted";
    if !Command::new("rustfmt").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: {NAME}: rustfmt is not installed");
    }
    let (_dir, project) = empty();
    let home = std::env::var_os("HOME").unwrap_or_default();
    let kind = format!("create api --version v1beta1 --kind {}", "LongName".repeat(6));
    for line in ["init", "create api --version v1 --kind A", kind.as_str()] {
        let mut command = program();
        command.env("HOME", &home).args(line.split(' ')).current_dir(&project);
        let ran = ran(&mut command);
        assert!(
            ran.code == Some(0) && !ran.out.contains("rustfmt did not"),
            "{line}: {}{}",
            ran.out,
            ran.err
        );
    }
    let roots = ["src/lib.rs", "src/main.rs"];
    let mut command = Command::new("rustfmt");
    let checked = ran(command.args(["--check", "--edition", "2024"]).args(roots).current_dir(&project));
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
}

#[test]
fn a_dry_run_writes_nothing() {
    let (dir, project) = empty();
    let made = run_in(dir.path(), "olm init new/shop-operator --domain acme.example --dry-run");
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert!(made.out.contains("would write  Cargo.toml ") && !made.out.contains("next:"), "{}", made.out);
    assert!(!dir.path().join("new").exists());
    assert_eq!(run_in(&project, "olm init").code, Some(0));
    let before = files(&project);
    let created = run_in(&project, "olm create api --version v1 --kind Shop --dry-run");
    assert!(created.code == Some(0) && created.out.contains("would change  src/lib.rs "), "{}", created.out);
    assert_eq!(files(&project), before);
}

#[test]
fn a_new_folder_is_created_and_named_in_the_next_command() {
    let (dir, _) = empty();
    let made = run_in(dir.path(), "olm init a/shop-operator --domain acme.example --license none --owner Me");
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert!(made.out.contains("next: cd a/shop-operator && olm create api "), "{}", made.out);
    let manifest = fs::read_to_string(dir.path().join("a/shop-operator/Cargo.toml")).unwrap();
    assert!(manifest.contains("authors = [\"Me\"]\n") && !manifest.contains("license"), "{manifest}");
    // A README of the author's stays.
    let (_dir, project) = empty();
    fs::create_dir(project.join(".git")).unwrap();
    fs::write(project.join("README.md"), "mine\n").unwrap();
    let made = run_in(&project, "olm init");
    assert!(made.code == Some(0) && !made.out.contains("README"), "{}{}", made.out, made.err);
    assert_eq!(fs::read_to_string(project.join("README.md")).unwrap(), "mine\n");
}

/// A28: a bad name is a usage error with a proposal, and nothing is written.
#[test]
fn bad_names_get_a_proposal() {
    let (_dir, project) = empty();
    for (line, rule, proposal) in [
        ("olm init --domain -x", "", ""),
        ("olm init --domain=-x", "in two or more parts with dots", "did you mean --domain x.example.com?"),
        ("olm init --project-name MyApp", "beginning with a letter", "did you mean --project-name myapp?"),
    ] {
        let ran = run_in(&project, line);
        assert!(ran.code == Some(2) && ran.out.is_empty(), "{line}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(rule) && ran.err.contains(proposal), "{line}: {}", ran.err);
        assert!(files(&project).is_empty(), "{line}");
    }
    assert_eq!(run_in(&project, "olm init").code, Some(0));
    let before = files(&project);
    let long = format!("--version v1 --kind {}", "A".repeat(64));
    for (flags, rule, proposal) in [
        ("--version v1 --kind myapp", "letters and digits in CamelCase", "--kind Myapp?"),
        ("--version v1 --kind my-app", "letters and digits in CamelCase", "--kind MyApp?"),
        ("--version v1 --kind Result", "do not use", "--kind MyResult?"),
        ("--version 1alpha --kind MyApp", "v1alpha1", "--version v1alpha1?"),
        ("--group Example_ --version v1 --kind MyApp", "lower-case letters", "--group example?"),
        ("--version v1 --kind MyApp --plural MyApps", "lower-case letters", "--plural myapps?"),
        (long.as_str(), "at most 56 characters", "--kind AAAA"),
    ] {
        let ran = run_in(&project, &format!("olm create api {flags}"));
        assert!(ran.code == Some(2) && ran.out.is_empty(), "{flags}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(rule) && ran.err.contains(proposal), "{flags}: {}", ran.err);
        assert_eq!(files(&project), before, "{flags}");
    }
}

/// A29: what is refused changes no file, and a repeated command has nothing to do.
#[test]
fn a_project_is_never_overwritten() {
    let (_dir, project) = empty();
    let outside = run_in(&project, "olm create api --version v1 --kind Shop");
    assert!(
        outside.code == Some(3) && outside.err.contains("hint: create a project with `olm init`"),
        "{}",
        outside.err
    );
    fs::write(project.join("Cargo.toml"), "[package]\nname = \"a\"\n").unwrap();
    let foreign = run_in(&project, "olm create api --version v1 --kind Shop");
    assert!(foreign.code == Some(3) && foreign.err.contains("package.metadata.olm"), "{}", foreign.err);
    let refused = run_in(&project, "olm init");
    assert!(refused.code == Some(4) && refused.err.contains("it contains Cargo.toml"), "{}", refused.err);
    fs::remove_file(project.join("Cargo.toml")).unwrap();
    let helm = run_in(&project, "olm init --plugins helm");
    assert!(helm.code == Some(2) && helm.err.contains("olm bundle run"), "{}", helm.err);
    assert!(files(&project).is_empty());

    assert_eq!(run_in(&project, "olm init").code, Some(0));
    let create = "olm create api --version v1 --kind Shop";
    assert_eq!(run_in(&project, create).code, Some(0));
    let before = files(&project);
    let again = run_in(&project, create);
    let nothing = "api       shops.example.com/v1, kind Shop, namespaced\nnothing to do: the API exists\n";
    assert_eq!((again.code, again.out.as_str()), (Some(0), nothing), "{}", again.err);
    for (line, code, expected) in [
        (
            "olm create api --version v2 --kind Shop",
            4,
            "src/shop exists and defines shops.example.com/v1, kind Shop",
        ),
        (
            "olm create api --version v1 --kind Cart --plural shops",
            4,
            "plural shops of group example.com is taken",
        ),
        ("olm init", 4, "it contains "),
    ] {
        let ran = run_in(&project, line);
        assert!(ran.code == Some(code) && ran.err.contains(expected), "{line}: {}{}", ran.out, ran.err);
        assert_eq!(files(&project), before, "{line}");
    }
    // A file in the way is not overwritten, and nothing else is written.
    fs::write(project.join("examples/cart.yaml"), "mine\n").unwrap();
    let before = files(&project);
    let blocked = run_in(&project, "olm create api --version v1 --kind Cart");
    assert!(blocked.code == Some(4) && blocked.err.contains("examples/cart.yaml"), "{}", blocked.err);
    assert_eq!(files(&project), before);
}

#[test]
fn a_changed_library_gets_the_lines_to_add() {
    let (_dir, project) = empty();
    let made = run_in(&project, "olm init");
    let note = "note: example.com is the default domain (for yours: --domain DOMAIN)\n";
    assert!(made.code == Some(0) && made.out.contains(note), "{}{}", made.out, made.err);
    fs::write(project.join("src/lib.rs"), "// mine\n").unwrap();
    let created = run_in(&project, "olm create api --version v1 --kind Shop");
    assert_eq!(created.code, Some(0), "{}", created.err);
    let lines =
        "note: add to src/lib.rs, which is not as olm wrote it:\n  pub mod shop;\n  .kind(shop::kind())\n";
    assert!(created.out.contains(lines), "{}", created.out);
    assert_eq!(fs::read_to_string(project.join("src/lib.rs")).unwrap(), "// mine\n");
}
