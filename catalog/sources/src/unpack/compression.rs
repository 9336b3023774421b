//! Detects gzip, zstd or plain by the first bytes, and bounds decompression.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use crate::{
    error::{Exceeded, SourceError},
    options::{Limits, RATIO_FREE_BYTES},
};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Magic of skippable frames, which may open a zstd stream, after a first byte with any low half.
const ZSTD_SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const BZIP2: &[u8] = b"BZh";

/// The content of a file of `compressed` bytes. Reading fails where it unpacks to more than
/// `limits.compression_ratio` allows; [`SourceError::reading`] distinguishes that from damage.
pub(crate) fn decompress(
    what: &str,
    mut reader: impl Read + Send + 'static,
    compressed: u64,
    limits: &Limits,
) -> Result<Box<dyn Read + Send>, SourceError> {
    let mut magic = Vec::with_capacity(XZ.len());
    reader
        .by_ref()
        .take(XZ.len() as u64)
        .read_to_end(&mut magic)
        .map_err(|e| SourceError::reading(what, &e))?;
    let is_zstd = magic.starts_with(ZSTD)
        || magic.get(1..4) == Some(ZSTD_SKIPPABLE) && magic.first().is_some_and(|b| b >> 4 == 5);
    let (is_gzip, is_other) = (magic.starts_with(GZIP), magic.starts_with(XZ) || magic.starts_with(BZIP2));
    if is_other {
        return Err(SourceError::unsupported(
            what,
            "unsupported compression xz or bzip2, expected gzip, zstd or no compression",
        ));
    }
    let source = BufReader::with_capacity(64 << 10, Cursor::new(magic).chain(reader));
    let inner: Box<dyn Read + Send> = if is_gzip {
        Box::new(MultiGzDecoder::new(source))
    } else if is_zstd {
        Box::new(Zstd { source, decoder: FrameDecoder::new(), inside: false })
    } else {
        return Ok(Box::new(source));
    };
    let most = compressed.saturating_mul(limits.compression_ratio).max(RATIO_FREE_BYTES);
    let exceeded = Exceeded::new(
        format!("its content, {most} bytes unpacked from {compressed},"),
        "compression_ratio",
        limits.compression_ratio,
    );
    Ok(Box::new(Bounded { inner, left: most, exceeded }))
}

/// A reader that fails at a limit, where `Take` would end the content.
struct Bounded<R> {
    inner: R,
    left: u64,
    exceeded: Exceeded,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        match self.left.checked_sub(n as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other(self.exceeded.clone())),
        }
        Ok(n)
    }
}

/// All frames of a zstd stream: `ruzstd` reads one, and leaves skippable ones to its user.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.inside {
                if self.source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.next_frame()?;
                continue;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
            let n = self.decoder.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                return Ok(n);
            }
            self.inside = false;
            let stored = self.decoder.get_checksum_from_data();
            if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "wrong checksum of a zstd frame"));
            }
        }
    }
}

impl<R: BufRead> Zstd<R> {
    fn next_frame(&mut self) -> io::Result<()> {
        match self.decoder.reset(&mut self.source) {
            Ok(()) => self.inside = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let length = u64::from(length);
                if io::copy(&mut self.source.by_ref().take(length), &mut io::sink())? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
        Ok(())
    }
}
