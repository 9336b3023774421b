//! Attacks on encrypted objects.

use proptest::prelude::*;

use super::super::credentials::SecretData;
use super::*;

fn keys(byte: u8) -> Keys {
    Keys::read("k", None, &SecretData::from([("key".to_owned(), vec![byte; 32])])).unwrap()
}

fn sealed(text: &[u8], piece: usize) -> Vec<u8> {
    let keys = keys(1);
    let mut sealer = Sealer::new(keys.current().unwrap()).unwrap();
    let mut out = Vec::new();
    for part in text.chunks(piece.max(1)) {
        out.extend(sealer.push(part).unwrap());
    }
    out.extend(sealer.finish().unwrap());
    out.concat()
}

fn opened(bytes: &[u8], keys: Option<&Keys>, piece: usize) -> Result<Vec<u8>, Failure> {
    let mut opener = Opener::new(keys.cloned().map(Arc::new));
    let mut out = Vec::new();
    for part in bytes.chunks(piece.max(1)) {
        out.extend(opener.push(&Bytes::copy_from_slice(part))?);
    }
    out.extend(opener.finish()?);
    Ok(out.concat())
}

fn text(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 31 % 251) as u8).collect()
}

#[test]
fn what_was_encrypted_comes_back_whatever_its_length() {
    for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 7] {
        let bytes = sealed(&text(length), 50_000);
        let chunks = length.div_ceil(CHUNK).max(1);
        assert_eq!(bytes.len(), HEADER + length + chunks * TAG, "{length}");
        assert_eq!(opened(&bytes, Some(&keys(1)), 70_001).unwrap(), text(length), "{length}");
    }
    // Equal plaintexts have different ciphertexts.
    assert_ne!(sealed(b"same", 9), sealed(b"same", 9));
}

#[test]
fn an_end_that_is_missing_is_noticed_wherever_it_was_cut() {
    let bytes = sealed(&text(3 * CHUNK), CHUNK);
    let whole = CHUNK + TAG;
    for left in [HEADER + 2 * whole, HEADER + whole, HEADER, HEADER - 1, MAGIC.len()] {
        let error = opened(&bytes[..left], Some(&keys(1)), CHUNK).unwrap_err();
        assert_eq!(error, Failure::Damaged(Damage::Unended(left as u64)), "{left}");
    }
    for left in [bytes.len() - 1, HEADER + whole + 100] {
        let error = opened(&bytes[..left], Some(&keys(1)), CHUNK).unwrap_err();
        assert!(matches!(error, Failure::Damaged(Damage::Changed(_))), "{left}: {error:?}");
    }
    let longer = [&bytes[..], b"more"].concat();
    assert!(matches!(opened(&longer, Some(&keys(1)), CHUNK), Err(Failure::Damaged(_))));
}

#[test]
fn chunks_that_are_moved_left_out_or_repeated_are_noticed() {
    let bytes = sealed(&text(4 * CHUNK), CHUNK);
    let (header, body) = bytes.split_at(HEADER);
    let chunks: Vec<&[u8]> = body.chunks(CHUNK + TAG).collect();
    let joined = |order: &[usize]| {
        let picked: Vec<u8> = order.iter().flat_map(|n| chunks[*n].to_vec()).collect();
        [header, &picked].concat()
    };
    assert!(opened(&joined(&[0, 1, 2, 3]), Some(&keys(1)), CHUNK).is_ok());
    for order in [&[1, 0, 2, 3][..], &[0, 2, 3], &[0, 1, 1, 2, 3], &[3], &[0, 1, 2, 3, 3]] {
        let error = opened(&joined(order), Some(&keys(1)), CHUNK).unwrap_err();
        assert!(matches!(error, Failure::Damaged(_)), "{order:?}: {error:?}");
    }
    // A chunk of another object under the same key.
    let other = sealed(&text(4 * CHUNK), CHUNK);
    let mixed = [&bytes[..HEADER + CHUNK + TAG], &other[HEADER + CHUNK + TAG..]].concat();
    assert!(matches!(opened(&mixed, Some(&keys(1)), CHUNK), Err(Failure::Damaged(Damage::Changed(_)))));
}

#[test]
fn a_key_that_is_missing_or_another_one_is_named() {
    let bytes = sealed(b"secret", 6);
    let name = keys(1).current().unwrap().name();
    let none = opened(&bytes, None, 100).unwrap_err().to_string();
    assert!(none.contains(&name) && none.contains("spec.encryption.secret"), "{none}");
    let wrong = opened(&bytes, Some(&keys(2)), 100).unwrap_err().to_string();
    assert!(
        wrong.contains(&name) && wrong.contains("Secret k has") && wrong.contains("(entry key)"),
        "{wrong}"
    );
    // Write access to the store must not decide what is restored: only encrypted objects are accepted.
    assert_eq!(opened(b"plain", Some(&keys(1)), 100), Err(Failure::Damaged(Damage::Plain)));
    assert_eq!(opened(b"plain", None, 2).unwrap(), b"plain");
    assert_eq!(opened(b"", None, 2).unwrap(), b"");
}

proptest! {
    #[test]
    fn how_it_is_cut_into_pieces_does_not_matter(length in 0usize..200_000, put in 1usize..100_000, take in 1usize..100_000) {
        prop_assert_eq!(opened(&sealed(&text(length), put), Some(&keys(1)), take).unwrap(), text(length));
    }

    #[test]
    fn any_changed_byte_is_noticed(at in 0usize..70_000, flip in 1u8..) {
        let mut bytes = sealed(&text(CHUNK + 5000), CHUNK);
        let at = at % bytes.len();
        bytes[at] ^= flip;
        prop_assert!(opened(&bytes, Some(&keys(1)), 4096).is_err());
    }
}
