use super::*;
use crate::Filter;

fn package(name: &str, version: &str) -> String {
    format!(
        "{{\"schema\":\"olm.package\",\"name\":\"{name}\",\"defaultChannel\":\"c\"}}\n\
         {{\"schema\":\"olm.channel\",\"package\":\"{name}\",\"name\":\"c\",\"entries\":[{{\"name\":\"{name}.v{version}\"}}]}}\n\
         {{\"schema\":\"olm.bundle\",\"package\":\"{name}\",\"name\":\"{name}.v{version}\",\"image\":\"a/b:1\",\"properties\":[{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"{name}\",\"version\":\"{version}\"}}}}]}}\n"
    )
}

struct Given {
    root: tempfile::TempDir,
    dir: tempfile::TempDir,
}

impl Given {
    fn packages(packages: &[(&str, &str)]) -> Self {
        let given = Self { root: tempfile::tempdir().unwrap(), dir: tempfile::tempdir().unwrap() };
        for (name, version) in packages {
            given.write(name, version);
        }
        given
    }

    fn write(&self, name: &str, version: &str) {
        fs::write(self.dir.path().join(format!("{name}.json")), package(name, version)).unwrap();
    }

    fn open(&self) -> Store {
        Store::open(self.root.path()).unwrap()
    }

    fn refresh(&self, store: &Store) -> Refreshed {
        store.refresh_dir("ns/name", "test", self.dir.path()).unwrap()
    }

    fn files(&self) -> usize {
        fs::read_dir(self.root.path().join("packages")).unwrap().count()
    }
}

fn head(catalog: &Catalog, package: &str) -> String {
    catalog.package(package).unwrap().unwrap().head().unwrap().name.clone()
}

#[test]
fn a_stored_catalog_is_there_after_a_restart() {
    let given = Given::packages(&[("a", "1.0.0"), ("b", "1.0.0")]);
    // given a filled and closed store
    let first = given.refresh(&given.open()).catalog;
    let (digest, problems) = (first.digest.clone(), first.problems.clone());
    drop(first);
    // when it is opened again
    let store = given.open();
    let catalog = store.get("ns/name").unwrap().unwrap();
    // then everything is there, and only the requested packages are read
    assert_eq!((catalog.digest.as_str(), &catalog.problems), (digest.as_str(), &problems));
    assert_eq!(head(&catalog, "b"), "b.v1.0.0");
    assert_eq!(catalog.documents(&Filter::default()).count(), 6);
    assert!(store.get("ns/other").unwrap().is_none());
}

#[test]
fn only_what_changed_is_read_again() {
    let given = Given::packages(&[("a", "1.0.0"), ("b", "1.0.0"), ("c", "1.0.0")]);
    let store = given.open();
    assert_eq!(given.refresh(&store).reread, 3);
    // when nothing changes
    let same = given.refresh(&store);
    assert_eq!((same.changed, same.reread), (false, 0));
    // when one package changes
    given.write("b", "1.1.0");
    let refreshed = given.refresh(&store);
    assert_eq!((refreshed.changed, refreshed.reread), (true, 1));
    assert_eq!(head(&refreshed.catalog, "b"), "b.v1.1.0");
    // when one is removed
    fs::remove_file(given.dir.path().join("c.json")).unwrap();
    let refreshed = given.refresh(&store);
    assert!(refreshed.changed && refreshed.catalog.summary("c").is_none());
}

#[test]
fn places_of_problems_move_with_their_documents() {
    let given = Given::packages(&[]);
    let store = given.open();
    let file = given.dir.path().join("catalog.json");
    let broken = package("b", "1.0.0").replace("\"c\",\"entries\"", "\"d\",\"entries\"");
    fs::write(&file, &broken).unwrap();
    assert_eq!(given.refresh(&store).catalog.problems[0].place.line, 1);
    // when another package is inserted before it
    fs::write(&file, package("a", "1.0.0") + &broken).unwrap();
    let refreshed = given.refresh(&store);
    // then it is not read again, and its problem has the new place
    assert_eq!(refreshed.reread, 1);
    assert_eq!(refreshed.catalog.problems[0].place.line, 4);
    assert_eq!(refreshed.catalog.problems[0].place.path, "catalog.json");
}

#[test]
fn an_old_catalog_is_removed_after_its_last_user() {
    let given = Given::packages(&[("a", "1.0.0")]);
    let store = given.open();
    let old = given.refresh(&store).catalog;
    given.write("a", "2.0.0");
    let new = given.refresh(&store).catalog;
    // then both can be read
    assert_eq!((head(&old, "a"), head(&new, "a")), ("a.v1.0.0".into(), "a.v2.0.0".into()));
    assert_eq!(given.files(), 2);
    // when the old one is not used any more
    drop(old);
    assert_eq!(store.collect_garbage().unwrap(), 1);
    assert_eq!(given.files(), 1);
    // when the catalog is removed
    drop(new);
    store.remove("ns/name").unwrap();
    assert_eq!(given.files(), 0);
    assert!(store.get("ns/name").unwrap().is_none());
}

#[test]
fn packages_that_two_catalogs_share_are_kept_once_and_as_long_as_either_needs_them() {
    let given = Given::packages(&[("a", "1.0.0")]);
    let store = given.open();
    store.refresh_dir("one", "one", given.dir.path()).unwrap();
    store.refresh_dir("two", "two", given.dir.path()).unwrap();
    assert_eq!(given.files(), 1);
    store.remove("one").unwrap();
    assert_eq!(head(&store.get("two").unwrap().unwrap(), "a"), "a.v1.0.0");
}

#[test]
fn a_damaged_package_is_reported_and_read_again() {
    let given = Given::packages(&[("a", "1.0.0"), ("b", "1.0.0")]);
    let store = given.open();
    let catalog = given.refresh(&store).catalog;
    // given a file with content lost by the disk
    let digest = catalog.groups["a"].digest.clone();
    let path = given.root.path().join("packages").join(&digest);
    let length = fs::metadata(&path).unwrap().len();
    fs::write(&path, vec![0; usize::try_from(length).unwrap()]).unwrap();
    // then the error is reported, and other packages are intact
    let error = catalog.package("a").unwrap_err().to_string();
    assert!(error.contains("file corrupted") && error.contains(&digest), "{error}");
    assert_eq!(head(&catalog, "b"), "b.v1.0.0");
    // when the source is read again, then it is complete
    let refreshed = given.refresh(&store);
    assert_eq!(refreshed.reread, 1);
    assert_eq!(head(&refreshed.catalog, "a"), "a.v1.0.0");
}

#[test]
fn what_would_empty_a_catalog_is_refused() {
    let given = Given::packages(&[("a", "1.0.0")]);
    let store = given.open();
    drop(given.refresh(&store));
    // given a source that lost its content
    fs::write(given.dir.path().join("a.json"), "<html>sign in</html>").unwrap();
    // when it is read
    let error = store.refresh_dir("ns/name", "test", given.dir.path()).unwrap_err();
    // then the error has the cause, and the old content stays, after a restart, too
    assert!(error.to_string().starts_with("test contains no valid package; a.json:1:1"), "{error}");
    drop(store);
    assert_eq!(head(&given.open().get("ns/name").unwrap().unwrap(), "a"), "a.v1.0.0");
}

#[test]
fn a_damaged_index_counts_as_none() {
    let given = Given::packages(&[("a", "1.0.0")]);
    drop(given.refresh(&given.open()));
    let index = fs::read_dir(given.root.path().join("catalogs")).unwrap().next().unwrap().unwrap().path();
    fs::write(&index, "{\"version\":").unwrap();
    let store = given.open();
    assert!(store.get("ns/name").unwrap().is_none());
    assert_eq!(given.refresh(&store).reread, 1);
}

#[test]
fn one_process_at_a_time() {
    let given = Given::packages(&[]);
    let _store = given.open();
    let error = Store::open(given.root.path()).unwrap_err();
    assert!(matches!(error, StoreError::Used { .. }), "{error}");
}

#[test]
fn a_disk_that_cannot_be_written_to_leaves_the_old_catalog() {
    let given = Given::packages(&[("a", "1.0.0")]);
    let store = given.open();
    let digest = given.refresh(&store).catalog.digest.clone();
    // given a directory in place of the new file
    given.write("a", "2.0.0");
    let scratch = Given::packages(&[("a", "2.0.0")]);
    let coming = scratch.refresh(&scratch.open()).catalog.groups["a"].digest.clone();
    fs::create_dir(given.root.path().join("packages").join(&coming)).unwrap();
    // when it is refreshed
    let error = store.refresh_dir("ns/name", "test", given.dir.path()).unwrap_err().to_string();
    // then the error names the file, and the old content is served
    assert!(error.contains("failed to write") && error.contains(&coming), "{error}");
    let catalog = store.get("ns/name").unwrap().unwrap();
    assert_eq!((catalog.digest.as_str(), head(&catalog, "a")), (digest.as_str(), "a.v1.0.0".to_owned()));
}

#[test]
fn a_question_for_what_is_replaced_reads_the_packages_that_do_alone() {
    let given = Given::packages(&[("a", "1.0.0"), ("b", "1.0.0"), ("c", "1.0.0")]);
    let channel = "\"entries\":[{\"name\":\"b.v1.0.0\",\"replaces\":\"b.v0.9.0\",\"skips\":[\"x\"]}]";
    let text = package("b", "1.0.0").replace("\"entries\":[{\"name\":\"b.v1.0.0\"}]", channel);
    fs::write(given.dir.path().join("b.json"), text).unwrap();
    given.refresh(&given.open());
    // also after a restart, with only the index
    let catalog = given.open().get("ns/name").unwrap().unwrap();
    let replacing = |name: &str| catalog.replacing(name).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(replacing("b.v0.9.0"), ["b"]);
    assert_eq!(replacing("x"), ["b"]);
    assert_eq!(replacing("b.v1.0.0"), Vec::<String>::new());
    assert_eq!(replacing(""), ["a", "c"]);
}
