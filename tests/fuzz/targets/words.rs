//! Versions, ranges and image references: any text is valid or rejected, and the result equals that of the
//! whole loader.

#![no_main]

use libfuzzer_sys::fuzz_target;
use olm_catalog::Catalog;
use olm_version::{Range, Version};
use serde_json::json;

fuzz_target!(|text: &str| {
    let (first, rest) = text.split_once('\n').unwrap_or((text, "1.0.0"));
    let _ = olm_version::parse_lenient(first);
    let range = Range::parse(first);
    if let (Ok(range), Ok(version)) = (&range, Version::parse(rest)) {
        range.contains(&version);
        range.warning();
    }
    olm_version::distance(first, rest);

    let documents = [
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "package": "p", "name": "c", "entries": [{"name": "b", "skipRange": first}]}),
        json!({"schema": "olm.bundle", "package": "p", "name": "b", "image": rest, "properties": [
            {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}}]}),
    ];
    let text = documents.map(|document| document.to_string()).join("\n");
    let catalog = Catalog::from_bytes("fuzz", text.as_bytes());
    let reported = catalog.problems.iter().any(|problem| problem.code == "skip-range-invalid");
    assert_eq!(reported, range.is_err() && !first.is_empty(), "{first:?}: {:?}", catalog.problems);
});
