//! Any bytes are a catalog, perhaps an empty one; the parsed content reads the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use olm_catalog::{Catalog, Filter};

fuzz_target!(|bytes: &[u8]| {
    let catalog = Catalog::from_bytes("fuzz", bytes);
    for summary in catalog.summaries() {
        let package = catalog.package(&summary.name).expect("it is in memory").expect("its summary is there");
        for channel in package.channels.values() {
            assert!(channel.chain().len() <= channel.entries.len());
        }
        for bundle in package.bundles.values() {
            bundle.csv_metadata();
            bundle.provided_gvks();
            let _ = bundle.bundle();
        }
    }
    catalog.search("etcd operator");
    for problem in &catalog.problems {
        assert!(!problem.to_string().contains('\n'), "a problem is one line: {problem:?}");
    }

    let mut again = Vec::new();
    for document in catalog.documents(&Filter::default()) {
        again.extend_from_slice(&document.expect("it is in memory"));
        again.push(b'\n');
    }
    let copy = Catalog::from_bytes("fuzz", &again);
    assert_eq!(copy.digest, catalog.digest, "canonical documents are canonical");
});
