//! The shipped catalog is what its bundles make.
//!
//! `UPDATE=1 cargo test -p olm-catalog --test shipped` writes it anew.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

use std::path::Path;

use olm_catalog::{Severity, build};

#[test]
fn the_shipped_catalog_is_made_of_its_bundles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bundles = root.join("../bundles");
    let fbc = match build::from_bundles(&bundles) {
        Ok(fbc) if !fbc.files.is_empty() => fbc,
        Ok(_) => return println!("skipped: there are no bundles in {}", bundles.display()),
        Err(error) => panic!("{error}"),
    };
    if std::env::var_os("UPDATE").is_some() {
        fbc.write(&root.join("data")).unwrap();
    }
    for (package, text) in &fbc.files {
        let path = root.join("data").join(package).join("catalog.yaml");
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == *text,
            "{} is not what bundles/ make; run this test with UPDATE=1",
            path.display()
        );
    }
}

#[test]
fn the_shipped_catalog_is_right() {
    let catalog = olm_catalog::shipped();
    let errors: Vec<_> =
        catalog.problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let etcd = catalog.package("etcd").unwrap();
    for bundle in etcd.bundles.values() {
        let parsed = bundle.bundle().unwrap();
        assert_eq!(parsed.name(), bundle.name);
    }
    assert!(etcd.icon.is_some());
    let unknown = catalog.package("etdc").unwrap_err();
    assert_eq!(unknown.to_string(), "package \"etdc\" is not in the catalog; did you mean etcd?");
}
