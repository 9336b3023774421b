//! Header blocks of SPDY/3: zlib with a preset dictionary, one compression context for a whole session.

use std::collections::HashMap;

use miniz_oxide::inflate::{
    TINFLStatus,
    core::{DecompressorOxide, decompress, inflate_flags::TINFL_FLAG_HAS_MORE_INPUT},
};

use super::frame::Violation;

/// The dictionary of SPDY/3 (draft 3, section 2.6.10.1).
const DICTIONARY: &[u8] = include_bytes!("spdy3.dictionary");
/// Adler-32 of the dictionary, by which a zlib stream refers to it.
const DICTIONARY_ID: [u8; 4] = [0xe3, 0xc6, 0xa7, 0xc2];
/// Window of deflate: the longest distance of a reference.
const WINDOW: usize = 32 << 10;
/// Largest header block, decompressed: the three headers of a stream need less than 100 bytes.
const MAX_BLOCK: usize = 16 << 10;

/// Headers by their lower-case name.
pub(super) type Headers = HashMap<String, String>;

/// Decompresses the header blocks of a session, in the order in which they arrive.
pub(super) struct Inflater {
    state: Box<DecompressorOxide>,
    /// Recent output, as a ring buffer.
    window: Box<[u8]>,
    position: usize,
    started: bool,
}

impl Default for Inflater {
    fn default() -> Self {
        Self {
            state: Box::default(),
            window: vec![0; WINDOW].into_boxed_slice(),
            position: 0,
            started: false,
        }
    }
}

impl Inflater {
    pub(super) fn headers(&mut self, mut compressed: &[u8]) -> Result<Headers, Violation> {
        if !self.started {
            compressed = self.start(compressed)?;
        }
        parse(&self.inflate(compressed)?)
    }

    /// Reads the zlib header at the beginning of the first block.
    fn start<'a>(&mut self, compressed: &'a [u8]) -> Result<&'a [u8], Violation> {
        let [method, flags, rest @ ..] = compressed else { return Err(Violation::Compression) };
        let deflate = method & 0x0f == 8 && method >> 4 <= 7;
        if !deflate || u16::from_be_bytes([*method, *flags]) % 31 != 0 {
            return Err(Violation::Compression);
        }
        self.started = true;
        if flags & 0x20 == 0 {
            return Ok(rest);
        }
        let rest = rest.strip_prefix(&DICTIONARY_ID).ok_or(Violation::Compression)?;
        self.window[..DICTIONARY.len()].copy_from_slice(DICTIONARY);
        self.position = DICTIONARY.len();
        Ok(rest)
    }

    fn inflate(&mut self, mut compressed: &[u8]) -> Result<Vec<u8>, Violation> {
        let mut block = Vec::new();
        loop {
            let (status, read, written) = decompress(
                &mut self.state,
                compressed,
                &mut self.window,
                self.position,
                TINFL_FLAG_HAS_MORE_INPUT,
            );
            compressed = &compressed[read..];
            block.extend_from_slice(&self.window[self.position..self.position + written]);
            self.position = (self.position + written) % WINDOW;
            if block.len() > MAX_BLOCK {
                return Err(Violation::TooLong);
            }
            match status {
                TINFLStatus::NeedsMoreInput => return Ok(block),
                TINFLStatus::HasMoreOutput => {}
                _ => return Err(Violation::Compression),
            }
        }
    }
}

/// Number of headers, then each name and value with a length prefix.
fn parse(mut block: &[u8]) -> Result<Headers, Violation> {
    let mut headers = Headers::new();
    for _ in 0..number(&mut block)? {
        let (name, value) = (text(&mut block)?, text(&mut block)?);
        if headers.insert(name, value).is_some() {
            return Err(Violation::Headers);
        }
    }
    Ok(headers)
}

fn number(block: &mut &[u8]) -> Result<usize, Violation> {
    let (bytes, rest) = block.split_first_chunk::<4>().ok_or(Violation::Headers)?;
    *block = rest;
    usize::try_from(u32::from_be_bytes(*bytes)).map_err(|_| Violation::Headers)
}

fn text(block: &mut &[u8]) -> Result<String, Violation> {
    let length = number(block)?;
    let (bytes, rest) = block.split_at_checked(length).ok_or(Violation::Headers)?;
    *block = rest;
    String::from_utf8(bytes.to_vec()).map_err(|_| Violation::Headers)
}

/// Writes header blocks without headers, which suffice for replies of port forwarding. The blocks are stored
/// uncompressed; the empty block at the end is what a sync flush of zlib writes, and Go's inflater waits for
/// it.
#[derive(Default)]
pub(super) struct EmptyBlocks {
    started: bool,
}

impl EmptyBlocks {
    pub(super) fn next(&mut self) -> &'static [u8] {
        const FIRST: &[u8] = &[0x78, 0x01, 0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        if std::mem::replace(&mut self.started, true) { &FIRST[2..] } else { FIRST }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Header blocks of a client, stored uncompressed.
    #[derive(Default)]
    pub(in crate::portforward) struct StoredBlocks {
        started: bool,
    }

    impl StoredBlocks {
        pub(in crate::portforward) fn block(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
            let mut plain = Vec::from(u32::try_from(headers.len()).unwrap().to_be_bytes());
            for text in headers.iter().flat_map(|(name, value)| [name, value]) {
                plain.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
                plain.extend(text.as_bytes());
            }
            let mut block = Vec::new();
            if !std::mem::replace(&mut self.started, true) {
                block.extend([0x78, 0xbb]);
                block.extend(DICTIONARY_ID);
            }
            let length = u16::try_from(plain.len()).unwrap();
            block.push(0);
            block.extend(length.to_le_bytes());
            block.extend((!length).to_le_bytes());
            block.extend(plain);
            block.extend([0, 0, 0, 0xff, 0xff]);
            block
        }
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    fn three(port: &str, request: &str, kind: &str) -> Headers {
        [("port", port), ("requestid", request), ("streamtype", kind)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn the_dictionary_is_that_of_spdy_3() {
        let (mut low, mut high) = (1_u32, 0_u32);
        for byte in DICTIONARY {
            low = (low + u32::from(*byte)) % 65_521;
            high = (high + low) % 65_521;
        }
        assert_eq!((high << 16 | low).to_be_bytes(), DICTIONARY_ID);
    }

    #[test]
    fn blocks_of_zlib_are_read_in_one_context() {
        // given the output of zlib at level 9 with the dictionary and a sync flush after each block
        let first = hex(
            "78f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45e01c6061606100a4398b20d198094ade8c0600000000ffff",
        );
        let second = hex("c2aa19540e2512d60b000000ffff");
        let mut inflater = Inflater::default();
        // then the second block, which refers to the first one, is read too
        assert_eq!(inflater.headers(&first), Ok(three("8080", "0", "error")));
        assert_eq!(inflater.headers(&second), Ok(three("8080", "0", "data")));
    }

    #[test]
    fn a_client_without_the_dictionary_is_understood() {
        let mut inflater = Inflater::default();
        assert_eq!(inflater.headers(EmptyBlocks::default().next()), Ok(Headers::new()));
    }

    #[test]
    fn blocks_that_grow_beyond_the_limit_are_refused() {
        // given blocks of 1,000 bytes, more than the window holds in total
        let mut inflater = Inflater::default();
        let mut blocks = StoredBlocks::default();
        let value = "x".repeat(1000);
        for _ in 0..100 {
            let headers = inflater.headers(&blocks.block(&[("a", &value)])).unwrap();
            assert_eq!(headers["a"], value);
        }
        // when one is too large, then it is refused
        let value = "x".repeat(MAX_BLOCK);
        assert_eq!(inflater.headers(&blocks.block(&[("a", &value)])), Err(Violation::TooLong));
    }

    #[test]
    fn lengths_beyond_the_end_are_refused() {
        for block in [&[][..], &[0, 0, 0, 1], &[0xff; 12], &[0, 0, 0, 1, 0, 0, 0, 9, b'a']] {
            assert_eq!(parse(block), Err(Violation::Headers), "{block:?}");
        }
    }
}
