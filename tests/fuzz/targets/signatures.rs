//! Any bytes are a signature or are not; none of them is one of the key, and verifying them never fails.

#![no_main]

use std::{collections::BTreeMap, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use olm_signatures::{Requirement, Signature, Verifier};

static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| {
    let requirement = Requirement {
        key: Some(include_str!("../../../catalog/signatures/tests/fixtures/other.pub").to_owned()),
        trusted_root: Some(include_str!("../../../catalog/signatures/tests/fixtures/root.json").to_owned()),
        identity: None,
    };
    Verifier::new(&requirement).expect("a key and a root")
});

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut parts = text.splitn(4, '@').map(str::to_owned);
    let payload = parts.next().unwrap_or_default().into_bytes();
    let names = [
        "dev.cosignproject.cosign/signature",
        "dev.sigstore.cosign/bundle",
        "dev.sigstore.cosign/rfc3161timestamp",
    ];
    let annotations: BTreeMap<String, String> = names.map(str::to_owned).into_iter().zip(parts).collect();
    let found = [Signature::Bundle { json: bytes.to_vec() }, Signature::Simple { payload, annotations }];
    assert!(VERIFIER.verify(&format!("sha256:{}", "0".repeat(64)), &found).is_err());
});
