//! A process killed during a refresh leaves the old content or the new one.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use olm_catalog::{Catalog, Filter, Store};

/// Paths of the store and of the two contents, for the child process.
const CHILD: &str = "OLM_TEST_REFRESH_FOR_EVER";
const PACKAGES: usize = 40;

fn content(version: &str) -> String {
    let package = |index: usize| {
        let filler = "x".repeat(4_000);
        format!(
            "{{\"schema\":\"olm.package\",\"name\":\"p{index}\",\"defaultChannel\":\"c\",\"description\":\"{filler}\"}}\n{{\"schema\":\"olm.channel\",\"package\":\"p{index}\",\"name\":\"c\",\"entries\":[{{\"name\":\"p{index}.v{version}\"}}]}}\n{{\"schema\":\"olm.bundle\",\"package\":\"p{index}\",\"name\":\"p{index}.v{version}\",\"image\":\"a/b\",\"properties\":[{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"p{index}\",\"version\":\"{version}\"}}}}]}}\n"
        )
    };
    (0..PACKAGES).map(package).collect()
}

fn refresh_for_ever(root: &Path) -> ! {
    let store = Store::open(&root.join("store")).unwrap();
    loop {
        for name in ["one", "two"] {
            store.refresh_dir("key", "test", &root.join(name)).unwrap();
            std::fs::write(root.join("turned"), name).unwrap();
        }
    }
}

#[test]
fn a_kill_leaves_the_old_content_or_the_new() {
    if let Some(root) = std::env::var_os(CHILD) {
        refresh_for_ever(Path::new(&root));
    }
    // given two contents that a process alternates between, without end
    let root = tempfile::tempdir().unwrap();
    for (name, version) in [("one", "1.0.0"), ("two", "2.0.0")] {
        std::fs::create_dir(root.path().join(name)).unwrap();
        std::fs::write(root.path().join(name).join("catalog.json"), content(version)).unwrap();
    }
    let digests = ["one", "two"].map(|name| Catalog::load_dir(&root.path().join(name)).digest);
    for round in 0..12 {
        let turned = root.path().join("turned");
        _ = std::fs::remove_file(&turned);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_kill_leaves_the_old_content_or_the_new", "--nocapture"])
            .env(CHILD, root.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while !turned.exists() {
            assert!(child.try_wait().unwrap().is_none(), "the process ended before it was killed");
            std::thread::yield_now();
        }
        // when it is killed at some time in the next refresh
        std::thread::sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        // then the store has one of the two, complete
        let store = Store::open(&root.path().join("store")).unwrap();
        let catalog = store.get("key").unwrap().unwrap();
        assert!(digests.contains(&catalog.digest), "round {round}: {}", catalog.digest);
        assert_eq!(catalog.len(), PACKAGES);
        let documents: Vec<_> = catalog.documents(&Filter::default()).map(Result::unwrap).collect();
        assert_eq!(documents.len(), 3 * PACKAGES, "round {round}");
        // and no unneeded file is left
        drop(catalog);
        store.collect_garbage().unwrap();
        let files = std::fs::read_dir(root.path().join("store/packages")).unwrap().count();
        assert_eq!(files, PACKAGES, "round {round}");
    }
}
