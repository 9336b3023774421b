//! Changed signatures, and malformed input.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Every text, number and member of a document, as pointers.
fn leaves(value: &Value, at: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            leaves(member, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), into);
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| leaves(item, &format!("{at}/{n}"), into));
        }
        _ => into.push(at.to_owned()),
    }
}

/// The same text with one character changed, so that it stays base64, a number or a name.
fn changed(text: &str, at: usize) -> String {
    let mut bytes = text.as_bytes().to_vec();
    if bytes.is_empty() {
        return "A".to_owned();
    }
    let at = at % bytes.len();
    bytes[at] = match bytes[at] {
        b'A' => b'B',
        b'0'..=b'8' => bytes[at] + 1,
        b'9' => b'0',
        b'=' => b'=',
        _ => b'A',
    };
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parts of a bundle that may change without a change of the signed content: hints, and for Rekor 2 copies
/// from the signed checkpoint.
const HINTS: [&str; 6] = [
    "/hint",
    "/keyid",
    "/logId/keyId",
    "/inclusionProof/logIndex",
    "/inclusionProof/treeSize",
    "/inclusionProof/rootHash",
];

fn no_change_of_a_bundle_counts(name: &str, requirement: &Requirement, hints: &[&str]) {
    let verifier = Verifier::new(requirement).unwrap();
    let bundle: Value = serde_json::from_str(&fixture(name).bundles[0]).unwrap();
    let mut pointers = Vec::new();
    leaves(&bundle, "", &mut pointers);
    for pointer in pointers {
        if hints.iter().any(|hint| pointer.ends_with(hint)) {
            continue;
        }
        for at in [0, 3, 7, 20, 50, 77, 100, 333, 500] {
            let mut changed_bundle = bundle.clone();
            let leaf = changed_bundle.pointer_mut(&pointer).unwrap();
            let before = leaf.clone();
            *leaf = match &before {
                Value::String(text) => Value::String(changed(text, at)),
                other => Value::String(other.to_string() + "1"),
            };
            if *leaf == before {
                continue;
            }
            let found = [Signature::Bundle { json: changed_bundle.to_string().into_bytes() }];
            let answer = verifier.verify(&image(), &found);
            assert!(answer.is_err(), "{name}: {pointer} changed at {at} still counts: {answer:?}");
        }
    }
}

#[test]
fn t22_a_bundle_that_was_changed_anywhere_is_refused() {
    no_change_of_a_bundle_counts("new-key", &key("key.pub"), &HINTS);
    no_change_of_a_bundle_counts("new-key-log", &logged("key.pub"), &HINTS[..2]);
    no_change_of_a_bundle_counts("new-keyless", &by(identity()), &HINTS[..2]);
    no_change_of_a_bundle_counts("new-keyless-v2", &by(identity()), &HINTS);
}

#[test]
fn t22_a_simple_signature_that_was_changed_anywhere_is_refused() {
    for (name, requirement) in [
        ("old-key", key("key.pub")),
        ("old-rsa", key("rsa.pub")),
        ("old-key-log", logged("key.pub")),
        ("old-keyless", by(identity())),
    ] {
        let verifier = Verifier::new(&requirement).unwrap();
        let good = fixture(name);
        for at in 0..good.simple[0].payload.len() {
            let mut bad = good.clone();
            bad.simple[0].payload = changed(&good.simple[0].payload, at);
            assert!(verifier.verify(&image(), &bad.signatures()).is_err(), "{name}: payload at {at}");
        }
        for (annotation, text) in &good.simple[0].annotations {
            if text.is_empty() || (annotation.ends_with("/bundle") && requirement.trusted_root.is_none()) {
                continue;
            }
            for at in (0..text.len()).step_by(text.len() / 40 + 1) {
                let mut bad = good.clone();
                let other = changed(text, at);
                let same = other == *text;
                bad.simple[0].annotations.insert(annotation.clone(), other);
                let answer = verifier.verify(&image(), &bad.signatures());
                assert!(same || answer.is_err(), "{name}: {annotation} at {at}: {answer:?}");
            }
        }
    }
}

#[test]
fn t22_a_signature_of_any_size_and_any_number_of_them_is_refused_quickly() {
    let verifier = Verifier::new(&by(identity())).unwrap();
    let large = Signature::Bundle { json: vec![b'['; crate::MOST_BYTES + 1] };
    assert_eq!(verifier.verify(&image(), &[large]).unwrap_err().reason, Reason::Malformed);
    // Nested as deep as the size allows.
    let deep = Signature::Bundle { json: vec![b'['; crate::MOST_BYTES] };
    assert_eq!(verifier.verify(&image(), &[deep]).unwrap_err().reason, Reason::Malformed);
    let many: Vec<Signature> =
        std::iter::repeat_n(fixture("new-evil").signatures(), 1000).flatten().collect();
    let refused = verifier.verify(&image(), &many).unwrap_err();
    assert_eq!(refused.refusals.len(), crate::MOST_SIGNATURES + 1);
    assert!(refused.refusals.iter().all(|refusal| refusal.message.chars().count() <= 501));
}

proptest! {
    #[test]
    fn t22_no_input_is_signed_and_none_panics(
        json in proptest::collection::vec(any::<u8>(), 0..400),
        payload in ".{0,200}",
        annotations in proptest::collection::btree_map(
            proptest::sample::select(vec![
                "dev.cosignproject.cosign/signature", "dev.sigstore.cosign/certificate",
                "dev.sigstore.cosign/chain", "dev.sigstore.cosign/bundle",
                "dev.sigstore.cosign/rfc3161timestamp",
            ]).prop_map(str::to_owned),
            ".{0,200}", 0..5),
    ) {
        let found = [
            Signature::Bundle { json },
            Signature::Simple { payload: payload.into_bytes(), annotations },
        ];
        for requirement in [key("key.pub"), logged("key.pub"), by(identity())] {
            prop_assert!(verify(&requirement, &found).is_err());
        }
    }

    #[test]
    fn t22_bytes_changed_at_random_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        shorten in any::<bool>(),
    ) {
        let mut json = fixture("new-keyless-v2").bundles[0].clone().into_bytes();
        for (at, byte) in changes {
            let at = at.index(json.len());
            json[at] = byte;
        }
        if shorten {
            json.truncate(cut.index(json.len()));
        }
        // Either an irrelevant change, or a rejection; a panic fails the test.
        _ = verify(&by(identity()), &[Signature::Bundle { json }]);
    }
}
