//! Verification of one signature, without network: the fixtures of the crate, created by cosign.

use std::{collections::BTreeMap, time::Instant};

use anyhow::Result;
use olm_signatures::{Identity, Requirement, Signature, Verifier};
use serde::Deserialize;

use super::table::Row;

/// Number of verifications; the mean counts.
const TURNS: u32 = 100;

#[derive(Deserialize)]
struct Fixture {
    image: String,
    simple: Vec<Simple>,
    bundles: Vec<String>,
}

#[derive(Deserialize)]
struct Simple {
    payload: String,
    annotations: BTreeMap<String, String>,
}

pub(crate) fn rows() -> Result<Vec<Row>> {
    let text = |name: &str| {
        std::fs::read_to_string(olm_tests::root().join("catalog/signatures/tests/fixtures").join(name))
    };
    let root = text("root.json")?;
    let key = Requirement { key: Some(text("key.pub")?), ..Requirement::default() };
    let logged = Requirement { trusted_root: Some(root.clone()), ..key.clone() };
    let any = || Some("https://.+".to_owned());
    let identity = Identity { issuer_regexp: any(), subject_regexp: any(), ..Identity::default() };
    let identity = Requirement { identity: Some(identity), trusted_root: Some(root), key: None };
    let mut milliseconds = Vec::new();
    for (name, requirement) in [
        ("old-key", &key),
        ("new-key", &key),
        ("old-key-log", &logged),
        ("old-keyless", &identity),
        ("new-keyless", &identity),
        ("new-keyless-v2", &identity),
    ] {
        let fixture: Fixture = serde_json::from_str(&text(&format!("{name}.json"))?)?;
        let simple = fixture.simple.into_iter().map(|Simple { payload, annotations }| Signature::Simple {
            payload: payload.into_bytes(),
            annotations,
        });
        let bundles = fixture.bundles.into_iter().map(|json| Signature::Bundle { json: json.into_bytes() });
        let found: Vec<Signature> = simple.chain(bundles).collect();
        let verifier = Verifier::new(requirement)?;
        let start = Instant::now();
        for _ in 0..TURNS {
            verifier.verify(&fixture.image, &found)?;
        }
        milliseconds.push((name, start.elapsed().as_secs_f64() * 1000.0 / f64::from(TURNS)));
    }
    let slowest = milliseconds.iter().map(|(_, time)| *time).fold(0.0, f64::max);
    let each: Vec<String> = milliseconds.iter().map(|(name, time)| format!("{name} {time:.1}")).collect();
    Ok(vec![Row {
        what: "verification of one signature, the slowest kind",
        measured: slowest,
        limit: 5.0,
        unit: "ms",
        note: format!("without network; mean of {TURNS}: {}", each.join(", ")),
    }])
}
