//! Compression of similar texts with a shared dictionary: parts in common with an earlier text are not stored
//! again.

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

/// Size of the dictionary. Packing a text searches all of it, which takes some ten microseconds.
const LEARNT: usize = 12 << 10;
/// A text that compresses to less than a third is similar to a known one, and is not added to the dictionary.
const ALIKE: usize = 3;

/// A dictionary of typical texts.
#[derive(Debug, Default)]
pub(super) struct Compressor {
    /// Append-only: a packed text is opened with the length of the dictionary at that time.
    learnt: Vec<u8>,
}

/// A text packed by a [`Compressor`].
#[derive(Debug)]
pub(super) struct Packed {
    bytes: Box<[u8]>,
    size: u32,
    /// Length of the dictionary when it was packed.
    learnt: u32,
}

impl Compressor {
    /// `None` for a text that is too large.
    pub(super) fn pack(&mut self, text: &[u8]) -> Option<Packed> {
        let (size, learnt) = (u32::try_from(text.len()).ok()?, u32::try_from(self.learnt.len()).ok()?);
        let bytes = compress_with_dict(text, &self.learnt).into_boxed_slice();
        let is_new = bytes.len() > text.len() / ALIKE;
        if is_new && self.learnt.len() + text.len() <= LEARNT {
            self.learnt.extend_from_slice(text);
        }
        Some(Packed { bytes, size, learnt })
    }

    /// Opens a text that was packed here, to its original size. `None` for the text of another compressor.
    pub(super) fn open(&self, packed: &Packed) -> Option<Vec<u8>> {
        let learnt = self.learnt.get(..usize::try_from(packed.learnt).ok()?)?;
        decompress_with_dict(&packed.bytes, usize::try_from(packed.size).ok()?, learnt).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_like_another_is_a_fraction_of_it_and_nothing_is_lost() {
        let text = |n: usize| {
            format!(
                r#"[{{"name":"etcd.v0.9.{n}","namespace":"tenant-{n:05}","uid":"6a{n:030}","labels":{{"operators.coreos.com/etcd.tenant-{n:05}":""}}}},{{"phase":"Succeeded","message":"install strategy completed with no errors","reason":"InstallSucceeded"}}]"#
            )
        };
        let mut compressor = Compressor::default();
        let packed: Vec<Packed> =
            (0..100).map(|n| compressor.pack(text(n).as_bytes()).expect("it is small")).collect();
        for (n, packed) in packed.iter().enumerate() {
            assert_eq!(compressor.open(packed).as_deref(), Some(text(n).as_bytes()));
        }
        assert!(packed.iter().skip(1).all(|packed| packed.bytes.len() < text(0).len() / 2));
        assert_eq!(compressor.learnt.len(), text(0).len());
        // text of another compressor is not opened
        assert!(
            packed.iter().all(|packed| packed.learnt == 0 || Compressor::default().open(packed).is_none())
        );
    }

    proptest! {
        #[test]
        fn any_texts_are_what_they_were(texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9_000), 0..8)) {
            let mut compressor = Compressor::default();
            let packed: Vec<Packed> = texts.iter().filter_map(|text| compressor.pack(text)).collect();
            let opened: Vec<Vec<u8>> = packed.iter().filter_map(|packed| compressor.open(packed)).collect();
            prop_assert_eq!(opened, texts);
            prop_assert!(compressor.learnt.len() <= LEARNT);
        }
    }
}
