//! Directories with special files, or files of another type than their name.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use olm_catalog::{Catalog, Store};

use crate::text::{bundle, channel, entry, package, sound};
use crate::{assert_good, problem, reported};

/// Ample for a few small files, on any machine; a hanging test fails instead.
const PATIENCE: Duration = Duration::from_secs(60);

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("good.yaml"), sound("good")).unwrap();
    dir
}

fn load(dir: &Path) -> Catalog {
    let (sender, receiver) = mpsc::channel();
    let dir = dir.to_owned();
    std::thread::spawn(move || drop(sender.send(Catalog::load_dir(&dir))));
    receiver.recv_timeout(PATIENCE).unwrap()
}

#[test]
fn two_packages_of_one_name_in_two_folders() {
    // given two folders that both define p
    let dir = folder();
    for folder in ["a", "b"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
        fs::write(dir.path().join(folder).join("catalog.yaml"), sound("p")).unwrap();
    }
    // when they are read
    let catalog = load(dir.path());
    // then the second one is rejected at its place, with the name of the first
    let found = problem(&catalog, "package-duplicate");
    assert!(found.place.path.ends_with("b/catalog.yaml"), "{found}");
    assert_eq!(found.place.line, 2);
    assert!(found.text.contains("a/catalog.yaml"), "{found}");
    assert!(catalog.package("p").unwrap().is_some());
    assert_good(&catalog, "two directories");
}

#[test]
fn one_package_over_several_files_is_one() {
    let dir = folder();
    fs::write(dir.path().join("3.yaml"), package("p", "c")).unwrap();
    fs::write(dir.path().join("2.yaml"), channel("p", "c", &[entry("p.v1", "")])).unwrap();
    fs::write(dir.path().join("1.yaml"), bundle("p", "p.v1", "1.0.0")).unwrap();
    let catalog = load(dir.path());
    assert_eq!(catalog.problems, []);
    assert!(catalog.package("p").unwrap().unwrap().head().is_some());
}

#[test]
fn non_files_are_reported_without_blocking() {
    // given a pipe without a writer, a link to nothing, a link to its own directory, and a directory named
    // like a file
    let dir = folder();
    let made = Command::new("mkfifo")
        .arg(dir.path().join("pipe.yaml"))
        .status()
        .is_ok_and(|status| status.success());
    std::os::unix::fs::symlink("nothing", dir.path().join("dangling.yaml")).unwrap();
    fs::create_dir(dir.path().join("x.yaml")).unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("x.yaml").join("loop")).unwrap();
    // when the folder is read
    let catalog = load(dir.path());
    // then each is reported, and the catalog is loaded
    for (name, is_there) in [("pipe.yaml", made), ("dangling.yaml", true), ("loop", true)] {
        let is_reported =
            catalog.problems.iter().any(|it| it.code == "unreadable" && it.place.path.contains(name));
        assert!(is_reported || !is_there, "{name}: {}", reported(&catalog.problems));
    }
    assert!(catalog.package("good").unwrap().is_some());
}

#[test]
fn a_folder_that_is_not_there_and_one_that_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(problem(&load(dir.path()), "catalog-empty").place.line, 0);
    problem(&load(&dir.path().join("nowhere")), "unreadable");
}

#[test]
fn images_and_programs_next_to_the_catalog() {
    // given files that are not catalogs at all
    let dir = folder();
    fs::write(dir.path().join("logo.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe").unwrap();
    let every_byte: Vec<u8> = (0..=u8::MAX).cycle().take(100_000).collect();
    fs::write(dir.path().join("noise.bin"), every_byte).unwrap();
    fs::write(dir.path().join("README.md"), "# Hello\n\nThis *is* text: not YAML\n").unwrap();
    // when the folder is read
    let catalog = load(dir.path());
    // then each is reported by its name, and the catalog is loaded
    for name in ["logo.png", "noise.bin", "README.md"] {
        let is_reported = catalog.problems.iter().any(|it| it.place.path.ends_with(name));
        assert!(is_reported, "{name}: {}", reported(&catalog.problems));
    }
    assert_good(&catalog, "other files");
    // and .indexignore excludes them
    fs::write(dir.path().join(".indexignore"), "*.png\n*.bin\nREADME.md\n").unwrap();
    assert_eq!(load(dir.path()).problems, []);
}

#[test]
fn a_name_cannot_lead_out_of_the_store() {
    // given a catalog with paths as names
    let dir = folder();
    let names = ["../../escape", "/tmp/olm-hostile-escape"];
    for (index, name) in names.iter().enumerate() {
        fs::write(dir.path().join(format!("{index}.yaml")), sound(name)).unwrap();
    }
    // when it is stored under a key that is a path, too
    let root = tempfile::tempdir().unwrap();
    let inner = root.path().join("a/b/store");
    let store = Store::open(&inner).unwrap();
    let refreshed = store.refresh_dir("../../escape", "test", dir.path()).unwrap();
    // then nothing was written outside of the store, and it can be read again
    assert!(refreshed.catalog.package("good").unwrap().is_some());
    let outside: Vec<_> = fs::read_dir(root.path())
        .unwrap()
        .chain(fs::read_dir(root.path().join("a/b")).unwrap())
        .map(|it| it.unwrap().file_name())
        .collect();
    assert_eq!(outside, ["a", "store"]);
    assert!(!Path::new(names[1]).exists());
    assert!(store.get("../../escape").unwrap().is_some());
}
